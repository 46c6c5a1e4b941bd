"""Arguments of bounds and distances, and results of user-defined distances, are checked."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.transfer.lipschitz.distance import Weights

SETTING = hl.bounds.Setting(n_states=3, n_actions=2, gamma=0.9)
OPTIONS = {"n_states": 3, "n_actions": 2, "gamma": 0.9, "n_known": 1, "seed": 0}


def learned_model():
    model = hl.LearnedModel(3, 2, n_known=1)
    for s in range(2):
        model.observe(s, 0, 0.5, s + 1, terminated=False)
    return model


ROWS = learned_model().rows
DISTANCE = hl.bounds.WeightedL1()
WEIGHTS = DISTANCE.weigh(np.array([1.0, 3.0, 2.0]), 1, SETTING)
PAIRS = np.arange(6)
VALID = {"m": ROWS, "m_bar": ROWS, "weights": WEIGHTS, "pairs": PAIRS, "setting": SETTING}


def test_distance_is_measured_between_rows_of_models():
    D = DISTANCE.between(*VALID.values())
    assert D.shape == (6,)
    assert D[0] == 0
    assert (D[[1, 3, 4, 5]] > 0).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pairs": np.array([6])}, "pairs holds 6: expected an array of pairs"),
        ({"pairs": np.array([-1])}, "pairs holds -1"),
        ({"pairs": np.array([10**9])}, "pairs holds 1000000000"),
        ({"pairs": np.array([0.0])}, "pairs is array"),
        ({"pairs": [0]}, r"pairs is \[0\]"),
        ({"m": None}, "m is None: expected a Rows"),
        ({"m": ROWS._replace(last=np.full(6, 10**9))}, "m is not valid .a row is not between"),
        ({"m_bar": ROWS._replace(first=np.full(6, -1))}, "m_bar is not valid .a row is not betw"),
        (
            {"m_bar": ROWS._replace(successors=np.full(256, 3, dtype=np.int32))},
            "m_bar is not valid .a successor is not from 0 to 2",
        ),
        ({"m": ROWS._replace(successors=np.full(256, 0))}, "m.successors is .* of int32"),
        ({"m": ROWS._replace(successors=np.empty(0, np.int32))}, "a row is not between 0 and 0"),
        ({"m": ROWS._replace(known=np.ones(7, dtype=bool))}, "known has 7 entries, not 6"),
        ({"m": ROWS._replace(p=None)}, "m.p is None"),
        ({"weights": None}, "weights is None: expected a Weights"),
        ({"weights": Weights(WEIGHTS.W, np.array([3, 1]))}, "weights is Weights"),
        ({"weights": Weights(WEIGHTS.W, np.array([1]))}, "at least 2 heaviest states"),
        ({"weights": Weights(WEIGHTS.W, np.array([0, 1]))}, "weights is Weights"),
        ({"weights": Weights(WEIGHTS.W, np.array([1, 1]))}, "weights is Weights"),
        ({"weights": Weights(WEIGHTS.W, np.array([], dtype=int))}, "weights is Weights"),
        ({"weights": Weights(WEIGHTS.W[:2], WEIGHTS.heaviest)}, "weights is Weights"),
        ({"weights": Weights(WEIGHTS.W * np.nan, WEIGHTS.heaviest)}, "weights is Weights"),
        ({"setting": None}, "setting is None: expected a Setting"),
        ({"setting": hl.bounds.Setting(n_states=2, n_actions=2, gamma=0.9)}, "m is not valid"),
    ],
)
def test_between_refuses_invalid_arguments(change, message):
    """Compiled code would read beyond its arrays."""
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        DISTANCE.between(**{**VALID, **change})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(2), 1, SETTING), "V_bar has 2 entries: expected one for each of the 3 states"),
        ((np.full(3, np.nan), 1, SETTING), "V_bar has an entry that is not finite"),
        ((None, 1, SETTING), "V_bar is None"),
        ((np.zeros(3), -1, SETTING), "widest is -1"),
        ((np.zeros(3), 1, None), "setting is None"),
    ],
)
def test_weigh_refuses_invalid_arguments(arguments, message):
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        DISTANCE.weigh(*arguments)


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


class Fake(hl.bounds.WeightedL1):
    """A distance that returns a function of the pairs."""

    def __init__(self, returned):
        self.returned = returned

    def between(self, m, m_bar, weights, pairs, setting):
        return self.returned(pairs)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda pairs: None, "between of the distance Fake returned None"),
        (lambda pairs: np.zeros(pairs.size + 1), "expected an array with one number for each of"),
        (lambda pairs: [0.0] * pairs.size, r"between of the distance Fake returned \[0.0"),
        (lambda pairs: np.full(pairs.size, "x"), "between of the distance Fake returned array"),
        (lambda pairs: np.where(pairs == 4, -0.1, 0), "returned -0.1 at pair 4: expected a dist"),
        (lambda pairs: np.where(pairs == 4, np.nan, 0), "returned nan at pair 4"),
        (lambda pairs: np.where(pairs == 4, np.inf, 0), "returned inf at pair 4"),
    ],
)
@pytest.mark.parametrize("options", [{"d_max": 0.1}, {"p_min": 0.5, "delta": 0.9}])
def test_user_defined_distance_that_is_not_one_is_refused_at_once(returned, message, options):
    bound = hl.Lipschitz(distance=Fake(returned), **options)
    agent = hl.OptimisticAgent(bounds=[bound], **OPTIONS)
    m = hl.garnet(3, 2, branching=1, gamma=0.9, seed=0)

    def learn_two_tasks():
        for seed in range(2):
            hl.learn(agent, m, episodes=3, max_steps=3, seed=seed)

    with pytest.raises(hl.errors.InvalidArgument, match=message):
        learn_two_tasks()


@pytest.mark.parametrize("whole", [np.int64, np.float32, np.bool_])
def test_user_defined_distance_may_have_any_real_type(whole):
    bound = hl.Lipschitz(distance=Fake(lambda pairs: np.ones(pairs.size, dtype=whole)), d_max=0.1)
    agent = hl.OptimisticAgent(bounds=[bound], **OPTIONS)
    for seed in range(2):
        m = hl.garnet(3, 2, branching=1, gamma=0.9, seed=0)
        hl.learn(agent, m, episodes=3, max_steps=3, seed=seed)


@pytest.mark.parametrize("junk", [3, "WeightedL1", hl.bounds.WeightedL1, object()])
def test_object_that_is_no_distance_is_refused(junk):
    with pytest.raises(
        hl.errors.InvalidArgument, match=r"distance is .*: expected a ModelDistance"
    ):
        hl.Lipschitz(distance=junk)


def test_distance_with_an_invalid_direction_is_refused():
    class Undirected(hl.bounds.WeightedL1):
        both_ways = "yes"

    with pytest.raises(hl.errors.InvalidArgument, match="both_ways of Undirected is 'yes'"):
        hl.Lipschitz(distance=Undirected())


def test_distances_with_different_slots_have_different_names():
    class Slotted(hl.bounds.WeightedL1):
        __slots__ = ("factor",)

        def __init__(self, factor):
            self.factor = factor

    names = {hl.Lipschitz(distance=Slotted(factor))._distance_name for factor in (1, 2)}
    assert names == {"Slotted(factor=1)", "Slotted(factor=2)"}


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
