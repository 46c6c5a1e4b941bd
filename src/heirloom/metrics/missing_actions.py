"""Distances between tasks that lack different actions.

A pair that both tasks have is compared as always. Where only one of them has it, the other says
nothing: D is that of an unknown model, and the difference of the values of the state is bounded by
v_max - V, with V the value in the task that lacks the action. A pair that neither has does not
count. docs/guarantees.md has the proofs.
"""

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, frozen
from heirloom.mdp.available import rows_of, stand_ins
from heirloom.mdp.tabular import TabularMDP
from heirloom.planning.certificate import Certified, Tolerance, fixed_point
from heirloom.planning.operators import Best, Problem
from heirloom.planning.solve import solve_with_rewards


def lack_actions(*tasks: TabularMDP) -> bool:
    """Whether one of the tasks lacks an action."""
    return any(m.transitions.available is not None for m in tasks)


def with_unknown(
    D: FloatArray, m: TabularMDP, m_bar: TabularMDP, f: FloatArray, f_end: float
) -> FloatArray:
    """Return D with the largest possible distance where one task lacks a pair, 0 where both do.

    That is the width of the range of rewards, plus the two largest weights of outcomes.
    """
    lo = min(m.reward_range[0], m_bar.reward_range[0])
    hi = max(m.reward_range[1], m_bar.reward_range[1])
    heaviest = np.sort(np.append(f, f_end))[-2:]
    one = m.available ^ m_bar.available
    both = m.available & m_bar.available
    return np.where(both, D, np.where(one, hi - lo + heaviest.sum(), 0.0))


def gaps(m: TabularMDP, m_bar: TabularMDP, tol: Tolerance, target: TabularMDP | None) -> FloatArray:
    """Return v_max - V at pairs that only one task has, V being that of the other; else NaN.

    If `target` is one of the tasks, pairs that it lacks are left out. The result is above the exact
    one by at most twice the tolerance.
    """
    v_max = max(m.v_max, m_bar.v_max)
    result = np.full(m.R.shape, np.nan)
    for one, other in ((m, m_bar), (m_bar, m)):
        only = one.available & ~other.available
        if only.any() and target is not other:
            values = solve_with_rewards(other, None, tol)
            width = np.maximum(v_max - values.V + values.error, 0.0)
            result[only] = np.broadcast_to(width[:, None], only.shape)[only]
    return result.reshape(-1)


def solve_dissimilarity(
    m: TabularMDP, both: BoolArray, D: FloatArray, gap: FloatArray, tol: Tolerance
) -> Certified:
    """Return the fixed point of d = D + γ Σ T max d at pairs in `both`, d = `gap` at others.

    The maximum is over these pairs only; all arguments are over pairs. Elsewhere d is 0.
    """
    counts = both | ~np.isnan(gap)
    replaced = stand_ins(counts, m.n_actions)
    rows = rows_of(m.transitions.continuing, replaced)
    fixed = ~both[replaced]
    kept = np.repeat(~fixed, np.diff(rows.indptr))
    indptr = np.zeros_like(rows.indptr)
    np.cumsum(np.where(fixed, 0, np.diff(rows.indptr)), out=indptr[1:])
    rows = type(rows)(frozen(indptr), frozen(rows.successors[kept]), frozen(rows.p[kept]))
    rewards = np.where(both, D, np.where(np.isnan(gap), 0.0, gap))
    terminating = m.terminating or bool(fixed.any())
    problem = Problem(frozen(rewards[replaced]), rows, m.gamma, m.n_states, terminating)
    solved = fixed_point(problem, Best(), tol)
    return Certified(np.where(counts.reshape(m.R.shape), solved.Q, 0.0), solved.V, solved.error)
