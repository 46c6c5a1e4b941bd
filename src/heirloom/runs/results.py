"""Load the results of one run, or of several as one dataset, and summarise them in a table."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from heirloom.errors import InvalidFile
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.stored_run import DATABASE, StoredRun, not_a_run
from heirloom.stats import Interval, student_interval
from heirloom.storage.files import folder_path

if TYPE_CHECKING:
    import xarray as xr

BASELINE = "RMax"
"""The agent that others are compared with by default, if a run has it."""


def results(path: str | os.PathLike[str], variables: Sequence[str] | None = None) -> "xr.Dataset":
    """Load the results of a run, or of all runs of a sweep, into memory, as an xarray Dataset.

    Args:
        path: the folder of a run, or a folder that contains runs, such as that of a sweep.
        variables: the names of the variables to load, such as `["returns", "optimal"]`; by
            default all.

    Returns:
        Variables over agent, repetition, task and episode, with units and meanings. Values of jobs
        that are missing or damaged are NaN, or -1 for integers. `heirloom status` lists these jobs.
        Several runs have a further dimension `run`, with the names of their folders, and one
        coordinate along it for each key of their specs that differs. Variables that not all runs
        have are left out, and sizes are those of the largest run: the rest is NaN.
    """
    folder = folder_path(path, "path")
    locations = runs_in(folder)
    if locations == [folder]:
        return StoredRun(folder).results(variables)
    runs = {each.relative_to(folder).as_posix(): StoredRun(each) for each in locations}
    return combined({label: run.results(variables) for label, run in runs.items()})


def combined(results: "Mapping[str, xr.Dataset]") -> "xr.Dataset":
    """Return the results of several runs, by their labels, as one dataset over `run`."""
    import xarray as xr

    datasets = list(results.values())
    common = [name for name in datasets[0].data_vars if all(name in each for each in datasets)]
    agents = dict.fromkeys(str(name) for each in datasets for name in each.agent.values)
    dataset = xr.concat(
        [each[common] for each in datasets],
        dim=xr.Variable("run", list(results)),
        join="outer",
        combine_attrs="drop_conflicts",
    ).reindex(agent=list(agents))
    specs = {label: each.attrs["spec"] for label, each in results.items()}
    differing = _differing(list(specs.values()))
    coordinates = {key if key not in dataset else f"spec_{key}": v for key, v in differing.items()}
    dataset = dataset.assign_coords({key: ("run", v) for key, v in coordinates.items()})
    return dataset.assign_attrs(specs=specs)


def _differing(specs: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return the keys of specs, and the options of their families, that are not all equal."""
    keys = [key for key in ExperimentSpec.model_fields if key not in ("name", "family", "agents")]
    tables = [
        {key: spec.get(key) for key in keys}
        | {option: value for option, value in spec["family"].items() if option != "name"}
        | {"family": spec["family"]["name"]}
        for spec in specs
    ]
    found: dict[str, list[Any]] = {}
    for key in dict.fromkeys(key for table in tables for key in table):
        values = [table.get(key) for table in tables]
        if any(value != values[0] for value in values):
            plain = all(isinstance(value, int | float) for value in values)
            found[key] = values if plain else [str(value) for value in values]
    return found


class Summary(NamedTuple):
    """The results of an agent in a run."""

    agent: str
    mean: Interval
    """The mean undiscounted return of an episode, over all tasks."""
    baseline: str
    """The agent that it is compared with."""
    difference: Interval | None
    """The mean return minus that of the baseline in the same repetition; None for the baseline."""
    optimal: float
    """The mean optimal return."""
    updates: float
    """The mean number of model updates in a task."""


def summaries(results: "xr.Dataset") -> list[Summary]:
    """Summarise the results of a run, with 95 % Student intervals over repetitions."""
    names = [str(name) for name in results.agent.values]
    mean = results.returns.mean(("task", "episode"))
    baseline = BASELINE if BASELINE in names else names[0]
    return [
        Summary(
            name,
            student_interval(mean.sel(agent=name).values),
            baseline,
            None
            if name == baseline
            else student_interval((mean.sel(agent=name) - mean.sel(agent=baseline)).values),
            float(results.optimal.mean()),
            float(results.updates.sel(agent=name).where(lambda x: x >= 0).mean()),
        )
        for name in names
    ]


def swept_summaries(
    finished: "Mapping[str, xr.Dataset]",
) -> tuple[list[str], list[tuple[str, list[str], Summary]]]:
    """Summarise runs: the keys that differ, and for each run and agent their values."""
    several = len(finished) > 1
    differing = _differing([each.attrs["spec"] for each in finished.values()]) if several else {}
    rows = [
        (label, [str(values[i]) for values in differing.values()], summary)
        for i, (label, results) in enumerate(finished.items())
        for summary in summaries(results)
    ]
    return list(differing), rows


def runs_in(location: str | os.PathLike[str]) -> list[Path]:
    """Find the run in a folder, or the runs in its subfolders.

    `heirloom reproduce` writes several runs to one folder.
    """
    folder = folder_path(location)
    try:
        runs = _runs_below(folder, depth=2)
    except OSError as error:
        raise InvalidFile(f"{folder} cannot be read ({error.strerror}): check the path") from error
    if not runs:
        raise not_a_run(folder)
    return runs


def _runs_below(folder: Path, depth: int) -> list[Path]:
    names = sorted(os.listdir(folder)) if folder.is_dir() else []
    if DATABASE in names:
        return [folder]
    return [run for name in names if depth for run in _runs_below(folder / name, depth - 1)]
