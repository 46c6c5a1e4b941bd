"""What the examples print, and the first tasks of each, to be checked."""

import contextlib
import io
import os
import runpy
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import xarray as xr

import heirloom
from published.experiments import of_first_repetition
from published.results import PROJECT

EXAMPLES = sorted(path.stem for path in (PROJECT / "examples").glob("*.py"))


def measure(name: str) -> dict[str, Any]:
    """What an example prints, and each comparison's first repetition."""
    printed, compared = run_example(name)
    return {
        "printed": printed,
        "first_repetition": [of_first_repetition(one) for one in compared],
    }


def run_example(name: str, **fewer: int) -> tuple[str, list[xr.Dataset]]:
    """Run an example; returns what it prints, and the results of its comparisons.

    Args:
        name: of its file.
        fewer: arguments of `compare` to be replaced, `repetitions` or `tasks`.
    """
    compared: list[xr.Dataset] = []
    compare = heirloom.compare

    def recorded(*args: Any, **options: Any) -> xr.Dataset:
        compared.append(compare(*args, **{**options, **fewer}))
        return compared[-1]

    printed = io.StringIO()
    heirloom.compare = recorded
    try:
        with TemporaryDirectory() as folder, _within(Path(folder)):
            with contextlib.redirect_stdout(printed):
                runpy.run_path(str(PROJECT / "examples" / f"{name}.py"))
    finally:
        heirloom.compare = compare
    return printed.getvalue(), compared


@contextlib.contextmanager
def _within(folder: Path) -> Iterator[None]:
    """Work in a folder, to which an example writes its figures."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
