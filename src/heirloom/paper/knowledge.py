"""What prior knowledge is worth: returns of agents that know more or less about a family of tasks.

The agents know, in this order,

- nothing (RMax), with the number of visits of the family, and with others: the best one counts;
- a valid prior on distances (LRMax), or a guess of it;
- two numbers, by how much rewards and transition probabilities of two tasks can differ (NearRMax);
- the possible successors of each pair as well;
- the two numbers for each pair, as arrays, and the successors;
- the same arrays multiplied by one half, by a tenth or by 0, which is false;
- the same false knowledge, which the agent compares with what it learns, and widens;
- what the agent learns from its first tasks.

Returns are compared over the tasks from the second on, and those of agents that learn their
knowledge over the tasks in which they use it.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from heirloom.choices import Variant
from heirloom.experiments.spec import ExperimentSpec
from heirloom.paper.claims import (
    OURS,
    Claim,
    always_above,
    can_fall_below,
    can_rise_above,
    never_below,
)
from heirloom.paper.experiment import Experiment, Options, Report, ResultTable, nan_to_none
from heirloom.paper.knowledge_settings import (
    ARRAYS,
    BEST,
    CHECKED,
    FALSE,
    FAMILIES,
    LEARNED,
    LEARNING,
    NAMED,
    NUMBERS,
    RMAX,
    TRUE,
    TUNED,
    UNCHECKED,
    VALID,
    FamilySetting,
    agents_of,
    base_spec,
    setting_of,
)
from heirloom.plot.transfer import draw_rows
from heirloom.runs.compare import helps_from
from heirloom.stats import FloatArray, student_interval
from heirloom.theory import tasks_for_max_q

if TYPE_CHECKING:
    import xarray as xr

OPTIMUM = "optimum"
QUICK_TASKS, QUICK_EPISODES = 4, 1000


def settings(variant: Variant = "released", *, family: str = "tight-released") -> ExperimentSpec:
    """Return the spec of one family; the variant makes no difference.

    Args:
        variant: ignored, because the name of a family includes its variant.
        family: the family, a key of `FAMILIES`.
    """
    return base_spec(family, agents_of(setting_of(family)))


def runs(options: Options) -> dict[str, ExperimentSpec]:
    """Return the spec of the run of each family."""
    specs = {}
    for family in FAMILIES:
        spec = settings(family=family)
        fewer = {"tasks": QUICK_TASKS, "episodes": min(spec.episodes, QUICK_EPISODES)}
        specs[f"run-{family}"] = options.apply(spec, fewer)
    return specs


def reproduce(options: Options) -> Report:
    """What knowledge is worth: transfer with more or less prior knowledge, true and false."""
    specs, returns = {}, {}
    for folder, spec in runs(options).items():
        family = folder.removeprefix("run-")
        specs[family] = spec
        returns[family] = measure(setting_of(family), spec, options.run(spec, folder))
    return report(specs, returns, title_suffix=options.title_suffix)


class LaterReturns(NamedTuple):
    """Mean returns of the tasks from some task on, in each repetition."""

    agents: dict[str, FloatArray]
    """The mean return of an agent, [repetition], by its name."""
    optimal: FloatArray
    """The optimal expected return, [repetition]."""
    best_n_known: int
    """The number of visits with which RMax has the highest mean return."""

    @property
    def gap(self) -> float:
        """By how much the optimal return exceeds that of RMax, in the mean."""
        return float((self.optimal - self.agents[RMAX]).mean())

    def closed(self, name: str, other: str = RMAX) -> FloatArray:
        """The return of an agent minus that of another one, as a share of the gap, [repetition].

        Compared with RMax, this is 0 for the return of RMax and 1 for the optimal return.
        """
        difference = self.agents[name] - self.agents[other]
        return difference / self.gap if self.gap else np.full_like(difference, np.nan)


class FamilyReturns(NamedTuple):
    """What is measured in one family."""

    later: LaterReturns
    """The returns of the tasks from the second on."""
    used_from: int
    """The first task in which a learned nearness and the bound of MaxQInit are used."""
    used: LaterReturns
    """The returns of the tasks from `used_from` on; of the last task if there are fewer tasks."""
    helps_from: dict[str, int | None]
    """The task from which on an agent that learns knowledge is better than RMax; None without."""


def measure(setting: FamilySetting, spec: ExperimentSpec, results: "xr.Dataset") -> FamilyReturns:
    """Average the returns of a family."""
    used_from = first_task_with_learned_knowledge(setting, spec)
    kind = "discounted_returns" if setting.discounted else "returns"
    compared = results.assign(returns=results[kind])
    return FamilyReturns(
        later_returns(setting, results),
        used_from,
        later_returns(setting, results, first=min(used_from, spec.tasks)),
        {name: helps_from(compared, name) for name in LEARNING},
    )


def later_returns(setting: FamilySetting, results: "xr.Dataset", *, first: int = 2) -> LaterReturns:
    """Average the returns over the episodes of the tasks from a task on, by default the second."""
    returns = results.discounted_returns if setting.discounted else results.returns
    optimal = results.optimal_discounted if setting.discounted else results.optimal
    later = slice(first - 1, None)
    mean = returns.isel(task=later).mean(("task", "episode"))
    agents = {str(name): mean.sel(agent=name).values for name in results.agent.values}
    tried = {name: n_known for name, n_known in TUNED.items() if name in agents}
    tried[RMAX] = setting.options["n_known"]
    best = max(tried, key=lambda name: float(agents[name].mean()))
    agents[BEST] = agents[best]
    return LaterReturns(agents, optimal.isel(task=later).mean("task").values, tried[best])


def first_task_with_learned_knowledge(setting: FamilySetting, spec: ExperimentSpec) -> int:
    """Return the first task in which a learned nearness and the bound of MaxQInit are used."""
    p_min = setting.task_family.p_min if spec.distinct_tasks is None else 1 / spec.distinct_tasks
    assert p_min is not None, "all families of the study have finitely many tasks"
    (delta,) = (agent.all_options.delta for agent in spec.agents if agent.name == LEARNED)
    return tasks_for_max_q(p_min, delta) + 1


def report(
    specs: Mapping[str, ExperimentSpec],
    returns: Mapping[str, FamilyReturns],
    *,
    title_suffix: str = "",
) -> Report:
    """Report the claims, the figure and the numbers of all families.

    Args:
        specs: the specs as they were run, by family.
        returns: what was measured, by family.
        title_suffix: the end of the title of the figure.
    """
    first, *others = specs.values()
    by_title = {setting_of(family).title: of_family for family, of_family in returns.items()}
    later = {title: of_family.later for title, of_family in by_title.items()}
    decided = claims(by_title)
    return Report(
        spec=first,
        more_specs=tuple(others),
        summary={
            "repetitions": first.repetitions,
            "families": {family: _numbers(of_family) for family, of_family in returns.items()},
            "claims": [claim._asdict() for claim in decided],
        },
        claims=decided,
        tables=[
            _result_table("mean return of later tasks", (RMAX, BEST, VALID, *TRUE), later),
            _result_table("mean return with false knowledge", (ARRAYS, *FALSE), later),
            _result_table("mean return with checked knowledge", (RMAX, *CHECKED), later),
            _learned_table(by_title),
        ],
        figures={
            "knowledge": draw_rows(
                {
                    title: {
                        name: student_interval(of_family.closed(name))
                        for name in of_family.agents
                        if name not in (RMAX, *TUNED, *CHECKED, *LEARNING)
                    }
                    for title, of_family in later.items()
                },
                levels={RMAX: 0.0, OPTIMUM: 1.0},
                hollow=FALSE,
                xlabel="mean return of later tasks, as a share of the way from RMax to the optimum",
                title=f"What knowledge is worth{title_suffix}",
            )
        },
    )


def _numbers(returns: FamilyReturns) -> dict[str, Any]:
    """Return what `summary.json` has of a family."""
    later, used = returns.later, returns.used
    return {
        "optimal": float(later.optimal.mean()),
        "best_n_known": later.best_n_known,
        "agents": {name: _of_agent(later, name) for name in later.agents},
        "learned": {
            "used_from": returns.used_from,
            "optimal": float(used.optimal.mean()),
            "agents": {name: _of_agent(used, name) for name in (RMAX, *LEARNING, ARRAYS)},
            "helps_from": returns.helps_from,
        },
    }


def _of_agent(returns: LaterReturns, name: str) -> dict[str, float | None]:
    """Return the mean return of an agent and its share of the gap, with intervals."""
    mean, half_width = student_interval(returns.agents[name])
    closed = student_interval(returns.closed(name))
    (relative,) = nan_to_none(mean / abs(returns.agents[RMAX].mean() or np.nan))
    return {
        "return": float(mean),
        "ci95": nan_to_none(half_width)[0],
        "return_over_size_of_rmax": relative,
        "share_of_gap": nan_to_none(closed.mean)[0],
        "share_of_gap_ci95": nan_to_none(closed.half_width)[0],
    }


def _result_table(
    title: str, agents: Collection[str], returns: Mapping[str, LaterReturns]
) -> ResultTable:
    """Tabulate the mean returns of these agents and the optimal return, one row per family."""
    rows = []
    for family, of_family in returns.items():
        optimal = float(of_family.optimal.mean())
        means = [float(of_family.agents[name].mean()) for name in agents]
        rows.append([family, *(format_return(x, optimal) for x in (*means, optimal))])
    return ResultTable(title, ["family", *agents, OPTIMUM], rows)


def _learned_table(returns: Mapping[str, FamilyReturns]) -> ResultTable:
    """Tabulate the returns of the tasks in which learned knowledge is used."""
    used = {title: of_family.used for title, of_family in returns.items()}
    title, header, rows = _result_table(
        "mean return once learned knowledge is used", (RMAX, *LEARNING, ARRAYS), used
    )
    for row, of_family in zip(rows, returns.values(), strict=True):
        row.insert(1, str(of_family.used_from))
        row += [format_task(of_family.helps_from[name]) for name in LEARNING]
    helps = [f"{name} helps from task" for name in LEARNING]
    return ResultTable(title, [header[0], "from task", *header[1:], *helps], rows)


def format_task(task: int | None) -> str:
    """Format the task from which on an agent is better than RMax."""
    return "-" if task is None else str(task)


def format_return(number: float, optimal: float) -> str:
    """Format a return with three decimals if the optimal return is below 2, otherwise with one."""
    return f"{number:.{3 if abs(optimal) < 2 else 1}f}"


def claims(returns: Mapping[str, FamilyReturns]) -> list[Claim]:
    """Decide the claims on the worth of knowledge.

    Differences are those of the same repetition, as shares of the gap between RMax and the optimum.

    Args:
        returns: what was measured, by family.
    """
    later = {family: each.later for family, each in returns.items()}
    return [
        *_claims_on_true_knowledge(later),
        *_claims_on_false_knowledge(later),
        never_below(
            "learned knowledge, once it is used, never gives less than RMax",
            {
                f"{family}, {name}": each.used.closed(name)
                for family, each in returns.items()
                for name in LEARNING
            },
        ),
    ]


def _claims_on_true_knowledge(returns: Mapping[str, LaterReturns]) -> list[Claim]:
    """Claim that true knowledge does not harm, and that more of it gives more."""
    steps = list(zip((RMAX, *TRUE), TRUE, strict=False))
    guessed = {family: _guess(each) for family, each in returns.items() if _guess(each)}
    return [
        *(
            never_below(
                f"{name} never performs worse than RMax",
                {family: each.closed(name) for family, each in returns.items()},
                whose,
            )
            for name, whose in ((VALID, "paper"), *((true, OURS) for true in TRUE))
        ),
        *(
            always_above(
                f"{name} outperforms {BEST}",
                {family: each.closed(name, BEST) for family, each in returns.items()},
            )
            for name in (NUMBERS, ARRAYS)
        ),
        never_below(
            "more knowledge gives at least as much: two numbers, then successors, then arrays",
            {
                f"{family}, {more}": each.closed(more, less)
                for family, each in returns.items()
                for less, more in steps[1:]
            },
            OURS,
        ),
        always_above(
            f"{ARRAYS} outperforms {VALID}",
            {family: each.closed(ARRAYS, VALID) for family, each in returns.items()},
        ),
        *_guess_claims(returns, guessed),
    ]


def _claims_on_false_knowledge(returns: Mapping[str, LaterReturns]) -> list[Claim]:
    """Claim that false knowledge can harm, and that checks reduce the harm."""
    widened = {
        f"{family}, {name}": each.closed(name, unchecked)
        for family, each in returns.items()
        for name, unchecked in UNCHECKED.items()
    }
    return [
        *(
            can_fall_below(
                f"false knowledge can lower returns below those of {other}",
                {
                    f"{family}, {name}": each.closed(name, other)
                    for family, each in returns.items()
                    for name in FALSE
                },
            )
            for other in (ARRAYS, RMAX)
        ),
        never_below("widening false knowledge never lowers returns", widened),
        can_rise_above("widening false knowledge can raise returns", widened),
    ]


def _guess(returns: LaterReturns) -> str | None:
    """Return the name of the agent with a guessed prior; None if there is none."""
    names = [name for name in returns.agents if name not in NAMED]
    return names[0] if names else None


def _guess_claims(
    returns: Mapping[str, LaterReturns], guessed: Mapping[str, str | None]
) -> Iterable[Claim]:
    """Claim that two true numbers are worth at least as much as a guessed prior."""
    if not guessed:
        return
    (name,) = {name for name in guessed.values() if name is not None}
    yield never_below(
        f"{NUMBERS} performs at least as well as {name}, whose prior is a guess",
        {family: returns[family].closed(NUMBERS, name) for family in guessed},
        OURS,
    )


EXPERIMENT = Experiment(reproduce, settings, runs, has_variants=False)
