"""What of a run is there, and the same for other programs."""

import shutil

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
import xarray as xr
from typer.testing import CliRunner

import heirloom as hl
from heirloom.cli.app import app
from heirloom.experiments.job import run_job
from heirloom.runs.export import columns_of, export
from heirloom.runs.run import run
from heirloom.runs.store import RunStore
from heirloom.runs.stored_run import StoredRun, runs_in
from tests.small_run import FAST, SPEC


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("done") / "run"
    run(SPEC, folder, jobs=1)
    return folder


@pytest.fixture
def folder(done, tmp_path):
    """A copy of a run that is done."""
    return shutil.copytree(done, tmp_path / "run")


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize("location", ["folder", "memory"])
def test_a_url_holds_a_run_as_a_folder_does(tmp_path, done, location):
    where = tmp_path / "run" if location == "folder" else f"memory:/{tmp_path}/run"
    store = RunStore(where, SPEC)
    store.write((0, 0), run_job(SPEC, 0, 0))
    assert len(StoredRun(where).status().missing) == 11
    results = run(SPEC, where, jobs=1)
    with xr.open_zarr(str(where)) as opened, xr.open_zarr(done, chunks=None) as expected:
        assert opened.load().identical(expected.load())
        assert results.identical(expected)


def test_the_status_of_a_run(folder):
    status = StoredRun(folder).status()
    assert status.is_complete
    assert len(status.done) == 12
    ended = invoke("status", folder)
    assert ended.exit_code == 0
    assert "All 12 jobs are complete and their checksums match." in ended.stdout


def test_the_status_of_a_run_with_holes(folder):
    store = RunStore(folder, SPEC)
    store.group["done"][0, 0] = False
    store.group["returns"][1, 2, 0, 0] += 1
    shutil.rmtree(folder / "updates" / "c" / "2" / "1")
    (folder / "checksum" / "c" / "3" / "0").write_bytes(b"")
    for name in ("optimal", "agent"):
        shutil.rmtree(folder / name / "c")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    status = StoredRun(folder).status()
    assert status.missing == [(0, 0)]
    assert sorted(status.damaged) == [(1, 2), (2, 1), (3, 0)]
    assert status.repairable == ["optimal", "agent"]
    ended = invoke("status", folder)
    assert ended.exit_code == 1
    assert (
        "8 of 12 jobs are complete and their checksums match; 1 are missing and 3 are damaged."
    ) in ended.stdout
    assert "Damaged: LRMax(0.1), repetition 3." in ended.stdout
    assert "Missing or damaged shared arrays: optimal, agent." in ended.stdout
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    run(SPEC, folder, jobs=1)
    assert StoredRun(folder).status().is_complete


def test_an_altered_bit_of_any_file_is_found(done, tmp_path):
    """Of every chunk a byte is changed; some bits of a compressed chunk mean nothing."""
    folder = shutil.copytree(done, tmp_path / "run")
    run_there = StoredRun(folder)
    whole = run_there.results()
    found = 0
    chunks = [path for path in folder.rglob("c/**/*") if path.is_file()]
    assert len(chunks) > 60
    for chunk in chunks:
        data = chunk.read_bytes()
        altered = bytearray(data)
        altered[len(data) // 2] ^= 1
        chunk.write_bytes(altered)
        if run_there.status().is_complete:
            assert run_there.results().identical(whole), chunk
        else:
            found += 1
        chunk.write_bytes(data)
    assert run_there.status().is_complete
    assert found > 0.9 * len(chunks)


def test_other_versions_are_told(folder):
    store = RunStore(folder, SPEC)
    store.group.attrs["versions"] = {**store.group.attrs["versions"], "numpy": "1.0"}
    ended = invoke("status", folder)
    assert "started with other versions: numpy" in ended.stdout


def test_runs_below_a_folder(done, tmp_path):
    assert [str(location) for location in runs_in(done)] == [str(done)]
    assert [str(location) for location in runs_in(done.parent)] == [str(done)]
    with pytest.raises(hl.InvalidFile, match="there is no run in"):
        runs_in(tmp_path / "missing")
    assert invoke("status", done.parent).exit_code == 0
    assert str(done) in [str(location) for location in runs_in(done.parents[1])]
    ended = invoke("export", done.parent, "--to", "csv")
    assert ended.exit_code == 1
    assert "contains runs but is not a run itself" in ended.stderr


def expected_frame(done, names):
    with xr.open_zarr(done, chunks=None) as dataset:
        return dataset[names].load().to_dataframe().reset_index()


@pytest.mark.parametrize("to", ["parquet", "csv"])
def test_tables_have_a_row_for_each_observation(done, tmp_path, to):
    exported = export(StoredRun(done), to, tmp_path / "out")
    assert exported.left_out == 0
    assert [path.name for path in exported.files] == [
        f"episodes.{to}",
        f"tasks.{to}",
        "columns.csv",
    ]
    read = pd.read_parquet if to == "parquet" else pd.read_csv
    for table, columns in columns_of(StoredRun(done)).items():
        frame = read(tmp_path / "out" / f"{table}.{to}")
        assert frame.columns.tolist() == columns
        keys = [c for c in columns if c in ("agent", "repetition", "task", "episode")]
        values = [c for c in columns if c not in keys]
        expected = expected_frame(done, values).astype({"agent": "str"})
        pd.testing.assert_frame_equal(
            frame.astype({"agent": "str"}).sort_values(keys, ignore_index=True),
            expected[columns].sort_values(keys, ignore_index=True),
            check_exact=True,
            check_dtype=False,
        )
    meanings = pd.read_csv(tmp_path / "out" / "columns.csv")
    assert set(meanings.columns) == {"table", "column", "units", "meaning"}
    assert not meanings.isna().to_numpy().any()


def test_parquet_columns_carry_units_and_labels(done, tmp_path):
    export(StoredRun(done), "parquet", tmp_path)
    schema = pyarrow.parquet.read_schema(tmp_path / "tasks.parquet")
    assert schema.field("late_update").metadata[b"units"] == b"steps"
    assert b"last 50 updates" in schema.field("late_update").metadata[b"long_name"]
    assert b"corridor" in schema.metadata[b"heirloom_spec"]


def test_netcdf_is_the_same_dataset(done, tmp_path):
    export(StoredRun(done), "netcdf", tmp_path / "run.nc")
    with (
        xr.open_dataset(tmp_path / "run.nc", engine="h5netcdf") as one,
        xr.open_zarr(done, chunks=None) as two,
    ):
        for name in one.data_vars:
            assert np.array_equal(one[name].values, two[name].values, equal_nan=name != "done")
            assert one[name].attrs == two[name].attrs
        assert one.agent.values.tolist() == two.agent.values.tolist()
        assert one.returns.attrs["units"] == "reward"


@pytest.mark.parametrize("to", ["parquet", "csv", "netcdf"])
def test_what_is_damaged_is_not_exported(folder, tmp_path, to):
    store = RunStore(folder, SPEC)
    store.group["returns"][1, 2, 0, 0] = 1e6
    store.group["done"][0, 0] = False
    ended = invoke("export", folder, "--to", to)
    assert ended.exit_code == 0
    left_out = "2 of 12 jobs are missing or damaged and were left out: see `heirloom status"
    assert left_out in ended.stderr
    if to == "netcdf":
        with xr.open_dataset(tmp_path / "run.nc", engine="h5netcdf") as dataset:
            assert int(dataset.returns.isnull().all(("task", "episode")).sum()) == 2
            assert float(dataset.returns.max()) < 1e6
        return
    read = pd.read_parquet if to == "parquet" else pd.read_csv
    frame = read(tmp_path / f"run-{to}" / f"episodes.{to}")
    assert len(frame) == 10 * 3 * 20
    assert frame.returns.max() < 1e6


def test_measures_have_tables_too(tmp_path):
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


def test_whole_numbers_of_a_measure_are_stored_as_they_were(tmp_path):
    """A run that is complete computes nothing again, whatever it measures."""
    agents = [{"algorithm": "RMax", "n_known": 1, "name": "one"}]
    spec = SPEC.read({**FAST.as_json(), "agents": agents, "measure": "optimal_after"})
    run(spec, tmp_path / "run", jobs=1)
    assert StoredRun(tmp_path / "run").status().is_complete


@pytest.mark.parametrize("out", ["s3://bucket/x", "/", "."])
def test_an_export_goes_to_this_machine(done, out):
    with pytest.raises(hl.InvalidArgument, match="is not a place for an export"):
        export(StoredRun(done), "netcdf", out)
    ended = invoke("export", done, "--to", "netcdf", "--out", out)
    assert ended.exit_code == 1
    assert "is not a place for an export" in ended.stderr


def test_an_export_of_the_folder_that_one_is_in_goes_beside_it(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert invoke("export", ".", "--to", "netcdf").exit_code == 0
    assert (folder.parent / "run.nc").exists()
    assert invoke("export", f"file://{folder}", "--to", "csv").exit_code == 0
    assert (folder.parent / "run-csv" / "tasks.csv").exists()


def test_errors_of_the_network_are_not_damage(tmp_path, monkeypatch):
    """Units that cannot be read for the moment are neither lost nor computed again."""
    from fsspec.implementations.memory import MemoryFileSystem

    where = f"memory:/{tmp_path}/run"
    run(SPEC, where, jobs=1)

    class NetworkError(Exception):
        pass

    read = MemoryFileSystem.cat_file

    def fails(self, path, *args, **kwargs):
        if "/c/" in path:
            raise NetworkError("try later")
        return read(self, path, *args, **kwargs)

    monkeypatch.setattr(MemoryFileSystem, "cat_file", fails)
    there = StoredRun(where)
    for read_job in (there.status, there.results, lambda: run(SPEC, where, jobs=1)):
        with pytest.raises(hl.InvalidFile, match=r"could not be read \(try later\)"):
            read_job()


def test_nothing_is_half_exported(done, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", full)
    with pytest.raises(hl.CannotWrite, match=r"No space left on device\): make room"):
        export(StoredRun(done), "parquet", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
