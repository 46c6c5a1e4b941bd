"""Memories of agents that learned in parallel are merged into one."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.transfer.refutation.widening import revise
from tests.strategies import seeds

SIZES = {"n_states": 4, "n_actions": 2, "gamma": 0.8}
TASKS = [hl.garnet(4, 2, branching=2, gamma=0.8, seed=seed) for seed in range(6)]


def learned(tasks, *, memory=None, first=0, kind=hl.RMax, **options):
    agent = kind(**SIZES, **options, **({} if memory is None else {"memory": memory}), seed=0)
    for i, m in enumerate(tasks):
        hl.learn(agent, m, episodes=20, max_steps=20, seed=first + i, label=f"machine {first + i}")
    return agent


def test_merged_memory_has_the_tasks_and_visits_of_all():
    one, two, three = (learned(TASKS[i : i + 2], first=i).memory for i in (0, 2, 4))
    merged = one.merge(two, three)
    alone = learned(TASKS).memory
    assert merged.n_tasks == 6
    assert [source.task for source in merged.sources] == [1, 2, 3, 4, 5, 6]
    assert [source.label for source in merged.sources] == [f"machine {i}" for i in range(6)]
    assert np.array_equal(merged.visits.counts.sum(), alone.visits.counts.sum())
    for i, memory in enumerate((one, two, three)):
        for k, source in enumerate(memory.sources):
            assert np.array_equal(merged.sources[2 * i + k].Q, source.Q)
    total = sum(memory.visits.counts for memory in (one, two, three))
    assert np.array_equal(merged.visits.counts, total)
    assert np.array_equal(merged.max_Q, np.max([m.max_Q for m in (one, two, three)], axis=0))
    assert (one.n_tasks, two.n_tasks) == (2, 2)  # they are as before
    rows = merged.pooled
    R = sum(m.pooled.R * m.pooled.counts for m in (one, two, three)) / np.maximum(total, 1)
    assert np.allclose(rows.R, R)


def test_merged_memory_is_saved_and_used(tmp_path):
    merged = learned(TASKS[:2]).memory.merge(learned(TASKS[2:4], first=2).memory)
    merged.save(tmp_path / "fleet.heirloom")
    loaded = hl.TaskMemory.load(tmp_path / "fleet.heirloom")
    near = hl.family_nearness(TASKS)
    runs = [learned(TASKS[4:], memory=memory, kind=hl.NearRMax, nearness=near)
            for memory in (merged, loaded)]  # fmt: skip
    assert np.array_equal(runs[0].Q, runs[1].Q)
    assert runs[0].memory.n_tasks == 6


def test_forgotten_and_dropped_tasks_count():
    memory = hl.TaskMemory(4, 2, capacity=1)
    one = learned(TASKS[:3], memory=memory)
    one.begin_task()
    one.observe(0, 0, 0.5, 1, terminated=False)
    one.drop_task()
    two = learned(TASKS[3:5], first=3, memory=hl.TaskMemory(4, 2, capacity=1)).memory
    merged = two.merge(one.memory)
    assert (merged.n_tasks, merged.n_dropped) == (5, 1)
    assert [source.task for source in merged.sources] == [5]  # the capacity is that of the first
    assert np.array_equal(merged.visits.counts, one.memory.visits.counts + two.visits.counts)


def test_learned_knowledge_of_the_first_memory_stays_and_bounds_are_valid():
    """Together, the fleet has seen every task of the family: the largest Q is a bound for each."""
    options = {"kind": hl.MaxQInit, "p_min": 0.5, "n_known": 1}
    tasks = [hl.garnet(4, 2, branching=1, gamma=0.8, seed=seed) for seed in range(6)]
    parts = [learned(tasks[i : i + 2], first=i, **options).memory for i in (0, 2, 4)]
    merged = parts[0].merge(*parts[1:])
    agent = learned([], memory=merged, **options)
    agent.begin_task()
    assert (agent.U < agent.setting.v_max - 0.01).any()  # the largest Q of six tasks is used
    for m in tasks:
        assert (agent.U >= hl.solve(m).Q - 1e-9).all()
    learner = learned(TASKS[:3], kind=hl.NearRMax, p_min=0.9, delta=0.05)
    both = learner.memory.merge(parts[1])
    assert both.learned.keys() == learner.memory.learned.keys()
    for name, (largest, n) in learner.memory.learned.items():
        assert np.array_equal(both.learned[name][0], largest)
        assert both.learned[name][1] == n


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (hl.TaskMemory(3, 2), "different values of size"),
        (learned(TASKS[:1], reward_range=(0.0, 2.0)).memory, "different values of reward_range"),
        (hl.TaskMemory(4, 2, state_names=list("abcd")), None),
        (3, "other is 3"),
    ],
)
def test_memories_of_other_tasks_are_refused(other, message):
    memory = learned(TASKS[:1]).memory
    if message is None:
        assert memory.merge(other).state_names == tuple("abcd")
        return
    with pytest.raises(hl.errors.HeirloomError, match=message):
        memory.merge(other)


def test_names_must_agree():
    one, two = (hl.TaskMemory(4, 2, state_names=names) for names in (list("abcd"), list("abce")))
    with pytest.raises(hl.errors.IncompatibleTasks, match="different values of state_names"):
        one.merge(two)


def copied(memory, path):
    memory.save(path)
    return hl.TaskMemory.load(path)


def test_fleet_merges_week_after_week_and_counts_every_task_once(tmp_path):
    """Machines begin each week with the memory of the fleet, which one of them saved to a file."""
    fleet, alone, first = hl.TaskMemory(4, 2), hl.TaskMemory(4, 2), 0
    for _ in range(3):
        memories = []
        for i in range(2):
            one = copied(fleet, tmp_path / f"{i}.heirloom")
            learned([TASKS[(first + i) % 6]], memory=one, first=first + i)
            memories.append(one)
            alone = alone.merge(learned([TASKS[(first + i) % 6]], first=first + i).memory)
        first += 2
        fleet = fleet.merge(*memories)
        assert fleet.n_tasks == alone.n_tasks == first
    assert [source.label for source in fleet.stored] == [f"machine {i}" for i in range(6)]
    assert np.array_equal(fleet.visits.counts, alone.visits.counts)
    for one, two in zip(fleet.visits.outcomes, alone.visits.outcomes, strict=True):
        assert np.array_equal(one, two)
    assert np.allclose(fleet.pooled.R, alone.pooled.R, rtol=0, atol=1e-14)
    assert fleet.merge(fleet).visits.counts.sum() == fleet.visits.counts.sum()


def test_task_that_would_count_twice_is_refused(tmp_path):
    common = learned(TASKS[:2]).memory
    one, two = (copied(common, tmp_path / f"{i}.heirloom") for i in range(2))
    learned(TASKS[2:3], memory=one, first=2)
    learned(TASKS[3:4], memory=two, first=3)
    with pytest.raises(hl.errors.IncompatibleTasks, match=r"machine 0.*would count twice: call"):
        one.merge(two)
    assert common.merge(one, two).n_tasks == 4


def test_knowledge_that_a_machine_has_refuted_is_given_up(tmp_path):
    """The values of common tasks that it has computed again are used, and no learned distance."""
    common = learned(TASKS[:3], kind=hl.LRMax, p_min=0.9, delta=0.05).memory
    assert common.learned
    one = copied(common, tmp_path / "one.heirloom")
    revise(one, one.setting)
    merged = common.merge(one)
    assert not merged.learned
    for mine, theirs in zip(merged.sources, one.sources, strict=True):
        assert (mine.Q >= theirs.Q).all()
        assert (mine.V >= theirs.V).all()


@pytest.mark.parametrize("seed", seeds(10))
def test_pooled_sets_of_a_merged_memory_contain_the_truth(seed):
    """Five machines learn the same task: the certificate of a sixth holds, and is no worse."""
    m = hl.garnet(4, 2, branching=2, gamma=0.8, seed=seed)
    options = {"successors": m.T.toarray().reshape(4, 2, 4) > 0, "rewards": m.R}
    options |= {"terminating": False, "nearness": hl.Nearness(rewards=0.0, transitions=0.0)}
    parts = []
    for i in range(5):
        agent = hl.NearRMax(**SIZES, seed=i, **options)
        hl.learn(agent, m, episodes=40, max_steps=40, seed=100 * seed + i)
        parts.append(agent.memory)
    alone = hl.NearRMax(**SIZES, seed=9, **options)
    sixth = hl.NearRMax(**SIZES, seed=9, memory=parts[0].merge(*parts[1:]), **options)
    gaps = []
    for agent in (alone, sixth):
        hl.learn(agent, m, episodes=5, max_steps=10, seed=1000 + seed)
        found, Q = agent.certificate(start=m.start), hl.solve(m).Q
        assert (found.Q_lower <= Q + 1e-9).all()
        assert (found.Q_upper >= Q - 1e-9).all()
        gaps.append(found.gap)
    assert gaps[1] < gaps[0]
