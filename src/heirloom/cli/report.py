"""The command `heirloom report`."""

from pathlib import Path
from typing import Annotated

import typer

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
        from heirloom.report.page import write_report

        given = runs[0] if len(runs) == 1 else runs
        file = write_report(given, out or _default(runs), title=title, baseline=baseline)
        typer.echo(file)


def _default(runs: list[str]) -> Path:
    """Return the file to write if none is given; raise `CannotWrite` if a link is in its place."""
    from heirloom.cli.output import PAGE
    from heirloom.errors import CannotWrite
    from heirloom.storage.folders import folder_path, regular_file

    file = Path(PAGE) if len(runs) > 1 else folder_path(runs[0]) / PAGE
    regular_file(file, CannotWrite)
    return file
