"""Arguments of bounds are checked."""

import numpy as np
import pytest

import heirloom as hl

SETTING = hl.bounds.Setting(n_states=3, n_actions=2, gamma=0.9)
OPTIONS = {"n_states": 3, "n_actions": 2, "gamma": 0.9, "n_known": 1, "seed": 0}


def learned_model():
    model = hl.LearnedModel(3, 2, n_known=1)
    for s in range(2):
        model.observe(s, 0, 0.5, s + 1, terminated=False)
    return model


def begun_bound():
    """A Lipschitz bound with one source, and a model in which pair 0 is known."""
    memory = hl.TaskMemory(3, 2)
    memory.add(hl.bounds.Source.of(learned_model(), np.full(6, 2.0)))
    bound, model = hl.Lipschitz(d_max=0.1), hl.LearnedModel(3, 2, n_known=1)
    assert bound.begin_task(SETTING, model, memory)
    model.observe(0, 0, 0.5, 1, terminated=False)
    return bound


U, V, NONE = np.full(6, 10.0), np.full(3, 10.0), np.empty(0, dtype=np.int64)


def test_bound_is_refined_with_a_change_made_by_hand():
    bound = begun_bound()
    lowered = bound.refine(hl.bounds.Change(0, U, V, np.array([2])))
    assert lowered.dtype == np.int64


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            hl.bounds.Change(10**9, U, V, NONE),
            "pair is 1000000000: expected a whole number from 0 to 5",
        ),
        (hl.bounds.Change(0.0, U, V, NONE), "pair is 0.0"),
        (hl.bounds.Change(3, U, V, NONE), "pair 3 is not known"),
        (hl.bounds.Change(0, U[:3], V, NONE), "U is .* expected an array of float64 of shape"),
        (hl.bounds.Change(0, U, V[:1], NONE), "V is .* expected an array of float64 of shape"),
        (hl.bounds.Change(0, U, V, np.array([3])), "decreased is .* expected states from 0 to 2"),
        (hl.bounds.Change(0, U, V, np.array([-1])), "decreased is .* expected states from 0 to 2"),
        (hl.bounds.Change(0, U, V, np.array([0.5])), "decreased is .* expected states from 0 to 2"),
    ],
)
def test_refine_refuses_an_invalid_change(change, message):
    """Compiled code would read or write beyond its arrays."""
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        begun_bound().refine(change)


def test_change_of_a_task_of_another_size_is_refused():
    """A bound that passes the changes of its agent to a bound that began a larger task."""
    inner = begun_bound()

    class Outer(hl.bounds.Constant):
        def begin_task(self, setting, model, memory):
            super().begin_task(setting, model, memory)
            return True

        def refine(self, change):
            return inner.refine(change)

    agent = hl.OptimisticAgent(bounds=[Outer()], **{**OPTIONS, "n_states": 4})
    agent.begin_task()
    with pytest.raises(hl.errors.InvalidArgument, match=r"U is .* expected an array of float64"):
        agent.observe(0, 0, 0.5, 1, terminated=False)


@pytest.mark.parametrize("make", [hl.bounds.Constant, lambda: hl.MaxQ(p_min=0.5), hl.Lipschitz])
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            (None, learned_model(), hl.TaskMemory(3, 2)),
            hl.errors.InvalidArgument,
            "setting is None",
        ),
        ((SETTING, None, hl.TaskMemory(3, 2)), hl.errors.InvalidArgument, "model is None"),
        ((SETTING, learned_model(), None), hl.errors.InvalidArgument, "memory is None"),
        (
            (SETTING, learned_model(), hl.TaskMemory(3, 3)),
            hl.errors.IncompatibleTasks,
            "the memory has 3 states and 3 actions, the setting 3 and 2",
        ),
        (
            (SETTING, hl.LearnedModel(2, 2, n_known=1), hl.TaskMemory(3, 2)),
            hl.errors.IncompatibleTasks,
            "the model has 2 states and 2 actions",
        ),
    ],
)
def test_begin_task_refuses_invalid_arguments(make, arguments, error, message):
    with pytest.raises(error, match=message):
        make().begin_task(*arguments)


def test_bound_that_has_not_begun_a_task_raises_wrong_order():
    bound, memory = hl.Lipschitz(d_max=0.1, p_min=0.5), hl.TaskMemory(3, 2)
    source = hl.bounds.Source.of(learned_model(), np.full(6, 2.0))
    for call in (
        lambda: bound.refine(hl.bounds.Change(0, U, V, NONE)),
        bound.sources_used,
        bound.details,
        bound.prior_used,
        lambda: bound.end_task(source, memory),
        hl.bounds.Constant().sources_used,
    ):
        with pytest.raises(hl.errors.WrongOrder, match="has not begun a task"):
            call()


def test_end_task_refuses_invalid_arguments():
    bound = begun_bound()
    with pytest.raises(hl.errors.InvalidArgument, match="source is 3: expected a Source"):
        bound.end_task(3, hl.TaskMemory(3, 2))
    with pytest.raises(hl.errors.InvalidArgument, match="memory is None"):
        bound.end_task(hl.bounds.Source.of(learned_model(), np.full(6, 2.0)), None)


@pytest.mark.parametrize("delta", [np.inf, np.nan, 0, 2, "x", None])
def test_delta_that_is_no_probability_is_refused(delta):
    with pytest.raises(hl.errors.InvalidArgument, match="delta is"):
        hl.Lipschitz(delta=delta)
    with pytest.raises(hl.errors.InvalidArgument, match="delta is"):
        hl.MaxQ(p_min=0.5, delta=delta)


def test_tampered_learned_distance_is_refused():
    """Its shape must be that of the pairs: compiled code relies on it."""
    agent = hl.LRMax(p_min=0.5, delta=0.9, **OPTIONS)
    agent.begin_task()
    agent.end_task()
    agent.memory.learned["WeightedL1"] = np.zeros(2), 1
    with pytest.raises(hl.errors.InvalidArgument, match="the learned distance has shape"):
        agent.begin_task()
