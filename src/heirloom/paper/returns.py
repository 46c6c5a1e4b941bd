"""Returns of agents on a sequence of tasks relative to those of RMax: numbers, claims and figures.

The figures and claims of the paper have only the paper's agents. NearRMax has claims and figures of
its own.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from heirloom.experiments.registry import family_of_table
from heirloom.experiments.spec import ExperimentSpec
from heirloom.paper.claims import (
    OURS,
    Claim,
    above,
    combination_claims,
    max_q_start_claims,
    never_below_rmax,
)
from heirloom.paper.experiment import nan_to_none, ratio
from heirloom.plot.curves import draw_relative_returns
from heirloom.stats import FloatArray, Interval, moving_average, student_interval
from heirloom.theory import tasks_for_max_q

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

T = TypeVar("T")

ALGORITHM = "NearRMax"
FAMILY: dict[str, Any] = {"algorithm": ALGORITHM, "nearness": "family"}
"""Options of NearRMax in a spec, with the nearness of the family: arrays and successors."""

LATE_FRACTION = 0.1  # of the episodes of a task, the last ones, to estimate RMax's final return
WINDOW = 100  # episodes in a moving average
Y_TASK = "discounted return relative to RMax"
Y_EPISODE = "return relative to RMax's final return"


def near_with_numbers(rewards: float, transitions: float) -> dict[str, Any]:
    """Return the options of NearRMax in a spec, with the same two numbers at all pairs."""
    return {"algorithm": ALGORITHM, "nearness": {"rewards": rewards, "transitions": transitions}}


def is_near(name: str) -> bool:
    """Return whether an agent of this name is NearRMax."""
    return name.startswith(ALGORITHM)


def of_the_paper(by_agent: Mapping[str, T]) -> dict[str, T]:
    """Return the entries of the paper's agents."""
    return {name: entry for name, entry in by_agent.items() if not is_near(name)}


def near_names(names: Iterable[str]) -> list[str]:
    """Return those of the names that belong to NearRMax."""
    return [name for name in names if is_near(name)]


def with_near(
    name: str, by_agent: Mapping[str, T], draw: "Callable[[dict[str, T]], Figure]"
) -> "dict[str, Figure]":
    """Draw a figure twice: with the agents of the paper, and with NearRMax too."""
    return {name: draw(of_the_paper(by_agent)), f"{name}-with-near": draw(dict(by_agent))}


def p_min_of(spec: ExperimentSpec) -> float | None:
    """Return the smallest probability of a task; None if tasks do not come back."""
    if spec.distinct_tasks is not None:
        return 1 / spec.distinct_tasks
    return family_of_table(spec.family.model_dump()).p_min


def used_from(spec: ExperimentSpec, name: str) -> int:
    """Return the first task in which an agent uses what it learns from all earlier ones.

    This is m + 1 for the smallest m with (1 - p_min)^m <= δ.
    """
    p_min = p_min_of(spec)
    assert p_min is not None, "the experiments that ask have finitely many tasks"
    (delta,) = (agent.all_options.delta for agent in spec.agents if agent.name == name)
    return tasks_for_max_q(p_min, delta) + 1


def paper_claims(
    vs_rmax: Mapping[str, FloatArray], start: int, prior: str, *more: Claim
) -> list[Claim]:
    """Claims on when MaxQInit starts, on the combination with LRMax, and on losing nothing.

    `vs_rmax` are returns divided by those of RMax, [repetition, task]. MaxQInit uses its bound from
    task `start` on. The combined agents have this `prior`. `more` claims stand before the last.
    """
    return [
        *max_q_start_claims(vs_rmax["MaxQInit"], start),
        *combination_claims(vs_rmax, start, prior),
        *more,
        *(
            never_below_rmax(name, x)
            for name, x in vs_rmax.items()
            if name not in ("RMax", "MaxQInit")
        ),
    ]


def near_return_claims(vs_rmax: Mapping[str, FloatArray], least: Sequence[float]) -> list[Claim]:
    """Our claims about the returns of NearRMax: how large they are, and never below those of RMax.

    `least` is the claimed ratio over the tasks from the second on, of each NearRMax.
    """
    near = {name: vs_rmax[name] for name in near_names(vs_rmax)}
    return [
        *(
            above(
                f"{name} returns at least {claimed:g} times as much as RMax from task 2 on",
                x[:, 1:].mean(axis=1),
                claimed,
                measured="{} times the return of RMax",
                whose=OURS,
            )
            for (name, x), claimed in zip(near.items(), least, strict=True)
        ),
        *(never_below_rmax(name, x, OURS) for name, x in near.items()),
    ]


def ratios_to_rmax(spec: ExperimentSpec, results: "xr.Dataset") -> dict[str, FloatArray]:
    """Mean discounted returns divided by those of RMax in the same task, by agent."""
    return {agent.name: vs_rmax(results, agent.name, results) for agent in spec.agents}


def summary(
    spec: ExperimentSpec, compared: Mapping[str, FloatArray], results: "xr.Dataset"
) -> dict[str, Any]:
    """Content of `summary.json`: returns per task relative to RMax and to the optimal return."""
    numbers = {}
    for name, ratios in compared.items():
        mean, half = student_interval(ratios)
        numbers[name] = {
            "return_vs_rmax": nan_to_none(mean),
            "return_vs_optimal": nan_to_none(vs_optimal(results, name).mean(axis=0)),
            "ci95": nan_to_none(half),
        }
    return {"repetitions": spec.repetitions, "agents": numbers}


def per_task_figure(spec: ExperimentSpec, compared: Mapping[str, FloatArray]) -> "Figure":
    """Figure 3a: the mean return per task, relative to RMax."""
    per_task = {name: student_interval(ratios) for name, ratios in compared.items()}
    title = f"Mean discounted return per task, {spec.name}"
    return draw_relative_returns(per_task, per="task", ylabel=Y_TASK, title=title)


def per_episode_figure(
    spec: ExperimentSpec, results: "xr.Dataset", names: Iterable[str], window: int = WINDOW
) -> "Figure":
    """Figure 3b: the return per episode, averaged over tasks, relative to RMax's final return."""
    relative = ratio(results.discounted_returns, late_rmax(results)).mean("task")
    curves = {name: smoothed(relative.sel(agent=name), window) for name in names}
    title = f"Mean discounted return per episode, {spec.name}"
    return draw_relative_returns(curves, per="episode", ylabel=Y_EPISODE, title=title)


def vs_rmax(results: "xr.Dataset", name: str, rmax: "xr.Dataset") -> FloatArray:
    """Mean discounted returns divided by those of RMax in the same task, [repetition, task].

    The results of RMax may be those of another run on the same tasks.
    """
    returns = results.discounted_returns.sel(agent=name).mean("episode")
    divided: FloatArray = ratio(
        returns, rmax.discounted_returns.sel(agent="RMax").mean("episode")
    ).values
    return divided


def vs_optimal(results: "xr.Dataset", name: str) -> FloatArray:
    """Mean discounted returns divided by the optimal expected return, [repetition, task]."""
    returns = results.discounted_returns.sel(agent=name).mean("episode")
    divided: FloatArray = ratio(returns, results.optimal_discounted).values
    return divided


def late_rmax(results: "xr.Dataset") -> "xr.DataArray":
    """RMax's final return: its mean discounted return in the last episodes, (repetition, task)."""
    rmax = results.discounted_returns.sel(agent="RMax")
    n_late = max(1, int(LATE_FRACTION * rmax.sizes["episode"]))
    return rmax.isel(episode=slice(-n_late, None)).mean("episode")


def smoothed(relative: "xr.DataArray", window: int = WINDOW) -> Interval:
    """Moving average of the mean over repetitions, [episode]."""
    curve = relative.transpose("repetition", "episode").values
    return student_interval(moving_average(curve, window))
