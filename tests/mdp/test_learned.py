"""`LearnedModel`: counting, becoming known, freezing; and how many visits that takes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import heirloom as hl


@given(
    st.integers(1, 5),
    st.lists(
        st.tuples(
            st.integers(0, 3), st.integers(0, 1), st.floats(0, 1), st.integers(0, 3), st.booleans()
        ),
        max_size=300,
    ),
)
def test_it_is_the_empirical_model_of_the_first_visits(n_known, steps):
    """Against lists of what was seen, of which the first n_known count."""
    model = hl.LearnedModel(4, 2, n_known=n_known)
    seen = {}
    for s, a, r, s_next, terminated in steps:
        visits = seen.setdefault((s, a), [])
        visits.append((r, None if terminated else s_next))
        became_known = model.observe(s, a, r, s_next, terminated=terminated)
        assert became_known == (s * 2 + a if len(visits) == n_known else None)
    for (s, a), visits in seen.items():
        counted = visits[:n_known]
        assert model.counts[s, a] == len(counted)
        assert model.known[s, a] == (len(visits) >= n_known)
        if not model.known[s, a]:
            continue
        rewards, outcomes = zip(*counted, strict=True)
        total = 0.0
        for r in rewards:
            total += r
        assert model.R[s, a] == total / n_known
        assert model.ends[s, a] == outcomes.count(None) / n_known
        expected = {o: outcomes.count(o) / n_known for o in sorted(set(outcomes) - {None})}
        assert model.successors(s, a) == expected
    assert model.known.sum() == sum(len(visits) >= n_known for visits in seen.values())


def test_memory_follows_what_is_known():
    """100,000 states of which a hundred were seen: nothing of size S·A·S, nor n_known a pair."""
    model = hl.LearnedModel(100_000, 4, n_known=1000)
    for visit in range(100_000):
        model.observe(visit % 100, 0, 0.5, visit % 7, terminated=False)
    assert model.known.sum() == 100
    arrays = [array for array in model.arrays if isinstance(array, np.ndarray)]
    assert sum(array.nbytes for array in arrays) < 70 * 400_000


def test_memory_does_not_grow_with_visits():
    """A pair is known after 30,000 visits: what is kept is its outcomes, not its visits."""
    model = hl.LearnedModel(20, 2, n_known=30_000)
    before = model.arrays.outcomes.size
    for visit in range(100_000):
        model.observe(visit % 20, visit % 2, 0.5, visit % 3, terminated=visit % 7 == 0)
    assert model.arrays.outcomes.size == before


def test_arrays_are_read_only_and_repr_tells():
    model = hl.LearnedModel(2, 1, n_known=1)
    model.observe(0, 0, 1.0, 1, terminated=False)
    for array in (model.counts, model.known, model.R, model.ends):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 0
    assert repr(model) == "LearnedModel(n_states=2, n_actions=1, n_known=1, 1 of 2 pairs known)"


@pytest.mark.parametrize(
    "bad", [{"n_known": 0}, {"n_known": 1.5}, {"n_states": 0}, {"n_actions": -1}]
)
def test_sizes_are_whole_numbers(bad):
    options = {"n_states": 2, "n_actions": 2, "n_known": 1, **bad}
    with pytest.raises(hl.InvalidArgument, match=f"{next(iter(bad))} is"):
        hl.LearnedModel(options["n_states"], options["n_actions"], n_known=options["n_known"])


class TestNKnown:
    def test_by_hand(self):
        """Four outcomes: ln(2^4 - 2) = ln 14."""
        delta = 0.1 / (2 * 1 * 3 * 2)
        rewards = math.log(2 / delta) / (2 * 0.05**2)
        transitions = 2 * (math.log(14) - math.log(delta)) / 0.05**2
        expected = math.ceil(max(rewards, transitions))
        assert hl.n_known_for(3, 2, epsilon=0.05, delta=0.1) == expected
        model = hl.LearnedModel.with_accuracy(3, 2, epsilon=0.05, delta=0.1)
        assert model.n_known == expected

    def test_one_outcome_leaves_rewards_only(self):
        delta = 0.1 / 2
        alone = hl.n_known_for(1, 1, epsilon=0.1, delta=0.1, terminating=False)
        assert alone == math.ceil(math.log(2 / delta) / (2 * 0.1**2))

    def test_a_wide_range_of_rewards_decides(self):
        few = hl.n_known_for(2, 1, epsilon=0.1, delta=0.1, reward_range=(0, 1))
        many = hl.n_known_for(2, 1, epsilon=0.1, delta=0.1, reward_range=(-50, 50))
        assert many > 100 * few

    @pytest.mark.parametrize("n_states", [10**3, 10**5, 10**7])
    def test_many_states_do_not_overflow(self, n_states):
        n_known = hl.n_known_for(n_states, 4, epsilon=0.1, delta=0.05)
        assert n_known == pytest.approx(2 * n_states * math.log(2) / 0.01, rel=0.05)

    def test_sources_share_the_confidence(self):
        alone, shared = (hl.n_known_for(9, 2, epsilon=0.1, delta=0.1, n_sources=n) for n in (0, 9))
        assert alone < shared

    @pytest.mark.parametrize(
        "bad",
        [
            {"epsilon": 0},
            {"epsilon": -1},
            {"epsilon": 1e-170},
            {"delta": 0},
            {"delta": 1.5},
            {"n_sources": -1},
        ],
    )
    def test_bad_arguments(self, bad):
        with pytest.raises(hl.InvalidArgument, match=f"{next(iter(bad))} is"):
            hl.n_known_for(2, 2, **{"epsilon": 0.1, "delta": 0.1, **bad})

    @pytest.mark.slow
    def test_the_models_are_as_accurate_as_promised(self):
        """ε-accurate at every pair, in a fraction 1 - δ of runs."""
        rng = np.random.default_rng(20)
        epsilon, delta, failures = 0.4, 0.2, 0
        n_known = hl.n_known_for(2, 2, epsilon=epsilon, delta=delta)
        for _ in range(300):
            m = hl.garnet(2, 2, branching=2, gamma=0.9, seed=rng, terminating=0.2)
            p = np.concatenate([m.T.toarray(), m.ends.reshape(-1, 1)], axis=1)
            p[:, :2] = 0
            for k, row in enumerate(p):
                on = m.transitions.continuing
                row[on.successors[on.indptr[k] : on.indptr[k + 1]]] = on.p[
                    on.indptr[k] : on.indptr[k + 1]
                ]
            drawn = np.array([rng.multinomial(n_known, row / row.sum()) / n_known for row in p])
            failures += bool((np.abs(drawn - p).sum(axis=1) > epsilon).any())
        assert failures <= delta * 300
