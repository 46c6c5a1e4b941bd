"""Commands that compute from numbers or from a memory: `heirloom theory` and `heirloom audit`."""

import zipfile
import zlib
from pathlib import Path
from typing import Annotated, Any

import typer

import heirloom
from heirloom.choices import Scope
from heirloom.cli.arguments import argument, count, flag, number, value
from heirloom.cli.output import clean_errors
from heirloom.wording import counted, reason

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

StatesOption = Annotated[int, count("Number of states.")]
ActionsOption = Annotated[int, count("Number of actions.")]
SourcesOption = Annotated[int, count("Number of source tasks.", least=0)]
DeltaOption = Annotated[float, number("Probability of failure δ.")]


@app.command("n-known")
def n_known(
    states: StatesOption,
    actions: ActionsOption,
    epsilon: Annotated[float, number("Accuracy ε of mean rewards and transition probabilities.")],
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
    p_min: Annotated[float, number("Smallest probability of a task of the family.")],
    delta: DeltaOption = 0.05,
) -> None:
    """Number of tasks that MaxQInit, a learned prior and a learned nearness need.

    If that many tasks were drawn independently, the bounds of the next task (or of all further
    tasks) are valid with probability 1 - δ.
    """
    with clean_errors():
        scopes: dict[Scope, str] = {"task": "each task", "lifetime": "all tasks of a lifetime"}
        for scope, text in scopes.items():
            n = heirloom.theory.tasks_for_max_q(p_min, delta, scope=scope)
            typer.echo(
                f"MaxQInit, a learned prior and a learned nearness need {counted(n, 'task')} and "
                f"are used from task {n + 1:,} on, if they are to be valid with probability "
                f"{1 - delta:g} for {text}"
            )


@app.command()
def computations(
    states: StatesOption,
    actions: ActionsOption,
    sources: SourcesOption,
    gamma: Annotated[float, number("Discount factor γ.")] = 0.9,
    precision: Annotated[float, number("Precision of values ε_Q.")] = 0.01,
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
        str, argument("FAMILY", "Name of the task family; see `heirloom list`.")
    ] = "tight",
    d_max: Annotated[
        float, number("Prior of LRMax: upper bound on the distance between tasks.", least=0)
    ] = 0.1,
    epsilon: Annotated[float, number("Accuracy ε of values.")] = 0.01,
    n_known: Annotated[int, count("Number of visits after which a pair is known.")] = 10,
    episodes: Annotated[int, count("Number of episodes in the source task.")] = 2000,
    steps: Annotated[int, count("Maximum number of steps per episode.")] = 10,
    seed: Annotated[int, count("Seed of all random numbers.", least=0)] = 0,
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
        Path, argument("MEMORY", "File of a memory or of an agent, as `save` writes it.")
    ],
    rewards: Annotated[
        float | None,
        number("Claim to test: largest difference of mean rewards between two tasks at any pair."),
    ] = None,
    transitions: Annotated[
        float | None,
        number(
            "Claim to test: largest total variation of transitions between two tasks at any pair."
        ),
    ] = None,
    nearness: Annotated[
        Path | None,
        value(
            "FILE",
            "Claim to test: a nearness with arrays, as numpy.savez writes them: rewards and "
            "transitions, and perhaps successors, terminates and highest_rewards.",
        ),
    ] = None,
    d_max: Annotated[
        float | None, number("Claim to test: largest distance D between the models of two tasks.")
    ] = None,
    p_min: Annotated[
        float | None, number("Claim to test: smallest probability of any task of the family.")
    ] = None,
    delta: Annotated[float, number("Largest probability of contradicting a true claim.")] = 0.05,
    figure: Annotated[
        Path | None, value("PATH", "File for a map of the differences, such as audit.pdf.")
    ] = None,
    *,
    exact: Annotated[
        bool, flag("--exact", "Treat learned models as exact (deterministic tasks).")
    ] = False,
) -> None:
    """Test a claim about how tasks differ on a saved memory.

    The claim is a nearness, given by both --rewards and --transitions or by a file, a prior or a
    p_min. Without a claim, the command prints the differences between tasks. The file is not
    changed. The exit status is 0 if nothing contradicts the claim, 3 if something does, and 1 after
    an error.
    """
    with clean_errors():
        others = {"--nearness": nearness, "--d-max": d_max, "--p-min": p_min}
        claim = _nearness(rewards, transitions, others)
        tasks = heirloom.TaskMemory.load(memory)
        result = heirloom.audit(tasks, claim, d_max=d_max, p_min=p_min, exact=exact, delta=delta)
        typer.echo(repr(result))
        if figure is not None:
            drawn = heirloom.plot.draw_audit(result)
            heirloom.plot.save_figure(drawn, figure)
    if result.contradicted:
        raise typer.Exit(CONTRADICTED)


def _nearness(
    rewards: float | None, transitions: float | None, others: dict[str, Any]
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
    if given == ["--nearness"]:
        return _read_nearness(others["--nearness"])
    if given in (["--rewards"], ["--transitions"]):
        other = "--transitions" if transitions is None else "--rewards"
        raise heirloom.errors.InvalidArgument(
            f"{other} is missing: a nearness has both; 0 claims that tasks do not differ"
        )
    return None


def _read_nearness(path: Path) -> "heirloom.Nearness":
    """Return the nearness in a file of arrays."""
    import numpy as np

    names = ("rewards", "transitions", "successors", "terminates", "highest_rewards")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise heirloom.errors.InvalidFile(
            f"{path} is no file of arrays ({reason(error)}): write it with numpy.savez(path, "
            "rewards=..., transitions=...)"
        ) from error
    if not {"rewards", "transitions"} <= arrays.keys() <= set(names):
        raise heirloom.errors.InvalidFile(
            f"{path} has the arrays {', '.join(arrays) or 'none'}: expected rewards and "
            f"transitions, and perhaps {', '.join(names[2:])}"
        )
    return heirloom.Nearness(**arrays)
