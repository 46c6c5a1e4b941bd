"""The commands that write HTML pages: `heirloom report` and `heirloom replay`."""

from typing import Annotated

import typer

from heirloom.cli.arguments import RunArgument
from heirloom.cli.failures import clean_errors


def report(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="Folders of runs, or folders that contain runs, as `heirloom reproduce` writes "
            "them.",
        ),
    ],
    out: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="The file to write. Default: report.html in the folder, or in the current folder "
            "for several.",
        ),
    ] = None,
    title: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Title of the page. Default: the name of the experiment."
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Agent that others are compared with. Default: RMax, or the first agent.",
        ),
    ] = None,
) -> None:
    """Write an HTML report about runs.

    It has curves, a table of agents, where transfer came from, and claims. The page is one file
    that opens in a browser without a network. With several runs it also shows their differences.
    """
    with clean_errors():
        from heirloom.report.page import default_page, write_report

        given = runs[0] if len(runs) == 1 else runs
        file = write_report(given, out or default_page(runs), title=title, baseline=baseline)
        typer.echo(file)


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
