"""Inventory control: how much to order, day by day, when demand is random.

The state is the stock in the evening, the action is what to order for the next morning. During the
day customers come; what they take is gone, what they do not find is lost to another shop. Rewards
are costs with a minus: of the goods, of storing what is left, of each customer who leaves without.
"""

import math

import numpy as np

from heirloom.arrays import FloatArray
from heirloom.envs.family import FiniteFamily
from heirloom.errors import InvalidArgument
from heirloom.mdp.tabular import TabularMDP
from heirloom.mdp.transitions import Outcomes, collect
from heirloom.validation import Range, real_number, whole_number

BUSIEST = 30  # no day has more customers


def inventory(
    *,
    demand: float,
    goods: float = 1.0,
    storing: float = 0.1,
    losing: float = 3.0,
    capacity: int = 10,
    most_ordered: int = 5,
    gamma: float = 0.8,
    reward_range: Range | None = None,
) -> TabularMDP:
    """The task of a season. It never ends, and starts with an empty store.

    Args:
        demand: the mean number of customers a day, of a Poisson distribution cut off at 30.
        goods: what a piece costs.
        storing: what storing a piece overnight costs.
        losing: what a customer costs who leaves without.
        capacity: how many pieces the store holds; what is ordered beyond is neither sent nor paid.
        most_ordered: how many pieces can be ordered at once.
        gamma: the discount factor; what an order changes is sold within days.
        reward_range: what the rewards of all seasons lie in; from those of this one to 0 if not
            given.
    """
    costs = (
        _cost("goods", goods),
        _cost("storing", storing),
        _cost("losing", losing),
    )
    capacity = whole_number("capacity", capacity)
    most_ordered = whole_number("most_ordered", most_ordered)
    p = _customers(demand)
    n_actions = most_ordered + 1
    rows = [
        outcome
        for s in range(capacity + 1)
        for a in range(n_actions)
        for outcome in _evenings(s, min(s + a, capacity), p, costs, s * n_actions + a)
    ]
    pairs, successors, probabilities, rewards = (
        np.array(column) for column in zip(*rows, strict=True)
    )
    outcomes = Outcomes(
        pairs=pairs,
        successors=successors,
        p=probabilities,
        rewards=rewards,
        ends=np.zeros(pairs.size, dtype=bool),
    )
    return TabularMDP.from_transitions(
        collect(outcomes, capacity + 1, n_actions),
        gamma=gamma,
        start=0,
        reward_range=(float(rewards.min()), 0.0) if reward_range is None else reward_range,
        state_names=[f"{s} in store" for s in range(capacity + 1)],
        action_names=[f"order {a}" for a in range(n_actions)],
    )


def prices(*, gamma: float = 0.8) -> FiniteFamily:
    """Four seasons with the same customers: goods and storing become dearer and cheaper again."""
    return _family(
        {
            f"goods at {goods}, storing at {storing}": {
                "demand": 3.0,
                "goods": goods,
                "storing": storing,
            }
            for goods in (1.0, 1.05)
            for storing in (0.1, 0.12)
        },
        gamma,
    )


def seasons(*, gamma: float = 0.8) -> FiniteFamily:
    """Four seasons with more or fewer customers, and goods that are dearer or cheaper."""
    return _family(
        {
            f"{name}, goods at {goods}": {"demand": demand, "goods": goods}
            for name, demand in (("quiet", 2.0), ("busy", 4.0))
            for goods in (1.0, 1.2)
        },
        gamma,
    )


def _family(options: dict[str, dict[str, float]], gamma: float) -> FiniteFamily:
    """Seasons with one range of rewards, as wide as the widest of them."""

    def season(one: dict[str, float], reward_range: Range | None) -> TabularMDP:
        return inventory(**one, gamma=gamma, reward_range=reward_range)  # type: ignore[arg-type]

    widest = min(season(one, None).reward_range for one in options.values())
    return FiniteFamily({name: season(one, widest) for name, one in options.items()})


def _cost(name: str, value: float) -> float:
    return real_number(name, value, "a cost is a number from 0 up", least=0)


def _customers(demand: float) -> FloatArray:
    """The probabilities of 0, 1, ... customers a day."""
    what = f"the mean number of customers is above 0, and at most {BUSIEST}"
    mean = real_number("demand", demand, what, above=0)
    if mean > BUSIEST:
        raise InvalidArgument(f"demand is {demand!r}: {what}")
    number = np.arange(BUSIEST + 1)
    p = np.exp(number * math.log(mean) - mean - np.array([math.lgamma(n + 1) for n in number]))
    return p / p.sum()


def _evenings(
    stock: int, morning: int, p: FloatArray, costs: tuple[float, float, float], pair: int
) -> list[tuple[int, int, float, float]]:
    """(pair, stock in the evening, its probability, reward) for a day that begins with `morning`.

    Several days end with an empty store; their reward is the mean over them.
    """
    goods, storing, losing = costs
    bought = goods * (morning - stock)
    outcomes = [
        (pair, morning - n, float(p[n]), -bought - storing * (morning - n))
        for n in range(min(morning, p.size))
    ]
    sold_out = p[morning:]
    if sold_out.sum() > 0:
        lost = float(sold_out @ np.arange(sold_out.size)) / float(sold_out.sum())
        outcomes.append((pair, 0, float(sold_out.sum()), -bought - losing * lost))
    return outcomes
