"""All benchmarks in one run: ratios side by side, on the same work, and the same as JSON.

Nothing here passes or fails: a machine is fast or slow, loaded or not, and a ratio says what one
thing costs in terms of another on it. Libraries that are not there leave a row that says why.

    python benchmarks/run.py                           # everything, some ten minutes
    python benchmarks/run.py --only agents,simple_rl   # some parts
    python benchmarks/run.py --markdown                # and the table for docs/performance.md
"""

import argparse
import importlib
import importlib.util
import json
import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import agents
import solve
from rows import Measured, Row, markdown, plain

RESULTS = Path(__file__).resolve().parents[1] / "results" / "bench.json"


def scaling() -> Measured:
    """How cost grows with states and sources, if the program for that is there.

    It offers `measure() -> dict[str, float]`, and `TARGETS`, the same names with the largest ratio
    that is wanted.
    """
    if importlib.util.find_spec("scaling") is None:
        return Measured([Row("cost as states and sources grow", None, note="no scaling.py")])
    program = importlib.import_module("scaling")
    targets: dict[str, float] = getattr(program, "TARGETS", {})
    ratios: dict[str, float] = program.measure()
    return Measured([Row(name, x, at_most=targets.get(name)) for name, x in ratios.items()])


PARTS: dict[str, Callable[[], Measured]] = {
    "agents": agents.measure,
    "simple_rl": agents.measure_simple_rl,
    "scaling": scaling,
    "solve": solve.measure,
}


def parts(text: str) -> list[str]:
    """The parts that are named, in the order they run in."""
    chosen = text.split(",")
    unknown = sorted(set(chosen) - set(PARTS))
    if unknown:
        raise argparse.ArgumentTypeError(f"no part {', '.join(unknown)}: {', '.join(PARTS)}")
    return [part for part in PARTS if part in chosen]


def surroundings() -> dict[str, Any]:
    """What the ratios depend on besides the code."""
    ours = {name: version(name) for name in ("heirloom-rl", "numpy", "numba", "scipy")}
    return {
        "processors": os.cpu_count(),
        "machine": platform.machine(),
        "versions": {"python": platform.python_version(), **ours},
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=parts, default=list(PARTS), metavar="PART,PART")
    parser.add_argument("--markdown", action="store_true", help="print that table too")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the JSON goes")
    arguments = parser.parse_args()
    rows: list[Row] = []
    report: dict[str, Any] = {**surroundings(), "rows": rows, "seconds": {}, "errors": {}}
    for part in arguments.only:
        print(f"{part} ...", flush=True)
        start = time.perf_counter()
        measured = PARTS[part]()
        print(
            plain(measured.rows), f"({time.perf_counter() - start:.0f} s)\n", sep="\n", flush=True
        )
        rows.extend(measured.rows)
        report["seconds"].update(measured.seconds)
        report["errors"].update(measured.errors)
        report["versions"].update(measured.versions)
    print(plain(rows))
    if arguments.markdown:
        print("", markdown(rows), sep="\n")
    report["rows"] = [row.as_json() for row in rows]
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(f"\nwritten: {arguments.output}")


if __name__ == "__main__":
    main()
