"""Run many small jobs on local processes and Dask, and compare the results and their times."""

import time
from pathlib import Path

from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.export import export
from heirloom.runs.run import run
from heirloom.runs.stored_run import StoredRun
from tests.attack.outcome import Outcome, run_command

STATUS_SECONDS, EXPORT_SECONDS = 0.5, 10.0  # of processor time, without the start of Python

SPEC = ExperimentSpec.read(
    {
        "name": "many small jobs",
        "family": {"name": "t-shape"},
        "agents": [{"algorithm": "RMax", "n_known": 1}],
        "tasks": 1,
        "episodes": 1,
        "steps": 5,
        "repetitions": 1,
    }
)


def attack(folder: Path, count: int, seed: int) -> Outcome:
    """Compute `count` jobs on each backend; print rates, files and times."""
    outcome = Outcome()
    spec = SPEC.with_changes(repetitions=count, seed=seed)
    results = {}
    for backend in ("local", "dask"):
        started, used = time.perf_counter(), time.process_time()
        results[backend] = run(spec, folder / backend, backend=backend, jobs=2)
        seconds, processor = time.perf_counter() - started, time.process_time() - used
        files = sum(path.is_file() for path in (folder / backend).rglob("*"))
        status, export_seconds = _times_of_reading(folder / backend, outcome)
        print(
            f"{backend}: {count} jobs, {count / seconds:.0f} jobs/s ({processor:.1f} s of "
            f"processor time in the process that writes), {files} files, status {status:.2f} s, "
            f"export {export_seconds:.2f} s of processor time"
        )
        outcome.attempts += count
        outcome.wrong += not results[backend].identical(results["local"])
        outcome.unnoticed += status > STATUS_SECONDS or export_seconds > EXPORT_SECONDS
        outcome.unnoticed += files != 1
    return outcome


def _times_of_reading(folder: Path, outcome: Outcome) -> tuple[float, float]:
    started = time.process_time()
    outcome.lost += not StoredRun(folder).status().is_complete
    status = time.process_time() - started
    started = time.process_time()
    export(StoredRun(folder), "parquet", folder.with_suffix(".tables"))
    return status, time.process_time() - started


def main(argv):
    """Run the attack and print what happened."""
    return run_command("many", attack, 10_000, argv)
