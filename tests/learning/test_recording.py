"""Recording chosen episodes while an agent learns."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import heirloom as hl
from heirloom.envs.paper_families import Maze
from heirloom.errors import InvalidArgument, InvalidFile
from heirloom.learning.recording import RecordChoice, decode, encode

FAMILY = Maze()
RNG = np.random.default_rng(3)
TASKS = [FAMILY.draw(RNG) for _ in range(3)]
OPTIONS = {"n_states": TASKS[0].n_states, "n_actions": 4, "gamma": 0.9, "seed": 5}
AGENTS = {
    "RMax": lambda: hl.RMax(n_known=2, **OPTIONS),
    "LRMax": lambda: hl.LRMax(n_known=1, refresh=None, d_max=0.5, **OPTIONS),
    "NearRMax": lambda: hl.NearRMax(n_known=2, nearness=FAMILY.nearness, explore=0.1, **OPTIONS),
    "refuted": lambda: hl.NearRMax(
        n_known=2,
        nearness=hl.Nearness(rewards=0.0, transitions=0.001),
        on_refutation="widen",
        exact=True,
        **OPTIONS,
    ),
    "QLearning": lambda: hl.QLearning(**OPTIONS),
    "CertifiedRMax": lambda: hl.CertifiedRMax(
        successors=hl.family_nearness(TASKS).successors, rewards="per transition", **OPTIONS
    ),
}
RECORD = {"first": 4, "last": 2, "every": 9, "updates": 5}


def learned(name, record, *, stepwise):
    return cached(name, json.dumps(record), stepwise)


@cache
def cached(name, record, stepwise):
    agent, results, record = AGENTS[name](), [], json.loads(record)
    for i, m in enumerate(TASKS):
        env = m.to_gymnasium() if stepwise else m
        results.append(hl.learn(agent, env, episodes=60, max_steps=15, seed=i, record=record))
    return agent, results


@pytest.mark.parametrize("stepwise", [False, True])
@pytest.mark.parametrize("name", AGENTS)
def test_recording_changes_no_bit_of_what_is_learned(name, stepwise):
    agent, results = learned(name, None, stepwise=stepwise)
    recorded_agent, recorded = learned(name, RECORD, stepwise=stepwise)
    for before, after in zip(results, recorded, strict=True):
        assert before.recording is None
        for array in ("returns", "discounted_returns", "update_steps"):
            assert np.array_equal(getattr(before, array), getattr(after, array))
        assert before.n_steps == after.n_steps
    assert np.array_equal(agent.Q, recorded_agent.Q)
    if name != "QLearning":
        assert np.array_equal(agent.U, recorded_agent.U)
        assert np.array_equal(agent.model.counts, recorded_agent.model.counts)
        assert agent._uniforms.next() == recorded_agent._uniforms.next()


@pytest.mark.parametrize("name", AGENTS)
def test_compiled_code_and_single_steps_give_the_same_recording(name):
    compiled, steps = (learned(name, RECORD, stepwise=stepwise)[1] for stepwise in (False, True))
    for one, other in zip(compiled, steps, strict=True):
        assert encode([one.recording]).tobytes() == encode([other.recording]).tobytes()


@pytest.mark.parametrize("name", AGENTS)
def test_recording_has_the_steps_of_its_episodes(name):
    _, results = learned(name, RECORD, stepwise=False)
    for m, result in zip(TASKS, results, strict=True):
        r = result.recording
        assert r.episodes.tolist() == [1, 2, 3, 4, 9, 18, 27, 36, 45, 54, 59, 60]
        T = m.T.toarray().reshape(m.n_states, 4, m.n_states)
        for i, episode in enumerate(r.episodes):
            frames = slice(r.starts[i], r.starts[i + 1])
            states, actions = r.states[frames], r.actions[frames]
            assert actions[-1] == -1
            assert (T[states[:-1], actions[:-1], states[1:]] > 0).all()
            assert r.rewards[frames].sum() == pytest.approx(result.returns[episode - 1], abs=1e-12)
            assert states.size == 16 or r.terminated[i]


@pytest.mark.parametrize("name", ["RMax", "LRMax", "refuted"])
def test_snapshot_is_what_the_agent_knew_when_it_acted(name):
    agent, results = learned(name, {"first": 60}, stepwise=False)
    for result in results:
        r = result.recording
        for frame in np.flatnonzero(r.actions >= 0):
            row = r.layer("Q", r.snapshots[frame])[r.states[frame]]
            assert row[r.actions[frame]] >= row.max() - 1e-5
        n_known = np.array([r.layer("known", i).sum() for i in range(r.snapshot_steps.size)])
        assert np.array_equal(n_known, np.searchsorted(r.update_steps, r.snapshot_steps, "right"))
    last, end = results[-1].recording, results[-1].recording.snapshot_steps.size - 1
    assert np.array_equal(last.layer("known", end), agent.known)
    if agent.options["refresh"] is None:  # otherwise the end of the task estimates pairs again
        assert np.array_equal(last.layer("Q", end), agent.Q.astype("f4"))
        assert np.array_equal(last.layer("U", end), agent.U.astype("f4"))


def test_recording_names_the_task_that_decides_each_bound():
    agent, results = learned("LRMax", {"first": 0, "last": 1}, stepwise=False)
    r = results[-1].recording
    names = np.array(r.deciders)[r.layer("decided", r.snapshot_steps.size - 1)]
    explained = agent.explain()
    assert np.array_equal(names, np.array(explained.names)[explained.bound])


def test_tasks_that_lack_actions_are_recorded_alike_in_compiled_code_and_single_steps():
    m, available = hl.garnet(6, 3, branching=2, gamma=0.9, seed=0), np.ones((6, 3), dtype=bool)
    available[0, 1] = available[2, 0] = False
    m = hl.TabularMDP(m.R, m.T, gamma=0.9, available=available)
    files, returns = [], []
    for env in (m, m.to_gymnasium()):
        for record in (None, {"first": 5, "every": 4}):
            agent = hl.RMax(n_states=6, n_actions=3, gamma=0.9, n_known=2, seed=0)
            options = {"masks": env is not m, "record": record}
            result = hl.learn(agent, env, episodes=30, max_steps=8, seed=1, **options)
            returns.append(result.returns)
            files += [] if record is None else [encode([result.recording]).tobytes()]
    assert files[0] == files[1]
    assert all(np.array_equal(each, returns[0]) for each in returns)
    r = result.recording
    assert np.isneginf(r.layer("Q", 0)[~available]).all()


def test_snapshot_can_be_taken_after_every_kth_update():
    _, results = learned("RMax", {"first": 0, "last": 1, "updates": 10}, stepwise=False)
    for result in results:
        wanted = result.update_steps[9::10]
        assert np.isin(wanted, result.recording.snapshot_steps).all()


def test_long_episode_is_recorded_up_to_a_limit(monkeypatch):
    monkeypatch.setattr("heirloom.learning.recorder.MOST_STEPS", 7)
    agent = AGENTS["RMax"]()
    result = hl.learn(agent, TASKS[0], episodes=3, max_steps=15, seed=0, record={"first": 1})
    assert np.diff(result.recording.starts)[0] == 8


@pytest.mark.parametrize(
    ("exact", "source"), [(True, "task 1 (Lyon, week 1)"), (False, "all earlier tasks")]
)
def test_recording_shows_the_labels_of_its_task_and_of_the_tasks_that_decide_bounds(exact, source):
    m = hl.grid_world(["S..G"], gamma=0.9)
    options = {"n_states": 4, "n_actions": 4, "gamma": 0.9, "n_known": 1, "seed": 0, "exact": exact}
    agent = hl.NearRMax(nearness=hl.Nearness(rewards=0.1, transitions=0.0), **options)
    for label, week in (("Lyon", "week 1"), ("Nîmes", None)):
        record = hl.learn(
            agent, m, episodes=9, max_steps=9, seed=0, label=label, time=week, record=True
        )
    r = record.recording
    (again,) = decode(encode([r]).tobytes(), "x")
    assert again.label == r.label == "Nîmes"
    assert "task 2 (Nîmes)" in repr(r)
    assert f"NearModels, {source}" in again.deciders
    assert set(r.deciders) <= set(agent.explain().names)


def test_recordings_survive_a_file():
    _, results = learned("LRMax", RECORD, stepwise=False)
    recordings = [result.recording for result in results]
    data = encode(recordings).tobytes()
    assert encode(decode(data, "x")).tobytes() == data
    assert decode(b"", "x") == []
    assert "60 episodes" in repr(recordings[0])
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 1
    with pytest.raises(InvalidFile, match="damaged"):
        decode(bytes(damaged), "x")


def test_recording_has_the_certificate_at_the_end_of_its_task():
    agent, results = learned("CertifiedRMax", RECORD, stepwise=False)
    found = [result.recording for result in results]
    assert "with probability 0.95" in found[-1].certificate
    assert found[-1].certificate == agent.explain().certificate
    again = decode(encode(found).tobytes(), "x")
    assert [r.certificate for r in again] == [r.certificate for r in found]
    _, results = learned("RMax", RECORD, stepwise=False)  # which knows no successors
    assert results[0].recording.certificate == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [("states", 99), ("actions", 7), ("snapshots", 9999), ("starts", -1), ("rewards", None)],
)
def test_recording_with_an_index_out_of_range_is_refused(name, value):
    _, results = learned("RMax", {}, stepwise=False)
    array = getattr(results[0].recording, name).copy()
    array = array[:-1] if value is None else np.where(np.arange(array.size) == 1, value, array)
    dtype = getattr(results[0].recording, name).dtype
    wrong = replace(results[0].recording, **{name: array.astype(dtype)})
    with pytest.raises(InvalidFile, match=r"out of range|differ in length"):
        decode(encode([wrong]).tobytes(), "x")


def test_episodes_are_chosen_once_each():
    assert RecordChoice(first=3, last=2, every=4).episodes(10).tolist() == [0, 1, 2, 3, 7, 8, 9]
    assert RecordChoice(first=30, last=30).episodes(4).tolist() == [0, 1, 2, 3]
    assert RecordChoice(first=0, last=0).episodes(4).size == 0


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"frist": 1}, "keys first, last, every, updates"),
        (3, "expected True, or a dictionary"),
        ({"first": -1}, "record.first is -1"),
        ({"every": 0}, "record.every is 0"),
        ({"every": 1}, "expected at most 268 MB"),
    ],
)
def test_record_that_is_wrong_or_too_large_is_refused_before_the_task_begins(record, message):
    agent = AGENTS["RMax"]()
    with pytest.raises(InvalidArgument, match=message):
        hl.learn(agent, TASKS[0], episodes=10**6, max_steps=15, record=record)
    assert not agent.in_task


@pytest.mark.parametrize("name", ["RMax", "NearRMax", "QLearning"])
def test_recording_is_never_larger_than_was_checked(name):
    for record in ({"first": 60}, RECORD, {"first": 0, "last": 0, "updates": 1}):
        _, results = learned(name, record, stepwise=False)
        bound = RecordChoice(**record).most_bytes(
            episodes=60, steps=15, n_pairs=TASKS[0].n_states * 4
        )
        for result in results:
            r = result.recording
            arrays = [r.states, r.actions, r.rewards, r.snapshots, r.snapshot_steps]
            arrays += [part for changes in r.layers.values() for part in changes]
            assert sum(array.nbytes for array in arrays) <= bound
