"""An experiment of the registry: its settings, how it is run and reported, and what it reports."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.choices import Variant
from heirloom.experiments.spec import ExperimentSpec
from heirloom.figures.style import rendered
from heirloom.paper.claims import Claim
from heirloom.runs.run import run_on
from heirloom.runs.workers import workers as local_workers
from heirloom.runs.workers.compute import Compute
from heirloom.stats import Interval, student_interval
from heirloom.storage.location import Location

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

QUICK = 2  # repetitions of a quick look
FEW = 3  # with fewer repetitions an interval is wider than anything it could show


@dataclass(frozen=True)
class Options:
    """How an experiment is to be run."""

    variant: Variant
    location: Location
    repetitions: int | None = None
    seed: int | None = None
    quick: bool = False
    compute: Compute | None = None
    """Workers that were started already; local processes by default."""

    @property
    def mark(self) -> str:
        """What is added to the title of a figure that is only a quick look."""
        return " (quick)" if self.quick else ""

    def apply(self, spec: ExperimentSpec, shorter: dict[str, int] | None = None) -> ExperimentSpec:
        """The spec with these numbers; a quick one says so in its name, and may be shorter."""
        repetitions = self.repetitions
        if self.quick and repetitions is None:
            repetitions = min(QUICK, spec.repetitions)
        changes: dict[str, Any] = {"repetitions": repetitions, "seed": self.seed}
        if self.quick:
            changes |= {"name": f"{spec.name}, quick", **(shorter or {})}
        return spec.with_changes(**changes)

    def run(self, spec: ExperimentSpec, name: str = "run") -> "xr.Dataset":
        """Run an experiment below the location of all, or continue it."""
        workers = local_workers if self.compute is None else lambda: nullcontext(self.compute)
        return run_on(workers, spec, self.location / name)


@dataclass
class Report:
    """What came out of an experiment."""

    summary: dict[str, Any]
    claims: list[Claim]
    figures: "dict[str, Figure]"
    notes: list[str] = field(default_factory=list)
    spec: ExperimentSpec | None = None
    """The experiment as it was run, if it is one."""

    def write(self, location: Location) -> None:
        """Write `summary.json`, and each figure as PNG and PDF."""
        for name, figure in self.figures.items():
            for ending in ("png", "pdf"):
                location.write(f"figures/{name}.{ending}", rendered(figure, ending))
        text = json.dumps(self.summary, indent=2, allow_nan=False) + "\n"
        location.write("summary.json", text.encode())


@dataclass(frozen=True)
class Experiment:
    """What `reproduce`, `list`, `show` and the reproducibility table know of an experiment.

    Args:
        reproduce: runs it, or continues it, and reports; its docstring is the summary.
        settings: its settings in a variant; None if it is no experiment of agents and tasks.
        has_variants: whether the settings of the text and of the released scripts differ.
        n_runs: how many runs it consists of, each of the size of its spec.
    """

    reproduce: Callable[[Options], Report]
    settings: Callable[..., ExperimentSpec] | None = None
    has_variants: bool = True
    n_runs: int = 1

    @property
    def summary(self) -> str:
        """One line on what it is."""
        return (self.reproduce.__doc__ or "").splitlines()[0]


def over(one: "xr.DataArray", baseline: "xr.DataArray") -> "xr.DataArray":
    """A ratio; NaN where there is nothing to compare with."""
    return one / baseline.where(baseline != 0)


def or_none(numbers: np.ndarray) -> list[float | None]:
    """JSON has no NaN: with one repetition, say, there is no interval."""
    return [float(x) if np.isfinite(x) else None for x in np.atleast_1d(numbers)]


def band(values: np.ndarray) -> Interval:
    """A mean over repetitions with its interval, for a figure; without if there are too few."""
    interval = student_interval(values)
    if values.shape[0] >= FEW:
        return interval
    return Interval(interval.mean, np.full_like(interval.mean, np.nan))
