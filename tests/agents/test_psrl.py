"""Agents that act on models drawn from a posterior."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.agents.algorithm_options import TaskKnowledge
from heirloom.agents.algorithms import ALGORITHMS
from heirloom.envs.maintenance import Machines
from tests.strategies import draw_available, restricted

LENGTH = {"episodes": 12, "max_steps": 15}


def tasks_of(seed, *, lacking=False, n=3):
    rng = np.random.default_rng(seed)
    tasks = [hl.garnet(6, 3, branching=2, gamma=0.9, terminating=0.1, seed=rng) for _ in range(n)]
    return [restricted(m, draw_available(rng, m)) for m in tasks] if lacking else tasks


def makers(tasks, **options):
    """Functions that make the same agent again, of each kind."""
    near = hl.family_nearness(tasks)
    options = {"n_states": 6, "n_actions": 3, "gamma": 0.9, "seed": 0, **options}
    declared = {"successors": near.successors, "terminates": near.terminates}
    anywhere = hl.Nearness(rewards=near.rewards, transitions=near.transitions)
    return {
        "PSRL": lambda: hl.PSRL(**options),
        "declared": lambda: hl.PSRL(posterior="beta", **declared, **options),
        "visits": lambda: hl.PSRL(sample="visits", **declared, **options),
        "NearPSRL": lambda: hl.NearPSRL(nearness=near, **options),
        "anywhere": lambda: hl.NearPSRL(nearness=anywhere, **options),
    }


KINDS = makers(tasks_of(0))


def lives(make, tasks, convert=lambda m: m, **options):
    agent, returns = make(), []
    for i, m in enumerate(tasks):
        record = hl.learn(agent, convert(m), seed=i, **LENGTH, **options)
        returns.append((record.returns, agent.Q.copy(), agent.memory.sources[-1].Q))
    return agent, returns


def check_equal(one, other):
    for arrays, others in zip(one, other, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(arrays, others, strict=True))


@pytest.mark.parametrize("lacking", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_compiled_step_by_step_and_recorded_learning_agree(kind, lacking):
    tasks = tasks_of(1, lacking=lacking)
    make = makers(tasks, explore=0.1)[kind]
    _, compiled = lives(make, tasks)
    _, stepped = lives(make, tasks, lambda m: m.to_gymnasium(), masks=lacking)
    _, recorded = lives(make, tasks, record={"first": 2, "every": 5})
    check_equal(compiled, stepped)
    check_equal(compiled, recorded)


@pytest.mark.parametrize("kind", KINDS)
def test_saved_agent_continues_as_if_it_had_not_been_saved(kind, tmp_path):
    tasks = tasks_of(2)
    make = makers(tasks)[kind]
    _, whole = lives(make, tasks)
    first, _ = lives(make, tasks[:2])
    first.save(tmp_path / "agent")
    loaded = hl.OptimisticAgent.load(tmp_path / "agent")
    record = hl.learn(loaded, tasks[2], seed=2, **LENGTH)
    check_equal([(record.returns, loaded.Q, loaded.memory.sources[-1].Q)], whole[2:])
    assert first.bounds[0].options().keys() == loaded.bounds[0].options().keys()


def test_each_episode_has_a_new_sample():
    agent, samples = makers(tasks_of(0))["PSRL"](), []
    agent.begin_task()
    for _ in range(3):
        agent.begin_episode()
        samples.append(agent.Q.copy())
    assert not np.array_equal(samples[0], samples[1])
    assert not np.array_equal(samples[1], samples[2])


def test_sample_that_follows_visits_is_drawn_when_the_visits_of_a_pair_have_grown():
    agent, changed = makers(tasks_of(0), n_known=20)["visits"](), []
    agent.begin_task()
    for n in range(1, 13):
        before = agent.Q.copy()
        agent.begin_episode()
        assert np.array_equal(agent.Q, before)
        agent.observe(0, 0, 0.5, int(agent.model.rows.known.sum()) * 0, terminated=True)
        if not np.array_equal(agent.Q, before):
            changed.append(n)
    assert changed == [1, 2, 3, 4, 6, 8, 12]
    agent.end_task()
    assert not agent.known.any()  # that takes n_known visits


@pytest.mark.parametrize("kind", KINDS)
def test_missing_actions_are_never_taken(kind):
    tasks = tasks_of(3, lacking=True)
    agent = makers(tasks)[kind]()
    for i, m in enumerate(tasks):
        hl.learn(agent, m, seed=i, **LENGTH)
        assert agent.model.counts[~m.available].sum() == 0
        assert np.isneginf(agent.Q[~m.available]).all()
    agent.begin_task()
    before = agent.Q.copy()
    agent.observe_mask(0, [1, 0, 0])
    assert np.isneginf(agent.Q[0, 1:]).all()
    assert agent.act(0) == 0
    assert np.isfinite(agent.Q[1:]).all()
    assert (agent.Q[1:] <= before[1:] + 2e-3).all()  # the same model, with fewer actions


@pytest.mark.parametrize("kind", KINDS)
def test_source_has_the_upper_values_of_rmax(kind):
    (m, *_) = tasks = tasks_of(4)
    agent = makers(tasks)[kind]()
    rmax = hl.RMax(n_states=6, n_actions=3, gamma=0.9, seed=0)
    env, rng = m.to_gymnasium(), np.random.default_rng(0)
    for each in (agent, rmax):
        each.begin_task()
    s, _ = env.reset(seed=0)
    for _ in range(200):
        a = int(rng.integers(3))
        s_next, r, terminated, _, _ = env.step(a)
        for each in (agent, rmax):
            each.observe(int(s), a, float(r), int(s_next), terminated=terminated)
        s = env.reset()[0] if terminated else s_next
    for each in (agent, rmax):
        each.end_task()
    one, other = agent.memory.sources[0], rmax.memory.sources[0]
    assert np.allclose(one.Q, other.Q, atol=1e-9, rtol=0)
    assert np.array_equal(one.rows.counts, other.rows.counts)
    assert np.array_equal(one.known, other.known)


@pytest.mark.parametrize("kind", KINDS)
def test_rewards_that_are_all_equal_can_be_learned(kind):
    tasks = tasks_of(6)
    agent = makers(tasks, reward_range=(0.5, 0.5), on_refutation="ignore")[kind]()
    for _ in range(2):
        agent.begin_task()
        for s_next in range(6):
            agent.observe(0, agent.act(0), 0.5, s_next, terminated=False)
        agent.end_task()
        assert np.isfinite(agent.Q).all()


def test_pair_that_was_never_tried_gets_values_from_the_prior():
    agent = hl.PSRL(n_states=2, n_actions=2, gamma=0.5, prior=0.5, seed=0)
    agent.begin_task()
    Q = []
    for _ in range(200):
        agent.begin_episode()
        Q.append(agent.Q[0, 0])
    assert 0 <= min(Q) < 0.5  # rewards are from 0 to 1, values from 0 to 2
    assert 1.5 < max(Q) <= 2


def test_false_nearness_is_widened_within_a_task():
    near = hl.Nearness(rewards=0.0, transitions=0.0)
    options = {"n_states": 2, "n_actions": 2, "gamma": 0.9, "seed": 0}
    agent = hl.NearPSRL(nearness=near, exact=True, on_refutation="widen", **options)
    for reward in (0.0, 1.0):
        agent.begin_task()
        for _ in range(3):
            agent.observe(0, 0, reward, 1, terminated=False)
        agent.end_task()
    assert agent.bounds[0].nearness.rewards.max() == pytest.approx(1.0)


def test_spec_can_name_successors_and_nearness():
    family = Machines()
    tasks = [family.draw(np.random.default_rng(0))]
    known = TaskKnowledge(family.options, None, lambda: None, lambda: family.nearness, tasks)
    rng = np.random.default_rng(0)
    agent = ALGORITHMS["PSRL"].make({"successors": "family"}, known, rng)
    assert np.array_equal(agent.bounds[0].nearness.successors[1], family.nearness.successors[1])
    agent = ALGORITHMS["NearPSRL"].make({"nearness_scale": 0.5}, known, rng)
    assert np.allclose(agent.bounds[0].nearness.rewards, family.nearness.rewards / 2)
    unknown = TaskKnowledge(family.options, None, lambda: None, lambda: None, tasks)
    with pytest.raises(hl.errors.InvalidArgument, match="successors is 'family'"):
        ALGORITHMS["PSRL"].make({"successors": "family"}, unknown, rng)


class Rising(hl.Bound):
    """Prefers the last available action, and another value of it in each plan."""

    plans, wrong = "episode", None

    def begin_task(self, setting, model, memory):
        self.U, self.n_plans = np.full(setting.n_pairs, setting.v_max), 0
        return False

    def plan(self, Q, V, rng):
        there = np.isfinite(Q)
        self.n_plans += 1
        Q[there] = (np.arange(Q.size) + 1e-3 * self.n_plans)[there]
        V[:] = Q.reshape(V.size, -1).max(axis=1)
        if self.wrong is not None:
            Q[self.wrong[0]] = self.wrong[1]


def test_user_defined_bound_can_make_the_values():
    (m, *_) = tasks_of(5, lacking=True)
    planner = Rising()
    agent = hl.OptimisticAgent(bounds=[planner], n_states=6, n_actions=3, gamma=0.9, seed=0)
    hl.learn(agent, m, seed=0, **LENGTH)
    last = 2 - m.available[:, ::-1].argmax(axis=1)
    tried = agent.model.counts > 0
    assert (tried.argmax(axis=1) == last)[tried.any(axis=1)].all()
    assert tried.sum(axis=1).max() == 1
    assert planner.n_plans == LENGTH["episodes"] + 2  # at the beginning and at the end too


@pytest.mark.parametrize("value", [np.nan, -np.inf, np.inf])
def test_values_of_a_user_defined_bound_must_be_numbers(value):
    planner = Rising()
    planner.wrong = 4, value
    agent = hl.OptimisticAgent(bounds=[planner], n_states=6, n_actions=3, gamma=0.9, seed=0)
    with pytest.raises(hl.errors.InvalidArgument, match="plan of the bound Rising set Q to"):
        agent.begin_task()


@pytest.mark.parametrize("value", [1.0, np.inf])
def test_value_of_a_missing_action_is_refused(value):
    planner, available = Rising(), np.ones((6, 3), dtype=bool)
    planner.wrong, available[1, 1] = (4, value), False
    agent = hl.OptimisticAgent(bounds=[planner], n_states=6, n_actions=3, gamma=0.9, seed=0)
    with pytest.raises(hl.errors.InvalidArgument, match="at pair 4: expected a number"):
        agent.begin_task(available=available)


def test_begin_episode_outside_a_task_raises_wrong_order():
    with pytest.raises(hl.errors.WrongOrder, match="begin_episode"):
        KINDS["PSRL"]().begin_episode()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior": 0}, "prior is 0: expected a number above 0"),
        ({"posterior": "gamma"}, "posterior is 'gamma': expected"),
        ({"rewards": "gamma"}, "rewards is 'gamma': expected"),
        ({"sample": "step"}, "sample is 'step': expected"),
        ({"successors": np.zeros((2, 2, 2), bool), "terminates": False}, "admits no successor"),
    ],
)
def test_invalid_options_are_named(options, message):
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        hl.PSRL(n_states=2, n_actions=2, gamma=0.9, **options)
