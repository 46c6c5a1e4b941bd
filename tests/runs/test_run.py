"""A run gives the same bits however it is run, and however often it is stopped."""

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
def whole(tmp_path_factory):
    """The results of a run that was never stopped."""
    return run(SPEC, tmp_path_factory.mktemp("whole") / "run", jobs=1)


def test_results_are_labelled_and_open_with_xarray(tmp_path, whole):
    run(SPEC, tmp_path / "run", jobs=1)
    with xr.open_zarr(tmp_path / "run", chunks=None) as opened:
        assert dict(opened.sizes) == {"agent": 4, "repetition": 3, "task": 3, "episode": 20}
        assert opened.agent.values.tolist() == ["RMax", "LRMax(0.1)", "LRMax(0.2)", "QLearning"]
        assert opened.attrs["spec"] == SPEC.as_json()
        assert opened.attrs["seed"] == 7
        assert opened.attrs["versions"]["numpy"] == np.__version__
        assert opened.load().identical(whole)
    assert bool(whole.done.all())
    assert (whole.returns >= 0).all()


def test_one_and_two_workers_give_the_same_bits(tmp_path, whole):
    assert run(SPEC, tmp_path / "run", jobs=2).identical(whole)


def test_units_depend_on_the_spec_and_their_numbers_only(whole):
    for job in ((3, 2), (0, 0), (1, 1)):
        results = run_job(SPEC, *job)
        for name, array in results.items():
            stored = whole[name].isel(agent=job[0], repetition=job[1]).values
            assert np.array_equal(array, stored, equal_nan=True)


def test_an_agent_more_changes_no_other(tmp_path, whole):
    more = SPEC.as_json()
    more["agents"].insert(0, {"algorithm": "MaxQInit", "name": "first", "n_known": 1})
    results = run(ExperimentSpec.read(more), tmp_path / "run", jobs=1)
    assert results.returns.sel(agent=whole.agent).equals(whole.returns)


def test_a_run_goes_on_where_it_was(tmp_path, whole, monkeypatch):
    """Interrupted after each unit, one after the other; nothing is computed twice."""
    computed = []

    def interrupted(spec, agent, repetition):
        if len(computed) == len(set(computed)) and len(computed) % 2 == 1 and not allowed:
            raise KeyboardInterrupt
        allowed.clear()
        computed.append((agent, repetition))
        return run_job(spec, agent, repetition)

    allowed = []
    monkeypatch.setattr("heirloom.runs.workers.compute.run_job", interrupted)
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
    assert results.identical(whole)


def test_another_experiment_is_refused(tmp_path):
    run(SPEC, tmp_path / "run", jobs=1)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(hl.InvalidArgument, match=r"holds another experiment \(seed is 8 in"):
        run(SPEC.with_changes(seed=8), tmp_path / "run")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_with_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("all of it")
    with pytest.raises(hl.InvalidFile, match="is not a run of Heirloom's"):
        run(SPEC, tmp_path, jobs=1)
    assert os.listdir(tmp_path) == ["thesis.txt"]


@pytest.mark.parametrize("harm", ["altered", "truncated", "deleted", "not done"])
def test_a_chunk_that_is_harmed_is_computed_anew(tmp_path, whole, harm):
    folder = tmp_path / "run"
    run(SPEC, folder, jobs=1)
    store = RunStore(folder, SPEC)
    if harm == "not done":
        store.group["done"][2, 1] = False
    else:
        chunk = folder / "returns" / "c" / "2" / "1" / "0" / "0"
        data = chunk.read_bytes()
        if harm == "altered":
            store.group["returns"][2, 1, 0, 0] = 0.5
        elif harm == "truncated":
            chunk.write_bytes(data[: len(data) // 2])
        else:
            chunk.unlink()
    assert not RunStore(folder, SPEC).is_done((2, 1))
    assert RunStore(folder, SPEC).is_done((2, 0))
    assert run(SPEC, folder, jobs=1).identical(whole)


def test_a_run_that_died_while_it_was_made(tmp_path, whole):
    """The metadata of all arrays is written last."""
    folder = tmp_path / "run"
    RunStore(folder, SPEC)
    metadata = json.loads((folder / "zarr.json").read_text())
    del metadata["consolidated_metadata"]
    (folder / "zarr.json").write_text(json.dumps(metadata))
    shutil.rmtree(folder / "returns")
    assert run(SPEC, folder, jobs=1).identical(whole)


@pytest.mark.parametrize("array", ["optimal", "optimal_discounted", "agent", "task"])
@pytest.mark.parametrize("harm", ["garbage", "deleted"])
def test_what_belongs_to_no_unit_is_repaired_too(tmp_path, whole, array, harm):
    folder = tmp_path / "run"
    run(SPEC, folder, jobs=1)
    for chunk in (path for path in (folder / array / "c").rglob("*") if path.is_file()):
        if harm == "garbage":
            chunk.write_bytes(b"garbage")
        else:
            chunk.unlink()
    if harm == "garbage":
        with pytest.raises(hl.InvalidFile, match="is damaged"):
            read_results(folder)
    assert run(SPEC, folder, jobs=1).identical(whole)


def test_a_run_that_died_while_it_wrote_its_first_file(tmp_path, whole):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "zarr.0f.partial").write_bytes(b"{")
    assert run(SPEC, folder, jobs=1).identical(whole)
    assert not list(folder.rglob("*.partial"))


def test_files_of_others_are_never_deleted(tmp_path):
    """Not in a folder that is refused, nor in one of a run that died while it was made."""
    other = tmp_path / "download.partial"
    other.write_bytes(b"half of it")
    with pytest.raises(hl.InvalidFile, match="is not a run of Heirloom's"):
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


def test_here_is_a_folder_too(tmp_path, whole, monkeypatch):
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    assert run(SPEC, ".", jobs=1).identical(whole)


def test_a_link_leads_to_the_same_lock(tmp_path):
    from heirloom.runs.run import _lock

    (tmp_path / "link").symlink_to(tmp_path / "run")
    with (
        _lock(Location(tmp_path / "run")),
        pytest.raises(hl.InvalidArgument, match="another run is working in"),
    ):
        run(SPEC, tmp_path / "link", jobs=1)


def test_a_damaged_or_newer_run(tmp_path):
    folder = tmp_path / "run"
    RunStore(folder, SPEC)
    group = zarr.open_group(folder, mode="r+")
    group.attrs["heirloom_run"] = 2
    with pytest.raises(hl.InvalidFile, match="newer Heirloom"):
        StoredRun(folder)
    group.attrs["heirloom_run"] = 1
    group.attrs["spec"] = {"name": "x"}
    with pytest.raises(hl.InvalidFile, match=r"the spec of the run in .* is damaged"):
        run(SPEC, folder, jobs=1)
    (folder / "zarr.json").write_text("{")
    with pytest.raises(hl.InvalidFile, match="is not a run of Heirloom's"):
        read_results(folder)


def test_progress_in_a_log(capsys):
    with progress("title", 10, 4) as advance:
        for i in range(6):
            advance(f"unit {i}")
    error = capsys.readouterr().err
    assert error.startswith("title: 10 of 10 units done, ")
    assert "units/s, 0 s left (last: unit 5)" in error
    assert error.count("\n") == 1


def test_a_run_opens_its_folder_once_and_reads_no_spec(tmp_path, monkeypatch):
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
