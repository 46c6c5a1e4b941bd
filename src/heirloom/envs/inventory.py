"""Inventory control: how many pieces to order each day when demand is random.

The state is the stock in the evening, the action is the number of pieces ordered for the next
morning. During the day each customer buys one piece; customers who find the store empty are lost.
Rewards are negative costs: for the goods bought, for each piece stored overnight, and for each lost
customer.
"""

import math

import numpy as np

from heirloom.arrays import FloatArray
from heirloom.envs.family import FiniteFamily
from heirloom.mdp.tabular import TabularMDP
from heirloom.validation import Range, real_number, whole_number

MAX_CUSTOMERS = 30  # per day
LARGEST_STOCK = 1000  # pieces; tasks of larger stocks would need too much memory


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
    """Build the task of one season, which starts with an empty store and never terminates.

    Args:
        demand: the mean number of customers per day, of a Poisson distribution truncated at 30.
        goods: the price of a piece.
        storing: the cost of storing a piece overnight.
        losing: the cost of a lost customer.
        capacity: the maximum stock; pieces ordered beyond it are neither delivered nor paid.
        most_ordered: the maximum number of pieces per order.
        gamma: the discount factor; the default is low because what is ordered is sold within days.
        reward_range: a range that contains the rewards of all seasons; by default from the lowest
            reward of this season to 0.
    """
    given = {"goods": goods, "storing": storing, "losing": losing}
    costs = [
        real_number(name, x, "expected a cost, 0 or more", least=0) for name, x in given.items()
    ]
    capacity = whole_number("capacity", capacity, most=LARGEST_STOCK)
    most_ordered = whole_number("most_ordered", most_ordered, most=LARGEST_STOCK)
    p = _customers(demand)
    days = [
        [_day_outcomes(s, min(s + a, capacity), p, costs) for a in range(most_ordered + 1)]
        for s in range(capacity + 1)
    ]
    lowest = min(reward for of_state in days for day in of_state for _, _, reward, _ in day)
    return TabularMDP.from_callable(
        lambda s, a: days[s][a],
        capacity + 1,
        most_ordered + 1,
        gamma=gamma,
        start=0,
        reward_range=(lowest, 0.0) if reward_range is None else reward_range,
        state_names=[f"{s} in store" for s in range(capacity + 1)],
        action_names=[f"order {a}" for a in range(most_ordered + 1)],
    )


def prices(*, gamma: float = 0.8) -> FiniteFamily:
    """Inventory control: four seasons that differ in the price of goods and the cost of storage."""
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
    """Inventory control: four seasons that differ in the demand and in the price of goods."""
    return _family(
        {
            f"{name}, goods at {goods}": {"demand": demand, "goods": goods}
            for name, demand in (("quiet", 2.0), ("busy", 4.0))
            for goods in (1.0, 1.2)
        },
        gamma,
    )


def _family(seasons: dict[str, dict[str, float]], gamma: float) -> FiniteFamily:
    """Build a family of seasons that share the widest of their reward ranges."""

    def season(options: dict[str, float], reward_range: Range | None) -> TabularMDP:
        return inventory(**options, gamma=gamma, reward_range=reward_range)  # type: ignore[arg-type]

    widest = min(season(options, None).reward_range for options in seasons.values())
    return FiniteFamily({name: season(options, widest) for name, options in seasons.items()})


def _customers(demand: float) -> FloatArray:
    """Return the probabilities of 0, 1, ..., `MAX_CUSTOMERS` customers per day."""
    what = f"expected a mean number of customers, above 0 and at most {MAX_CUSTOMERS}"
    mean = real_number("demand", demand, what, above=0, most=MAX_CUSTOMERS)
    number = np.arange(MAX_CUSTOMERS + 1)
    p = np.exp(number * math.log(mean) - mean - np.array([math.lgamma(n + 1) for n in number]))
    return p / p.sum()


def _day_outcomes(
    stock: int, morning: int, p: FloatArray, costs: list[float]
) -> list[tuple[float, int, float, bool]]:
    """Return (probability, stock in the evening, reward, terminated) of each outcome of a day.

    `stock` is the stock before the order, `morning` the stock after it. All numbers of customers
    that empty the store are one outcome, whose reward is their mean.
    """
    goods, storing, losing = costs
    bought = goods * (morning - stock)
    outcomes = [
        (float(p[n]), morning - n, -bought - storing * (morning - n), False)
        for n in range(min(morning, p.size))
    ]
    sold_out = p[morning:]
    if sold_out.sum() > 0:
        lost = float(sold_out @ np.arange(sold_out.size)) / float(sold_out.sum())
        outcomes.append((float(sold_out.sum()), 0, -bought - losing * lost, False))
    return outcomes
