"""A service desk: whether to admit customers, and how many clerks serve them.

The state is the number of customers at the desk, at most 10, and a step is a minute. The gate is
open or closed, and one or two clerks work on the request of the customer at the front. In a minute
at most one request is completed, and then at most one customer arrives. Customers who arrive at a
closed gate or at a full desk are sent away. Rewards are negative costs in minutes of waiting: each
customer at the desk waits for the minute, sending a customer away costs `sent_away` minutes, and
the second clerk costs 2. How many customers arrive and how long requests take changes from hour to
hour. Each hour is one task.

All probabilities are products of a function of `arrival` and one of `service`, so they are affine
in each of them. A reward that is a mean over two outcomes with the same successor is monotone in
each, so its smallest and largest values are at corners of the family.
"""

from dataclasses import dataclass

from heirloom.envs.box import BoxFamily, Interval
from heirloom.mdp.tabular import TabularMDP
from heirloom.validation import Range, probability, real_number

CAPACITY = 10  # customers
STATES = tuple(f"{n} customer{'' if n == 1 else 's'}" for n in range(CAPACITY + 1))
ACTIONS = ("open, 1 clerk", "open, 2 clerks", "closed, 1 clerk", "closed, 2 clerks")
CLERK = 2.0  # the cost of a minute of the second clerk, in minutes of waiting
FASTER = 1.6  # probability to complete a request with two clerks, divided by that with one
MOST_SERVICE = 1 / FASTER  # the largest probability with one clerk, so that two have at most 1

Outcome = tuple[float, int, float, bool]  # probability, successor, reward, terminated


@dataclass(frozen=True)
class Queues(BoxFamily):
    """A service desk: hours that differ in arrivals and in the time that requests take.

    Episodes begin without customers. Each option is an interval, except for gamma.

    Args:
        arrival: the probability that a customer arrives in a minute.
        service: the probability that one clerk completes a request in a minute, at most 0.625; for
            two clerks it is 1.6 times as large.
        sent_away: the cost of sending a customer away, in minutes of waiting.
        gamma: the discount factor per minute.
    """

    arrival: Interval = (0.35, 0.5)
    service: Interval = (0.3, 0.36)
    sent_away: Interval = (15.0, 15.0)
    gamma: float = 0.95

    def build(  # type: ignore[override]
        self, *, reward_range: Range | None, arrival: float, service: float, sent_away: float
    ) -> TabularMDP:
        """Build the hour with these parameters."""
        probability("arrival", arrival)
        what = f"expected a probability from 0 to {MOST_SERVICE:g}"
        real_number("service", service, what, least=0, most=MOST_SERVICE)
        real_number("sent_away", sent_away, "expected minutes, 0 or more", least=0)

        def outcomes(n: int, a: int) -> list[Outcome]:
            is_open, two_clerks = a < 2, a % 2 == 1
            completed = service * (FASTER if two_clerks else 1.0) if n else 0.0
            cost = n + (CLERK if two_clerks else 0.0)
            rows = []
            for leaves, p in ((1, completed), (0, 1 - completed)):
                left = n - leaves
                admitted = is_open and left < CAPACITY
                paid = cost + sent_away * (not admitted)
                rows.append((p * (1 - arrival), left, -cost, False))
                rows.append((p * arrival, left + admitted, -paid, False))
            return [row for row in rows if row[1] >= 0]

        return TabularMDP.from_callable(
            outcomes,
            len(STATES),
            len(ACTIONS),
            gamma=self.gamma,
            start=0,
            reward_range=reward_range,
            state_names=STATES,
            action_names=ACTIONS,
        )
