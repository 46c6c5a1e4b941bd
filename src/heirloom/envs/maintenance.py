"""Machine maintenance: when to run a machine, inspect it, repair it or replace it.

A machine has a level of wear, from 0 (as new) to 4, or has failed. The state is known at the
beginning of each shift, and rewards are the money that the shift earns or costs. While the machine
works, its wear may rise by one level, and it may fail; the higher the wear, the more likely a
failure. A new order every week brings another material, which changes how fast machines wear and
fail, and other prices. The week is a task.
"""

from dataclasses import dataclass

from heirloom.envs.box import BoxFamily, Interval
from heirloom.mdp.tabular import TabularMDP
from heirloom.validation import Range, probability, real_number

N_LEVELS = 5
FAILED = N_LEVELS
STATES = (*(f"wear {w}" for w in range(N_LEVELS)), "failed")
ACTIONS = ("run", "inspect", "repair", "replace")
RUN, INSPECT, REPAIR, REPLACE = range(len(ACTIONS))

INSPECTION = 15.0  # money
WORKED = 0.9  # the share of a shift that an inspection leaves for work
DAMAGE = 500.0  # money, caused by a failure, which also ends the shift halfway
AVOIDED = 0.7  # the share of failures that an inspection prevents
REPAIRED = 1  # the wear after a repair, unless it was lower
SUCCESS = 0.9  # probability that a repair succeeds

Outcome = tuple[float, int, float]  # probability, next state, reward


def _outcomes(
    s: int, a: int, *, wear: float, failure: float, income: float, parts: float, replacement: float
) -> list[Outcome]:
    """Return the outcomes of one shift."""
    if a == REPLACE:
        return [(1.0, 0, -replacement)]
    if s == FAILED:
        if a == REPAIR:
            return [(SUCCESS, REPAIRED, -2 * parts), (1 - SUCCESS, FAILED, -2 * parts)]
        return [(1.0, FAILED, 0.0 if a == RUN else -INSPECTION)]
    if a == REPAIR:
        reward = income / 2 - parts
        return [(SUCCESS, min(s, REPAIRED), reward), (1 - SUCCESS, s, reward)]
    fails = failure * ((s + 1) / N_LEVELS) ** 2
    worked, cost = income, 0.0
    if a == INSPECT:
        fails, worked, cost = (1 - AVOIDED) * fails, WORKED * income, INSPECTION
    return [
        (fails, FAILED, worked / 2 - cost - DAMAGE),
        ((1 - fails) * wear, min(s + 1, N_LEVELS - 1), worked - cost),
        ((1 - fails) * (1 - wear), s, worked - cost),
    ]


@dataclass(frozen=True)
class Machines(BoxFamily):
    """Machine maintenance: weeks that differ in wear, failures and prices, each in an interval.

    Episodes begin at a random level of wear. Each option is an interval, except for gamma.

    Args:
        wear: the probability that a shift of work raises the wear by one level.
        failure: the probability of a failure in a shift at the highest wear; at wear w it is
            ((w + 1) / 5)² times as large.
        income: what a full shift of work earns, in euros.
        parts: the price of parts for a repair, in euros; a failed machine takes twice as many.
        replacement: the price of a new machine, in euros.
        gamma: the discount factor per shift.
    """

    wear: Interval = (0.15, 0.25)
    failure: Interval = (0.1, 0.25)
    income: Interval = (180.0, 220.0)
    parts: Interval = (250.0, 350.0)
    replacement: Interval = (900.0, 1000.0)
    gamma: float = 0.95

    def build(self, *, reward_range: Range | None, **parameters: float) -> TabularMDP:
        """Build the week with these parameters."""
        for name, value in parameters.items():
            if name in ("wear", "failure"):
                probability(name, value)
            else:
                real_number(name, value, "expected an amount of money, 0 or more", least=0)
        return TabularMDP.from_callable(
            lambda s, a: [(*outcome, False) for outcome in _outcomes(s, a, **parameters)],
            len(STATES),
            len(ACTIONS),
            gamma=self.gamma,
            start=[1 / N_LEVELS] * N_LEVELS + [0.0],
            reward_range=reward_range,
            state_names=STATES,
            action_names=ACTIONS,
        )
