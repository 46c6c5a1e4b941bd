"""Commands that compute from numbers or from a memory: `heirloom theory` and `heirloom audit`."""

from pathlib import Path
from typing import Annotated

import typer

import heirloom
from heirloom.choices import Scope
from heirloom.cli.failures import clean_errors
from heirloom.wording import counted

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

StatesOption = Annotated[int, typer.Option(min=1, metavar="N", help="Number of states.")]
ActionsOption = Annotated[int, typer.Option(min=1, metavar="N", help="Number of actions.")]
SourcesOption = Annotated[int, typer.Option(min=0, metavar="N", help="Number of source tasks.")]
DeltaOption = Annotated[float, typer.Option(metavar="X", help="Probability of failure δ.")]


@app.command("n-known")
def n_known(
    states: StatesOption,
    actions: ActionsOption,
    epsilon: Annotated[
        float,
        typer.Option(metavar="X", help="Accuracy ε of mean rewards and transition probabilities."),
    ],
    delta: DeltaOption = 0.05,
    sources: SourcesOption = 0,
) -> None:
    """Number of visits after which a state-action pair is known.

    After that many visits, the mean rewards of all known pairs are within ε and their transition
    probabilities within ε in L1 norm, for the task and all its sources at once, with probability
    1 - δ. Rewards are assumed to be in [0, 1].
    """
    with clean_errors():
        n = heirloom.theory.n_known_for(
            states, actions, epsilon=epsilon, delta=delta, n_sources=sources
        )
        typer.echo(f"n_known = {n:,}")


@app.command()
def tasks(
    p_min: Annotated[
        float, typer.Option(metavar="X", help="Smallest probability of a task of the family.")
    ],
    delta: DeltaOption = 0.05,
) -> None:
    """Number of tasks that MaxQInit, a learned d_max and a learned nearness need.

    If that many tasks were drawn independently, the bounds of the next task (or of all further
    tasks) are valid with probability 1 - δ.
    """
    with clean_errors():
        scopes: dict[Scope, str] = {"task": "each task", "lifetime": "all tasks of a lifetime"}
        for scope, text in scopes.items():
            n = heirloom.theory.tasks_for_max_q(p_min, delta, scope=scope)
            typer.echo(
                f"MaxQInit, a learned d_max and a learned nearness need {counted(n, 'task')} and "
                f"are used from task {n + 1:,} on, if they are to be valid with probability "
                f"{1 - delta:g} for {text}"
            )


@app.command()
def computations(
    states: StatesOption,
    actions: ActionsOption,
    sources: SourcesOption,
    gamma: Annotated[float, typer.Option(metavar="X", help="Discount factor γ.")] = 0.9,
    precision: Annotated[float, typer.Option(metavar="X", help="Precision of values ε_Q.")] = 0.01,
) -> None:
    """Largest number of dynamic programs per task.

    LRMax solves at most that many in one task (Proposition 6). The command also prints the number
    of sweeps of value iteration per dynamic program.
    """
    with clean_errors():
        programs = heirloom.theory.dynamic_programs(states, actions, sources)
        sweeps = heirloom.theory.value_iterations(gamma, precision)
        typer.echo(
            f"at most {counted(programs, 'dynamic program')} of {counted(sweeps, 'sweep')} each"
        )


@app.command("pairs-to-learn")
def pairs_to_learn(
    family: Annotated[
        str,
        typer.Argument(metavar="FAMILY", help="Name of the task family; see `heirloom list`."),
    ] = "tight",
    d_max: Annotated[
        float,
        typer.Option(
            min=0, metavar="X", help="Prior of LRMax: upper bound on the distance between tasks."
        ),
    ] = 0.1,
    epsilon: Annotated[float, typer.Option(metavar="X", help="Accuracy ε of values.")] = 0.01,
    n_known: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Number of visits after which a pair is known."),
    ] = 10,
    episodes: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of episodes in the source task.")
    ] = 2000,
    steps: Annotated[
        int, typer.Option(min=1, metavar="N", help="Maximum number of steps per episode.")
    ] = 10,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of all random numbers.")] = 0,
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
            typer.echo(
                f"{agent}: {count:,} of {n_pairs:,} pairs to learn at the beginning of the task"
            )


CONTRADICTED = 3  # exit status; 1 is that of errors, and 2 that of wrong options


def audit(
    memory: Annotated[
        Path,
        typer.Argument(
            metavar="MEMORY", help="File of a memory or of an agent, as `save` writes it."
        ),
    ],
    rewards: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Claim to test: largest difference of mean rewards between two tasks at any pair.",
        ),
    ] = None,
    transitions: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Claim to test: largest total variation of transitions between two tasks at any "
            "pair.",
        ),
    ] = None,
    d_max: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="Claim to test: largest distance D between the models of two tasks."
        ),
    ] = None,
    p_min: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="Claim to test: smallest probability of any task of the family."
        ),
    ] = None,
    delta: Annotated[
        float,
        typer.Option(metavar="X", help="Largest probability of contradicting a true claim."),
    ] = 0.05,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="File for a map of the differences, such as audit.pdf."),
    ] = None,
    *,
    exact: Annotated[
        bool, typer.Option("--exact", help="Treat learned models as exact (deterministic tasks).")
    ] = False,
) -> None:
    """Test a claim about how tasks differ on a saved memory.

    The claim is a nearness, given by both --rewards and --transitions, a d_max or a p_min. Without
    a claim, the command prints the differences between tasks. The file is not changed. The exit
    status is 0 if nothing contradicts the claim, 3 if something does, and 1 after an error.
    """
    with clean_errors():
        nearness = _nearness(rewards, transitions, {"--d-max": d_max, "--p-min": p_min})
        tasks = heirloom.TaskMemory.load(memory)
        result = heirloom.audit(tasks, nearness, d_max=d_max, p_min=p_min, exact=exact, delta=delta)
        typer.echo(repr(result))
        if figure is not None:
            drawn = heirloom.plot.draw_audit(result)
            heirloom.plot.save_figure(drawn, figure)
    if result.contradicted:
        raise typer.Exit(CONTRADICTED)


def _nearness(
    rewards: float | None, transitions: float | None, others: dict[str, float | None]
) -> "heirloom.Nearness | None":
    """Return the nearness to test, if it is the claim; raise unless there is one claim at most."""
    options = {"--rewards": rewards, "--transitions": transitions, **others}
    given = [name for name, value in options.items() if value is not None]
    if rewards is not None and transitions is not None and len(given) == 2:
        return heirloom.Nearness(rewards=rewards, transitions=transitions)
    if len(given) > 1:
        raise heirloom.errors.InvalidArgument(
            f"{' and '.join(given)} were given: test one claim at a time"
        )
    if given in (["--rewards"], ["--transitions"]):
        other = "--transitions" if transitions is None else "--rewards"
        raise heirloom.errors.InvalidArgument(
            f"{other} is missing: a nearness has both; 0 claims that tasks do not differ"
        )
    return None
