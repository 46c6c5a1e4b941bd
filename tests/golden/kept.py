"""What the golden run gave when it was last made, and how to compare with it."""

import json
import platform
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from heirloom.runs.versions import COMPUTING, versions
from tests.golden.computed import Arrays

ARRAYS = Path(__file__).parent / "arrays"
MADE_BY = ARRAYS / "made_by.json"
TOLERANCE = 1e-9
"""Of the largest entry of an array: what may differ where other bits are to be expected."""


def surroundings() -> dict[str, str]:
    """Everything that may change the last bits of a result beside our own code."""
    numeric = [name for name in (*COMPUTING, "python") if name != "heirloom-rl"]
    simd = np.show_config(mode="dicts")["SIMD Extensions"]
    return {
        **{name: versions()[name] for name in numeric},
        "machine": platform.machine(),
        "numpy uses": " ".join([*simd["baseline"], *simd["found"]]),
    }


def differing_surroundings() -> list[str]:
    """What differs from where the golden run was made, in words; if nothing does, bits agree."""
    made_by = json.loads(MADE_BY.read_text(encoding="utf-8"))
    return [
        f"{name} is {here}, and was {made_by.get(name)}"
        for name, here in surroundings().items()
        if made_by.get(name) != here
    ]


def how_compared() -> str:
    """How `make test` compares, in a line."""
    differing = differing_surroundings()
    if not differing:
        return "compared to the bit"
    return f"compared within {TOLERANCE:g} of the largest entry, for {'; '.join(differing)}"


@dataclass(frozen=True)
class Moved:
    """An array that is not what it was."""

    name: str
    how: str

    def __str__(self) -> str:
        return f"{self.name}: {self.how}"


def moved(before: Arrays, now: Arrays, *, tolerance: float = 0.0) -> list[Moved]:
    """The arrays that differ, by more than `tolerance` times the largest entry, and how."""
    found = [Moved(name, "is gone") for name in before if name not in now]
    for name, array in now.items():
        if name not in before:
            found.append(Moved(name, f"is new, of shape {array.shape}"))
        elif before[name].shape != array.shape:
            found.append(Moved(name, f"had shape {before[name].shape}, and has {array.shape}"))
        else:
            found += _moved_entries(name, before[name], array, tolerance)
    return found


def _moved_entries(name: str, before: np.ndarray, now: np.ndarray, tolerance: float) -> list[Moved]:
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
        Moved(
            name,
            f"{differ.sum():,} of {now.size:,} entries moved, by up to {largest:.3g}; the first, "
            f"at {index}: {first}",
        )
    ]


def read(name: str) -> Arrays:
    """The arrays of an experiment, as they were when the golden run was made."""
    kept = json.loads((ARRAYS / f"{name}.json").read_text(encoding="utf-8"))
    return {
        key: np.array(one["entries"], dtype=one["dtype"]).reshape(one["shape"])
        for key, one in kept.items()
    }


def write(name: str, arrays: Arrays) -> None:
    """Keep the arrays of an experiment: JSON, where every float64 has the digits it needs."""
    parts = [
        f"{json.dumps(key)}: {{"
        f'"dtype": "{array.dtype}", "shape": {json.dumps(array.shape)}, "entries": {_rows(array)}}}'
        for key, array in arrays.items()
    ]
    ARRAYS.mkdir(exist_ok=True)
    text = "{\n" + ",\n".join(parts) + "\n}\n"
    (ARRAYS / f"{name}.json").write_text(text, encoding="utf-8")


def write_surroundings() -> None:
    """Keep what the arrays were made with."""
    MADE_BY.write_text(json.dumps(surroundings(), indent=2) + "\n", encoding="utf-8")


def _rows(array: np.ndarray) -> str:
    """All entries, one line for each row along the last axis."""
    rows = array.reshape(-1, array.shape[-1]) if array.ndim else array.reshape(1, 1)
    return "[\n" + ",\n".join(json.dumps(row.tolist())[1:-1] for row in rows) + "]"
