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
            help="Folders or URLs of runs, or of folders that contain runs, as `heirloom "
            "reproduce` writes them.",
        ),
    ],
    out: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="The file to write. Default: RUN-report.html beside a run, report.html in a "
            "folder of runs, and report.html in the current folder for several runs or a URL.",
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
        from heirloom.reporting.page import report as write_report

        given = runs[0] if len(runs) == 1 else runs
        file = write_report(given, out or _default(runs), title=title, baseline=baseline)
        typer.echo(file)


def _default(runs: list[str]) -> Path:
    """Return the file to write if none is given."""
    from heirloom.cli.output import PAGE
    from heirloom.runs.finding import runs_in
    from heirloom.storage.location import Location

    location = Location(runs[0])
    if len(runs) > 1 or not location.is_local:
        return Path(PAGE)
    if runs_in(location)[0].name != location.name:
        return location.path / PAGE
    return location.path.with_name(f"{location.path.name}-{PAGE}")
