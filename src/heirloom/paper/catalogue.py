"""Registry of the experiments that `heirloom` can reproduce.

Each module named here defines `EXPERIMENT`, or the entry after the colon. Modules are imported on
first use, so the command line knows all names without importing them.
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
    "bounds-illustration": "heirloom.paper.illustrations:BOUNDS",
    "prior-illustration": "heirloom.paper.illustrations:PRIOR",
    "knowledge": "heirloom.paper.knowledge",
    "certificates": "heirloom.paper.certificates",
    "rivals": "heirloom.paper.rivals",
}
GROUPS = {"figure-3": ("tight", "bounds"), "all": tuple(MODULES)}
"""Names that stand for several experiments: those of figures 3a to 3d, and all."""
SEED = 20210202  # the date of the conference
QUICK_NOTE = "quick run: fewer repetitions and smaller sizes than the full experiment"


def experiment(name: str) -> "Experiment":
    """Return the experiment of this name."""
    module, _, entry = MODULES[name].partition(":")
    found: Experiment = getattr(import_module(module), entry or "EXPERIMENT")
    return found


def reproduce(name: str, options: "Options") -> "Report":
    """Run or resume an experiment, and write its summary and figures to its location."""
    from heirloom.paper.reference import compare, reference_name

    entry = experiment(name)
    report = entry.reproduce(options)
    head = {"experiment": name, "variant": options.variant if entry.has_variants else "both"}
    if options.quick:
        head["quick"] = QUICK_NOTE
    report.summary = {**head, **report.summary}
    if report.specs:
        variant = options.variant if entry.has_variants else None
        report.reference = compare(options.location, reference_name(name, variant))
    report.write(options.location)
    return report
