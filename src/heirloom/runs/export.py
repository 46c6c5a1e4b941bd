"""Export the results of a run to other programs: as Parquet or CSV tables, or as one netCDF file.

Tables are tidy: there is one table per kind of observation (`episodes`, `tasks`, `computations` in
runs that measure them, and `steps` in runs that record them), with one row per observation. Only
jobs that are complete and whose checksums match are exported.
"""

import csv
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from heirloom.arrays import IntArray
from heirloom.choices import Format
from heirloom.errors import CannotWrite, InvalidArgument
from heirloom.escaping import for_spreadsheet
from heirloom.experiments.variables import JOB
from heirloom.runs.recordings import COLUMNS as STEP_COLUMNS
from heirloom.runs.recordings import recorded_steps
from heirloom.runs.schema import COORDINATES, SHARED, VARIABLES
from heirloom.runs.stored_run import StoredRun

if TYPE_CHECKING:
    import pyarrow as pa
    import xarray as xr

COLUMNS = "columns.csv"
"""Name of the file beside the tables that describes their columns."""


EXPORTED = VARIABLES | STEP_COLUMNS
"""The columns of all tables, by name."""
ROWS = 200_000  # rows of a table that are written at once, unless one job has more


class Exported(NamedTuple):
    """Outcome of an export: the files written, and the number of jobs exported or left out."""

    files: list[Path]
    jobs: int
    """Number of jobs of the run, including those left out."""
    left_out: int
    """Number of jobs that are missing or damaged."""


def export(run: StoredRun, to: Format, out: str | os.PathLike[str]) -> Exported:
    """Write the results of a run in a format that other programs read.

    Args:
        run: the run to export.
        to: the format.
        out: the folder that tables are written to, or the path of the netCDF file.
    """
    location = Path(out)
    if "://" in os.fspath(out) or not location.name:
        raise InvalidArgument(
            f"{out} is not a location for an export: give a "
            f"{'file' if to == 'netcdf' else 'folder'} on this machine"
        )
    try:
        if to == "netcdf":
            return _netcdf(run, location)
        location.mkdir(parents=True, exist_ok=True)
        return _tables(run, to, location)
    except OSError as error:
        raise CannotWrite(
            f"{out} could not be written ({error.strerror or error}): free some space, or choose "
            "another location with --out"
        ) from error


def columns_of(run: StoredRun) -> dict[str, list[str]]:
    """Map the name of each table to the names of its columns."""
    tables: dict[str, list[str]] = {}
    for name in run.names:
        dimensions = VARIABLES[name].dimensions
        tables.setdefault(f"{dimensions[-1]}s", [*dimensions]).append(name)
    tables["tasks"] += SHARED
    if run.spec.record is not None:
        tables["steps"] = [*STEP_COLUMNS]
    return tables


def _tables(run: StoredRun, to: Format, folder: Path) -> Exported:
    columns = columns_of(run)
    shared = run.shared()
    schemas = {table: _schema(run, names) for table, names in columns.items()}
    paths = [folder / f"{table}.{to}" for table in columns]
    done = np.flatnonzero(run.batches.done)
    names = [agent.name for agent in run.spec.agents]
    agents = np.array([for_spreadsheet(n) if to == "csv" else n for n in names], dtype=object)
    per_block = max(1, ROWS // (run.spec.tasks * run.spec.episodes))
    with _writers(to, paths, list(schemas.values())) as writers:
        for start in range(0, done.size, per_block):
            jobs = done[start : start + per_block]
            results = run.batches.gather(jobs, run.names)
            of_repetition = {name: v[jobs // run.layout.n_agents] for name, v in shared.items()}
            for table, write in zip(schemas, writers, strict=True):
                if table != "steps":
                    write(_rows(run, jobs, agents, results | of_repetition, schemas[table]))
        if "steps" in schemas:
            for rows in recorded_steps(run, schemas["steps"], csv=to == "csv"):
                writers[-1](rows)
    _write_descriptions(folder / COLUMNS, columns)
    return Exported([*paths, folder / COLUMNS], run.layout.n_jobs, run.layout.n_jobs - done.size)


def _schema(run: StoredRun, columns: list[str]) -> "pa.Schema":
    import pyarrow as pa

    types = {"f8": pa.float64(), "i8": pa.int64()}
    fields = [
        pa.field(
            name,
            pa.string() if name == "agent" else types[EXPORTED[name].dtype],
            metadata={"long_name": EXPORTED[name].meaning, "units": EXPORTED[name].units},
        )
        for name in columns
    ]
    metadata = {f"heirloom_{key}": text for key, text in _metadata(run).items()}
    return pa.schema(fields, metadata=metadata)


def _metadata(run: StoredRun) -> dict[str, str]:
    """Metadata of the run that accompanies the results, each value encoded as JSON."""
    metadata = {"spec": run.spec.as_json(), "seed": run.spec.seed, "versions": run.versions}
    return {key: json.dumps(value) for key, value in metadata.items()}


def _rows(
    run: StoredRun,
    jobs: IntArray,
    agents: np.ndarray,
    results: dict[str, np.ndarray],
    schema: "pa.Schema",
) -> "pa.Table":
    """Rows of some jobs, given by their numbers; the index of the last dimension changes fastest.

    The arrays in `results` have one row per job, and `agents` has the names of all agents.
    """
    import pyarrow as pa

    names = [name for name in schema.names if name not in COORDINATES]
    inner = [name for name in schema.names if name in COORDINATES and name not in JOB]
    shape = results[names[0]].shape[1:]
    numbers = (1 + np.indices(shape)).reshape(len(shape), -1)
    n = numbers.shape[1]
    columns: dict[str, Any] = {
        "agent": np.repeat(agents[jobs % run.layout.n_agents], n),
        "repetition": np.repeat(jobs // run.layout.n_agents + 1, n),
        **{name: np.tile(values, jobs.size) for name, values in zip(inner, numbers, strict=True)},
        **{name: results[name].reshape(-1) for name in names},
    }
    return pa.table(columns, schema=schema)


@contextmanager
def _writers(
    to: Format, paths: list[Path], schemas: "list[pa.Schema]"
) -> "Iterator[list[Callable[[pa.Table], None]]]":
    """Functions that append rows to the files; the files appear when all rows are written."""
    import pyarrow.csv
    import pyarrow.parquet

    make = pyarrow.parquet.ParquetWriter if to == "parquet" else pyarrow.csv.CSVWriter
    with _moved_on_success(paths) as temporary:
        opened = [make(path, schema) for path, schema in zip(temporary, schemas, strict=True)]
        try:
            yield [writer.write_table for writer in opened]
        finally:
            for writer in opened:
                writer.close()


def _netcdf(run: StoredRun, path: Path) -> Exported:
    dataset, left_out = _dataset(run)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _moved_on_success([path]) as temporary:
        dataset.to_netcdf(temporary[0], engine="h5netcdf")
    return Exported([path], run.layout.n_jobs, left_out)


def _dataset(run: StoredRun) -> "tuple[xr.Dataset, int]":
    """Return the results as a dataset, and the number of jobs that are missing or damaged.

    The values of those jobs are NaN, or -1 for integers.
    """
    dataset = run.results().drop_vars("checksum")
    dataset.attrs = _metadata(run)
    return dataset, int((~dataset.done).sum())


def _write_descriptions(path: Path, tables: dict[str, list[str]]) -> None:
    with _moved_on_success([path]) as temporary, open(temporary[0], "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["table", "column", "units", "meaning"])
        for table, names in tables.items():
            for name in names:
                writer.writerow([table, name, EXPORTED[name].units, EXPORTED[name].meaning])


@contextmanager
def _moved_on_success(paths: list[Path]) -> Iterator[list[Path]]:
    """Yield temporary paths, moved to `paths` if the block succeeds and deleted otherwise."""
    temporary = [path.with_name(f".{path.name}.partial") for path in paths]
    try:
        yield temporary
        for source, path in zip(temporary, paths, strict=True):
            os.replace(source, path)
    finally:
        for source in temporary:
            source.unlink(missing_ok=True)
