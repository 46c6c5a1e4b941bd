"""Nearness of tasks whose models are known, and the bound that follows from one of them."""

from collections.abc import Iterable, Sequence

import numpy as np
from scipy import sparse

from heirloom.arrays import FloatArray, frozen
from heirloom.errors import InvalidArgument
from heirloom.kernels import distances
from heirloom.mdp.tabular import TabularMDP
from heirloom.metrics.pseudometrics import check_comparable
from heirloom.transfer.nearness.knowledge import Nearness

# A computed difference is enlarged by this factor, so that rounding does not make it too small.
ROUNDING = 1 + 2.0**-40


def family_nearness(tasks: Iterable[TabularMDP]) -> Nearness:
    """Return the smallest nearness that is true for any two of these tasks.

    For a family whose parameters lie in a box, give the tasks at the corners of the box. If rewards
    and transition probabilities are affine in each parameter separately, the result is the nearness
    of the whole family.
    """
    tasks = list(tasks) if isinstance(tasks, Iterable) else []
    if not tasks:
        raise InvalidArgument("tasks is empty: give one task or more")
    for m in tasks:
        check_comparable(tasks[0], m)
    R = np.array([m.R for m in tasks])
    t = np.zeros(R.shape[1:])
    for i, m in enumerate(tasks):
        for m_bar in tasks[:i]:
            np.maximum(t, total_variation(m, m_bar), out=t)
    return Nearness(
        rewards=np.ptp(R, axis=0) * ROUNDING,
        transitions=np.minimum(1.0, t * ROUNDING),
        successors=_successors(tasks),
        terminates=np.any([m.ends > 0 for m in tasks], axis=0),
        highest_rewards=R.max(axis=0),
    )


def total_variation(m: TabularMDP, m_bar: TabularMDP) -> FloatArray:
    """Return ½ Σ |T - T̄| over the states and ⊥, [s, a]."""
    L1 = np.empty(m.n_states * m.n_actions)
    ones = frozen(np.ones(m.n_states))
    rows, rows_bar = m.transitions.continuing, m_bar.transitions.continuing
    distances.weigh_differences(*rows, *rows_bar, ones, L1)
    return np.minimum(1.0, (L1.reshape(m.R.shape) + np.abs(m.ends - m_bar.ends)) / 2)


def _successors(tasks: Sequence[TabularMDP]) -> sparse.csr_array:
    """Return the states that a transition of some task can lead to, sparse of shape (S·A, S)."""
    matrices = []
    for m in tasks:
        rows = m.transitions.continuing
        arrays = np.ones(rows.p.size), rows.successors, rows.indptr
        matrices.append(sparse.csr_array(arrays, shape=(rows.indptr.size - 1, m.n_states)))
    return sum(matrices[1:], matrices[0])
