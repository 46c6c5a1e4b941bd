"""The paper's experiments, measured in full, and the first repetition of each, to be checked."""

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import xarray as xr

from heirloom.paper import registry
from heirloom.paper.experiment import Options
from heirloom.runs.run import run
from heirloom.storage.location import Location


class Experiment(NamedTuple):
    """An experiment of the paper in one variant."""

    name: str
    variant: str

    @property
    def key(self) -> str:
        """Its name among the results."""
        return (
            self.name
            if not registry.experiment(self.name).has_variants
            else f"{self.name}-{self.variant}"
        )


EXPERIMENTS = [
    Experiment(name, variant)
    for name in registry.MODULES
    for variant in (("text", "released") if registry.experiment(name).has_variants else ("text",))
]
CHECKED = [one for one in EXPERIMENTS if registry.experiment(one.name).settings is not None]
"""Those that have repetitions."""


def measure(experiment: Experiment) -> tuple[dict[str, Any], float]:
    """Run an experiment in full; returns what is kept of it, and the seconds it took."""
    with TemporaryDirectory() as folder:
        started = time.monotonic()
        report = registry.reproduce(experiment.name, Options(experiment.variant, Location(folder)))
        taken = time.monotonic() - started
        measured: dict[str, Any] = {
            "claims": [claim._asdict() for claim in report.claims],
            "notes": report.notes,
            "summary": report.summary,
        }
        if report.spec is not None:
            names = ("repetitions", "tasks", "episodes", "steps")
            measured["size"] = {
                "agents": len(report.spec.agents),
                **{name: getattr(report.spec, name) for name in names},
            }
            run_folder = sorted(Path(folder).glob("run*"))[0]
            measured["first_repetition"] = of_first_repetition(xr.open_zarr(run_folder))
    return measured, taken


def first_repetition(experiment: Experiment) -> dict[str, Any]:
    """The first repetition alone, as the code gives it now."""
    options = {"k": 1} if experiment.name == "negative-transfer" else {}
    spec = registry.experiment(experiment.name).settings(experiment.variant, **options)
    with TemporaryDirectory() as folder:
        results = run(spec.with_changes(repetitions=1), Path(folder) / "run", jobs=1)
        return of_first_repetition(results.load())


def of_first_repetition(results: xr.Dataset) -> dict[str, Any]:
    """Mean returns and the number of updates in each task of the first repetition, by agent.

    It does not depend on how many repetitions there are, and a change of results shows in it.
    """
    first = results.isel(repetition=0)
    return {
        str(name): {
            "returns": first.returns.sel(agent=name).mean("episode").values.tolist(),
            "updates": first.updates.sel(agent=name).values.tolist(),
        }
        for name in results.agent.values
    }
