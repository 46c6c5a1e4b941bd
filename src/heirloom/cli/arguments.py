"""Arguments and options that several commands share."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from heirloom.choices import Backend, Variant
from heirloom.paper.catalogue import GROUPS, MODULES, SEED


def argument(metavar: str, text: str) -> Any:
    """Declare an argument of a command."""
    return typer.Argument(metavar=metavar, help=text)


def value(metavar: str, text: str) -> Any:
    """Declare an option with a value."""
    return typer.Option(metavar=metavar, help=text)


def count(text: str, least: int = 1) -> Any:
    """Declare an option that is a whole number."""
    return typer.Option(min=least, metavar="N", help=text)


def number(text: str, least: float | None = None) -> Any:
    """Declare an option that is a number."""
    return typer.Option(min=least, metavar="X", help=text)


def flag(name: str, text: str) -> Any:
    """Declare an option without a value."""
    return typer.Option(name, help=text)


ALL = "all"
Experiment = StrEnum("Experiment", {name: name for name in MODULES})  # type: ignore[misc]
Reproduction = StrEnum("Reproduction", {name: name for name in (*MODULES, *GROUPS)})  # type: ignore[misc]

VARIANT_HELP = (
    "Settings: 'text' as the paper states them, 'released' as in the authors' scripts. Only tight, "
    "bounds, corridor and maze have variants."
)

ExperimentArgument = Annotated[
    Experiment, argument("EXPERIMENT", "Name of the experiment; see `heirloom list`.")
]
RunArgument = Annotated[str, argument("RUN", "Folder of the run.")]
VariantOption = Annotated[Variant, typer.Option(help=VARIANT_HELP)]
JobsOption = Annotated[
    int | None,
    count("Number of parallel jobs. Default: one per processor, or the size of the cluster."),
]
BackendOption = Annotated[
    Backend,
    typer.Option(help="Where jobs are computed: processes on this machine, or a Dask cluster."),
]
AddressOption = Annotated[
    str | None,
    value(
        "ADDRESS",
        "Address of the Dask cluster, tcp://HOST:8786 or a scheduler file. Default: start a "
        "cluster on this machine.",
    ),
]
DryRunOption = Annotated[
    bool,
    flag("--dry-run", "Print the number of jobs and bytes and an estimate of the time, and exit."),
]
SeedOption = Annotated[int | None, count(f"Seed of all random numbers. Default: {SEED}.", least=0)]
RepetitionsOption = Annotated[
    int | None,
    count(
        "Number of independent repetitions. Default: that of the experiment (see `heirloom "
        "show`), fewer with --quick."
    ),
]
