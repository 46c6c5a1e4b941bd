"""Export the results of a run to other programs: as tables, as one netCDF file, or as zarr.

Tables are tidy: there is one table per kind of observation (`episodes`, `tasks`, `computations` in
runs that measure them, and `steps` and `snapshots` in runs that record them), with one row per
observation. Only jobs that are complete and whose checksums match are exported.
"""

import csv
import json
import os
import warnings
from collections.abc import Iterator
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from heirloom.arrays import BoolArray
from heirloom.choices import Format
from heirloom.errors import CannotWrite, HeirloomError, InvalidArgument, is_installed, missing
from heirloom.experiments.variables import Variable
from heirloom.runs.layout import SHARED
from heirloom.runs.recordings import (
    HOW_TO_RECORD,
    SNAPSHOT_COLUMNS,
    STEP_COLUMNS,
    as_snapshots,
    as_steps,
    recorded_rows,
)
from heirloom.runs.stored_run import StoredRun
from heirloom.storage.files import regular_file
from heirloom.wording import for_spreadsheet

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    import xarray as xr

COLUMNS = "columns.csv"
"""Name of the file beside the tables that describes their columns."""
PACKAGES = {"parquet": ["pyarrow"], "csv": [], "netcdf": ["h5netcdf"], "zarr": ["zarr"]}
ENDINGS = {"parquet": "-parquet", "csv": "-csv", "netcdf": ".nc", "zarr": ".zarr"}
"""What is appended to the name of a run, by default."""
ROWS = 200_000  # rows of a table that are written at once, unless one job has more


class Exported(NamedTuple):
    """Outcome of an export: the files written, and the number of jobs exported or left out."""

    files: list[Path]
    jobs: int
    """Number of jobs of the run, including those left out."""
    left_out: int
    """Number of jobs that are missing or damaged."""


def export(
    run: StoredRun, to: Format, out: str | os.PathLike[str], *, snapshots: bool = False
) -> Exported:
    """Write the results of a run in a format that other programs read.

    With `snapshots`, a table of `Q`, `U` and known pairs at all snapshots of recorded episodes is
    written too.
    """
    if snapshots and (run.spec.record is None or to not in ("parquet", "csv")):
        raise InvalidArgument(
            "snapshots are written as a table, of a run that has recordings: choose parquet or csv"
            if run.spec.record is not None
            else f"the run in {run.location} has no snapshots: {HOW_TO_RECORD}"
        )
    path = Path(out)
    if "://" in os.fspath(out) or not path.name:
        what = "folder" if to in ("parquet", "csv") else "path"
        raise InvalidArgument(
            f"{out} is not a location for an export: give a {what} on this machine"
        )
    if not is_installed(*PACKAGES[to]):
        raise missing(f"the format is {to}", "export")
    if to == "zarr" and os.path.lexists(path):
        raise InvalidArgument(f"{out} exists already: move it away, or choose another name")
    arrays, done, own = run.load()
    dataset = run.dataset(arrays, own)
    metadata = {"spec": run.spec.as_json(), "seed": run.spec.seed, "versions": run.versions}
    dataset.attrs = {key: json.dumps(value) for key, value in metadata.items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if to in ("parquet", "csv"):
            path.mkdir(exist_ok=True)
        folder = path if path.is_dir() else path.parent
        with TemporaryDirectory(dir=folder, prefix=".heirloom-", ignore_cleanup_errors=True) as new:
            if to in ("parquet", "csv"):
                _write_tables(run, to, dataset, done, Path(new), snapshots=snapshots)
            elif to == "netcdf":
                dataset.to_netcdf(Path(new) / path.name, engine="h5netcdf")
            else:
                with warnings.catch_warnings():  # about parts that zarr has not specified yet
                    warnings.simplefilter("ignore")
                    dataset.to_zarr(Path(new) / path.name)
            written = [
                *(f"{table}.{to}" for table in columns_of(run, snapshots=snapshots)),
                COLUMNS,
                path.name,
            ]
            files = [folder / name for name in written if (Path(new) / name).exists()]
            for file in files:
                if to != "zarr":
                    regular_file(file, CannotWrite)
                os.replace(Path(new) / file.name, file)
    except OSError as error:
        if isinstance(error, HeirloomError):
            raise
        raise CannotWrite(
            f"{out} could not be written ({error.strerror or error}): free some space, or choose "
            "another location with --out"
        ) from error
    return Exported(files, done.size, int((~done).sum()))


def columns_of(run: StoredRun, *, snapshots: bool = False) -> dict[str, list[str]]:
    """Map the name of each table to the names of its columns."""
    tables: dict[str, list[str]] = {}
    for name in run.layout.names:
        dimensions = run.layout.variables[name].dimensions
        tables.setdefault(f"{dimensions[-1]}s", [*dimensions]).append(name)
    tables["tasks"] += SHARED
    if run.spec.record is not None:
        tables["steps"] = [*STEP_COLUMNS]
    if snapshots:
        tables["snapshots"] = [*SNAPSHOT_COLUMNS]
    return tables


def _write_tables(
    run: StoredRun,
    to: Format,
    dataset: "xr.Dataset",
    done: BoolArray,
    folder: Path,
    *,
    snapshots: bool,
) -> None:
    known = run.layout.variables | STEP_COLUMNS | SNAPSHOT_COLUMNS
    if to == "csv":
        names = [for_spreadsheet(str(name)) for name in dataset.agent.values]
        dataset = dataset.assign_coords(agent=np.array(names, dtype=object))
    tables, recorded = columns_of(run, snapshots=snapshots), {"steps": as_steps}
    recorded["snapshots"] = as_snapshots
    for table, names in tables.items():
        file = folder / f"{table}.{to}"
        if table in recorded:
            frames = recorded_rows(run, recorded[table], csv=to == "csv")
        else:
            frames = _frames(dataset, names, done)
        if to == "parquet":
            _write_parquet(file, {n: known[n] for n in names}, frames, dataset.attrs)
            continue
        with open(file, "w", newline="", encoding="utf-8") as opened:
            csv.writer(opened, lineterminator="\n").writerow(names)
            for frame in frames:
                frame.to_csv(opened, header=False, index=False, na_rep="nan", lineterminator="\n")
    with open(folder / COLUMNS, "w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(["table", "column", "units", "meaning"])
        for table, names in tables.items():
            rows = ([table, n, known[n].units, known[n].meaning] for n in names)
            writer.writerows(rows)


def _frames(dataset: "xr.Dataset", columns: list[str], done: BoolArray) -> "Iterator[pd.DataFrame]":
    """Yield the rows of some repetitions at a time, without those of jobs that are not done."""
    dimensions = [name for name in columns if name in dataset.coords]
    chosen = dataset[[name for name in columns if name not in dataset.coords]]
    per_repetition = prod(n for name, n in chosen.sizes.items() if name != "repetition")
    step = max(1, ROWS // max(per_repetition, 1))
    for start in range(0, chosen.sizes["repetition"], step):
        part = chosen.isel(repetition=slice(start, start + step))
        frame = part.to_dataframe(dim_order=dimensions).reset_index()[columns]
        of_part = done[:, start : start + step].ravel()
        yield frame[np.repeat(of_part, len(frame) // of_part.size)]


def _write_parquet(
    path: Path,
    columns: dict[str, Variable],
    frames: "Iterator[pd.DataFrame]",
    metadata: dict[Any, Any],
) -> None:
    """Write a table whose columns, and which itself, carry metadata."""
    import pyarrow as pa
    import pyarrow.parquet

    types = {"f8": pa.float64(), "i8": pa.int64()}
    fields = [
        pa.field(
            name,
            pa.string() if name == "agent" else types[column.dtype],
            metadata={"long_name": column.meaning, "units": column.units},
        )
        for name, column in columns.items()
    ]
    of_table = {f"heirloom_{key}": text for key, text in metadata.items()}
    schema = pa.schema(fields, metadata=of_table)
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for frame in frames:
            writer.write_table(pa.Table.from_pandas(frame, schema, preserve_index=False))
