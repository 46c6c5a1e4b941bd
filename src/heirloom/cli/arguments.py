"""The arguments and options that commands share."""

from enum import StrEnum
from typing import Annotated

import typer

from heirloom.choices import Backend, Variant
from heirloom.paper.registry import MODULES

ALL = "all"
Experiment = StrEnum("Experiment", {name: name for name in MODULES})  # type: ignore[misc]
Reproduction = StrEnum("Reproduction", {name: name for name in (*MODULES, ALL)})  # type: ignore[misc]

Name = Annotated[Experiment, typer.Argument(help="Which experiment.")]
Which = Annotated[Variant, typer.Option(help="As the text has it, or as the authors released it.")]
Jobs = Annotated[
    int | None,
    typer.Option(min=1, help="Units at once; one a processor, or all a cluster can, by default."),
]
Where = Annotated[
    Backend, typer.Option(help="Processes of this machine, a Dask cluster or a Ray cluster.")
]
Address = Annotated[
    str | None,
    typer.Option(
        help="Of the cluster: tcp://HOST:8786 or a scheduler file for Dask, auto or HOST:6379 for "
        "Ray. Without it one is started on this machine."
    ),
]
Run = Annotated[str, typer.Argument(help="The folder or URL of a run.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Of all random numbers.")]
Repetitions = Annotated[int | None, typer.Option(min=1, help="How often all is repeated.")]
