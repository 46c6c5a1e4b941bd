"""Rounding errors of the differences between mean rewards of two tasks."""

import numpy as np

from heirloom.arrays import BoolArray, FloatArray
from heirloom.mdp.transitions import Transitions


def difference_error(t: Transitions, t_bar: Transitions) -> FloatArray:
    """Bound the rounding error of R - R̄ per pair.

    Where a pair has the same transitions in both tasks, the exact difference is 0, unless stored
    rewards are themselves rounded.
    """
    error = t.R_error + t_bar.R_error
    if t is t_bar:
        return np.zeros_like(error)
    if error.any():
        same = _same_rows(t, t_bar)
        error[same] = np.minimum(error[same], t.rewards_error + t_bar.rewards_error)
    return error


def _same_rows(t: Transitions, t_bar: Transitions) -> BoolArray:
    """Whether each pair has the same successors, probabilities, rewards and terminations."""
    lengths = np.diff(t.indptr)
    same = (t.R == t_bar.R) & (lengths == np.diff(t_bar.indptr))
    if same.any():
        compared, compared_bar = same[t.pairs], same[t_bar.pairs]
        pairs = np.repeat(np.flatnonzero(same), lengths[same])
        for of_task, of_other in zip(_columns(t), _columns(t_bar), strict=True):
            same[pairs[of_task[compared] != of_other[compared_bar]]] = False
    return same


def _columns(t: Transitions) -> tuple[np.ndarray, ...]:
    rewards = t.R[t.pairs] if t.rewards is None else t.rewards
    ends = np.zeros(t.p.size, dtype=bool) if t.ends is None else t.ends
    return t.successors, t.p, rewards, ends
