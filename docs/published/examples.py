"""The outputs of the examples, and the first repetition of their comparisons, for the tests."""

import contextlib
import io
import os
import runpy
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import xarray as xr

import heirloom
from published.experiments import summarise_first_repetition
from published.results import PROJECT

EXAMPLES = sorted(path.stem for path in (PROJECT / "examples").glob("*.py"))


PICTURES = PROJECT / "docs" / "images" / "examples"


def measure(name: str) -> dict[str, Any]:
    """Run an example; return its output, and the first repetition of each of its comparisons.

    The pictures that it draws are those of the gallery.
    """
    printed, compared = run_example(name, pictures=PICTURES)
    return {
        "printed": printed,
        "first_repetition": [summarise_first_repetition(results) for results in compared],
    }


def run_example(
    name: str, *, pictures: Path | None = None, **overrides: int
) -> tuple[str, list[xr.Dataset]]:
    """Run an example; return its output, and the results of its comparisons.

    Args:
        name: the name of its file, without `.py`.
        pictures: a folder to keep its pictures in; by default they are deleted.
        overrides: the largest values of arguments of `compare`, such as `repetitions` or `tasks`.
    """
    compared: list[xr.Dataset] = []
    compare = heirloom.compare

    def compare_and_record(*args: Any, **options: Any) -> xr.Dataset:
        limited = {key: min(options[key], most) for key, most in overrides.items()}
        compared.append(compare(*args, **{**options, **limited}))
        return compared[-1]

    printed = io.StringIO()
    heirloom.compare = compare_and_record
    try:
        with TemporaryDirectory() as folder, _working_folder(Path(folder)):
            with contextlib.redirect_stdout(printed):
                runpy.run_path(str(PROJECT / "examples" / f"{name}.py"))
            for picture in sorted(Path(folder).glob("*.png")) if pictures else ():
                pictures.mkdir(parents=True, exist_ok=True)
                shutil.copy(picture, pictures)
    finally:
        heirloom.compare = compare
    return printed.getvalue(), compared


@contextlib.contextmanager
def _working_folder(folder: Path) -> Iterator[None]:
    """Change the working directory, to which examples write their figures."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
