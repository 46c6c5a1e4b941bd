"""Arguments and options that several commands share."""

from enum import StrEnum
from typing import Annotated

import typer

from heirloom.choices import Backend, Variant
from heirloom.paper.catalogue import GROUPS, MODULES
from heirloom.paper.settings import SEED

ALL = "all"
Experiment = StrEnum("Experiment", {name: name for name in MODULES})  # type: ignore[misc]
Reproduction = StrEnum("Reproduction", {name: name for name in (*MODULES, *GROUPS)})  # type: ignore[misc]

VARIANT_HELP = (
    "Settings: 'text' as the paper states them, 'released' as in the authors' scripts. Only tight, "
    "bounds, corridor and maze have variants."
)

ExperimentArgument = Annotated[
    Experiment,
    typer.Argument(metavar="EXPERIMENT", help="Name of the experiment; see `heirloom list`."),
]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="Folder of the run.")]
VariantOption = Annotated[Variant, typer.Option(help=VARIANT_HELP)]
JobsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Number of parallel jobs. Default: one per processor, or the size of the cluster.",
    ),
]
BackendOption = Annotated[
    Backend,
    typer.Option(help="Where jobs are computed: processes on this machine, or a Dask cluster."),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Address of the Dask cluster, tcp://HOST:8786 or a scheduler file. Default: start a "
        "cluster on this machine.",
    ),
]
DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Print the number of jobs and bytes and an estimate of the time, and exit.",
    ),
]
SeedOption = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help=f"Seed of all random numbers. Default: {SEED}."),
]
RepetitionsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Number of independent repetitions. Default: that of the experiment (see `heirloom "
        "show`), fewer with --quick.",
    ),
]
