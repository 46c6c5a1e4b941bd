"""Posterior sampling: values of a model that is drawn at random, on which an agent acts greedily.

`Posterior` and `NearPosterior` are no bounds on `Q*`, but ways to act (`Bound.plans`). They draw a
model of all pairs at once, and compute its values to a certified error (`kernels/sampled.py`).
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
from scipy.special import gammaln

from heirloom.arrays import BoolArray, FloatArray, IntArray
from heirloom.choices import Plans
from heirloom.kernels import counting
from heirloom.kernels import sampled as kernels
from heirloom.mdp.learned import LearnedModel
from heirloom.mdp.tabular import reward_scale, value_range
from heirloom.options import Option, checked
from heirloom.transfer.bound import Bound, Claims, Details, check_arguments
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.nearness.bound import REMEDY, arrays_of, rebuilt
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.transfer.nearness.rows import highest_rewards
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source
from heirloom.validation import instance

TOLERANCE = 1e-3  # largest error of the values of a drawn model, in the range of rewards
MAX_WORK = 20_000_000  # units of work in one call, so that Python can handle Ctrl-C
ATOMS = 16  # slots of a pair for all reached states, where no successors are declared
PRIOR = 0.3  # α, of PSRL by default
REWARDS = 0.1  # β / α; rewards of a pair mostly vary less than its successors
LEAST = 1e-12  # instead of 0: a parameter of a distribution, and a variance in the range of rewards

Rewards = Annotated[
    Literal["normal", "beta"], Option("the form of the posterior of mean rewards.", "normal")
]
Sample = Annotated[
    Literal["episode", "visits"],
    Option(
        'when a model is drawn: before each "episode", or when the "visits" of some pair have '
        "grown by the factor `refresh`, or by 1.5 if it is None, from the first one on.",
        "episode",
    ),
]
Strength = Annotated[
    float,
    Option(
        "α, the strength of the prior of the successors of a pair, in visits; that of its reward "
        "is a tenth of it. A scale to tune: a larger one explores more.",
        PRIOR,
        gt=0,
    ),
]

NOTE = (
    "values are those of a model drawn at random, after the end of a task those of the mean of the "
    "posterior; they bound nothing."
)


class Outcomes:
    """The possible outcomes of each pair, as slots of one array.

    Slot j is an outcome of pair `pairs[j]`: the successor `states[j]`, or S for ⊥. If successors
    are declared, each possible outcome has a slot (`listed`). Otherwise the states that were
    reached so far are possible, and each pair has `ATOMS` slots that stand for them (`atoms`),
    whose states are drawn anew with each model. Outcomes that were seen have slots of their own.
    """

    def __init__(self, setting: Setting, possible: Nearness, seen: IntArray) -> None:
        n, n_pairs = setting.n_states + 1, setting.n_pairs
        self._width, self._n_pairs, self._n_actions = n, n_pairs, setting.n_actions
        self._keys = self._listed = seen[:0]
        self.may_end = np.full(n_pairs, setting.terminating)
        if possible.terminates is not None:
            self.may_end &= possible._per_pair("terminates", n_pairs)
        self.has_atoms = possible.successors is None
        if possible.successors is not None:
            first, states = possible.successors
            self.number = np.diff(first) + self.may_end
            """The number of possible outcomes of each pair."""
            inner = np.repeat(np.arange(n_pairs), np.diff(first)) * n + states
            self._listed = np.append(inner, np.flatnonzero(self.may_end) * n + n - 1)
        self.add(np.append(self._listed, seen))

    def add(self, keys: IntArray) -> None:
        """Make slots for the outcomes k * (S + 1) + successor, or S for ⊥, that have none."""
        self._keys = np.union1d(self._keys, keys)
        own, successors = np.divmod(self._keys, self._width)
        if self.has_atoms:
            end = self._width - 1
            reached = np.union1d(own // self._n_actions, successors[successors < end])
            self._reached = np.append(reached if reached.size else np.arange(end), end)
            self.number = self._reached.size - 1 + self.may_end
        atoms = np.repeat(np.arange(self._n_pairs), ATOMS if self.has_atoms else 0)
        owner = np.concatenate([own, atoms])
        order = np.argsort(owner, kind="stable")
        place = np.empty(order.size, dtype=np.int64)
        place[order] = np.arange(order.size)
        self._places, self.atoms = place[: own.size], place[own.size :]
        self.pairs, self.states = owner[order], np.zeros(order.size, dtype=np.int64)
        self.states[self._places] = successors
        self.start = np.searchsorted(self.pairs, np.arange(self._n_pairs + 1))
        self.listed = np.zeros(order.size, dtype=bool)
        self.listed[self.slots_of(self._listed)] = True

    def slots_of(self, keys: IntArray) -> IntArray:
        """Return the slot of each outcome, k * (S + 1) + successor; -1 where it has none."""
        at = np.searchsorted(self._keys, keys)
        found = np.append(self._keys, -1)[at] == keys
        return np.where(found, np.append(self._places, -1)[at], -1)

    def spread(self, total: FloatArray) -> FloatArray:
        """Return parameters that spread `total` of each pair evenly over its possible outcomes."""
        shapes = np.where(self.listed, (total / self.number)[self.pairs], 0.0)
        shapes[self.atoms] = (total / ATOMS)[self.pairs[self.atoms]]
        return shapes

    def sums(self, values: FloatArray) -> FloatArray:
        """Return the sum over the slots of each pair."""
        return np.bincount(self.pairs, values, minlength=self._n_pairs).astype(np.float64)

    def draw_atoms(self, rng: "Rng") -> None:
        """Draw the states of atoms, each possible outcome of a pair with the same probability."""
        if self.has_atoms:
            drawn = rng.integers(self.number[self.pairs[self.atoms]])
            self.states[self.atoms] = self._reached[drawn]


class _Means:
    """In place of a generator: every draw is the mean, or the median, of its distribution."""

    def standard_gamma(self, shapes: FloatArray) -> FloatArray:
        return shapes.copy()

    def standard_normal(self, n: int) -> FloatArray:
        return np.zeros(n)

    def random(self, n: int) -> FloatArray:
        return np.full(n, 0.5)

    def beta(self, a: FloatArray, b: FloatArray) -> FloatArray:
        return a / (a + b)

    def integers(self, numbers: IntArray) -> IntArray:
        return np.arange(numbers.size) % numbers


Rng = np.random.Generator | _Means


class Sampler(Bound):
    """What `Posterior` and `NearPosterior` have in common."""

    nearness: Nearness
    """What is known beforehand; of `Posterior`, the possible outcomes only."""

    def check(self, setting: Setting) -> None:
        """Raise `InvalidArgument` unless tasks of this setting can have these outcomes."""
        self.nearness._check_shape(setting.n_states, setting.n_actions)
        self.nearness._check_possible(setting)

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """Set `U` to `v_max`; the values of drawn models do not depend on it."""
        check_arguments(setting, model, memory)
        self.check(setting)
        self.setting, self.model, self.memory = setting, model, memory
        self.U = np.full(setting.n_pairs, setting.v_max)
        self._V = np.zeros(setting.n_states + 1)
        self._entries = np.empty((2, 0), dtype=np.int64)  # the pair and the slot of each
        self._n, self._R, self._squares, self._c = np.zeros((4, setting.n_pairs))
        self._outcomes = Outcomes(setting, self.nearness, memory.visits.outcomes[0][:0])
        self._begin()
        self._set_prior()
        return False

    def _begin(self) -> None:
        """Take from the memory what the prior needs."""
        return

    def _set_prior(self) -> None:
        """Compute the parameters of the prior of all slots."""
        raise NotImplementedError

    def _drawn(self, counts: FloatArray, rng: Rng) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return parameters of rows, drawn mean rewards, and the pairs that have `v_max` instead.

        `counts` has how often each outcome was seen.
        """
        raise NotImplementedError

    def plan(self, Q: FloatArray, V: FloatArray, rng: np.random.Generator | None) -> None:
        """Draw a model, or keep the last one if `rng` is None, and write its values."""
        if rng is not None:
            self._draw(rng)
        setting, outcomes, rounds = self.setting, self._outcomes, 0
        tol = max(TOLERANCE * reward_scale(setting.reward_range), setting.tol or 0.0)
        policy = np.zeros(V.size, dtype=np.int64)
        model = outcomes.start, outcomes.states, *self._model, setting.gamma, setting.v_max
        while rounds >= 0:
            rounds = kernels.solve(*model, tol, MAX_WORK, rounds, Q, self._V, policy)
        V[:] = self._V[:-1]

    def _draw(self, rng: Rng) -> None:
        """Draw a model of all pairs from the visits so far."""
        self._follow_entries()
        setting, outcomes, arrays = self.setting, self._outcomes, self.model._arrays
        counts, (lo, hi) = np.zeros(outcomes.pairs.size), setting.reward_range
        data = arrays.times, arrays.rewards, arrays.excess, lo, hi
        kernels.add_visits(*self._entries, *data, counts, self._n, self._R, self._squares)
        shapes, R, fixed = self._drawn(counts, rng)
        outcomes.draw_atoms(rng)
        value = setting.v_max
        if isinstance(rng, _Means):
            value = value_range((lo, hi), setting.gamma, terminating=setting.terminating)[0]
            fixed = self._n + self._c == 0
        R = np.where(fixed, value, np.clip(R, lo, hi))
        weights, p, gain = rng.standard_gamma(shapes), np.empty(shapes.size), np.empty(R.size)
        rows = outcomes.start, outcomes.states, weights, shapes, fixed
        kernels.set_rows(*rows, setting.gamma, setting.n_actions, p, gain)
        self._model = p, gain, R

    def end_task(self, source: Source, memory: TaskMemory) -> None:
        """Let the model be the mean of the posterior; pairs of which nothing is known are worst."""
        self._draw(_Means())

    def details(self) -> Details:
        """Return a note on what the values are."""
        return Details(notes=(NOTE,))

    def _own_rewards(self, b: float) -> tuple[FloatArray, FloatArray]:
        """Return the mean and the variance of the mean reward of each pair, from its own visits."""
        (lo, hi), total = self.setting.reward_range, self._n + b
        mean = self._R + ((lo + hi) / 2 - self._R) * (b / total)
        return mean, (self._squares + b * (hi - lo) ** 2 / 4) / total**2

    def _follow_entries(self) -> None:
        """Find the slots of the outcomes that were seen since the last model was drawn."""
        arrays, n_states = self.model._arrays, self.setting.n_states
        n_entries = int(arrays.sizes[counting.N_ENTRIES])
        if n_entries == self._entries.shape[1]:
            return
        pairs, outcomes = np.empty(n_entries, dtype=np.int64), arrays.outcomes[:n_entries]
        counting.entry_pairs(arrays.head, arrays.next_entry, pairs)
        keys = pairs * (n_states + 1) + np.where(outcomes < 0, n_states, outcomes)
        slots = self._outcomes.slots_of(keys)
        if (slots < 0).any():
            self._outcomes.add(keys)
            slots = self._outcomes.slots_of(keys)
            self._set_prior()
        self._entries = np.stack([pairs, slots])


class Posterior(Sampler):
    """Posterior sampling (Strens, 2000; Osband et al., 2013), with independent pairs.

    A pair with n visits, of which N_i had outcome i of K possible ones, gets

        T ~ Dirichlet(N_i + α / K)
        R ~ Normal(μ, s² / (n + β)),    μ = (Σ r + β (lo + hi) / 2) / (n + β),
                                        s² = (Σ (r - r̄)² + β (hi - lo)² / 4) / (n + β),
        or R ~ lo + (hi - lo) Beta(Σ x + β / 2, Σ (1 - x) + β / 2),    x = (r - lo) / (hi - lo)

    with β = α / 10, and R cut to the range of rewards: n = 0 leaves the prior. If rewards of an
    outcome vary, the model has only their mean, and s² assumes the largest variance that this mean
    admits. Outcomes are the `successors`, and ⊥ where a transition `terminates`; by default all
    states that were reached in the task so far, and ⊥ if tasks may terminate. Then the prior is
    that of 16 atoms at states drawn anew each time: its mean is the same, and its variance larger
    by a factor of at most 1 + α / 16. Values are cut at `v_max`.

    The values of a drawn model are computed up to an error of a thousandth of the range of rewards.
    After the end of a task they are those of the mean of the posterior, in which a pair that was
    never tried has the smallest value: so the last policy explores no more.
    """

    def __init__(
        self,
        *,
        rewards: Rewards = "normal",
        sample: Sample = "episode",
        prior: Strength = PRIOR,
        **possible: Any,
    ) -> None:
        """Take `successors` and `terminates` as a `Nearness` has them."""
        self.rewards = checked("rewards", Rewards, rewards)
        self.plans: Plans = checked("sample", Sample, sample)
        self.prior = checked("prior", Strength, prior)
        self.nearness = rebuilt({"rewards": 0.0, "transitions": 1.0, **possible})

    def _set_prior(self) -> None:
        self._shapes = self._outcomes.spread(np.full(self.setting.n_pairs, self.prior))

    def _drawn(self, counts: FloatArray, rng: Rng) -> tuple[FloatArray, FloatArray, BoolArray]:
        (lo, hi), n, b = self.setting.reward_range, self._n, REWARDS * self.prior
        if self.rewards == "beta" and lo < hi:
            x = n * np.clip((self._R - lo) / (hi - lo), 0.0, 1.0)
            R = lo + (hi - lo) * rng.beta(b / 2 + x, b / 2 + (n - x))
        else:
            mean, variance = self._own_rewards(b)
            R = mean + np.sqrt(variance) * rng.standard_normal(n.size)
        return self._shapes + counts, R, np.zeros(n.size, dtype=bool)

    def options(self) -> dict[str, Any] | None:
        """Return the options, and the possible outcomes as arrays."""
        possible = arrays_of(self.nearness)
        del possible["rewards"], possible["transitions"]
        return {"rewards": self.rewards, "sample": self.plans, "prior": self.prior, **possible}


class NearPosterior(Sampler):
    """Posterior sampling with a prior from earlier tasks and a nearness. It guarantees nothing.

    Let (R̄, T̄) be the means over all N visits of a pair in all L earlier tasks, r and t the nearness
    of its rewards and transitions (t = 0 if it has only one possible outcome), K the number of its
    possible outcomes, and α = 0.3. With

        q = (1 - t/2) T̄ + (t/2) / K,    S = Σ √(q (1-q)),
        c = min(N, max(0, (2/π) S² / t² - 1)),    c_r = min(N, s² / (r/2)²)

    the pair is *old*, with prior probability 1 - 1 / (L + 2), and then

        T ~ Dirichlet(N_i + (c + α) q_i),    R ~ Normal((Σ r + c_r R̄) / (n + c_r), s² / (n + c_r)),

    so that on average T is about t/2 from q in total variation, and R is about r/2 from R̄; or it is
    *new*, and has the posterior of `Posterior`. After its first visit, each sample draws whether it
    is old or new, by the likelihoods of its outcomes (Dirichlet-multinomial) and of its mean reward
    (normal). The variance is `s² = (Σ (r - r̄)² + α s₀²) / (n + α)`. Here s₀² is the largest
    variance that a mean within r of R̄ admits, `(R̄ + r - lo) (hi - R̄ + r)`, or if it is smaller,
    the mean of (r - r̄)² over all visits of the task and one more with (hi - lo)² / 4. A pair with
    c = 0 that was never tried has the value `v_max`, and a pair without earlier visits is new.

    A model is drawn when the visits of some pair have grown by the factor `refresh` of the agent,
    1.5 by default. What `Posterior` says of undeclared successors, of the errors of values and of
    the end of a task holds here too.
    """

    plans: Plans = "visits"

    def __init__(self, nearness: Nearness | None = None, **options: Any) -> None:
        """Take a nearness, or the arrays of one."""
        given = rebuilt(options) if nearness is None and options else nearness
        self.nearness = instance("nearness", given, Nearness, REMEDY)

    def _begin(self) -> None:
        near, pooled, n_pairs = self.nearness, self.memory.pooled, self.setting.n_pairs
        lo, hi = self.setting.reward_range
        outcomes, times = self.memory.visits.outcomes
        self._pooled, self._times, self._n_tasks = outcomes, times.copy(), self.memory.n_tasks
        self._outcomes.add(outcomes)
        self._N, self._r = pooled.counts, near._per_pair("rewards", n_pairs)
        self._old_R, self._highest = pooled.R, highest_rewards(near, self.setting)
        widest = (self._old_R + self._r - lo) * (hi - self._old_R + self._r)
        self._s0 = np.clip(widest, 0.0, (hi - lo) ** 2 / 4)

    def _set_prior(self) -> None:
        outcomes, N = self._outcomes, self._N
        t = np.where(outcomes.number == 1, 0.0, self.nearness._per_pair("transitions", N.size))
        self._new = outcomes.spread(np.full(t.size, PRIOR))
        old = np.zeros(self._new.size)
        pairs = self._pooled // (self.setting.n_states + 1)
        old[outcomes.slots_of(self._pooled)] = (1 - t / 2)[pairs] * (self._times / N[pairs])
        # The probabilities q of outcomes that have slots of their own; with atoms all are possible.
        each, is_own = 1.0 / outcomes.number, np.ones(old.size, dtype=bool)
        is_own[outcomes.atoms] = False
        possible = (outcomes.listed | outcomes.has_atoms) & is_own
        uniform = np.where(possible, each[outcomes.pairs], 0.0)
        q = np.where(is_own, old + (t / 2)[outcomes.pairs] * uniform, 0.0)
        rest, n_own = t / 2 * each, outcomes.sums(possible.astype(np.float64))
        n_rest = np.maximum(0.0, outcomes.number - n_own)
        S = outcomes.sums(np.sqrt(q * np.maximum(0.0, 1 - q))) + n_rest * np.sqrt(rest * (1 - rest))
        with np.errstate(divide="ignore", invalid="ignore"):
            c = np.where(t > 0, np.maximum(0.0, 2 / np.pi * S**2 / t**2 - 1), np.inf)
        self._c = np.minimum(N, c)
        strength = (self._c + PRIOR)[outcomes.pairs]
        self._old = old * strength + outcomes.spread((self._c + PRIOR) * t / 2)
        # The parameters of the likelihoods, in which atoms have no part.
        self._like_old = np.maximum(q * strength, LEAST)
        self._like_new = np.maximum(PRIOR * uniform, LEAST)

    def _drawn(self, counts: FloatArray, rng: Rng) -> tuple[FloatArray, FloatArray, BoolArray]:
        n, N = self._n, self._N
        lo, hi = self.setting.reward_range
        typical = (self._squares.sum() + (hi - lo) ** 2 / 4) / (n.sum() + 1)
        s = (self._squares + PRIOR * np.minimum(self._s0, typical)) / (n + PRIOR)
        with np.errstate(divide="ignore", invalid="ignore"):
            before, own = np.maximum((self._r / 2) ** 2, s / N), s / n  # variances of the mean
            weight = np.where(n > 0, np.where(before + own > 0, before / (before + own), 1.0), 0.0)
            spread = np.where(n > 0, weight * own, before)
        mean, variance = self._own_rewards(REWARDS * PRIOR)
        is_new = self._drawn_new(counts, before, own, rng)
        mean = np.where(is_new, mean, self._old_R + weight * (self._R - self._old_R))
        variance = np.where(is_new, variance, spread)
        fixed = (n == 0) & (self._c == 0)
        variance[fixed] = 0.0
        R = np.minimum(mean + np.sqrt(variance) * rng.standard_normal(n.size), self._highest)
        shapes = np.where(is_new[self._outcomes.pairs], self._new, self._old) + counts
        return shapes, R, fixed

    def _drawn_new(
        self, counts: FloatArray, before: FloatArray, own: FloatArray, rng: Rng
    ) -> BoolArray:
        """Draw which pairs are new, by the likelihoods of their visits."""
        (lo, hi), outcomes, n = self.setting.reward_range, self._outcomes, self._n
        tried = np.flatnonzero((n > 0) & (self._N > 0))
        seen = np.flatnonzero(counts)

        def of_outcomes(shapes: FloatArray, total: FloatArray) -> FloatArray:
            a, each = shapes[seen], np.zeros(counts.size)
            each[seen] = gammaln(a + counts[seen]) - gammaln(a)
            return (outcomes.sums(each) + gammaln(total) - gammaln(total + n))[tried]

        def of_rewards(middle: FloatArray | float, variance: FloatArray) -> FloatArray:
            v = np.maximum(variance[tried], LEAST * reward_scale((lo, hi)) ** 2)
            return -0.5 * (np.log(v) + (self._R - middle)[tried] ** 2 / v)

        old = of_outcomes(self._like_old, self._c + PRIOR)
        old += of_rewards(self._old_R, before + own)
        new = of_outcomes(self._like_new, np.full(n.size, PRIOR))
        new += of_rewards((lo + hi) / 2, (hi - lo) ** 2 / 4 + own)
        odds = np.log(self._n_tasks + 1.0) + old - new  # of old, with 1 / (L + 2) for new
        is_new = self._N == 0
        u = rng.random(n.size)[tried]
        is_new[tried] = u > 1 / (1 + np.exp(-np.clip(odds, -700, 700)))
        return is_new

    def claims(self) -> Claims:
        """Return the nearness."""
        return Claims(nearness=self.nearness)

    def widen_claims(
        self, nearness: Callable[[Nearness], Nearness], d_max: Callable[[FloatArray], FloatArray]
    ) -> None:
        """Widen the nearness."""
        self.nearness = nearness(self.nearness)

    def options(self) -> dict[str, Any] | None:
        """Return the arrays of the nearness."""
        return arrays_of(self.nearness)
