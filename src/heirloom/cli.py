"""The command `heirloom`: parse, call, print."""

import io
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import heirloom
from heirloom import signals
from heirloom.choices import Backend, Format, Variant
from heirloom.paper.registry import MODULES

if TYPE_CHECKING:
    import xarray as xr
    from rich.console import Console
    from rich.table import Table

    from heirloom.paper.experiment import Report
    from heirloom.runs.stored_run import StoredRun
    from heirloom.storage.location import Location

RESULTS = "results"
SHOWN = 10  # damaged units that are named
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # to load what draws boxes takes as long as all else of --help
)


ALL = "all"
Experiment = StrEnum("Experiment", {name: name for name in MODULES})  # type: ignore[misc]
Reproduction = StrEnum("Reproduction", {name: name for name in (*MODULES, ALL)})  # type: ignore[misc]


Name = Annotated[Experiment, typer.Argument(help="Which experiment.")]
Which = Annotated[Variant, typer.Option(help="As the text has it, or as the authors released it.")]
Jobs = Annotated[
    int | None,
    typer.Option(min=1, help="Units at once; one a processor, or all a cluster can, by default."),
]
Where = Annotated[
    Backend, typer.Option(help="Processes of this machine, a Dask cluster or a Ray cluster.")
]
Address = Annotated[
    str | None,
    typer.Option(
        help="Of the cluster: tcp://HOST:8786 or a scheduler file for Dask, auto or HOST:6379 for "
        "Ray. Without it one is started on this machine."
    ),
]
Run = Annotated[str, typer.Argument(help="The folder or URL of a run.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Of all random numbers.")]
Repetitions = Annotated[int | None, typer.Option(min=1, help="How often all is repeated.")]


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
    with _clean_errors():
        from heirloom.paper import registry
        from heirloom.paper.experiment import Options
        from heirloom.paper.reproducibility import reproducibility_table
        from heirloom.runs.workers import workers
        from heirloom.storage.location import Location

        everything = experiment == ALL
        names = list(MODULES) if everything else [experiment.value]
        ran = {}
        root = Location(out or RESULTS)
        with workers(backend, jobs=jobs, address=address) as compute:
            for name in names:
                has_variants = registry.experiment(name).has_variants
                for one in _variants(variant, both=everything and has_variants):
                    label = one if has_variants else None
                    folder = _folder_name(name, label, repetitions, seed, quick=quick)
                    place = root / folder if everything or out is None else root
                    options = Options(one, place, repetitions, seed, quick, compute)
                    started = time.monotonic()
                    report = registry.reproduce(name, options)
                    ran[name, label or "both"] = report.spec, time.monotonic() - started
                    title = f"{name} ({label})" if label else name
                    title += ", quick look" if quick else ""
                    _print_report(report, title, place)
        if everything:
            table = reproducibility_table(ran, quick=quick)
            root.write("reproducibility.md", table.encode())
            typer.echo(table)


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
    with _clean_errors():
        from heirloom.experiments.spec import ExperimentSpec
        from heirloom.runs.run import run as run_experiment

        experiment = ExperimentSpec.load(spec)
        place = out or f"{RESULTS}/{spec.stem}"
        results = run_experiment(experiment, place, jobs=jobs, backend=backend, address=address)
        _print_results(results, experiment.name)
        typer.echo(f"Results are in {place}; xarray.open_zarr opens them.")


@app.command()
def status(run: Run) -> None:
    """Tell what of a run is done, missing or damaged.

    All of it is read, and its checksums are checked. The exit status is 0 if all is there, as it
    was written, and 1 if not.
    """
    with _clean_errors():
        from heirloom.runs.stored_run import StoredRun, runs_in

        complete = [_print_status(StoredRun(place)) for place in runs_in(run)]
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
    with _clean_errors():
        from heirloom.runs.export import export as export_run
        from heirloom.runs.stored_run import StoredRun, runs_in
        from heirloom.storage.location import Location

        place, *others = runs_in(run)
        if others or place.name != Location(run).name:
            found = ", ".join(str(one) for one in (place, *others))
            raise heirloom.InvalidArgument(f"{run} is not a run, but has some ({found}): name one")
        beside = Path(place.name if place.is_local else place.name.rsplit("/", 1)[-1])
        if beside.name in ("", ".."):  # the folder that one is in, say
            beside = place.path
        ending = ".nc" if to == "netcdf" else f"-{to}"
        default = beside.with_name(beside.name + ending)
        exported = export_run(StoredRun(place), to, out or default)
        for file in exported.files:
            typer.echo(file)
        if exported.left_out:
            typer.echo(
                f"{exported.left_out} of {exported.units} units are missing or damaged and were "
                f"left out: `heirloom status {run}` tells which",
                err=True,
            )


@app.command("list")
def list_() -> None:
    """List experiments, families of tasks, and algorithms."""
    with _clean_errors():
        from heirloom.agents.algorithms import ALGORITHMS
        from heirloom.experiments.registry import FAMILIES
        from heirloom.paper.registry import experiment

        def summary(thing: object) -> str:
            return (thing.__doc__ or "").splitlines()[0]

        for title, entries in {
            "experiments": {name: experiment(name).summary for name in MODULES},
            "families": {name: summary(make) for name, make in FAMILIES.items()},
            "algorithms": {name: one.summary() for name, one in ALGORITHMS.items()},
        }.items():
            typer.echo(f"{title}:")
            for name, what in entries.items():
                typer.echo(f"  {name:<21} {what}")


@app.command()
def show(experiment: Name, variant: Which = "released") -> None:
    """Print an experiment of the paper as TOML.

    `heirloom run` takes it, changed or not.
    """
    with _clean_errors():
        from heirloom.paper import registry

        settings = registry.experiment(experiment).settings
        if settings is None:
            raise heirloom.InvalidArgument(
                f"{experiment} has no spec: it is a figure that `heirloom reproduce` draws"
            )
        typer.echo(settings(variant).to_toml(), nl=False)


theory = typer.Typer(
    no_args_is_help=True, help="The calculators of the theory.", rich_markup_mode=None
)
app.add_typer(theory, name="theory")

States = Annotated[int, typer.Option(min=1, help="The number of states.")]
Actions = Annotated[int, typer.Option(min=1, help="The number of actions.")]
Sources = Annotated[int, typer.Option(min=0, help="The number of sources.")]
Epsilon = Annotated[float, typer.Option(help="The accuracy.")]
Delta = Annotated[float, typer.Option(help="The probability of failure.")]


@theory.command("n-known")
def n_known(
    states: States, actions: Actions, epsilon: Epsilon, delta: Delta = 0.05, sources: Sources = 0
) -> None:
    """After how many visits a pair is known to an accuracy."""
    with _clean_errors():
        n = heirloom.n_known_for(states, actions, epsilon=epsilon, delta=delta, n_sources=sources)
        typer.echo(f"n_known = {n:,}")


@theory.command()
def tasks(
    p_min: Annotated[float, typer.Option(help="The least probability of a task.")],
    delta: Delta = 0.05,
) -> None:
    """How many tasks MaxQInit and a learned D_max need."""
    with _clean_errors():
        for what, n in (
            ("MaxQInit", heirloom.tasks_for_max_q(p_min, delta)),
            ("a learned D_max", heirloom.tasks_for_distance(p_min, delta)),
        ):
            typer.echo(f"{what} needs {n:,} tasks, and is used from task {n + 1:,} on")


@theory.command()
def computations(
    states: States,
    actions: Actions,
    sources: Sources,
    gamma: Annotated[float, typer.Option(help="The discount factor.")] = 0.9,
    precision: Annotated[float, typer.Option(help="Of values.")] = 0.01,
) -> None:
    """How many dynamic programs a task takes.

    At most, and how many sweeps each of them.
    """
    with _clean_errors():
        programs = heirloom.dynamic_programs(states, actions, sources)
        sweeps = heirloom.value_iterations(gamma, precision)
        typer.echo(f"{programs:,} dynamic programs of {sweeps:,} sweeps each, at most")


@theory.command("pairs-to-learn")
def pairs_to_learn(
    family: Annotated[str, typer.Argument(help="A family; see `heirloom list`.")] = "tight",
    d_max: Annotated[float, typer.Option(min=0, help="The prior of LRMax.")] = 0.1,
    epsilon: Epsilon = 0.01,
    n_known: Annotated[int, typer.Option(min=1, help="Visits that make a pair known.")] = 10,
    episodes: Annotated[int, typer.Option(min=1, help="Of the source task.")] = 2000,
    steps: Annotated[int, typer.Option(min=1, help="Of an episode.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Which tasks are drawn.")] = 0,
) -> None:
    """How many pairs there are to be learned.

    Those that the sample complexity counts, U >= V* - ε, with one source and without.
    """
    with _clean_errors():
        from heirloom.experiments.registry import make_family
        from heirloom.learning.sample_complexity import count_pairs

        counted = count_pairs(
            make_family(family, {}),
            d_max=d_max,
            epsilon=epsilon,
            n_known=n_known,
            episodes=episodes,
            steps=steps,
            seed=seed,
        )
        for name, (count, n_pairs) in counted.items():
            typer.echo(f"{name}: {count:,} of {n_pairs:,} pairs at the beginning of the task")


@contextmanager
def _clean_errors() -> Iterator[None]:
    """A mistake gets one line; Ctrl-C, or being told to end, says how to go on."""
    try:
        with signals.recognised():
            yield
    except heirloom.HeirloomError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    except MemoryError as error:
        typer.echo(f"error: there is not enough memory ({error}): make it smaller", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        logging.disable()  # what libraries were about to do, they did not
        typer.echo("stopped; the same command goes on where this one was", err=True)
        raise typer.Exit(130) from None


def _variants(variant: Variant | None, *, both: bool) -> list[Variant]:
    if variant is not None:
        return [variant]
    return ["text", "released"] if both else ["released"]


def _folder_name(
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


def _print_report(report: "Report", title: str, place: "Location") -> None:
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
    console.print(f"Figures and summary.json are in {place}.")


def _print_status(run: "StoredRun") -> bool:
    """Print what is there of a run; returns whether it is complete."""
    from heirloom.runs.versions import differences, versions

    console, status, spec = _console(), run.status(), run.spec
    table = _table(f"{spec.name}: {run.place}", "agent", "done", "missing", "damaged")
    for i, agent in enumerate(spec.agents):
        of = (status.done, status.missing, status.damaged)
        table.add_row(agent.name, *(str(sum(u[0] == i for u in units)) for units in of))
    console.print(table)
    total = len(run.units)
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


def _print_results(results: "xr.Dataset", title: str) -> None:
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
