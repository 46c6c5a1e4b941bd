"""Run all benchmarks, print their ratios, and write them as JSON.

Seconds depend on the machine and its load, so a benchmark reports ratios between two programs that
do the same work in the same run. Nothing here passes or fails. For a library that is not installed,
the row states the reason.

    python benchmarks/run.py                           # all parts, about ten minutes
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
import certificates
import confidence
import scaling
import solve
import startup
import workers
from rows import Measured, Row, as_text

RESULTS = Path(__file__).resolve().parents[1] / "results" / "bench.json"


PARTS: dict[str, Callable[[], Measured]] = {
    "agents": agents.measure,
    "algorithms": agents.measure_algorithms,
    "simple_rl": agents.measure_simple_rl,
    "scaling": scaling.measure,
    "solve": solve.measure,
    "confidence": confidence.measure,
    "certificates": certificates.measure,
    "workers": workers.measure,
    "start-up": startup.measure,
}


def parts(text: str) -> list[str]:
    """Parse the names of parts; return them in the order in which they run."""
    chosen = text.split(",")
    unknown = sorted(set(chosen) - set(PARTS))
    if unknown:
        raise argparse.ArgumentTypeError(
            f"there is no part {', '.join(unknown)}: expected {', '.join(PARTS)}"
        )
    return [part for part in PARTS if part in chosen]


def environment() -> dict[str, Any]:
    """Return the machine and the versions that the ratios depend on."""
    installed = {name: version(name) for name in ("heirloom-rl", "numpy", "numba", "scipy")}
    return {
        "processors": os.cpu_count(),
        "machine": platform.machine(),
        "versions": {"python": platform.python_version(), **installed},
    }


def main() -> None:
    """Measure the selected parts, print their rows, and write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only",
        type=parts,
        default=list(PARTS),
        metavar="PART,PART",
        help=f"the parts to measure, of {', '.join(PARTS)}; default: all",
    )
    parser.add_argument(
        "--list", action="store_true", help="print the selected parts, and measure nothing"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=RESULTS,
        help="the JSON file to write; default: results/bench.json",
    )
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(arguments.only))
        return
    rows: list[tuple[str, Row]] = []
    report: dict[str, Any] = {**environment(), "seconds": {}, "errors": {}}
    for part in arguments.only:
        print(f"{part} ...", flush=True)
        start = time.perf_counter()
        measured = PARTS[part]()
        print(
            as_text(measured.rows), f"({time.perf_counter() - start:.0f} s)\n", sep="\n", flush=True
        )
        rows.extend((part, row) for row in measured.rows)
        report["seconds"].update(measured.seconds)
        report["errors"].update(measured.errors)
        report["versions"].update(measured.versions)
    print(as_text([row for _, row in rows]))
    report["rows"] = [{"part": part, **row.as_json()} for part, row in rows]
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(f"\nwritten: {arguments.output}")


if __name__ == "__main__":
    main()
