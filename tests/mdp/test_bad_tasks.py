"""Invalid tasks and arguments raise errors that state the value, its location and the remedy."""

import numpy as np
import pytest
from scipy import sparse

import heirloom as hl

R = np.zeros((2, 1))
T = np.array([[[0.5, 0.5]], [[0.0, 1.0]]])
BROKEN_MATRIX = sparse.csr_array(T.reshape(2, 2))
BROKEN_MATRIX.indices[-1] = 10**9


def changed(array, at, value):
    array = np.array(array, dtype=float)
    array[at] = value
    return array


def build(**changes):
    return hl.TabularMDP(**{"R": R, "T": T, "gamma": 0.9, **changes})


CASES = {
    "a negative probability": (
        {"T": changed(T, (0, 0), [-0.5, 1.5])},
        r"T\[s=0, a=0, s'=0\] is -0.5: expected a probability",
    ),
    "a NaN probability": (
        {"T": changed(T, (1, 0, 1), np.nan)},
        r"T\[s=1, a=0, s'=1\] is nan",
    ),
    "an infinite probability": ({"T": changed(T, (1, 0, 1), np.inf)}, r"s'=1\] is inf"),
    "a sparse negative probability": (
        {"T": sparse.csr_array(changed(T, (0, 0), [-0.5, 1.5]).reshape(2, 2))},
        r"T\[s=0, a=0, s'=0\] is -0.5",
    ),
    "probabilities that do not sum to 1": (
        {"T": changed(T, (0, 0), [0.5, 0.4])},
        r"T\[s=0, a=0\] sums to 0.9, not 1: divide",
    ),
    "probabilities that sum to 1 + 1e-8": (
        {"T": changed(T, (0, 0, 0), 0.5 + 1e-8)},
        "sums to 1.00000001, not 1",
    ),
    "a pair without a successor": (
        {"T": changed(T, (1, 0), 0)},
        r"T\[s=1, a=0\] sums to 0, not 1: .* its own successor",
    ),
    "T of two dimensions": ({"T": np.eye(2)}, r"T has shape \(2, 2\)"),
    "T that is not square": ({"T": np.ones((2, 1, 3)) / 3}, r"T has shape \(2, 1, 3\)"),
    "T without states": ({"T": np.ones((0, 1, 0))}, "T has shape"),
    "T without actions": ({"T": np.ones((2, 0, 2))}, "T has shape"),
    "a number for T": ({"T": 1.0}, r"T has shape \(\)"),
    "a sparse T of the wrong shape": ({"T": sparse.csr_array((3, 2))}, r"T has shape \(3, 2\)"),
    "a ragged T": ({"T": [[[1.0, 0.0]], [[1.0]]]}, "T is not an array of real numbers"),
    "a T of strings": ({"T": [[["a"]]]}, "T is not an array of real numbers"),
    "a complex T": ({"T": T + 0j}, "T is not an array of real numbers: its dtype is complex128"),
    "R is None": ({"R": None}, "R"),
    "R of the wrong shape": ({"R": np.zeros((2, 2))}, r"R has shape \(2, 2\).*\(2, 1\)"),
    "R of one dimension": ({"R": np.zeros(2)}, r"R has shape \(2,\)"),
    "a sparse R of the wrong shape": ({"R": sparse.csr_array((2, 3))}, r"R has shape \(2, 3\)"),
    "a NaN reward": ({"R": changed(R, (1, 0), np.nan)}, r"R\[s=1, a=0\] is nan"),
    "an infinite reward": ({"R": changed(R, (1, 0), -np.inf)}, r"R\[s=1, a=0\] is -inf"),
    "a NaN reward of a transition": (
        {"R": changed(np.zeros(T.shape), (0, 0, 1), np.nan)},
        r"R\[s=0, a=0, s'=1\] is nan",
    ),
    "a reward above the range": (
        {"R": changed(R, (1, 0), 1.5)},
        r"R\[s=1, a=0\] is 1.5, outside reward_range \(0.0, 1.0\): give reward_range=\(0.0, 1.5\)",
    ),
    "a reward below the range": (
        {"R": changed(R, (0, 0), -1)},
        r"R\[s=0, a=0\] is -1.0, outside reward_range \(0.0, 1.0\)",
    ),
    "a reward of a transition outside the range": (
        {"R": changed(np.zeros(T.shape), (0, 0, 1), 2)},
        r"R\[s=0, a=0, s'=1\] is 2.0, outside",
    ),
    "a start state out of range": ({"start": 2}, "start is state 2: the states are 0 to 1"),
    "a negative start state": ({"start": -1}, "start is state -1"),
    "a start distribution that does not sum to 1": (
        {"start": [0.5, 0.4]},
        "start sums to 0.9, not 1",
    ),
    "a negative start probability": ({"start": [1.5, -0.5]}, r"start\[1\] is -0.5"),
    "a start distribution of the wrong shape": (
        {"start": [1.0]},
        r"start is \[1.0\]: expected the number of a state, or a distribution",
    ),
    "a string as start": ({"start": "0"}, "start is not an array of real numbers"),
    "a start that is not a whole number": ({"start": 0.5}, "start is 0.5: expected the number"),
    "numbers too large for float64": ({"R": [[10**400], [0]]}, "R is not an array of real numbers"),
    "values too large for float64": (
        {"R": R + 1e299, "reward_range": (0, 1e299)},
        "the largest absolute reward is 1e[+]299: with gamma=0.9, .* rescale",
    ),
    "rewards as strings": ({"R": [["0"], ["1"]]}, "R is not an array of real numbers: its dtype"),
    "rewards as dates": (
        {"R": np.zeros((2, 1), dtype="datetime64[s]")},
        "R is not an array of real numbers: its dtype is datetime64",
    ),
    "None as a reward": ({"R": [[None], [1.0]]}, "R is not an array of real numbers: its dtype"),
    "a masked reward": (
        {"R": np.ma.masked_array(R, [[True], [False]])},
        "R is not an array of real numbers: some of its entries are masked",
    ),
    "a broken sparse matrix": ({"T": BROKEN_MATRIX}, "T is not a valid sparse matrix"),
    "a terminal state out of range": ({"terminates": [2]}, "terminates contains state 2"),
    "an integer mask of terminal states": (
        {"R": np.zeros((3, 1)), "T": np.eye(3)[:, None], "terminates": [0, 0, 1]},
        "terminates contains state 0 twice: .* boolean",
    ),
    "a mask of terminal states that is too short": (
        {"terminates": [True]},
        r"terminates has shape \(1,\)",
    ),
    "terminates of two dimensions": ({"terminates": np.eye(2)}, "terminates has shape"),
    "terminates of the wrong shape": (
        {"terminates": np.zeros((2, 2, 2), dtype=bool)},
        "terminates has shape",
    ),
    "a fraction in terminates": ({"terminates": np.full(T.shape, 0.5)}, "terminates contains 0.5"),
    "a ragged terminates": ({"terminates": [[1], [1, 2]]}, "terminates is not an array"),
    "too few names": ({"state_names": ["a"]}, "state_names has 1 name for 2 states"),
    "names in a set": ({"state_names": {"a", "b"}}, "state_names is .* in order"),
    "a number as names": ({"state_names": 5}, "state_names is 5"),
    "equal names": ({"state_names": ["a", "a"]}, "state_names has the name 'a' twice"),
}


@pytest.mark.parametrize(("changes", "message"), CASES.values(), ids=CASES)
def test_invalid_tasks_are_rejected(changes, message):
    with pytest.raises(hl.errors.InvalidTask, match=message):
        build(**changes)


@pytest.mark.parametrize("gamma", [1, 1.0, -0.1, 2, np.nan, np.inf, "0.9", None, 0.5j, 10**400])
def test_discount_factors_outside_zero_to_one_are_rejected(gamma):
    with pytest.raises(hl.errors.InvalidArgument, match=r"gamma is .*: expected a discount factor"):
        build(gamma=gamma)


@pytest.mark.parametrize("reward_range", [(1, 0), (0, np.inf), (0,), 1, ("a", "b"), (np.nan, 1)])
def test_reward_ranges_that_are_not_finite_intervals_are_rejected(reward_range):
    with pytest.raises(hl.errors.InvalidArgument, match="reward_range is"):
        build(reward_range=reward_range)


def test_reward_range_that_the_message_proposes_is_accepted():
    """Also with rewards that have no short decimal representation."""
    thirds = np.array([[10 / 3], [-1e-300]])
    with pytest.raises(hl.errors.InvalidTask, match="give reward_range=") as caught:
        build(R=thirds)
    proposed = str(caught.value).split("give reward_range=")[1].split(" or wider")[0]
    assert build(R=thirds, reward_range=eval(proposed)).reward_range == (-1e-300, 10 / 3)


@pytest.mark.parametrize("m", [None, "FrozenLake-v1", R, object])
@pytest.mark.parametrize(
    "call",
    [
        hl.solve,
        lambda m: hl.evaluate(m, [0]),
        lambda m: hl.optimal_return(m, horizon=1),
        lambda m: hl.local_pseudometric(m, m),
        lambda m: hl.lipschitz_bound(build(), m),
    ],
)
def test_objects_that_are_not_tasks_are_rejected(call, m):
    with pytest.raises(hl.errors.InvalidArgument, match="not a TabularMDP: build one from arrays"):
        call(m)


def test_invalid_argument_is_a_value_error_and_a_heirloom_error():
    with pytest.raises(ValueError, match="gamma") as caught:
        build(gamma=2)
    assert isinstance(caught.value, hl.errors.HeirloomError)


class TestIncompatibleTasks:
    TASK = hl.TabularMDP(R, T, gamma=0.9, state_names=["a", "b"], action_names=["a"])

    @pytest.mark.parametrize(
        ("other", "message"),
        [
            (hl.TabularMDP([[0.0]], [[[1.0]]], gamma=0.9), "n_states is 2 .* and 1"),
            (hl.TabularMDP(np.zeros((2, 2)), np.repeat(T, 2, axis=1), gamma=0.9), "n_actions"),
            (hl.TabularMDP(R, T, gamma=0.5), "gamma is 0.9 in one task and 0.5 in the other"),
            (
                hl.TabularMDP(R, T, gamma=0.9, action_names=["x"]),
                r"action_names\[0\] is 'a' in one",
            ),
            (
                hl.TabularMDP(R, T, gamma=0.9, state_names=["b", "a"]),
                r"state_names\[0\] is 'a' in one",
            ),
        ],
    )
    @pytest.mark.parametrize(
        "metric",
        [
            lambda m, m_bar: hl.model_pseudometric(m, m_bar, np.zeros(m.n_states)),
            hl.dissimilarity,
            hl.local_pseudometric,
            hl.global_pseudometric,
            lambda m, m_bar: hl.policy_v_pseudometric(m, m_bar, [0, 0]),
            lambda m, m_bar: hl.policy_q_pseudometric(m, m_bar, [0, 0]),
            hl.lipschitz_bound,
        ],
    )
    def test_tasks_that_cannot_be_compared_are_rejected(self, metric, other, message):
        with pytest.raises(hl.errors.IncompatibleTasks, match=message):
            metric(self.TASK, other)
