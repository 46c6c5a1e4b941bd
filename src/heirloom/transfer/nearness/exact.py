"""Nearness of tasks whose models are known, and the bound that follows from one of them."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse

from heirloom.arrays import BoolArray, FloatArray, frozen
from heirloom.errors import InvalidArgument, NotConverged
from heirloom.kernels import distances
from heirloom.mdp.learned import LearnedModel
from heirloom.mdp.rows import Rows
from heirloom.mdp.tabular import TabularMDP, check_task
from heirloom.metrics.pseudometrics import check_comparable, tolerance_of
from heirloom.planning.certificate import ROUNDOFF
from heirloom.transfer import program
from heirloom.transfer.model_sets import combined
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.transfer.nearness.rows import near_sets, rows_of_sources
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source
from heirloom.validation import instance, shown

# A computed difference is enlarged by this factor, so that rounding does not make it too small.
ROUNDING = 1 + 2.0**-40


def family_nearness(tasks: Iterable[TabularMDP]) -> Nearness:
    """Return the smallest nearness that is true for any two of these tasks, with successors.

    It says how tasks differ, and has no absolute bound on rewards (`highest_rewards`). Tasks are
    compared at the pairs that are available in both. An action that no task has is described as one
    that stays in its state.

    For a family whose parameters lie in a box, give the tasks at the corners of the box. If rewards
    and transition probabilities are affine in each parameter separately, the result is the nearness
    of the whole family.
    """
    if not isinstance(tasks, Iterable):
        raise InvalidArgument(
            f"tasks is {shown(tasks)}: expected a list of tasks, such as [first, second]; a family "
            "has a property `nearness`"
        )
    tasks = list(tasks)
    if not tasks:
        raise InvalidArgument("tasks is empty: give one task or more")
    for i, m in enumerate(tasks):
        check_task(m, f"tasks[{i}]")
        check_comparable(tasks[0], m)
    available = [m.available for m in tasks]
    some = np.any(available, axis=0)
    R = np.array([m.R for m in tasks])
    if some.all() and np.all(available):
        width = np.ptp(R, axis=0)
    else:
        highest = np.where(available, R, -np.inf).max(axis=0)
        width = np.where(some, highest - np.where(available, R, np.inf).min(axis=0), 0.0)
    rounding = 2 * np.max([m.transitions.R_error for m in tasks], axis=0).reshape(R.shape[1:])
    t = np.zeros(R.shape[1:])
    for i, m in enumerate(tasks):
        for m_bar in tasks[:i]:
            both = m.available & m_bar.available
            np.maximum(t, np.where(both, total_variation(m, m_bar), 0.0), out=t)
    return Nearness(
        rewards=width * ROUNDING + rounding,
        transitions=np.minimum(1.0, t * ROUNDING),
        successors=_successors(tasks, ~some),
        terminates=np.any([m.ends > 0 for m in tasks], axis=0),
    )


def near_bound(
    m: TabularMDP, m_bar: TabularMDP, nearness: Nearness, *, tol: float | None = None
) -> FloatArray:
    """Return an upper bound on Q*_M, [s, a], if M and the source M̄ have this nearness.

    It exceeds the smallest bound that follows from the nearness and from the model of M̄ by at most
    `tol`, by default 1e-6 times the width of the reward range of M. Of M it uses the reward range,
    γ, whether M can terminate, and which actions it has: the bound is -infinity where an action of
    M is not available.
    """
    check_comparable(m, m_bar)
    instance("nearness", nearness, Nearness, "such as hl.family_nearness([m, m_bar])")
    nearness._check_shape(m.n_states, m.n_actions)
    tolerance = tolerance_of(tol, m)
    setting = Setting(
        n_states=m.n_states,
        n_actions=m.n_actions,
        gamma=m.gamma,
        reward_range=m.reward_range,
        terminating=m.terminating,
        tol=tolerance.error / 2,
    )
    available = m.available.reshape(-1)
    nearness._check_possible(setting, available)
    # Below the rounding error, iterations would lower values in very small steps.
    rounding = _rounding(m_bar, setting)
    setting = replace(setting, tol=max(tolerance.error / 2, rounding / 2))
    U = np.where(available, setting.v_max, -np.inf)
    values = program.initial_values(setting, U)
    sets = near_sets(rows_of_sources([_source(m_bar)], setting), nearness, setting)
    near = combined([(1, sets)], setting, values, available)
    if near is not None:
        near = near._replace(limit=np.inf)  # also differences from v_max below `same` count
        values = program.with_near(values, near)
        model = LearnedModel(m.n_states, m.n_actions, n_known=1)
        program.update(model._arrays, values, near, near.pairs)
        program.complete(model._arrays, values, near, setting.slack)
    error = max(tolerance.error, rounding) / 2 + 2 * rounding
    if not tolerance.admits(error, float(np.abs(U[np.isfinite(U)]).max())):
        raise NotConverged(
            f"tol={tolerance.error:g} cannot be certified: float64 allows an error of about "
            f"{error:.1g}; ask for tol={2 * error:.1g} or more"
        )
    return np.minimum(U + rounding, setting.v_max).reshape(m.R.shape)


def _source(m: TabularMDP) -> Source:
    """Return a task with a known model as a source of which every available pair is known."""
    t, rows = m.transitions, m.transitions.continuing
    n_pairs = rows.indptr.size - 1
    given = Rows(
        known=m.available.reshape(-1),
        counts=np.zeros(n_pairs, dtype=np.int64),
        R=t.R,
        ends=t.end_probability,
        first=rows.indptr[:-1],
        last=rows.indptr[1:],
        successors=rows.successors,
        p=rows.p,
    )
    return Source(given, np.full(n_pairs, m.v_max), np.full(m.n_states, m.v_max), task=1)


def _rounding(m_bar: TabularMDP, setting: Setting) -> float:
    """Return how far rounding can lower the result.

    A backup sums up to 3 L + 10 terms for rows of length L, and mean rewards are rounded.
    """
    longest = int(np.diff(m_bar.transitions.indptr).max())
    lo, hi = setting.reward_range
    largest = max(abs(lo), abs(hi)) / (1 - setting.gamma)
    of_backup = (3 * longest + 16) * ROUNDOFF * 2 * largest
    return float((of_backup + m_bar.transitions.R_error.max()) / (1 - setting.gamma))


def total_variation(m: TabularMDP, m_bar: TabularMDP) -> FloatArray:
    """Return ½ Σ |T - T̄| over the states and ⊥, [s, a]."""
    L1 = np.empty(m.n_states * m.n_actions)
    ones = frozen(np.ones(m.n_states))
    rows, rows_bar = m.transitions.continuing, m_bar.transitions.continuing
    distances.weigh_differences(*rows, *rows_bar, ones, L1)
    return np.minimum(1.0, (L1.reshape(m.R.shape) + np.abs(m.ends - m_bar.ends)) / 2)


def _successors(tasks: Sequence[TabularMDP], missing: BoolArray) -> sparse.csr_array:
    """Return the states that a transition of some task can lead to, sparse of shape (S·A, S).

    A pair that is `missing` in all tasks stays in its state: a nearness needs one outcome per pair.
    """
    matrices = []
    for m in tasks:
        rows = m.transitions.continuing
        arrays = np.ones(rows.p.size), rows.successors, rows.indptr
        matrices.append(sparse.csr_array(arrays, shape=(rows.indptr.size - 1, m.n_states)))
    if missing.any():
        pairs = np.flatnonzero(missing)
        stays = np.ones(pairs.size), (pairs, pairs // tasks[0].n_actions)
        matrices.append(sparse.csr_array(stays, shape=matrices[0].shape))
    return sum(matrices[1:], matrices[0])
