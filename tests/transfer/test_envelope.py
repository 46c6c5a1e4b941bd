"""The envelope: its numbers of tasks, its calibration from certain knowledge, and its coverage."""

import numpy as np
import pytest

import heirloom as hl
from tests.partly_known import draw_deterministic_family

OPTIONS = {"n_states": 1, "n_actions": 3, "gamma": 0.0, "n_known": 1, "terminating": False}


def draw_task(rng):
    """One state and three arms with continuous rewards: the optimal values are the rewards."""
    return hl.TabularMDP(rng.beta(2, 5, (1, 3)), np.ones((1, 3, 1)), gamma=0.0)


def agent_with(*bounds, seed=0, **options):
    return hl.OptimisticAgent(bounds=list(bounds), seed=seed, **{**OPTIONS, **options})


def learn(agent, m, *, steps=3, seed=0):
    """Learn a task; returns whether the bound was ever below Q*."""
    hl.learn(agent, m, episodes=1, max_steps=steps, seed=seed)
    return bool((agent.U < hl.solve(m).Q - 1e-9).any())


class TooLow(hl.Bound):
    """A bound that is not valid."""

    def begin_task(self, setting, model, memory):
        self.U = np.full(setting.n_pairs, 0.01)
        return False


@pytest.mark.parametrize(
    ("alpha", "calibration", "rank"),
    [(0.05, 19, 19), (0.1, 9, 9), (0.5, 1, 1), (0.3, 3, 3), (1.0, 1, 1)],
)
def test_number_of_calibration_tasks_is_the_smallest_that_alpha_admits(alpha, calibration, rank):
    envelope = hl.Envelope(alpha=alpha)
    assert (envelope.calibration, envelope.rank) == (calibration, rank)
    assert envelope.coverage >= 1 - alpha - 1e-12
    if calibration > 1:
        with pytest.raises(
            hl.errors.InvalidArgument, match=f"expected {calibration} tasks or more"
        ):
            hl.Envelope(alpha=alpha, calibration=calibration - 1)


def test_more_calibration_tasks_allow_a_smaller_score():
    envelope = hl.Envelope(alpha=0.25, calibration=19)
    assert envelope.rank == 15
    assert envelope.coverage == pytest.approx(0.75)


def test_envelope_is_e_plus_the_score_of_its_rank():
    rng = np.random.default_rng(0)
    tasks = [draw_task(rng) for _ in range(10)]
    envelope = hl.Envelope(alpha=0.5, first=2, calibration=7)
    agent = agent_with(envelope)
    for m in tasks[:9]:
        learn(agent, m)
        assert (agent.U == 1.0).all()
    agent.begin_task()
    E = np.max([m.R for m in tasks[:2]], axis=0)
    scores = sorted((m.R - E).max() for m in tasks[2:9])
    assert envelope.rank == 4
    np.testing.assert_allclose(agent.U, np.minimum(E + scores[3], 1.0), atol=1e-12)
    assert (agent.U[E + scores[3] < 1] >= (E + scores[3])[E + scores[3] < 1]).all()


def test_envelope_stays_fixed_after_its_calibration():
    rng = np.random.default_rng(1)
    agent = agent_with(hl.Envelope(alpha=0.5, first=1))
    for _ in range(2):
        learn(agent, draw_task(rng))
    (before,) = agent.memory.envelopes.values()
    for _ in range(4):
        learn(agent, draw_task(rng))
    (after,) = agent.memory.envelopes.values()
    assert all(map(np.array_equal, before, after))
    assert before.tasks.tolist() == [2]


@pytest.mark.parametrize(
    "others",
    [
        [TooLow],
        [lambda: hl.MaxQ(p_min=1.0, delta=0.5)],
        [lambda: hl.Lipschitz(d_max=0.0)],
        [lambda: hl.Lipschitz(p_min=1.0, delta=0.5), lambda: hl.NearModels(p_min=1.0, delta=0.5)],
    ],
    ids=["false", "MaxQ", "Lipschitz", "learned"],
)
def test_calibration_does_not_rest_on_other_bounds(others, monkeypatch):
    """The other bounds are false here, and hide by how much a task exceeds E from the agent."""
    monkeypatch.setattr("heirloom.transfer.bound.check_p_min", lambda *_: None)
    monkeypatch.setattr("heirloom.transfer.lipschitz.bound.check_p_min", lambda *_: None)
    monkeypatch.setattr("heirloom.transfer.nearness.learned.check_p_min", lambda *_: None)
    low, high = (
        hl.TabularMDP([[r, r, r]], np.ones((1, 3, 1)), gamma=0.0, reward_range=(0, 1))
        for r in (0.1, 0.8)
    )
    agent = agent_with(*(make() for make in others), hl.Envelope(alpha=0.5, first=1))
    learn(agent, low)
    learn(agent, high)
    assert (agent.Q < 0.8).all()
    (state,) = agent.memory.envelopes.values()
    assert (state.E + state.scores[0] >= 0.8 - 1e-9).all()


def test_calibration_rests_on_a_given_nearness():
    """The agent knows one arm of the calibration task; the nearness bounds the others."""
    m = hl.TabularMDP([[0.2, 0.3, 0.4]], np.ones((1, 3, 1)), gamma=0.0, reward_range=(0, 1))
    scores = {}
    for name, bounds in {
        "own data": [],
        "nearness": [hl.NearModels(hl.Nearness(rewards=0.05, transitions=0.0))],
    }.items():
        agent = agent_with(*bounds, hl.Envelope(alpha=0.5, first=1))
        learn(agent, m)
        learn(agent, m, steps=1)
        (state,) = agent.memory.envelopes.values()
        scores[name] = state.scores[0]
    assert scores["own data"] >= 0.6
    assert scores["nearness"] == pytest.approx(0.05)


def check_lifetime(rng, make_bounds, n_later=4):
    """Deterministic tasks, known in part, any bounds: count later tasks with an invalid bound."""
    tasks = draw_deterministic_family(rng, n_tasks=3)
    m = tasks[0]
    agent = hl.OptimisticAgent(
        bounds=make_bounds(tasks),
        n_states=m.n_states,
        n_actions=m.n_actions,
        gamma=m.gamma,
        n_known=1,
        seed=rng,
    )
    invalid = 0
    for i, task in enumerate(rng.integers(3, size=6 + n_later)):
        seed = int(rng.integers(2**31))
        hl.learn(agent, tasks[task], episodes=20, max_steps=10, seed=seed)
        invalid += i >= 6 and bool((agent.U < hl.solve(tasks[task]).Q - 1e-6).any())
    return invalid / n_later


COMBINATIONS = {
    "alone": lambda tasks: [],
    "given nearness": lambda tasks: [hl.NearModels(hl.family_nearness(tasks))],
    "valid prior": lambda tasks: [hl.Lipschitz(d_max=hl.metrics.family_distance(tasks))],
    "both": lambda tasks: [
        hl.NearModels(hl.family_nearness(tasks)),
        hl.Lipschitz(d_max=hl.metrics.family_distance(tasks)),
    ],
}


@pytest.mark.parametrize("others", COMBINATIONS)
def test_share_of_invalid_bounds_is_at_most_alpha_with_other_bounds(others):
    rng = np.random.default_rng(2)
    rates = [
        check_lifetime(
            rng, lambda tasks: [*COMBINATIONS[others](tasks), hl.Envelope(alpha=0.25, first=3)]
        )
        for _ in range(40)
    ]
    assert np.mean(rates) <= 0.25 + 3 * np.sqrt(0.25 * 0.75 / 40)


@pytest.mark.parametrize(
    "sequences",
    [pytest.param(400, marks=pytest.mark.slow), pytest.param(1000, marks=pytest.mark.full)],
)
@pytest.mark.parametrize("alpha", [0.05, 0.25])
def test_each_later_task_is_covered_with_the_stated_probability(alpha, sequences):
    """For independent tasks with continuous rewards the coverage is close to 1 - α, not above.

    An envelope that fails twice as often is detected with probability 0.86 in 400 sequences.
    """
    rng = np.random.default_rng([3, int(100 * alpha)])
    violated = []
    for _ in range(sequences):
        envelope = hl.Envelope(alpha=alpha, first=3)
        agent = agent_with(envelope, seed=rng)
        for _ in range(3 + envelope.calibration):
            assert not learn(agent, draw_task(rng))
        violated.append([learn(agent, draw_task(rng)) for _ in range(2)])
    each, both = np.mean(violated), np.any(violated, axis=1).mean()
    m = envelope.calibration
    assert each <= alpha + 3 * np.sqrt(alpha / sequences)
    assert both <= 2 / (m + 2) + 3 * np.sqrt(2 / (m + 2) / sequences)
    assert each > alpha / 2  # the test can see invalid bounds


@pytest.mark.parametrize("saved_after", [1, 3, 4, 7])
def test_agent_saved_during_its_calibration_continues_identically(tmp_path, saved_after):
    rng = np.random.default_rng(4)
    tasks = [draw_task(rng) for _ in range(9)]
    agent = agent_with(hl.Envelope(alpha=0.25, first=2))
    for m in tasks[:saved_after]:
        learn(agent, m)
    agent.save(tmp_path / "agent")
    loaded = hl.OptimisticAgent.load(tmp_path / "agent")
    for m in tasks[saved_after:]:
        learn(agent, m)
        learn(loaded, m)
        assert np.array_equal(agent.U, loaded.U)
        assert np.array_equal(agent.Q, loaded.Q)
    agent.memory.save(tmp_path / "one")
    loaded.memory.save(tmp_path / "other")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_compiled_and_step_by_step_learning_are_identical():
    rng = np.random.default_rng(5)
    tasks = [draw_task(rng) for _ in range(6)]
    Q = []
    for compiled in (True, False):
        agent = agent_with(hl.Envelope(alpha=0.5, first=2))
        for m in tasks:
            env = m if compiled else m.to_gymnasium()
            hl.learn(agent, env, episodes=1, max_steps=3, seed=0)
        Q.append(agent.Q.copy())
    assert np.array_equal(*Q)


def test_task_that_was_not_stored_does_not_count_as_calibration(monkeypatch, tmp_path):
    rng = np.random.default_rng(6)
    agent = agent_with(hl.Envelope(alpha=0.25, first=1))
    learn(agent, draw_task(rng))
    with monkeypatch.context() as patched:
        patched.setattr(agent.memory, "_add", interrupt)
        with pytest.raises(KeyboardInterrupt):
            learn(agent, draw_task(rng))
    agent.drop_task()
    agent.save(tmp_path / "agent")
    (state,) = hl.OptimisticAgent.load(tmp_path / "agent").memory.envelopes.values()
    assert state.scores.size == 0
    learn(agent, draw_task(rng))
    (state,) = agent.memory.envelopes.values()
    assert state.tasks.tolist() == [2]


def interrupt(*_):
    raise KeyboardInterrupt


def test_explanation_says_how_far_the_calibration_is():
    rng = np.random.default_rng(7)
    agent = agent_with(hl.Envelope(alpha=0.25, first=2))
    texts = []
    for _ in range(6):
        learn(agent, draw_task(rng))
        texts.append(" ".join(agent.explain().notes))
    assert "1 of the first 2 tasks had been seen" in texts[1]
    assert "0 of 3 calibration tasks had been scored. The envelope is not used in" in texts[2]
    assert "1 of 3 calibration tasks" in texts[3]
    assert "can lower bounds at up to" in texts[4]
    assert "valid with probability 0.75 for each later task" in texts[5]


def test_explanation_says_that_the_envelope_cannot_help():
    """The calibration task left pairs at v_max for which an earlier task had a bound."""
    rng = np.random.default_rng(8)
    agent = agent_with(hl.Envelope(alpha=0.5, first=1))
    learn(agent, draw_task(rng))
    learn(agent, draw_task(rng), steps=1)
    agent.begin_task()
    assert (agent.U == 1.0).all()
    assert "it cannot lower a bound" in " ".join(agent.explain().notes)


def test_pair_at_v_max_in_a_first_task_is_useless_alone():
    """A first task that leaves a pair at v_max excludes it from the scores of all tasks."""
    rng = np.random.default_rng(9)
    agent = agent_with(hl.Envelope(alpha=0.5, first=1))
    learn(agent, draw_task(rng), steps=2)
    (source,) = agent.memory.sources
    unknown = ~source.known.reshape(1, 3)
    m = draw_task(rng)
    agent.begin_task()
    for a in np.flatnonzero(~unknown[0]):
        agent.observe(0, int(a), float(m.R[0, a]), 0, terminated=False)
    agent.end_task()
    agent.begin_task()
    assert (agent.U[unknown] == 1.0).all()
    assert (agent.U[~unknown] < 1.0).all()


def test_damaged_envelope_in_a_file_is_refused(tmp_path):
    from heirloom.storage import archive
    from heirloom.transfer.memory_file import packed

    rng = np.random.default_rng(10)
    agent = agent_with(hl.Envelope(alpha=0.25, first=1))
    for _ in range(3):
        learn(agent, draw_task(rng))
    content = packed(agent.memory)
    prefix = "envelope/first=1, calibration=3/"
    for name, array in (
        ("scores", np.array([np.nan, 0.0])),
        ("tasks", np.array([3, 2])),
        ("tasks", np.array([2, 9])),
        ("E", np.zeros(2)),
    ):
        arrays = {**content.arrays, prefix + name: array}
        archive.write(tmp_path / "memory", "memory", content._replace(arrays=arrays))
        with pytest.raises(hl.errors.InvalidFile):
            hl.TaskMemory.load(tmp_path / "memory")


def draw_with_marker(rng, *, rare=None):
    """One state, two arms; in one of ten tasks arm 0 contradicts the claim, and both are worse.

    The other tasks differ by at most 0.1 at arm 0, as claimed.
    """
    rare = rng.random() < 0.1 if rare is None else rare
    R = [0.3, 0.0] if rare else [0.85 + 0.1 * rng.random(), 0.1 + 0.5 * rng.random()]
    return marked_task(R)


def marked_task(R):
    return hl.TabularMDP([R], np.ones((1, 2, 1)), gamma=0.0, reward_range=(0, 1))


def widened_agent(rng, alpha):
    """An agent whose fourth task was rare, so that it widened its claim, once and for all."""
    claim = hl.Nearness(rewards=np.array([[0.1, 1.0]]), transitions=0.0)
    envelope = hl.Envelope(alpha=alpha, first=3)
    options = {"n_actions": 2, "exact": True, "on_refutation": "widen"}
    agent = agent_with(hl.NearModels(claim), envelope, seed=rng, **options)
    for m in (*[marked_task([0.95, 0.6])] * 3, draw_with_marker(rng, rare=True)):
        learn(agent, m, steps=4)
    assert agent.refutation.n_widened == 1
    return agent


@pytest.mark.parametrize("alpha", [pytest.param(0.5, marks=pytest.mark.slow), 0.34])
def test_later_task_is_covered_with_the_stated_probability_after_widening(alpha):
    """The content of the task that widened the claim selected it: it is no calibration task."""
    rng = np.random.default_rng([8, int(100 * alpha)])
    sequences, violated = 300, []
    for _ in range(sequences):
        agent = widened_agent(rng, alpha)
        n_scored = 0
        while n_scored < agent.bounds[-1].calibration:
            learn(agent, draw_with_marker(rng), steps=4)
            n_scored = max(state.scores.size for state in agent.memory.envelopes.values())
        violated.append(learn(agent, draw_with_marker(rng), steps=4))
        assert agent.refutation.n_widened == 1
    assert np.mean(violated) <= alpha + 3 * np.sqrt(alpha * (1 - alpha) / sequences)
    assert np.mean(violated) > alpha / 2  # the test can see invalid bounds


def test_calibration_begins_anew_after_the_task_that_widens():
    agent = widened_agent(np.random.default_rng(9), alpha=0.5)
    assert "widened the claim and is not scored" in " ".join(agent.explain().notes)
    assert all(state.scores.size == 0 for state in agent.memory.envelopes.values())
    learn(agent, marked_task([0.9, 0.2]))
    (state,) = agent.memory.envelopes.values()
    assert state.tasks.tolist() == [5]
    learn(agent, marked_task([0.0, 0.0]), steps=4)  # contradicts the widened claim
    assert agent.refutation.n_widened == 2
    assert all(state.scores.size == 0 for state in agent.memory.envelopes.values())
