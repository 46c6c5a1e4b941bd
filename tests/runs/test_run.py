"""A run gives identical results in one or several processes, and after interruptions and damage."""

import os

import numpy as np
import pytest
import xarray as xr

import heirloom as hl
from heirloom.experiments.job import run_job
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.batches import Batches
from heirloom.runs.lock import lock
from heirloom.runs.progress import progress
from heirloom.runs.run import run
from heirloom.runs.stored_run import StoredRun
from heirloom.storage import sealed_json
from heirloom.storage.location import Location
from tests.small_run import FAST, SPEC


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The results of a run that was never stopped."""
    return run(SPEC, tmp_path_factory.mktemp("expected") / "run", jobs=1)


def test_results_are_labelled_and_open_with_xarray(tmp_path, expected):
    run(SPEC, tmp_path / "run", jobs=1)
    with xr.open_zarr(tmp_path / "run", chunks=None) as opened:
        assert dict(opened.sizes) == {"agent": 4, "repetition": 3, "task": 3, "episode": 20}
        assert opened.agent.values.tolist() == ["RMax", "LRMax(0.1)", "LRMax(0.2)", "QLearning"]
        assert opened.attrs["spec"] == SPEC.as_json()
        assert opened.attrs["seed"] == 7
        assert opened.attrs["versions"]["numpy"] == np.__version__
        assert opened.load().identical(expected)
    assert bool(expected.done.all())
    assert (expected.returns >= 0).all()


def test_one_and_two_workers_give_identical_results(tmp_path, expected):
    assert run(SPEC, tmp_path / "run", jobs=2).identical(expected)


def test_job_results_depend_only_on_spec_and_indices(expected):
    for job in ((3, 2), (0, 0), (1, 1)):
        results = run_job(SPEC, *job)
        for name, array in results.items():
            stored = expected[name].isel(agent=job[0], repetition=job[1]).values
            assert np.array_equal(array, stored, equal_nan=True)


def test_adding_an_agent_leaves_the_others_unchanged(tmp_path, expected):
    extended = SPEC.as_json()
    extended["agents"].insert(0, {"algorithm": "MaxQInit", "name": "first", "n_known": 1})
    results = run(ExperimentSpec.read(extended), tmp_path / "run", jobs=1)
    assert results.returns.sel(agent=expected.agent).equals(expected.returns)


def test_resumed_run_computes_no_job_twice(tmp_path, expected, monkeypatch):
    """The run is interrupted again and again, and its results are those of a run without stops."""
    computed = []

    def interrupted_run_job(spec, agent, repetition):
        if len(computed) == len(set(computed)) and len(computed) % 2 == 1 and not allowed:
            raise KeyboardInterrupt
        allowed.clear()
        computed.append((agent, repetition))
        return run_job(spec, agent, repetition)

    allowed = []
    monkeypatch.setattr("heirloom.runs.workers.compute.run_job", interrupted_run_job)
    stops = 0
    while True:
        try:
            results = run(SPEC, tmp_path / "run", jobs=1)
            break
        except KeyboardInterrupt:
            stops += 1
            allowed.append(True)
    assert stops >= 5
    assert len(computed) == len(set(computed)) == 12
    assert results.identical(expected)


def test_folder_with_another_experiment_is_refused(tmp_path):
    run(SPEC, tmp_path / "run", jobs=1)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(hl.InvalidArgument, match=r"contains another experiment \(seed is 8 "):
        run(SPEC.with_changes(seed=8), tmp_path / "run")
    assert sorted(tmp_path.rglob("*")) == before


def test_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("all of it")
    with pytest.raises(hl.InvalidFile, match="is not a run of Heirloom"):
        run(SPEC, tmp_path, jobs=1)
    assert os.listdir(tmp_path) == ["thesis.txt"]


def test_run_killed_while_it_was_created_can_be_resumed(tmp_path, expected):
    """Whatever the folder contains of spec, batches and manifest, it is completed."""
    for names in ([], ["batches"], ["batches", "spec.json"], ["batches", "manifest.json"]):
        folder = tmp_path / "-".join(["run", *names])
        folder.mkdir()
        for name in names:
            (folder / name).mkdir() if name == "batches" else (folder / name).write_bytes(b"{")
        (folder / ".spec.json.0123abcd").write_bytes(b"{")
        assert run(SPEC, folder, jobs=1).identical(expected)
        assert not list(folder.rglob(".*"))


def test_files_that_are_not_of_the_run_are_never_changed(tmp_path):
    """They are kept in a folder that is refused, and in the folder of a run."""
    for name in (".spec.json.downloaded", "spec.json", "manifest.json", "zarr.json"):
        folder = tmp_path / name / "folder"
        folder.mkdir(parents=True)
        (folder / name).write_bytes(b"half of it")
        with pytest.raises(hl.InvalidFile, match="is not a run of Heirloom"):
            run(SPEC, folder, jobs=1)
        assert (folder / name).read_bytes() == b"half of it"
        assert os.listdir(folder) == [name]
    folder = tmp_path / "run"
    run(SPEC, folder, jobs=1)
    (folder / "notes").mkdir()
    (folder / "notes" / ".spec.json.01234567").write_text("mine")
    (folder / "batches" / "mine.txt").write_text("mine")
    (folder / "manifest.json").unlink()
    run(SPEC, folder, jobs=1)
    assert (folder / "notes" / ".spec.json.01234567").read_text() == "mine"
    assert (folder / "batches" / "mine.txt").read_text() == "mine"


def test_file_in_place_of_the_folder_is_refused_before_anything_is_computed(tmp_path, monkeypatch):
    (tmp_path / "run").write_text("mine")
    monkeypatch.setattr("heirloom.runs.workers.compute.run_job", lambda *_: pytest.fail("computed"))
    with pytest.raises(hl.CannotWrite, match="is a file: choose a folder"):
        run(SPEC, tmp_path / "run", jobs=1)
    assert (tmp_path / "run").read_text() == "mine"
    assert os.listdir(tmp_path) == ["run"]


def test_stored_spec_with_too_many_jobs_is_refused(tmp_path):
    huge = {**SPEC.as_json(), "repetitions": 2**31 - 1}
    (tmp_path / "spec.json").write_bytes(sealed_json.encode("run", 2, {"spec": huge}))
    with pytest.raises(hl.InvalidFile, match="8,589,934,588 jobs: expected at most 1,000,000"):
        StoredRun(tmp_path)


def test_run_accepts_the_current_folder(tmp_path, expected, monkeypatch):
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    assert run(SPEC, ".", jobs=1).identical(expected)


def test_symbolic_link_leads_to_the_samelock(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "run")
    with (
        lock(Location(tmp_path / "run")),
        pytest.raises(hl.InvalidArgument, match="another run is in progress in"),
    ):
        run(SPEC, tmp_path / "link", jobs=1)


def test_run_of_a_newer_version_is_refused(tmp_path):
    folder = tmp_path / "run"
    run(SPEC, folder, jobs=1)
    newer = sealed_json.encode("run", 3, {"spec": {}})
    (folder / "spec.json").write_bytes(newer)
    for attempt in (lambda: StoredRun(folder), lambda: run(SPEC, folder, jobs=1)):
        with pytest.raises(hl.InvalidFile, match="newer version of Heirloom"):
            attempt()
    (folder / "spec.json").unlink()
    metadata = (folder / "zarr.json").read_text()
    (folder / "zarr.json").write_text(metadata.replace('"heirloom_run": 2', '"heirloom_run": 3'))
    with pytest.raises(hl.InvalidFile, match="newer version of Heirloom"):
        StoredRun(folder)


def test_progress_in_a_log_shows_rate_and_last_job(capsys):
    with progress("title", 10, 4) as advance:
        for i in range(6):
            advance(f"job {i}")
    error = capsys.readouterr().err
    assert error.startswith("title: 10 of 10 jobs done, ")
    assert "jobs/s, 0 s left (last: job 5)" in error
    assert error.count("\n") == 1


def test_complete_run_is_read_once_and_neither_computed_nor_written(tmp_path, monkeypatch):
    run(FAST, tmp_path / "run", jobs=1)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    read = []
    read_batch = Batches._read
    monkeypatch.setattr(Batches, "_read", lambda self, n: read.append(n) or read_batch(self, n))
    monkeypatch.setattr(ExperimentSpec, "read", lambda *_: pytest.fail("a spec was read"))
    monkeypatch.setattr("heirloom.runs.workers.compute.run_job", lambda *_: pytest.fail("computed"))
    run(FAST, tmp_path / "run", jobs=1)
    assert len(read) == 1
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before
