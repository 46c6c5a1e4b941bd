"""Comparison of an experiment with the reference results that Heirloom ships.

The files in `paper/references/` have a checksum and the mean return of each agent in each
repetition; `python -m published.references` writes them. With the same versions and the
same kind of processor, returns are expected to be equal to the bit. Otherwise the last bits of a
value may differ, and with them an action, so mean returns are compared within `TOLERANCE`.
"""

import hashlib
import json
import platform
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from heirloom.choices import Variant
from heirloom.errors import InvalidFile
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.results import runs_in
from heirloom.runs.stored_run import StoredRun
from heirloom.runs.versions import COMPUTING, versions

TOLERANCE = 0.01
"""Accepted difference of the mean return of an agent, relative to the reference, on another kind of
processor or with other versions."""
WITHOUT_EFFECT = ("repetitions", "measure", "record")
"""Settings that do not change the returns of a repetition."""
PREFIX = 16  # hexadecimal digits of a checksum that are kept


def environment() -> dict[str, str]:
    """Return the versions and features of the processor that may change the last bits."""
    numeric = [name for name in (*COMPUTING, "python") if name != "heirloom-rl"]
    simd = np.show_config(mode="dicts").get("SIMD Extensions", {})  # without empty entries
    return {
        **{name: versions()[name] for name in numeric},
        "machine": platform.machine(),
        "numpy uses": " ".join([*simd.get("baseline", ()), *simd.get("found", ())]),
        "rounding of linear algebra": _rounding(),
    }


def _rounding() -> str:
    """Return a checksum of rounded results: OpenBLAS sums in an order that fits the processor."""
    A = 1.0 / (1.0 + np.add.outer(np.arange(48), np.arange(48)) % 31) + 8.0 * np.eye(48)
    results = A @ A, A @ A[0], np.linalg.solve(A, A[:, 0])
    return _checksum(b"".join(x.tobytes() for x in results))


def reference_name(experiment: str, variant: Variant | None) -> str:
    """Return the name of the reference of an experiment."""
    return experiment if variant is None else f"{experiment}-{variant}"


def read_reference(name: str) -> dict[str, Any] | None:
    """Return the reference results of an experiment; None if Heirloom ships none."""
    file = files("heirloom.paper") / "references" / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


def summarise(location: Path) -> dict[str, Any]:
    """Return the content of a reference file: checksums and mean returns of all runs."""
    runs = {}
    for run_location in runs_in(location):
        if run_location == location:
            raise InvalidFile(f"{location} is one run: expected the folder of an experiment")
        run = StoredRun(run_location)
        order = ("agent", "repetition", "task", "episode")
        returns = run.results(["returns"]).returns.transpose(*order)
        runs[run_location.relative_to(location).as_posix()] = {
            "spec": _spec_checksum(run.spec),
            "agents": {
                str(name): {
                    "checksums": [_checksum(x.astype("<f8").tobytes()) for x in of_agent.values],
                    "means": of_agent.mean(("task", "episode")).values.tolist(),
                }
                for name, of_agent in zip(returns.agent.values, returns, strict=True)
            },
        }
    return {"environment": environment(), "runs": runs}


def compare(location: Path, name: str) -> dict[str, Any] | None:
    """Compare the runs in a folder with the reference of an experiment.

    Runs that have fewer repetitions are compared in those that they have. None if there is no
    reference of the same settings.
    """
    reference = read_reference(name)
    if reference is None:
        return None
    rows = []
    for label, found in summarise(location)["runs"].items():
        expected = reference["runs"].get(label)
        if expected is None or expected["spec"] != found["spec"]:
            continue
        for agent, own in found["agents"].items():
            of_agent = expected["agents"][agent]
            n = min(len(own["means"]), len(of_agent["means"]))
            first = ({key: values[:n] for key, values in each.items()} for each in (own, of_agent))
            shown = agent if label == "run" else f"{agent} · {label.removeprefix('run-')}"
            rows.append(_row(shown, *first))
    if not rows:
        return None
    differing = [
        f"{key} is {here} here and {reference['environment'].get(key)} in the reference"
        for key, here in environment().items()
        if reference["environment"].get(key) != here
    ]
    return {"conclusion": _conclusion(rows, differing), "tolerance": TOLERANCE, "rows": rows}


def _row(agent: str, own: dict[str, Any], expected: dict[str, Any]) -> dict[str, str]:
    here, there = (float(np.mean(each["means"])) for each in (own, expected))
    if own["checksums"] == expected["checksums"]:
        verdict = "identical to the bit"
    elif abs(here - there) <= TOLERANCE * abs(there):
        verdict = f"within {TOLERANCE:.0%}"
    else:
        verdict = "differs"
    return {
        "agent": agent,
        "here": f"{here:.6g}",
        "reference": f"{there:.6g}",
        "difference": f"{here - there:+.2g}" if here != there else "0",
        "verdict": verdict,
    }


def _conclusion(rows: list[dict[str, str]], differing: list[str]) -> str:
    """Say in one or two sentences how the results agree with the reference."""
    verdicts = {row["verdict"] for row in rows}
    why = f"Versions or processor differ: {'; '.join(differing)}." if differing else ""
    if verdicts == {"identical to the bit"}:
        return f"All returns are bit-identical to those of the reference. {why}".strip()
    if "differs" not in verdicts:
        agree = f"The mean return of every agent is within {TOLERANCE:.0%} of the reference."
        expected = "Versions and processor are the same, so identical results were expected."
        return f"{agree} {why or expected}"
    worst = [row["agent"] for row in rows if row["verdict"] == "differs"]
    cause = why or "Versions and processor are the same, so the code has probably changed."
    return (
        f"The mean returns of {', '.join(worst)} differ from the reference by more than "
        f"{TOLERANCE:.0%}. {cause}"
    )


def _spec_checksum(spec: ExperimentSpec) -> str:
    """Checksum of all settings that change the results of a repetition."""
    settings = {key: value for key, value in spec.as_json().items() if key not in WITHOUT_EFFECT}
    return _checksum(json.dumps(settings, sort_keys=True).encode())


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:PREFIX]
