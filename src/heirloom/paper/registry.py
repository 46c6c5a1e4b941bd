"""Every experiment that `heirloom` can reproduce: the one list of their names.

A module that is named here has an `EXPERIMENT`. It is imported when it is used, so that the command
line knows all names without loading anything.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from heirloom.paper.experiment import Experiment, Options, Report

MODULES = {
    "tight": "heirloom.paper.tight",
    "bounds": "heirloom.paper.bounds",
    "corridor": "heirloom.paper.corridor",
    "maze": "heirloom.paper.maze",
    "prior-use": "heirloom.paper.prior_use",
    "negative-transfer": "heirloom.paper.negative_transfer",
    "bounds-illustration": "heirloom.paper.bounds_illustration",
    "prior-illustration": "heirloom.paper.prior_illustration",
}


def experiment(name: str) -> "Experiment":
    """The experiment of this name."""
    entry: Experiment = import_module(MODULES[name]).EXPERIMENT
    return entry


def reproduce(name: str, options: "Options") -> "Report":
    """Run an experiment, or continue it, and write what comes out of it to its location."""
    entry = experiment(name)
    report = entry.reproduce(options)
    head = {"experiment": name, "variant": options.variant if entry.has_variants else "both"}
    if options.quick:
        head["quick"] = (
            "a quick look, with few repetitions and less of all else, not the experiment"
        )
    report.summary = {**head, **report.summary}
    report.write(options.location)
    return report
