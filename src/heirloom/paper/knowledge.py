"""What knowledge is worth: returns of agents that know more or less about a family of tasks.

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
knowledge over the tasks in which they use it. The paper's families have the sizes of the paper's
experiments, the others those of `examples/`.
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from heirloom.choices import Variant
from heirloom.experiments.spec import ExperimentSpec
from heirloom.paper import families
from heirloom.paper.catalogue import SEED
from heirloom.paper.claims import (
    OURS,
    Claim,
    always_above,
    can_fall_below,
    can_rise_above,
    never_below,
)
from heirloom.paper.experiment import (
    FROZEN,
    Experiment,
    Options,
    Report,
    ResultTable,
    nan_to_none,
)
from heirloom.paper.families import FamilySetting, format_return
from heirloom.paper.returns import used_from
from heirloom.plot.transfer import draw_rows
from heirloom.runs.compare import helps_from
from heirloom.stats import FloatArray, student_interval

if TYPE_CHECKING:
    import xarray as xr

SIZES = {
    "frozen-lakes": (15, 2000, 100),
    "cliffs": (14, 200, 50),
    "taxis": (14, 300, 100),
    "prices": (15, 50, 50),
    "seasons": (15, 50, 50),
}
"""Tasks, episodes and steps of the families that are not the paper's."""
N_KNOWN = {"frozen-lakes": 10, "cliffs": 5, "taxis": 1, "prices": 20, "seasons": 20}
FAMILIES = (*families.PAPER, *SIZES)
DETERMINISTIC = ("corridor", "maze", "taxis")
"""Families of deterministic tasks, where one visit gives an exact model of a pair."""
GUESS = {"tight-released": 0.1, "tight-text": 0.1}
"""The priors d_max that the paper uses although they are not valid."""
REPETITIONS = 10

RMAX, VALID = "RMax", "LRMax (valid prior)"
"""RMAX is that of the paper, which estimates a known pair once; so do all agents but NearRMax."""
BEST = "RMax (best n_known)"
"""The best of RMAX and TUNED in a family, chosen by the returns that are shown."""
TUNED = {f"RMax (n_known={n}, keeps learning)": n for n in (1, 2, 5, 10, 20)}
KEEPS_LEARNING = {"refresh": 1.5}
NUMBERS, SUCCESSORS, ARRAYS = (
    f"NearRMax ({known})" for known in ("two numbers", "numbers, successors", "arrays")
)
TRUE = (NUMBERS, SUCCESSORS, ARRAYS)

HALF, TENTH = (f"NearRMax ({factor} of the arrays)" for factor in ("half", "a tenth"))
EQUAL = "NearRMax (all tasks equal)"
SCALES = {HALF: 0.5, TENTH: 0.1, EQUAL: 0.0}
FALSE = tuple(SCALES)

TENTH_WIDENING, EQUAL_WIDENING = (
    f"NearRMax ({claim}, widening)" for claim in ("a tenth", "all tasks equal")
)
UNCHECKED = {TENTH_WIDENING: TENTH, EQUAL_WIDENING: EQUAL}
"""The agent with the same false knowledge and without checks, by the agent that widens it."""
CHECKED = tuple(UNCHECKED)

LEARNED, MAX_Q, ENVELOPE = "NearRMax (learned)", "MaxQInit", "EnvelopeRMax"
LEARNING = (LEARNED, MAX_Q, ENVELOPE)
ALPHA = 0.2  # of the envelope; 0.05 needs more tasks than most families of the study have

NAMED = (RMAX, *TUNED, BEST, VALID, *TRUE, *FALSE, *CHECKED, *LEARNING)
"""All agents but that with a guessed prior, whose name contains the guess."""
OPTIMUM = "optimum"


def setting_of(family: str) -> FamilySetting:
    """Return the settings of a family of the study."""
    return families.setting_of(family, SIZES)


def options_of(family: str) -> dict[str, Any]:
    """Return the options of all agents; in families of the paper, they keep all sources."""
    spec = setting_of(family).spec
    if spec is None:
        return {"n_known": N_KNOWN[family], **FROZEN}
    (given,) = (agent.options for agent in spec.agents if agent.name == "MaxQInit")
    kept = {key: value for key, value in given.items() if key not in ("capacity", "keep")}
    return {**kept, "epsilon": 0.0} if family in DETERMINISTIC else kept


def settings(variant: Variant = "released", *, family: str = "tight-released") -> ExperimentSpec:
    """Return the spec of one family, whose name includes the variant."""
    setting = setting_of(family)
    return ExperimentSpec.read(
        {
            "name": f"knowledge, {setting.title}",
            "family": setting.family,
            "defaults": options_of(family),
            "agents": agents_of(family),
            **setting.sizes,
            "repetitions": REPETITIONS,
            "seed": SEED,
        }
    )


def agents_of(family: str) -> list[dict[str, Any]]:
    """Return the agents of a family, as tables of a spec."""
    tasks, deterministic = setting_of(family).task_family, family in DETERMINISTIC
    numbers = families.two_numbers(tasks)
    # Fewer sources save time.
    few = {"capacity": 2, "keep": "most_used"} if family == "taxis" else {}
    lrmax = {"algorithm": "LRMax", **few}
    tuned = {} if deterministic else TUNED  # one visit is best if it shows all
    agents: list[dict[str, Any]] = [
        {"name": RMAX, "algorithm": "RMax"},
        *(
            {"name": name, "algorithm": "RMax", "n_known": n_known, **KEEPS_LEARNING}
            for name, n_known in tuned.items()
        ),
        {"name": VALID, **lrmax, "d_max": families.valid_prior(tasks)},
    ]
    if family in GUESS:
        agents.append({**lrmax, "d_max": GUESS[family]})
    false = {
        name: {"nearness": "family", "nearness_scale": scale} for name, scale in SCALES.items()
    }
    near: dict[str, dict[str, Any]] = {
        NUMBERS: {"nearness": numbers},
        SUCCESSORS: {"nearness": {**numbers, "successors": "family"}},
        ARRAYS: {"nearness": "family"},
        **{name: {**claim, "on_refutation": "ignore"} for name, claim in false.items()},
        **{
            name: {**false[unchecked], "on_refutation": "widen"}
            for name, unchecked in UNCHECKED.items()
        },
        LEARNED: {"nearness": "learned"},
    }
    shared: dict[str, Any] = {"algorithm": "NearRMax", "exact": True}
    if not deterministic:  # the defaults of the algorithm
        shared = {"algorithm": "NearRMax", "n_known": 2, "epsilon": 0.0, **KEEPS_LEARNING}
    return [
        *agents,
        *({"name": name, **shared, **known} for name, known in near.items()),
        {"name": MAX_Q, "algorithm": "MaxQInit"},
        {"name": ENVELOPE, "algorithm": "EnvelopeRMax", "alpha": ALPHA},
    ]


def runs(options: Options) -> dict[str, ExperimentSpec]:
    """Return the spec of the run of each family."""
    quick = {"tasks": 4, "episodes": 1000}
    return {f"run-{name}": options.apply(settings(family=name), quick) for name in FAMILIES}


def reproduce(options: Options) -> Report:
    """Run or resume the families one after the other, and report on all."""
    specs, returns = {}, {}
    for folder, spec in runs(options).items():
        family = folder.removeprefix("run-")
        specs[family], returns[family] = spec, measure(family, spec, options.run(spec, folder))
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


def measure(family: str, spec: ExperimentSpec, results: "xr.Dataset") -> FamilyReturns:
    """Average the returns of a family."""
    first, results = used_from(spec, LEARNED), setting_of(family).as_shown(results)
    return FamilyReturns(
        later_returns(family, results),
        first,
        later_returns(family, results, first=min(first, spec.tasks)),
        {name: helps_from(results, name) for name in LEARNING},
    )


def later_returns(family: str, results: "xr.Dataset", *, first: int = 2) -> LaterReturns:
    """Average the returns over the episodes of the tasks from a task on, by default the second."""
    later = results.isel(task=slice(first - 1, None))
    mean = later.returns.mean(("task", "episode"))
    agents = {str(name): mean.sel(agent=name).values for name in results.agent.values}
    tried = {name: n_known for name, n_known in TUNED.items() if name in agents}
    tried[RMAX] = options_of(family)["n_known"]
    best = max(tried, key=lambda name: float(agents[name].mean()))
    agents[BEST] = agents[best]
    return LaterReturns(agents, later.optimal.mean("task").values, tried[best])


def report(
    specs: Mapping[str, ExperimentSpec],
    returns: Mapping[str, FamilyReturns],
    *,
    title_suffix: str = "",
) -> Report:
    """Report the claims, the figure and the numbers of what was measured, by family."""
    by_title = {setting_of(family).title: of_family for family, of_family in returns.items()}
    later = {title: of_family.later for title, of_family in by_title.items()}
    return Report(
        specs=tuple(specs.values()),
        summary={
            "repetitions": next(iter(specs.values())).repetitions,
            "families": {family: _numbers(of_family) for family, of_family in returns.items()},
        },
        claims=claims(by_title),
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
        row += [str(of_family.helps_from[name] or "-") for name in LEARNING]
    helps = [f"{name} helps from task" for name in LEARNING]
    return ResultTable(title, [header[0], "from task", *header[1:], *helps], rows)


def claims(returns: Mapping[str, FamilyReturns]) -> list[Claim]:
    """Decide the claims on the worth of knowledge.

    Differences are those of the same repetition, as shares of the gap between RMax and the optimum.
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

    def gaps(name: str, other: str = RMAX) -> dict[str, FloatArray]:
        return {family: each.closed(name, other) for family, each in returns.items()}

    return [
        *(
            never_below(f"{name} never performs worse than RMax", gaps(name), whose)
            for name, whose in ((VALID, "paper"), *((true, OURS) for true in TRUE))
        ),
        *(
            always_above(f"{name} outperforms {BEST}", gaps(name, BEST))
            for name in (NUMBERS, ARRAYS)
        ),
        never_below(
            "more knowledge gives at least as much: two numbers, then successors, then arrays",
            {
                f"{family}, {more}": each.closed(more, less)
                for family, each in returns.items()
                for less, more in pairwise(TRUE)
            },
        ),
        always_above(f"{ARRAYS} outperforms {VALID}", gaps(ARRAYS, VALID)),
        *_guess_claims(returns),
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


def _guess_claims(returns: Mapping[str, LaterReturns]) -> Iterator[Claim]:
    """Claim that two true numbers are worth at least as much as a guessed prior."""
    names = dict.fromkeys(name for each in returns.values() for name in each.agents)
    for name in names.keys() - set(NAMED):
        yield never_below(
            f"{NUMBERS} performs at least as well as {name}, whose prior is a guess",
            {
                family: each.closed(NUMBERS, name)
                for family, each in returns.items()
                if name in each.agents
            },
        )


EXPERIMENT = Experiment(
    "What knowledge is worth: transfer with more or less knowledge, true and false.",
    reproduce,
    settings,
    runs,
    has_variants=False,
)
