"""`heirloom audit`: compare prior knowledge with the tasks in a saved memory."""

from pathlib import Path
from typing import Annotated

import typer

import heirloom
from heirloom.cli.failures import clean_errors

CONTRADICTED = 3  # exit status; 1 is that of errors, and 2 that of wrong options


def audit(
    memory: Annotated[
        Path, typer.Argument(help="File of a memory or of an agent, as `save` writes it.")
    ],
    rewards: Annotated[
        float | None,
        typer.Option(help="Largest difference of mean rewards, of a nearness."),
    ] = None,
    transitions: Annotated[
        float | None,
        typer.Option(help="Largest total variation of transitions, of a nearness."),
    ] = None,
    d_max: Annotated[
        float | None, typer.Option(help="Largest distance between the models of two tasks.")
    ] = None,
    p_min: Annotated[float | None, typer.Option(help="Smallest probability of a task.")] = None,
    delta: Annotated[
        float, typer.Option(help="Probability that a true claim is contradicted.")
    ] = 0.05,
    figure: Annotated[
        Path | None, typer.Option(help="File for a map of the differences, such as audit.pdf.")
    ] = None,
    *,
    exact: Annotated[
        bool, typer.Option("--exact", help="Compare models as exact, not as estimates.")
    ] = False,
) -> None:
    """Compare a nearness, a d_max or a p_min with what was learned, and print the result.

    A nearness is given by --rewards and --transitions (each 0 by default if the other is given).
    Without knowledge, the command prints the differences between tasks. The file is only read. The
    exit status is 0 if nothing contradicts the knowledge, 3 if something does, and 1 after an
    error.
    """
    with clean_errors():
        nearness = None
        if rewards is not None or transitions is not None:
            nearness = heirloom.Nearness(rewards=rewards or 0.0, transitions=transitions or 0.0)
        result = heirloom.audit(
            _memory(memory), nearness, d_max=d_max, p_min=p_min, exact=exact, delta=delta
        )
        typer.echo(repr(result))
        if figure is not None:
            drawn = heirloom.draw_audit(result)
            heirloom.save_figure(drawn, figure)
    if result.contradicted:
        raise typer.Exit(CONTRADICTED)


def _memory(path: Path) -> "heirloom.TaskMemory":
    """Return the memory in a file, which may be that of an agent with any bounds."""
    from heirloom.storage import archive
    from heirloom.transfer import memory_file

    try:
        return heirloom.TaskMemory.load(path)
    except heirloom.InvalidFile as error:
        if "of kind 'agent'" not in str(error):
            raise
    header, arrays = archive.read(path, "agent")
    content = archive.Content(header["memory"], arrays)
    return memory_file.unpacked(heirloom.TaskMemory, content, str(path))
