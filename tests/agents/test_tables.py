"""Agents on tables: their formulas against plain Python, and the statements that are proved."""

import math

import numpy as np
import pytest

import heirloom as hl
from heirloom.agents import uniforms
from heirloom.errors import InvalidArgument
from heirloom.kernels import tables
from heirloom.mdp.tabular import value_range
from tests.domains import corridor
from tests.strategies import draw_shape, draw_task, seeds

START = ("v_max", "last", "mean", "max")
SIZES = {"n_states": 3, "n_actions": 2, "gamma": 0.9}


def steps(n, seed=0):
    """Draw steps: state, action, reward, next state, and whether the episode ends there."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        s, s_next = (int(x) for x in rng.integers(3, size=2))
        yield s, int(rng.integers(2)), float(rng.random()), s_next, bool(rng.random() < 0.1)


def observe(agent, given):
    for s, a, r, s_next, ended in given:
        agent.observe(s, a, r, s_next, terminated=ended)


def options_of(m):
    return {
        **{"n_states": m.n_states, "n_actions": m.n_actions, "gamma": m.gamma, "seed": 0},
        **{"reward_range": m.reward_range, "terminating": m.terminating},
    }


@pytest.mark.parametrize("learning_rate", [0.3, None])
def test_q_learning_agrees_with_plain_python(learning_rate):
    agent = hl.QLearning(**SIZES, start="v_max", learning_rate=learning_rate)
    agent.begin_task()
    observe(agent, steps(500))
    Q, n = np.full((3, 2), 10.0), np.zeros((3, 2))
    for s, a, r, s_next, ended in steps(500):
        n[s, a] += 1
        alpha = 11 / (10 + n[s, a]) if learning_rate is None else learning_rate
        x = r + (0 if ended else 0.9 * Q[s_next].max())
        Q[s, a] += alpha * (x - Q[s, a])
    assert agent.Q == pytest.approx(Q, rel=1e-12)


@pytest.mark.parametrize("bonus", [0.4, None])
def test_q_ucb_agrees_with_plain_python(bonus):
    agent = hl.QUCB(**SIZES, bonus=bonus, epsilon1=0.05, delta=0.1)
    agent.begin_task()
    observe(agent, steps(2000))
    H = 10.0 if bonus is not None else math.log(1 / (0.1 * 0.05)) / math.log(1 / 0.9)
    Q, Q_hat, n = np.full((3, 2), 10.0), np.full((3, 2), 10.0), np.zeros((3, 2))
    for s, a, r, s_next, ended in steps(2000):
        n[s, a] += 1
        k = n[s, a]
        b = 0.4 * math.sqrt(H / k)
        if bonus is None:
            b = 4 * math.sqrt(2) * 10 * math.sqrt(H * math.log(6 * (k + 1) * (k + 2) / 0.1) / k)
        x = r + b + (0 if ended else 0.9 * Q_hat[s_next].max())
        alpha = (H + 1) / (H + k)
        Q[s, a] = (1 - alpha) * Q[s, a] + alpha * x
        Q_hat[s, a] = min(Q_hat[s, a], Q[s, a])
    assert agent.Q == pytest.approx(Q_hat, rel=1e-9)


def test_delayed_q_learning_agrees_with_plain_python():
    """The pseudocode of Strehl et al. (2006), with the flags LEARN."""
    m, eps = 7, 0.1
    agent = hl.DelayedQ(**SIZES, m=m, epsilon1=eps)
    agent.begin_task()
    observe(agent, steps(5000))
    Q = np.full((3, 2), 10.0)
    U, n, attempted, learn = {}, {}, {}, {}
    changed = 0
    n_stopped = 0
    for t, (s, a, r, s_next, ended) in enumerate(steps(5000), start=1):
        if learn.get((s, a), True):
            U[s, a] = U.get((s, a), 0.0) + r + (0 if ended else 0.9 * Q[s_next].max())
            n[s, a] = n.get((s, a), 0) + 1
            if n[s, a] == m:
                if Q[s, a] - U[s, a] / m >= 2 * eps:
                    Q[s, a], changed = U[s, a] / m + eps, t
                elif attempted.get((s, a), 0) >= changed:
                    learn[s, a] = False
                    n_stopped += 1
                attempted[s, a], U[s, a], n[s, a] = t, 0.0, 0
        elif attempted[s, a] < changed:
            learn[s, a] = True
    assert n_stopped > 3
    assert agent.Q == pytest.approx(Q, rel=1e-12)


def test_samples_of_delayed_q_learning_are_those_of_the_paper():
    """For rewards in [0, 1]: m = ln(3 S A (1 + S A κ) / δ) / (2 ε₁² (1-γ)²), κ = 1 / ((1-γ) ε₁)."""
    agent = hl.DelayedQ(**SIZES, m=None, epsilon1=0.05, delta=0.1)
    kappa = 1 / (0.1 * 0.05)
    m = math.log(3 * 6 * (1 + 6 * kappa) / 0.1) / (2 * 0.05**2 * 0.1**2)
    assert agent.m == math.ceil(m)


def test_rare_rewards_above_the_largest_value_need_as_many_samples():
    """With probability 0.01 a reward of 1 ends the task: v_max = 0.01, but one sample may be 1."""
    agent = hl.DelayedQ(n_states=1, n_actions=1, gamma=0.9, m=None, v_max=0.01, epsilon1=0.01)
    width = 1 + 0.9 * 0.01
    assert agent.m == math.ceil(width**2 / 2e-4 * math.log(3 * (1 + width / 0.01) / 0.05))


def proper_tasks(n):
    """Draw tasks with a discount factor for which the constants of theory are not too large."""
    for seed in seeds(n):
        rng = np.random.default_rng(seed)
        shape = draw_shape(rng, most_states=3)._replace(gamma=float(rng.choice([0.0, 0.3, 0.6])))
        yield seed, draw_task(rng, shape)


@pytest.mark.parametrize("kind", ["QUCB", "DelayedQ"])
def test_values_with_the_constants_of_theory_stay_above_q_star(kind):
    """Each may fail with probability δ = 1e-6 in a task, so no failure is expected."""
    n_lowered = 0
    for seed, m in proper_tasks(100):
        width = np.ptp(value_range(m.reward_range, m.gamma, terminating=m.terminating))
        own = {"bonus": None} if kind == "QUCB" else {"m": None, "epsilon1": 0.3}
        Q = hl.solve(m).Q
        given = {"v_max": float(Q.max()) + 1e-6 * width} if seed % 2 else {}
        agent = getattr(hl, kind)(**options_of(m), **own, **given, delta=1e-6)

        def is_bound(done, episodes, agent=agent, Q=Q, width=width):
            assert (agent.Q >= Q - 1e-7 * max(width, 1.0)).all()

        hl.learn(agent, m, episodes=4000, max_steps=20, seed=seed, callback=is_bound, every=100)
        n_lowered += (agent.Q < agent.setting.v_max).any()
    assert n_lowered > 5  # otherwise nothing was tested


def test_start_is_what_earlier_tasks_left_behind():
    agents = {start: hl.QLearning(**SIZES, start=start, initial_Q=1.0) for start in START}
    last = []
    for task in range(3):
        for agent in agents.values():
            agent.begin_task()
        starts = {start: agent.Q.copy() for start, agent in agents.items()}
        assert starts["v_max"] == pytest.approx(10.0)
        if task == 0:
            assert starts["last"] == pytest.approx(1.0)
            assert starts["mean"] == pytest.approx(1.0)
        else:
            assert np.array_equal(starts["last"], last[-1]["last"])
            assert starts["mean"] == pytest.approx(np.mean([Q["mean"] for Q in last], axis=0))
            assert np.array_equal(starts["max"], np.max([Q["max"] for Q in last], axis=0))
        for agent in agents.values():
            observe(agent, steps(100, seed=task))
            agent.end_task()
        last.append({start: agent.Q.copy() for start, agent in agents.items()})


@pytest.mark.parametrize("start", ["last", "mean", "max"])
def test_start_does_not_depend_on_tasks_that_lacked_the_action(start):
    agent = hl.QLearning(**SIZES, start=start, initial_Q=-1.0)
    mask = np.array([[True, False], [True, True], [True, True]])
    agent.begin_task(available=mask)
    agent.observe(0, 0, 5.0, 0, terminated=True)
    agent.end_task()
    agent.begin_task()
    assert agent.Q[0].tolist() == pytest.approx([-0.4, -1.0])
    agent.observe(0, 1, 9.0, 0, terminated=True)
    agent.end_task()
    agent.begin_task(available=mask)
    agent.end_task()
    agent.begin_task()
    assert agent.Q[0].tolist() == pytest.approx([-0.4, 0.0])


def episodes_of(agent, n_episodes, seed):
    """Run episodes of random steps by hand; return the steps of each."""
    rng, episodes = np.random.default_rng(seed), []
    for _ in range(n_episodes):
        agent.begin_episode()
        episode = []
        for _ in range(int(rng.integers(1, 6))):
            s, s_next = (int(x) for x in rng.integers(3, size=2))
            episode.append((s, int(rng.integers(2)), float(rng.random()), s_next, False))
        observe(agent, episode)
        episodes.append(episode)
    return episodes


def discounted(episode):
    return sum(0.9**i * r for i, (_, _, r, _, _) in enumerate(episode))


def test_shaping_counts_the_visits_of_the_best_episode_of_each_task():
    agent = hl.ShapedLifelong(**SIZES, shaping=0.5, learning_rate=0.2)
    N = np.zeros((3, 2))
    for task in range(3):
        agent.begin_task()
        shaping = 0.5 * 0.1 * 10 * N / np.maximum(N.sum(axis=1, keepdims=True), 1)
        assert agent.Q == pytest.approx(10.0)
        episodes = episodes_of(agent, 20, seed=task)
        Q = np.full((3, 2), 10.0)
        for s, a, r, s_next, _ in (step for episode in episodes for step in episode):
            Q[s, a] += 0.2 * (r + shaping[s, a] + 0.9 * Q[s_next].max() - Q[s, a])
        assert agent.Q == pytest.approx(Q, rel=1e-12)
        agent.end_task()
        for s, a, *_ in max(episodes, key=discounted):
            N[s, a] += 1
    assert agent.kept["N"].reshape(3, 2).tolist() == N.tolist()


def test_policy_reuse_chooses_policies_by_their_mean_returns():
    """The share of each policy agrees with exp(τ W), within 5 standard deviations."""
    agent = hl.PolicyReuse(**SIZES, heat=0.2, seed=1)
    for task in range(2):
        agent.begin_task()
        observe(agent, steps(50, seed=task))
        agent.end_task()
    policies = agent.kept["policies"].tolist()
    assert policies == [policies[0], agent.policy.tolist()]
    agent.begin_task()
    assert not agent.Q.any()  # v_min
    W, U, expected, chosen = np.zeros(3), np.zeros(3), np.zeros((400, 3)), np.zeros((400, 3))
    rng = np.random.default_rng(0)
    for i in range(400):
        weights = np.exp(0.2 * i * W)
        expected[i] = weights / weights.sum()
        agent.begin_episode()
        k = int(agent._table.episode[tables.POLICY])
        chosen[i, k] = 1
        r = float(rng.random()) * (1 + 0.02 * k) / 2
        agent.observe(0, 0, r, 1, terminated=False)
        agent.observe(1, 0, r, 1, terminated=True)
        U[k] += 1
        W[k] += (1.9 * r - W[k]) / U[k]
    agent.begin_episode()
    assert agent._table.gains == pytest.approx(W)
    deviation = np.sqrt((expected * (1 - expected)).sum(axis=0))
    assert (np.abs(chosen.sum(axis=0) - expected.sum(axis=0)) < 5 * deviation + 1e-9).all()


def test_policy_reuse_follows_an_earlier_policy_less_and_less():
    """With ψ = 1 and ν = 1/2, the first three steps follow it with probability 1, 1/2 and 1/4."""
    agent = hl.PolicyReuse(**SIZES, decay=0.5, exploration=0.0, seed=0)
    agent.begin_task()
    observe(agent, [(s, 0, 0.0, s, True) for s in range(3) for _ in range(50)])
    agent.end_task()  # action 1 still has the value v_max, so it is the policy everywhere
    agent.begin_task()
    observe(agent, [(s, 0, 1.0, s, True) for s in range(3)])  # the own policy takes action 0
    followed, n = np.zeros(3), 0
    for _ in range(3000):
        agent.begin_episode()
        if agent._table.episode[tables.POLICY] == 0:
            assert agent.act(0) == 0
            continue
        n += 1
        for step in range(3):
            followed[step] += agent.act(step)
            agent.observe(step, 0, 1.0, step, terminated=True)
    assert followed / n == pytest.approx([1.0, 0.5, 0.25], abs=5 * 0.5 / math.sqrt(n))


def test_reused_action_that_is_missing_is_not_taken():
    agent = hl.PolicyReuse(**SIZES, exploration=0.0, seed=0)
    agent.begin_task()
    observe(agent, [(0, 0, 0.0, 0, True)] * 50)
    agent.end_task()
    assert agent.policy[0] == 1
    agent.begin_task(available=[[True, False], [True, True], [True, True]])
    for _ in range(50):
        agent.begin_episode()
        assert agent.act(0) == 0


def test_step_with_a_missing_action_is_refused():
    agent = hl.QLearning(**SIZES)
    agent.begin_task(available=[[True, False], [True, True], [True, True]])
    with pytest.raises(hl.errors.InvalidArgument, match="action 1 is not available in state 0"):
        agent.observe(0, 1, 0.0, 0, terminated=False)


def test_reward_outside_the_range_is_refused_where_values_depend_on_it():
    R = np.full((3, 2), 2.0)
    step = {"s": 0, "a": 0, "r": 2.0, "s_next": 0, "terminated": False}
    for agent in (hl.QUCB(**SIZES), hl.DelayedQ(**SIZES), hl.QLearning(**SIZES, start="v_max")):
        agent.begin_task()
        with pytest.raises(hl.errors.InvalidArgument, match=r"is 2.0, outside the agent's"):
            agent.observe(**step)
        m = hl.TabularMDP(R, np.full((3, 2, 3), 1 / 3), gamma=0.9, reward_range=(0, 2))
        with pytest.raises(hl.errors.IncompatibleTasks, match="rewards of the task are from 2"):
            hl.learn(agent, m, episodes=1, max_steps=1)
    agent = hl.QLearning(**SIZES)
    agent.begin_task()
    agent.observe(**step)


@pytest.mark.parametrize("kind", ["QLearning", "PolicyReuse", "ShapedLifelong", "DelayedQ"])
def test_bits_do_not_depend_on_how_many_random_numbers_are_drawn_at_once(kind, monkeypatch):
    m = hl.garnet(5, 3, branching=2, gamma=0.9, seed=0)

    def values():
        agent = getattr(hl, kind)(n_states=5, n_actions=3, gamma=0.9, seed=0)
        returns = [
            hl.learn(agent, m, episodes=100, max_steps=5, seed=i, record=True).returns
            for i in range(3)
        ]
        return *returns, agent.Q

    expected = values()
    monkeypatch.setattr(uniforms, "BLOCK", 7)
    for found, one in zip(values(), expected, strict=True):
        assert np.array_equal(found, one)


def test_derived_class_that_overrides_a_method_runs_step_by_step():
    class AlwaysFirst(hl.QUCB):
        def act(self, s):
            return 0

    m = corridor(3, 0.9).task
    agent = AlwaysFirst(**SIZES)
    assert hl.QUCB(**SIZES).compiled
    assert not agent.compiled
    hl.learn(agent, m, episodes=3, max_steps=5, seed=0)
    assert (agent.Q[:, 1] == agent.setting.v_max).all()


def test_sizes_that_are_changed_do_not_reach_compiled_code():
    """Two states with three actions have as many pairs as three states with two."""
    m = hl.TabularMDP(np.zeros((2, 3)), np.full((2, 3, 2), 0.5), gamma=0.9)
    agent = hl.QLearning(**SIZES)
    agent.begin_task()
    agent.n_states, agent.n_actions = 2, 3
    with pytest.raises(hl.errors.IncompatibleTasks, match="which are not those"):
        hl.learn(agent, m, episodes=2, max_steps=2, resume=True)
    with pytest.raises(hl.errors.InvalidArgument, match="action is 2"):
        agent.observe(0, 2, 0.0, 0, terminated=False)


def test_dropped_task_leaves_nothing_behind():
    agent = hl.QLearning(**SIZES, start="last")
    agent.begin_task()
    observe(agent, steps(20))
    agent.drop_task()
    agent.begin_task()
    assert not agent.Q.any()


def test_interrupted_task_is_resumed_in_compiled_code():
    m = corridor(5, 0.9).task
    options = {"n_states": 5, "n_actions": 2, "gamma": 0.9, "seed": 0}
    agent = hl.QLearning(**options)
    with pytest.raises(hl.errors.WrongOrder, match="there is no task to resume"):
        hl.learn(agent, m, episodes=3, max_steps=5, resume=True)

    def stop(done, episodes):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hl.learn(agent, m, episodes=50, max_steps=5, seed=0, callback=stop, every=20)
    assert agent.in_task
    learned = agent.Q.copy()
    hl.learn(agent, m, episodes=50, max_steps=5, seed=1, resume=True)
    assert (agent.Q >= learned).all()
    assert (agent.Q > learned).any()


# Files


def saved(agent, path):
    agent.save(path)
    return path


def test_file_of_another_class_is_refused(tmp_path):
    path = saved(hl.QUCB(**SIZES, bonus=None), tmp_path / "agent")
    with pytest.raises(hl.errors.InvalidArgument, match="saved by 'QUCB', not by DelayedQ"):
        hl.DelayedQ.load(path)
    with pytest.raises(hl.errors.InvalidFile, match="'table', not 'agent'"):
        hl.RMax.load(path)
    assert hl.QUCB.load(path).options["bonus"] is None


def test_initial_values_and_values_are_in_the_file(tmp_path):
    agent = hl.QLearning(**SIZES, initial_Q=np.arange(6.0).reshape(3, 2), start="max")
    agent.begin_task()
    observe(agent, steps(20))
    agent.end_task()
    loaded = hl.QLearning.load(saved(agent, tmp_path / "agent"))
    assert np.array_equal(loaded.initial_Q, agent.initial_Q)
    assert np.array_equal(loaded.Q, agent.Q)
    assert repr(loaded) == repr(agent)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("kept/policies", np.array([[0, 1, 2]])),
        ("kept/policies", np.array([[0, -1, 0]])),
        ("kept/policies", np.array([[0, 1]])),
        ("table/Q", np.array([0.0, np.nan, 0.0, 0.0, 0.0, 0.0])),
        ("table/Q", np.zeros(5)),
    ],
)
def test_forged_file_is_refused(tmp_path, name, array):
    from heirloom.storage import archive

    path = saved(hl.PolicyReuse(**SIZES), tmp_path / "agent")
    content = archive.read(path, "table")
    content.arrays[name] = array
    archive.write(path, "table", content)
    with pytest.raises(hl.errors.InvalidFile):
        hl.PolicyReuse.load(path)


def test_agent_with_exact_models_of_all_tasks_is_not_saved(tmp_path):
    from heirloom.agents.bisimulation_transfer import BisimulationLearner

    agent = BisimulationLearner(tasks=[], **SIZES)
    with pytest.raises(hl.errors.InvalidArgument, match="nothing was written"):
        agent.save(tmp_path / "agent")
    assert not list(tmp_path.iterdir())


def test_mask_that_contradicts_an_earlier_one_is_refused():
    agent = hl.QLearning(n_states=2, n_actions=2, gamma=0.9)
    agent.begin_task()
    agent.observe_mask(0, [1, 0])
    agent.observe_mask(0, [1, 0])
    with pytest.raises(InvalidArgument, match="was not available before"):
        agent.observe_mask(0, [0, 1])


def test_samples_of_theory_are_a_number_that_compiled_code_can_count():
    agent = hl.DelayedQ(n_states=2, n_actions=2, gamma=0.99999, m=None, epsilon1=1e-7)
    agent.begin_task()
    agent.observe(0, 0, 0.5, 1, terminated=False)
    assert agent.m == 2**62
