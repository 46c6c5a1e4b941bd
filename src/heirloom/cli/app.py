"""The commands of `heirloom`."""

import io
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, get_args

import typer

import heirloom
from heirloom.choices import Format, Variant
from heirloom.cli import calculators
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
    argument,
    count,
    flag,
    value,
)
from heirloom.cli.output import (
    clean_errors,
    folder_name,
    print_report,
    print_results,
    print_size,
    print_status,
    write_figures,
    write_sweep,
)
from heirloom.paper.catalogue import MODULES
from heirloom.wording import are, counted_of, were

RESULTS = "results"
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # importing rich would double the time of --help
)


@app.callback(invoke_without_command=True)
def main(
    *,
    version: Annotated[bool, flag("--version", "Print the version and exit.")] = False,
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
        argument(
            "EXPERIMENT",
            "Name of the experiment (see `heirloom list`), 'figure-3' for 'tight' and "
            "'bounds', which draw figures 3a to 3d, or 'all'.",
        ),
    ],
    variant: Annotated[
        Variant | None, typer.Option(help=f"{VARIANT_HELP} Default: released, or both with 'all'.")
    ] = None,
    repetitions: RepetitionsOption = None,
    seed: SeedOption = None,
    jobs: JobsOption = None,
    backend: BackendOption = "local",
    address: AddressOption = None,
    out: Annotated[
        str | None,
        value(
            "FOLDER",
            "Folder for results and figures; with 'figure-3' and 'all', one subfolder per "
            "experiment. "
            "Default: a folder in results/ named after the experiment and its options.",
        ),
    ] = None,
    *,
    quick: Annotated[
        bool, flag("--quick", "Run a reduced version; outputs are labelled 'quick'.")
    ] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Run an experiment and check its claims.

    Experiments are those of the paper, and three of Heirloom. The command prints each claim next to
    the measured value, and writes the results, figures, a summary and a report. To resume an
    interrupted run, repeat the same command.
    """
    with clean_errors():
        from heirloom.experiments.job import check_extras
        from heirloom.paper import catalogue
        from heirloom.paper.experiment import Options, reproducibility_table
        from heirloom.runs.workers import workers
        from heirloom.storage.files import folder_path, write_output

        together = catalogue.GROUPS.get(experiment.value)
        entries = {name: catalogue.experiment(name) for name in together or (experiment.value,)}
        every = experiment.value == ALL and variant is None
        variants = get_args(Variant) if every else (variant or "released",)
        chosen = [
            (name, of)
            for name, entry in entries.items()
            for of in (variants if entry.has_variants else (None,))
        ]
        if variant is not None and together is None and chosen[0][1] is None:
            raise heirloom.errors.InvalidArgument(
                f"{experiment.value} has no variants: leave out --variant"
            )
        options, root = {}, folder_path(out or RESULTS)
        for name, of in chosen:
            folder = folder_name(name, of, repetitions, seed, quick=quick)
            options[name, of] = Options(
                variant=of or "released",
                location=root / folder if together or out is None else root,
                repetitions=repetitions,
                seed=seed,
                quick=quick,
            )
        if dry_run:
            for (name, _), each in options.items():
                if specs := list(entries[name].runs(each).values()):
                    print_size(specs, root, jobs)
                else:
                    typer.echo(f"{name}: draws figures, and stores no results.")
            return
        for entry in entries.values():
            if entry.settings is not None:
                check_extras(entry.settings(variant or "released"))
        finished = {}
        with workers(backend, jobs=jobs, address=address) as compute:
            for (name, of), each in options.items():
                started = time.monotonic()
                report = catalogue.reproduce(name, replace(each, compute=compute))
                seconds = time.monotonic() - started
                finished[name, of or "both"] = list(entries[name].runs(each).values()), seconds
                title = f"{name} ({of})" if of else name
                print_report(report, title + (", quick" if quick else ""), each.location)
        if together:
            table = reproducibility_table(finished, quick=quick)
            write_output(root, "reproducibility.md", table.encode())
            typer.echo(table)


@app.command()
def run(
    spec: Annotated[
        Path, argument("SPEC", "TOML file with the experiment; `heirloom show` prints examples.")
    ],
    out: Annotated[
        str | None,
        value("FOLDER", "Folder for results and figures. Default: results/NAME for NAME.toml."),
    ] = None,
    jobs: JobsOption = None,
    backend: BackendOption = "local",
    address: AddressOption = None,
    *,
    dry_run: DryRunOption = False,
) -> None:
    """Run the experiment in a TOML file, and draw figures.

    If the file has a table [sweep], each combination of its values is run in a subfolder, and the
    command prints one table of all of them, which is also written to sweep.csv.
    To resume an interrupted run, repeat the same command.
    """
    with clean_errors():
        from heirloom.runs.workers import processes
        from heirloom.storage.files import folder_path

        root = folder_path(out or f"{RESULTS}/{spec.stem}")
        processes.needed_later += ["heirloom.plot.curves", "matplotlib.backends.backend_pdf"]
        if backend == "local" and not (dry_run or root.exists()) and spec.exists():
            processes.start_early(jobs)

        from heirloom.experiments.job import names_own_code
        from heirloom.experiments.sweep import load_sweep
        from heirloom.runs.run import run as run_experiment

        experiments = load_sweep(spec)
        if any(map(names_own_code, experiments.values())):  # which may be in the current folder
            sys.path.append(str(Path.cwd()))
        finished = {}
        for label, experiment in experiments.items():
            location = root / label if label else root
            if dry_run:
                print_size([experiment], location, jobs)
                continue
            results = run_experiment(
                experiment, location, jobs=jobs, backend=backend, address=address
            )
            finished[label] = results
            print_results({label: results}, experiment.name)
            figures = write_figures(results, experiment.name, location)
            typer.echo(f'Results are in {location}; heirloom.results("{location}") loads them.')
            typer.echo(f"Figures are in {figures}. `heirloom report {location}` writes a page.")
        if len(finished) > 1:
            print_results(finished, spec.stem)
            file = write_sweep(finished, root)
            typer.echo(f'This table is in {file}; heirloom.results("{root}") loads all results.')


@app.command()
def status(
    run: Annotated[str, argument("RUN", "Folder of a run, or a folder that contains runs.")],
) -> None:
    """Show which jobs of a run are complete, missing or damaged.

    The command reads the whole run, verifies all checksums, and changes nothing. The exit status is
    0 if everything is complete and undamaged, and 1 otherwise.
    """
    with clean_errors():
        from heirloom.runs.results import runs_in
        from heirloom.runs.stored_run import StoredRun

        complete = [print_status(StoredRun(location)) for location in runs_in(run)]
        if not all(complete):
            raise typer.Exit(1)


@app.command()
def export(
    run: RunArgument,
    to: Annotated[Format, typer.Option(help="Format: Parquet tables, CSV tables, netCDF or zarr.")],
    out: Annotated[
        str | None,
        value(
            "PATH",
            "Folder for tables, or name of the netCDF file or zarr group. Default: "
            "RUN-parquet, RUN-csv, RUN.nc or RUN.zarr, next to the run.",
        ),
    ] = None,
    *,
    snapshots: Annotated[
        bool,
        flag(
            "--snapshots",
            "Also write a table of values, bounds and known pairs at all snapshots of "
            "recorded episodes, with one row per snapshot, state and action.",
        ),
    ] = False,
) -> None:
    """Write the results of a run as tables, as one netCDF file or as a zarr group.

    Tables have one row per observation; the file columns.csv beside them gives the unit and the
    meaning of each column.
    """
    with clean_errors():
        from heirloom.runs.export import ENDINGS
        from heirloom.runs.export import export as export_run
        from heirloom.runs.results import runs_in
        from heirloom.runs.stored_run import StoredRun

        folder, *others = runs_in(run)
        if others or folder != Path(run):
            found = ", ".join(str(each) for each in (folder, *others))
            raise heirloom.errors.InvalidArgument(
                f"{run} contains runs but is not a run itself: choose one of {found}"
            )
        if folder.name in ("", ".."):  # `.` or `..`: with_name needs the folder's real name
            folder = folder.resolve()
        default = folder.with_name(folder.name + ENDINGS[to])
        exported = export_run(StoredRun(run), to, out or default, snapshots=snapshots)
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
        from heirloom.experiments.measures import OBSERVERS
        from heirloom.experiments.registry import FAMILIES
        from heirloom.paper.catalogue import experiment

        def summary(documented: object) -> str:
            return (documented.__doc__ or "").splitlines()[0]

        for title, entries in {
            "experiments": {name: experiment(name).summary for name in MODULES},
            "families": {name: summary(make) for name, make in FAMILIES.items()},
            "algorithms": {name: each.summary for name, each in ALGORITHMS.items()},
            "measures": {name: summary(observer) for name, observer in OBSERVERS.items()},
        }.items():
            typer.echo(f"{title}:")
            for name, description in entries.items():
                typer.echo(f"  {name:<21} {description}")


@app.command()
def show(experiment: ExperimentArgument, variant: VariantOption = "released") -> None:
    """Print the settings of an experiment as TOML.

    `heirloom run` runs the output, as it is or edited. The experiments `knowledge`,
    `certificates` and `rivals` have several specs: this command prints the first, and `heirloom
    reproduce` stores each one beside its results.
    """
    with clean_errors():
        from heirloom.paper import catalogue

        settings = catalogue.experiment(experiment).settings
        if settings is None:
            raise heirloom.errors.InvalidArgument(
                f"{experiment} has no settings to show because it only draws a figure: use "
                f"`heirloom reproduce {experiment}`"
            )
        typer.echo(settings(variant).to_toml(), nl=False)


@app.command()
def report(
    runs: Annotated[
        list[str],
        argument(
            "RUN",
            "Folders of runs, or folders that contain runs, as `heirloom reproduce` writes them.",
        ),
    ],
    out: Annotated[
        str | None,
        value(
            "PATH",
            "The file to write. Default: report.html in the folder, or in the current folder "
            "for several.",
        ),
    ] = None,
    title: Annotated[
        str | None, value("TEXT", "Title of the page. Default: the name of the experiment.")
    ] = None,
    baseline: Annotated[
        str | None,
        value(
            "NAME",
            "Agent that others are compared with. Default: the first one of a comparison made in "
            "Python; otherwise RMax, or else the first one.",
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


app.command()(calculators.audit)


@app.command()
def replay(
    run: RunArgument,
    agent: Annotated[
        list[str] | None,
        value("NAME", "Name of an agent; repeat the option for several. Default: all."),
    ] = None,
    repetition: Annotated[
        int | None, count("Index of a repetition, from 1. Default: all recorded.")
    ] = None,
    task: Annotated[int | None, count("Number of a task, from 1. Default: all recorded.")] = None,
    out: Annotated[str, value("PATH", "The HTML file to write.")] = "replay.html",
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


app.add_typer(
    calculators.app,
    name="theory",
    help="Compute sample sizes and complexities of the paper's theory.",
)
