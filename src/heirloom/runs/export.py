"""Export the results of a run to other programs: as tables, as one netCDF file, or as zarr.

Tables are tidy: there is one table per kind of observation (`episodes`, `tasks`, `computations` in
runs that measure them, and `steps` in runs that record them), with one row per observation. Only
jobs that are complete and whose checksums match are exported.
"""

import csv
import json
import os
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from heirloom.choices import Format
from heirloom.errors import CannotWrite, HeirloomError, InvalidArgument
from heirloom.escaping import for_spreadsheet
from heirloom.experiments.variables import JOB
from heirloom.runs.recordings import COLUMNS as STEP_COLUMNS
from heirloom.runs.recordings import recorded_steps
from heirloom.runs.schema import COORDINATES, SHARED, VARIABLES
from heirloom.runs.stored_run import StoredRun
from heirloom.storage.folders import regular_file

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

COLUMNS = "columns.csv"
"""Name of the file beside the tables that describes their columns."""
PACKAGES = {"parquet": ["pyarrow"], "csv": [], "netcdf": ["h5netcdf"], "zarr": ["zarr"]}
ENDINGS = {"parquet": "-parquet", "csv": "-csv", "netcdf": ".nc", "zarr": ".zarr"}
"""What is appended to the name of a run, by default."""
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
        out: the folder that tables are written to, or the path of the netCDF file or zarr group.
    """
    path = Path(out)
    if "://" in os.fspath(out) or not path.name:
        what = "folder" if to in ("parquet", "csv") else "path"
        raise InvalidArgument(
            f"{out} is not a location for an export: give a {what} on this machine"
        )
    for package in PACKAGES[to]:
        try:
            import_module(package)
        except ImportError:
            raise InvalidArgument(
                f"an export to {to} needs the package {package}: pip install 'heirloom-rl[export]'"
            ) from None
    if to == "zarr" and os.path.lexists(path):
        raise InvalidArgument(f"{out} exists already: move it away, or choose another name")
    arrays, done, own = run.load()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if to in ("parquet", "csv"):
            path.mkdir(exist_ok=True)
        folder = path if path.is_dir() else path.parent
        with TemporaryDirectory(dir=folder, prefix=".heirloom-", ignore_cleanup_errors=True) as new:
            if to in ("parquet", "csv"):
                _write_tables(run, to, arrays, done, Path(new))
            else:
                _write_arrays(run, to, arrays, own, Path(new) / path.name)
            written = [*(f"{table}.{to}" for table in columns_of(run)), COLUMNS, path.name]
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


def columns_of(run: StoredRun) -> dict[str, list[str]]:
    """Map the name of each table to the names of its columns."""
    tables: dict[str, list[str]] = {}
    for name in run.layout.names:
        dimensions = VARIABLES[name].dimensions
        tables.setdefault(f"{dimensions[-1]}s", [*dimensions]).append(name)
    tables["tasks"] += SHARED
    if run.spec.record is not None:
        tables["steps"] = [*STEP_COLUMNS]
    return tables


def _metadata(run: StoredRun) -> dict[str, str]:
    """Metadata of the run that accompanies the results, each value encoded as JSON."""
    metadata = {"spec": run.spec.as_json(), "seed": run.spec.seed, "versions": run.versions}
    return {key: json.dumps(value) for key, value in metadata.items()}


def _write_arrays(
    run: StoredRun, to: Format, arrays: dict[str, np.ndarray], own: dict[str, int], path: Path
) -> None:
    dataset = run.dataset(arrays, own)
    dataset.attrs = _metadata(run)
    if to == "netcdf":
        dataset.to_netcdf(path, engine="h5netcdf")
        return
    with warnings.catch_warnings():
        # zarr warns that consolidated metadata and texts are not part of its specification yet.
        warnings.simplefilter("ignore")
        dataset.to_zarr(path)


def _write_tables(
    run: StoredRun, to: Format, arrays: dict[str, np.ndarray], done: np.ndarray, folder: Path
) -> None:
    tables = columns_of(run)
    for table, names in tables.items():
        frames = (
            recorded_steps(run, csv=to == "csv")
            if table == "steps"
            else _frames(run, names, arrays, done, csv=to == "csv")
        )
        write = _write_csv if to == "csv" else _write_parquet
        write(folder / f"{table}.{to}", names, frames, _metadata(run))
    with open(folder / COLUMNS, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["table", "column", "units", "meaning"])
        for table, names in tables.items():
            for name in names:
                writer.writerow([table, name, EXPORTED[name].units, EXPORTED[name].meaning])


def _frames(
    run: StoredRun,
    columns: list[str],
    arrays: dict[str, np.ndarray],
    done: np.ndarray,
    *,
    csv: bool,
) -> "Iterator[pd.DataFrame]":
    """Yield the rows of some jobs at a time; the index of the last dimension changes fastest."""
    import pandas as pd

    names = [name for name in columns if name not in COORDINATES]
    inner = [name for name in columns if name in COORDINATES and name not in JOB]
    repetitions, agents = np.nonzero(done.T)
    labels = [agent.name for agent in run.spec.agents]
    labels = [for_spreadsheet(label) for label in labels] if csv else labels
    shape = arrays[names[0]].shape[2:]
    numbers = (1 + np.indices(shape)).reshape(len(shape), -1)
    n = numbers.shape[1]
    per_block = max(1, ROWS // max(n, 1))
    for start in range(0, agents.size, per_block):
        i, j = agents[start : start + per_block], repetitions[start : start + per_block]
        values: dict[str, Any] = {
            "agent": np.repeat(np.array(labels, dtype=object)[i], n),
            "repetition": np.repeat(j + 1, n),
            **{name: np.tile(each, i.size) for name, each in zip(inner, numbers, strict=True)},
        }
        for name in names:
            chosen = arrays[name][j] if name in SHARED else arrays[name][i, j]
            values[name] = chosen.reshape(-1)
        yield pd.DataFrame(values)


def _write_csv(
    path: Path, names: list[str], frames: "Iterator[pd.DataFrame]", metadata: dict[str, str]
) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerow(names)
        for frame in frames:
            frame.to_csv(file, header=False, index=False, na_rep="nan")


def _write_parquet(
    path: Path, names: list[str], frames: "Iterator[pd.DataFrame]", metadata: dict[str, str]
) -> None:
    """Write a table whose columns, and which itself, carry metadata."""
    import pyarrow as pa
    import pyarrow.parquet

    types = {"f8": pa.float64(), "i8": pa.int64()}
    fields = [
        pa.field(
            name,
            pa.string() if name == "agent" else types[EXPORTED[name].dtype],
            metadata={"long_name": EXPORTED[name].meaning, "units": EXPORTED[name].units},
        )
        for name in names
    ]
    of_table = {f"heirloom_{key}": text for key, text in metadata.items()}
    schema = pa.schema(fields, metadata=of_table)
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for frame in frames:
            columns = [frame[name].to_numpy() for name in names]
            writer.write_table(pa.table(columns, schema=schema))
