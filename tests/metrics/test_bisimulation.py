"""The bisimulation metric, against its definition as linear programs."""

import numpy as np
import pytest
from scipy.optimize import linprog

import heirloom as hl
from heirloom.metrics import bisimulation
from heirloom.metrics.bisimulation import bisimulation_metric, closest_states
from tests.strategies import draw_shape, draw_task


def outcomes(m, s, a):
    """The distribution of a pair over states and ⊥."""
    p = np.zeros(m.n_states + 1)
    for probability, successor, _, terminated in m.to_gymnasium().unwrapped.P[s][a]:
        p[m.n_states if terminated else successor] += probability
    return p


def wasserstein(p, q, ground):
    """The cost of the cheapest transport plan from p to q, by a linear program."""
    n, m = ground.shape
    rows = [np.kron(np.eye(n)[i], np.ones(m)) for i in range(n)]
    columns = [np.kron(np.ones(n), np.eye(m)[j]) for j in range(m)]
    result = linprog(ground.ravel(), A_eq=np.array(rows + columns), b_eq=np.concatenate([p, q]))
    return result.fun


def apply_definition(m, m_bar, c, ground):
    """max_a |R - R̄| + c W(T, T̄) over states and ⊥, for a ground metric over the same."""
    d = np.zeros((m.n_states + 1, m_bar.n_states + 1))
    only_end, only_end_bar = np.eye(m.n_states + 1)[-1], np.eye(m_bar.n_states + 1)[-1]
    for s in range(m.n_states + 1):
        for s_bar in range(m_bar.n_states + 1):
            for a in range(m.n_actions):
                terminal, terminal_bar = s == m.n_states, s_bar == m_bar.n_states
                r = 0.0 if terminal else m.R[s, a]
                r_bar = 0.0 if terminal_bar else m_bar.R[s_bar, a]
                p = only_end if terminal else outcomes(m, s, a)
                q = only_end_bar if terminal_bar else outcomes(m_bar, s_bar, a)
                d_of_action = abs(r - r_bar) + c * wasserstein(p, q, ground)
                d[s, s_bar] = max(d[s, s_bar], d_of_action)
    return d


@pytest.mark.parametrize("seed", range(8))
def test_metric_with_identity_ground_matches_its_definition(seed):
    rng = np.random.default_rng(seed)
    shape = draw_shape(rng, most_states=4)
    m, m_bar = draw_task(rng, shape), draw_task(rng, shape)
    different = 1 - np.eye(m.n_states + 1)
    expected = apply_definition(m, m_bar, 0.7, different)[:-1, :-1]
    d = bisimulation_metric(m, m_bar, ground="identity", c=0.7)
    assert d == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_recursive_metric_is_the_fixed_point_of_its_definition_from_above(seed):
    rng = np.random.default_rng(seed)
    shape = draw_shape(rng, most_states=4)._replace(n_actions=2)
    m = draw_task(rng, shape)
    m_bar = draw_task(rng, shape._replace(n_states=3, branching=2))
    d = bisimulation_metric(m, m_bar, ground="recursive", c=0.5, tol=1e-9)
    iterated = np.zeros((m.n_states + 1, m_bar.n_states + 1))
    for _ in range(28):
        iterated = apply_definition(m, m_bar, 0.5, iterated)
    assert d == pytest.approx(iterated[:-1, :-1], abs=1e-7)
    assert (d >= iterated[:-1, :-1] - 1e-12).all()


def test_recursive_metric_bounds_differences_of_values_within_a_task():
    """Ferns et al.: with c = γ, |V*(s) - V*(t)| <= d(s, t)."""
    rng = np.random.default_rng(1)
    for _ in range(15):
        m = draw_task(rng, draw_shape(rng, most_states=5)._replace(gamma=0.7))
        d = bisimulation_metric(m, m, ground="recursive", tol=1e-9)
        V = hl.solve(m).V
        assert (np.abs(V[:, None] - V[None, :]) <= d + 1e-7).all()
        assert d == pytest.approx(d.T, abs=1e-8)
        assert (np.diag(d) <= 1e-9).all()


def test_closest_states_prefers_the_same_index_among_ties_then_the_first():
    d = np.array([[1.0, 0.5, 0.5], [0.2, 0.2, 0.2], [0.0, 3.0, 0.1], [5.0, 4.0, 4.0]])
    assert closest_states(d).tolist() == [1, 1, 0, 1]
    assert closest_states(d.T).tolist() == [2, 1, 2]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"ground": "l1"}, hl.errors.InvalidArgument, "ground is 'l1'"),
        ({"c": -1}, hl.errors.InvalidArgument, "c is -1"),
        (
            {"c": 1.0, "ground": "recursive"},
            hl.errors.InvalidArgument,
            "c is 1.0: expected a number below 1",
        ),
        ({"tol": 0}, hl.errors.InvalidArgument, "tol is 0"),
    ],
)
def test_invalid_arguments_are_rejected(options, error, message):
    m = hl.garnet(3, 2, branching=2, gamma=0.9, seed=0)
    with pytest.raises(error, match=message):
        bisimulation_metric(m, m, **options)


def test_tasks_with_different_actions_or_states_are_rejected():
    m = hl.garnet(3, 2, branching=2, gamma=0.9, seed=0)
    for other in (
        hl.garnet(3, 1, branching=2, gamma=0.9, seed=0),
        hl.garnet(4, 2, branching=2, gamma=0.9, seed=0),
    ):
        with pytest.raises(hl.errors.IncompatibleTasks, match="actions must be the same"):
            bisimulation_metric(m, other)
    with pytest.raises(hl.errors.InvalidArgument, match="not a TabularMDP"):
        bisimulation_metric(m, None)


@pytest.mark.parametrize("distance", [1e-4, 1e-6])
def test_recursive_metric_takes_few_sweeps_for_a_weight_close_to_1(distance, monkeypatch):
    """Two states that swap, against rewards that differ by 0.5: d = 0.5 / (1-c)."""
    calls, apply = [], bisimulation._apply

    def counted(*arguments):
        calls.append(1)
        assert len(calls) <= 5000
        return apply(*arguments)

    monkeypatch.setattr(bisimulation, "_apply", counted)
    T = np.eye(2)[[1, 0]][:, None, :]
    m = hl.TabularMDP([[0.0], [0.25]], T, gamma=0.9)
    m_bar = hl.TabularMDP([[0.5], [0.75]], T, gamma=0.9)
    c = 1 - distance
    d = hl.metrics.bisimulation_metric(m, m_bar, ground="recursive", c=c, tol=1e-3)
    assert d[0, 0] == pytest.approx(0.5 / (1 - c), abs=2e-3)
    assert d[0, 0] >= 0.5 / (1 - c) - 1e-9 / distance


def test_recursive_metric_that_float64_cannot_certify_raises_not_converged():
    m, m_bar = (hl.garnet(2, 1, branching=2, gamma=0.9, seed=seed) for seed in (0, 1))
    with pytest.raises(hl.errors.NotConverged, match="ask for tol="):
        hl.metrics.bisimulation_metric(m, m_bar, ground="recursive", c=1 - 1e-12, tol=1e-6)
