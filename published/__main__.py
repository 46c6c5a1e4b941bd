"""Measure the numbers of README and docs anew, and write the tables: `make numbers`."""

import argparse
import json
import time
from pathlib import Path

from published import documents, examples, experiments, results


def main() -> None:
    """Measure what is asked for, keep it, and write all tables."""
    parser = argparse.ArgumentParser(prog="python -m published", description=__doc__)
    parser.add_argument("--tables", action="store_true", help="measure nothing, write the tables")
    parser.add_argument("--speed", type=Path, metavar="FILE", help="keep what `make bench` wrote")
    parser.add_argument("--only", help="measure one experiment, as in tight-text, or `examples`")
    arguments = parser.parse_args()
    if arguments.speed:
        measured = json.loads(arguments.speed.read_text(encoding="utf-8"))
        _keep("speed", {name: measured[name] for name in ("rows", "errors", "versions")})
    elif not arguments.tables:
        _measure(arguments.only)
    for path in documents.write(outputs=not (arguments.tables or arguments.speed)):
        print(f"written: {path.relative_to(results.PROJECT)}")


def _measure(only: str | None) -> None:
    for experiment in experiments.EXPERIMENTS:
        if only in (None, experiment.key):
            measured, taken = experiments.measure(experiment)
            _keep(experiment.key, measured, {"all": taken})
    if only in (None, "examples"):
        taken, measured = {}, {}
        for name in examples.EXAMPLES:
            started = time.monotonic()
            measured[name] = examples.measure(name)
            taken[name] = time.monotonic() - started
        _keep("examples", measured, taken)


def _keep(name: str, measured: dict, seconds: dict[str, float] | None = None) -> None:
    moved = results.keep(name, measured, seconds)
    print(f"{name}: {'moved' if moved else 'as before'}", flush=True)


if __name__ == "__main__":
    main()
