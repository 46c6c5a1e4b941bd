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
from heirloom.cli import audit, calculators
from heirloom.cli import replay as replays
from heirloom.cli import report as report_command
from heirloom.cli.arguments import (
    ALL,
    VARIANT_HELP,
    AddressOption,
    BackendOption,
    DryRunOption,
    ExperimentArgument,
    JobsOption,
    RepetitionsOption,
    Reproduction,
    RunArgument,
    SeedOption,
    VariantOption,
)
from heirloom.cli.failures import clean_errors
from heirloom.cli.output import (
    folder_name,
    print_report,
    print_results,
    print_size,
    print_status,
    write_figures,
)
from heirloom.cli.usage import Commands
from heirloom.paper.registry import MODULES
from heirloom.wording import are, counted_of, were

RESULTS = "results"
app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # importing rich would double the time of --help
)


@app.callback(invoke_without_command=True)
def main(
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Lifelong reinforcement learning in finite MDPs: bounds from earlier tasks guide exploration.

    `heirloom COMMAND --help` describes the options of a command.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # the encoding may lack Greek letters
    if version:
        typer.echo(f"heirloom {heirloom.__version__}")
        raise typer.Exit


@app.command()
def reproduce(
    experiment: Annotated[
        Reproduction,
        typer.Argument(
            metavar="EXPERIMENT", help="Name of the experiment (see `heirloom list`), or 'all'."
        ),
    ],
    variant: Annotated[
        Variant | None,
        typer.Option(help=f"{VARIANT_HELP} Default: released, or both with 'all'."),
    ] = None,
    repetitions: RepetitionsOption = None,
    seed: SeedOption = None,
    jobs: JobsOption = None,
    backend: BackendOption = "local",
    address: AddressOption = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for results and figures; with 'all', one subfolder per experiment. "
            "Default: a folder in results/ named after the experiment and its options.",
        ),
    ] = None,
    *,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Run a reduced version; outputs are labelled 'quick'."),
    ] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Run an experiment and check its claims.

    Experiments are those of the paper, and one of Heirloom. The command prints each claim next to
    the measured value, and writes the results, figures, a summary and a report. To resume an
    interrupted run, repeat the same command.
    """
    with clean_errors():
        from heirloom.experiments.job import check_extras
        from heirloom.paper import registry
        from heirloom.paper.reproducibility import reproducibility_table
        from heirloom.runs.workers import workers
        from heirloom.storage.folders import folder_path, write_output

        run_all = experiment == ALL
        names = list(MODULES) if run_all else [experiment.value]
        if not run_all and variant is not None:
            _check_variants(experiment)
        root, finished = folder_path(out or RESULTS), {}
        if dry_run:
            for name, chosen in _with_variants(names, variant, both=run_all):
                _print_size_of(name, chosen, (root, repetitions, seed, quick, None, True), jobs)
            return
        for name in names:
            if (settings_of := registry.experiment(name).settings) is not None:
                check_extras(settings_of(variant or "released"))
        with workers(backend, jobs=jobs, address=address) as compute:
            for name, chosen in _with_variants(names, variant, both=run_all):
                folder = folder_name(name, chosen, repetitions, seed, quick=quick)
                location = root / folder if run_all or out is None else root
                settings = location, repetitions, seed, quick, compute
                finished[name, chosen or "both"] = _reproduce_one(name, chosen, settings)
        if run_all:
            table = reproducibility_table(finished, quick=quick)
            write_output(root, "reproducibility.md", table.encode())
            typer.echo(table)


def _with_variants(
    names: list[str], variant: Variant | None, *, both: bool
) -> Iterator[tuple[str, Variant | None]]:
    """Yield each experiment with each variant to run, or with None if it has no variants."""
    from heirloom.paper.registry import experiment

    for name in names:
        if not experiment(name).has_variants:
            yield name, None
        elif variant is None and both:
            yield from ((name, each) for each in get_args(Variant))
        else:
            yield name, variant or "released"


def _check_variants(name: str) -> None:
    """Raise `InvalidArgument` if an experiment has the same settings in both variants."""
    from heirloom.paper.registry import experiment

    if not experiment(name).has_variants:
        raise heirloom.InvalidArgument(f"{name} has no variants: leave out --variant")


def _reproduce_one(name: str, variant: Variant | None, settings: Any) -> tuple[Any, float]:
    """Run an experiment and print its report; return its specs and the seconds that it took."""
    from heirloom.paper import registry
    from heirloom.paper.experiment import Options

    options = Options(variant or "released", *settings)
    started = time.monotonic()
    report = registry.reproduce(name, options)
    seconds = time.monotonic() - started
    title = f"{name} ({variant})" if variant else name
    title += ", quick" if options.quick else ""
    print_report(report, title, options.location)
    return report.specs, seconds


def _print_size_of(name: str, variant: Variant | None, settings: Any, jobs: int | None) -> None:
    """Print the size of the runs of an experiment."""
    from heirloom.paper import registry
    from heirloom.paper.experiment import DryRun, Options

    options = Options(variant or "released", *settings)
    entry = registry.experiment(name)
    if entry.settings is None:
        typer.echo(f"{name}: draws figures, and stores no results.")
        return
    try:
        entry.reproduce(options)
    except DryRun as found:
        print_size(found.spec, options.location, jobs, entry.n_runs)


@app.command()
def run(
    spec: Annotated[
        Path,
        typer.Argument(
            metavar="SPEC", help="TOML file with the experiment; `heirloom show` prints examples."
        ),
    ],
    out: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for results and figures. Default: results/NAME for NAME.toml.",
        ),
    ] = None,
    jobs: JobsOption = None,
    backend: BackendOption = "local",
    address: AddressOption = None,
    *,
    dry_run: DryRunOption = False,
) -> None:
    """Run the experiment in a TOML file, and draw figures.

    If the file has a table [sweep], each combination of its values is run in a subfolder.
    To resume an interrupted run, repeat the same command.
    """
    with clean_errors():
        from heirloom.runs.workers import processes
        from heirloom.storage.folders import folder_path

        root = folder_path(out or f"{RESULTS}/{spec.stem}")
        processes.needed_later += ["heirloom.figures.curves", "matplotlib.backends.backend_pdf"]
        if backend == "local" and not (dry_run or root.exists()) and spec.exists():
            processes.start_early(jobs)

        from heirloom.experiments.job import names_own_code
        from heirloom.experiments.sweep import load_sweep
        from heirloom.runs.run import run as run_experiment

        experiments = load_sweep(spec)
        if any(map(names_own_code, experiments.values())):  # which may be in the current folder
            sys.path.append(str(Path.cwd()))
        for label, experiment in experiments.items():
            location = root / label if label else root
            if dry_run:
                print_size(experiment, location, jobs, runs=1)
                continue
            results = run_experiment(
                experiment, location, jobs=jobs, backend=backend, address=address
            )
            print_results(results, experiment.name)
            figures = write_figures(results, experiment.name, location)
            typer.echo(f'Results are in {location}; heirloom.results("{location}") loads them.')
            typer.echo(f"Figures are in {figures}. `heirloom report {location}` writes a page.")


@app.command()
def status(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="Folder of a run, or a folder that contains runs."),
    ],
) -> None:
    """Show which jobs of a run are complete, missing or damaged.

    The command reads the whole run, verifies all checksums, and changes nothing. The exit status is
    0 if everything is complete and undamaged, and 1 otherwise.
    """
    with clean_errors():
        from heirloom.runs.stored_run import StoredRun, runs_in

        complete = [print_status(StoredRun(location)) for location in runs_in(run)]
        if not all(complete):
            raise typer.Exit(1)


@app.command()
def export(
    run: RunArgument,
    to: Annotated[Format, typer.Option(help="Format: Parquet tables, CSV tables, netCDF or zarr.")],
    out: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Folder for tables, or name of the netCDF file or zarr group. Default: "
            "RUN-parquet, RUN-csv, RUN.nc or RUN.zarr, next to the run.",
        ),
    ] = None,
) -> None:
    """Write the results of a run as tables, as one netCDF file or as a zarr group.

    Tables have one row per observation; the file columns.csv beside them gives the unit and the
    meaning of each column.
    """
    with clean_errors():
        from heirloom.runs.export import ENDINGS
        from heirloom.runs.export import export as export_run
        from heirloom.runs.stored_run import StoredRun, runs_in

        folder, *others = runs_in(run)
        if others or folder != Path(run):
            found = ", ".join(str(each) for each in (folder, *others))
            raise heirloom.InvalidArgument(
                f"{run} contains runs but is not a run itself: choose one of {found}"
            )
        if folder.name in ("", ".."):  # `.` or `..`: with_name needs the folder's real name
            folder = folder.resolve()
        default = folder.with_name(folder.name + ENDINGS[to])
        exported = export_run(StoredRun(run), to, out or default)
        for file in exported.files:
            typer.echo(file)
        if exported.left_out:
            typer.echo(
                f"{counted_of(exported.left_out, exported.jobs, 'job')} {are(exported.left_out)} "
                f"missing or damaged and {were(exported.left_out)} left out: see `heirloom status "
                f"{run}`",
                err=True,
            )


@app.command("list")
def list_() -> None:
    """List experiments, task families, algorithms and measures."""
    with clean_errors():
        from heirloom.agents.algorithms import ALGORITHMS
        from heirloom.experiments.observers import OBSERVERS
        from heirloom.experiments.registry import FAMILIES
        from heirloom.paper.registry import experiment

        def summary(documented: object) -> str:
            return (documented.__doc__ or "").splitlines()[0]

        for title, entries in {
            "experiments": {name: experiment(name).summary for name in MODULES},
            "families": {name: summary(make) for name, make in FAMILIES.items()},
            "algorithms": {name: options.summary() for name, options in ALGORITHMS.items()},
            "measures": {name: summary(observer) for name, observer in OBSERVERS.items()},
        }.items():
            typer.echo(f"{title}:")
            for name, description in entries.items():
                typer.echo(f"  {name:<21} {description}")


@app.command()
def show(experiment: ExperimentArgument, variant: VariantOption = "released") -> None:
    """Print the settings of an experiment as TOML.

    `heirloom run` runs the output, as it is or edited. The experiment `knowledge` has one spec per
    family: this command prints the first, and `heirloom reproduce knowledge` stores each one beside
    its results.
    """
    with clean_errors():
        from heirloom.paper import registry

        settings = registry.experiment(experiment).settings
        if settings is None:
            raise heirloom.InvalidArgument(
                f"{experiment} has no settings to show because it only draws a figure: use "
                f"`heirloom reproduce {experiment}`"
            )
        typer.echo(settings(variant).to_toml(), nl=False)


app.command("report")(report_command.report)
app.command("audit")(audit.audit)
app.command("replay")(replays.replay)
app.add_typer(
    calculators.app,
    name="theory",
    help="Compute sample sizes and complexities of the paper's theory.",
)
