"""`heirloom audit`: compare prior knowledge with the tasks in a saved memory."""

from pathlib import Path
from typing import Annotated

import typer

import heirloom
from heirloom.cli.failures import clean_errors

CONTRADICTED = 3  # exit status; 1 is that of errors, and 2 that of wrong options


def audit(
    memory: Annotated[
        Path,
        typer.Argument(
            metavar="MEMORY", help="File of a memory or of an agent, as `save` writes it."
        ),
    ],
    rewards: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Claim to test: largest difference of mean rewards between two tasks at any pair.",
        ),
    ] = None,
    transitions: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Claim to test: largest total variation of transitions between two tasks at any "
            "pair.",
        ),
    ] = None,
    d_max: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="Claim to test: largest distance D between the models of two tasks."
        ),
    ] = None,
    p_min: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="Claim to test: smallest probability of any task of the family."
        ),
    ] = None,
    delta: Annotated[
        float,
        typer.Option(metavar="X", help="Largest probability of contradicting a true claim."),
    ] = 0.05,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="File for a map of the differences, such as audit.pdf."),
    ] = None,
    *,
    exact: Annotated[
        bool, typer.Option("--exact", help="Treat learned models as exact (deterministic tasks).")
    ] = False,
) -> None:
    """Test a claim about how tasks differ on a saved memory.

    The claim is a nearness, given by both --rewards and --transitions, a d_max or a p_min. Without
    a claim, the command prints the differences between tasks. The file is not changed. The exit
    status is 0 if nothing contradicts the claim, 3 if something does, and 1 after an error.
    """
    with clean_errors():
        nearness = _nearness(rewards, transitions, {"--d-max": d_max, "--p-min": p_min})
        tasks = heirloom.TaskMemory.load(memory)
        result = heirloom.audit(tasks, nearness, d_max=d_max, p_min=p_min, exact=exact, delta=delta)
        typer.echo(repr(result))
        if figure is not None:
            drawn = heirloom.plot.draw_audit(result)
            heirloom.plot.save_figure(drawn, figure)
    if result.contradicted:
        raise typer.Exit(CONTRADICTED)


def _nearness(
    rewards: float | None, transitions: float | None, others: dict[str, float | None]
) -> "heirloom.Nearness | None":
    """Return the nearness to test, if it is the claim; raise unless there is one claim at most."""
    options = {"--rewards": rewards, "--transitions": transitions, **others}
    given = [name for name, value in options.items() if value is not None]
    if rewards is not None and transitions is not None and len(given) == 2:
        return heirloom.Nearness(rewards=rewards, transitions=transitions)
    if len(given) > 1:
        raise heirloom.errors.InvalidArgument(
            f"{' and '.join(given)} were given: test one claim at a time"
        )
    if given in (["--rewards"], ["--transitions"]):
        other = "--transitions" if transitions is None else "--rewards"
        raise heirloom.errors.InvalidArgument(
            f"{other} is missing: a nearness has both; 0 claims that tasks do not differ"
        )
    return None
