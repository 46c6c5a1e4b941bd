"""The registered experiments, measured in full, and the first repetition of each, for the tests."""

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import xarray as xr

from heirloom.paper import catalogue
from heirloom.paper.experiment import Options, sizes
from heirloom.runs.results import results
from heirloom.runs.run import run


class Experiment(NamedTuple):
    """A registered experiment in one variant."""

    name: str
    variant: str

    @property
    def key(self) -> str:
        """Its name in `results/`."""
        return (
            self.name
            if not catalogue.experiment(self.name).has_variants
            else f"{self.name}-{self.variant}"
        )


EXPERIMENTS = [
    Experiment(name, variant)
    for name in catalogue.MODULES
    for variant in (("text", "released") if catalogue.experiment(name).has_variants else ("text",))
]
REPEATED = [e for e in EXPERIMENTS if catalogue.experiment(e.name).settings is not None]
"""The experiments that have repetitions."""
FIRST_RUN = {
    "negative-transfer": {"k": 1},
    "knowledge": {"family": "cliffs"},
    "certificates": {"study": "corridor"},
    "rivals": {"family": "corridor"},
}
"""Options of the settings of the run whose folder comes first, where there are several runs."""
FIRST_FOLDER = {"rivals": "tune-corridor"}
"""The folder of this run, where it is not the first of those that begin with run."""


def measure(experiment: Experiment, kept: Path | None = None) -> tuple[dict[str, Any], float]:
    """Run an experiment in full; return the results to store, and the seconds that it took.

    With `kept`, its runs are in this folder, and are resumed if they are there already.
    """
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) if kept is None else kept / experiment.key
        started = time.monotonic()
        report = catalogue.reproduce(experiment.name, Options(experiment.variant, folder))
        seconds = time.monotonic() - started
        measured: dict[str, Any] = {
            "claims": [claim._asdict() for claim in report.claims],
            "notes": report.notes,
            "summary": report.summary,
        }
        if report.specs:
            names = ("agents", "repetitions", "tasks", "episodes", "steps")
            columns = zip(*map(sizes, report.specs), strict=True)
            measured["size"] = {
                name: values[0] if len(set(values)) == 1 else [min(values), max(values)]
                for name, values in zip(names, columns, strict=True)
            }
            run_folder = sorted(folder.glob(FIRST_FOLDER.get(experiment.name, "run*")))[0]
            measured["first_repetition"] = summarise_first_repetition(results(run_folder))
    return measured, seconds


def run_first_repetition(experiment: Experiment) -> dict[str, Any]:
    """Run the first repetition only, and summarise it."""
    options = FIRST_RUN.get(experiment.name, {})
    spec = catalogue.experiment(experiment.name).settings(experiment.variant, **options)
    with TemporaryDirectory() as folder:
        results = run(spec.with_changes(repetitions=1), Path(folder) / "run", jobs=1)
        return summarise_first_repetition(results)


def summarise_first_repetition(results: xr.Dataset) -> dict[str, Any]:
    """Return mean returns and numbers of updates per task of the first repetition, by agent.

    They do not depend on the number of repetitions, and any change of results affects them.
    """
    first = results.isel(repetition=0)
    return {
        str(name): {
            "returns": first.returns.sel(agent=name).mean("episode").values.tolist(),
            "updates": first.updates.sel(agent=name).values.tolist(),
        }
        for name in results.agent.values
    }
