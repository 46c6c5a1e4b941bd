"""Tables that the command prints, and the names of folders that it writes to."""

from typing import TYPE_CHECKING

from heirloom.choices import Variant

if TYPE_CHECKING:
    import xarray as xr
    from rich.console import Console
    from rich.table import Table

    from heirloom.paper.experiment import Report
    from heirloom.runs.stored_run import StoredRun
    from heirloom.storage.location import Location

SHOWN = 10  # damaged units that are named


def print_report(report: "Report", title: str, location: "Location") -> None:
    """The claims of an experiment beside what was measured."""
    console = _console()
    table = _table(title, "claim", "whose", "measured", "holds")
    for claim in report.claims:
        verdict = {True: "yes", False: "no", None: "?"}[claim.holds]
        table.add_row(claim.statement, claim.whose, claim.measured, verdict)
    console.print(table)
    if any(claim.holds is None for claim in report.claims):
        console.print("There are too few repetitions to tell what holds.")
    for note in report.notes:
        console.print(note)
    console.print(f"Figures and summary.json are in {location}.")


def print_status(run: "StoredRun") -> bool:
    """Print what is there of a run; returns whether it is complete."""
    from heirloom.runs.versions import differences, versions

    console, status, spec = _console(), run.status(), run.spec
    table = _table(f"{spec.name}: {run.location}", "agent", "done", "missing", "damaged")
    for i, agent in enumerate(spec.agents):
        of = (status.done, status.missing, status.damaged)
        table.add_row(agent.name, *(str(sum(u[0] == i for u in jobs)) for jobs in of))
    console.print(table)
    total = len(run.jobs)
    if status.is_complete:
        console.print(f"All {total} units are there, and their checksums hold.")
    else:
        console.print(
            f"{len(status.done)} of {total} units are there, and their checksums hold; "
            f"{len(status.missing)} are missing, and {len(status.damaged)} damaged."
        )
        for i, j in status.damaged[:SHOWN]:
            console.print(f"Damaged: {spec.agents[i].name}, repetition {j + 1}.")
        if len(status.damaged) > SHOWN:
            console.print(f"And {len(status.damaged) - SHOWN} more.")
        if status.repairable:
            console.print(f"To be repaired: {', '.join(status.repairable)}.")
        console.print("The command that began the run computes what is missing.")
    for difference in differences(versions(), run.versions):
        console.print(f"The run was begun with other versions: {difference}.")
    return status.is_complete


def print_results(results: "xr.Dataset", title: str) -> None:
    """The mean return of each agent."""
    from heirloom.stats import student_interval

    table = _table(title, "agent", "mean return", "best possible", "updates a task")
    for name in results.agent.values:
        one = results.sel(agent=name)
        mean, half = student_interval(one.returns.mean(("task", "episode")).values)
        interval = "" if half != half else f" ± {half:.2g}"  # NaN is unlike itself
        best, updates = float(one.optimal.mean()), float(one.updates.mean())
        table.add_row(str(name), f"{mean:.4g}{interval}", f"{best:.4g}", f"{updates:.1f}")
    _console().print(table)


def _console() -> "Console":
    """Names are printed as they are, whatever brackets they hold."""
    from rich.console import Console

    return Console(markup=False, highlight=False)


def _table(title: str, *columns: str) -> "Table":
    from rich.table import Column, Table

    return Table(*(Column(name, overflow="fold") for name in columns), title=title)


def folder_name(
    experiment: str,
    variant: Variant | None,
    repetitions: int | None,
    seed: int | None,
    *,
    quick: bool,
) -> str:
    """A folder of its own for each experiment."""
    parts = [experiment] if variant is None else [experiment, variant]
    parts += ["quick"] if quick else []
    parts += [f"{repetitions}-repetitions"] if repetitions is not None else []
    parts += [f"seed-{seed}"] if seed is not None else []
    return "-".join(parts)
