"""Which sources a memory keeps and forgets, and statistics of all tasks seen."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.transfer.lipschitz.bound import Lipschitz
from tests.agents.test_soundness import draw_family

OPTIONS = {"n_states": 2, "n_actions": 1, "gamma": 0.9, "n_known": 1, "seed": 0}


def source(value):
    model = hl.LearnedModel(2, 1, n_known=1)
    model.observe(0, 0, 0.5, 1, terminated=False)
    return hl.bounds.Source.of(model, np.full(2, value))


def filled(n, **options):
    memory = hl.TaskMemory(2, 1, **options)
    for i in range(n):
        memory.add(source(float(i % 3)))
    return memory


def kept(memory):
    return [source.task for source in memory.sources]


def test_all_sources_are_kept_by_default():
    memory = filled(5)
    assert kept(memory) == [1, 2, 3, 4, 5]
    assert memory.forgotten == []


@pytest.mark.parametrize(("keep", "tasks"), [("first", [1, 2, 3]), ("latest", [5, 6, 7])])
def test_full_memory_keeps_the_first_or_the_latest_tasks(keep, tasks):
    memory = filled(7, capacity=3, keep=keep)
    assert kept(memory) == tasks
    assert memory.forgotten == sorted(set(range(1, 8)) - set(tasks))
    assert memory.n_tasks == 7
    assert list(memory.uses) == tasks


def test_full_memory_keeps_the_most_used_tasks_and_the_last_one():
    memory = filled(3, capacity=3, keep="most_used")
    for task in (1, 1, 1, 1, 3, 3):
        memory.use(task)
    memory.add(source(0.0))
    assert kept(memory) == [1, 3, 4]
    memory.add(source(0.0))
    assert kept(memory) == [1, 3, 5]
    for _ in range(3):
        memory.use(5)
    memory.add(source(0.0))
    assert kept(memory) == [1, 5, 6]
    assert kept(filled(4, capacity=1, keep="most_used")) == [4]


def test_agents_count_the_uses_of_sources():
    """The nearer source decides the bounds, so its uses are counted and it is kept."""
    far = hl.TabularMDP([[1.0], [1.0]], [[[1.0, 0.0]], [[0.0, 1.0]]], gamma=0.9)
    near = hl.TabularMDP([[0.2], [0.0]], [[[0.0, 1.0]], [[1.0, 0.0]]], gamma=0.9)
    memory = hl.TaskMemory(2, 1, capacity=2, keep="most_used")
    agent = hl.LRMax(d_max=0.01, memory=memory, **OPTIONS)
    for task in (near, far, near, near):
        hl.learn(agent, task, episodes=3, max_steps=5, seed=0)
    assert 1 in kept(memory)
    assert memory.uses[1] > 0


def test_max_q_covers_all_tasks_seen():
    assert np.array_equal(filled(3, capacity=1).max_Q, np.full(2, 2.0))


@pytest.mark.parametrize("keep", ["first", "latest", "most_used"])
def test_learned_distance_does_not_depend_on_the_capacity(keep):
    """The learned prior compares the first tasks with each other, whether they are kept or not.

    Afterwards the memory no longer stores those that are not sources.
    """
    rng = np.random.default_rng(5)
    compared = 0
    for _ in range(30):
        tasks = draw_family(rng)
        m = tasks[0]
        options = {
            "n_states": m.n_states,
            "n_actions": m.n_actions,
            "gamma": m.gamma,
            "reward_range": m.reward_range,
            "n_known": 1,
            "p_min": 0.3,
            "delta": 0.25,
        }
        memories = [
            hl.TaskMemory(m.n_states, m.n_actions, capacity=capacity, keep=keep)
            for capacity in (None, 1, 2)
        ]
        # There is no prior yet, so nothing is transferred and the agents act alike.
        n_first = hl.theory.tasks_for_max_q(0.3, 0.25)
        for i in range(n_first):
            task = tasks[rng.integers(len(tasks))]
            for memory in memories:
                agent = hl.LRMax(memory=memory, seed=i, **options)
                hl.learn(agent, task, episodes=4, max_steps=5, seed=i)
        learned = [memory.learned["WeightedL1"] for memory in memories]
        assert {n_compared for _, n_compared in learned} == {n_first}
        for largest, _ in learned[1:]:
            assert np.array_equal(largest, learned[0][0])
        assert all(not memory._first for memory in memories)
        compared += n_first
    assert compared > 60


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": 0}, "capacity is 0: expected a whole number, 1 or more"),
        ({"keep": "best"}, "keep is 'best': expected one of first, latest, most_used"),
        ({"n_states": 0}, "n_states is 0"),
    ],
)
def test_invalid_options_are_refused(options, message):
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        hl.TaskMemory(**{"n_states": 2, "n_actions": 1, **options})


def test_repr_shows_how_many_tasks_are_kept_and_one_line_for_each():
    assert repr(filled(3, capacity=2, keep="first")) == (
        "TaskMemory(n_states=2, n_actions=1, tasks seen: 3, kept: 2 of at most 2 (first), "
        "known pairs: 2)\n"
        "  task 1: 1 of 2 pairs known\n"
        "  task 2: 1 of 2 pairs known"
    )


def test_bounds_from_a_full_memory_come_from_its_sources_only():
    """LRMax that kept one of two sources has the bounds of LRMax that has seen only that one."""
    first, second = (
        hl.TabularMDP([[r], [0.0]], [[[0.0, 1.0]], [[1.0, 0.0]]], gamma=0.9) for r in (0.5, 0.55)
    )
    full = hl.TaskMemory(2, 1, capacity=1, keep="first")
    agent = hl.LRMax(d_max=0.05, memory=full, **OPTIONS)
    for task in (first, second):
        hl.learn(agent, task, episodes=2, max_steps=3, seed=0)
    expected = hl.LRMax(d_max=0.05, **OPTIONS)
    hl.learn(expected, first, episodes=2, max_steps=3, seed=0)
    agent.begin_task()
    expected.begin_task()
    assert np.array_equal(agent.U, expected.U)
    assert (agent.U < 10).any()
    assert isinstance(agent.bounds[0], Lipschitz)


def changed_rows(**changes):
    return source(1.0).rows._replace(**changes)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (None, "rows is None: expected a Rows"),
        ((), r"rows is \(\): expected a Rows"),
        (changed_rows(successors=np.array([2], dtype=np.int32)), "a successor is not from 0 to 1"),
        (changed_rows(successors=np.array([-1], dtype=np.int32)), "a successor is not from 0 to 1"),
        (changed_rows(successors=np.array([2**40])), "successors has entries beyond the range"),
        (changed_rows(successors=np.array([1.0])), "successors is .* expected an array of int32"),
        (changed_rows(last=np.array([10**9, 10**9])), "a row is not between 0 and 1"),
        (changed_rows(first=np.array([-1, 1])), "a row is not between 0 and 1"),
        (changed_rows(first=np.array([1, 1])), "the rows do not follow each other"),
        (changed_rows(last=np.array([1, 0])), "a row has a wrong length"),
        (changed_rows(p=np.array([0.5])), "a row does not sum to 1"),
        (changed_rows(p=np.array([1.0, 0.0])), "the sum of lengths is not the number of succ"),
        (changed_rows(p=np.array([np.nan])), "p has an entry that is not finite"),
        (changed_rows(ends=np.array([-0.5, 0.0]), p=np.array([1.5])), "a probability is negative"),
        (changed_rows(known=np.ones(3, dtype=bool)), "known has 3 entries, not 2"),
        (changed_rows(known=np.ones(2)), "known is .* expected an array of bool"),
        (changed_rows(R=np.array([np.inf, 0.0])), "R has an entry that is not finite"),
        (changed_rows(R=[0.0, 0.0]), "R is .* expected an array of float64"),
    ],
)
def test_source_with_invalid_rows_is_refused(rows, message):
    """Compiled code would read beyond its arrays."""
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        hl.bounds.Source(rows, np.full(2, 1.0), np.full(2, 1.0))


@pytest.mark.parametrize(
    ("Q", "V", "message"),
    [
        (np.full(2, np.nan), np.ones(2), "Q has an entry that is not finite"),
        (np.ones(2), np.array([0, np.inf]), "V has an entry that is not finite"),
        (np.ones((2, 1)), np.ones(2), "Q is .* expected an array of float64 with one axis"),
        (np.ones(3), np.ones(2), "Q has 3 entries and V has 2"),
        (np.ones(0), np.ones(0), "Q has 0 entries and V has 0"),
        (np.ones(4), np.ones(2), "known has 2 entries, not 4"),
        (None, np.ones(2), "Q is None: expected an array of float64"),
    ],
)
def test_source_with_invalid_values_is_refused(Q, V, message):
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        hl.bounds.Source(source(1.0).rows, Q, V)


def test_source_does_not_change_with_the_arrays_that_it_was_made_from():
    rows = changed_rows(R=np.array([0.5, 0.0]))
    values = np.ones(2)
    view = values.view()
    view.flags.writeable = False
    made = hl.bounds.Source(rows, values, view)
    rows.R[0] = values[0] = 7.0
    assert (made.rows.R[0], made.Q[0], made.V[0]) == (0.5, 1.0, 1.0)
    for array in (*made.rows, made.Q, made.V):
        assert not array.flags.writeable


@pytest.mark.parametrize(
    ("model", "Q", "message"),
    [
        (None, np.ones(2), "model is None: expected a LearnedModel"),
        (hl.LearnedModel(2, 1, n_known=1), np.ones(3), "Q has 3 entries: expected one for each"),
        (hl.LearnedModel(2, 1, n_known=1), [1.0, 1.0], "Q is .* expected an array of float64"),
    ],
)
def test_source_of_an_invalid_model_or_values_is_refused(model, Q, message):
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        hl.bounds.Source.of(model, Q)


def test_memory_refuses_what_is_not_a_source_of_its_tasks():
    memory = hl.TaskMemory(2, 1)
    for junk in (None, 3, source(1.0).rows):
        with pytest.raises(hl.errors.InvalidArgument, match=r"source is .*: expected a Source"):
            memory.add(junk)
    with pytest.raises(
        hl.errors.IncompatibleTasks, match="the task has 2 states and 2 pairs: expected 3"
    ):
        hl.TaskMemory(3, 1).add(source(1.0))
    agent = hl.RMax(**OPTIONS, memory=memory)
    with pytest.raises(hl.errors.InvalidArgument, match=r"Q contains .*, outside \(0, 10\)"):
        memory.add(source(11.0))
    assert (memory.n_tasks, memory.sources, memory.max_Q) == (0, (), None)
    assert agent.memory is memory


def test_sources_added_before_an_agent_are_compared_with_its_setting():
    memory = hl.TaskMemory(2, 1)
    memory.add(source(11.0))
    with pytest.raises(hl.errors.InvalidArgument, match=r"Q contains .*, outside \(0, 10\)"):
        hl.RMax(**OPTIONS, memory=memory)
    with pytest.raises(
        hl.errors.InvalidArgument, match=r"the mean reward of s=.*, a=.* is .*, outside \(0.6, 2\)"
    ):
        hl.RMax(**OPTIONS, memory=memory, reward_range=(0.6, 2))


def test_sources_cannot_be_replaced_from_outside():
    memory = filled(2)
    assert isinstance(memory.sources, tuple)
    with pytest.raises(AttributeError):
        memory.sources = []


@pytest.mark.parametrize("junk", [None, "x", 1.5, -1, True])
def test_task_numbers_that_are_not_whole_are_refused(junk):
    memory = filled(2)
    with pytest.raises(hl.errors.InvalidArgument, match="task is"):
        memory.use(junk)
    with pytest.raises(hl.errors.InvalidArgument, match="n_tasks is"):
        memory.compare_first(junk)
    with pytest.raises(hl.errors.InvalidArgument, match="setting is"):
        memory.bind(junk)
