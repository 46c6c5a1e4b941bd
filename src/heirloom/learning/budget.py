"""`plan_learning`: what a number of steps is enough for, before any of them is taken."""

import math
from dataclasses import dataclass

from heirloom.kernels.checking import radius
from heirloom.transfer.radii import fewest_visits
from heirloom.validation import LARGEST_INTEGER, LARGEST_SIZE, positive_probability, whole_number

CLOSE = 0.1  # accuracy of probabilities at which certificates begin to say something
DEFAULT = 2  # `n_known` of agents


@dataclass(frozen=True)
class LearningPlan:
    """What a budget of steps is enough for; `print` says it in words."""

    n_pairs: int
    steps: int
    visits: float
    """The visits of each pair, if all pairs were visited equally often."""
    n_known: int
    """The largest `n_known` with which all pairs could become known, at least 1."""
    accuracy: float
    """How far estimated probabilities of a pair with that many visits may be from the true ones.

    It is a total variation that holds at all pairs at once, and after any number of visits."""
    steps_needed: int | None
    """The steps with which it would be 0.1, if all pairs were visited equally often."""

    def __str__(self) -> str:
        text = f"{self.steps:,} steps in {self.n_pairs:,} pairs: {self.visits:.3g} visits of each"
        text += " on average."
        if self.visits < 1:
            text += (
                " Most pairs cannot be tried. Tell the agent which ones matter: give a nearness, "
                "pool earlier tasks, or use fewer states."
            )
        elif self.visits < DEFAULT:
            text += f" Too few for n_known={DEFAULT}, the default: use 1, or knowledge."
        elif self.visits < 10 * DEFAULT:
            text += f" Keep n_known={DEFAULT}, the default: with more, exploring takes all steps."
        else:
            text += f" Enough for n_known={DEFAULT}, the default, with time left to use it."
        off = f"{self.accuracy:.2g}" if self.accuracy < 1 else "any amount"
        text += f" After that many, estimated probabilities can be wrong by {off}"
        if self.accuracy < CLOSE:
            return f"{text}: try a certificate."
        text += ", so that a certificate from visits of this task alone says little"
        if self.steps_needed is not None:
            text += f"; at most {CLOSE:g} takes about {self.steps_needed:,} steps"
        return f"{text}."


def plan_learning(
    n_pairs: int, steps: int, *, n_outcomes: int = 2, delta: float = 0.05
) -> LearningPlan:
    """Return what a budget of steps is enough for in one task.

    Args:
        n_pairs: the number of state-action pairs that exist.
        steps: the number of steps of the task, such as episodes times steps per episode.
        n_outcomes: the number of outcomes that a pair can have.
        delta: δ, the probability that the accuracy is worse than said.
    """
    n_pairs = whole_number("n_pairs", n_pairs, most=LARGEST_SIZE)
    steps = whole_number("steps", steps, most=LARGEST_INTEGER)
    n_outcomes = whole_number("n_outcomes", n_outcomes, most=LARGEST_SIZE)
    delta = positive_probability("delta", delta)
    log_pairs = math.log(n_pairs / delta)
    log_sets = -math.inf
    if n_outcomes > 1:
        log_sets = (n_outcomes - 1) * math.log(2) + math.log1p(-(2.0 ** (1 - n_outcomes)))
        log_sets += log_pairs

    def accuracy(n: int) -> float:
        return float(radius(n, log_sets))

    visits = steps / n_pairs
    needed = fewest_visits(lambda n: accuracy(n) <= CLOSE)
    return LearningPlan(
        n_pairs=n_pairs,
        steps=steps,
        visits=visits,
        n_known=max(1, int(visits)),
        accuracy=accuracy(int(visits)),
        steps_needed=None if needed is None else needed * n_pairs,
    )
