"""The golden run is unchanged, to the bit."""

import numpy as np
import pytest

from tests.golden import stored
from tests.golden.computed import NAMES, compute


@pytest.mark.parametrize("name", NAMES)
def test_computed_arrays_equal_the_stored_ones(name):
    tolerance = stored.TOLERANCE if stored.differing_environment() else 0.0
    changes = stored.changes(stored.read(name), compute(name), tolerance=tolerance)
    listed = "\n".join(map(str, changes))
    assert not changes, (
        f"{name} changed ({stored.comparison_mode()}):\n{listed}\n"
        "If this is intended, run `make golden` to store the new arrays, and describe the change "
        "in CHANGELOG.md."
    )


def test_arrays_are_written_and_read_without_loss(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "ARRAYS", tmp_path)
    arrays = {
        "floats": np.array([[0.1, np.nan, -0.0], [1e-300, np.inf, 1 / 3]]),
        "numbers": np.arange(6).reshape(1, 2, 3),
        "flags": np.array([True, False]),
    }
    stored.write("some", arrays)
    read_back = stored.read("some")
    assert {name: a.tobytes() for name, a in read_back.items()} == {
        name: a.tobytes() for name, a in arrays.items()
    }
    assert stored.changes(arrays, read_back) == []


def test_changes_name_the_arrays_and_the_first_and_largest_differences():
    before = {"Q": np.array([[1.0, 2.0], [3.0, np.nan]]), "U": np.zeros(2), "V": np.zeros(2)}
    now = {"Q": np.array([[1.0, 2.0], [3.5, 1.0]]), "U": np.zeros(3), "W": np.zeros(1)}
    assert [str(change) for change in stored.changes(before, now)] == [
        "V: removed",
        "Q: 2 of 4 entries changed, by up to 0.5; the first, at (1, 0): 3.0 became 3.5",
        "U: shape (2,) became (3,)",
        "W: new, of shape (1,)",
    ]


@pytest.mark.parametrize(("relative", "reported"), [(0.0, False), (1e-10, False), (1e-8, True)])
def test_tolerance_is_relative_to_the_largest_entry(relative, reported):
    before = {"Q": np.array([0.0, 10.0])}
    now = {"Q": np.array([relative * 10, 10.0])}
    assert bool(stored.changes(before, now, tolerance=stored.TOLERANCE)) is reported
    assert bool(stored.changes(before, now)) is (relative > 0)
