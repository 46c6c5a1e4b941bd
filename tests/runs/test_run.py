"""A run gives identical results in one or several processes, and after interruptions and damage."""

import json
import os
import shutil

import numpy as np
import pytest
import xarray as xr
import zarr

import heirloom as hl
from heirloom.experiments.job import run_job
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.progress import progress
from heirloom.runs.run import run
from heirloom.runs.store import RunStore
from heirloom.runs.stored_run import StoredRun, open_group, read_results
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


@pytest.mark.parametrize("damage", ["altered", "truncated", "deleted", "not done"])
def test_damaged_job_is_computed_again(tmp_path, expected, damage):
    folder = tmp_path / "run"
    run(SPEC, folder, jobs=1)
    store = RunStore(folder, SPEC)
    if damage == "not done":
        store.group["done"][2, 1] = False
    else:
        chunk = folder / "returns" / "c" / "2" / "1" / "0" / "0"
        data = chunk.read_bytes()
        if damage == "altered":
            store.group["returns"][2, 1, 0, 0] = 0.5
        elif damage == "truncated":
            chunk.write_bytes(data[: len(data) // 2])
        else:
            chunk.unlink()
    assert not RunStore(folder, SPEC).is_done((2, 1))
    assert RunStore(folder, SPEC).is_done((2, 0))
    assert run(SPEC, folder, jobs=1).identical(expected)


def test_run_killed_while_its_arrays_were_created_can_be_resumed(tmp_path, expected):
    """Consolidated metadata is written last, so its absence shows that arrays may be missing."""
    folder = tmp_path / "run"
    RunStore(folder, SPEC)
    metadata = json.loads((folder / "zarr.json").read_text())
    del metadata["consolidated_metadata"]
    (folder / "zarr.json").write_text(json.dumps(metadata))
    shutil.rmtree(folder / "returns")
    assert run(SPEC, folder, jobs=1).identical(expected)


@pytest.mark.parametrize("array", ["optimal", "optimal_discounted", "agent", "task"])
@pytest.mark.parametrize("damage", ["garbage", "deleted"])
def test_damaged_array_that_belongs_to_no_job_is_repaired(tmp_path, expected, array, damage):
    folder = tmp_path / "run"
    run(SPEC, folder, jobs=1)
    for chunk in (path for path in (folder / array / "c").rglob("*") if path.is_file()):
        if damage == "garbage":
            chunk.write_bytes(b"garbage")
        else:
            chunk.unlink()
    if damage == "garbage":
        with pytest.raises(hl.InvalidFile, match="is damaged"):
            read_results(folder)
    assert run(SPEC, folder, jobs=1).identical(expected)


def test_run_killed_while_it_wrote_its_first_file_can_be_resumed(tmp_path, expected):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "zarr.0f.partial").write_bytes(b"{")
    assert run(SPEC, folder, jobs=1).identical(expected)
    assert not list(folder.rglob("*.partial"))


def test_files_that_are_not_of_the_run_are_never_deleted(tmp_path):
    """They are kept in a folder that is refused, and in one whose run was only partly created."""
    other = tmp_path / "download.partial"
    other.write_bytes(b"half of it")
    with pytest.raises(hl.InvalidFile, match="is not a run of Heirloom"):
        run(SPEC, tmp_path, jobs=1)
    assert other.read_bytes() == b"half of it"
    folder = tmp_path / "run"
    RunStore(folder, SPEC)
    (folder / "notes").mkdir()
    (folder / "notes" / "today.partial").write_text("mine")
    metadata = json.loads((folder / "zarr.json").read_text())
    del metadata["consolidated_metadata"]
    (folder / "zarr.json").write_text(json.dumps(metadata))
    run(SPEC, folder, jobs=1)
    assert (folder / "notes" / "today.partial").read_text() == "mine"


def test_run_accepts_the_current_folder(tmp_path, expected, monkeypatch):
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    assert run(SPEC, ".", jobs=1).identical(expected)


def test_symbolic_link_leads_to_the_same_lock(tmp_path):
    from heirloom.runs.run import _lock

    (tmp_path / "link").symlink_to(tmp_path / "run")
    with (
        _lock(Location(tmp_path / "run")),
        pytest.raises(hl.InvalidArgument, match="another run is in progress in"),
    ):
        run(SPEC, tmp_path / "link", jobs=1)


def test_damaged_run_and_run_of_a_newer_version_are_refused(tmp_path):
    folder = tmp_path / "run"
    RunStore(folder, SPEC)
    group = zarr.open_group(folder, mode="r+")
    group.attrs["heirloom_run"] = 2
    with pytest.raises(hl.InvalidFile, match="newer version of Heirloom"):
        StoredRun(folder)
    group.attrs["heirloom_run"] = 1
    group.attrs["spec"] = {"name": "x"}
    with pytest.raises(hl.InvalidFile, match=r"the spec of the run in .* is damaged"):
        run(SPEC, folder, jobs=1)
    (folder / "zarr.json").write_text("{")
    with pytest.raises(hl.InvalidFile, match="is not a run of Heirloom"):
        read_results(folder)


def test_progress_in_a_log_shows_rate_and_last_job(capsys):
    with progress("title", 10, 4) as advance:
        for i in range(6):
            advance(f"job {i}")
    error = capsys.readouterr().err
    assert error.startswith("title: 10 of 10 jobs done, ")
    assert "jobs/s, 0 s left (last: job 5)" in error
    assert error.count("\n") == 1


def test_complete_run_is_opened_once_and_computes_nothing(tmp_path, monkeypatch):
    run(FAST, tmp_path / "run", jobs=1)
    opened, computed = [], []
    monkeypatch.setattr(
        "heirloom.runs.store.open_group",
        lambda location, **options: opened.append(location) or open_group(location, **options),
    )
    monkeypatch.setattr(ExperimentSpec, "read", lambda *_: pytest.fail("a spec was read"))
    monkeypatch.setattr("heirloom.runs.run.optimal_returns", lambda *_, **__: computed.append(1))
    run(FAST, tmp_path / "run", jobs=1)
    assert len(opened) == 1
    assert computed == []
