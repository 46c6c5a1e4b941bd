"""The command `heirloom replay`: how agents learned, step by step in one HTML file."""

from typing import Annotated

import typer

from heirloom.cli.arguments import RunArgument
from heirloom.cli.failures import clean_errors


def replay(
    run: RunArgument,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Name of an agent; repeat the option for several. Default: all."
        ),
    ] = None,
    repetition: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Index of a repetition, from 1. Default: all recorded."
        ),
    ] = None,
    task: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Index of a task, from 1. Default: all recorded."),
    ] = None,
    out: Annotated[
        str, typer.Option(metavar="PATH", help="The HTML file to write.")
    ] = "replay.html",
) -> None:
    """Write one HTML file that replays recorded learning.

    It shows the agents on the map of their task step by step, with their values, bounds and known
    pairs, and which earlier task each bound came from. The run must have recordings: its spec has
    `record = true`, or a table [record].
    """
    with clean_errors():
        from heirloom.report.replay import replay as write_replay

        path = write_replay(run, out, agents=agent or None, repetition=repetition, task=task)
        typer.echo(f"The replay is in {path}; open it in a browser.")
