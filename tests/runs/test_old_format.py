"""Runs of format 1, which stored one zarr chunk per job, are read, and converted when resumed."""

import shutil
import zipfile
from pathlib import Path

import pytest
import xarray as xr
from typer.testing import CliRunner

from heirloom.cli.app import app
from heirloom.runs.export import export
from heirloom.runs.finding import runs_in
from heirloom.runs.run import run
from heirloom.runs.stored_run import StoredRun, read_results
from tests.small_run import SPEC


@pytest.fixture
def folder(tmp_path):
    """A complete run of `SPEC` of format 1."""
    with zipfile.ZipFile(Path(__file__).parent / "format_1.zip") as archive:
        archive.extractall(tmp_path)
    return tmp_path / "run"


@pytest.fixture
def no_computation(monkeypatch):
    def refuse(*_):
        pytest.fail("a job was computed")

    monkeypatch.setattr("heirloom.runs.workers.compute.run_job", refuse)


def same_results(one, other):
    names = ["returns", "discounted_returns", "updates", "late_update", "optimal", "done"]
    return one[names].equals(other[names])


def test_old_run_is_read(folder, tmp_path):
    status = StoredRun(folder).status()
    assert status.is_complete
    assert CliRunner().invoke(app, ["status", str(folder)]).exit_code == 0
    with xr.open_zarr(folder, chunks=None) as opened:
        assert same_results(read_results(folder), opened.load())
    assert export(StoredRun(folder), "csv", tmp_path / "out").left_out == 0
    assert [str(location) for location in runs_in(tmp_path)] == [str(folder)]


def test_damaged_jobs_of_an_old_run_are_noticed(folder):
    (folder / "returns" / "c" / "1" / "2" / "0" / "0").write_bytes(b"garbage")
    shutil.rmtree(folder / "done" / "c" / "3")
    status = StoredRun(folder).status()
    assert sorted(status.missing) == [(1, 2), (3, 0), (3, 1), (3, 2)]


def test_old_run_is_converted_when_it_is_run_again(folder, no_computation):
    with xr.open_zarr(folder, chunks=None) as opened:
        before = opened.load()
    after = run(SPEC, folder, jobs=1)
    assert same_results(after, before)
    assert not (folder / "returns" / "c").exists()
    status = StoredRun(folder).status()
    assert status.is_complete
    with xr.open_zarr(folder, chunks=None) as opened:
        assert opened.load().identical(after)


def test_status_repair_converts_an_old_run(folder, no_computation):
    (folder / "returns" / "c" / "1" / "2" / "0" / "0").unlink()
    assert CliRunner().invoke(app, ["status", "--repair", str(folder)]).exit_code == 1
    status = StoredRun(folder).status()
    assert status.missing == [(1, 2)]
    assert not status.repairable
