"""Families whose order matters: the ferry's transitions, the order of tasks, and the nearness."""

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import heirloom as hl
from heirloom.envs.maintenance import Machines
from heirloom.envs.ordered import Drift, Ferry, Shortcut, Trap
from heirloom.envs.queueing import Queues
from heirloom.experiments import job
from heirloom.experiments.registry import make_family
from heirloom.experiments.spec import ExperimentSpec

SIZE, N_TASKS = 6, 25
START, UP, RIGHT = 0, 0, 1
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # up, right, down, left
ORDERED = {
    "trap": Trap(),
    "shortcut": Shortcut(slip=(0.0, 0.4)),
    "drift of queues": Drift(Queues()),
    "drift of machines": Drift(Machines()),
    "drift of ferries": Drift(Ferry()),
}


def sequence(family, n_tasks=N_TASKS, seed=0):
    return family.sequence(np.random.default_rng(seed), n_tasks)


def sinks(m):
    """Whether the ferry of a task sinks."""
    return m.R[START, UP] == -1


def expected_row(s, a, *, slip, reward, sinks):
    """The outcomes of a pair, {(successor, ended): (probability, reward)}, from coordinates."""
    if (s, a) == (START, UP):
        return {(START, True): (1.0, -1.0)} if sinks else {(SIZE**2 - 2, False): (1.0, -0.02)}
    row, goal = {}, SIZE**2 - 1
    for turn, p in ((0, 1 - slip), (1, slip / 2), (-1, slip / 2)):
        down, right = MOVES[(a + turn) % 4]
        i, j = s // SIZE + down, s % SIZE + right
        to = i * SIZE + j if 0 <= i < SIZE and 0 <= j < SIZE else s
        before = row.get((to, to == goal), (0.0, 0.0))[0]
        row[to, to == goal] = (before + p, reward if to == goal else -0.02)
    return row


@pytest.mark.parametrize("sinks", [False, True])
def test_transition_table_of_a_ferry_task_is_that_of_the_description(sinks):
    parameters = {"slip": 0.12, "reward": 0.93, "sinks": sinks}
    m = Ferry().build(reward_range=None, **parameters)
    check_env(m.to_gymnasium().unwrapped, skip_render_check=True)
    assert (m.n_states, m.n_actions, m.gamma) == (SIZE**2, 4, 0.95)
    assert m.start[START] == 1
    table = m.to_gymnasium().unwrapped.P
    for s in range(m.n_states):
        for a in range(m.n_actions):
            found = {(to, end): (p, r) for p, to, r, end in table[s][a]}
            expected = expected_row(s, a, **parameters)
            assert set(found) == set(expected)
            for outcome, row in expected.items():
                assert found[outcome] == pytest.approx(row)


def test_optimal_values_without_slip_are_the_hand_computed_ones():
    good, bad = (
        Ferry().build(reward_range=None, slip=0.0, reward=0.9, sinks=sinks)
        for sinks in (False, True)
    )
    assert hl.solve(good).V[START] == pytest.approx(-0.02 + 0.95 * 0.9)
    walk = sum(-0.02 * 0.95**k for k in range(9)) + 0.95**9 * 0.9
    assert hl.solve(bad).V[START] == pytest.approx(walk)
    assert hl.solve(bad).Q[START, UP] == pytest.approx(-1)


@pytest.mark.parametrize("seed", range(5))
def test_ferry_is_the_best_action_exactly_where_it_is_good(seed):
    tasks = sequence(Ferry(), 20, seed)
    assert {sinks(m) for m in tasks} == {False, True}
    for m in tasks:
        assert (hl.solve(m).policy[START] == UP) == (not sinks(m))


@pytest.mark.parametrize(
    ("family", "cycle"), [(Trap(), [0] * 9 + [1]), (Shortcut(), [1] * 5 + [0] * 5)]
)
def test_ferry_sinks_in_the_order_of_the_family(family, cycle):
    for seed in range(3):
        assert [sinks(m) for m in sequence(family, 25, seed)] == (3 * cycle)[:25]
    rewards = [m.transitions.rewards.max() for m in sequence(family)]
    assert len(set(rewards)) == N_TASKS
    assert 0.9 <= min(rewards) < 0.92
    assert 0.98 < max(rewards) <= 1
    slips = [1 - m.T[[2 * 4 + RIGHT]].toarray().max() for m in sequence(family)]
    assert 0.05 <= min(slips) < 0.07
    assert 0.13 < max(slips) <= 0.15


@pytest.mark.parametrize("family", ORDERED.values(), ids=ORDERED)
def test_nearness_and_prior_hold_between_any_two_tasks_of_a_sequence(family):
    near, tasks = family.nearness, sequence(family, 12)
    between = hl.family_nearness(tasks)
    assert (between.rewards <= near.rewards * (1 + 1e-9) + 1e-9).all()
    assert (between.transitions <= near.transitions * (1 + 1e-9) + 1e-12).all()
    assert (hl.metrics.family_distance(tasks[::3]) <= family.d_max + 1e-6).all()
    for source in tasks[::4]:
        for m in tasks[1::3]:
            sol = hl.solve(m)
            assert (hl.near_bound(m, source, near) >= sol.Q - sol.error).all()


def test_nearness_of_a_ferry_allows_both_cases_although_all_tasks_before_had_one():
    near = Trap().nearness
    r, t = near.rewards[START, UP], near.transitions[START, UP]
    assert r == pytest.approx(0.98)
    assert t == pytest.approx(1)
    assert np.delete(near.transitions.ravel(), START * 4 + UP).max() == pytest.approx(0.1)


@pytest.mark.parametrize("family", ORDERED.values(), ids=ORDERED)
def test_tasks_of_a_sequence_depend_only_on_the_generator(family):
    for m, again in zip(sequence(family), sequence(family), strict=True):
        assert np.array_equal(m.R, again.R)
        assert abs(m.T - again.T).max() == 0
        assert m.reward_range == family.options["reward_range"]


def test_parameters_drift_by_equal_steps_from_the_lower_to_the_upper_ends():
    box = Queues(arrival=(0.2, 0.5), service=(0.3, 0.4), sent_away=(15.0, 15.0))
    tasks = sequence(Drift(box), 4)
    steps = [(0.2, 0.3), (0.3, 0.3 + 0.1 / 3), (0.4, 0.3 + 0.2 / 3), (0.5, 0.4)]
    for m, (arrival, service) in zip(tasks, steps, strict=True):
        expected = box.task(arrival=arrival, service=service, sent_away=15.0)
        assert abs(m.T - expected.T).max() < 1e-12
        assert m.R == pytest.approx(expected.R)
    (alone,) = sequence(Drift(box), 1)
    assert np.array_equal(alone.R, tasks[0].R)


@pytest.mark.parametrize("n_tasks", [1, 2, 5, 8])
def test_drift_passes_through_choices_in_their_order(n_tasks):
    found = [sinks(m) for m in sequence(Drift(Ferry()), n_tasks)]
    assert found == sorted(found)
    assert len(set(found)) == min(n_tasks, 2)


@pytest.mark.parametrize("ends", [(0.1, 0.3), (1 / 3, 0.7), (0.3, 0.3), (0.0, 1e-17)])
def test_drift_stays_inside_the_box_despite_rounding(ends):
    for n_tasks in range(1, 40):
        sequence(Drift(Ferry(slip=ends)), n_tasks)


@pytest.mark.parametrize(
    ("family", "order"),
    [
        ({"name": "trap"}, 2 * ([False] * 9 + [True])),
        ({"name": "drift", "of": "ferry"}, [False] * 10 + [True] * 10),
    ],
)
def test_all_agents_of_a_spec_face_the_sequence_of_the_family(family, order, monkeypatch):
    faced = []

    def remember(learner, tasks, **_):
        faced.append(tasks)
        return {}

    monkeypatch.setattr(job, "learn_tasks", remember)
    agents = [
        {"algorithm": "RMax", "n_known": 1},
        {"algorithm": "NearRMax", "n_known": 1, "nearness": "family"},
    ]
    spec = ExperimentSpec.read(
        {"name": "x", "family": family, "agents": agents, "tasks": 20, "episodes": 1, "steps": 1}
    )
    for agent in (0, 1):
        job.run_job(spec, agent, 3)
    first, second = faced
    assert all(np.array_equal(m.R, other.R) for m, other in zip(first, second, strict=True))
    assert [sinks(m) for m in first] == order


def test_near_rmax_meets_the_trap_and_keeps_bounds_above_the_values():
    family = Trap()
    agent = hl.NearRMax(nearness=family.nearness, n_known=5, seed=0, **family.options)
    for i, m in enumerate(sequence(family, 10)):
        hl.learn(agent, m, episodes=30, max_steps=30, seed=i)
        assert agent.U[START, UP] >= hl.solve(m).Q[START, UP] - 1e-9
    assert agent.Q[START, UP] == pytest.approx(-1)
    assert agent.policy[START] != UP


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"family\.of is missing"),
        ({"of": "garnet"}, "of is 'garnet': expected one of machines, queues, perishables, ferry"),
        ({"of": "no.such:Box"}, r"of is 'no\.such:Box': expected one of machines"),
        ({"of": "queues", "options": {"arrival": [2.0]}}, r"family.*arrival is \[2\.0\]"),
        ({"of": "queues", "options": 3}, r"family\.options is 3"),
        ({"of": "drift", "options": {"of": "queues"}}, "of is 'drift'"),
    ],
)
def test_invalid_option_of_a_drift_is_reported(options, message):
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        make_family("drift", options)


def test_drift_in_a_spec_has_the_options_of_its_family():
    drift = make_family("drift", {"of": "queues", "options": {"arrival": [0.2, 0.4]}})
    assert drift.family == Queues(arrival=(0.2, 0.4))
    with pytest.raises(hl.errors.InvalidArgument, match="family is 3: expected a BoxFamily"):
        Drift(3)
