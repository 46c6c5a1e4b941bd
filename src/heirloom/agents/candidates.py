"""Policies that are rolled out, and what their returns say about their values."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from heirloom.arrays import FloatArray, IntArray
from heirloom.errors import InvalidArgument
from heirloom.kernels import betting
from heirloom.mdp.tabular import value_range
from heirloom.transfer.setting import Setting
from heirloom.validation import Range, positive_probability

ROUNDING = 1e-9  # of a return, relative to the largest possible one


@dataclass(eq=False)
class Candidate:
    """A policy that was fixed before its episodes, and their discounted returns.

    A return is x = Σ γ^k r_k, plus γ^τ v_min if the episode was cut after τ steps: then the task
    goes on, for at least the smallest value. Nothing is added after an end. So the expected x,
    given all earlier episodes, is at most the value of the policy at the start, if episodes start
    independently. An episode that failed has the return `low`.
    """

    number: int
    """Its number among all candidates of a life, from 1."""
    policy: IntArray
    """The action of each state; where it does not exist, the first one that does is taken."""
    start: FloatArray | None
    """The declared distribution of first states, [s]; None for the starts of the episodes."""
    low: float
    """The smallest return that an episode can have, and the smallest value of a policy."""
    high: float
    """The largest return that an episode can have."""
    returns: list[float] = field(default_factory=list)
    """The returns of all episodes that were started, in their order."""

    def lower(self, delta: float) -> float:
        """Return a lower bound on the value of the policy at the start, valid at all times.

        The bounds of all candidates of a life hold together with probability 1 - δ/2: candidate i
        has the share 6 (δ/2) / (π² i²), and these sum to δ/2.
        """
        delta = positive_probability("delta", delta)
        log_inverse = 2 * math.log(math.pi * self.number) - math.log(3) - math.log(delta)
        return lower_mean(np.array(self.returns, dtype=float), self.low, self.high, log_inverse)

    def starts_as(self, start: FloatArray | None) -> bool:
        """Return whether `start` is the declared start of the candidate."""
        if start is None or self.start is None:
            return start is self.start
        return np.array_equal(start, self.start)


def best(
    candidates: Iterable[Candidate], start: FloatArray | None, delta: float
) -> Candidate | None:
    """Return the candidate with this start that has the largest lower bound; None if none has it.

    All bounds hold together, so that the largest one may be chosen.
    """
    same = [one for one in candidates if one.starts_as(start)]
    return max(same, key=lambda one: one.lower(delta), default=None)


def lower_mean(x: FloatArray, low: float, high: float, log_inverse: float) -> float:
    """Return a lower bound on the mean of x, valid at all times at once with probability 1 - ε.

    Each x is at least `low`, and its conditional mean given those before it is at most μ. The
    result exceeds μ after any number of x with probability ε at most, so one may stop whenever one
    likes; `log_inverse` is ln(1 / ε). `kernels.betting` has the proof. Numbers above `high` are
    replaced by it, which lowers means and is sound. Rounding may have raised each x by a
    billionth of the largest of |low| and |high|, which is subtracted.
    """
    rounding = ROUNDING * max(abs(low), abs(high))
    if not (x >= low - rounding).all():
        wrong = x[~(x >= low - rounding)][0]
        raise InvalidArgument(f"x contains {wrong:g}: expected numbers of at least low, {low:g}")
    if not low < high:
        return low
    y = np.clip((x - low) / (high - low), 0.0, 1.0)
    bound = low + (high - low) * betting.lower_mean(y, log_inverse)
    return max(low, float(bound) - rounding)


def range_of_returns(setting: Setting, max_steps: int | None) -> Range:
    """Return the smallest and the largest return that an episode of up to `max_steps` can have.

    The smallest is v_min: an episode that is cut at once. The largest has the reward `hi` in all
    steps, and is then cut, or ends there; or it ends after one step, if `hi` is negative.
    """
    (_, hi), gamma = setting.reward_range, setting.gamma
    v_min, _ = value_range(setting.reward_range, gamma, terminating=setting.terminating)
    rest = 0.0 if max_steps is None else gamma**max_steps
    total = hi * (1 - rest) / (1 - gamma)
    high = total + rest * v_min
    return v_min, max(high, total, hi) if setting.terminating else high
