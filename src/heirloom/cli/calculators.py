"""`heirloom theory`: calculators for the formulas of the theory."""

from typing import Annotated

import typer

import heirloom
from heirloom.choices import Scope
from heirloom.cli.failures import clean_errors
from heirloom.wording import counted

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

StatesOption = Annotated[int, typer.Option(min=1, help="Number of states.")]
ActionsOption = Annotated[int, typer.Option(min=1, help="Number of actions.")]
SourcesOption = Annotated[int, typer.Option(min=0, help="Number of source tasks.")]
DeltaOption = Annotated[float, typer.Option(help="Probability of failure δ.")]


@app.command("n-known")
def n_known(
    states: StatesOption,
    actions: ActionsOption,
    epsilon: Annotated[
        float, typer.Option(help="Accuracy ε of mean rewards and transition probabilities.")
    ],
    delta: DeltaOption = 0.05,
    sources: SourcesOption = 0,
) -> None:
    """Number of visits after which a state-action pair is known.

    After that many visits, the mean rewards of all known pairs are within ε and their transition
    probabilities within ε in L1 norm, for the task and all its sources at once, with probability
    1 - δ. Assumes rewards in [0, 1].
    """
    with clean_errors():
        n = heirloom.n_known_for(states, actions, epsilon=epsilon, delta=delta, n_sources=sources)
        typer.echo(f"n_known = {n:,}")


@app.command()
def tasks(
    p_min: Annotated[float, typer.Option(help="Smallest probability of a task of the family.")],
    delta: DeltaOption = 0.05,
) -> None:
    """Number of tasks that MaxQInit and a learned D_max need.

    If that many tasks were drawn independently, the bounds of the next task (or of all further
    tasks) are valid with probability 1 - δ.
    """
    with clean_errors():
        scopes: dict[Scope, str] = {"task": "each task", "lifetime": "all tasks of a lifetime"}
        for scope, text in scopes.items():
            n = heirloom.tasks_for_max_q(p_min, delta, scope=scope)
            typer.echo(
                f"MaxQInit and a learned D_max need {counted(n, 'task')} and are used from task "
                f"{n + 1:,} on, if they are to be valid with probability {1 - delta:g} for {text}"
            )


@app.command()
def computations(
    states: StatesOption,
    actions: ActionsOption,
    sources: SourcesOption,
    gamma: Annotated[float, typer.Option(help="Discount factor γ.")] = 0.9,
    precision: Annotated[float, typer.Option(help="Precision of values ε_Q.")] = 0.01,
) -> None:
    """Largest number of dynamic programs per task.

    LRMax solves at most that many in one task (Proposition 6). Also prints the number of sweeps of
    value iteration per dynamic program.
    """
    with clean_errors():
        programs = heirloom.dynamic_programs(states, actions, sources)
        sweeps = heirloom.value_iterations(gamma, precision)
        typer.echo(
            f"at most {counted(programs, 'dynamic program')} of {counted(sweeps, 'sweep')} each"
        )


@app.command("pairs-to-learn")
def pairs_to_learn(
    family: Annotated[
        str, typer.Argument(help="Name of the task family; see `heirloom list`.")
    ] = "tight",
    d_max: Annotated[
        float,
        typer.Option(min=0, help="Prior of LRMax: upper bound on the distance between tasks."),
    ] = 0.1,
    epsilon: Annotated[float, typer.Option(help="Accuracy ε of values.")] = 0.01,
    n_known: Annotated[
        int, typer.Option(min=1, help="Number of visits after which a pair is known.")
    ] = 10,
    episodes: Annotated[
        int, typer.Option(min=1, help="Number of episodes in the source task.")
    ] = 2000,
    steps: Annotated[int, typer.Option(min=1, help="Maximum number of steps per episode.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")] = 0,
) -> None:
    """Number of pairs to learn, with and without transfer.

    The bound on the sample complexity is proportional to the number of pairs where
    U(s, a) >= V*(s) - ε (Proposition 5). This command counts these pairs at the beginning of a
    task, for RMax and for LRMax with one source.
    """
    with clean_errors():
        from heirloom.experiments.registry import make_family
        from heirloom.learning.sample_complexity import count_pairs

        counts = count_pairs(
            make_family(family, {}),
            d_max=d_max,
            epsilon=epsilon,
            n_known=n_known,
            episodes=episodes,
            steps=steps,
            seed=seed,
        )
        for agent, (count, n_pairs) in counts.items():
            typer.echo(f"{agent}: {count:,} of {n_pairs:,} pairs at the beginning of the task")
