"""Perishable stock: how many crates to order each day when goods keep for two or three days.

The state in the evening is how many pieces can be sold for one more day, and how many for two. The
action is the number of crates, of two pieces each, ordered for the next morning. A delivery keeps
for three days, or for two if its goods are older. Customers get the oldest pieces first, and those
who find the shelf empty cost goodwill. In the evening, pieces at the end of their shelf life are
thrown away. Rewards are the money of a day. Demand, shelf life and prices change from week to week.
The week is a task.

The demand of a day is drawn from one of two fixed distributions, that of a quiet or of a busy day.
So probabilities are products of a function of `busy` and one of `fresh`, and affine in each of
them, which they would not be in the rate of a Poisson distribution. A reward that is a mean over
several outcomes with the same successor is monotone in each parameter.
"""

from dataclasses import dataclass
from math import comb

from heirloom.envs.box import BoxFamily, Interval
from heirloom.mdp.tabular import TabularMDP
from heirloom.validation import Range, probability, real_number

CAPACITY = 6  # pieces on the shelf
CRATE, MOST_CRATES = 2, 3  # pieces in a crate, and crates in an order
STOCKS = tuple((one, two) for one in range(CAPACITY + 1) for two in range(CAPACITY + 1 - one))
"""The states: how many pieces can be sold for one more day, and how many for two."""
STATES = tuple(f"{one} for one day, {two} for two" for one, two in STOCKS)
ACTIONS = tuple(f"order {n} crate{'' if n == 1 else 's'}" for n in range(MOST_CRATES + 1))
CUSTOMERS = 5  # who may come in a day, each with the following probability
QUIET, BUSY = 0.4, 0.8
WASTE = 3.0  # money, for throwing a piece away
GOODWILL = 3.0  # money, for a customer who finds the shelf empty

Outcome = tuple[float, int, float, bool]  # probability, successor, reward, terminated


def _demand(busy: float) -> list[float]:
    """Return the probabilities of 0, 1, ..., `CUSTOMERS` customers in a day."""

    def binomial(k: int, p: float) -> float:
        return comb(CUSTOMERS, k) * p**k * (1 - p) ** (CUSTOMERS - k)

    return [
        busy * binomial(k, BUSY) + (1 - busy) * binomial(k, QUIET) for k in range(CUSTOMERS + 1)
    ]


def _day(morning: tuple[int, int, int], customers: int) -> tuple[int, tuple[int, int], int]:
    """Sell the oldest pieces first; return those sold, the stock in the evening, those wasted."""
    left, wanted = [], customers
    for pieces in morning:
        taken = min(pieces, wanted)
        wanted -= taken
        left.append(pieces - taken)
    wasted, one, two = left
    return customers - wanted, (one, two), wasted


@dataclass(frozen=True)
class Perishables(BoxFamily):
    """Perishable stock: weeks that differ in demand, shelf life and prices.

    Episodes begin with an empty shelf. Each option is an interval, except for gamma.

    Args:
        busy: the probability that a day is busy: 4 customers on average, otherwise 2.
        fresh: the probability that a delivery keeps for three days, otherwise two.
        price: what a customer pays for a piece.
        goods: what a piece that is ordered costs; pieces beyond the capacity are not delivered.
        gamma: the discount factor per day.
    """

    busy: Interval = (0.4, 0.6)
    fresh: Interval = (0.7, 0.9)
    price: Interval = (3.9, 4.1)
    goods: Interval = (1.9, 2.1)
    gamma: float = 0.9

    def build(  # type: ignore[override]
        self, *, reward_range: Range | None, busy: float, fresh: float, price: float, goods: float
    ) -> TabularMDP:
        """Build the week with these parameters."""
        probability("busy", busy), probability("fresh", fresh)
        for name, money in (("price", price), ("goods", goods)):
            real_number(name, money, "expected an amount of money, 0 or more", least=0)
        states = {stock: s for s, stock in enumerate(STOCKS)}
        demand = _demand(busy)

        def outcomes(s: int, a: int) -> list[Outcome]:
            one, two = STOCKS[s]
            ordered = min(CRATE * a, CAPACITY - one - two)
            rows = []
            for p, three in ((fresh, ordered), (1 - fresh, 0)):
                morning = (one, two + ordered - three, three)
                for customers, p_customers in enumerate(demand):
                    sold, evening, wasted = _day(morning, customers)
                    lost = GOODWILL * (customers - sold)
                    reward = price * sold - goods * ordered - WASTE * wasted - lost
                    rows.append((p * p_customers, states[evening], reward, False))
            return rows

        return TabularMDP.from_callable(
            outcomes,
            len(STATES),
            len(ACTIONS),
            gamma=self.gamma,
            start=states[0, 0],
            reward_range=reward_range,
            state_names=STATES,
            action_names=ACTIONS,
        )
