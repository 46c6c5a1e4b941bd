"""`LearnedModel`: visit counts, known pairs, and empirical models of the visits until a look."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import heirloom as hl
from heirloom.kernels import counting


def distance_in_ulps(mean, rewards):
    """The distance of `mean` from the exact mean, in units of its last place."""
    exact = sum(map(Fraction, rewards)) / len(rewards)
    return abs(Fraction(float(mean)) - exact) / Fraction(math.ulp(float(mean)))


def assert_estimated(rows, k, visits):
    """Check that the row of pair k is the empirical model of these visits."""
    rewards, outcomes = zip(*visits, strict=True)
    n, found = len(visits), slice(rows.first[k], rows.last[k])
    assert rows.counts[k] == n
    assert distance_in_ulps(rows.R[k], rewards) <= 0.51
    assert rows.ends[k] == outcomes.count(None) / n
    expected = {o: outcomes.count(o) / n for o in sorted(set(outcomes) - {None})}
    assert rows.successors[found].tolist() == list(expected)
    assert rows.p[found].tolist() == list(expected.values())


@given(
    st.integers(1, 5),
    st.lists(
        st.tuples(
            st.integers(0, 3), st.integers(0, 1), st.floats(0, 1), st.integers(0, 3), st.booleans()
        ),
        max_size=300,
    ),
)
@pytest.mark.parametrize("refresh", [None, 1.01, 1.5, 3.0])
def test_known_pairs_have_the_empirical_model_of_the_visits_until_the_last_look(
    refresh, n_known, steps
):
    """The model is compared with lists of all visits, and the looks with ⌈n_known g^i⌉."""
    model = hl.LearnedModel(4, 2, n_known=n_known, refresh=refresh)
    visits_of = {}
    for s, a, r, s_next, terminated in steps:
        visits = visits_of.setdefault((s, a), [])
        visits.append((r, None if terminated else s_next))
        became_known = model.observe(s, a, r, s_next, terminated=terminated)
        assert became_known == (s * 2 + a if len(visits) == n_known else None)
    for (s, a), visits in visits_of.items():
        assert model.counts[s, a] == len(visits)
        assert model.known[s, a] == (len(visits) >= n_known)
        assert (model.all_visits.counts == model.counts.reshape(-1)).all()
        assert_estimated(model.all_visits, s * 2 + a, visits)
        if not model.known[s, a]:
            assert_estimated(model.visited_rows, s * 2 + a, visits)
            continue
        looked, factor = n_known, n_known * (refresh or np.inf)
        while math.ceil(factor) <= len(visits) if refresh else False:
            looked, factor = math.ceil(factor), factor * refresh
        assert_estimated(model.rows, s * 2 + a, visits[:looked])
        assert_estimated(model.visited_rows, s * 2 + a, visits[:looked])
        assert_estimated(model.first_rows, s * 2 + a, visits[:n_known])
        row = model.rows
        found = slice(row.first[s * 2 + a], row.last[s * 2 + a])
        p = dict(zip(row.successors[found].tolist(), row.p[found].tolist(), strict=True))
        assert model.successors(s, a) == p
    assert model.known.sum() == sum(len(visits) >= n_known for visits in visits_of.values())


@pytest.mark.parametrize("kind", ["uniform", "constant", "cancelling"])
def test_mean_of_many_rewards_is_correct_to_the_last_place(kind):
    """A plain sum of these rewards is off by more than ten units in the last place."""
    n, rng = 200_000, np.random.default_rng(0)
    rewards = {
        "uniform": rng.random(n),
        "constant": np.full(n, 0.1),
        "cancelling": np.where(np.arange(n) < n // 2, 1e9, -1e9) * rng.random(n),
    }[kind].tolist()
    model = hl.LearnedModel(1, 1, n_known=n)
    for r in rewards:
        model.observe(0, 0, r, 0, terminated=False)
    assert distance_in_ulps(model.R[0, 0], rewards) <= 0.51
    assert kind != "constant" or model.R[0, 0] == 0.1
    assert distance_in_ulps(np.cumsum(rewards)[-1] / n, rewards) > 10


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("refresh", [None, 1.3])
def test_counts_of_many_outcomes_equal_those_of_a_dictionary(seed, refresh):
    rng = np.random.default_rng(seed)
    n_states, n_known, n_pairs = 60, 20, 120
    model = hl.LearnedModel(n_states, 2, n_known=n_known, refresh=refresh)
    expected = [{} for _ in range(n_pairs)]
    for k in rng.permutation(np.repeat(np.arange(n_pairs), 45))[: 44 * n_pairs].tolist():
        # -1 is termination, and later pairs have more outcomes.
        outcome = int(rng.integers(-1, 1 + n_states * k // n_pairs))
        counts = expected[k]
        counts[outcome] = counts.get(outcome, 0) + 1
        ended_at = int(rng.integers(n_states))
        s_next = ended_at if outcome < 0 else outcome
        model.observe(*divmod(k, 2), 0.5, s_next, terminated=outcome < 0)
    reached = {s for counts in expected for s in counts if s >= 0}
    reached |= {k // 2 for k, counts in enumerate(expected) if counts}
    rows = model.all_visits
    for k, counts in enumerate(expected):
        n, found = sum(counts.values()), slice(rows.first[k], rows.last[k])
        p = {s: times / n for s, times in sorted(counts.items())}
        assert rows.ends[k] == p.pop(-1, 0.0)
        assert rows.successors[found].tolist() == list(p)
        assert rows.p[found].tolist() == list(p.values())
    assert set(np.flatnonzero(model.reached)) == reached
    a = model._arrays
    assert a.sizes[counting.N_ENTRIES] <= a.outcomes.size
    assert a.sizes[counting.N_TRANSITIONS] <= a.p.size


def test_memory_use_grows_with_known_pairs_only():
    """100,000 states, 100 of them visited: no array has S·A·S entries, or n_known per pair."""
    model = hl.LearnedModel(100_000, 4, n_known=1000)
    for visit in range(100_000):
        model.observe(visit % 100, 0, 0.5, visit % 7, terminated=False)
    assert model.known.sum() == 100
    arrays = {id(array): array for array in model._arrays if isinstance(array, np.ndarray)}
    assert sum(array.nbytes for array in arrays.values()) < 90 * 400_000


def test_memory_use_does_not_grow_with_visits():
    """The model stores the distinct outcomes of a pair, not each of its 30,000 visits."""
    model = hl.LearnedModel(20, 2, n_known=30_000)
    before = model._arrays.outcomes.size
    for visit in range(100_000):
        model.observe(visit % 20, visit % 2, 0.5, visit % 3, terminated=visit % 7 == 0)
    assert model._arrays.outcomes.size == before


def test_arrays_are_read_only():
    model = hl.LearnedModel(2, 1, n_known=1)
    model.observe(0, 0, 1.0, 1, terminated=False)
    for array in (model.counts, model.known, model.R, model.ends):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 0


def test_rows_cannot_be_written_to():
    model = hl.LearnedModel(2, 1, n_known=1)
    model.observe(0, 0, 1.0, 1, terminated=False)
    for array in model.rows:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"s": 2}, "state is 2: expected a whole number from 0 to 1"),
        ({"s": -1}, "state is -1"),
        ({"s": 0.0}, "state is 0.0"),
        ({"s": True}, "state is True"),
        ({"a": 1}, "action is 1: expected a whole number from 0 to 0"),
        ({"s_next": 10**9}, "next state is 1000000000"),
        ({"s_next": np.float64(1)}, "next state is"),
        ({"s_next": np.nan}, "next state is nan"),
        ({"s_next": np.True_}, "next state is"),
        ({"r": "x"}, "the reward of state 0 and action 0 is 'x': expected a finite number"),
        ({"r": np.inf}, "the reward of state 0 and action 0 is inf"),
        ({"terminated": "no"}, "terminated is 'no': expected True or False"),
    ],
)
def test_invalid_visits_are_rejected_and_not_counted(step, message):
    """A successor out of range would make compiled code write beyond its arrays."""
    model = hl.LearnedModel(2, 1, n_known=1)
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        model.observe(**{"s": 0, "a": 0, "r": 0.5, "s_next": 1, "terminated": False, **step})
    assert model.counts.sum() == 0


def test_integers_of_any_type_are_accepted_as_states_and_actions():
    model = hl.LearnedModel(2, 1, n_known=1)
    pair = model.observe(
        np.int32(1), np.uint8(0), np.float32(0.5), np.array(0), terminated=np.False_
    )
    assert pair == 1
    assert model.successors(np.int64(1), 0) == {0: 1.0}


def test_successors_of_a_pair_out_of_range_are_refused():
    model = hl.LearnedModel(2, 1, n_known=1)
    for s, a in ((2, 0), (-1, 0), (0, 1), (0.0, 0)):
        with pytest.raises(hl.errors.InvalidArgument, match="expected a whole number from 0 to"):
            model.successors(s, a)


def test_repr_shows_the_number_of_known_pairs():
    model = hl.LearnedModel(2, 1, n_known=1)
    model.observe(0, 0, 1.0, 1, terminated=False)
    assert repr(model) == "LearnedModel(n_states=2, n_actions=1, n_known=1, 1 of 2 pairs known)"


@pytest.mark.parametrize(
    "bad",
    [
        {"n_known": 0},
        {"n_known": 1.5},
        {"n_known": True},
        {"n_known": 10**30},
        {"n_states": 0},
        {"n_states": 10**30},
        {"n_actions": -1},
        {"n_actions": 2**31},
    ],
)
def test_sizes_that_are_not_positive_whole_numbers_are_rejected(bad):
    options = {"n_states": 2, "n_actions": 2, "n_known": 1, **bad}
    with pytest.raises(hl.errors.InvalidArgument, match=f"{next(iter(bad))} is"):
        hl.LearnedModel(options["n_states"], options["n_actions"], n_known=options["n_known"])


def test_too_many_pairs_are_refused_before_memory_is_allocated():
    with pytest.raises(
        hl.errors.InvalidArgument, match="n_actions is 100000: expected at most 2147483647"
    ):
        hl.LearnedModel(100_000, 100_000, n_known=1)
