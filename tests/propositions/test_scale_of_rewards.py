"""Multiplying all rewards by a power of two multiplies all values, and changes nothing else.

A power of two changes no digit of a float64 number, so results are compared bit by bit.
"""

from dataclasses import replace

import numpy as np
import pytest

import heirloom as hl
from heirloom.agents.optimistic_algorithms import EnvelopeRMax
from heirloom.mdp.tabular import reward_scale
from heirloom.transfer.setting import Setting

SCALES = (2.0**-40, 2.0**40)
SHAPE = {"n_states": 6, "n_actions": 3, "branching": 3}
RANGES = ((0.0, 1.0), (-1.0, 0.5), (-2.0, -0.5))
METRICS = {
    "dissimilarity": hl.dissimilarity,
    "local_pseudometric": hl.local_pseudometric,
    "global_pseudometric": hl.global_pseudometric,
    "policy_v_pseudometric": lambda m, m_bar: hl.policy_v_pseudometric(m, m_bar, [0] * 6),
    "policy_q_pseudometric": lambda m, m_bar: hl.policy_q_pseudometric(m, m_bar, [0] * 6),
    "family_distance": lambda m, m_bar: hl.metrics.family_distance([m, m_bar]),
    "lipschitz_bound": hl.lipschitz_bound,
    "near_bound": lambda m, m_bar: hl.near_bound(m, m_bar, hl.family_nearness([m, m_bar])),
}


def scaled(m, scale):
    """Return the task with all rewards multiplied by `scale`, and its range too."""
    lo, hi = m.reward_range
    t = m.transitions
    transitions = replace(t, R=scale * t.R, R_error=scale * t.R_error)
    return hl.TabularMDP.from_transitions(
        transitions, gamma=m.gamma, reward_range=(scale * lo, scale * hi)
    )


def draw_tasks(number, *, seed=0, **options):
    rng = np.random.default_rng(seed)
    return [hl.garnet(**{**SHAPE, **options}, seed=rng) for _ in range(number)]


def agents(m, scale):
    """Return agents for tasks whose rewards are those of `m`, times `scale`."""
    lo, hi = m.reward_range
    width = scale * (hi - lo)
    options = {
        **{"n_states": m.n_states, "n_actions": m.n_actions, "gamma": m.gamma, "n_known": 2},
        **{"reward_range": (scale * lo, scale * hi), "terminating": m.terminating, "seed": 0},
    }
    near = hl.Nearness(rewards=0.3 * width, transitions=0.1)
    learned = {"p_min": 0.5, "delta": 0.5}
    d_max = 0.05 * width
    on_table = {name: value for name, value in options.items() if name != "n_known"}
    sizes = {name: options[name] for name in ("n_states", "n_actions", "gamma", "seed")}
    return {
        "RMax": hl.RMax(**options),
        "LRMax": hl.LRMax(d_max=d_max, **options, on_refutation="ignore"),
        "LRMax, learned": hl.LRMax(**learned, **options),
        "MaxQInit": hl.MaxQInit(**learned, **options),
        "LRMaxQInit": hl.LRMaxQInit(d_max=d_max, **learned, **options, on_refutation="ignore"),
        "NearRMax": hl.NearRMax(nearness=near, **options, on_refutation="ignore"),
        "NearRMax, widened": hl.NearRMax(
            nearness=near, **options, on_refutation="widen", exact=True
        ),
        "LRMax, widened": hl.LRMax(d_max=d_max, **options, on_refutation="widen", exact=True),
        "NearRMax, learned": hl.NearRMax(**learned, **options),
        "Envelope": EnvelopeRMax(alpha=0.5, first=2, calibration=2, **options),
        "QLearning": hl.QLearning(initial_Q=scale * hi, **sizes),
        "QLearning, v_max": hl.QLearning(start="v_max", **on_table),
        "QUCB": hl.QUCB(**on_table),
        "QUCB, theory": hl.QUCB(bonus=None, **on_table),
        "DelayedQ": hl.DelayedQ(m=3, **on_table),
        "ShapedLifelong": hl.ShapedLifelong(**on_table),
        "PolicyReuse": hl.PolicyReuse(**on_table),
        "BUMEX": hl.BUMEX(nearness=near, **on_table),
    }


def lifetime(name, tasks, scale):
    """Let an agent learn scaled tasks; returns its rewards in units of the scale, and the agent."""
    agent = agents(tasks[0], scale)[name]
    returns = [
        hl.learn(agent, scaled(m, scale), episodes=40, max_steps=8, seed=i).returns / scale
        for i, m in enumerate(tasks)
    ]
    return np.array(returns), agent


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("reward_range", RANGES)
@pytest.mark.parametrize("terminating", [0.0, 0.2])
def test_solutions_and_metrics_scale_with_rewards(scale, reward_range, terminating):
    options = {"gamma": 0.9, "reward_range": reward_range, "terminating": terminating}
    m, m_bar = draw_tasks(2, seed=3, **options)
    large, large_bar = scaled(m, scale), scaled(m_bar, scale)
    for solution, other in (
        (hl.solve(m), hl.solve(large)),
        (hl.evaluate(m, [0] * 6), hl.evaluate(large, [0] * 6)),
    ):
        assert (other.Q == scale * solution.Q).all()
        assert (other.policy == solution.policy).all()
        assert other.error == scale * solution.error
    for name, metric in METRICS.items():
        assert np.all(metric(large, large_bar) == scale * metric(m, m_bar)), name


@pytest.mark.parametrize("scale", SCALES)
def test_recursive_bisimulation_metric_scales_with_rewards(scale):
    pytest.importorskip("ot")
    m, m_bar = draw_tasks(2, gamma=0.9)
    one, other = (
        hl.metrics.bisimulation.bisimulation_metric(*tasks, ground="recursive")
        for tasks in ((m, m_bar), (scaled(m, scale), scaled(m_bar, scale)))
    )
    np.testing.assert_allclose(other, scale * one, rtol=1e-5)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", list(agents(draw_tasks(1, gamma=0.9)[0], 1.0)))
@pytest.mark.parametrize(
    ("reward_range", "terminating", "gamma"),
    [((0.0, 1.0), 0.0, 0.9), ((-1.0, 0.5), 0.2, 0.9), ((-2.0, -0.5), 0.2, 0.995)],
)
def test_agents_take_the_same_actions_whatever_the_unit_of_rewards(
    scale, name, reward_range, terminating, gamma
):
    options = {"gamma": gamma, "reward_range": reward_range, "terminating": terminating}
    first, second = draw_tasks(2, seed=1, **options)
    tasks = [first, second, first, first, second, first]
    returns, agent = lifetime(name, tasks, 1.0)
    other_returns, other = lifetime(name, tasks, scale)
    assert (other_returns == returns).all()
    assert (other.Q == scale * agent.Q).all()
    if isinstance(agent, hl.OptimisticAgent):
        assert (other.U == scale * agent.U).all()
        assert other.explain().n_decided == agent.explain().n_decided
        assert other.setting.tie == scale * agent.setting.tie


@pytest.mark.parametrize("name", ["NearRMax", "MaxQInit", "LRMax"])
def test_transfer_does_not_stop_where_rewards_are_tiny(name):
    """Rewards in (0, 1e-10): bounds within 1e-9 of v_max were taken for v_max."""
    m = draw_tasks(1, gamma=0.9)[0]
    _, agent = lifetime(name, [m] * 3, 1e-10)
    assert (agent.U < agent.setting.v_max).any()
    assert agent.decider.any()


@pytest.mark.parametrize("reward_range", [(0.0, 1e-9), (0.0, 1.0), None])
def test_policies_of_tasks_with_tiny_rewards_are_optimal(reward_range):
    """A chain: 0.1 at every step in the first state, or 1 after ten steps to the last one."""
    n = 11
    T, R = np.zeros((n, 2, n)), np.zeros((n, 2))
    for s in range(n):
        T[s, 0, 0] = T[s, 1, min(s + 1, n - 1)] = 1.0
    R[0, 0], R[n - 1, 1] = 0.1, 1.0
    chain = hl.TabularMDP(R, T, gamma=0.9)
    tiny = hl.TabularMDP(1e-9 * R, T, gamma=0.9, reward_range=reward_range)
    best = hl.solve(chain, tol=1e-10).V
    found = hl.evaluate(chain, hl.solve(tiny).policy, tol=1e-10).V
    assert (found >= best - 1e-4).all()


def test_scale_of_rewards_is_their_range_or_their_size():
    assert reward_scale((0.0, 1.0)) == 1.0
    assert reward_scale((-3.0, 5.0)) == 8.0
    assert reward_scale((5.0, 5.0)) == reward_scale((-5.0, -5.0)) == 5.0
    assert reward_scale((1.0, 1.0 + 2.0**-52)) == 1.0 + 2.0**-52
    assert reward_scale((0.0, 0.0)) == reward_scale((0.0, 1e-310)) == 1.0


@pytest.mark.parametrize("c", [0.0, 1e-12, -3.0, 1e9])
def test_tasks_with_equal_rewards_are_solved_and_learned(c):
    """The range of rewards is a single number: its size is the unit."""
    rng = np.random.default_rng(0)
    T = rng.dirichlet(np.ones(4), (4, 2))
    m = hl.TabularMDP(np.full((4, 2), c), T, gamma=0.9, reward_range=(c, c))
    solution = hl.solve(m)
    assert np.abs(solution.Q - 10 * c).max() <= 1e-8 * abs(c)
    assert (hl.dissimilarity(m, m) <= 1e-6 * abs(c)).all()
    agent = hl.RMax(n_states=4, n_actions=2, gamma=0.9, n_known=1, seed=0, reward_range=(c, c))
    hl.learn(agent, m, episodes=5, max_steps=5, seed=0)
    assert (agent.Q >= solution.Q - solution.error - agent.setting.tol).all()


def test_default_accuracies_are_those_of_the_range_0_1():
    setting = Setting(n_states=2, n_actions=2, gamma=0.9)
    assert (setting.tol, setting.tie, setting.same) == (1e-11, 1e-8, 1e-9)
