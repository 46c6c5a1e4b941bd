"""Tables that commands print, and names of the folders that they write to."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from heirloom.choices import Variant
from heirloom.escaping import printable

if TYPE_CHECKING:
    import xarray as xr
    from rich.console import Console
    from rich.table import Table

    from heirloom.paper.experiment import Report
    from heirloom.runs.stored_run import StoredRun
    from heirloom.storage.location import Location

MAX_LISTED = 10  # damaged jobs that are listed by name


def print_report(report: "Report", title: str, location: "Location") -> None:
    """Print each claim of an experiment next to the measured value."""
    console = _console()
    table = _table(title, "claim", "origin", "measured", "confirmed")
    for claim in report.claims:
        verdict = {True: "yes", False: "no", None: "?"}[claim.holds]
        table.add_row(claim.statement, claim.whose, claim.measured, verdict)
    console.print(table)
    if any(claim.holds is None for claim in report.claims):
        console.print("There are too few repetitions to judge the claims marked '?'.")
    for title, header, rows in report.tables:
        numbers = _table(title, *header)
        for row in rows:
            numbers.add_row(*row)
        console.print(numbers)
    for note in report.notes:
        console.print(note)
    console.print(f"Figures and summary.json are in {location}.")


def print_status(run: "StoredRun") -> bool:
    """Print which jobs of a run are complete; return whether the whole run is."""
    from heirloom.runs.versions import differences, versions

    console, status, spec = _console(), run.status(), run.spec
    table = _table(f"{spec.name}: {run.location}", "agent", "complete", "missing", "damaged")
    for i, agent in enumerate(spec.agents):
        by_state = (status.done, status.missing, status.damaged)
        table.add_row(agent.name, *(str(sum(job[0] == i for job in jobs)) for jobs in by_state))
    console.print(table)
    total = len(run.jobs)
    if status.is_complete:
        console.print(f"All {total} jobs are complete and their checksums match.")
    else:
        console.print(
            f"{len(status.done)} of {total} jobs are complete and their checksums match; "
            f"{len(status.missing)} are missing and {len(status.damaged)} are damaged.",
            soft_wrap=True,  # one line in a log or a pipe
        )
        for i, j in status.damaged[:MAX_LISTED]:
            console.print(f"Damaged: {spec.agents[i].name}, repetition {j + 1}.")
        if len(status.damaged) > MAX_LISTED:
            console.print(f"And {len(status.damaged) - MAX_LISTED} more.")
        if status.repairable:
            console.print(f"Missing or damaged shared arrays: {', '.join(status.repairable)}.")
        console.print(
            "To recompute missing or damaged data, repeat the command that started the run."
        )
    for difference in differences(versions(), run.versions):
        console.print(f"The run was started with other versions: {difference}.")
    return status.is_complete


def print_results(results: "xr.Dataset", title: str) -> None:
    """Print the mean return of each agent with its confidence interval."""
    from heirloom.stats import student_interval

    table = _table(title, "agent", "mean return", "optimal return", "updates per task")
    for name in results.agent.values:
        of_agent = results.sel(agent=name)
        mean, half_width = student_interval(of_agent.returns.mean(("task", "episode")).values)
        # With one repetition there is no interval, and its half width is NaN.
        interval = "" if half_width != half_width else f" ± {half_width:.2g}"
        optimal, updates = float(of_agent.optimal.mean()), float(of_agent.updates.mean())
        table.add_row(str(name), f"{mean:.4g}{interval}", f"{optimal:.4g}", f"{updates:.1f}")
    _console().print(table)


def write_figures(results: "xr.Dataset", title: str, run: "Location") -> "Location":
    """Draw the mean returns per task and per episode, as PNG and PDF.

    Returns the folder that they are written to, which is beside the folder of the run.
    """
    from heirloom.figures.curves import draw_episodes, draw_lifelong
    from heirloom.figures.style import render
    from heirloom.storage.location import Location

    name = run.name.rstrip("/")
    if run.is_local and Path(name).name in ("", ".."):  # `.` or `..`
        name = str(run.path)
    location = Location(f"{name}-figures")
    for name, draw in (("tasks", draw_lifelong), ("episodes", draw_episodes)):
        figure = draw(results, title=title)
        for file_format in ("png", "pdf"):
            location.write(f"{name}.{file_format}", render(figure, file_format))
    return location


def _console() -> "Console":
    """Return a console that prints names literally: neither markup nor control characters act."""
    from rich.console import Console

    class Literal(Console):
        def print(self, *objects: Any, **options: Any) -> None:
            """Print with control characters escaped."""
            shown = (printable(each) if isinstance(each, str) else each for each in objects)
            super().print(*shown, **options)

    return Literal(markup=False, highlight=False, emoji=False)


def _table(title: str, *columns: str) -> "Table":
    """Return a table whose cells are shown literally, and fold on narrow terminals."""
    from rich.table import Column, Table

    class Literal(Table):
        def add_row(self, *cells: Any, **options: Any) -> None:
            """Add a row with control characters escaped."""
            super().add_row(*map(printable, cells), **options)

    headers = (Column(printable(name), overflow="fold") for name in columns)
    return Literal(*headers, title=printable(title))


def folder_name(
    experiment: str,
    variant: Variant | None,
    repetitions: int | None,
    seed: int | None,
    *,
    quick: bool,
) -> str:
    """Return a folder name that differs for each experiment and choice of options."""
    parts = [experiment] if variant is None else [experiment, variant]
    parts += ["quick"] if quick else []
    parts += [f"{repetitions}-repetitions"] if repetitions is not None else []
    parts += [f"seed-{seed}"] if seed is not None else []
    return "-".join(parts)
