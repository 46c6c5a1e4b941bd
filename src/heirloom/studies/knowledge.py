"""What prior knowledge is worth: returns of agents that know more or less about a family of tasks.

The agents know, in this order,

- nothing (RMax);
- a valid prior on distances (LRMax), or a guess of it;
- two numbers, by how much rewards and transition probabilities of two tasks can differ (NearRMax);
- the possible successors of each pair as well;
- the two numbers for each pair, as arrays, and the successors;
- the same arrays multiplied by one half or by a tenth, which is false.

Returns are compared over the tasks from the second on.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from heirloom.choices import Variant
from heirloom.experiments.spec import ExperimentSpec
from heirloom.figures.points import draw_rows
from heirloom.paper.claims import OURS, Claim, format_interval, undecided_if_few
from heirloom.paper.experiment import Experiment, Options, Report, ResultTable, band, nan_to_none
from heirloom.stats import FloatArray, Interval, student_interval
from heirloom.studies.families import (
    FAMILIES,
    Setting,
    base_spec,
    setting_of,
    two_numbers,
    valid_prior,
)

if TYPE_CHECKING:
    import xarray as xr

RMAX, VALID = "RMax", "LRMax (valid prior)"
NUMBERS, SUCCESSORS, ARRAYS = (
    f"NearRMax ({known})" for known in ("two numbers", "numbers, successors", "arrays")
)
HALF, TENTH = (f"NearRMax ({factor} of the arrays)" for factor in ("half", "a tenth"))
TRUE = (NUMBERS, SUCCESSORS, ARRAYS)
FALSE = (HALF, TENTH)
OPTIMUM = "optimum"
QUICK_TASKS, QUICK_EPISODES = 4, 1000


def settings(variant: Variant = "released", *, family: str = "tight-released") -> ExperimentSpec:
    """Return the spec of one family; the variant makes no difference.

    Args:
        variant: ignored, because the name of a family includes its variant.
        family: the family, a key of `FAMILIES`.
    """
    setting = setting_of(family)
    numbers = two_numbers(setting.task_family)
    lrmax = {"algorithm": "LRMax", **setting.lrmax_options}
    agents: list[dict[str, Any]] = [
        {"name": RMAX, "algorithm": "RMax"},
        {"name": VALID, **lrmax, "d_max": valid_prior(setting.task_family)},
    ]
    if setting.guess is not None:
        agents.append({**lrmax, "d_max": setting.guess})
    near: dict[str, dict[str, Any]] = {
        NUMBERS: {"nearness": numbers},
        SUCCESSORS: {"nearness": {**numbers, "successors": "family"}},
        ARRAYS: {"nearness": "family"},
        HALF: {"nearness": "family", "nearness_scale": 0.5},
        TENTH: {"nearness": "family", "nearness_scale": 0.1},
    }
    agents += [{"name": name, "algorithm": "NearRMax", **known} for name, known in near.items()]
    return base_spec(family, agents)


def reproduce(options: Options) -> Report:
    """What knowledge is worth: transfer with more or less prior knowledge, true and false."""
    specs, returns = {}, {}
    for family in FAMILIES:
        spec = settings(family=family)
        fewer = {"tasks": QUICK_TASKS, "episodes": min(spec.episodes, QUICK_EPISODES)}
        specs[family] = options.apply(spec, fewer)
        results = options.run(specs[family], f"run-{family}")
        returns[family] = later_returns(setting_of(family), results)
    return report(specs, returns, title_suffix=options.title_suffix)


class LaterReturns(NamedTuple):
    """Mean returns of the tasks from the second on, in each repetition."""

    agents: dict[str, FloatArray]
    """The mean return of an agent, [repetition], by its name."""
    optimal: FloatArray
    """The optimal expected return, [repetition]."""

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


def later_returns(setting: Setting, results: "xr.Dataset") -> LaterReturns:
    """Average the returns over the episodes of the tasks from the second on."""
    returns = results.discounted_returns if setting.discounted else results.returns
    optimal = results.optimal_discounted if setting.discounted else results.optimal
    later = slice(1, None)
    mean = returns.isel(task=later).mean(("task", "episode"))
    return LaterReturns(
        {str(name): mean.sel(agent=name).values for name in results.agent.values},
        optimal.isel(task=later).mean("task").values,
    )


def report(
    specs: Mapping[str, ExperimentSpec],
    returns: Mapping[str, LaterReturns],
    *,
    title_suffix: str = "",
) -> Report:
    """Report the claims, the figure and the numbers of all families.

    Args:
        specs: the specs as they were run, by family.
        returns: the returns of the later tasks, by family.
        title_suffix: the end of the title of the figure.
    """
    first, *others = specs.values()
    by_title = {setting_of(family).title: of_family for family, of_family in returns.items()}
    decided = undecided_if_few(claims(by_title), first.repetitions)
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
            _result_table("mean return of later tasks", (RMAX, VALID, *TRUE), by_title),
            _result_table("mean return with false knowledge", (ARRAYS, *FALSE), by_title),
        ],
        figures={
            "knowledge": draw_rows(
                {
                    title: {
                        name: band(of_family.closed(name))
                        for name in of_family.agents
                        if name != RMAX
                    }
                    for title, of_family in by_title.items()
                },
                levels={RMAX: 0.0, OPTIMUM: 1.0},
                hollow=FALSE,
                xlabel="mean return of later tasks, as a share of the way from RMax to the optimum",
                title=f"What knowledge is worth{title_suffix}",
            )
        },
    )


def _numbers(returns: LaterReturns) -> dict[str, Any]:
    """Return what `summary.json` has of a family."""

    def of_agent(name: str) -> dict[str, float | None]:
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

    return {
        "optimal": float(returns.optimal.mean()),
        "agents": {name: of_agent(name) for name in returns.agents},
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


def format_return(number: float, optimal: float) -> str:
    """Format a return with three decimals if the optimal return is below 2, otherwise with one."""
    return f"{number:.{3 if abs(optimal) < 2 else 1}f}"


def claims(returns: Mapping[str, LaterReturns]) -> list[Claim]:
    """Decide the claims on the worth of knowledge.

    Differences are those of the same repetition, as shares of the gap between RMax and the optimum.

    Args:
        returns: the returns of the later tasks, by family.
    """
    steps = list(zip((RMAX, *TRUE), TRUE, strict=False))
    guessed = {family: _guess(each) for family, each in returns.items() if _guess(each)}
    return [
        *(
            _never_below(
                f"{name} never performs worse than RMax",
                {family: each.closed(name) for family, each in returns.items()},
                whose,
            )
            for name, whose in ((VALID, "paper"), *((true, OURS) for true in TRUE))
        ),
        _never_below(
            "more knowledge gives at least as much: two numbers, then successors, then arrays",
            {
                f"{family}, {more}": each.closed(more, less)
                for family, each in returns.items()
                for less, more in steps[1:]
            },
            OURS,
        ),
        _always_above(
            f"{ARRAYS} outperforms {VALID}",
            {family: each.closed(ARRAYS, VALID) for family, each in returns.items()},
        ),
        *_guess_claims(returns, guessed),
        *(
            _can_fall_below(
                f"false knowledge can lower returns below those of {other}",
                {
                    f"{family}, {name}": each.closed(name, other)
                    for family, each in returns.items()
                    for name in FALSE
                },
            )
            for other in (ARRAYS, RMAX)
        ),
    ]


def _guess(returns: LaterReturns) -> str | None:
    """Return the name of the agent with a guessed prior; None if there is none."""
    names = [name for name in returns.agents if name not in (RMAX, VALID, *TRUE, *FALSE)]
    return names[0] if names else None


def _guess_claims(
    returns: Mapping[str, LaterReturns], guessed: Mapping[str, str | None]
) -> Iterable[Claim]:
    """Claim that two true numbers are worth at least as much as a guessed prior."""
    if not guessed:
        return
    (name,) = {name for name in guessed.values() if name is not None}
    yield _never_below(
        f"{NUMBERS} performs at least as well as {name}, whose prior is a guess",
        {family: returns[family].closed(NUMBERS, name) for family in guessed},
        OURS,
    )


def _intervals(differences: Mapping[str, FloatArray]) -> dict[str, Interval]:
    """Return intervals that contain all means at once with probability 95 % (Bonferroni)."""
    confidence = 1 - 0.05 / len(differences)
    return {
        label: student_interval(difference, confidence=confidence)
        for label, difference in differences.items()
    }


def _lowest(intervals: Mapping[str, Interval]) -> tuple[str, Interval]:
    return min(intervals.items(), key=lambda item: float(item[1].mean))


def _never_below(statement: str, differences: Mapping[str, FloatArray], whose: str) -> Claim:
    """Claim that no difference is below 0."""
    intervals = _intervals(differences)
    below = [label for label, x in intervals.items() if x.mean + x.half_width < 0]
    label, lowest = _lowest(intervals)
    where = f" ({'; '.join(below)})" if below else ""
    return Claim(
        statement,
        f"the difference is at worst {format_interval(lowest)} of the gap ({label}); in "
        f"{len(below)} of {len(intervals)} cases the interval is below 0{where}",
        not below,
        whose,
    )


def _always_above(statement: str, differences: Mapping[str, FloatArray]) -> Claim:
    """Claim that all differences are above 0."""
    intervals = _intervals(differences)
    above = [label for label, x in intervals.items() if x.mean - x.half_width > 0]
    label, lowest = _lowest(intervals)
    return Claim(
        f"{statement} in every family",
        f"the difference is at least {format_interval(lowest)} of the gap ({label}); in "
        f"{len(above)} of {len(intervals)} families the interval is above 0",
        len(above) == len(intervals),
        OURS,
    )


def _can_fall_below(statement: str, differences: Mapping[str, FloatArray]) -> Claim:
    """Claim that at least one difference is below 0."""
    never = _never_below(statement, differences, OURS)
    return never._replace(holds=not never.holds)


EXPERIMENT = Experiment(reproduce, settings, has_variants=False)
