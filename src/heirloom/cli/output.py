"""What commands print: tables, errors; and the names of the folders that they write to."""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import heirloom
from heirloom import signals
from heirloom.choices import Variant
from heirloom.errors import is_installed
from heirloom.wording import are, counted, counted_of, for_spreadsheet, printable, were

if TYPE_CHECKING:
    import xarray as xr
    from rich.console import Console
    from rich.table import Table

    from heirloom.experiments.spec import ExperimentSpec
    from heirloom.paper.experiment import Report
    from heirloom.runs.results import Summary
    from heirloom.runs.stored_run import Status, StoredRun
    from heirloom.stats import Interval

MAX_LISTED = 10  # jobs or files that are listed by name
MAX_AGENTS = 50  # agents that have a line of their own in a table


def print_report(report: "Report", title: str, location: Path) -> None:
    """Print each claim of an experiment next to the measured value."""
    from heirloom.report.page import default_page, write_report

    console = _console()
    table = _table(title, "claim", "origin", "measured", "verdict")
    for claim in report.claims:
        table.add_row(claim.statement, claim.whose, claim.measured, claim.verdict)
    console.print(table)
    if any(claim.verdict == "undecided" for claim in report.claims):
        console.print("More repetitions may decide the undecided claims.")
    for title, header, rows in report.tables:
        numbers = _table(title, *header)
        for row in rows:
            numbers.add_row(*row)
        console.print(numbers)
    for note in report.notes:
        console.print(note)
    if report.reference is not None:
        console.print(f"Reference results: {report.reference['conclusion']}")
    # Paths are not wrapped, so that they can be copied.
    console.print(f"Figures and summary.json are in {location}.", soft_wrap=True)
    if report.specs and not is_installed("bokeh"):
        console.print(
            f"A report needs Bokeh: `pip install '.[report]'` in the clone, then `heirloom report "
            f"{location}`.",
            soft_wrap=True,
        )
    elif report.specs:
        page = write_report(location, default_page([location]))
        console.print(f"The report is {page}: open it in a browser.", soft_wrap=True)


def print_status(run: "StoredRun") -> bool:
    """Print which jobs of a run are complete; return whether the whole run is."""
    console, status, spec = _console(), run.status(), run.spec
    console.print(_status_table(run, status))
    n, total = len(status.done), run.layout.n_jobs
    if status.is_complete:
        one = "The only job is complete and its checksum matches."
        every = f"All {total:,} jobs are complete and their checksums match."
        console.print(one if total == 1 else every)
    else:
        console.print(
            f"{counted_of(n, total, 'job')} {are(n)} complete and "
            f"{'its checksum matches' if n == 1 else 'their checksums match'}; "
            f"{len(status.missing)} {are(len(status.missing))} missing and "
            f"{len(status.damaged)} {are(len(status.damaged))} damaged.",
            soft_wrap=True,  # one line in a log or a pipe
        )
        damaged = [f"{spec.agents[i].name}, repetition {j + 1}" for i, j in status.damaged]
        for line in _first(damaged):
            console.print(f"Damaged: {line}.")
        if status.problem:
            console.print(f"{run.file} is damaged ({status.problem}).", soft_wrap=True)
        kept = "" if status.is_intact else " The damaged file is kept under another name."
        console.print(
            "To compute what is missing or damaged, repeat the command that started the run."
            + kept,
            soft_wrap=True,
        )
    _print_origins(run, status)
    return status.is_complete


def _status_table(run: "StoredRun", status: "Status") -> "Table":
    """Number of jobs in each state, for each agent; only the first of many agents."""
    title = f"{run.spec.name}: {run.location}"
    table = _table(title, "agent", "complete", "missing", "damaged")
    by_state = (status.done, status.missing, status.damaged)
    counts = [Counter(i for i, _ in jobs) for jobs in by_state]
    for i, agent in enumerate(run.spec.agents[:MAX_AGENTS]):
        table.add_row(agent.name, *(str(count[i]) for count in counts))
    if len(run.spec.agents) > MAX_AGENTS:
        others = counted(len(run.spec.agents) - MAX_AGENTS, "more agent")
        rest = (sum(n for i, n in count.items() if i >= MAX_AGENTS) for count in counts)
        table.add_row(others, *map(str, rest))
    return table


def _print_origins(run: "StoredRun", status: "Status") -> None:
    """Print how long the jobs took, where, and which versions computed which jobs."""
    from heirloom.runs.versions import differences, versions

    console = _console()
    if status.seconds > 0:
        console.print(
            f"Computation took {status.seconds:.1f} s in all, on "
            f"{counted(len(status.workers), 'worker')}."
        )
    here = versions()
    for group in status.by_versions:
        difference = differences(here, group.versions)
        if difference or len(status.by_versions) > 1:
            with_what = "; ".join(difference) or "the versions installed here"
            jobs = [f"{run.spec.agents[i].name}, repetition {j + 1}" for i, j in group.jobs]
            listed = "; ".join(_first(jobs))
            computed = f"{counted(len(jobs), 'job')} {were(len(jobs))} computed with"
            other = "other versions: " if difference else ""
            console.print(f"{computed} {other}{with_what} ({listed}).", soft_wrap=True)


def _first(lines: list[str]) -> list[str]:
    """Return the first lines, and the number of the others."""
    more = len(lines) - MAX_LISTED
    return lines if more <= 0 else [*lines[:MAX_LISTED], f"and {more} more"]


def print_size(specs: "Sequence[ExperimentSpec]", location: Path, jobs: int | None) -> None:
    """Print the sizes of runs, and an estimate of their time; nothing is written."""
    from heirloom.experiments.registry import no_exit
    from heirloom.runs.size import check_size, estimate_seconds
    from heirloom.runs.workers.process import processors

    console, n, seconds = _console(), jobs or processors(), 0.0
    for spec in specs:
        with no_exit("the code of a family, a measure or an agent"):
            size = check_size(spec, location)
            seconds += estimate_seconds(spec) / min(n, size.jobs)
        console.print(f"{spec.name}: {size}.", soft_wrap=True)
    console.print(
        f"Estimated time: {_shown_seconds(seconds)} with {counted(n, 'parallel job')} on this "
        "machine (extrapolated from parts of a few jobs).",
        soft_wrap=True,
    )
    console.print("Nothing was written.")


def _shown_seconds(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    text = f"{seconds:.2g}" if seconds < 10 else f"{seconds:.0f}"
    return f"{text} second" if text == "1" else f"{text} seconds"


def print_results(finished: "Mapping[str, xr.Dataset]", title: str) -> None:
    """Print the mean return of each agent, and its difference from a baseline, with intervals.

    Several results are those of a sweep, whose differing keys are shown.
    """
    from heirloom.runs.results import swept_summaries

    keys, rows = swept_summaries(finished)
    compared = "the baseline" if len(finished) > 1 else rows[0][2].baseline
    columns = ("agent", "mean return", f"difference from {compared}", "optimal return")
    table = _table(title, *keys, *columns, "updates per task")
    most = MAX_AGENTS if len(finished) == 1 else len(rows)
    for _, values, summary in rows[:most]:
        table.add_row(*values, *_summary_cells(summary))
    if len(rows) > most:
        table.add_row(counted(len(rows) - most, "more agent"), "", "", "", "")
    _console().print(table)


def _summary_cells(summary: "Summary") -> list[str]:
    """Return the cells of an agent; there is no interval for few or equal repetitions."""

    def shown(interval: "Interval | None", sign: str = "") -> str:
        if interval is None or (sign and interval.mean != interval.mean):
            return ""
        mean, half = interval
        if mean != mean:
            return "did not finish"
        return f"{mean:{sign}.4g}" + ("" if half != half else f" ± {half:.2g}")

    numbers = f"{summary.optimal:.4g}", f"{summary.updates:.1f}"
    return [summary.agent, shown(summary.mean), shown(summary.difference, "+"), *numbers]


def write_sweep(finished: "Mapping[str, xr.Dataset]", folder: Path) -> Path:
    """Write the table of a sweep, with one row per run and agent, as `sweep.csv`."""
    import csv
    import io

    from heirloom.runs.results import swept_summaries
    from heirloom.storage.files import write_output

    keys, rows = swept_summaries(finished)
    text = io.StringIO()
    writer = csv.writer(text)
    columns = ("agent", "mean_return", "ci95", "baseline", "difference", "difference_ci95")
    writer.writerow(["run", *keys, *columns, "optimal", "updates"])
    _check_own_table(folder / "sweep.csv", ",".join((*columns, "optimal", "updates")))
    for label, values, each in rows:
        compared = ("", "") if each.difference is None else each.difference
        cells = (label, *values, each.agent, *each.mean, each.baseline, *compared)
        shown = (for_spreadsheet(x) if isinstance(x, str) else x for x in cells)
        writer.writerow([*shown, each.optimal, each.updates])
    return write_output(folder, "sweep.csv", text.getvalue().encode())


def _check_own_table(file: Path, columns: str) -> None:
    """Raise `CannotWrite` if `file` is not a table of a sweep, which ends with these columns."""
    from heirloom.errors import CannotWrite

    if file.is_file():
        with open(file, encoding="utf-8", errors="replace") as lines:
            if not lines.readline(1_000_000).rstrip().endswith(columns):
                raise CannotWrite(
                    f"{file} is not a table of a sweep, so Heirloom does not replace it: move it "
                    "away and repeat the command, which computes nothing again"
                )


def write_figures(results: "xr.Dataset", title: str, folder: Path) -> Path:
    """Draw the mean returns per task and per episode, as PNG and PDF.

    Returns the folder that they are written to, `figures` in the folder of the run.
    """
    from heirloom.plot.curves import draw_episodes, draw_lifelong
    from heirloom.plot.style import image_files
    from heirloom.storage.files import write_output

    for name, draw in (("tasks", draw_lifelong), ("episodes", draw_episodes)):
        for path, data in image_files(draw(results, title=title), name):
            file = write_output(folder, path, data)
    return file.parent


def _console() -> "Console":
    """Return a console that prints names literally: neither markup nor control characters act."""
    from rich.console import Console

    class LiteralConsole(Console):
        def print(self, *objects: Any, **options: Any) -> None:
            """Print with control characters escaped."""
            shown = (printable(each) if isinstance(each, str) else each for each in objects)
            super().print(*shown, **options)

    return LiteralConsole(markup=False, highlight=False, emoji=False)


def _table(title: str, *columns: str) -> "Table":
    """Return a table whose cells are shown literally, and fold on narrow terminals."""
    from rich.table import Column, Table

    class LiteralTable(Table):
        def add_row(self, *cells: Any, **options: Any) -> None:
            """Add a row with control characters escaped."""
            super().add_row(*map(printable, cells), **options)

    headers = (Column(printable(name), overflow="fold") for name in columns)
    return LiteralTable(*headers, title=printable(title))


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


@contextmanager
def clean_errors() -> Iterator[None]:
    """Print errors as one line and exit with 1; on Ctrl-C or SIGTERM, exit with 130.

    After an interruption the message says how to resume.
    """
    try:
        with signals.restoring_interrupts():
            yield
    except heirloom.errors.HeirloomError as error:
        for line in str(error).split("\n"):  # one for each mistake
            typer.echo(f"error: {line}", err=True)
        raise typer.Exit(1) from None
    except MemoryError as error:
        typer.echo(
            f"error: not enough memory ({error}): use a smaller experiment or fewer jobs", err=True
        )
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        logging.disable()  # libraries would log the work that they could not finish
        typer.echo("stopped; run the same command again to resume", err=True)
        raise typer.Exit(130) from None
