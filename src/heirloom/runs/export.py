"""Results of a run for other programs: tidy tables as Parquet or CSV, or one netCDF file.

There is a table for each kind of observation, `episodes` and `tasks`, and a row for each of them.
Only units that are done and as they were written are exported.
"""

import csv
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from heirloom.choices import Format
from heirloom.errors import CannotWrite, InvalidArgument
from heirloom.experiments.job import Job
from heirloom.experiments.variables import JOB
from heirloom.runs.schema import COORDINATES, SHARED, VARIABLES
from heirloom.runs.stored_run import StoredRun

if TYPE_CHECKING:
    import pyarrow as pa
    import xarray as xr

COLUMNS = "columns.csv"
"""The file that tells what columns mean, beside tables."""


class Exported(NamedTuple):
    """What was written."""

    files: list[Path]
    jobs: int
    left_out: int
    """Units that are missing or damaged."""


def export(run: StoredRun, to: Format, out: str | os.PathLike[str]) -> Exported:
    """Write the results of a run for other programs.

    Args:
        run: the run.
        to: the format.
        out: the folder for tables, or the netCDF file.
    """
    location = Path(out)
    if "://" in os.fspath(out) or not location.name:
        raise InvalidArgument(
            f"{out} is not a place for an export: give a {'file' if to == 'netcdf' else 'folder'} "
            "of this machine"
        )
    try:
        if to == "netcdf":
            return _netcdf(run, location)
        location.mkdir(parents=True, exist_ok=True)
        return _tables(run, to, location)
    except OSError as error:
        raise CannotWrite(
            f"{out} could not be written ({error.strerror or error}): make room, or choose "
            "another place with --out"
        ) from error


def columns_of(run: StoredRun) -> dict[str, list[str]]:
    """The columns of each table, by its name."""
    tables: dict[str, list[str]] = {}
    for name in run.names:
        dimensions = VARIABLES[name].dimensions
        tables.setdefault(f"{dimensions[-1]}s", [*dimensions]).append(name)
    tables["tasks"] += SHARED
    return tables


def _tables(run: StoredRun, to: Format, folder: Path) -> Exported:
    columns = columns_of(run)
    shared = run.shared()
    schemas = {name: _schema(run, of) for name, of in columns.items()}
    paths = [folder / f"{name}.{to}" for name in columns]
    left_out = 0
    with _writers(to, paths, list(schemas.values())) as writers:
        for job in run.jobs:
            state, results = run.read_job(job)
            if state != "done":
                left_out += 1
                continue
            row = {name: values[job[1]] for name, values in shared.items()}
            for schema, write in zip(schemas.values(), writers, strict=True):
                write(_rows(run, job, results | row, schema))
    _write_meanings(folder / COLUMNS, columns)
    return Exported([*paths, folder / COLUMNS], len(run.jobs), left_out)


def _schema(run: StoredRun, columns: list[str]) -> "pa.Schema":
    import pyarrow as pa

    types = {"f8": pa.float64(), "i8": pa.int64()}
    fields = [
        pa.field(
            name,
            pa.string() if name == "agent" else types[VARIABLES[name].dtype],
            metadata={"long_name": VARIABLES[name].meaning, "units": VARIABLES[name].units},
        )
        for name in columns
    ]
    about = {f"heirloom_{key}": text for key, text in _about(run).items()}
    return pa.schema(fields, metadata=about)


def _about(run: StoredRun) -> dict[str, str]:
    """What goes with all results, as JSON."""
    about = {"spec": run.spec.as_json(), "seed": run.spec.seed, "versions": run.versions}
    return {key: json.dumps(what) for key, what in about.items()}


def _rows(
    run: StoredRun, job: Job, results: dict[str, np.ndarray], schema: "pa.Schema"
) -> "pa.Table":
    """The rows of a unit, the last dimension fastest."""
    import pyarrow as pa

    names = [name for name in schema.names if name not in COORDINATES]
    inner = [name for name in schema.names if name in COORDINATES and name not in JOB]
    shape = results[names[0]].shape
    numbers = (1 + np.indices(shape)).reshape(len(shape), -1)
    n = numbers.shape[1]
    columns: dict[str, Any] = {
        "agent": [run.spec.agents[job[0]].name] * n,
        "repetition": np.full(n, job[1] + 1),
        **dict(zip(inner, numbers, strict=True)),
        **{name: results[name].reshape(-1) for name in names},
    }
    return pa.table(columns, schema=schema)


@contextmanager
def _writers(
    to: Format, paths: list[Path], schemas: "list[pa.Schema]"
) -> "Iterator[list[Callable[[pa.Table], None]]]":
    """What appends rows to each file; files are in place once all is written."""
    import pyarrow.csv
    import pyarrow.parquet

    make = pyarrow.parquet.ParquetWriter if to == "parquet" else pyarrow.csv.CSVWriter
    with _in_place_at_the_end(paths) as parts:
        opened = [make(part, schema) for part, schema in zip(parts, schemas, strict=True)]
        try:
            yield [writer.write_table for writer in opened]
        finally:
            for writer in opened:
                writer.close()


def _netcdf(run: StoredRun, path: Path) -> Exported:
    dataset, left_out = _dataset(run)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _in_place_at_the_end([path]) as parts:
        dataset.to_netcdf(parts[0], engine="h5netcdf")
    return Exported([path], len(run.jobs), left_out)


def _dataset(run: StoredRun) -> "tuple[xr.Dataset, int]":
    """The units that are done; the rest is NaN, or -1 for numbers of updates."""
    import xarray as xr

    coordinates = run.coordinates()
    sizes = {name: values.size for name, values in coordinates.items()}
    data: dict[str, np.ndarray] = {}
    for name in run.names:
        of = VARIABLES[name]
        shape = [sizes[dimension] for dimension in of.dimensions]
        data[name] = np.full(shape, of.fill, dtype=of.dtype)
    done = np.zeros([sizes[dimension] for dimension in JOB], dtype=bool)
    for job in run.jobs:
        state, results = run.read_job(job)
        done[job] = state == "done"
        for name, values in results.items():
            data[name][job] = values
    data |= {**run.shared(), "done": done}
    dataset = xr.Dataset(
        {name: (VARIABLES[name].dimensions, values) for name, values in data.items()},
        coords={name: (VARIABLES[name].dimensions, c) for name, c in coordinates.items()},
        attrs=_about(run),
    )
    for variable in dataset.variables:
        of = VARIABLES[str(variable)]
        dataset[variable].attrs |= {"long_name": of.meaning, "units": of.units}
    return dataset, int((~done).sum())


def _write_meanings(path: Path, tables: dict[str, list[str]]) -> None:
    with _in_place_at_the_end([path]) as parts, open(parts[0], "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["table", "column", "units", "meaning"])
        for table, names in tables.items():
            for name in names:
                writer.writerow([table, name, VARIABLES[name].units, VARIABLES[name].meaning])


@contextmanager
def _in_place_at_the_end(paths: list[Path]) -> Iterator[list[Path]]:
    """Names to write to, which become `paths` when all went well; else nothing is left."""
    parts = [path.with_name(f".{path.name}.partial") for path in paths]
    try:
        yield parts
        for part, path in zip(parts, paths, strict=True):
            os.replace(part, path)
    finally:
        for part in parts:
            part.unlink(missing_ok=True)
