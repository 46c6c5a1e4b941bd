"""Learned models of which any set of pairs is known, exactly or within ε, and agents for them."""

import numpy as np

import heirloom as hl
from heirloom.kernels.counting import N_TRANSITIONS, NOT_LISTED
from heirloom.transfer.setting import Setting
from tests.strategies import draw_pair


def learned_exactly(m, known):
    """A learned model in which the pairs of `known` [s, a] are known, exactly as in `m`.

    The rows are written, not sampled: probabilities need not be multiples of 1 / n_known.
    """
    model = hl.LearnedModel(m.n_states, m.n_actions, n_known=m.n_states)
    t = m.transitions
    model._arrays = model._arrays._replace(
        **{name: np.full(t.p.size, -1) for name in ("owner", "next_into_1")},
        next_into=np.full(t.p.size, NOT_LISTED),
        successors=np.empty(t.p.size, dtype=np.int32),
        p=np.empty(t.p.size),
    )
    a = model._arrays
    on, size = t.continuing, 0
    for k in np.flatnonzero(known.ravel()):
        row = slice(on.indptr[k], on.indptr[k + 1])
        length = row.stop - row.start
        a.first[k], a.last[k] = size, size + length
        a.successors[size : size + length] = on.successors[row]
        a.p[size : size + length] = on.p[row]
        a.owner[size : size + length] = k
        a.R[k], a.ends[k], a.known[k] = t.R[k], t.end_probability[k], True
        size += length
    a.sizes[N_TRANSITIONS] = size
    return model


def draw_partly_known(rng, *, epsilon=0.0, most_states=4):
    """Two random tasks, a learned model of each with a random known set, and the setting."""
    m, m_bar = draw_pair(rng, most_states=most_states)
    models = [
        learned_exactly(task, rng.random((m.n_states, m.n_actions)) < rng.choice([0, 0.5, 1]))
        for task in (m, m_bar)
    ]
    setting = Setting(
        n_states=m.n_states,
        n_actions=m.n_actions,
        gamma=m.gamma,
        reward_range=m.reward_range,
        terminating=m.terminating or m_bar.terminating or bool(rng.integers(2)),
        epsilon=epsilon,
        tol=1e-6,
    )
    return m, m_bar, *models, setting


def blur(model, setting, rng):
    """Change rewards by up to ε, and the probabilities of known rows by up to ε in L1 norm."""
    a = model._arrays
    lo, hi = setting.reward_range
    for k in np.flatnonzero(a.known):
        a.R[k] = np.clip(a.R[k] + setting.epsilon * rng.uniform(-1, 1), lo, hi)
        row = slice(a.first[k], a.last[k])
        p = np.append(a.p[row], a.ends[k])
        weights = rng.dirichlet(np.ones(p.size)) * (p > 0)
        p = (1 - setting.epsilon / 2) * p + setting.epsilon / 2 * weights / weights.sum()
        a.p[row], a.ends[k] = p[:-1], p[-1]


def draw_deterministic_family(rng, *, n_tasks=3, terminating=0.0, gamma=0.9, n_states=None):
    """Deterministic tasks with the same transitions and rewards that differ by up to 0.1.

    One visit makes a pair of such a task known exactly.
    """
    drawn, n_actions = int(rng.integers(2, 8)), int(rng.integers(2, 4))
    first = hl.garnet(
        n_states or drawn, n_actions, branching=1, gamma=gamma, seed=rng, terminating=terminating
    )
    ends = first.T
    ends.data = first.transitions.ends.astype(float) if first.terminating else np.zeros(ends.nnz)
    return [
        hl.TabularMDP(
            np.clip(first.R + rng.uniform(-0.05, 0.05, first.R.shape), 0, 1),
            first.T,
            gamma=gamma,
            terminates=ends,
        )
        for _ in range(n_tasks)
    ]
