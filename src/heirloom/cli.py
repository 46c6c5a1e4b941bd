"""The command `heirloom`: parse, call, print."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import heirloom

if TYPE_CHECKING:
    import xarray as xr

    from heirloom.reproduce import Report

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


class Experiment(StrEnum):
    """The paper's experiments."""

    tight = "tight"
    bounds = "bounds"


class Variant(StrEnum):
    """Settings of the text, or of the authors' released scripts."""

    text = "text"
    released = "released"


Name = Annotated[Experiment, typer.Argument(help="Which experiment.")]
Which = Annotated[Variant, typer.Option(help="As the text has it, or as the authors released it.")]
Jobs = Annotated[
    int | None, typer.Option(min=1, help="Processes at once; one a processor by default.")
]
Seed = Annotated[int | None, typer.Option(min=0, help="Of all random numbers.")]
Repetitions = Annotated[int | None, typer.Option(min=1, help="How often all is repeated.")]


@app.callback(invoke_without_command=True)
def main(
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Lifelong reinforcement learning, with transfer that does not hurt."""
    if version:
        typer.echo(f"heirloom {heirloom.__version__}")
        raise typer.Exit


@app.command()
def reproduce(
    experiment: Name,
    variant: Which = Variant.released,
    repetitions: Repetitions = None,
    seed: Seed = None,
    jobs: Jobs = None,
    out: Annotated[Path | None, typer.Option(help="The folder for all that comes out.")] = None,
) -> None:
    """Run an experiment of the paper, and print what it claims beside what was measured.

    A run that was stopped goes on with the same command.
    """
    with _clean_errors():
        from heirloom.reproduce import REPRODUCTIONS

        folder = out or _default_folder(experiment, variant, repetitions, seed)
        report = REPRODUCTIONS[experiment](
            variant.value, folder, repetitions=repetitions, seed=seed, jobs=jobs
        )
        report.write(folder)
        _print_report(report, f"{experiment} ({variant})", folder)


@app.command()
def run(
    spec: Annotated[Path, typer.Argument(help="An experiment as TOML; see `heirloom show`.")],
    out: Annotated[Path | None, typer.Option(help="The folder for results.")] = None,
    jobs: Jobs = None,
) -> None:
    """Run an experiment of your own.

    A run that was stopped goes on with the same command.
    """
    with _clean_errors():
        from heirloom.experiments.runner import run as run_experiment
        from heirloom.experiments.spec import ExperimentSpec

        experiment = ExperimentSpec.load(spec)
        folder = out or Path("results") / spec.stem
        results = run_experiment(experiment, folder, jobs=jobs)
        _print_results(results, experiment.name)
        typer.echo(f"Results are in {folder}; xarray.open_zarr opens them.")


@app.command("list")
def list_() -> None:
    """List experiments of the paper, families of tasks, and algorithms."""
    with _clean_errors():
        from heirloom.experiments.catalogue import ALGORITHMS, FAMILIES
        from heirloom.experiments.paper import EXPERIMENTS

        def summary(thing: object) -> str:
            return (thing.__doc__ or "").splitlines()[0]

        for title, entries in {
            "experiments": {name: summary(make) for name, make in EXPERIMENTS.items()},
            "families": {name: summary(make) for name, make in FAMILIES.items()},
            "algorithms": ALGORITHMS,
        }.items():
            typer.echo(f"{title}:")
            for name, what in entries.items():
                typer.echo(f"  {name:<14} {what}")


@app.command()
def show(experiment: Name, variant: Which = Variant.released) -> None:
    """Print the spec of an experiment of the paper, as TOML that `heirloom run` takes."""
    with _clean_errors():
        from heirloom.experiments.paper import EXPERIMENTS

        typer.echo(EXPERIMENTS[experiment](variant.value).to_toml(), nl=False)


@contextmanager
def _clean_errors() -> Iterator[None]:
    """A mistake gets one line, and Ctrl-C says how to go on."""
    try:
        yield
    except heirloom.HeirloomError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo("stopped; the same command goes on where this one was", err=True)
        raise typer.Exit(130) from None


def _default_folder(
    experiment: Experiment, variant: Variant, repetitions: int | None, seed: int | None
) -> Path:
    """A folder of its own for each experiment."""
    parts = [experiment.value, variant.value]
    parts += [f"{repetitions}-repetitions"] if repetitions is not None else []
    parts += [f"seed-{seed}"] if seed is not None else []
    return Path("results") / "-".join(parts)


def _print_report(report: "Report", title: str, folder: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table("the paper's claim", "measured", "holds", title=title)
    for claim in report.claims:
        table.add_row(claim.statement, claim.measured, "yes" if claim.holds else "no")
    console.print(table)
    for note in report.notes:
        console.print(note, highlight=False)
    console.print(f"Figures and summary.json are in {folder}.", highlight=False)
    sys.stdout.flush()


def _print_results(results: "xr.Dataset", title: str) -> None:
    from rich.console import Console
    from rich.table import Table

    from heirloom.stats import student_interval

    table = Table("agent", "mean return", "of the best", "updates a task", title=title)
    for name in results.agent.values:
        one = results.sel(agent=name)
        mean, half = student_interval(one.returns.mean(("task", "episode")).values)
        best = float((one.returns.mean("episode") / one.optimal).mean())
        row = f"{mean:.4g} ± {half:.2g}", f"{best:.1%}", f"{float(one.updates.mean()):.1f}"
        table.add_row(str(name), *row)
    Console().print(table)
