"""The stored arrays of the golden run, and their comparison with computed ones."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from heirloom.paper.reference import environment
from tests.golden.computed import Arrays

ARRAYS = Path(__file__).parent / "arrays"
MADE_BY = ARRAYS / "made_by.json"
TOLERANCE = 1e-9
"""Accepted difference, relative to the largest entry of an array, in a different environment."""


def differing_environment() -> list[str]:
    """Describe how this environment differs from that of the stored arrays.

    If it does not, computed arrays are expected to agree to the bit.
    """
    made_by = json.loads(MADE_BY.read_text(encoding="utf-8"))
    return [
        f"{name} is {here}, was {made_by.get(name)}"
        for name, here in environment().items()
        if made_by.get(name) != here
    ]


def comparison_mode() -> str:
    """Describe in one line how strictly `make test` compares."""
    differing = differing_environment()
    if not differing:
        return "compared to the bit"
    return f"compared within {TOLERANCE:g} of the largest entry, because {'; '.join(differing)}"


@dataclass(frozen=True)
class Change:
    """A difference between a stored array and the computed one."""

    name: str
    description: str

    def __str__(self) -> str:
        return f"{self.name}: {self.description}"


def changes(before: Arrays, now: Arrays, *, tolerance: float = 0.0) -> list[Change]:
    """List the arrays that differ by more than `tolerance` times their largest entry."""
    found = [Change(name, "removed") for name in before if name not in now]
    for name, array in now.items():
        if name not in before:
            found.append(Change(name, f"new, of shape {array.shape}"))
        elif before[name].shape != array.shape:
            shapes = f"shape {before[name].shape} became {array.shape}"
            found.append(Change(name, shapes))
        else:
            found += _changed_entries(name, before[name], array, tolerance)
    return found


def _changed_entries(
    name: str, before: np.ndarray, now: np.ndarray, tolerance: float
) -> list[Change]:
    before, now = before.astype(float), now.astype(float)
    scale = np.nanmax(np.abs(before), initial=0.0)
    same = (before == now) | (np.isnan(before) & np.isnan(now))
    with np.errstate(invalid="ignore"):
        near = np.abs(now - before) <= tolerance * scale
    differ = ~(same | near)
    if not differ.any():
        return []
    index = tuple(int(i[0]) for i in np.nonzero(differ))
    largest = np.nanmax(np.abs(now - before)[differ], initial=0.0)
    first = f"{float(before[index])!r} became {float(now[index])!r}"
    return [
        Change(
            name,
            f"{differ.sum():,} of {now.size:,} entries changed, by up to {largest:.3g}; the first, "
            f"at {index}: {first}",
        )
    ]


def read(name: str) -> Arrays:
    """Read the stored arrays of an experiment."""
    content = json.loads((ARRAYS / f"{name}.json").read_text(encoding="utf-8"))
    return {
        key: np.array(array["entries"], dtype=array["dtype"]).reshape(array["shape"])
        for key, array in content.items()
    }


def write(name: str, arrays: Arrays) -> None:
    """Store the arrays of an experiment as JSON, with enough digits to restore every float64."""
    parts = [
        f"{json.dumps(key)}: {{"
        f'"dtype": "{array.dtype}", "shape": {json.dumps(array.shape)}, "entries": {_rows(array)}}}'
        for key, array in arrays.items()
    ]
    ARRAYS.mkdir(exist_ok=True)
    text = "{\n" + ",\n".join(parts) + "\n}\n"
    (ARRAYS / f"{name}.json").write_text(text, encoding="utf-8")


def write_environment() -> None:
    """Store the environment in which the arrays were computed."""
    MADE_BY.write_text(json.dumps(environment(), indent=2) + "\n", encoding="utf-8")


def _rows(array: np.ndarray) -> str:
    """Format all entries, one line per row along the last axis."""
    rows = array.reshape(-1, array.shape[-1]) if array.ndim else array.reshape(1, 1)
    return "[\n" + ",\n".join(json.dumps(row.tolist())[1:-1] for row in rows) + "]"
