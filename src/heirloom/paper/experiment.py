"""An experiment of the registry: its settings, its options, its report, and the table of all.

The paper's experiments have two variants. `text` has the settings that the paper states; `released`
has those of the authors' public scripts where they differ. They differ only in the settings below
and in the task families.

The paper solves values to a precision of 0.01. Heirloom uses the much smaller default of `solve`,
so that results do not depend on the iteration at which a solver stops.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from platform import machine, system
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from heirloom.choices import Variant
from heirloom.experiments.spec import ExperimentSpec
from heirloom.paper.catalogue import QUICK_NOTE
from heirloom.paper.claims import Claim
from heirloom.plot.style import image_files
from heirloom.runs.run import run_on
from heirloom.runs.versions import versions
from heirloom.runs.workers import workers as local_workers
from heirloom.runs.workers.compute import Compute
from heirloom.stats import student_interval
from heirloom.storage.files import write_output

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

FROZEN = {"refresh": "none"}
"""Known pairs are estimated once."""
COMMON = {"n_known": 10, **FROZEN, "epsilon": 0.01}
QUICK_REPETITIONS = 2


def defaults(variant: Variant, *, all_sources: bool = False) -> dict[str, Any]:
    """Return the options of all agents; with `all_sources`, the memory has no capacity limit."""
    is_text = variant == "text"
    common = {**COMMON, "delta": 0.05 if is_text else 0.1}
    return common if is_text or all_sources else {**common, "capacity": 1, "keep": "first"}


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

    @property
    def title_suffix(self) -> str:
        """The text that marks the title of a figure of a quick run."""
        return " (quick)" if self.quick else ""

    def apply(
        self,
        spec: ExperimentSpec,
        at_most: Mapping[str, int] = MappingProxyType({}),
        record: Mapping[str, Any] | None = None,
    ) -> ExperimentSpec:
        """Return the spec of an experiment with these options applied.

        A quick run has sizes of `at_most` these, and its name ends in "quick". `record` is the
        table [record] of the spec; tasks that the spec does not have are left out.
        """
        changes: dict[str, Any] = {"repetitions": self.repetitions, "seed": self.seed}
        if self.quick:
            changes["name"] = f"{spec.name}, quick"
            changes |= {key: min(getattr(spec, key), most) for key, most in at_most.items()}
            if self.repetitions is None:
                changes["repetitions"] = min(QUICK_REPETITIONS, spec.repetitions)
        changed = spec.with_changes(**changes)
        if record is None:
            return changed
        tasks = [task for task in record["tasks"] if task <= changed.tasks]
        return changed.with_changes(record={**record, "tasks": tasks})

    def run(self, spec: ExperimentSpec, name: str = "run") -> "xr.Dataset":
        """Run an experiment in the folder `name` of the location, or resume it there."""
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
    specs: Sequence[ExperimentSpec] = ()
    """The specs of all runs; none for a figure that is computed without agents."""
    tables: list[ResultTable] = field(default_factory=list)
    reference: dict[str, Any] | None = None
    """The comparison with the reference results that Heirloom ships, if there are any."""

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
        summary: a description in one line.
        reproduce: runs or resumes the experiment and reports on it.
        settings: returns the spec in a variant; None if the experiment has no agents and tasks.
        runs: returns the specs of all its runs, by the names of their folders.
        has_variants: whether the settings of the text and of the released scripts differ.
    """

    summary: str
    reproduce: Callable[[Options], Report]
    settings: Callable[..., ExperimentSpec] | None = None
    runs: Callable[[Options], dict[str, ExperimentSpec]] = lambda options: {}
    has_variants: bool = True

    @classmethod
    def of_one_run(
        cls,
        summary: str,
        settings: Callable[..., ExperimentSpec],
        report: "Callable[[ExperimentSpec, xr.Dataset], Report]",
        *,
        has_variants: bool = True,
        **applied: Any,
    ) -> "Experiment":
        """Return the entry of an experiment with one run; `applied` is given to `Options.apply`."""

        def runs(options: Options) -> dict[str, ExperimentSpec]:
            return {"run": options.apply(settings(options.variant), **applied)}

        def reproduce(options: Options) -> Report:
            (spec,) = runs(options).values()
            return report(spec, options.run(spec))

        return cls(summary, reproduce, settings, runs, has_variants)


def ratio(numerator: "xr.DataArray", denominator: "xr.DataArray") -> "xr.DataArray":
    """Divide two arrays; the ratio is NaN where the denominator is 0."""
    return numerator / denominator.where(denominator != 0)


def nan_to_none(numbers: np.ndarray) -> list[float | None]:
    """Return the numbers as a list for JSON, which has no NaN: None replaces what is not finite."""
    return [float(x) if np.isfinite(x) else None for x in np.atleast_1d(numbers)]


def interval_to_list(x: np.ndarray) -> list[float | None]:
    """Return the mean of x[repetition] and half the width of its interval as a list for JSON."""
    return nan_to_none(np.array(student_interval(x)))


SIZES = ("agents", "repetitions", "tasks", "episodes", "steps")
COLUMNS = ("experiment", "variant", *SIZES, "samples per agent", "seconds")


def reproducibility_table(
    completed: Mapping[tuple[str, Any], tuple[Sequence[ExperimentSpec], float]], *, quick: bool
) -> str:
    """Return the table as Markdown, with one row per experiment and variant.

    `completed` has the specs as they were run, none for a figure without agents, and the seconds
    taken. The number of samples is an upper bound on the steps of one agent in all repetitions,
    because episodes may terminate early. The seconds include drawing the figures, but not the jobs
    that an earlier call computed.
    """
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    for (name, variant), (specs, seconds) in completed.items():
        if not specs:
            rows.append((name, variant, *("",) * 6, f"{seconds:.1f}"))
            continue
        samples = sum(math.prod(sizes(spec)[1:]) for spec in specs)
        cells = (*size_cells(list(map(sizes, specs))), f"{samples:,}")
        rows.append((name, variant, *cells, f"{seconds:.1f}"))
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    used = ", ".join(f"{name} {version}" for name, version in versions().items())
    note = f"{QUICK_NOTE.capitalize()}.\n\n" if quick else ""
    return f"{note}{table}\n\n{system()} {machine()}; {used}.\n"


def sizes(spec: ExperimentSpec) -> tuple[int, ...]:
    """Return the numbers of agents, repetitions, tasks, episodes and steps of a run."""
    return len(spec.agents), spec.repetitions, spec.tasks, spec.episodes, spec.steps


def size_cells(runs: Sequence[Sequence[int]]) -> list[str]:
    """Return each size as text, as a range where it differs between the runs."""
    return [
        f"{min(of_runs):,}" if len(set(of_runs)) == 1 else f"{min(of_runs):,} to {max(of_runs):,}"
        for of_runs in zip(*runs, strict=True)
    ]
