"""Agents compare the pairs that become known with their claims."""

import math
import warnings

import numpy as np
import pytest

import heirloom as hl
from heirloom.transfer.refutation.watch import TaskWatch
from tests.strategies import seeds

OPTIONS = {"n_states": 5, "n_actions": 4, "gamma": 0.9, "n_known": 1, "exact": True}


def row_of_cells(reward, *, slip=0.0):
    return hl.grid_world(["S...G"], gamma=0.9, goal_rewards=reward, slip=slip)


def learn(agent, tasks, *, episodes=60, compiled=True):
    records = []
    for seed, task in enumerate(tasks):
        env = task if compiled else task.to_gymnasium()
        records.append(hl.learn(agent, env, episodes=episodes, max_steps=20, seed=seed))
    return records


def agents(**options):
    near = hl.Nearness(rewards=0.1, transitions=0.0)
    yield hl.NearRMax(nearness=near, seed=0, **OPTIONS, **options)
    array = hl.Nearness(rewards=np.full((5, 4), 0.1), transitions=np.zeros((5, 4)))
    yield hl.NearRMax(nearness=array, seed=0, **OPTIONS, **options)
    yield hl.LRMax(d_max=0.1, seed=0, **OPTIONS, **options)
    yield hl.LRMaxQInit(d_max=0.1, p_min=0.2, seed=0, **OPTIONS, **options)


N_AGENTS = len(list(agents()))


@pytest.mark.parametrize("i", range(N_AGENTS))
@pytest.mark.parametrize("compiled", [True, False])
def test_contradiction_is_warned_of_once(i, compiled):
    agent = list(agents())[i]
    learn(agent, [row_of_cells(0.5)], compiled=compiled)
    with pytest.warns(
        hl.errors.RefutedKnowledgeWarning, match=r"tasks 1 and 2 .* state \d"
    ) as found:
        learn(agent, [row_of_cells(1.0), row_of_cells(0.2)], compiled=compiled)
    assert len(found) == 1


@pytest.mark.parametrize("i", range(N_AGENTS))
@pytest.mark.parametrize("compiled", [True, False])
def test_contradiction_is_an_error_on_request(i, compiled):
    agent = list(agents(on_refutation="raise"))[i]
    learn(agent, [row_of_cells(0.5)], compiled=compiled)
    with pytest.raises(hl.errors.RefutedKnowledge, match="refuted"):
        learn(agent, [row_of_cells(1.0)], compiled=compiled)


@pytest.mark.parametrize("i", range(N_AGENTS))
def test_ignored_contradictions_are_not_looked_for(i):
    agent = list(agents(on_refutation="ignore"))[i]
    learn(agent, [row_of_cells(0.5), row_of_cells(1.0)])
    assert agent.task.watch is None


@pytest.mark.parametrize("i", range(N_AGENTS))
def test_true_knowledge_is_not_refuted(i):
    agent = list(agents(on_refutation="raise"))[i]
    learn(agent, [row_of_cells(r) for r in (0.5, 0.55, 0.6, 0.5)])


@pytest.mark.parametrize("i", range(N_AGENTS))
@pytest.mark.parametrize("reaction", ["warn", "widen"])
def test_compiled_and_step_by_step_learning_with_checks_are_bit_identical(i, reaction):
    tasks = [row_of_cells(r) for r in (0.5, 1.0, 0.2, 0.9)]
    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hl.errors.RefutedKnowledgeWarning)
        for compiled in (True, False):
            agent = list(agents(on_refutation=reaction, explore=0.1))[i]
            records = learn(agent, tasks, compiled=compiled)
            results.append((agent, records))
    (one, records), (other, other_records) = results
    for record, other_record in zip(records, other_records, strict=True):
        assert np.array_equal(record.returns, other_record.returns)
        assert np.array_equal(record.update_steps, other_record.update_steps)
    assert np.array_equal(one.Q, other.Q)
    assert np.array_equal(one.U, other.U)
    assert one.refutation.n_widened == other.refutation.n_widened
    assert (one.refutation.n_widened > 0) == (reaction == "widen")


@pytest.mark.parametrize("i", range(N_AGENTS))
def test_explanation_says_that_the_knowledge_was_refuted(i):
    agent = list(agents(on_refutation="warn"))[i]
    with pytest.warns(hl.errors.RefutedKnowledgeWarning):
        learn(agent, [row_of_cells(0.5), row_of_cells(1.0)])
    note = "The knowledge was refuted: the bounds that rest on it may be invalid."
    assert note in agent.explain().notes


@pytest.mark.parametrize("i", range(N_AGENTS))
def test_agent_that_widens_ends_optimal_where_the_contradiction_shows(i):
    """The good end is within reach of the first policy, so that its pairs become known."""
    agent = list(agents(on_refutation="widen"))[i]
    tasks = [row_of_cells(r) for r in (0.2, 1.0, 0.6)]
    for seed, task in enumerate(tasks):
        hl.learn(agent, task, episodes=200, max_steps=20, seed=seed)
        solution = hl.solve(task)
        assert hl.evaluate(task, agent.policy).V[0] == pytest.approx(solution.V[0])
    assert agent.refutation.n_widened > 0


@pytest.mark.parametrize("seed", seeds(40))
@pytest.mark.parametrize("kind", ["nearness", "d_max"])
def test_bounds_are_valid_after_widening_at_all_known_pairs(seed, kind):
    """Once every pair is known, a widened claim no longer makes Q too small."""
    rng = np.random.default_rng(seed)
    tasks = [hl.garnet(4, 2, branching=1, gamma=0.8, seed=rng) for _ in range(3)]
    options = {**OPTIONS, "n_states": 4, "n_actions": 2, "gamma": 0.8, "on_refutation": "widen"}
    claim = {"nearness": hl.Nearness(rewards=0.05, transitions=0.0)}
    kinds = {"nearness": (hl.NearRMax, claim), "d_max": (hl.LRMax, {"d_max": 0.05})}
    make, claim = kinds[kind]
    agent = make(**claim, **options, seed=0, explore=0.5)
    for task in tasks:
        hl.learn(agent, task, episodes=300, max_steps=20, seed=seed)
        if agent.known.all():
            assert (agent.Q >= hl.solve(task).Q - 1e-7).all()
    for source, task in zip(agent.memory.sources[:-1], tasks, strict=False):
        if agent.refutation.n_widened:
            assert (source.Q >= hl.solve(task).Q.reshape(-1) - 1e-7).all()


def test_widening_voids_what_forgotten_tasks_contributed():
    memory = hl.TaskMemory(5, 4, capacity=1)
    claims = {"d_max": 0.1, "p_min": 0.5, "seed": 0, "memory": memory, **OPTIONS}
    agent = hl.LRMaxQInit(on_refutation="ignore", **claims)
    learn(agent, [row_of_cells(r) for r in (0.5, 0.5, 0.5)])
    assert (agent.memory.max_Q < agent.setting.v_max).any()
    agent = hl.LRMaxQInit(on_refutation="widen", **claims)
    learn(agent, [row_of_cells(1.0)])
    assert agent.refutation.n_widened > 0
    assert (agent.memory.max_Q == agent.setting.v_max).all()


def test_few_visits_of_estimated_models_are_not_compared():
    options = {**OPTIONS, "n_known": 5, "refresh": None, "exact": False}
    near = hl.Nearness(rewards=0.0, transitions=0.0)
    agent = hl.NearRMax(nearness=near, seed=0, on_refutation="raise", **options)
    learn(agent, [row_of_cells(0.1), row_of_cells(1.0)])
    assert isinstance(agent.task.watch, TaskWatch)
    assert agent.task.watch.check is None
    assert agent.task.watch.blind
    assert "With n_known = 5, no single pair can contradict" in " ".join(
        str(agent.explain()).split()
    )


def test_excluded_successor_is_refuted_with_any_number_of_visits():
    possible = np.zeros((5, 4, 5), dtype=bool)
    possible[:, :, 0] = True
    near = hl.Nearness(rewards=1.0, transitions=1.0, successors=possible)
    options = {**OPTIONS, "exact": False}
    agent = hl.NearRMax(nearness=near, seed=0, on_refutation="raise", **options)
    with pytest.raises(hl.errors.RefutedKnowledge, match="excluded successor"):
        learn(agent, [row_of_cells(1.0)])
    agent = hl.NearRMax(nearness=near, seed=0, on_refutation="widen", **options)
    learn(agent, [row_of_cells(1.0)])
    assert agent.refutation.n_widened > 0
    first, states = agent.bounds[0].nearness.successors
    for k in np.flatnonzero(agent.known):
        observed = agent.model.successors(*divmod(int(k), 4))
        assert set(observed) <= set(states[first[k] : first[k + 1]].tolist())


@pytest.mark.parametrize("reaction", ["warn", "widen"])
def test_saved_agent_keeps_its_widened_knowledge_and_options(tmp_path, reaction):
    for agent in agents(on_refutation=reaction, explore=0.2, refutation_delta=0.01):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", hl.errors.RefutedKnowledgeWarning)
            learn(agent, [row_of_cells(0.5), row_of_cells(1.0)])
        agent.save(tmp_path / "agent")
        loaded = hl.OptimisticAgent.load(tmp_path / "agent")
        assert loaded.refutation.accuracy == agent.refutation.accuracy
        assert loaded.refutation.warned == agent.refutation.warned == (reaction == "warn")
        assert loaded.explore == 0.2
        records = [learn(one, [row_of_cells(0.9)])[0].returns for one in (agent, loaded)]
        assert np.array_equal(*records)


@pytest.mark.parametrize(
    ("option", "value"),
    [("on_refutation", "shout"), ("exact", 1), ("refutation_delta", 0), ("explore", 1.5)],
)
def test_invalid_options_are_rejected(option, value):
    with pytest.raises(hl.errors.InvalidArgument, match=option):
        hl.RMax(**{**OPTIONS, option: value})


def corridor(left, right):
    """7 cells, start in the middle; each action in the first or the last cell pays."""
    cells = np.arange(7)
    T = np.zeros((7, 2, 7))
    T[cells, 0, np.maximum(cells - 1, 0)] = T[cells, 1, np.minimum(cells + 1, 6)] = 1.0
    R = np.zeros((7, 2))
    R[0], R[6] = left, right
    return hl.TabularMDP(R, T, gamma=0.9, start=3)


def test_knowledge_that_hides_its_contradiction_is_not_refuted_without_exploration():
    """The limit of any such test: the agent never visits the end that would contradict."""
    source, target = corridor(0.5, 0.0), corridor(0.5, 1.0)
    options = {"n_states": 7, "n_actions": 2, "gamma": 0.9, "n_known": 1, "exact": True}
    widened = []
    for explore in (0.0, 0.3):
        agent = hl.NearRMax(
            nearness=hl.Nearness(rewards=0.0, transitions=0.0),
            seed=0,
            on_refutation="widen",
            explore=explore,
            **options,
        )
        for task in (source, target):
            hl.learn(agent, task, episodes=400, max_steps=40, seed=1)
        widened.append(agent.refutation.n_widened)
    assert widened[0] == 0
    assert widened[1] > 0


def test_spec_passes_the_options_of_checks_to_agents():
    spec = hl.ExperimentSpec.read(
        {
            "name": "checked",
            "tasks": 2,
            "episodes": 5,
            "steps": 5,
            "repetitions": 1,
            "family": {"name": "corridor"},
            "agents": [
                {
                    "algorithm": "LRMax",
                    "n_known": 1,
                    "d_max": 0.2,
                    "on_refutation": "widen",
                    "exact": True,
                    "refutation_delta": 0.1,
                    "explore": 0.1,
                }
            ],
        }
    )
    assert spec.agents[0].options["on_refutation"] == "widen"


@pytest.mark.parametrize(
    ("n_known", "refresh"), [(5, None), (10, None), (50, None), (500, None), (2, 1.5), (50, 1.5)]
)
def test_true_knowledge_is_refuted_with_probability_delta_at_most_in_a_lifetime(n_known, refresh):
    """With δ = 0.5 and stochastic tasks, so that a test that is too strict would show."""
    refuted, n = 0, 10
    for seed in range(n):
        rng = np.random.default_rng(seed)
        near = hl.Nearness(rewards=0.0, transitions=0.0)
        task = hl.garnet(2, 2, branching=2, gamma=0.5, seed=rng)
        options = {**OPTIONS, "n_states": 2, "n_actions": 2, "gamma": 0.5, "exact": False}
        options |= {"n_known": n_known, "on_refutation": "raise", "refutation_delta": 0.5}
        agent = hl.NearRMax(nearness=near, seed=seed, refresh=refresh, **options)
        try:
            for k in range(5):
                hl.learn(agent, task, episodes=50, max_steps=200, seed=100 * seed + k)
        except hl.errors.RefutedKnowledge:
            refuted += 1
    assert refuted <= 0.5 * n + 3 * np.sqrt(n / 4)


def is_refuted(seed, **options):
    """Whether a true claim is refuted in a life whose tasks end when an estimate looks extreme."""
    rng = np.random.default_rng(seed)
    agent = hl.NearRMax(
        nearness=hl.Nearness(rewards=0.0, transitions=0.0, highest_rewards=0.5),
        **{"n_states": 1, "n_actions": 1, "gamma": 0.5, "terminating": False, "seed": 0},
        **{"on_refutation": "raise", "refutation_delta": 0.5, **options},
    )
    try:
        for _ in range(8):
            agent.begin_task()
            rewards = rng.integers(2, size=1000)
            visits = np.arange(1, rewards.size + 1)
            errors = np.abs(rewards.cumsum() / visits - 0.5) / (0.5 / np.sqrt(visits))
            extreme = np.flatnonzero((errors > 2) & (visits >= 10))
            for reward in rewards[: extreme[0] + 1 if extreme.size else None]:
                agent.observe(0, 0, float(reward), 0, terminated=False)
            agent.end_task()
    except hl.errors.RefutedKnowledge:
        return True
    return False


@pytest.mark.parametrize("n_known", [2, 20])
def test_true_knowledge_is_refuted_with_probability_delta_at_most_if_tasks_end_when_extreme(
    n_known,
):
    """Models are estimated again as visits grow, and the last look is that of the extreme one."""
    n = 40
    refuted = sum(is_refuted(seed, n_known=n_known, refresh=1.5) for seed in range(n))
    assert refuted <= 0.5 * n + 3 * np.sqrt(n / 4)


def test_probabilities_of_false_alarms_of_all_tasks_sum_to_delta_at_most(tmp_path):
    """Dropped tasks are compared too; the radii give back the probability that each one may use."""
    n, delta = 200, 0.1
    agent = hl.NearRMax(
        nearness=hl.Nearness(rewards=0.1, transitions=0.0),
        **{"n_states": 1, "n_actions": 1, "gamma": 0.5, "n_known": n, "terminating": False},
        refresh=None,
        refutation_delta=delta,
        seed=0,
    )
    used, stored = [], []  # the largest probability of each task, and which of them are sources

    def note(i, radius):
        exceeded = math.sqrt(1 + n / 4) * math.exp(-((n * radius) ** 2) / (2 * (n / 4 + 1)))
        used[i] = max(used[i], 2 * exceeded)  # rewards, and as much for transitions

    for i in range(60):
        agent.begin_task()
        watch = agent.task.watch
        used.append(0.0)
        note(i, watch.smallest.rewards[0])
        for j, radii in zip(stored, watch.source_radii, strict=True):
            note(j, radii.rewards[0])
        for _ in range(n):
            agent.observe(0, 0, 0.5, 0, terminated=False)
        if i % 5 == 0:
            stored.append(i)
            agent.end_task()
        else:
            agent.drop_task()
        if i == 33:
            agent.save(tmp_path / "agent")
            agent = hl.NearRMax.load(tmp_path / "agent")
    assert delta / 4 < sum(used) <= delta / 2  # the other half is that of pooled evidence


def test_audit_counts_dropped_tasks_in_its_radii():
    rng = np.random.default_rng(0)
    options = {"n_states": 1, "n_actions": 1, "gamma": 0.5, "n_known": 50, "terminating": False}
    agent = hl.RMax(**options, seed=0)
    sure = []
    for k, ends in enumerate([True, True, False]):
        agent.begin_task()
        for r in rng.random(50) / 10 + 0.9 * (k % 2):
            agent.observe(0, 0, r, 0, terminated=False)
        agent.end_task() if ends else agent.drop_task()
        if k > 0:
            sure.append(float(hl.audit(agent.memory).parts["rewards"].sure[0, 0]))
    assert 0 < sure[1] < sure[0]


def test_task_that_is_dropped_before_its_first_step_does_not_count():
    agent = hl.RMax(n_states=1, n_actions=1, gamma=0.5, n_known=2, seed=0)
    agent.begin_task()
    agent.drop_task()
    assert agent.memory.n_dropped == 0
    agent.begin_task()
    agent.observe(0, 0, 0.5, 0, terminated=False)
    agent.drop_task()
    assert agent.memory.n_dropped == 1


def test_large_difference_is_refuted_by_estimated_models_with_enough_visits():
    near = hl.Nearness(rewards=0.1, transitions=0.0)
    options = {**OPTIONS, "exact": False, "n_known": 200, "on_refutation": "raise"}
    agent = hl.NearRMax(nearness=near, seed=0, **options)
    learn(agent, [row_of_cells(0.0)], episodes=3000)
    with pytest.raises(hl.errors.RefutedKnowledge, match="estimated"):
        learn(agent, [row_of_cells(1.0)], episodes=3000)


@pytest.mark.parametrize("shape", [(), (5, 4)])
def test_false_claims_about_single_tasks_are_refuted_and_widened(shape):
    """That no pair terminates, and that no reward is above 0.5; the goal contradicts both."""
    claim = hl.Nearness(
        rewards=1.0,
        transitions=1.0,
        terminates=np.zeros(shape, dtype=bool),
        highest_rewards=np.full(shape, 0.5),
    )
    m = hl.grid_world(["S...G"], gamma=0.9, reward_on="entering", terminal=True)
    agent = hl.NearRMax(nearness=claim, seed=0, on_refutation="raise", **OPTIONS)
    with pytest.raises(hl.errors.RefutedKnowledge, match="refuted"):
        learn(agent, [m])
    agent = hl.NearRMax(nearness=claim, seed=0, on_refutation="widen", explore=0.2, **OPTIONS)
    learn(agent, [m, m], episodes=200)
    assert agent.refutation.n_widened > 0
    widened, k = agent.bounds[0].nearness, int((m.ends * agent.known).argmax())
    assert widened._per_pair("terminates", 20)[k]
    assert widened._per_pair("highest_rewards", 20)[k] >= 1.0
    assert widened.terminates.all() == (shape == ())
    assert (agent.Q >= hl.solve(m).Q - 1e-7)[agent.known].all()
