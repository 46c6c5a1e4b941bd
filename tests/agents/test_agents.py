"""`OptimisticAgent` and the algorithms of the paper.

tests/agents/test_contract.py has the contract that every algorithm of the registry fulfils.
"""

import numpy as np
import pytest

import heirloom as hl
from heirloom.envs.grid import grid_world
from heirloom.envs.paper_tasks import tight
from tests.reference import learned_models
from tests.reference.learned_models import KeepAll
from tests.reference.lipschitz import Distances
from tests.strategies import draw_shape, draw_task

COMMON = {"n_states": 121, "n_actions": 4, "gamma": 0.9, "n_known": 3, "epsilon": 0.01}
AGENTS = {
    "RMax": lambda **o: hl.RMax(**o),
    "LRMax": lambda **o: hl.LRMax(**o),
    "LRMax(0.1)": lambda **o: hl.LRMax(d_max=0.1, **o),
    "LRMax learning D_max": lambda **o: hl.LRMax(p_min=0.5, delta=0.9, **o),
    "MaxQInit": lambda **o: hl.MaxQInit(p_min=0.5, delta=0.3, **o),
    "LRMaxQInit": lambda **o: hl.LRMaxQInit(p_min=0.5, delta=0.9, d_max=0.2, **o),
}


def tight_tasks(n, seed=0):
    rng = np.random.default_rng(seed)
    return [tight(rng.uniform(0.9, 1, 3), rng.uniform(0, 0.1)) for _ in range(n)]


def assert_same(record, other_record, agent, other_agent):
    """Assert that two runs are bitwise identical."""
    assert np.array_equal(record.returns, other_record.returns)
    assert np.array_equal(record.discounted_returns, other_record.discounted_returns)
    assert np.array_equal(record.update_steps, other_record.update_steps)
    assert record.n_steps == other_record.n_steps
    assert np.array_equal(agent.Q, other_agent.Q)
    assert np.array_equal(agent.U, other_agent.U)
    assert np.array_equal(agent.known, other_agent.known)


@pytest.mark.parametrize("name", AGENTS)
class TestEveryOptimisticAgent:
    def test_compiled_and_step_by_step_runs_are_identical(self, name):
        """Returns, updates, Q, U and known, over three tasks; with a time limit of either kind."""
        compiled, stepped = (AGENTS[name](**COMMON, seed=7) for _ in range(2))
        for i, m in enumerate(tight_tasks(3)):
            record = hl.learn(compiled, m, episodes=60, max_steps=10, seed=i)
            step_record = hl.learn(stepped, m.to_gymnasium(), episodes=60, max_steps=10, seed=i)
            assert_same(record, step_record, compiled, stepped)
            assert record.update_steps.size > 0
        record = hl.learn(compiled, m, episodes=60, max_steps=10, seed=5)
        limited = hl.learn(stepped, m.to_gymnasium(max_episode_steps=10), episodes=60, seed=5)
        assert_same(record, limited, compiled, stepped)

    def test_compiled_and_step_by_step_runs_are_identical_on_random_tasks(self, name):
        """With several ranges of rewards, with and without termination."""
        rng = np.random.default_rng(21)
        for _ in range(5):
            shape = draw_shape(rng)._replace(gamma=0.9)
            options = {
                "n_states": shape.n_states,
                "n_actions": shape.n_actions,
                "gamma": shape.gamma,
                "reward_range": shape.reward_range,
                "n_known": 2,
                "on_refutation": "ignore",  # the priors are guesses
            }
            compiled, stepped = (AGENTS[name](**options, seed=3) for _ in range(2))
            for i in range(3):
                m = draw_task(rng, shape)
                record = hl.learn(compiled, m, episodes=20, max_steps=9, seed=i)
                step_record = hl.learn(stepped, m.to_gymnasium(), episodes=20, max_steps=9, seed=i)
                assert_same(record, step_record, compiled, stepped)

    def test_q_is_above_its_fixed_point_by_at_most_the_tolerance(self, name):
        """Incremental updates are compared with the reference implementation, from scratch."""
        agent = AGENTS[name](**COMMON, refresh=None, seed=0, tol=1e-3)
        for i, m in enumerate(tight_tasks(2)):
            hl.learn(agent, m, episodes=300, max_steps=10, seed=i)
            Q = learned_models.optimistic_Q(
                agent.model.rows, np.array(agent.U).ravel(), agent.setting
            )
            assert (agent.Q.ravel() >= Q - 1e-8).all()
            assert (agent.Q.ravel() <= Q + 1e-3 + 1e-8).all()

    def test_same_seed_gives_identical_returns(self, name):
        def run():
            agent = AGENTS[name](**COMMON, seed=11)
            tasks = tight_tasks(2)
            return [hl.learn(agent, m, episodes=30, max_steps=10, seed=0).returns for m in tasks]

        assert np.array_equal(run(), run())

    def test_acting_never_learns(self, name):
        agent = AGENTS[name](**COMMON, seed=0)
        agent.begin_task()
        Q, counts = agent.Q.copy(), agent.model.counts.copy()
        for s in range(121):
            agent.act(s)
        assert np.array_equal(agent.Q, Q)
        assert np.array_equal(agent.model.counts, counts)

    def test_arrays_can_be_read_after_the_end_of_a_task(self, name):
        agent = AGENTS[name](**COMMON, seed=0)
        for read in (lambda: agent.Q, lambda: agent.U, lambda: agent.known, lambda: agent.policy):
            with pytest.raises(hl.errors.WrongOrder, match="begin_task"):
                read()
        hl.learn(agent, tight_tasks(1)[0], episodes=5, max_steps=10, seed=0)
        assert agent.Q.shape == agent.U.shape == agent.known.shape == (121, 4)
        assert np.array_equal(agent.policy, agent.Q.argmax(axis=1))
        with pytest.raises(ValueError, match="read-only"):
            agent.Q[0, 0] = 0

    def test_methods_called_out_of_order_raise_wrong_order(self, name):
        """A dropped task is not stored."""
        agent = AGENTS[name](**COMMON, seed=0)
        for method in (
            lambda: agent.act(0),
            lambda: agent.observe(0, 0, 0.0, 0, terminated=False),
            agent.end_task,
        ):
            with pytest.raises(hl.errors.WrongOrder, match="call begin_task"):
                method()
        agent.begin_task()
        with pytest.raises(hl.errors.WrongOrder, match=r"begin_task\(\) was called within a task"):
            agent.begin_task()
        agent.drop_task()
        agent.begin_task()
        agent.end_task()
        assert agent.memory.n_tasks == 1


def test_lrmax_without_prior_is_identical_to_rmax():
    """Erratum 7: the same results for the same seed, and no source is used."""
    rmax, lrmax = (make(**COMMON, seed=1) for make in (hl.RMax, hl.LRMax))
    for i, m in enumerate(tight_tasks(4)):
        record = hl.learn(rmax, m, episodes=200, max_steps=10, seed=i)
        assert_same(record, hl.learn(lrmax, m, episodes=200, max_steps=10, seed=i), rmax, lrmax)
        assert lrmax.bounds[0].transfers == []
        assert not lrmax.task.refines


def test_prior_makes_lrmax_find_the_goal_sooner_in_a_repeated_task():
    m = tight_tasks(1)[0]
    rmax, lrmax = hl.RMax(**COMMON, seed=0), hl.LRMax(d_max=0.01, **COMMON, seed=0)
    hl.learn(lrmax, m, episodes=500, max_steps=10, seed=0)
    rmax_return, lrmax_return = (
        hl.learn(agent, m, episodes=500, max_steps=10, seed=1).returns.sum()
        for agent in (rmax, lrmax)
    )
    assert lrmax_return > 1.5 * rmax_return


def test_maxqinit_uses_its_bound_after_the_required_number_of_tasks():
    agent = hl.MaxQInit(p_min=0.5, delta=0.3, **COMMON, seed=0)
    assert hl.theory.tasks_for_max_q(0.5, 0.3) == 2
    below_v_max = []
    for i, m in enumerate(tight_tasks(4)):
        agent.begin_task()
        below_v_max.append(bool((agent.U < 10).any()))
        agent.drop_task()
        hl.learn(agent, m, episodes=500, max_steps=10, seed=i)
    assert below_v_max == [False, False, True, True]
    sources = agent.memory.sources
    assert np.array_equal(agent.memory.max_Q, np.max([s.Q for s in sources], axis=0))


def test_learned_distance_is_the_largest_between_the_first_tasks():
    """It is compared with the reference implementation, in both directions."""
    agent = hl.LRMax(p_min=0.5, delta=0.1, n_states=6, n_actions=2, gamma=0.9, n_known=3, seed=0)
    needed = hl.theory.tasks_for_max_q(0.5, 0.1)
    for i in range(needed + 2):
        assert agent.memory.learned.get("WeightedL1", (None, 0))[1] == min(i, needed)
        m = hl.garnet(6, 2, branching=2, gamma=0.9, seed=i)
        hl.learn(agent, m, episodes=4, max_steps=10, seed=i)
    first = agent.memory.sources[:needed]
    expected = np.max(
        [
            learned_models.distance(m.rows, m_bar.rows, m_bar.V, agent.setting)
            for m in first
            for m_bar in first
            if m is not m_bar
        ],
        axis=0,
    )
    np.testing.assert_allclose(agent.memory.learned["WeightedL1"][0], expected)


def test_lrmaxqinit_learns_d_max_only_if_none_is_given():
    given, learned = (hl.LRMaxQInit(p_min=0.2, d_max=d, **COMMON) for d in (0.1, None))
    assert given.bounds[0].n_tasks is None
    assert learned.bounds[0].n_tasks == hl.theory.tasks_for_max_q(0.2, 0.05)


def test_each_task_counts_once_towards_the_learned_distance():
    """Also if two bounds share the learned distance, and if `end_task` is called twice."""
    bounds = [hl.Lipschitz(p_min=0.2, delta=0.05) for _ in range(2)]
    agent = hl.OptimisticAgent(bounds=bounds, **COMMON, seed=0)
    for i, m in enumerate(tight_tasks(3)):
        hl.learn(agent, m, episodes=5, max_steps=10, seed=i)
        assert agent.memory.learned["WeightedL1"][1] == i + 1
    agent.begin_task()
    agent.bounds[0].end_task(agent.memory.sources[0], agent.memory)
    agent.end_task()
    assert agent.memory.learned["WeightedL1"][1] == agent.memory.n_tasks == 4


def test_tasks_of_an_agent_that_learns_no_distance_are_compared_later():
    """If the memory still has them; otherwise the maximum would omit them, so none is learned."""
    tasks = tight_tasks(2)
    memories = [hl.TaskMemory(121, 4, capacity=capacity) for capacity in (None, None, 1)]
    first_agents = [hl.LRMax(p_min=0.5, delta=0.3, **COMMON, memory=memories[0], seed=0)]
    first_agents += [hl.RMax(**COMMON, memory=memory, seed=0) for memory in memories[1:]]
    full = hl.TaskMemory(121, 4, capacity=1)
    for _ in range(2):
        hl.learn(hl.RMax(**COMMON, memory=full), tasks[0], episodes=5, max_steps=9, seed=0)
    for agent, memory in zip(first_agents, memories, strict=True):
        hl.learn(agent, tasks[0], episodes=5, max_steps=9, seed=0)
        second_agent = hl.LRMax(p_min=0.5, delta=0.3, **COMMON, memory=memory, seed=1)
        hl.learn(second_agent, tasks[1], episodes=5, max_steps=9, seed=0)
        assert memory.n_tasks == 2
    learned = [memory.learned["WeightedL1"] for memory in memories]
    assert {n_compared for _, n_compared in learned} == {2}
    for largest, _ in learned[1:]:
        assert np.array_equal(largest, learned[0][0])
    second_agent = hl.LRMax(p_min=0.5, delta=0.3, **COMMON, memory=full, seed=1)
    for m in (*tasks, *tasks):
        hl.learn(second_agent, m, episodes=5, max_steps=9, seed=0)
    assert full.learned == {}


def test_bound_is_valid_if_first_tasks_were_forgotten_before_they_were_compared():
    """A second agent needs to compare more tasks than the memory has kept for the first agent.

    If the forgotten tasks counted as compared, the learned distance could be 0, below the true one.
    """
    cells = "..G\n.S.\n..."
    tasks = [grid_world(cells, gamma=0.9, goal_rewards=r) for r in (0.1, 0.4, 0.7, 1.0)]
    options = {"n_states": 9, "n_actions": 4, "gamma": 0.9, "n_known": 1, "seed": 0}
    for capacity in (1, 2, 3):
        memory = hl.TaskMemory(9, 4, capacity=capacity)
        few = hl.LRMax(p_min=0.5, delta=0.5, memory=memory, **options)
        for i in range(few.bounds[0].n_tasks):
            hl.learn(few, tasks[0], episodes=200, max_steps=20, seed=i)
        many = hl.LRMax(p_min=0.25, delta=0.5, memory=memory, **options)
        for i in range(1, 8):
            hl.learn(many, tasks[i % 4], episodes=200, max_steps=20, seed=i)
        many.begin_task()
        for m in tasks:
            assert (many.U >= hl.solve(m).Q - 1e-6).all()


def test_dropping_sources_does_not_change_results():
    """A source is dropped when it cannot lower a bound any more; `KeepAll` drops none."""
    options = {**COMMON, "epsilon": 0.0}
    dropping, keeping = (
        hl.OptimisticAgent(bounds=[bound(d_max=0.05)], **options, seed=0)
        for bound in (hl.Lipschitz, KeepAll)
    )
    dropped = False
    for i, m in enumerate(tight_tasks(4)):
        episodes = 300 if i else 1  # the first source has few known pairs
        record = hl.learn(dropping, m, episodes=episodes, max_steps=10, seed=i)
        keeping_record = hl.learn(keeping, m, episodes=episodes, max_steps=10, seed=i)
        assert_same(record, keeping_record, dropping, keeping)
        dropped |= len(dropping.bounds[0].transfers) < i
    assert dropped


@pytest.mark.parametrize("d_max", [0.05, 0.5, 3.0, 20.0])
def test_incrementally_refined_distances_agree_with_a_solve_from_scratch(d_max):
    """d̂, lowered at each update, is compared with the reference implementation for the same D̂."""
    options = {**COMMON, "epsilon": 0.001, "tol": 1e-3}
    agent = hl.OptimisticAgent(bounds=[KeepAll(d_max=d_max)], **options, seed=0)
    for i, m in enumerate(tight_tasks(3)):
        hl.learn(agent, m, episodes=200, max_steps=10, seed=i)
    agent.begin_task()
    for _ in range(200):
        s = 60
        for _ in range(10):
            a = agent.act(s)
            j = m.transitions.indptr[s * 4 + a]
            s_next = int(m.transitions.successors[j])
            agent.observe(s, a, float(m.R[s, a]), s_next, terminated=False)
            s = s_next
    assert agent.bounds[0].transfers
    for transfer in agent.bounds[0].transfers:
        to_source = Distances(transfer.to_source.D, agent.setting)
        from_source = Distances(transfer.from_source.D, agent.setting)
        to_source.lower(agent.model.rows)
        from_source.lower(transfer.source.rows)
        assert transfer.to_source.largest == pytest.approx(to_source.largest, abs=1e-3)
        assert transfer.from_source.largest == pytest.approx(from_source.largest, abs=1e-3)
        np.testing.assert_allclose(transfer.from_source.d, from_source.d, atol=1e-3, rtol=0)
        assert (transfer.to_source.D < d_max).any()
        assert (transfer.from_source.D < d_max).any()


def test_user_defined_bound_is_used():
    """With Q* itself as the bound, the agent has a nearly optimal return from the start."""
    m = tight_tasks(1)[0]
    sol = hl.solve(m)

    class Oracle(hl.bounds.Constant):
        def begin_task(self, setting, model, memory):
            self.U = (sol.Q + sol.error).ravel()
            return False

    agent = hl.OptimisticAgent(bounds=[Oracle()], **COMMON, seed=0)
    record = hl.learn(agent, m, episodes=200, max_steps=10, seed=0)
    assert record.returns.mean() > 0.8 * hl.optimal_return(m, horizon=10, discounted=False)


def test_given_v_max_is_the_bound_of_rmax():
    agent = hl.RMax(**COMMON, seed=0, v_max=3.0)
    agent.begin_task()
    assert (agent.U == 3).all()


def test_v_max_above_the_largest_possible_value_is_lowered():
    agent = hl.RMax(**COMMON, seed=0, v_max=1e6)
    agent.begin_task()
    assert agent.U == pytest.approx(np.full((121, 4), 10.0))


def test_ties_are_broken_uniformly():
    agent = hl.RMax(n_states=1, n_actions=3, gamma=0.9, n_known=1, seed=0)
    agent.begin_task()
    counts = np.bincount([agent.act(0) for _ in range(9000)], minlength=3)
    np.testing.assert_allclose(counts / 9000, 1 / 3, atol=0.02)


class Fixed(hl.bounds.Constant):
    """The same bound for every task."""

    def __init__(self, U):
        self.bound = U

    def begin_task(self, setting, model, memory):
        self.U = self.bound.copy()
        return False


@pytest.mark.parametrize(("gap", "is_tie"), [(0.0, True), (0.9, True), (1.1, False)])
def test_actions_within_the_tie_tolerance_are_chosen_equally(gap, is_tie):
    """In the compiled rollout and in `act`."""
    v_max = 10.0
    tie = hl.bounds.Setting(n_states=1, n_actions=3, gamma=0.9).tie
    bound = Fixed(np.array([v_max - 1 - gap * tie, v_max - 2.0, v_max - 1]))
    options = {"n_states": 1, "n_actions": 3, "gamma": 0.9, "n_known": 10**6, "seed": 0}
    agent = hl.OptimisticAgent(bounds=[bound], **options)
    agent.begin_task()
    assert agent.greedy.tolist() == [[is_tie, False, True]]
    assert agent.policy.tolist() == [0 if is_tie else 2]
    assert {agent.act(0) for _ in range(100)} == ({0, 2} if is_tie else {2})
    agent.drop_task()
    m = hl.TabularMDP(np.zeros((1, 3)), np.ones((1, 3, 1)), gamma=0.9)
    hl.learn(agent, m, episodes=100, max_steps=1, seed=0)
    assert (agent.model.counts[0] > 0).tolist() == [is_tie, False, True]


def test_small_differences_of_values_are_not_ties():
    """The value of a goal 150 steps away is about 1e-7; the agent still goes straight to it."""
    n = 150
    R, T = np.zeros((n, 2)), np.zeros((n, 2, n))
    s = np.arange(n)
    T[s, 0, np.maximum(s - 1, 0)] = T[s, 1, np.minimum(s + 1, n - 1)] = 1
    R[-1, 1] = 1
    m = hl.TabularMDP(R, T, gamma=0.9, start=0)
    agent = hl.RMax(n_states=n, n_actions=2, gamma=0.9, n_known=1, seed=0)
    hl.learn(agent, m, episodes=200, max_steps=300, seed=0)
    assert agent.known.all()
    assert (agent.policy == 1).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_known": 0}, "n_known is 0"),
        ({"epsilon": -0.1}, "epsilon is -0.1"),
        ({"gamma": 1}, "gamma is 1"),
        ({"n_states": 0}, "n_states is 0"),
        ({"tol": 0}, "tol is 0"),
        ({"reward_range": (1, 0)}, "reward_range is"),
        ({"v_max": -1}, "v_max is -1: .* values lie between 0 and 10"),
        ({"seed": "x"}, "seed is 'x'"),
        ({"d_max": -0.1}, "d_max is -0.1"),
        ({"d_max": "small"}, "d_max is .small.: expected a number"),
        ({"d_max": np.nan}, "d_max is nan"),
        ({"p_min": 0.2, "delta": 0}, "delta is 0"),
        ({"p_min": 2, "delta": 0.1}, "p_min is 2"),
        ({"delta": np.inf}, "delta is inf"),
        ({"n_known": 10**30}, r"n_known is 1000.*: expected a whole number from 1 to 9,223"),
        ({"n_states": 10**30}, r"n_states is 1000.*: expected a whole number from 1 to 2,147"),
        ({"n_states": True}, "n_states is True"),
        ({"terminating": "no"}, "terminating is 'no': expected True or False"),
        ({"v_max": "a"}, "v_max is 'a': expected a number"),
        ({"v_max": np.nan}, "v_max is nan"),
        ({"memory": 3}, "memory is 3: expected a TaskMemory"),
        ({"reward_range": (-1.7e308, 0)}, "reward_range is .* would overflow"),
    ],
)
def test_invalid_options_are_rejected(options, message):
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        hl.LRMax(**{**COMMON, **options})


def test_prior_of_the_wrong_shape_is_rejected():
    with pytest.raises(hl.errors.InvalidArgument, match=r"d_max has shape \(4, 121\).* \(121, 4\)"):
        hl.LRMax(d_max=np.zeros((4, 121)), **COMMON)


def test_memory_of_another_size_is_rejected():
    memory = hl.TaskMemory(2, 2)
    with pytest.raises(
        hl.errors.IncompatibleTasks, match=r"TaskMemory\(n_states=2, .* does not fit"
    ):
        hl.RMax(**COMMON, memory=memory)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 0.5}, "gamma is 0.5 for the agent, and 0.9 for the tasks in its memory"),
        ({"reward_range": (-1, 1)}, "reward_range is"),
        ({"terminating": False}, "terminating is False"),
        ({"epsilon": 0.0}, "epsilon is 0.0"),
    ],
)
def test_memory_of_another_setting_is_rejected(options, message):
    """Values for a smaller discount factor or for other rewards are not upper bounds."""
    agent = hl.RMax(**COMMON, seed=0)
    memory = agent.memory
    created_before = hl.RMax(**{**COMMON, **options}, memory=memory)  # the memory is still empty
    hl.learn(agent, tight_tasks(1)[0], episodes=3, max_steps=9, seed=0)
    with pytest.raises(hl.errors.IncompatibleTasks, match=message):
        hl.RMax(**{**COMMON, **options}, memory=memory)
    with pytest.raises(hl.errors.IncompatibleTasks, match=message):
        created_before.begin_task()
    assert hl.RMax(**COMMON, memory=memory).memory is memory


def test_failed_constructor_does_not_change_the_memory():
    memory = hl.TaskMemory(121, 4)
    with pytest.raises(hl.errors.InvalidArgument, match="seed is 'x'"):
        hl.RMax(**{**COMMON, "gamma": 0.5}, memory=memory, seed="x")
    assert hl.RMax(**COMMON, memory=memory).memory is memory


def test_uses_of_a_source_count_the_pairs_whose_u_comes_from_it():
    """Pairs where the bound of MaxQ is smaller than that of the source do not count."""
    cells = "..G\n.S.\n..."
    task = grid_world(cells, gamma=0.9, goal_rewards=0.4)
    options = {"n_states": 9, "n_actions": 4, "gamma": 0.9, "n_known": 1, "seed": 0}
    agent = hl.LRMaxQInit(p_min=0.5, delta=0.3, d_max=0.3, **options)
    for i in range(5):
        uses_before = dict(agent.memory.uses)
        hl.learn(agent, task, episodes=300, max_steps=20, seed=i)
        explanation = agent.explain()
        for t, n in uses_before.items():
            index = explanation.names.index(f"Lipschitz, task {t}")
            assert agent.memory.uses[t] - n == (explanation.bound == index).sum()


def test_agent_with_terminating_false_rejects_termination():
    """With negative rewards, its v_max would be below the value of terminating at once."""
    options = {"n_states": 1, "n_actions": 1, "gamma": 0.9, "n_known": 1}
    agent = hl.RMax(**options, reward_range=(-1, -0.5), terminating=False)
    m = hl.TabularMDP([[-0.6]], [[[1.0]]], gamma=0.9, terminates=[0], reward_range=(-1, -0.5))
    with pytest.raises(hl.errors.IncompatibleTasks, match="create it with terminating=True"):
        hl.learn(agent, m, episodes=1, seed=0)
    with pytest.raises(
        hl.errors.InvalidArgument, match=r"the episode terminated at.*terminating=True"
    ):
        hl.learn(agent, m.to_gymnasium(), episodes=1, seed=0)


@pytest.mark.parametrize("name", AGENTS)
def test_refilled_random_numbers_and_grown_models_do_not_change_results(name):
    """Compiled and step-by-step runs are identical beyond the initial size of their buffers."""
    m = hl.garnet(30, 4, branching=8, gamma=0.9, seed=0)
    options = {"n_states": 30, "n_actions": 4, "gamma": 0.9, "n_known": 60, "epsilon": 0.1}
    compiled, stepped = (AGENTS[name](**options, seed=0) for _ in range(2))
    for seed in range(2):
        record = hl.learn(compiled, m, episodes=1000, max_steps=12, seed=seed)
        step_record = hl.learn(stepped, m.to_gymnasium(), episodes=1000, max_steps=12, seed=seed)
        assert_same(record, step_record, compiled, stepped)
        assert record.n_steps > 8192
        sizes = [a.p.size for a in (compiled.model._arrays, stepped.model._arrays)]
        assert sizes[0] == sizes[1]
        assert seed > 0 or sizes[0] > 256
        assert seed > 0 or compiled.model._arrays.outcomes.size > 256


@pytest.mark.parametrize("tol", [1e-3, 0.3])
def test_q_stays_within_its_tolerance_where_many_small_decreases_add_up(tol):
    """Tasks with many successors and γ near 1: skipped decreases of each update accumulate."""
    for seed in range(18):
        m = hl.garnet(20, 2, branching=2 + seed % 9, gamma=0.97, seed=seed)
        options = {"n_states": 20, "n_actions": 2, "gamma": 0.97, "n_known": 20, "refresh": None}
        agent = hl.RMax(**options, seed=0, tol=tol)
        hl.learn(agent, m, episodes=500, max_steps=20, seed=seed)
        Q = learned_models.optimistic_Q(agent.model.rows, np.array(agent.U).ravel(), agent.setting)
        assert (agent.Q.ravel() >= Q - 1e-8).all()
        assert (agent.Q.ravel() <= Q + tol + 1e-8).all()


def test_incrementally_updated_distances_are_at_most_the_full_computation():
    """After every update, D̂ is at most what the reference implementation gives for all pairs."""
    options = {"n_states": 6, "n_actions": 2, "gamma": 0.9, "n_known": 2, "epsilon": 1e-3}
    agent = hl.OptimisticAgent(bounds=[KeepAll(d_max=30.0)], **options, seed=0)
    tasks = [hl.garnet(6, 2, branching=2, gamma=0.9, seed=i) for i in range(3)]
    for i, m in enumerate(tasks[:2]):
        hl.learn(agent, m, episodes=40, max_steps=10, seed=i)
    env = tasks[2].to_gymnasium()
    agent.begin_task()
    n_compared, (s, _) = 0, env.reset(seed=0)
    for _ in range(300):
        a = agent.act(s)
        V = agent.Q.max(axis=1)
        s_next, r, *_ = env.step(a)
        if agent.observe(s, a, r, s_next, terminated=False):
            for transfer in agent.bounds[0].transfers:
                here, there = agent.model.first_rows, transfer.source.rows
                table = learned_models.distance(here, there, transfer.source.V, agent.setting)
                assert (transfer.to_source.D <= table + 1e-9).all()
                table = learned_models.distance(there, here, V, agent.setting)
                assert (transfer.from_source.D <= table + 1e-9).all()
                n_compared += 1
        s = s_next
    assert n_compared > 10


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ((121, 0, 0.0, 0), "state is 121: expected a whole number from 0 to 120"),
        ((0, 4, 0.0, 0), "action is 4"),
        ((0, 0, 0.0, -1), "next state is -1"),
        ((0, 0, 1.5, 0), "reward of state 0 and action 0 is 1.5, outside the agent's reward_range"),
        ((0, 0, np.nan, 0), "reward of state 0 and action 0 is nan"),
        ((0, 0, "x", 0), "reward of state 0 and action 0 is 'x': expected a finite number"),
        ((0.0, 0, 0.0, 0), "state is 0.0: expected a whole number from 0 to 120"),
        ((np.nan, 0, 0.0, 0), "state is nan"),
        ((0, True, 0.0, 0), "action is True"),
        ((0, 0, 0.0, 1.5), "next state is 1.5"),
        ((0, 0, 0.0, np.float64(1)), "next state is"),
        ((0, 0, 0.0, True), "next state is True"),
        ((0, 0, 0.0, 10**30), "next state is 1000"),
        ((0, 0, 0.0, None), "next state is None"),
    ],
)
def test_invalid_steps_are_rejected_and_not_counted(step, message):
    agent = hl.RMax(**COMMON)
    agent.begin_task()
    s, a, r, s_next = step
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        agent.observe(s, a, r, s_next, terminated=False)
    assert agent.model.counts.sum() == 0


def test_termination_that_is_not_a_truth_value_is_rejected():
    agent = hl.RMax(**COMMON)
    agent.begin_task()
    with pytest.raises(
        hl.errors.InvalidArgument, match="terminated is 'no': expected True or False"
    ):
        agent.observe(0, 0, 0.0, 0, terminated="no")
    assert agent.model.counts.sum() == 0


def test_numpy_types_are_accepted_in_a_step():
    agent = hl.RMax(**{**COMMON, "n_known": 1})
    agent.begin_task()
    assert isinstance(agent.act(np.int64(5)), int)
    step = np.int64(5), np.int8(1), np.float32(0.5), np.uint16(6)
    assert agent.observe(*step, terminated=np.False_)
    assert agent.model.successors(5, 1) == {6: 1.0}
    assert agent.model.R[5, 1] == 0.5


@pytest.mark.parametrize("s", [1.0, True, np.float64(1), np.nan, None, "x", [], 10**30])
def test_act_rejects_a_state_that_is_not_an_integer(s):
    """State 1 has been seen, so that its greedy actions are in the cache."""
    agent = hl.RMax(**COMMON)
    agent.begin_task()
    agent.act(1)
    with pytest.raises(hl.errors.InvalidArgument, match=r"state is .*: expected a whole number"):
        agent.act(s)


def test_changed_attributes_do_not_make_compiled_code_leave_its_arrays():
    agent = hl.RMax(**COMMON)
    agent.n_states, agent.n_actions = 1000, 1000
    agent.begin_task()
    with pytest.raises(
        hl.errors.InvalidArgument, match="next state is 900: expected a whole number"
    ):
        agent.observe(0, 0, 0.5, 900, terminated=False)
    agent.drop_task()
    m = hl.garnet(1000, 4, branching=1, gamma=0.9, seed=0)
    agent.n_actions = 4
    with pytest.raises(
        hl.errors.IncompatibleTasks, match="the task has 1,000 states and 4 actions"
    ):
        hl.learn(agent, m, episodes=10, max_steps=10, seed=0)
    for sized in (agent.model, agent.memory):
        with pytest.raises(AttributeError):
            sized.n_states = 1000


def test_act_rejects_a_state_out_of_range():
    agent = hl.RMax(**COMMON)
    agent.begin_task()
    with pytest.raises(
        hl.errors.InvalidArgument, match="state is 121: expected a whole number from 0 to 120"
    ):
        agent.act(121)


def test_q_of_a_terminal_transition_is_its_reward():
    """Entering the goal has the reward 1 and terminates: Q is 1 there, not 1 + γ v_max."""
    m = grid_world("S.G", gamma=0.9, reward_on="entering", terminal=True)
    agent = hl.RMax(n_states=3, n_actions=4, gamma=0.9, n_known=1, seed=0, tol=1e-6)
    hl.learn(agent, m, episodes=100, max_steps=10, seed=0)
    assert agent.Q[1, 1] == pytest.approx(1.0)
    assert agent.Q[0, 1] == pytest.approx(0.9)
    assert agent.model.ends[1, 1] == 1


@pytest.mark.parametrize(
    ("U", "message"),
    [
        (np.zeros(3), r"U of the bound Fixed is float64 of shape \(3,\): begin_task must set it"),
        (np.zeros((121, 4)), r"U of the bound Fixed is float64 of shape \(121, 4\)"),
        (np.full(484, np.nan), "U of the bound Fixed is NaN at pair 0"),
        (np.zeros(484, dtype=int), r"U of the bound Fixed is int64 of shape \(484,\)"),
        (np.full(484, -np.inf), "U of the bound Fixed is -inf at pair 0, below 0, the smallest"),
        (np.full(484, -0.01), "U of the bound Fixed is -0.01 at pair 0, below 0, the smallest"),
        ([0.0] * 484, "U of the bound Fixed is list"),
    ],
)
def test_bound_with_an_invalid_u_is_rejected(U, message):
    agent = hl.OptimisticAgent(bounds=[Fixed(U)], **COMMON, seed=0)
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        agent.begin_task()


def test_infinite_bound_leaves_v_max():
    agent = hl.OptimisticAgent(bounds=[Fixed(np.full(484, np.inf))], **COMMON, seed=0)
    agent.begin_task()
    assert (agent.U == agent.setting.v_max).all()
    assert (agent.decider == 0).all()


def test_bound_that_does_not_say_whether_it_is_refined_is_rejected():
    class Silent(hl.Bound):
        def begin_task(self, setting, model, memory):
            self.U = np.full(setting.n_pairs, 5.0)

    agent = hl.OptimisticAgent(bounds=[Silent()], **COMMON, seed=0)
    with pytest.raises(
        hl.errors.InvalidArgument, match="begin_task of the bound Silent returned None"
    ):
        agent.begin_task()
    assert not agent.in_task


class Refined(hl.Bound):
    """Sets U to 5, then calls a function at each change."""

    def __init__(self, refine):
        self.on_change = refine

    def begin_task(self, setting, model, memory):
        self.U = np.full(setting.n_pairs, 5.0)
        return True

    def refine(self, change):
        return self.on_change(self, change)


def set_u(value):
    def refine(bound, change):
        bound.U[7] = value
        return np.array([7])

    return refine


def replace_u(bound, change):
    bound.U = np.zeros(3)
    return np.array([0])


@pytest.mark.parametrize(
    ("refine", "message"),
    [
        (lambda bound, change: None, "refine of the bound Refined returned None: expected an arr"),
        (lambda bound, change: [7], r"refine of the bound Refined returned \[7\]"),
        (lambda bound, change: np.array([7.0]), r"refine of the bound Refined returned array"),
        (lambda bound, change: np.array([[7]]), r"refine of the bound Refined returned array"),
        (lambda bound, change: np.array([True]), r"refine of the bound Refined returned array"),
        (lambda bound, change: np.array([3, 484]), "returned pair 484: expected pairs from 0 to"),
        (lambda bound, change: np.array([3, -1]), "returned pair -1: expected pairs from 0 to 483"),
        (set_u(np.nan), "U of the bound Refined is NaN at pair 7: refine must set it to a number"),
        (set_u(-np.inf), "U of the bound Refined is -inf at pair 7, below 0"),
        (set_u(-1.0), "U of the bound Refined is -1 at pair 7, below 0"),
        (set_u(6.0), "refine of the bound Refined raised U from 5 to 6 at pair 7"),
        (replace_u, r"U of the bound Refined is float64 of shape \(3,\): refine must set it"),
    ],
)
def test_bound_that_is_refined_wrongly_is_rejected_at_once(refine, message):
    agent = hl.OptimisticAgent(bounds=[Refined(refine)], **{**COMMON, "n_known": 1}, seed=0)
    agent.begin_task()
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        agent.observe(0, 0, 0.5, 0, terminated=False)


def test_bound_may_be_lowered_again_and_again():
    def lower(bound, change):
        bound.U[[7, 9]] *= 0.9
        return np.array([9, 7], dtype=np.uint8)

    agent = hl.OptimisticAgent(bounds=[Refined(lower)], **{**COMMON, "n_known": 1}, seed=0)
    agent.begin_task()
    for s in range(5, 9):
        agent.observe(s, 0, 0.5, 0, terminated=False)
    assert agent.U.ravel()[7] == pytest.approx(5 * 0.9**4)


def test_bound_cannot_write_to_the_arrays_of_the_agent():
    """Compiled code relies on them."""

    def write(bound, change):
        for array in (change.U, change.V, change.decreased):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 10**9
            written.append(array)
        return np.array([], dtype=int)

    written = []
    agent = hl.OptimisticAgent(bounds=[Refined(write)], **{**COMMON, "n_known": 1}, seed=0)
    agent.begin_task()
    agent.observe(0, 0, 0.5, 0, terminated=False)
    assert len(written) == 3


@pytest.mark.parametrize("used", [None, np.zeros(3, dtype=int), np.zeros(484), [0] * 484])
def test_bound_with_invalid_sources_used_is_rejected(used):
    class Named(Fixed):
        def sources_used(self):
            return used

    agent = hl.OptimisticAgent(bounds=[Named(np.full(484, 5.0))], **COMMON, seed=0)
    agent.begin_task()
    with pytest.raises(hl.errors.InvalidArgument, match="sources_used of the bound Named returned"):
        agent.explain()
    with pytest.raises(hl.errors.InvalidArgument, match="sources_used of the bound Named returned"):
        agent.end_task()


@pytest.mark.parametrize("junk", [None, 3, "x", object(), hl.RMax])
def test_object_that_is_no_bound_is_rejected(junk):
    with pytest.raises(hl.errors.InvalidArgument, match="bounds "):
        hl.OptimisticAgent(bounds=[junk], **COMMON, seed=0)
    with pytest.raises(hl.errors.InvalidArgument, match="bounds is"):
        hl.OptimisticAgent(bounds=junk, **COMMON, seed=0)


def test_class_in_place_of_a_bound_is_rejected():
    with pytest.raises(hl.errors.InvalidArgument, match="bounds contains the class Constant"):
        hl.OptimisticAgent(bounds=[hl.bounds.Constant], **COMMON, seed=0)


@pytest.mark.parametrize("gamma", [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999])
@pytest.mark.parametrize("v_max", [1.0, np.inf])
def test_reaching_a_goal_one_step_earlier_is_never_a_tie(gamma, v_max):
    """A goal is rewarded once, with 1: going straight to it gains (1-γ) over waiting a step."""
    m = grid_world(["S........G"], gamma=gamma, terminal=True, reward_on="entering")
    options = {"n_states": 10, "n_actions": 4, "gamma": gamma, "n_known": 1, "refresh": None}
    agent = hl.RMax(**options, seed=0, v_max=v_max)
    hl.learn(agent, m, episodes=60, max_steps=60, seed=0)
    optimal_policy = hl.solve(m).policy
    assert agent.setting.tie <= 0.01 * (1 - gamma)
    assert agent.known[:-1].all()
    assert (agent.greedy[:-1].sum(axis=1) == 1).all()
    assert (agent.policy[:-1] == optimal_policy[:-1]).all()


def chooser(reward, reward_range, n_states=1, n_known=1):
    """Two arms in each state, of which the second has `reward` and the first none."""
    T = np.ones((n_states, 2, n_states)) / n_states
    R = np.tile([0.0, reward], (n_states, 1))
    m = hl.TabularMDP(R, T, gamma=0.5, reward_range=reward_range)
    options = {"n_states": n_states, "n_actions": 2, "gamma": 0.5, "n_known": n_known, "seed": 0}
    return hl.RMax(reward_range=reward_range, **options), m


def test_range_that_makes_all_actions_equal_is_warned_of_once():
    """Ties are 1e-8 of the range (0, 1e9): a reward of 1 is no reason to prefer an action."""
    agent, m = chooser(1.0, (0, 1e9))
    with pytest.warns(UserWarning, match=r"from 0 to 1, and reward_range is \(0, 1e\+09\)") as seen:
        record = hl.learn(agent, m, episodes=1000, max_steps=1, seed=0)
    assert len(seen) == 1
    assert record.returns.mean() < 0.6
    hl.learn(agent, m, episodes=10, max_steps=1, seed=0)  # warnings are errors
    agent, m = chooser(1.0, (0, 1))
    assert hl.learn(agent, m, episodes=1000, max_steps=1, seed=0).returns.mean() > 0.99


@pytest.mark.parametrize("reward", [0.0, 0.1, 1.0])
def test_equal_rewards_say_nothing_about_the_range(reward):
    """Means of equal rewards differ by rounding, and zeros may be all that was seen so far."""
    agent, _ = chooser(1.0, (0, 1e9), n_states=3, n_known=7)
    agent.begin_task()
    for i in range(19):
        agent.observe(i % 3, i % 2, reward, (i + 1) % 3, terminated=False)
    agent.end_task()
