"""Rows of learned models and sources: every visited pair, with the number of its visits."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

import heirloom as hl
from heirloom.mdp.rows import Rows, check_rows, collected, compact


def drawn_steps(rng, n_states, n_actions, n_steps):
    """Draw steps (s, a, r, s_next, terminated), most of them at a few pairs."""
    s = rng.integers(n_states, size=n_steps) * (rng.random(n_steps) < 0.5)
    return zip(
        s.tolist(),
        rng.integers(n_actions, size=n_steps).tolist(),
        rng.normal(size=n_steps).tolist(),
        rng.integers(n_states, size=n_steps).tolist(),
        (rng.random(n_steps) < 0.2).tolist(),
        strict=True,
    )


def observed(model, steps):
    """Let a model observe steps; return the visits of each pair that it counts."""
    counted = {}
    for s, a, r, s_next, terminated in steps:
        visits = counted.setdefault(s * model.n_actions + a, [])
        if len(visits) < model.n_known:
            visits.append((r, -1 if terminated else s_next))
        model.observe(s, a, r, s_next, terminated=terminated)
    return counted


def row_of(rows, k):
    """Return the frequencies of the outcomes of a pair, with -1 for termination."""
    row = slice(rows.first[k], rows.last[k])
    found = dict(zip(rows.successors[row].tolist(), rows.p[row].tolist(), strict=True))
    return found | ({-1: rows.ends[k]} if rows.ends[k] else {})


@pytest.mark.parametrize("seed", range(20))
def test_visited_rows_have_the_frequencies_of_all_visits_of_all_pairs(seed):
    rng = np.random.default_rng(seed)
    model = hl.LearnedModel(5, 3, n_known=int(rng.integers(1, 9)))
    counted = observed(model, drawn_steps(rng, 5, 3, 60))
    rows = model.visited_rows
    check_rows("rows", rows, 5)
    assert np.array_equal(rows.known, model.known.ravel())
    n_unknown = 0
    for k in range(15):
        visits = counted.get(k, [])
        n = len(visits)
        assert rows.counts[k] == n
        times = Counter(outcome for _, outcome in visits)
        assert row_of(rows, k) == {outcome: m / n for outcome, m in times.items()}
        mean = sum(Fraction(r) for r, _ in visits) / max(n, 1)
        assert abs(Fraction(float(rows.R[k])) - mean) <= Fraction(2) ** -52 * abs(mean)
        n_unknown += n > 0 and not rows.known[k]
    assert n_unknown > 0 or model.n_known == 1


@pytest.mark.parametrize("seed", range(5))
def test_visited_rows_equal_the_rows_of_known_pairs_to_the_bit(seed):
    rng = np.random.default_rng(seed)
    model = hl.LearnedModel(5, 3, n_known=4)
    observed(model, drawn_steps(rng, 5, 3, 80))
    known, visited = compact(model.rows), model.visited_rows
    assert known.known.any()
    for k in np.flatnonzero(known.known):
        assert row_of(known, k) == row_of(visited, k)
        assert (known.R[k], known.counts[k]) == (visited.R[k], visited.counts[k])
    assert not known.counts[~known.known].any()


def test_source_keeps_visited_pairs_that_are_not_known():
    model = hl.LearnedModel(3, 1, n_known=2)
    model.observe(0, 0, 0.5, 1, terminated=False)
    model.observe(1, 0, 0.25, 2, terminated=False)
    model.observe(1, 0, 0.75, 0, terminated=True)
    source = hl.bounds.Source.of(model, np.full(3, 5.0))
    assert source.rows.counts.tolist() == [1, 2, 0]
    assert source.known.tolist() == [False, True, False]
    assert source.rows.R.tolist() == [0.5, 0.5, 0.0]
    assert [row_of(source.rows, k) for k in range(3)] == [{1: 1.0}, {2: 0.5, -1: 0.5}, {}]
    assert source.known_pairs == "1 of 3 pairs known"


def test_rows_survive_a_conversion_to_outcomes():
    rng = np.random.default_rng(3)
    model = hl.LearnedModel(6, 2, n_known=3)
    observed(model, drawn_steps(rng, 6, 2, 50))
    rows = model.visited_rows
    again = collected(rows.known, rows.counts, rows.R, rows.outcomes(6), 6)
    for one, other in zip(rows, again, strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)


def test_unknown_rows_do_not_make_a_source_wider():
    """The number of successors of unknown pairs would change what is computed from known ones."""
    model = hl.LearnedModel(4, 1, n_known=3)
    for s_next in (0, 1):
        model.observe(0, 0, 0.0, s_next, terminated=False)
    for _ in range(3):
        model.observe(1, 0, 0.0, 2, terminated=False)
    assert hl.bounds.Source.of(model, np.full(4, 5.0)).widest == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"counts": np.array([-1, 3])}, "an entry of counts is not from 0 to"),
        ({"counts": np.array([2**50, 3])}, "an entry of counts is not from 0 to"),
        ({"counts": np.array([3, 3])}, "a frequency is not a number of visits"),
        ({"counts": np.array([2, 0])}, "a row has a wrong length"),
        ({"counts": np.array([2.0, 3.0])}, "counts is .* expected an array of int64"),
        ({"R": np.array([1e301, 0.0])}, "R has an entry that is too large"),
    ],
)
def test_source_with_impossible_counts_is_refused(change, message):
    rows = Rows(
        known=np.array([True, False]),
        counts=np.array([2, 3]),
        R=np.zeros(2),
        ends=np.array([0.5, 0.0]),
        first=np.array([0, 1]),
        last=np.array([1, 3]),
        successors=np.array([1, 0, 1], dtype=np.int32),
        p=np.array([0.5, 1 / 3, 2 / 3]),
    )
    hl.bounds.Source(rows, np.full(2, 1.0), np.full(2, 1.0))
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        hl.bounds.Source(rows._replace(**change), np.full(2, 1.0), np.full(2, 1.0))


def test_row_that_was_given_has_no_visits_and_any_probabilities():
    given = Rows(
        known=np.array([True]),
        counts=np.array([0]),
        R=np.zeros(1),
        ends=np.array([1 - np.pi / 4]),
        first=np.array([0]),
        last=np.array([1]),
        successors=np.array([0], dtype=np.int32),
        p=np.array([np.pi / 4]),
    )
    assert hl.bounds.Source(given, np.ones(1), np.ones(1)).rows.exist.all()
