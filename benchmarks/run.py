"""All benchmarks in one run: ratios side by side, on the same work, and the same as JSON.

Nothing here passes or fails: a machine is fast or slow, loaded or not, and a ratio says what one
thing costs in terms of another on it. Libraries that are not there leave a row that says why.

    python benchmarks/run.py                           # everything, some ten minutes
    python benchmarks/run.py --only agents,simple_rl   # some parts
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import agents
import scaling
import solve
import startup
import workers
from rows import Measured, Row, plain

RESULTS = Path(__file__).resolve().parents[1] / "results" / "bench.json"


PARTS: dict[str, Callable[[], Measured]] = {
    "agents": agents.measure,
    "simple_rl": agents.measure_simple_rl,
    "scaling": scaling.measure,
    "solve": solve.measure,
    "workers": workers.measure,
    "start-up": startup.measure,
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
    parser.add_argument("--list", action="store_true", help="print the parts, and measure nothing")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the JSON goes")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(arguments.only))
        return
    rows: list[tuple[str, Row]] = []
    report: dict[str, Any] = {**surroundings(), "seconds": {}, "errors": {}}
    for part in arguments.only:
        print(f"{part} ...", flush=True)
        start = time.perf_counter()
        measured = PARTS[part]()
        print(
            plain(measured.rows), f"({time.perf_counter() - start:.0f} s)\n", sep="\n", flush=True
        )
        rows.extend((part, row) for row in measured.rows)
        report["seconds"].update(measured.seconds)
        report["errors"].update(measured.errors)
        report["versions"].update(measured.versions)
    print(plain([row for _, row in rows]))
    report["rows"] = [{"part": part, **row.as_json()} for part, row in rows]
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(f"\nwritten: {arguments.output}")


if __name__ == "__main__":
    main()
