"""Gymnasium's FrozenLake, Taxi and CliffWalking as families of related tasks.

Each task is read from Gymnasium's own transition table, with one or the other number changed.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium as gym

from heirloom.envs.family import FiniteFamily
from heirloom.errors import InvalidArgument
from heirloom.mdp.tabular import TabularMDP
from heirloom.validation import probability, real_number

Outcome = tuple[float, int, float, bool]
Cell = tuple[int, int]

# The map "8x8" of Gymnasium with a hole more or less, and in other places.
THAWED = (
    "SFFFFFFF",
    "FFFFFFFF",
    "FFFHFFFF",
    "FFFFFHFF",
    "FFFHFFFF",
    "FHFFFFHF",
    "FHFFHFHF",
    "FFFHFFFG",
)
FROZEN = (
    "SFFFFFFF",
    "FFFFFFFF",
    "FFFHFFFF",
    "FFFFFHFF",
    "FFFHFFFF",
    "FHHFFFHF",
    "FHFFHFHF",
    "FFFHFFFG",
)

CLIFF_DOWN = 2
N_PASSENGERS, N_DESTINATIONS, N_COLUMNS = 5, 4, 5  # Taxi's


def frozen_lake(
    cells: Sequence[str] = FROZEN, *, slip: float = 2 / 3, prize: float = 1.0, gamma: float = 0.95
) -> TabularMDP:
    """FrozenLake-v1 on a map of `S`, `F`, `H` and `G`.

    Args:
        cells: the map, one string a row.
        slip: the probability of slipping to one of the two sides; 2/3 in Gymnasium.
        prize: what the goal pays, from 0 to 1.
        gamma: the discount factor.
    """
    slip, prize = probability("slip", slip), probability("prize", prize)
    _check_lake(cells)
    env = gym.make(
        "FrozenLake-v1", desc=list(cells), success_rate=1 - slip, reward_schedule=(prize, 0, 0)
    )
    return TabularMDP.from_gymnasium(env, gamma=gamma, reward_range=(0.0, 1.0))


def frozen_lakes(*, gamma: float = 0.95) -> FiniteFamily:
    """FrozenLake 8x8 on two maps, on a dry and on a wet day; no value is above 1."""
    tasks = {
        f"{name}, slip {slip}": frozen_lake(cells, slip=slip, gamma=gamma)
        for name, cells in (("frozen", FROZEN), ("thawed", THAWED))
        for slip in (0.1, 0.15)
    }
    return FiniteFamily(tasks, v_max=1.0)


def taxi(
    *,
    rain: float = 0.0,
    fare: float = 20.0,
    blocked: Iterable[tuple[Cell, Cell]] = (),
    gamma: float = 0.95,
) -> TabularMDP:
    """Taxi-v4: a step costs 1, a wrong stop 10, and taking the passenger there earns the fare.

    Args:
        rain: the probability that a move goes to one of the two sides.
        fare: what a ride pays, from 0 to 20.
        blocked: roads between neighbouring cells ((row, column), (row, column)) that are closed.
        gamma: the discount factor.
    """
    rain = probability("rain", rain)
    fare = real_number("fare", fare, "a fare is a number from 0 to 20", least=0)
    if fare > 20:
        raise InvalidArgument(f"fare is {fare}: a fare is a number from 0 to 20")
    env = gym.make("Taxi-v4", is_rainy=rain > 0, rainy_probability=1 - rain)
    closed = _closed_roads(blocked)

    def changed(s: int, outcome: Outcome) -> Outcome:
        p, successor, reward, ended = outcome
        if frozenset((_taxi_cell(s), _taxi_cell(successor))) in closed:
            successor = s
        return p, successor, fare if ended else reward, ended

    return _changed(env, changed, gamma=gamma, reward_range=(-10.0, 20.0))


def taxis(*, gamma: float = 0.95) -> FiniteFamily:
    """Taxi on an ordinary day, with a lower fare, and with a road closed; no value is above 20."""
    closed = [((2, 2), (3, 2))]
    tasks = {
        "ordinary": taxi(gamma=gamma),
        "cheap": taxi(fare=18.0, gamma=gamma),
        "closed road": taxi(blocked=closed, gamma=gamma),
        "cheap, closed road": taxi(fare=18.0, blocked=closed, gamma=gamma),
    }
    return FiniteFamily(tasks, v_max=20.0)


def cliff_walking(*, wind: float = 0.0, fall: float = 100.0, gamma: float = 0.95) -> TabularMDP:
    """CliffWalking-v1: a step costs 1, and falling off the cliff more.

    Args:
        wind: the probability of being blown one step down, towards the cliff, whatever one does.
        fall: what a fall costs, from 1 to 100.
        gamma: the discount factor.
    """
    wind = probability("wind", wind)
    fall = real_number("fall", fall, "the cost of a fall is a number from 1 to 100", least=1)
    if fall > 100:
        raise InvalidArgument(f"fall is {fall}: the cost of a fall is a number from 1 to 100")
    env = gym.make("CliffWalking-v1")
    table = env.unwrapped.P  # type: ignore[attr-defined]
    blown = {
        s: {
            a: [
                *((p * (1 - wind), *rest) for p, *rest in outcomes),
                *((p * wind, *rest) for p, *rest in actions[CLIFF_DOWN]),
            ]
            for a, outcomes in actions.items()
        }
        for s, actions in table.items()
    }
    env.unwrapped.P = blown  # type: ignore[attr-defined]

    def changed(s: int, outcome: Outcome) -> Outcome:
        p, successor, reward, ended = outcome
        return p, successor, -fall if reward < -1 else reward, ended

    return _changed(env, changed, gamma=gamma, reward_range=(-100.0, -1.0))


def cliffs(*, gamma: float = 0.95) -> FiniteFamily:
    """CliffWalking in still air and in wind, with a deep cliff and a shallow one."""
    tasks = {
        f"wind {wind}, fall {fall:.0f}": cliff_walking(wind=wind, fall=fall, gamma=gamma)
        for wind in (0.0, 0.1)
        for fall in (100.0, 50.0)
    }
    return FiniteFamily(tasks)


def _changed(
    env: gym.Env[Any, Any], change: Callable[[int, Outcome], Outcome], **options: Any
) -> TabularMDP:
    """The task of an environment, each of whose outcomes was changed."""
    unwrapped: Any = env.unwrapped
    unwrapped.P = {
        s: {a: [change(s, outcome) for outcome in outcomes] for a, outcomes in actions.items()}
        for s, actions in unwrapped.P.items()
    }
    return TabularMDP.from_gymnasium(env, **options)


def _taxi_cell(s: int) -> Cell:
    cell = s // (N_PASSENGERS * N_DESTINATIONS)
    return cell // N_COLUMNS, cell % N_COLUMNS


def _closed_roads(blocked: Iterable[tuple[Cell, Cell]]) -> set[frozenset[Cell]]:
    """Pairs of cells between which there is a road that is closed now."""
    table = gym.make("Taxi-v4").unwrapped.P  # type: ignore[attr-defined]
    roads = {
        frozenset((_taxi_cell(s), _taxi_cell(successor)))
        for s, actions in table.items()
        for outcomes in actions.values()
        for _, successor, _, _ in outcomes
    }
    closed = set()
    for road in blocked if isinstance(blocked, Iterable) else [blocked]:
        try:
            ends = frozenset((row, column) for row, column in road)
        except (TypeError, ValueError):
            ends = frozenset()
        if len(ends) != 2 or ends not in roads:
            raise InvalidArgument(
                f"the road {road!r} is not there: a road joins two neighbouring cells of the 5x5 "
                "map without a wall between them, as in ((2, 2), (3, 2))"
            )
        closed.add(ends)
    return closed


def _check_lake(cells: Sequence[str]) -> None:
    """Raise `InvalidArgument` unless this is a map of FrozenLake."""
    rows = list(cells) if isinstance(cells, list | tuple) else []
    if not rows or not all(isinstance(row, str) and len(row) == len(rows[0]) > 0 for row in rows):
        raise InvalidArgument(
            f"the map is {cells!r}: it is a list of strings of the same length, one a row"
        )
    letters = "".join(rows)
    for letter in letters:
        if letter not in "SFHG":
            raise InvalidArgument(
                f"the map holds {letter!r}: `S` is the start, `F` ice, `H` a hole, `G` the goal"
            )
    if "S" not in letters:
        raise InvalidArgument("the map has no start: put an `S` into it")
