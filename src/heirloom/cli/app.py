"""The commands of `heirloom`."""

import io
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

import heirloom
from heirloom.choices import Format, Variant
from heirloom.cli import calculators
from heirloom.cli.arguments import (
    ALL,
    Address,
    Jobs,
    Name,
    Repetitions,
    Reproduction,
    Run,
    Seed,
    Where,
    Which,
)
from heirloom.cli.failures import clean_errors
from heirloom.cli.output import folder_name, print_report, print_results, print_status
from heirloom.paper.registry import MODULES

RESULTS = "results"
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # to load what draws boxes takes as long as all else of --help
)


@app.callback(invoke_without_command=True)
def main(
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Lifelong reinforcement learning, with transfer that does not hurt."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a log may have no Greek letters
    if version:
        typer.echo(f"heirloom {heirloom.__version__}")
        raise typer.Exit


@app.command()
def reproduce(
    experiment: Annotated[Reproduction, typer.Argument(help="Which experiment, or all of them.")],
    variant: Annotated[
        Variant | None,
        typer.Option(
            help="As the text has it, or as the authors released it: released by default, and "
            "both for `all`."
        ),
    ] = None,
    repetitions: Repetitions = None,
    seed: Seed = None,
    jobs: Jobs = None,
    backend: Where = "local",
    address: Address = None,
    out: Annotated[
        str | None, typer.Option(help="The folder or URL for all that comes out.")
    ] = None,
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="A look at less of all, marked as such.")
    ] = False,
) -> None:
    """Run an experiment of the paper, and judge its claims.

    What the paper claims is printed beside what was measured. A run that was stopped goes on with
    the same command.
    """
    with clean_errors():
        from heirloom.paper.reproducibility import reproducibility_table
        from heirloom.runs.workers import workers
        from heirloom.storage.location import Location

        everything = experiment == ALL
        names = list(MODULES) if everything else [experiment.value]
        root, ran = Location(out or RESULTS), {}
        with workers(backend, jobs=jobs, address=address) as compute:
            for name, one in _chosen(names, variant, both=everything):
                folder = folder_name(name, one, repetitions, seed, quick=quick)
                location = root / folder if everything or out is None else root
                how = location, repetitions, seed, quick, compute
                ran[name, one or "both"] = _reproduce_one(name, one, how)
        if everything:
            table = reproducibility_table(ran, quick=quick)
            root.write("reproducibility.md", table.encode())
            typer.echo(table)


def _chosen(
    names: list[str], variant: Variant | None, *, both: bool
) -> Iterator[tuple[str, Variant | None]]:
    """Each experiment with its variants, or with None if it has none."""
    from heirloom.paper.registry import experiment

    for name in names:
        if not experiment(name).has_variants:
            yield name, None
        elif variant is None and both:
            yield from ((name, one) for one in get_args(Variant))
        else:
            yield name, variant or "released"


def _reproduce_one(name: str, variant: Variant | None, how: Any) -> tuple[Any, float]:
    """Run an experiment and print its report; returns its spec and the seconds that it took."""
    from heirloom.paper import registry
    from heirloom.paper.experiment import Options

    options = Options(variant or "released", *how)
    started = time.monotonic()
    report = registry.reproduce(name, options)
    taken = time.monotonic() - started
    title = f"{name} ({variant})" if variant else name
    title += ", quick look" if options.quick else ""
    print_report(report, title, options.location)
    return report.spec, taken


@app.command()
def run(
    spec: Annotated[Path, typer.Argument(help="An experiment as TOML; see `heirloom show`.")],
    out: Annotated[str | None, typer.Option(help="The folder or URL for results.")] = None,
    jobs: Jobs = None,
    backend: Where = "local",
    address: Address = None,
) -> None:
    """Run an experiment of your own.

    A run that was stopped goes on with the same command.
    """
    with clean_errors():
        from heirloom.experiments.spec import ExperimentSpec
        from heirloom.runs.run import run as run_experiment

        # As `python -m heirloom` does: algorithms of one's own may be in this folder.
        sys.path.append(str(Path.cwd()))
        experiment = ExperimentSpec.load(spec)
        location = out or f"{RESULTS}/{spec.stem}"
        results = run_experiment(experiment, location, jobs=jobs, backend=backend, address=address)
        print_results(results, experiment.name)
        typer.echo(f"Results are in {location}; xarray.open_zarr opens them.")


@app.command()
def status(run: Run) -> None:
    """Tell what of a run is done, missing or damaged.

    All of it is read, and its checksums are checked. The exit status is 0 if all is there, as it
    was written, and 1 if not.
    """
    with clean_errors():
        from heirloom.runs.stored_run import StoredRun, runs_in

        complete = [print_status(StoredRun(location)) for location in runs_in(run)]
        if not all(complete):
            raise typer.Exit(1)


@app.command()
def export(
    run: Run,
    to: Annotated[Format, typer.Option(help="Tables as Parquet or CSV, or one netCDF file.")],
    out: Annotated[
        str | None,  # as a path it would lose a slash of what is no path
        typer.Option(help="The folder for tables, or the file; beside the run by default."),
    ] = None,
) -> None:
    """Write results for other programs, as tables or netCDF.

    Tables are tidy, with units and labels.
    """
    with clean_errors():
        from heirloom.runs.export import export as export_run
        from heirloom.runs.stored_run import StoredRun, runs_in
        from heirloom.storage.location import Location

        location, *others = runs_in(run)
        if others or location.name != Location(run).name:
            found = ", ".join(str(one) for one in (location, *others))
            raise heirloom.InvalidArgument(f"{run} is not a run, but has some ({found}): name one")
        beside = Path(location.name if location.is_local else location.name.rsplit("/", 1)[-1])
        if beside.name in ("", ".."):  # the folder that one is in, say
            beside = location.path
        ending = ".nc" if to == "netcdf" else f"-{to}"
        default = beside.with_name(beside.name + ending)
        exported = export_run(StoredRun(location), to, out or default)
        for file in exported.files:
            typer.echo(file)
        if exported.left_out:
            typer.echo(
                f"{exported.left_out} of {exported.jobs} units are missing or damaged and were "
                f"left out: `heirloom status {run}` tells which",
                err=True,
            )


@app.command("list")
def list_() -> None:
    """List experiments, families of tasks, algorithms and measures."""
    with clean_errors():
        from heirloom.agents.algorithms import ALGORITHMS
        from heirloom.experiments.observers import OBSERVERS
        from heirloom.experiments.registry import FAMILIES
        from heirloom.paper.registry import experiment

        def summary(thing: object) -> str:
            return (thing.__doc__ or "").splitlines()[0]

        for title, entries in {
            "experiments": {name: experiment(name).summary for name in MODULES},
            "families": {name: summary(make) for name, make in FAMILIES.items()},
            "algorithms": {name: one.summary() for name, one in ALGORITHMS.items()},
            "measures": {name: summary(one) for name, one in OBSERVERS.items()},
        }.items():
            typer.echo(f"{title}:")
            for name, what in entries.items():
                typer.echo(f"  {name:<21} {what}")


@app.command()
def show(experiment: Name, variant: Which = "released") -> None:
    """Print an experiment of the paper as TOML.

    `heirloom run` takes it, changed or not.
    """
    with clean_errors():
        from heirloom.paper import registry

        settings = registry.experiment(experiment).settings
        if settings is None:
            raise heirloom.InvalidArgument(
                f"{experiment} has no spec: it is a figure that `heirloom reproduce` draws"
            )
        typer.echo(settings(variant).to_toml(), nl=False)


app.add_typer(calculators.app, name="theory", help="The calculators of the theory.")
