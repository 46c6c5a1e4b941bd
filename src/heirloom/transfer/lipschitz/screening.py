"""Test, before a task begins, whether a source can lower a bound in it at all.

The bound of a source M̄ at a pair k = (s, a) that is unknown in the task M is x = Q̄ + d̂, where d̂ is
d̂(M ‖ M̄) or d̂(M̄ ‖ M). Write c for the floor of values, V for the values of the task, and U for its
bound, so that V(s) >= U(k); and D̂ for the distance at k, which is the minimum of the prior and of
the measured distance. Let q = T̄(s, a, s) where M̄ knows k, and q = 1 elsewhere. Then

    d̂(M ‖ M̄) >= D̂ / (1-γ)     and     d̂(M̄ ‖ M) >= D̂ / (1-γq),

because k may lead to its own state, with any probability in M, and with probability q in M̄.

*If the prior is the minimum*, x >= Q̄ + prior / (1-γq). If this is at least v_max, the source does
not lower the bound at k.

*If the measured distance is the minimum*, the source does not lower the bound at k either. The
reason is that k may give the reward hi and always lead to its own state. In detail, suppose that
hi >= (1-γ) v_max, that Q̄ >= lo + γc, so that V̄ >= c, and that Q̄ >= R̄ + γ Σ T̄ V̄ where M̄ knows k.

    M̄ knows k, d̂(M ‖ M̄)   D̂ >= hi - R̄ + γ (Σ T̄ (V̄ - c) + (1 - 2q) (V̄(s) - c)), thus
                           Q̄ + D̂ >= hi + γ V̄(s), and x >= Q̄ + D̂ + γd̂ >= hi + γx.
    M̄ knows k, d̂(M̄ ‖ M)   D̂ >= hi - R̄ + γ (1-q) (V(s) - c), thus Q̄ + D̂ >= hi + γ (q V̄(s) +
                           (1-q) V(s)), and x >= Q̄ + D̂ + γq d̂ >= hi + γ (q x + (1-q) V(s)).
    M̄ does not know k      D̂ >= hi - lo + γ (V̄(s) - c), or with V(s), thus Q̄ + D̂ >= hi + γ V̄(s),
                           or hi + γ V(s), and x >= hi + γx, or x >= hi + γ V(s).

The first and the last give x >= v_max or x >= V(s), because hi >= (1-γ) v_max. So does the second:
(1-γq) x >= (1-γ) V(s) + γ (1-q) V(s) = (1-γq) V(s). In all cases x >= U(k). V(s) is the value at
the time of the measurement, and only decreases afterwards. The accuracy ε of models only increases
D̂ and d̂.

If γ is close to 1, d̂ begins at a cap (`solutions.cap`) and may be smaller than this. A source that
is dropped could then lower a bound, by little; the bound without it is larger and still valid.
"""

import numpy as np

from heirloom.arrays import FloatArray, IntArray
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source


def can_lower(source: Source, prior: FloatArray, setting: Setting) -> bool:
    """Return False if the source cannot lower a bound in any task, by more than rounding.

    True means that it may. `prior` is over pairs.
    """
    Q, v_max, gamma = source.completed_Q, setting.v_max, setting.gamma
    with np.errstate(over="ignore"):  # a prior near the largest float64 gives an infinite distance
        if bool((Q + prior / (1 - gamma) < v_max).any()):
            return True
        if bool((Q + prior < v_max).any()):
            stays = probability_of_staying(source, setting)
            if bool((Q + prior / (1 - gamma * stays) < v_max).any()):
                return True
    return not measured_distances_cannot(source, setting)


def measured_distances_cannot(source: Source, setting: Setting) -> bool:
    """Return whether the conditions for measured distances are met, up to rounding."""
    (lo, hi), gamma, slack = setting.reward_range, setting.gamma, setting.slack
    if setting.n_states == 1 and not setting.terminating:  # all models are equal
        return False
    if hi + slack < (1 - gamma) * setting.v_max:
        return False
    # Where Q̄ = v_max, the bound of the source is not below v_max.
    least = np.minimum(_backups(source, setting), setting.v_max)
    np.maximum(least, lo + gamma * setting.floor, out=least)
    return bool((source.completed_Q >= least - slack).all())


def probability_of_staying(source: Source, setting: Setting) -> FloatArray:
    """Return T̄(s, a, s) of each pair, and 1 where the source does not know the pair."""
    owner, rows = _owners(source), source.rows
    own = rows.successors == owner // setting.n_actions
    stays = np.bincount(owner[own], rows.p[own], minlength=setting.n_pairs)
    return np.where(source.known, np.minimum(stays, 1.0), 1.0)


def _backups(source: Source, setting: Setting) -> FloatArray:
    """Return R̄ + γ Σ T̄ V̄ of each pair, and -∞ where the source does not know the pair."""
    rows = source.rows
    next_V = np.bincount(
        _owners(source), rows.p * source.V[rows.successors], minlength=setting.n_pairs
    )
    return np.where(source.known, rows.R + setting.gamma * next_V, -np.inf)


def useful_below(sources: list[Source], setting: Setting) -> FloatArray:
    """Return the number below which a prior can lower the bound, over pairs; 0 if none can.

    At a pair that is unknown in a new task, the bound of a source is at least Q̄ + d_max / (1-γq).
    So it can be below v_max only if d_max < (v_max - Q̄) (1-γq). A distance that follows from the
    models alone cannot lower the bound, if the values of the source meet the conditions above.

    It is infinite if a source does not meet the conditions, so that no number is certain.
    """
    limit = np.zeros(setting.n_pairs)
    for source in sources:
        if not measured_distances_cannot(source, setting):
            return np.full(setting.n_pairs, np.inf)
        stays = probability_of_staying(source, setting)
        np.maximum(
            limit, (setting.v_max - source.completed_Q) * (1 - setting.gamma * stays), out=limit
        )
    return limit


def _owners(source: Source) -> IntArray:
    """Return the pair of each transition; the rows are in the order of pairs."""
    return np.repeat(np.arange(source.known.size), source.rows.last - source.rows.first)
