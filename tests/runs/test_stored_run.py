"""The status of a stored run, and its export to other formats."""

import os
import shutil
import sqlite3
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
import xarray as xr
from typer.testing import CliRunner

import heirloom as hl
from heirloom.cli.app import app
from heirloom.runs.export import columns_of, export
from heirloom.runs.results import runs_in
from heirloom.runs.run import run
from heirloom.runs.store import RunStore
from heirloom.runs.stored_run import StoredRun
from tests.small_run import FAST, SPEC, commit


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    folder = tmp_path_factory.mktemp("complete") / "run"
    run(SPEC, folder, jobs=1)
    return folder


@pytest.fixture
def folder(complete, tmp_path):
    """A copy of a complete run, which a test may damage."""
    return shutil.copytree(complete, tmp_path / "run")


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def one_line(text):
    """Undo the line breaks that depend on the width of the terminal."""
    return " ".join(text.split())


def test_status_reports_that_a_run_is_complete(folder):
    status = StoredRun(folder).status()
    assert status.is_complete
    assert len(status.done) == 12
    ended = invoke("status", folder)
    assert ended.exit_code == 0
    assert "All 12 jobs are complete and their checksums match." in one_line(ended.stdout)


def test_runs_are_found_in_subfolders(complete, tmp_path):
    assert [str(location) for location in runs_in(complete)] == [str(complete)]
    assert [str(location) for location in runs_in(complete.parent)] == [str(complete)]
    with pytest.raises(hl.errors.InvalidFile, match="there is no run in"):
        runs_in(tmp_path / "missing")
    assert invoke("status", complete.parent).exit_code == 0
    assert str(complete) in [str(location) for location in runs_in(complete.parents[1])]
    ended = invoke("export", complete.parent, "--to", "csv")
    assert ended.exit_code == 1
    assert "contains runs but is not a run itself" in ended.stderr


def expected_frame(complete, names):
    return hl.results(complete)[names].to_dataframe().reset_index()


@pytest.mark.parametrize("to", ["parquet", "csv"])
def test_tables_have_one_row_per_observation(complete, tmp_path, to):
    exported = export(StoredRun(complete), to, tmp_path / "out")
    assert exported.left_out == 0
    assert [path.name for path in exported.files] == [
        f"episodes.{to}",
        f"tasks.{to}",
        "columns.csv",
    ]
    read = pd.read_parquet if to == "parquet" else pd.read_csv
    for table, columns in columns_of(StoredRun(complete)).items():
        frame = read(tmp_path / "out" / f"{table}.{to}")
        assert frame.columns.tolist() == columns
        keys = [c for c in columns if c in ("agent", "repetition", "task", "episode")]
        values = [c for c in columns if c not in keys]
        expected = expected_frame(complete, values).astype({"agent": "str"})
        pd.testing.assert_frame_equal(
            frame.astype({"agent": "str"}).sort_values(keys, ignore_index=True),
            expected[columns].sort_values(keys, ignore_index=True),
            check_exact=True,
            check_dtype=False,
        )
    meanings = pd.read_csv(tmp_path / "out" / "columns.csv")
    assert set(meanings.columns) == {"table", "column", "units", "meaning"}
    assert not meanings.isna().to_numpy().any()


def test_text_files_do_not_depend_on_the_platform(complete, tmp_path):
    """They are UTF-8 whatever the locale is, and all lines end in the same way."""
    flags = "-X", "warn_default_encoding", "-W", "error::EncodingWarning:heirloom.runs.export"
    script = (
        "from heirloom.runs.export import export; from heirloom.runs.stored_run import StoredRun; "
        f"export(StoredRun({str(complete)!r}), 'csv', {str(tmp_path)!r})"
    )
    subprocess.run([sys.executable, *flags, "-c", script], check=True)
    for file in tmp_path.iterdir():
        assert b"\r" not in file.read_bytes()


def test_parquet_columns_carry_units_and_labels(complete, tmp_path):
    export(StoredRun(complete), "parquet", tmp_path)
    schema = pyarrow.parquet.read_schema(tmp_path / "tasks.parquet")
    assert schema.field("late_update").metadata[b"units"] == b"steps"
    assert b"last 50 updates" in schema.field("late_update").metadata[b"long_name"]
    assert b"corridor" in schema.metadata[b"heirloom_spec"]


@pytest.mark.parametrize("to", ["netcdf", "zarr"])
def test_exported_arrays_and_attributes_are_those_of_the_run(complete, tmp_path, to):
    export(StoredRun(complete), to, tmp_path / "exported")
    engine, stored = {"netcdf": "h5netcdf", "zarr": "zarr"}[to], hl.results(complete)
    with xr.open_dataset(tmp_path / "exported", engine=engine) as exported:
        assert set(exported.data_vars) == set(stored.data_vars)
        for name, variable in exported.data_vars.items():
            assert np.array_equal(variable.values, stored[name].values, equal_nan=True)
            assert variable.attrs == stored[name].attrs
        assert exported.agent.values.tolist() == stored.agent.values.tolist()
        assert exported.returns.attrs["units"] == "reward"


@pytest.mark.parametrize("to", ["parquet", "csv", "netcdf"])
def test_missing_and_damaged_jobs_are_not_exported(tmp_path, to):
    folder = tmp_path / "run"
    store = RunStore(folder, SPEC)
    commit(store, set(store.jobs) - {(0, 0)})
    connection = sqlite3.connect(folder / "run.sqlite")
    connection.execute("UPDATE job SET seconds = 1e9 WHERE job = 9")
    connection.commit()
    connection.close()
    ended = invoke("export", folder, "--to", to)
    assert ended.exit_code == 0
    message = "2 of 12 jobs are missing or damaged and were left out: see `heirloom status"
    assert message in one_line(ended.stderr)
    if to == "netcdf":
        with xr.open_dataset(tmp_path / "run.nc", engine="h5netcdf") as dataset:
            assert int(dataset.returns.isnull().all(("task", "episode")).sum()) == 2
            assert float(dataset.returns.max()) < 1e6
        return
    read = pd.read_parquet if to == "parquet" else pd.read_csv
    frame = read(tmp_path / f"run-{to}" / f"episodes.{to}")
    assert len(frame) == 10 * 3 * 20
    assert frame.returns.max() < 1e6


def test_export_writes_a_table_for_the_dimension_of_a_measure(tmp_path):
    agents = [{"algorithm": "LRMax", "d_max": 0.1, "n_known": 1, "name": "one"}]
    spec = SPEC.read({**FAST.as_json(), "agents": agents, "measure": "prior_use"})
    run(spec, tmp_path / "run", jobs=1)
    exported = export(StoredRun(tmp_path / "run"), "csv", tmp_path / "out")
    assert [path.name for path in exported.files] == [
        "episodes.csv",
        "tasks.csv",
        "computations.csv",
        "columns.csv",
    ]


def test_run_with_an_integer_measure_is_complete(tmp_path):
    """The checksum is that of the stored types, so it matches whatever type a measure has."""
    agents = [{"algorithm": "RMax", "n_known": 1, "name": "one"}]
    spec = SPEC.read({**FAST.as_json(), "agents": agents, "measure": "optimal_after"})
    run(spec, tmp_path / "run", jobs=1)
    assert StoredRun(tmp_path / "run").status().is_complete


@pytest.mark.parametrize("out", ["s3://bucket/x", "/", "."])
def test_export_refuses_urls_and_paths_without_a_name(complete, out):
    with pytest.raises(hl.errors.InvalidArgument, match="is not a location for an export"):
        export(StoredRun(complete), "netcdf", out)
    ended = invoke("export", complete, "--to", "netcdf", "--out", out)
    assert ended.exit_code == 1
    assert "is not a location for an export" in ended.stderr


def test_export_of_the_current_folder_is_written_beside_it(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert invoke("export", ".", "--to", "netcdf").exit_code == 0
    assert (folder.parent / "run.nc").exists()
    assert invoke("export", folder, "--to", "csv").exit_code == 0
    assert (folder.parent / "run-csv" / "tasks.csv").exists()


def test_failed_export_leaves_no_files(complete, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("heirloom.runs.export._write_parquet", full)
    with pytest.raises(hl.errors.CannotWrite, match=r"No space left on device\): free some space"):
        export(StoredRun(complete), "parquet", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_export_does_not_replace_a_link_or_an_existing_zarr_group(complete, tmp_path):
    (tmp_path / "mine.nc").write_text("mine")
    (tmp_path / "run.nc").symlink_to(tmp_path / "mine.nc")
    with pytest.raises(hl.errors.CannotWrite, match="is a link, not a regular file"):
        export(StoredRun(complete), "netcdf", tmp_path / "run.nc")
    (tmp_path / "run.zarr").mkdir()
    (tmp_path / "run.zarr" / "mine").write_text("mine")
    with pytest.raises(hl.errors.InvalidArgument, match="exists already"):
        export(StoredRun(complete), "zarr", tmp_path / "run.zarr")
    assert (tmp_path / "mine.nc").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.nc", "run.nc", "run.zarr"]


@pytest.mark.parametrize(
    ("to", "package"), [("zarr", "zarr"), ("netcdf", "h5netcdf"), ("parquet", "pyarrow")]
)
def test_export_without_its_package_names_the_extra(complete, tmp_path, monkeypatch, to, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(hl.errors.InvalidArgument, match=rf"the format is {to}, .*pip install"):
        export(StoredRun(complete), to, tmp_path / "out")
    assert os.listdir(tmp_path) == []


def test_reading_a_run_imports_no_library_of_exports(complete):
    program = (
        "import sys, heirloom as hl; from heirloom.runs.stored_run import StoredRun\n"
        "hl.results(sys.argv[1]); StoredRun(sys.argv[1]).status()\n"
        "print(sorted({'zarr', 'fsspec', 'h5netcdf', 'h5py'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", program, str(complete)]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "[]\n"
