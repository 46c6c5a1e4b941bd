"""A job that counts as done is on the disk: it survives a power failure at any moment."""

import os
import random

import pytest

from heirloom.runs import store as stores
from heirloom.runs.run import run
from heirloom.runs.store import RunStore
from heirloom.runs.stored_run import StoredRun, read_results
from heirloom.runs.workers import compute
from tests.lossy_disk import LossyDisk, PowerFailure
from tests.small_run import FAST

SPEC = FAST.with_changes(repetitions=2)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return run(SPEC, tmp_path_factory.mktemp("expected") / "run", jobs=1)


@pytest.fixture
def fast_jobs(monkeypatch):
    """Compute each job once for all tests of this file."""
    cache = {}
    run_job = compute.run_job

    def cached(spec, *job):
        if job not in cache:
            cache[job] = run_job(spec, *job)
        return dict(cache[job])

    monkeypatch.setattr(compute, "run_job", cached)


@pytest.mark.parametrize("chance", [0.0, 0.3, 0.7])
def test_complete_jobs_survive_a_power_failure_at_every_sync(
    tmp_path, monkeypatch, expected, chance, fast_jobs
):
    """Three small batches are merged, so that batches are deleted too."""
    monkeypatch.setattr(stores, "INTERVAL", 0.0)
    monkeypatch.setattr(stores, "MANY_BATCHES", 3)
    rng = random.Random(int(10 * chance))
    n, survived = 0, []
    while True:
        disk_folder, copy = tmp_path / f"disk{n}", tmp_path / f"copy{n}"
        disk_folder.mkdir()
        disk = LossyDisk(disk_folder, fails_at=n)
        done = []
        add = RunStore.add

        def recorded(self, *arguments, add=add, done=done):
            committed = add(self, *arguments)
            done.extend(committed)
            return committed

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", disk.sync)
            patched.setattr(RunStore, "add", recorded)
            patched.setattr(RunStore, "stop", lambda self: None)  # nothing can be written now
            try:
                run(SPEC, disk_folder / "run", jobs=1)
                failed = False
            except PowerFailure:
                failed = True
        disk.after_failure(copy, rng, chance if failed else 0.0)
        if done:
            assert set(done) <= set(StoredRun(copy / "run").status().done), n
        survived.append(len(done))
        assert run(SPEC, copy / "run", jobs=1).identical(expected)
        assert StoredRun(copy / "run").status().is_complete
        if not failed:
            break
        n += 1 + 3 * (chance > 0)
    assert disk.calls > 25
    assert survived[0] == 0
    assert survived[-1] == 6
    assert read_results(disk_folder / "run").identical(expected)
