"""Certificates: episodes until a policy is certified, by what an agent knows of its tasks.

`CertifiedRMax` with its successors and rewards declared learns each task of a life for a million
steps (20,000 episodes of 50). In tasks 1, 2 and 5, other agents with copies of its memory learn the
same task until they have certified a policy, with at most 4,000 episodes. They know

- nothing;
- the possible successors of each pair, and where episodes can end;
- also that rewards are the same at every visit of a transition;
- also by how much two tasks can differ, as two numbers or as arrays;
- where only prices change: the prices of the task, and that transitions are equal.

Without a nearness, tasks do not depend on earlier ones, except that later ones have smaller shares
of δ. So only some agents are measured in each task.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from heirloom.choices import Variant
from heirloom.errors import InvalidArgument
from heirloom.experiments.job import draw_tasks
from heirloom.experiments.spec import ExperimentSpec
from heirloom.paper import certificates_measures as measures
from heirloom.paper.catalogue import SEED
from heirloom.paper.certificates_measures import (
    ARRAYS,
    GAPS,
    NOTHING,
    POOLED,
    REWARDS,
    SHARE,
    STEPS,
    UntilCertified,
    named,
)
from heirloom.paper.claims import (
    OURS,
    Claim,
    above,
    all_above,
    all_of,
    format_interval,
    median_above,
    median_interval,
)
from heirloom.paper.experiment import (
    FROZEN,
    Experiment,
    Options,
    Report,
    ResultTable,
    interval_to_list,
    nan_to_none,
)
from heirloom.planning.solve import solve
from heirloom.plot.transfer import draw_rows
from heirloom.stats import FloatArray, Interval, student_interval

if TYPE_CHECKING:
    import xarray as xr

EPISODES, MOST_TASKS, QUICK_EPISODES = 20_000, 5, 10
KNOWN = {"successors": "family", "rewards": "per transition"}
COUNTING, FROZEN_COUNTS = "RMax(10)", "RMax(10), one estimate"
AT_LEAST = 0.95  # share of the optimum that a policy should have
TARGETS = {0.2: 10, 0.1: 2}
"""How many times the episodes without nearness should be those with arrays, by the gap."""
PRICE_TARGET = 1.1


class Study(NamedTuple):
    """Agents that are measured with the tasks of one family."""

    title: str
    measure: type[UntilCertified]
    repetitions: int
    told: Mapping[str, Any] = KNOWN
    """What the agent that learns the sources knows."""
    tasks: int = MOST_TASKS


TIGHT, TIGHT_ALONE, RMAX = "tight", "tight-alone", "rmax"
STUDIES = {
    TIGHT: Study("tight", measures.Tight, 20),
    TIGHT_ALONE: Study("tight", measures.TightAlone, 6, tasks=1),
    "tight-numbers": Study("tight", measures.TightNumbers, 3),
    "tight-own": Study("tight, own sources", measures.TightOwn, 3, {**KNOWN, "nearness": "family"}),
    "corridor": Study("corridor", measures.Corridor, 6),
    "frozen-lakes": Study("FrozenLake", measures.FrozenLake, 6),
    "machines": Study("machines", measures.Machines, 6),
    "garnet": Study("Garnet", measures.Garnet, 6, {"rewards": "per transition"}, tasks=1),
    "garnet-small": Study(
        "Garnet, 30 states", measures.SmallGarnet, 6, {"rewards": "per transition"}, tasks=1
    ),
    "prices": Study("inventory, prices", measures.Prices, 10),
    "grid-prices": Study("grid, prices", measures.GridPrices, 10),
}
UNDECLARED = (TIGHT_ALONE, "corridor", "frozen-lakes")
"""The studies of which we claim that nothing is certified if no successors are declared."""


def settings(variant: Variant = "released", *, study: str = TIGHT) -> ExperimentSpec:
    """Return the spec of one study, a key of `STUDIES`, or "rmax" for the certificates of RMax."""
    sizes = {"episodes": EPISODES, "steps": STEPS, "seed": SEED}
    if study == RMAX:
        agents: dict[str, Any] = {COUNTING: {"refresh": 1.5}, FROZEN_COUNTS: FROZEN}
        return ExperimentSpec.read(
            {
                "name": "certificates, RMax",
                "family": measures.Tight.family,
                "defaults": {"n_known": 10, **KNOWN},
                "agents": [
                    {"name": name, "algorithm": "RMax", **options}
                    for name, options in agents.items()
                ],
                "tasks": 1,
                "repetitions": STUDIES[TIGHT].repetitions,
                "measure": "certificate",
                **sizes,
            }
        )
    if study not in STUDIES:
        raise InvalidArgument(f"study is {study!r}: expected one of {', '.join((*STUDIES, RMAX))}")
    _, measure, repetitions, told, tasks = STUDIES[study]
    return ExperimentSpec.read(
        {
            "name": f"certificates, {study}",
            "family": measure.family,
            "agents": [{"algorithm": "CertifiedRMax", **told}],
            "tasks": tasks,
            "repetitions": repetitions,
            "measure": f"{measure.__module__}:{measure.__name__}",
            **sizes,
        }
    )


def runs(options: Options) -> dict[str, ExperimentSpec]:
    """Return the spec of the run of each study."""
    return {
        f"run-{study}": options.apply(settings(study=study), {"episodes": QUICK_EPISODES})
        for study in (*STUDIES, RMAX)
    }


def reproduce(options: Options) -> Report:
    """Run or resume all studies, and report on them."""
    specs, suffix = runs(options), options.title_suffix
    rmax: dict[str, FloatArray] = {}
    rows: list[Row] = []
    for folder, spec in specs.items():
        study, results = folder.removeprefix("run-"), options.run(spec, folder)
        if study == RMAX:
            rmax = certified_by_rmax(spec, results)
        else:
            rows += measured_rows(study, results, most=spec.episodes // SHARE)
    return Report(
        specs=tuple(specs.values()),
        summary={
            "repetitions": next(iter(specs.values())).repetitions,
            "rows": [numbers(row) for row in rows],
            "rmax": {name: interval_to_list(x) for name, x in rmax.items()},
        },
        claims=claims(rows, rmax),
        tables=[
            ResultTable(
                "episodes until a policy is certified (median)",
                HEADER,
                [cells(numbers(row)) for row in rows],
            )
        ],
        figures={
            **{
                named("certificates", gap): draw_rows(
                    _medians(rows, gap),
                    levels={"not reached": float(rows[0].most)},
                    xlabel=f"episodes until a policy is certified within {gap:.0%} (median)",
                    title=f"What a certificate takes{suffix}",
                    xscale="symlog",
                )
                for gap in GAPS
            },
            "certificates-returns": draw_rows(
                _shares(rows, GAPS[0]),
                levels={"optimum": 1.0},
                xlabel=f"return until a policy is certified within {GAPS[0]:.0%}, "
                "as a share of the optimum",
                title=f"What a certificate costs{suffix}",
            ),
        },
    )


class Row(NamedTuple):
    """What is measured of agents with the same knowledge in one task of a family."""

    study: str
    kind: str
    task: int
    most: int
    """The number of episodes after which learning stops without a certificate."""
    x: dict[str, FloatArray]
    """The variables of `UntilCertified`, the optimal return, and for prices the gap before the
    first step divided by that at the end of the task before (`gap_ratio`), [repetition]."""

    @property
    def title(self) -> str:
        """The family and the task."""
        return f"{STUDIES[self.study].title}, task {self.task}"

    def episodes(self, gap: float) -> FloatArray:
        """Episodes until a policy is certified; infinite if none is."""
        found = self.x[named("episodes", gap)]
        return np.where(np.isnan(found), np.inf, found)

    def share(self, gap: float) -> FloatArray:
        """The mean return of these episodes, as a share of the optimum, if there are any."""
        share = self.x[named("returns", gap)] / self.x["optimal"]
        return share[np.isfinite(share)]


def measured_rows(study: str, results: "xr.Dataset", *, most: int) -> Iterator[Row]:
    """Yield what was measured in each task, by what agents know."""
    kinds = STUDIES[study].measure.kinds
    of_agent = results.isel(agent=0).transpose("repetition", "task", ...)
    for i, kind in enumerate(kinds):
        for task in measures.MEASURED[kind]:
            if task > of_agent.sizes["task"]:
                continue
            x = {name: of_agent[name].values[:, task - 1, i] for name in UntilCertified.variables}
            x["optimal"] = of_agent.optimal.values[:, task - 1]
            if kind == POOLED:
                x["gap_ratio"] = x["first_gap"] / of_agent.last_gap.values[:, task - 2, i]
            yield Row(study, kind, task, most, x)


def certified_by_rmax(spec: ExperimentSpec, results: "xr.Dataset") -> dict[str, FloatArray]:
    """Return the certified value as a share of the optimal one, [repetition], by agent."""
    tasks = [draw_tasks(spec, j)[0] for j in range(spec.repetitions)]
    optimal = np.array([m.start @ solve(m).V for m in tasks])
    lower = results.certified_lower.isel(task=0).transpose("agent", "repetition")
    return {str(name): lower.sel(agent=name).values / optimal for name in results.agent.values}


def _medians(rows: Sequence[Row], gap: float) -> dict[str, dict[str, Interval]]:
    found: dict[str, dict[str, Interval]] = {}
    for row in rows:
        median = np.minimum(median_interval(row.episodes(gap)).median, row.most)
        found.setdefault(row.title, {})[row.kind] = Interval(median, np.array(np.nan))
    return found


def _shares(rows: Sequence[Row], gap: float) -> dict[str, dict[str, Interval]]:
    found: dict[str, dict[str, Interval]] = {}
    for row in rows:
        if row.share(gap).size:
            found.setdefault(row.title, {})[row.kind] = student_interval(row.share(gap))
    return found


def numbers(row: Row) -> dict[str, Any]:
    """Return what `summary.json` has of a row; None for episodes that are not reached."""
    found: dict[str, Any] = {
        "family": STUDIES[row.study].title,
        "knowledge": row.kind,
        "task": row.task,
        "repetitions": row.x["optimal"].size,
        "most": row.most,
        "first_gap": float(np.median(row.x["first_gap"])),
    }
    for gap in GAPS:
        episodes, share = row.episodes(gap), row.share(gap)
        # By how much the certified policy can be worse, in units of the optimal value.
        above = row.x[named("gap", gap)]
        value = np.abs(row.x["optimal_value"])
        short = (row.x["optimal_value"] - row.x[named("lower", gap)]) / value
        found[f"{gap:g}"] = {
            "episodes": nan_to_none(np.array(median_interval(episodes))),
            "certified": int(np.isfinite(episodes).sum()),
            "gap": float(np.median(above)),
            "below_optimum": float(np.median(short)),
            "return_share": float(share.mean()) if share.size else None,
        }
    if "gap_ratio" in row.x:
        found["gap_ratio"] = interval_to_list(row.x["gap_ratio"])
    return found


HEADER = [
    "family, task",
    "knowledge",
    "repetitions",
    "gap before the first step",
    "episodes to 20%",
    "their return / optimum",
    "certified value below the optimum",
    "episodes to 10%",
]


def cells(row: Mapping[str, Any]) -> list[str]:
    """Return a row of `summary.json` as the cells of a table."""
    first, second = (row[f"{gap:g}"] for gap in GAPS)
    share = first["return_share"]
    return [
        f"{row['family']}, {row['task']}",
        row["knowledge"],
        str(row["repetitions"]),
        f"{row['first_gap']:.0%}",
        format_episodes(first["episodes"], row["most"]),
        "-" if share is None else f"{share:.0%}",
        f"{first['below_optimum']:.0%}",
        format_episodes(second["episodes"], row["most"]),
    ]


def format_episodes(episodes: Sequence[float | None], most: int) -> str:
    """Format a median and its interval, in which None stands for more than `most`."""
    median, low, high = episodes
    if median is None:
        return f"over {most:,}" if low is None else f"over {most:,} ({low:,.0f} or more)"
    if low is None:
        return f"{median:,.0f}"
    return f"{median:,.0f} ({low:,.0f} to {f'over {most:,}' if high is None else f'{high:,.0f}'})"


def claims(rows: Sequence[Row], rmax: Mapping[str, FloatArray]) -> list[Claim]:
    """Decide our claims on certificates; `rmax` has shares of the optimum, [repetition]."""
    by_key = {(row.study, row.kind, row.task): row for row in rows}
    without, arrays = (by_key[TIGHT, kind, MOST_TASKS] for kind in (REWARDS, ARRAYS))
    first, second = (_fewer_episodes(without, arrays, gap) for gap in GAPS)
    return [
        first,
        _good_returns(arrays, GAPS[0]),
        second,
        *(_prices(rows, study) for study in ("prices", "grid-prices")),
        above(
            f"{COUNTING}, which keeps counting, certifies {AT_LEAST:.0%} of the optimum in tight "
            "in the end",
            rmax[COUNTING],
            AT_LEAST,
            measured=f"{{}} of the optimal value; {rmax[FROZEN_COUNTS].mean():.2f} if pairs are "
            "estimated once",
            whose=OURS,
        ),
        _undeclared([by_key[study, NOTHING, 1] for study in UNDECLARED]),
    ]


def _fewer_episodes(without: Row, arrays: Row, gap: float) -> Claim:
    """Claim that arrays divide the episodes until a certificate by a number, in the median."""
    times, x, y = TARGETS[gap], without.episodes(gap), arrays.episodes(gap)
    with np.errstate(invalid="ignore"):
        difference = x - times * y  # NaN if neither was certified, which decides nothing
    medians = (
        format_episodes(nan_to_none(np.array(median_interval(z))), without.most) for z in (x, y)
    )
    return Claim(
        f"{without.title}: certified within {gap:.0%}, an agent without nearness needs at least "
        f"{times} times as many episodes as one with arrays",
        f"{' against '.join(medians)} episodes in the median; at least {times} times in "
        f"{np.count_nonzero(difference >= 0)} of {x.size} repetitions",
        median_above(difference),
        OURS,
    )


def _good_returns(arrays: Row, gap: float) -> Claim:
    share = arrays.share(gap)
    some = share.size > 0  # otherwise all were certified before the first step
    return Claim(
        f"{arrays.title}: with arrays, the return until a policy is certified within {gap:.0%} is "
        f"at least {AT_LEAST:.0%} of the optimum",
        f"{format_interval(student_interval(share))} of it" if some else "it takes no episode",
        all_above(share, AT_LEAST) if some else "undecided",
        OURS,
    )


def _prices(rows: Sequence[Row], study: str) -> Claim:
    """Claim that new prices hardly make the certificate worse."""
    ratios = {
        row.task: row.x["gap_ratio"] for row in rows if row.study == study and "gap_ratio" in row.x
    }
    shown = (
        f"{format_interval(student_interval(x))} times in task {task}" for task, x in ratios.items()
    )
    return Claim(
        f"{STUDIES[study].title}: with new prices, the gap before the first step is at most "
        f"{PRICE_TARGET:g} times that at the end of the task before",
        ", ".join(shown),
        all_above(-np.column_stack(list(ratios.values())), -PRICE_TARGET),
        OURS,
    )


def _undeclared(rows: Sequence[Row]) -> Claim:
    """Claim that more than half of the agents that know nothing certify nothing."""
    gap = GAPS[0]
    shown = (
        f"{np.isfinite(row.episodes(gap)).sum()} of {row.x['optimal'].size} in {row.title}, where "
        f"the gap is {np.median(row.x[named('gap', gap)]):.0%} in the end"
        for row in rows
    )
    return Claim(
        f"without declared successors, no policy is certified within {gap:.0%} in "
        f"{rows[0].most:,} episodes",
        "; ".join(shown),
        all_of([median_above(row.episodes(gap), row.most) for row in rows]),
        OURS,
    )


EXPERIMENT = Experiment(
    "Certificates: episodes until a policy is certified, by what an agent knows.",
    reproduce,
    settings,
    runs,
    has_variants=False,
)
