"""Results that nobody meant to change are the same to the bit."""

import numpy as np
import pytest

from tests.golden import kept
from tests.golden.computed import NAMES, compute


@pytest.mark.parametrize("name", NAMES)
def test_the_golden_run_gives_what_it_gave(name):
    tolerance = kept.TOLERANCE if kept.differing_surroundings() else 0.0
    moved = kept.moved(kept.read(name), compute(name), tolerance=tolerance)
    told = "\n".join(map(str, moved))
    assert not moved, (
        f"{name} moved ({kept.how_compared()}):\n{told}\n"
        "If that was meant, `make golden` keeps the new arrays; say so in CHANGELOG.md."
    )


def test_arrays_are_kept_to_the_bit(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "ARRAYS", tmp_path)
    arrays = {
        "floats": np.array([[0.1, np.nan, -0.0], [1e-300, np.inf, 1 / 3]]),
        "numbers": np.arange(6).reshape(1, 2, 3),
        "flags": np.array([True, False]),
    }
    kept.write("some", arrays)
    again = kept.read("some")
    assert {name: a.tobytes() for name, a in again.items()} == {
        name: a.tobytes() for name, a in arrays.items()
    }
    assert kept.moved(arrays, again) == []


def test_what_moved_is_named_with_its_place_and_size():
    before = {"Q": np.array([[1.0, 2.0], [3.0, np.nan]]), "U": np.zeros(2), "V": np.zeros(2)}
    now = {"Q": np.array([[1.0, 2.0], [3.5, 1.0]]), "U": np.zeros(3), "W": np.zeros(1)}
    told = [str(one) for one in kept.moved(before, now)]
    assert told == [
        "V: is gone",
        "Q: 2 of 4 entries moved, by up to 0.5; the first, at (1, 0): 3.0 became 3.5",
        "U: had shape (2,), and has (3,)",
        "W: is new, of shape (1,)",
    ]


@pytest.mark.parametrize(("change", "moves"), [(0.0, False), (1e-10, False), (1e-8, True)])
def test_a_tolerance_is_a_part_of_the_largest_entry(change, moves):
    before = {"Q": np.array([0.0, 10.0])}
    now = {"Q": np.array([change * 10, 10.0])}
    assert bool(kept.moved(before, now, tolerance=kept.TOLERANCE)) is moves
    assert bool(kept.moved(before, now)) is (change > 0)
