"""The parts of an experiment of the registry: its options, its report, and its registry entry."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from heirloom.choices import Variant
from heirloom.experiments.spec import ExperimentSpec
from heirloom.figures.style import image_files
from heirloom.paper.claims import Claim
from heirloom.runs.run import run_on
from heirloom.runs.workers import workers as local_workers
from heirloom.runs.workers.compute import Compute
from heirloom.storage.folders import write_output

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

QUICK_REPETITIONS = 2


class DryRun(Exception):
    """An experiment would have been run now.

    Args:
        spec: the experiment.
    """

    def __init__(self, spec: ExperimentSpec) -> None:
        super().__init__(spec.name)
        self.spec = spec


@dataclass(frozen=True)
class Options:
    """How to run an experiment."""

    variant: Variant
    location: Path
    repetitions: int | None = None
    seed: int | None = None
    quick: bool = False
    compute: Compute | None = None
    """Workers that are already running; by default, local processes are started."""
    dry_run: bool = False
    """Whether to raise `DryRun` in place of the first run."""

    @property
    def title_suffix(self) -> str:
        """The text that marks the title of a figure of a quick run."""
        return " (quick)" if self.quick else ""

    def apply(
        self, spec: ExperimentSpec, quick_changes: dict[str, int] | None = None
    ) -> ExperimentSpec:
        """Return the spec with these options applied.

        Args:
            spec: the experiment in full.
            quick_changes: further changes for a quick run, such as fewer tasks. The name of the
                spec of a quick run ends in "quick".
        """
        repetitions = self.repetitions
        if self.quick and repetitions is None:
            repetitions = min(QUICK_REPETITIONS, spec.repetitions)
        changes: dict[str, Any] = {"repetitions": repetitions, "seed": self.seed}
        if self.quick:
            changes |= {"name": f"{spec.name}, quick", **(quick_changes or {})}
        return spec.with_changes(**changes)

    def run(
        self, spec: ExperimentSpec, name: str = "run", *, record: dict[str, Any] | None = None
    ) -> "xr.Dataset":
        """Run an experiment in the folder `name` of the location, or resume it there.

        With `record`, which has the keys of the table [record] of a spec, episodes of the first
        repetition are recorded for `heirloom replay`, without tasks that the spec does not have.
        """
        if record is not None:
            tasks = [task for task in record["tasks"] if task <= spec.tasks]
            spec = spec.with_changes(record={**record, "tasks": tasks})
        if self.dry_run:
            raise DryRun(spec)
        workers = local_workers if self.compute is None else lambda: nullcontext(self.compute)
        return run_on(workers, spec, self.location / name)


class ResultTable(NamedTuple):
    """A table of results that a command prints below the claims."""

    title: str
    header: list[str]
    rows: list[list[str]]


@dataclass
class Report:
    """The outcome of an experiment."""

    summary: dict[str, Any]
    claims: list[Claim]
    figures: "dict[str, Figure]"
    notes: list[str] = field(default_factory=list)
    spec: ExperimentSpec | None = None
    """The experiment as it was run; None for a figure that is computed without agents."""
    more_specs: tuple[ExperimentSpec, ...] = ()
    """The specs of further runs, if the experiment consists of runs of different sizes."""
    tables: list[ResultTable] = field(default_factory=list)
    reference: dict[str, Any] | None = None
    """The comparison with the reference results that Heirloom ships, if there are any."""

    @property
    def specs(self) -> tuple[ExperimentSpec, ...]:
        """The specs of all runs; none for a figure that is computed without agents."""
        return () if self.spec is None else (self.spec, *self.more_specs)

    def write(self, location: Path) -> None:
        """Write `summary.json`, with the verdicts of claims, and each figure as PNG and PDF."""
        for name, figure in self.figures.items():
            for path, data in image_files(figure, name):
                write_output(location, path, data)
        content = {**self.summary, "claims": [claim._asdict() for claim in self.claims]}
        if self.reference is not None:
            content["reference"] = self.reference
        text = json.dumps(content, indent=2, allow_nan=False) + "\n"
        write_output(location, "summary.json", text.encode())


@dataclass(frozen=True)
class Experiment:
    """The registry entry of an experiment.

    Args:
        reproduce: runs or resumes the experiment and reports on it. The first line of its docstring
            is the summary.
        settings: returns the spec in a variant; None if the experiment has no agents and tasks.
        has_variants: whether the settings of the text and of the released scripts differ.
        n_runs: the number of runs that the experiment consists of, each of the size of its spec.
    """

    reproduce: Callable[[Options], Report]
    settings: Callable[..., ExperimentSpec] | None = None
    has_variants: bool = True
    n_runs: int = 1

    @property
    def summary(self) -> str:
        """A description of the experiment in one line."""
        return (self.reproduce.__doc__ or "").splitlines()[0]


def ratio(numerator: "xr.DataArray", denominator: "xr.DataArray") -> "xr.DataArray":
    """Divide two arrays; the ratio is NaN where the denominator is 0."""
    return numerator / denominator.where(denominator != 0)


def nan_to_none(numbers: np.ndarray) -> list[float | None]:
    """Return the numbers as a list for JSON, which has no NaN: None replaces what is not finite."""
    return [float(x) if np.isfinite(x) else None for x in np.atleast_1d(numbers)]
