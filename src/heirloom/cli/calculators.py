"""`heirloom theory`: the calculators of the theory."""

from typing import Annotated

import typer

import heirloom
from heirloom.cli.failures import clean_errors

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

States = Annotated[int, typer.Option(min=1, help="The number of states.")]
Actions = Annotated[int, typer.Option(min=1, help="The number of actions.")]
Sources = Annotated[int, typer.Option(min=0, help="The number of sources.")]
Epsilon = Annotated[float, typer.Option(help="The accuracy.")]
Delta = Annotated[float, typer.Option(help="The probability of failure.")]


@app.command("n-known")
def n_known(
    states: States, actions: Actions, epsilon: Epsilon, delta: Delta = 0.05, sources: Sources = 0
) -> None:
    """After how many visits a pair is known to an accuracy."""
    with clean_errors():
        n = heirloom.n_known_for(states, actions, epsilon=epsilon, delta=delta, n_sources=sources)
        typer.echo(f"n_known = {n:,}")


@app.command()
def tasks(
    p_min: Annotated[float, typer.Option(help="The least probability of a task.")],
    delta: Delta = 0.05,
) -> None:
    """How many tasks MaxQInit and a learned D_max need."""
    with clean_errors():
        for what, n in (
            ("MaxQInit", heirloom.tasks_for_max_q(p_min, delta)),
            ("a learned D_max", heirloom.tasks_for_distance(p_min, delta)),
        ):
            typer.echo(f"{what} needs {n:,} tasks, and is used from task {n + 1:,} on")


@app.command()
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
    with clean_errors():
        programs = heirloom.dynamic_programs(states, actions, sources)
        sweeps = heirloom.value_iterations(gamma, precision)
        typer.echo(f"{programs:,} dynamic programs of {sweeps:,} sweeps each, at most")


@app.command("pairs-to-learn")
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
    with clean_errors():
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
