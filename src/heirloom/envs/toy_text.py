"""Families of related tasks made from Gymnasium's FrozenLake, Taxi and CliffWalking.

Each task is read from Gymnasium's own transition table, with a few probabilities, rewards or
successors changed.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium as gym
from gymnasium.envs.toy_text.frozen_lake import MAPS

from heirloom.envs.family import FiniteFamily
from heirloom.errors import InvalidArgument
from heirloom.mdp.available import MaskNotice
from heirloom.mdp.tabular import TabularMDP
from heirloom.validation import probability, real_number, shown

Outcome = tuple[float, int, float, bool]
Cell = tuple[int, int]

FROZEN = tuple(MAPS["8x8"])
THAWED = (*FROZEN[:5], "FHFFFFHF", *FROZEN[6:])  # without the hole in row 5, column 2, from 0

CLIFF_DOWN = 2
N_PASSENGERS, N_DESTINATIONS, N_COLUMNS = 5, 4, 5  # of Taxi; 5 locations of the passenger


def frozen_lake(
    cells: Sequence[str] = FROZEN, *, slip: float = 2 / 3, prize: float = 1.0, gamma: float = 0.95
) -> TabularMDP:
    """Build the task of FrozenLake-v1 on a map of `S`, `F`, `H` and `G`.

    Args:
        cells: the map, one string per row.
        slip: the probability of slipping to one of the two sides; 2/3 in Gymnasium.
        prize: the reward of the goal, from 0 to 1.
        gamma: the discount factor.
    """
    slip, prize = probability("slip", slip), probability("prize", prize)
    _check_lake(cells)
    env = gym.make(
        "FrozenLake-v1", desc=list(cells), success_rate=1 - slip, reward_schedule=(prize, 0, 0)
    )
    return TabularMDP.from_gymnasium(env, gamma=gamma, reward_range=(0.0, 1.0))


def frozen_lakes(*, gamma: float = 0.95) -> FiniteFamily:
    """FrozenLake 8x8: two maps that differ in one hole, each with two slip probabilities."""
    tasks = {
        f"{name}, slip {slip}": frozen_lake(cells, slip=slip, gamma=gamma)
        for name, cells in (("frozen", FROZEN), ("thawed", THAWED))
        for slip in (0.1, 0.15)
    }
    return FiniteFamily(tasks, v_max=1.0)  # the goal pays at most 1 and is terminal


def taxi(
    *,
    rain: float = 0.0,
    fare: float = 20.0,
    blocked: Iterable[tuple[Cell, Cell]] = (),
    gamma: float = 0.95,
) -> TabularMDP:
    """Build the task of Taxi-v4.

    A step costs 1, an illegal pick-up or drop-off costs 10, and delivering the passenger pays the
    fare.

    Args:
        rain: the probability that a move goes to one of the two sides.
        fare: the reward for delivering the passenger, from 0 to 20.
        blocked: closed roads, as pairs of neighbouring cells ((row, column), (row, column)).
        gamma: the discount factor.
    """
    rain = probability("rain", rain)
    fare = real_number("fare", fare, "expected a number from 0 to 20", least=0, most=20)
    env = gym.make("Taxi-v4", is_rainy=rain > 0, rainy_probability=1 - rain)
    closed = _closed_roads(blocked)

    def change(s: int, outcome: Outcome) -> Outcome:
        p, successor, reward, terminated = outcome
        if frozenset((_taxi_cell(s), _taxi_cell(successor))) in closed:
            successor = s
        return p, successor, fare if terminated else reward, terminated

    return _task_with_changed_outcomes(env, change, gamma=gamma, reward_range=(-10.0, 20.0))


def taxis(*, gamma: float = 0.95) -> FiniteFamily:
    """Taxi with the standard or a lower fare, each with all roads open or with one road closed."""
    closed = [((2, 2), (3, 2))]
    tasks = {
        "ordinary": taxi(gamma=gamma),
        "cheap": taxi(fare=18.0, gamma=gamma),
        "closed road": taxi(blocked=closed, gamma=gamma),
        "cheap, closed road": taxi(fare=18.0, blocked=closed, gamma=gamma),
    }
    return FiniteFamily(tasks, v_max=20.0)  # only a delivery pays, and it is terminal


def cliff_walking(*, wind: float = 0.0, fall: float = 100.0, gamma: float = 0.95) -> TabularMDP:
    """Build the task of CliffWalking-v1: a step costs 1, and falling off the cliff costs `fall`.

    Args:
        wind: the probability of moving one step down, towards the cliff, whatever the action.
        fall: the cost of a fall, from 1 to 100.
        gamma: the discount factor.
    """
    wind = probability("wind", wind)
    fall = real_number("fall", fall, "expected a cost from 1 to 100", least=1, most=100)
    env = gym.make("CliffWalking-v1")
    table = env.unwrapped.P  # type: ignore[attr-defined]
    with_wind = {
        s: {
            a: [
                *((p * (1 - wind), *rest) for p, *rest in outcomes),
                *((p * wind, *rest) for p, *rest in actions[CLIFF_DOWN]),
            ]
            for a, outcomes in actions.items()
        }
        for s, actions in table.items()
    }
    env.unwrapped.P = with_wind  # type: ignore[attr-defined]

    def change(s: int, outcome: Outcome) -> Outcome:
        p, successor, reward, terminated = outcome
        return p, successor, -fall if reward < -1 else reward, terminated

    return _task_with_changed_outcomes(env, change, gamma=gamma, reward_range=(-100.0, -1.0))


def cliffs(*, gamma: float = 0.95) -> FiniteFamily:
    """CliffWalking with and without wind, each with two costs of falling off the cliff."""
    tasks = {
        f"wind {wind}, fall {fall:.0f}": cliff_walking(wind=wind, fall=fall, gamma=gamma)
        for wind in (0.0, 0.1)
        for fall in (100.0, 50.0)
    }
    return FiniteFamily(tasks)


def _task_with_changed_outcomes(
    env: gym.Env[Any, Any], change: Callable[[int, Outcome], Outcome], **options: Any
) -> TabularMDP:
    """Build the task of an environment after applying `change(s, outcome)` to every outcome."""
    unwrapped: Any = env.unwrapped
    unwrapped.P = {
        s: {a: [change(s, outcome) for outcome in outcomes] for a, outcomes in actions.items()}
        for s, actions in unwrapped.P.items()
    }
    with MaskNotice.silent():  # the masks of Taxi exclude actions that exist and do nothing
        return TabularMDP.from_gymnasium(env, **options)


def _taxi_cell(s: int) -> Cell:
    """Return the row and the column of the taxi in state `s`."""
    cell = s // (N_PASSENGERS * N_DESTINATIONS)
    return cell // N_COLUMNS, cell % N_COLUMNS


def _closed_roads(blocked: Iterable[tuple[Cell, Cell]]) -> set[frozenset[Cell]]:
    """Return `blocked` as a set of pairs of cells; raise `InvalidArgument` if one is not a road."""
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
            cells = frozenset((row, column) for row, column in road)
        except (TypeError, ValueError):
            cells = frozenset()
        if len(cells) != 2 or cells not in roads:
            raise InvalidArgument(
                f"blocked contains {shown(road)}: expected two neighbouring cells of the 5x5 map "
                "without a wall between them, as in ((2, 2), (3, 2))"
            )
        closed.add(cells)
    return closed


def _check_lake(cells: Sequence[str]) -> None:
    """Raise `InvalidArgument` unless `cells` is a valid map of FrozenLake."""
    rows = list(cells) if isinstance(cells, list | tuple) else []
    if not rows or not all(isinstance(row, str) and len(row) == len(rows[0]) > 0 for row in rows):
        raise InvalidArgument(
            f"the map is {shown(cells)}: expected a list of strings of the same length, one per row"
        )
    letters = "".join(rows)
    for letter in letters:
        if letter not in "SFHG":
            raise InvalidArgument(
                f"the map contains {letter!r}: expected `S` (start), `F` (ice), `H` (hole) or "
                "`G` (goal)"
            )
    if "S" not in letters:
        raise InvalidArgument("the map has no start: mark one or more cells with `S`")
