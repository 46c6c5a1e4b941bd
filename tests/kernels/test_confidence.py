"""Confidence sets contain the truth, and extreme means over them are exact, from the safe side."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from heirloom.kernels import confidence
from tests import streams
from tests.reference import confidence as reference

GAP = 1e-7  # relative to the range of W, by which a bound may be above the maximum
ROUNDING = 1e-11


def draw(rng, *, most=6):
    """Draw a distribution over seen outcomes, their W, the best unseen W, and β."""
    K = int(rng.integers(1, most))
    p = np.maximum(rng.dirichlet(np.full(K, rng.choice([0.1, 1.0, 10.0]))), 1e-9)
    p /= p.sum()
    W = rng.normal(size=K) * 10.0 ** rng.integers(-3, 4)
    if rng.random() < 0.2:
        W = np.round(W)  # with ties
    unseen = (-np.inf, W.max() + rng.exponential() * max(np.ptp(W), 1e-3), W.mean(), W.max())
    return p, W, float(unseen[rng.integers(4)]), 10.0 ** rng.uniform(-7, 1.5)


def feasible_points(rng, p, beta, *, with_unseen, n=40):
    """Draw distributions on the boundary of the set, the last outcome being the unseen one."""
    K = p.size + 1
    ends = rng.dirichlet(np.full(K, rng.choice([0.1, 1.0])), n) if with_unseen else np.zeros((n, K))
    if not with_unseen:
        ends[:, :-1] = rng.dirichlet(np.full(p.size, rng.choice([0.1, 1.0])), n)
    ends[: p.size] = np.eye(K)[: p.size]
    inside, outside = np.zeros(n), np.ones(n)
    start = np.append(p, 0.0)
    with np.errstate(divide="ignore"):
        for _ in range(60):
            at = (inside + outside) / 2
            q = (start + at[:, None] * (ends - start))[:, :-1]
            is_in = (p * np.log(p / q)).sum(axis=1) <= beta
            inside, outside = np.where(is_in, at, inside), np.where(is_in, outside, at)
    return start + inside[:, None] * (ends - start)


@pytest.mark.parametrize("seed", range(40))
def test_largest_mean_is_above_feasible_means_and_within_the_gap_of_the_best_one(seed):
    rng = np.random.default_rng(seed)
    for _ in range(50):
        p, W, W_unseen, beta = draw(rng)
        found = reference.largest_mean_kl(p, W, W_unseen, beta)
        scale = max(W.max(), W_unseen) - W.min()
        extended = np.append(W, W_unseen if np.isfinite(W_unseen) else 0.0)
        points = feasible_points(rng, p, beta, with_unseen=np.isfinite(W_unseen))
        assert found >= (points @ extended).max() - ROUNDING * max(scale, np.abs(W).max())
        q, rest = reference.best_point(p, W, W_unseen, beta)
        assert reference.kl(p, q) <= beta
        best = q @ W + (rest * W_unseen if rest > 0 else 0.0)
        tolerance = ROUNDING * max(scale, np.abs(W).max())
        assert found >= best - tolerance
        if not np.array_equal(q, p):
            assert found <= best + GAP * scale + tolerance


@pytest.mark.parametrize("seed", range(20))
def test_largest_mean_agrees_with_a_general_solver(seed):
    rng, n_solved = np.random.default_rng(seed), 0
    for _ in range(5):
        p, W, W_unseen, beta = draw(rng, most=5)
        W, beta = W / max(np.abs(W).max(), 1e-9), min(max(beta, 1e-3), 2.0)
        p = np.maximum(p, 0.01) / np.maximum(p, 0.01).sum()
        W_unseen = W.max() + 0.5 if np.isfinite(W_unseen) else -np.inf
        extended = np.append(W, W_unseen) if np.isfinite(W_unseen) else W
        start = np.append(p, 0.0)[: extended.size]
        solved = minimize(
            lambda q, extended=extended: -q @ extended,
            start * 0.99 + 0.01 / extended.size,
            jac=lambda q, extended=extended: -extended,
            bounds=[(1e-12, 1)] * extended.size,
            constraints=[
                {"type": "eq", "fun": lambda q: q.sum() - 1},
                {
                    "type": "ineq",
                    "fun": lambda q, p=p, beta=beta: beta - reference.kl(p, q[: p.size]),
                },
            ],
            method="SLSQP",
            options={"ftol": 1e-12, "maxiter": 500},
        )
        found = reference.largest_mean_kl(p, W, W_unseen, beta)
        if solved.success:  # the solver gives up in a few cases
            n_solved += 1
            assert found == pytest.approx(-solved.fun, abs=2e-5)
    assert n_solved >= 3


@pytest.mark.parametrize("seed", range(10))
def test_smallest_mean_is_the_largest_one_of_the_negated_values(seed):
    rng = np.random.default_rng(seed)
    for _ in range(50):
        p, W, W_unseen, beta = draw(rng)
        found = reference.smallest_mean_kl(p, -W, -W_unseen, beta)
        assert found == -reference.largest_mean_kl(p, W, W_unseen, beta)


def test_largest_mean_of_special_cases():
    p, W = np.array([0.25, 0.75]), np.array([2.0, 1.0])
    largest = reference.largest_mean_kl
    assert largest(p, W, -np.inf, np.inf) == 2.0
    assert largest(p, W, 5.0, np.inf) == 5.0
    assert largest(p, W, -np.inf, 0.0) == 1.25
    assert largest(p, np.ones(2), -np.inf, 0.3) == 1.0
    assert largest(p, np.ones(2), 0.5, 0.3) == 1.0
    assert largest(p, np.ones(2), 2.0, 0.3) == pytest.approx(2 - np.exp(-0.3))
    assert largest(np.empty(0), np.empty(0), 3.0, np.inf) == 3.0
    assert largest(np.ones(1), np.array([3.0]), -np.inf, 1e-3) == 3.0
    with np.errstate(over="ignore", under="ignore"):
        assert 1.25 < largest(p, W, -np.inf, 500.0) <= 2.0


@pytest.mark.parametrize("seed", range(10))
def test_largest_mean_grows_with_the_radius(seed):
    rng = np.random.default_rng(seed)
    for _ in range(20):
        p, W, W_unseen, _ = draw(rng)
        found = [
            reference.largest_mean_kl(p, W, W_unseen, beta) for beta in 10.0 ** np.arange(-12, 3)
        ]
        scale = max(W.max(), W_unseen) - W.min()
        assert (np.diff(found) >= -GAP * scale).all()
        assert found[0] >= p @ W
        assert found[-1] <= max(W.max(), W_unseen)


@pytest.mark.parametrize("seed", range(20))
def test_radius_of_the_set_is_that_of_the_formula(seed):
    rng = np.random.default_rng(seed)
    for K in (1, 2, 3, 50, 10**5):
        for most in (1, 10, 10**4, 10**9):
            counts = rng.integers(0, most + 1, min(K, 5))
            counts[0] += 1
            found = confidence.kl_radius(counts, K, math.log(20))
            expected = reference.kl_radius(counts, K, math.log(20))
            n = counts.sum()
            # The reference subtracts numbers of the order n ln n.
            assert n * found == pytest.approx(n * expected, abs=2e-9 + 1e-14 * n * math.log(n + 1))
            assert found > 0


@pytest.mark.parametrize("a", [1e-5, 0.01, 1 / 3, 0.5, 1.0])
def test_series_for_many_counts_continues_the_one_for_few(a):
    many = confidence.MANY
    for N in (many, 1.5 * many, 10 * many):
        series = confidence.log_gamma_excess(N, a)
        direct = math.lgamma(N + a) - N * math.log(N) + N
        assert series == pytest.approx(direct, abs=1e-10)
    below = confidence.log_gamma_excess(np.nextafter(many, 0), a)
    assert confidence.log_gamma_excess(many, a) == pytest.approx(below, abs=1e-10)


def test_set_is_everything_without_visits_and_shrinks_to_a_point():
    assert confidence.kl_radius(np.zeros(3), 3, 1.0) == np.inf
    radii = [confidence.kl_radius(np.array([n, n, 0]), 3, 1.0) for n in 10 ** np.arange(10)]
    assert (np.diff(radii) < 0).all()
    assert radii[-1] < 1e-7


def test_fractional_counts_are_allowed():
    """A reward x between 0 and 1 counts as x of the largest and 1 - x of the smallest one."""
    between = confidence.kl_radius(np.array([2.5, 1.5]), 2, 1.0)
    around = [confidence.kl_radius(np.array(N), 2, 1.0) for N in ([2.0, 2.0], [3.0, 1.0])]
    assert min(around) <= between <= max(around)
    assert np.isfinite(confidence.kl_radius(np.array([1e-12, 1 - 1e-12]), 2, 1.0))


@pytest.mark.parametrize("seed", range(20))
def test_widened_mean_is_above_all_near_models_and_within_the_gap_of_the_best_one(seed):
    rng = np.random.default_rng(seed)
    for _ in range(8):
        p, V, _, beta = draw(rng, most=5)
        V /= max(np.abs(V).max(), 1e-9)
        R, gamma, t = rng.normal(size=p.size), rng.choice([0.0, 0.5, 0.99]), rng.choice([0, 0.1, 1])
        V_top = V.max() + rng.choice([0.0, 0.7])
        unseen = (1.5, float(rng.uniform(V.min(), V_top))) if rng.random() < 0.5 else None
        numbers = (
            (-np.inf, -np.inf) if unseen is None else (unseen[0], unseen[0] + gamma * unseen[1])
        )
        work = np.empty(p.size)
        found = reference.widened_largest_mean(p, R, V, numbers, V_top, gamma, t, beta, work)
        points = feasible_points(rng, p, beta, with_unseen=unseen is not None)
        near = [
            reference.largest_with_nearness(
                q[:-1], q[-1], R, V, unseen or (0.0, 0.0), V_top, gamma, t
            )
            for q in points
        ]
        assert found >= max(near) - ROUNDING * 10
        best = np.inf  # of many λ
        for at in np.linspace(0, max(V_top - V.min(), 1e-9) * 1.01, 4001 if seed < 3 else 401):
            W = R + gamma * np.maximum(V, V_top - at)
            top = -np.inf
            if unseen is not None:
                top = unseen[0] + gamma * max(unseen[1], V_top - at)
            best = min(best, gamma * t * at + reference.largest_mean_kl(p, W, top, beta))
        assert found <= best + 1e-6
        lowest = reference.widened_smallest_mean(
            p, -R, -V, (-numbers[0], -numbers[1]), -V_top, gamma, t, beta, work
        )
        assert lowest == -found


@pytest.mark.parametrize("seed", range(10))
def test_some_near_model_almost_attains_the_widened_mean(seed):
    """Mixtures of the best distributions for three neighbouring λ on a grid are tried."""
    rng = np.random.default_rng(seed)
    for _ in range(4):
        p, V, _, beta = draw(rng, most=5)
        p, beta = (p + 0.1) / (p + 0.1).sum(), min(beta, 0.3)
        V /= max(np.abs(V).max(), 1e-9)
        R, t, V_top, gamma = rng.normal(size=p.size), rng.uniform(0, 0.5), V.max() + 0.3, 0.9
        nothing, work = (-np.inf, -np.inf), np.empty(p.size)
        found = reference.widened_largest_mean(p, R, V, nothing, V_top, gamma, t, beta, work)
        grid = np.linspace(0, V_top - V.min(), 201)
        W = [R + gamma * np.maximum(V, V_top - at) for at in grid]
        points = [reference.best_point(p, one, -np.inf, beta)[0] for one in W]
        bounds = [gamma * t * at + q @ one for at, one, q in zip(grid, W, points, strict=True)]
        i = min(max(int(np.argmin(bounds)), 1), 199)
        mixed = [
            points[i - 1] + share * (points[i + 1] - points[i - 1])
            for share in np.linspace(0, 1, 101)
        ]
        attained = max(
            reference.largest_with_nearness(q, 0.0, R, V, (0.0, 0.0), V_top, gamma, t)
            for q in [points[i], *mixed]
        )
        assert attained - ROUNDING <= found <= attained + grid[1]


def test_best_near_model_attains_the_widened_mean():
    """A case that was solved by hand: β = 0, so that only nearness moves mass."""
    p, R, V = np.array([0.5, 0.5]), np.zeros(2), np.array([0.0, 1.0])
    work, nothing = np.empty(2), (-np.inf, -np.inf)
    for t, V_top, expected in ((0.0, 1.0, 0.5), (0.2, 1.0, 0.7), (0.2, 2.0, 0.9), (1.0, 2.0, 2.0)):
        found = reference.widened_largest_mean(p, R, V, nothing, V_top, 1.0, t, 0.0, work)
        assert found == pytest.approx(expected, abs=1e-6)
        assert found >= expected - 1e-12


@pytest.mark.parametrize("name", streams.ROWS)
def test_set_fails_after_any_visit_with_probability_delta_at_most(name):
    """The set is computed with the functions of the kernel."""
    n = 1000
    ratios = streams.log_ratios(streams.ROWS[name], n, seed=1)
    for delta in streams.DELTAS:
        assert (ratios > -np.log(delta)).sum() <= streams.most(delta, n)


def test_failures_of_streams_are_those_of_the_radius(monkeypatch):
    """`log_ratios` uses tables; here the radius of each visit is computed by itself."""
    monkeypatch.setattr(streams, "VISITS", 40)
    row = streams.ROWS["three"]
    ratios = streams.log_ratios(row, 5, seed=0)
    counts = streams.counts_of(row, 5, np.random.default_rng(0))
    for ratio, stream in zip(ratios, counts, strict=True):
        worst = -np.inf
        for N in stream:
            n, seen = N.sum(), N > 0
            divergence = reference.kl(N[seen] / n, np.array(row)[seen])
            worst = max(worst, n * (divergence - confidence.kl_radius(N, 3, 0.0)))
        assert ratio == pytest.approx(worst, abs=1e-9)
