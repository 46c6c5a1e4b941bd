"""Measure the numbers of README and docs again, and write the tables: `make numbers`."""

import argparse
import json
import time
from pathlib import Path

from published import (
    checks,
    coverage,
    documents,
    examples,
    experiments,
    images,
    intervals,
    results,
    task_bounds,
)


def main() -> None:
    """Measure and store the selected results, and write all tables."""
    parser = argparse.ArgumentParser(prog="python -m published", description=__doc__)
    parser.add_argument("--tables", action="store_true", help="only write the tables")
    parser.add_argument(
        "--speed", type=Path, metavar="FILE", help="only store the measurements of `make bench`"
    )
    parser.add_argument("--images", action="store_true", help="only draw the images of docs")
    parser.add_argument(
        "--only",
        help="measure one experiment, such as tight-text, one example, such as taxi, all "
        "`examples`, `coverage`, `checks`, `intervals` or `task-bounds`; default: everything",
    )
    parser.add_argument(
        "--runs", type=Path, metavar="FOLDER", help="keep the runs of experiments, to resume them"
    )
    arguments = parser.parse_args()
    if arguments.images:
        for path in images.write():
            print(f"written: {path.relative_to(results.PROJECT)}")
        return
    if arguments.speed:
        measured = json.loads(arguments.speed.read_text(encoding="utf-8"))
        _store("speed", {name: measured[name] for name in ("rows", "errors", "versions")})
    elif not arguments.tables:
        _measure(arguments.only, arguments.runs)
    is_one_example = arguments.only in examples.EXAMPLES
    for path in documents.write(
        outputs=not (arguments.tables or arguments.speed or is_one_example)
    ):
        print(f"written: {path.relative_to(results.PROJECT)}")


def _measure(only: str | None, kept: Path | None) -> None:
    for experiment in experiments.EXPERIMENTS:
        if only in (None, experiment.key):
            measured, seconds = experiments.measure(experiment, kept)
            _store(experiment.key, measured, {"all": seconds})
    selected = [name for name in examples.EXAMPLES if only in (None, "examples", name)]
    if selected:
        stored = {} if only in (None, "examples") else results.load("examples")
        seconds = {} if only in (None, "examples") else results.seconds("examples")
        for name in selected:
            started = time.monotonic()
            stored[name] = examples.measure(name)
            seconds[name] = time.monotonic() - started
        _store(
            "examples",
            {name: stored[name] for name in examples.EXAMPLES if name in stored},
            {name: seconds[name] for name in examples.EXAMPLES if name in seconds},
        )
    if only in (None, "coverage"):
        started = time.monotonic()
        rows = coverage.measure()
        _store("coverage", {"cases": rows}, {"all": time.monotonic() - started})
    if only in (None, "checks"):
        started = time.monotonic()
        _store("checks", checks.measure(), {"all": time.monotonic() - started})
    if only in (None, "intervals"):
        _store("intervals", {"cases": intervals.measure()})
    if only in (None, "task-bounds"):
        started = time.monotonic()
        cases = task_bounds.measure()
        _store("task-bounds", {"cases": cases}, {"all": time.monotonic() - started})


def _store(name: str, measured: dict, seconds: dict[str, float] | None = None) -> None:
    changed = results.store(name, measured, seconds)
    print(f"{name}: {'changed' if changed else 'unchanged'}", flush=True)


if __name__ == "__main__":
    main()
