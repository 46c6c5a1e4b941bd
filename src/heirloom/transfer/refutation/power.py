"""What an audit could have found, with the visits that the tasks have.

**One pair.** Let two tasks differ at one pair by d, and have n and n̄ visits there. The variance
of an outcome is at most (hi - lo)² / 4. So, with the quantile z_q of the normal distribution, the
means that were observed differ with a probability of about q or more by

    d - z_q (hi - lo) √(1/n + 1/n̄) / 2

at least. (It is q for outcomes at both ends of their range; visits are many where radii are below
hi - lo.) That is more than the claim and both radii, r + η + η̄, if d - r is at least

    η + η̄ + z_q (hi - lo) √(1/n + 1/n̄) / 2.

The same is true of transitions, with hi - lo = 1, for the set of outcomes whose probabilities
differ by d: the total variation of the estimates is at least the difference of its frequencies, and
more if there are many outcomes. Of `highest_rewards`, one task is enough. An outcome that the claim
excludes and that has probability p is seen in n visits with probability 1 - (1 - p)^n.

**All pairs.** Let tasks differ by d at all pairs that were compared: half of them at each end of an
interval of length d (if only one of many tasks differs, much less is found). The evidence of all
pairs together (`pooled.py`) is simulated, with outcomes at both ends of their range, which have the
largest variance. For transitions, tasks differ in one digit. The smallest d - r that is found in
80 % of the simulations is approximate.
"""

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, IntArray
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.radii import TaskRadii, fewest_visits
from heirloom.transfer.refutation import pooled
from heirloom.transfer.setting import Setting

FOUND = 0.8  # the probability with which a false claim is to be found
QUANTILE = NormalDist().inv_cdf(FOUND)
MOST_SIMULATED = 40  # simulated memories for each difference
MOST_ROWS = 20_000  # of all simulated memories together, unless there are fewer than `FEWEST`
FEWEST = 5
STEPS = 7  # of a bisection: differences are accurate to 1/128 of the range


class Power(NamedTuple):
    """By how much a claim about a part must be too small to be found with probability 0.8."""

    one_pair: FloatArray
    """If it is wrong at this pair only, between the two tasks with most visits; [s, a].

    Of `highest_rewards` and of successors, it is the one task with most visits, and of successors
    the probability of an excluded one. It is infinite where no false claim would be found."""
    all_pairs: float
    """If it is wrong at all pairs that were compared, between two halves of the tasks; or infinite.
    """
    widest: float
    """The largest possible difference."""
    visits_needed: int | None
    """From how many visits of a pair in two tasks on some false claim would be found."""

    @property
    def finds_something(self) -> bool:
        """Whether the audit could have found any false claim."""
        return min(float(self.one_pair.min()), self.all_pairs) < math.inf


def one_pair(
    radii: FloatArray,
    visits: IntArray,
    claim: FloatArray,
    width: float,
    exact: BoolArray,
    n_tasks: int = 2,
) -> FloatArray:
    """Return the power of single pairs; `radii` and `visits` are [task, pair].

    `n_tasks` is the number of tasks that are needed to contradict the claim, 1 or 2.
    """
    if len(radii) < n_tasks or width <= 0:
        return np.full(claim.size, np.inf)
    best = np.argpartition(radii, n_tasks - 1, axis=0)[:n_tasks]  # those with the smallest radii
    total = np.take_along_axis(radii, best, axis=0).sum(axis=0)
    n = np.take_along_axis(visits, best, axis=0)
    with np.errstate(divide="ignore"):
        noise = QUANTILE * width * np.sqrt((1 / n).sum(axis=0)) / 2
    needed = total + np.where(exact, 0.0, noise)
    return np.where(claim + needed <= width, needed, np.inf)


def one_outcome(visits: IntArray) -> FloatArray:
    """Return from which probability on an excluded outcome would be seen; `visits` [task, pair]."""
    n = visits.max(axis=0)
    return np.where(n > 0, 1 - (1 - FOUND) ** (1 / np.maximum(n, 1)), np.inf)


def visits_needed(
    radii: TaskRadii, kind: str, claim: FloatArray, width: float, n_tasks: int = 2
) -> int | None:
    """Return from how many visits in `n_tasks` tasks on a single pair can show a false claim.

    `radii` are those of all these tasks, of which the `kind` is "rewards" or "transitions".
    """

    def is_enough(n: int) -> bool:
        radius = getattr(radii.at(np.full(claim.size, n)), kind)
        noise = QUANTILE * width * math.sqrt(n_tasks / n) / 2
        return bool((claim + n_tasks * radius + noise <= width).any())

    return fewest_visits(is_enough)


def all_pairs(
    memory: TaskMemory, claims: Mapping[str, FloatArray], setting: Setting, delta: float
) -> dict[str, float]:
    """Return the power of pooled evidence, for each part of a nearness, or for a prior."""
    lo, hi = setting.reward_range
    data = pooled.gathered_data(memory.stored, setting.n_pairs)
    left_out = memory.visits.counts - data.visits
    compared = np.diff(data.start) > 1
    limit = -math.log(pooled.SHARE_OF_DELTA) - math.log(delta)
    n_simulated = int(np.clip(MOST_ROWS // max(1, data.n.size), FEWEST, MOST_SIMULATED))
    first = np.repeat(data.start[:-1], np.diff(data.start))
    sign = np.where((np.arange(data.n.size) - first) % 2 == 0, -1.0, 1.0)
    found = {}
    for name, claim in claims.items():
        width = 1.0 if name == "transitions" else hi - lo
        n_digits = setting.n_states.bit_length() if name == "transitions" else 1
        # The other part of a nearness may contribute nothing; the digits of a pair are averaged.
        enough = limit + (0.0 if name == "d_max" else math.log(2))

        def is_found(
            excess: float,
            *,
            roughly: bool,
            claim: FloatArray = claim,
            width: float = width,
            n_digits: int = n_digits,
            enough: float = enough,
        ) -> bool:
            rng = np.random.default_rng(0)
            half = np.repeat(np.minimum(claim / width + excess, 1.0) / 2, np.diff(data.start))
            times = 0
            for _ in range(n_simulated):
                X = width * rng.binomial(data.n, 0.5 + sign * half) / np.maximum(data.n, 1)
                log_E = pooled.log_evidence(data, X, claim, left_out, width, from_above=roughly)
                times += pooled.log_product(log_E - math.log(n_digits)) >= enough
            return times >= FOUND * n_simulated

        found[name] = math.inf
        room = float((1 - claim / width)[compared].max()) if compared.any() and width > 0 else 0.0
        if room <= 0 or not is_found(room, roughly=True):
            continue
        low, high = 0.0, room
        for _ in range(STEPS):
            middle = (low + high) / 2
            low, high = (low, middle) if is_found(middle, roughly=True) else (middle, high)
        while high <= room and not is_found(high, roughly=False):
            high += room / 2**STEPS
        if high <= room:
            found[name] = high * width
    return found
