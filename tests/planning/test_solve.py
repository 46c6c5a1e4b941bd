"""`solve`, `evaluate` and the returns: correct, certified, reproducible."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import heirloom as hl
from heirloom.mdp.tabular import reward_scale
from tests.domains import DOMAINS, coin, corridor, one_state, stay_or_go
from tests.reference import exact
from tests.strategies import draw_outcomes, draw_policy, draw_shape, draw_task, task_of, tasks


def within(values, truth, error):
    """Whether values [s, a] are within `error` of rational ones [s][a], in rational arithmetic."""
    return all(
        abs(exact.Fraction(q) - true) <= exact.Fraction(error)
        for row, exact_row in zip(values.tolist(), truth, strict=True)
        for q, true in zip(row, exact_row, strict=True)
    )


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_solve_agrees_with_tasks_solved_by_hand(domain):
    sol = hl.solve(domain.task)
    assert sol.error <= 1e-8
    np.testing.assert_allclose(sol.Q, domain.Q, rtol=1e-12, atol=sol.error)
    np.testing.assert_array_equal(sol.V, sol.Q.max(axis=1))
    np.testing.assert_array_equal(sol.policy, sol.Q.argmax(axis=1))


@given(tasks(), st.sampled_from([1e-1, 1e-4, 1e-8]))
def test_certified_error_of_solve_is_true(m, tol):
    sol = hl.solve(m, tol=tol)
    assert sol.error <= tol
    assert np.abs(sol.Q - exact.optimal_Q(m)).max() <= sol.error + 1e-10


@given(st.integers(0, 2**32 - 1))
def test_certified_error_of_evaluate_is_true(seed):
    rng = np.random.default_rng(seed)
    m = draw_task(rng)
    pi = draw_policy(rng, m)
    sol = hl.evaluate(m, pi)
    assert sol.error <= 1e-8 * reward_scale(m.reward_range)
    Q = exact.policy_Q(m, pi)
    assert np.abs(sol.Q - Q).max() <= sol.error + 1e-10
    assert np.abs(sol.V - (pi * Q).sum(axis=1)).max() <= sol.error + 1e-10


def check_in_exact_arithmetic(rng):
    shape = draw_shape(rng, most_states=4)._replace(
        gamma=float(rng.choice([0.0, 0.5, 0.9, 0.99, 0.999, rng.random()]))
    )
    m = draw_task(rng, shape)
    tol = float(rng.choice([1e-2, 1e-5, 1e-8]))
    sol = hl.solve(m, tol=tol)
    assert sol.error <= tol
    assert within(sol.Q, exact.exact_Q(m), sol.error)
    actions = rng.integers(m.n_actions, size=m.n_states)
    followed = hl.evaluate(m, actions, tol=tol)
    assert followed.error <= tol
    assert within(followed.Q, exact.exact_Q(m, lambda s: int(actions[s])), followed.error)


def test_certified_errors_are_true_in_exact_arithmetic():
    rng = np.random.default_rng(7)
    for _ in range(50):
        check_in_exact_arithmetic(rng)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_certified_errors_are_true_in_exact_arithmetic_on_thousands_of_tasks(block):
    rng = np.random.default_rng([8, block])
    for _ in range(300):
        check_in_exact_arithmetic(rng)


def check_transition_rewards_in_exact_arithmetic(rng):
    """Rewards differ within pairs, have very different sizes, and nearly cancel."""
    shape = draw_shape(rng, most_states=4)._replace(
        gamma=float(rng.choice([0.0, 0.5, 0.9, 0.99, 0.999]))
    )
    outcomes = draw_outcomes(rng, shape, merging=bool(rng.random() < 0.3))
    m = task_of(outcomes, shape)
    R = exact.exact_merged_rewards(m, outcomes)
    sol = hl.solve(m)
    assert within(sol.Q, exact.exact_Q(m, R=R), sol.error)
    actions = rng.integers(m.n_actions, size=m.n_states)
    followed = hl.evaluate(m, actions)
    truth = exact.exact_Q(m, lambda s: int(actions[s]), R=R)
    assert within(followed.Q, truth, followed.error)


def test_certified_errors_include_the_rounding_of_mean_rewards():
    rng = np.random.default_rng(10)
    for _ in range(100):
        check_transition_rewards_in_exact_arithmetic(rng)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_certified_errors_include_the_rounding_of_mean_rewards_on_thousands_of_tasks(block):
    rng = np.random.default_rng([11, block])
    for _ in range(300):
        check_transition_rewards_in_exact_arithmetic(rng)


def test_value_is_certified_where_rewards_cancel():
    """The mean reward is 2^-26, although the products of rewards and probabilities are 2.5e8."""
    R, T = [[[1e9, -1e9 / 3]], [[0, 0]]], [[[0.25, 0.75]], [[0, 1]]]
    sol = hl.solve(hl.TabularMDP(R, T, gamma=0, reward_range=(-1e9, 1e9)))
    assert sol.Q[0, 0] == 2.0**-26
    assert sol.error < 1e-20


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.9, 0.99, 0.999])
@pytest.mark.parametrize("terminating", [0.0, 0.1])
def test_certified_error_is_true_for_long_rows(gamma, terminating):
    """Pairs have up to a thousand successors; the reference are sweeps in extended precision."""
    n = 300 if terminating else 1000
    m = hl.garnet(n, 2, branching=n, gamma=gamma, seed=9, terminating=terminating)
    sol = hl.solve(m)
    R, T, _ = (np.asarray(part, dtype=np.longdouble) for part in exact.dense(m))
    V = sol.V.astype(np.longdouble)
    for _ in range(60 if terminating else 20):
        Q = R + m.gamma * (T[:, :, :-1] @ V)
        change = Q.max(axis=1) - V
        lo, hi = change.min(), change.max()
        V = Q.max(axis=1)
    beta = np.longdouble(gamma)
    if terminating:
        lo, hi = min(lo, 0), max(hi, 0)
        beta *= T[:, :, :-1].sum(axis=2).max()
    factor = beta / (1 - beta)
    assert (sol.Q <= Q + factor * hi + sol.error).all()
    assert (sol.Q >= Q + factor * lo - sol.error).all()
    assert factor * (hi - lo) < sol.error / 2


def test_certified_error_is_true_for_subnormal_rewards():
    m = hl.garnet(4, 2, branching=2, gamma=0.9, seed=0, reward_range=(0, 1e-310))
    sol = hl.solve(m)
    assert within(sol.Q, exact.exact_Q(m), sol.error)


def test_terminating_policy_is_certified_by_its_own_contraction():
    """One action never terminates and the other always does; a policy mixes them equally.

    Its episodes are short, so 1e-10 can be certified although γ is close to 1.
    """
    T = np.zeros((3, 2, 3))
    T[:, 0] = np.random.default_rng(0).dirichlet(np.ones(3), 3)
    T[:, 1, 0] = 1
    ends = np.zeros(T.shape, dtype=bool)
    ends[:, 1, 0] = True
    m, m_bar = (
        hl.TabularMDP(np.random.default_rng(s).random((3, 2)), T, gamma=0.9999, terminates=ends)
        for s in (1, 2)
    )
    pi = np.full((3, 2), 0.5)
    sol = hl.evaluate(m, pi, tol=1e-10)
    assert np.abs(sol.Q - exact.policy_Q(m, pi)).max() <= sol.error + 1e-10
    assert (hl.policy_q_pseudometric(m, m_bar, pi, tol=1e-8) > 0).all()


@pytest.mark.parametrize("terminating", [0.0, 0.2])
def test_small_tasks_are_solved_for_discount_factors_close_to_1(terminating):
    """Sweeps alone would need millions of rounds if a recurrent class never terminates."""
    for seed in range(10):
        m = hl.garnet(4, 3, branching=2, gamma=1 - 1e-7, seed=seed, terminating=terminating)
        sol = hl.solve(m)
        assert within(sol.Q, exact.exact_Q(m), sol.error)
        assert sol.error <= 1e-6 * np.abs(sol.Q).max()


@pytest.mark.parametrize("n", [1, 2, 3, 50])
def test_periodic_tasks_are_certified(n):
    """In a periodic task, the changes of plain sweeps never become equal in all states."""
    T = np.roll(np.eye(n), 1, axis=1)[:, None]
    R = np.zeros((n, 1))
    R[0] = 1.0
    m = hl.TabularMDP(R, T, gamma=0.999)
    V = 0.999 ** ((-np.arange(n)) % n) / (1 - 0.999**n)
    sol = hl.solve(m)
    assert np.abs(sol.V - V).max() <= sol.error + 1e-12 * V.max()


def test_tolerance_too_small_for_float64_raises_not_converged():
    m = hl.garnet(20, 2, branching=3, gamma=0.999, seed=0)
    with pytest.raises(
        hl.errors.NotConverged, match=r"tol=1e-13 cannot be certified .* ask for tol="
    ):
        hl.solve(m, tol=1e-13)
    with pytest.raises(
        hl.errors.NotConverged, match=r"tol=1e-12 cannot be certified .* ask for tol="
    ):
        hl.local_pseudometric(m, hl.garnet(20, 2, branching=3, gamma=0.999, seed=1), tol=1e-12)


@pytest.mark.parametrize("gamma", [1 - 1e-13, 1 - 2**-53])
def test_discount_factor_too_close_to_1_raises_not_converged(gamma):
    """Rounding leaves no contraction, so no error can be certified."""
    m, m_bar = (hl.garnet(5, 2, branching=3, gamma=gamma, seed=seed) for seed in (0, 10))
    for call in (
        lambda: hl.solve(m, tol=1e-8),
        lambda: hl.solve(m),
        lambda: hl.evaluate(m, np.zeros(5, dtype=int)),
        lambda: hl.local_pseudometric(m, m_bar),
    ):
        with pytest.raises(hl.errors.NotConverged, match="cannot be certified"):
            call()


def test_message_proposes_a_smaller_gamma_if_no_error_can_be_certified():
    m = hl.garnet(5, 2, branching=3, gamma=np.nextafter(1, 0), seed=0)
    with pytest.raises(
        hl.errors.NotConverged, match=r"gamma=0\.9999999999999999 .*use a smaller gamma"
    ):
        hl.solve(m)


def test_solve_certifies_a_task_whose_policies_cannot_be_solved_directly(monkeypatch):
    """A linear system can be singular in float64; sweeps then give the certified values."""
    m = hl.garnet(60, 3, branching=2, gamma=0.9999, seed=1)
    expected, failed = hl.solve(m), []

    def singular(matrix):
        failed.append(matrix)
        raise RuntimeError("Factor is exactly singular")

    monkeypatch.setattr("scipy.sparse.linalg.splu", singular)
    sol = hl.solve(m)
    assert failed
    assert sol.error <= 1e-6
    assert np.abs(sol.Q - expected.Q).max() <= sol.error + expected.error


@pytest.mark.parametrize("n", [100, 30_000, 100_000])
def test_long_chains_are_solved(n):
    """Move right or left along n states, or stay with probability 0.1; the last state pays 1.

    V(s) = γ 0.9 / (1 - γ 0.1) V(s + 1). With γ = 0.999, the values of the longest chains
    span more digits than float64 has.
    """
    s = np.arange(n)
    pairs = np.concatenate([2 * s, 2 * s + 1, 2 * s, 2 * s + 1])
    successors = np.concatenate([np.maximum(s - 1, 0), np.minimum(s + 1, n - 1), s, s])
    p = np.repeat([0.9, 0.1], 2 * n)
    T = sparse.coo_array((p, (pairs, successors)), shape=(2 * n, n)).tocsr()
    R = np.zeros((n, 2))
    R[-1] = 1.0
    sol = hl.solve(hl.TabularMDP(R, T, gamma=0.999))
    expected = 1000 * (0.9 * 0.999 / (1 - 0.1 * 0.999)) ** (n - 1 - s)
    assert sol.error <= 1e-8
    assert np.abs(sol.V - expected).max() <= sol.error + 1e-9


def test_terminating_tasks_are_certified_by_their_own_contraction():
    """If every pair may terminate, an error of 1e-8 is certified even for 1-γ = 1e-12."""
    domain = coin(1 - 1e-12, 0.25, 1.0)
    sol = hl.solve(domain.task)
    assert sol.error <= 1e-8
    np.testing.assert_allclose(sol.Q, domain.Q, atol=1e-8)


def test_default_tolerance_adapts_to_the_size_of_values():
    m = hl.garnet(20, 2, branching=3, gamma=0.99999, seed=0, reward_range=(-100, 100))
    m_bar = hl.garnet(20, 2, branching=3, gamma=0.99999, seed=1, reward_range=(-100, 100))
    sol, sol_bar = hl.solve(m), hl.solve(m_bar)
    assert 0 < sol.error < 1e-2
    assert (np.abs(sol.Q - sol_bar.Q) <= hl.local_pseudometric(m, m_bar)).all()


@pytest.mark.parametrize("tol", [0, -1e-3, np.nan, "small"])
def test_tolerance_must_be_a_positive_number(tol):
    with pytest.raises(hl.errors.InvalidArgument, match="tol is"):
        hl.solve(one_state(0.9, 1.0).task, tol=tol)


def test_solving_a_task_twice_gives_the_same_bits():
    def solve():
        m = hl.garnet(500, 3, branching=4, gamma=0.99, seed=3, terminating=0.001)
        return hl.solve(m, tol=1e-6)

    first, second = solve(), solve()
    assert first.Q.tobytes() == second.Q.tobytes()
    assert first.error == second.error


def test_solution_is_read_only_and_its_repr_shows_size_range_and_error():
    sol = hl.solve(stay_or_go(0.9).task)
    assert repr(sol).startswith("Solution(2 x 2 values from 8.1 to 10, error ")
    for array in (sol.Q, sol.V, sol.policy):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


class TestPolicies:
    TASK = stay_or_go(0.9).task

    def test_actions_and_probabilities_describe_the_same_policy(self):
        by_action = hl.evaluate(self.TASK, [1, 0])
        by_probability = hl.evaluate(self.TASK, [[0.0, 1.0], [1.0, 0.0]])
        assert np.array_equal(by_action.Q, by_probability.Q)
        np.testing.assert_allclose(by_action.V, [9, 10], atol=1e-8)
        assert np.array_equal(by_action.policy, [1, 0])

    def test_uniform_policy_has_the_values_computed_by_hand(self):
        """Both states are equally likely successors, so V = R + 0.9 * 5."""
        sol = hl.evaluate(self.TASK, np.full((2, 2), 0.5))
        np.testing.assert_allclose(sol.V, [4.5, 5.5], atol=1e-8)

    @pytest.mark.parametrize(
        ("policy", "message"),
        [
            ([0, 2], r"policy\[1\] is 2: expected an action from 0 to 1"),
            ([-1, 0], r"policy\[0\] is -1"),
            ([0], r"policy has shape \(1,\)"),
            ([0.0, 1.0], "policy has shape .* whole numbers"),
            ([[0.5, 0.4], [1, 0]], r"policy\[0\] sums to 0.9, not 1"),
            ([[1.5, -0.5], [1, 0]], r"policy\[0\] is \[ 1.5 -0.5\]"),
            ([[np.nan, 1], [1, 0]], r"policy\[0\] is"),
            ([["a", "b"], ["c", "d"]], "policy has shape"),
            ([[1.0], [1.0, 0.0]], "policy is not an array"),
            (None, "policy"),
        ],
    )
    def test_invalid_policies_are_rejected(self, policy, message):
        for call in (
            lambda: hl.evaluate(self.TASK, policy),
            lambda: hl.expected_return(self.TASK, policy, horizon=1),
        ):
            with pytest.raises(hl.errors.InvalidArgument, match=message):
                call()


class TestReturns:
    def test_returns_in_a_corridor_match_those_computed_by_hand(self):
        """From the first of nine cells, the reward is received at the eighth step."""
        m = corridor(9, 0.9).task
        right = np.ones(9, dtype=int)
        assert hl.optimal_return(m, horizon=7) == 0
        assert hl.optimal_return(m, horizon=8) == pytest.approx(0.9**7)
        assert hl.optimal_return(m, horizon=100) == pytest.approx(0.9**7)
        assert hl.optimal_return(m, horizon=100, discounted=False) == 1
        assert hl.expected_return(m, right, horizon=8) == pytest.approx(0.9**7)
        assert hl.expected_return(m, 1 - right, horizon=100) == 0
        assert hl.expected_return(m, right, horizon=0) == 0

    @given(st.integers(0, 2**32 - 1), st.integers(0, 6))
    def test_returns_match_backward_induction(self, seed, horizon):
        rng = np.random.default_rng(seed)
        m = draw_task(rng)
        pi = draw_policy(rng, m)
        R, T, gamma = exact.dense(m)
        for discounted in (True, False):
            discount = gamma if discounted else 1.0
            V_best = V_pi = np.zeros(m.n_states)
            for _ in range(horizon):
                V_best = (R + discount * exact.after(T, V_best)).max(axis=1)
                V_pi = (pi * (R + discount * exact.after(T, V_pi))).sum(axis=1)
            optimal = hl.optimal_return(m, horizon=horizon, discounted=discounted)
            expected = hl.expected_return(m, pi, horizon=horizon, discounted=discounted)
            assert optimal == pytest.approx(m.start @ V_best, abs=1e-12)
            assert expected == pytest.approx(m.start @ V_pi, abs=1e-12)
            assert expected <= optimal + 1e-12

    @given(tasks())
    def test_return_over_a_long_horizon_is_the_optimal_value(self, m):
        sol = hl.solve(m)
        horizon = 3000
        remainder = m.gamma**horizon * max(abs(m.v_min), abs(m.v_max))
        optimal = hl.optimal_return(m, horizon=horizon)
        assert abs(optimal - m.start @ sol.V) <= sol.error + remainder + 1e-9

    @pytest.mark.parametrize("horizon", [-1, 1.5, None, "10"])
    def test_horizon_must_be_a_whole_number_of_steps(self, horizon):
        with pytest.raises(hl.errors.InvalidArgument, match="horizon is"):
            hl.optimal_return(one_state(0.9, 1.0).task, horizon=horizon)
