"""Evidence against a claim from all pairs and tasks together: a product of e-values.

A claim says that the means of a pair in all tasks lie in an interval of length r: mean rewards for
a nearness or a prior, and for a nearness the probabilities of any set of outcomes, where r is its
total variation t. Let b be the middle of this interval. After n visits of the pair in a task, with
outcomes X_1, ..., X_n in an interval of width w, let

    F(b) = exp(-n (λ r / 2 + λ² w² / 8)) cosh(λ Σ_i (X_i - b)).

Whatever the agent did before, the next outcome has the mean μ of the task, with |μ - b| <= r / 2.
So exp(±λ (X - b)) has the conditional mean exp(λ r / 2 + λ² w² / 8) at most (Hoeffding), and F(b)
never increases on average with a visit. It starts at 1. The same is true of

    P = Π_k (1 - q + q Π_j F_jk(b_k))

over pairs k and tasks j, since a step visits one pair, and of any average of such P over fixed λ
and q. So P is a supermartingale in the steps of a life that starts at 1 (an e-process): its mean is
at most 1 at every stopping time, and it ever exceeds 1 / δ with probability δ at most (Ville,
1939). It does not matter how the agent chose its visits, how often one looks, and whether tasks end
or are dropped because their estimates look extreme.

This needs the mean of *all* n visits of a pair until its task ended, for counts that go on growing.
A model that is frozen after `n_known` visits has the mean of the first min(n, n_known): this number
is a stopping time, and F stays as it is from there on. The mean of an earlier look would not do if
later visits were left out: which look was the last one is only known later.

The following steps only make P smaller, so that this remains true:

- b_k is not known: the minimum over b_k is taken.
- The outcomes of a pair that did not become known, or whose task is no longer stored, are not
  used, but only the number of visits (`TaskMemory.visits`). As cosh >= 1, each of these visits
  contributes the factor exp(-λ r / 2 - λ² w² / 8). Leaving these pairs out would not be valid:
  whether a pair becomes known may depend on its first outcomes. A task whose model was given, and
  has no visits, is left out as a whole.

For transitions, outcomes have numbers (states from 0, and S for ⊥), and the sets of outcomes are
those whose numbers have a certain binary digit 1. The factors of a pair are averaged over the
digits. Differences that cancel in every digit are not detected.

P decreases as r grows. So a claim that was widened because of the data, and is true, has no larger
P than the smallest true claim: all claims have the same δ together.
"""

import math
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from heirloom.arrays import FloatArray, IntArray
from heirloom.kernels import pooling as kernels
from heirloom.transfer.bound import Claims
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.nearness.rows import gathered
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source

# λ w: a difference of d w more than claimed is detected best by 2 d; small ones need many visits.
RATES = np.array([2.0**-7, 2.0**-5, 0.125, 0.25, 0.5, 1.0, 2.0])
SHARES = (1.0, 0.1, 0.01)  # q: the share of the pairs that are expected to contradict the claim
SHARE_OF_DELTA = 0.5  # of pooled evidence; the rest is that of single pairs
LARGE = 50.0
LARGEST = 700.0  # of a logarithm whose exponential is a float


class Pooled(NamedTuple):
    """The evidence of all pairs and tasks together against a claim."""

    log_e: float
    """The logarithm of the e-value; the claim is refuted at δ if e is 1 / δ or more."""
    rewards: FloatArray
    """The largest logarithm of the e-value of each pair over λ, for mean rewards; [pair]."""
    transitions: FloatArray
    """The same for transitions."""

    @property
    def e(self) -> float:
        """The e-value, at most 10^304."""
        return math.exp(min(self.log_e, LARGEST))

    def refutes(self, delta: float) -> bool:
        """Return whether the evidence refutes the claim, with the share of δ of this test."""
        return self.log_e >= -math.log(SHARE_OF_DELTA) - math.log(delta)


def pooled_evidence(
    memory: TaskMemory, claims: Claims, setting: Setting, *, from_above: bool = False
) -> Pooled | None:
    """Return the evidence against the claims.

    None if no stored task has recorded visits. The e-value is 0 if no data could contradict the
    claims. With `from_above`, it is an upper bound on the evidence, which takes less time.
    """
    sources = memory.stored
    if not any(source.rows.counts.any() for source in sources):
        return None
    n_pairs, (lo, hi) = setting.n_pairs, setting.reward_range
    nearness, d_max = claims
    r, t = np.full(n_pairs, hi - lo), np.ones(n_pairs)
    if nearness is not None:
        r = np.minimum(r, nearness._per_pair("rewards", n_pairs))
    if d_max is not None:
        r = np.minimum(r, d_max.reshape(-1))
    if nearness is not None:
        t = np.minimum(t, nearness._per_pair("transitions", n_pairs))
    if (r >= hi - lo).all() and (t >= 1).all():
        return Pooled(-math.inf, np.zeros(n_pairs), np.zeros(n_pairs))
    data = gathered_data(sources, n_pairs)
    left_out = memory.visits.counts - data.visits

    def logs(i: int, claim: FloatArray, width: float) -> FloatArray:
        return log_evidence(data, data.X[i], claim, left_out, width, from_above=from_above)

    rewards, transitions = logs(0, r, hi - lo), np.zeros((1, n_pairs))
    product = _largest_product if from_above else log_product
    parts = [product(rewards)]
    if nearness is not None:
        digits = np.array([logs(i, t, 1.0) for i in range(1, len(data.X))])
        transitions = digits.max(axis=0)
        if not from_above:
            transitions += np.log(np.exp(digits - transitions).mean(axis=0))
        parts.append(product(transitions))
    log_e = float(np.logaddexp.reduce(parts)) - math.log(len(parts))
    return Pooled(log_e, rewards.max(axis=0), transitions.max(axis=0))


class Data(NamedTuple):
    """The means of all tasks, ordered by pair: those of pair k are `start[k]:start[k + 1]`."""

    start: IntArray
    n: IntArray
    """The number of visits of each row."""
    X: FloatArray
    """The mean reward of each row, and the frequency of each digit; [1 + digit, row]."""
    visits: IntArray
    """The number of visits of each pair in all rows."""


def gathered_data(sources: list[Source], n_pairs: int) -> Data:
    """Return the means of all known pairs of these tasks."""
    pairs = np.concatenate([gathered(source).pairs for source in sources])
    order = np.argsort(pairs, kind="stable")
    start = np.zeros(n_pairs + 1, dtype=np.int64)
    np.cumsum(np.bincount(pairs, minlength=n_pairs), out=start[1:])
    n = np.concatenate([source.rows.counts[source.known] for source in sources])[order]
    X = np.take(np.concatenate([_means(source) for source in sources], axis=1), order, axis=1)
    total = np.concatenate([[0], np.cumsum(n)])
    return Data(start, n, X, np.diff(total[start]))


def log_evidence(
    data: Data,
    X: FloatArray,
    claim: FloatArray,
    left_out: IntArray,
    width: float,
    *,
    from_above: bool = False,
) -> FloatArray:
    """Return ln E of each rate and pair, [λ, pair], for means X of outcomes of this width."""
    found = np.zeros((RATES.size, claim.size))
    if width > 0:
        arguments = data.start, data.n, X, claim, left_out, RATES, width
        kernels.pair_evidence(*arguments, from_above, found)
    return found


# A source serves many tasks: its means are computed once.
_MEANS: WeakKeyDictionary[Source, FloatArray] = WeakKeyDictionary()


def _means(source: Source) -> FloatArray:
    """Return the means of the known pairs of a source, as in `Data.X`."""
    X = _MEANS.get(source)
    if X is None:
        rows, n_states = gathered(source), source.V.size
        X = np.empty((1 + n_states.bit_length(), rows.pairs.size))
        X[0] = rows.R
        successors, p = source.rows.successors, source.rows.p
        kernels.digit_frequencies(rows.first, rows.last, rows.ends, successors, p, n_states, X[1:])
        _MEANS[source] = X
    return X


def log_product(logs: FloatArray) -> float:
    """Return ln of the average of Π_k (1 - q + q E_k) over λ and q; `logs` is ln E, [λ, pair]."""
    totals = []
    E_minus_1 = np.expm1(np.minimum(logs, LARGE))
    above = np.maximum(logs - LARGE, 0.0)  # where 1 - q is less than the rounding error of q E
    for q in SHARES:
        factors = logs if q == 1 else np.log1p(q * E_minus_1) + above
        totals.append(factors.sum(axis=1))
    return float(np.logaddexp.reduce(np.concatenate(totals))) - math.log(len(SHARES) * RATES.size)


def _largest_product(logs: FloatArray) -> float:
    """Return an upper bound on `log_product`: each factor is at most 1 or E_k, for the best λ."""
    return float(np.maximum(logs, 0.0).sum(axis=1).max())


def is_due(n_tasks: int) -> bool:
    """Return whether evidence is pooled after this task: 2, 4, 8, 16, ...

    Then its cost, which grows with the number of tasks, is constant per task on average.
    """
    return n_tasks > 1 and n_tasks & (n_tasks - 1) == 0
