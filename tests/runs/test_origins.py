"""Each job records the versions, the worker and the time of its computation."""

import numpy as np
from typer.testing import CliRunner

from heirloom.cli.app import app
from heirloom.runs.run import run
from heirloom.runs.store import RunStore
from heirloom.runs.stored_run import StoredRun
from heirloom.runs.versions import versions
from tests.small_run import SPEC, commit


def status_of(folder):
    ended = CliRunner().invoke(app, ["status", str(folder)])
    return ended.exit_code, " ".join(ended.stdout.split())


def test_run_records_seconds_workers_and_versions_of_each_job(tmp_path):
    run(SPEC, tmp_path / "run", jobs=2)
    stored = StoredRun(tmp_path / "run")
    status = stored.status()
    assert status.seconds > 0
    assert 1 <= len(status.workers) <= 2
    assert all(":" in name for name in status.workers)
    assert [each.versions for each in status.by_versions] == [versions()]
    assert "llvmlite" in versions()
    assert "s in all, on" in status_of(tmp_path / "run")[1]


def test_status_says_which_jobs_were_computed_with_other_versions(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    other = {**versions(), "numpy": "1.0"}
    with monkeypatch.context() as patched:
        patched.setattr("heirloom.runs.workers.compute.versions", lambda: other)
        patched.setattr("heirloom.runs.store.versions", lambda: other)
        commit(RunStore(folder, SPEC), [(0, 0), (3, 1)])
    run(SPEC, folder, jobs=1)
    groups = {each.versions["numpy"]: each.jobs for each in StoredRun(folder).status().by_versions}
    assert groups["1.0"] == [(0, 0), (3, 1)]
    assert len(groups[np.__version__]) == 10
    code, text = status_of(folder)
    assert code == 0
    assert (
        f"2 jobs were computed with other versions: numpy {np.__version__} here and 1.0 there "
        "(RMax, repetition 1; QLearning, repetition 2)." in text
    )
    assert "10 jobs were computed with the versions installed here (" in text


def test_results_do_not_depend_on_workers_and_times(tmp_path):
    one, two = (run(SPEC, tmp_path / str(jobs), jobs=jobs) for jobs in (1, 2))
    assert one.identical(two)
