"""Damage to any file of a run is noticed and repaired; one lost file requires no computation."""

import json
import shutil

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

import heirloom as hl
from heirloom.cli.app import app
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.batch import Origin
from heirloom.runs.run import repair, run
from heirloom.runs.store import RunStore
from heirloom.runs.stored_run import StoredRun, read_results
from heirloom.runs.workers import compute
from tests.small_run import SPEC, commit, flip


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    folder = tmp_path_factory.mktemp("complete") / "run"
    run(SPEC, folder, jobs=1)
    return folder


@pytest.fixture(scope="module")
def expected(complete):
    return read_results(complete)


@pytest.fixture
def folder(complete, tmp_path):
    """A copy of a complete run, which a test may damage."""
    return shutil.copytree(complete, tmp_path / "run")


@pytest.fixture
def no_computation(monkeypatch):
    def refuse(*_):
        pytest.fail("a job was computed")

    monkeypatch.setattr("heirloom.runs.workers.compute.run_job", refuse)


def truncate(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


DAMAGES = {
    "deleted": lambda file: file.unlink(),
    "truncated": truncate,
    "empty": lambda file: file.write_bytes(b""),
    "garbage": lambda file: file.write_bytes(b"garbage"),
    "longer": lambda file: file.write_bytes(file.read_bytes() + b"\n"),
    "first byte": lambda file: flip(file, 0),
    "middle byte": lambda file: flip(file, 0.5),
    "last byte": lambda file: flip(file, 1),
}


def files_of(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def assert_complete(folder, expected):
    assert StoredRun(folder).status().is_complete
    assert read_results(folder).identical(expected)
    with xr.open_zarr(folder, chunks=None) as opened:
        assert opened.load().identical(expected)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_to_any_one_file_is_noticed_and_repaired_without_computation(
    folder, expected, damage, no_computation
):
    """By `heirloom status --repair` and by `heirloom run` in turn, for every file of the run."""
    files = files_of(folder)
    assert len(files) == 28
    for i, file in enumerate(files):
        if not file.exists():
            continue  # a batch, which was written again under another name
        DAMAGES[damage](file)
        status = StoredRun(folder).status()
        assert len(status.done) == 12, file
        assert status.repairable, file
        assert not status.is_complete
        if i % 2:
            repair(folder)
        else:
            run(SPEC, folder, jobs=1)
        assert StoredRun(folder).status().is_complete, file
    assert_complete(folder, expected)


def test_changed_attribute_is_noticed_and_repaired(folder, expected, no_computation):
    file = folder / "zarr.json"
    file.write_text(file.read_text().replace('"seed": 7', '"seed": 8'))
    assert StoredRun(folder).status().repairable == ["zarr.json"]
    repair(folder)
    assert_complete(folder, expected)


def test_chunk_that_does_not_belong_to_the_run_is_noticed_and_removed(folder, expected):
    shutil.copy(folder / "returns" / "c.0.0.0.0", folder / "returns" / "c.0.1.0.0")
    assert StoredRun(folder).status().repairable == ["returns/c.0.1.0.0"]
    repair(folder)
    assert_complete(folder, expected)


def test_run_is_complete_with_its_batches_alone(folder, expected, no_computation):
    """All other files are derived from them; the command supplies the spec."""
    for path in folder.iterdir():
        if path.name != "batches":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(hl.InvalidFile, match="is not a run of Heirloom"):
        StoredRun(folder)
    with pytest.raises(hl.InvalidArgument, match="contains another experiment"):
        run(SPEC.with_changes(seed=8), folder, jobs=1)
    run(SPEC, folder, jobs=1)
    assert_complete(folder, expected)


def test_run_is_complete_with_its_arrays_and_spec_alone(folder, expected, no_computation):
    """Jobs are restored from the zarr arrays."""
    shutil.rmtree(folder / "batches")
    (folder / "manifest.json").unlink()
    (folder / "zarr.json").unlink()
    run(SPEC, folder, jobs=1)
    assert_complete(folder, expected)


@pytest.mark.parametrize("damage", ["deleted", "middle byte"])
def test_run_survives_the_loss_of_both_copies_of_its_spec(folder, expected, damage, no_computation):
    for name in ("spec.json", "zarr.json"):
        DAMAGES[damage](folder / name)
    ended = CliRunner().invoke(app, ["status", str(folder)])
    assert ended.exit_code == 1
    assert "error: " in ended.stderr
    assert "run the same experiment there again, which restores" in ended.stderr
    with pytest.raises(hl.InvalidArgument, match="contains another experiment"):
        run(SPEC.with_changes(seed=8), folder, jobs=1)
    run(SPEC, folder, jobs=1)
    assert_complete(folder, expected)


def test_altered_spec_in_the_attributes_is_not_mistaken_for_another_experiment(folder, expected):
    (folder / "spec.json").unlink()
    file = folder / "zarr.json"
    file.write_text(file.read_text().replace('"seed": 7', '"seed": 8'))
    with pytest.raises(hl.InvalidFile, match="both copies of the spec"):
        StoredRun(folder)
    run(SPEC, folder, jobs=1)
    assert_complete(folder, expected)


def test_only_jobs_that_are_lost_twice_are_computed_again(tmp_path, expected, monkeypatch):
    folder = tmp_path / "run"
    store = RunStore(folder, SPEC)
    commit(store, set(store.jobs) - {(1, 2), (3, 0)})
    commit(store, [(1, 2), (3, 0)])
    flip(next((folder / "batches").glob("000002-*")), 0.5)
    status = StoredRun(folder).status()
    assert sorted(status.damaged) == [(1, 2), (3, 0)]
    ended = CliRunner().invoke(app, ["status", str(folder)])
    text = " ".join(ended.stdout.split())
    assert ended.exit_code == 1
    assert "10 of 12 jobs are complete and their checksums match; 0 are missing and 2 are" in text
    assert "Damaged: LRMax(0.1), repetition 3." in text
    computed = []
    run_job = compute.run_job
    monkeypatch.setattr(compute, "run_job", lambda *a: computed.append(a[1:]) or run_job(*a))
    assert run(SPEC, folder, jobs=1).returns.identical(expected.returns)
    assert sorted(computed) == [(1, 2), (3, 0)]
    assert_complete(folder, expected)


def test_status_changes_no_file(folder):
    flip(folder / "returns" / "c.0.0.0.0", 0.5)
    (folder / "manifest.json").unlink()
    before = {path: path.read_bytes() for path in files_of(folder)}
    StoredRun(folder).status()
    CliRunner().invoke(app, ["status", str(folder)])
    assert {path: path.read_bytes() for path in files_of(folder)} == before


def test_status_repair_writes_the_arrays_of_a_run_that_was_killed(tmp_path, no_computation):
    """The arrays then contain the jobs that are complete, and NaN elsewhere."""
    folder = tmp_path / "run"
    store = RunStore(folder, SPEC)
    results = {"returns": np.zeros((3, 20)), "discounted_returns": np.zeros((3, 20))}
    results |= {name: np.zeros(3) for name in ("late_update", "optimal", "optimal_discounted")}
    results["updates"] = np.zeros(3, dtype=int)
    for job in ((0, 0), (0, 1)):
        store.add(job, results, Origin(1.0, "here:1", {}))
    assert "zarr arrays" in StoredRun(folder).status().repairable
    ended = CliRunner().invoke(app, ["status", str(folder), "--repair"])
    assert ended.exit_code == 1  # jobs are missing
    status = StoredRun(folder).status()
    assert (len(status.done), status.repairable) == (2, [])
    with xr.open_zarr(folder, chunks=None) as opened:
        assert int(opened.done.sum()) == 2
        assert int(np.isfinite(opened.returns).any(("task", "episode")).sum()) == 2


def test_swapped_batches_of_two_experiments_are_noticed(folder, expected, tmp_path):
    """Batches and checksums are bound to the spec."""
    other = ExperimentSpec.read({**SPEC.as_json(), "seed": 8})
    run(other, tmp_path / "other", jobs=1)
    shutil.rmtree(folder / "batches")
    shutil.copytree(tmp_path / "other" / "batches", folder / "batches")
    for name in ("returns", "checksum", "done"):
        shutil.rmtree(folder / name)
        shutil.copytree(tmp_path / "other" / name, folder / name)
    assert not StoredRun(folder).status().done
    run(SPEC, folder, jobs=1)
    assert_complete(folder, expected)


def test_spec_file_is_json_that_other_programs_read(folder):
    stored = json.loads((folder / "spec.json").read_text())
    assert stored["content"]["spec"] == SPEC.as_json()
