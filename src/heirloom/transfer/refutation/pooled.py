"""Evidence against a claim from all pairs and tasks together: a product of e-values.

A claim says that the means of a pair in all tasks lie in an interval of length r: mean rewards for
a nearness or a `d_max`, and for a nearness the probabilities of any set of outcomes, where r is its
total variation t. Let b be the middle of this interval. After n visits of the pair in a task, with
outcomes X_1, ..., X_n in an interval of width w, let

    F(b) = exp(-n (λ r / 2 + λ² w² / 8)) cosh(λ Σ_i (X_i - b)).

Whatever the agent did before, the next outcome has the mean μ of the task, with |μ - b| <= r / 2.
So exp(±λ (X - b)) has the conditional mean exp(λ r / 2 + λ² w² / 8) at most (Hoeffding), and F(b)
never increases on average with a visit. It starts at 1. The same is true of

    P = Π_k (1 - q + q Π_j F_jk(b_k))

over pairs k and tasks j, since a step visits one pair, and of any average of such P over fixed λ
and q. Therefore P ever exceeds 1 / δ with probability δ at most (Ville, 1939), at whatever times
one looks, and however the agent chose its visits and its user chose the next task.

The following steps only make P smaller, so that this remains true:

- b_k is not known: the minimum over b_k is taken.
- The outcomes of a pair that did not become known, or whose task is no longer stored, are not
  known, but only the number of visits (`TaskMemory.visits`). As cosh >= 1, each of these visits
  contributes the factor exp(-λ r / 2 - λ² w² / 8). Leaving these pairs out would not be valid:
  whether a pair becomes known may depend on its first outcomes.

For transitions, outcomes have numbers (states from 0, and S for ⊥), and the sets of outcomes are
those whose numbers have a certain binary digit 1. The factors of a pair are averaged over the
digits. Differences that cancel in every digit are not detected.

P decreases as r grows. So a claim that was widened because of the data, and is true, has no larger
P than the smallest true claim: all claims have the same δ together.
"""

import math
from typing import NamedTuple

import numpy as np

from heirloom.arrays import FloatArray, IntArray
from heirloom.kernels import pooling as kernels
from heirloom.kernels.audit import Rows
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.radii import Radii
from heirloom.transfer.refutation.rows import rows_by_pair
from heirloom.transfer.refutation.watch import Claims
from heirloom.transfer.setting import Setting

RATES = np.array([0.125, 0.25, 0.5, 1.0, 2.0])  # λ w; a difference of d w is detected best by 2 d
SHARES = (1.0, 0.1, 0.01)  # q: the share of the pairs that are expected to contradict the claim
SHARE_OF_DELTA = 0.5  # of pooled evidence; the rest is that of single pairs
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
        return self.log_e >= -math.log(SHARE_OF_DELTA * delta)


def pooled_evidence(memory: TaskMemory, claims: Claims, setting: Setting) -> Pooled | None:
    """Return the evidence against the claims, or None if the visits were not recorded."""
    stored = {source.task: source for source in (*memory._first, *memory.sources)}
    sources = [stored[task] for task in sorted(stored)]
    if memory.visits is None or not sources or any(one.n_known == 0 for one in sources):
        return None
    n_pairs = setting.n_pairs
    rows = rows_by_pair(sources, [Radii(0.0, np.zeros(n_pairs))] * len(sources), setting)
    n = np.array([source.n_known for source in sources])[rows.source]
    left_out = memory.visits - _visits(rows, n)
    nearness, d_max = claims
    r = np.full(n_pairs, np.inf)
    if nearness is not None:
        r = np.minimum(r, nearness._per_pair("rewards", n_pairs))
    if d_max is not None:
        r = np.minimum(r, d_max.reshape(-1))
    lo, hi = setting.reward_range
    parts = [np.full((RATES.size, n_pairs), 0.0), np.full((RATES.size, n_pairs), 0.0)]
    if hi > lo:
        kernels.pair_evidence(rows.start, n, rows.R, r, left_out, RATES, hi - lo, parts[0])
    logs = [_product(parts[0])]
    if nearness is not None:
        t = np.array(nearness._per_pair("transitions", n_pairs))
        parts[1] = _transitions(rows, n, t, left_out, setting)
        logs.append(_product(parts[1]))
    log_e = float(np.logaddexp.reduce(logs)) - math.log(len(logs))
    return Pooled(log_e, parts[0].max(axis=0), parts[1].max(axis=0))


def _visits(rows: Rows, n: IntArray) -> IntArray:
    """Return the number of visits of each pair in its rows."""
    total = np.concatenate([[0], np.cumsum(n)])
    visits: IntArray = np.diff(total[rows.start])
    return visits


def _transitions(
    rows: Rows, n: IntArray, t: FloatArray, left_out: IntArray, setting: Setting
) -> FloatArray:
    """Return the logarithms of the e-values of transitions, averaged over digits; [λ, pair]."""
    n_digits = max(1, int(setting.n_states).bit_length())
    lengths = rows.last - rows.first
    row = np.repeat(np.arange(lengths.size), lengths)
    at = np.repeat(rows.first - (np.cumsum(lengths) - lengths), lengths) + np.arange(row.size)
    successors, p = rows.successors[at], rows.p[at]
    logs = np.empty((n_digits, RATES.size, setting.n_pairs))
    for digit in range(n_digits):
        has_digit = (successors >> digit) & 1 == 1
        X = np.bincount(row[has_digit], p[has_digit], minlength=lengths.size)
        X = X + rows.ends * ((setting.n_states >> digit) & 1)
        kernels.pair_evidence(rows.start, n, X, t, left_out, RATES, 1.0, logs[digit])
    averaged: FloatArray = np.logaddexp.reduce(logs, axis=0) - math.log(n_digits)
    return averaged


def _product(logs: FloatArray) -> float:
    """Return ln of the average of Π_k (1 - q + q E_k) over λ and q; `logs` is ln E, [λ, pair]."""
    totals = []
    for q in SHARES:
        without = math.log(1 - q) if q < 1 else -math.inf
        totals.append(np.logaddexp(without, math.log(q) + logs).sum(axis=1))
    return float(np.logaddexp.reduce(np.concatenate(totals))) - math.log(len(SHARES) * RATES.size)


def is_due(n_tasks: int) -> bool:
    """Return whether evidence is pooled after this task: 2, 3, 4, 6, 8, 12, 16, 24, ...

    Then its cost, which grows with the number of tasks, is constant per task on average.
    """
    if n_tasks < 2:
        return False
    odd = n_tasks >> ((n_tasks & -n_tasks).bit_length() - 1)  # without factors 2
    return odd in (1, 3)
