"""Everything side by side: tuned rivals, naive transfer, assumptions, and true and false nearness.

In each family, four settings of every algorithm are tried on two lives, and the best one enters the
comparison on ten others. Returns are means over the tasks from the second on. Shares are those of
the gap between RMax(10), frozen, as the paper has it, and the optimum; they are shown where this
gap is above 5 % of the optimum. An agent that needs too much time did not finish, which is a result
too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from heirloom.choices import Variant
from heirloom.errors import InvalidArgument
from heirloom.experiments.job import draw_tasks
from heirloom.experiments.spec import ExperimentSpec
from heirloom.paper.claims import (
    OURS,
    Claim,
    all_above,
    always_above,
    can_fall_below,
    format_interval,
    never_below,
)
from heirloom.paper.experiment import (
    Experiment,
    Options,
    Report,
    ResultTable,
    interval_to_list,
    nan_to_none,
)
from heirloom.paper.families import FamilySetting, format_return
from heirloom.paper.rivals_settings import (
    BASELINE,
    ENTRANTS,
    FAMILIES,
    KINDS,
    NEAR,
    POOLED,
    RMAX,
    Kind,
    final_spec,
    setting_of,
    tuned_name,
    tuning_spec,
)
from heirloom.planning.solve import expected_return, solve
from heirloom.plot.curves import draw_lines, draw_profiles
from heirloom.plot.transfer import draw_rows
from heirloom.runs.stored_run import StoredRun
from heirloom.stats import BoolArray, FloatArray, Interval, step_down, student_interval

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

LEAST_GAP = 0.05  # of the optimum: shares of a smaller gap are not shown
FIRST = 10  # episodes of a task
ERROR = 0.05  # of all comparisons of a family together
QUICK_FAMILIES = ("corridor", "prices", "trap")
QUICK = {"tasks": 3, "episodes": 20}
SEQUENCES = {
    "trap": "the ferry is good in nine tasks, and sinks in the tenth",
    "shortcut": "the ferry sinks in five tasks, and is good in the next five",
}


def settings(variant: Variant = "released", *, family: str = "tight-released") -> ExperimentSpec:
    """Return the spec of the run in which settings are chosen; that of the comparison follows."""
    return tuning_spec(family)


def runs(options: Options) -> dict[str, ExperimentSpec]:
    """Return the specs of all runs; those of comparisons have the first setting of each entrant."""
    specs = {}
    for family in QUICK_FAMILIES if options.quick else FAMILIES:
        specs[f"tune-{family}"] = tuning = applied_tuning(options, family)
        names = {agent.name for agent in tuning.agents}
        first = {name: 0 for name in ENTRANTS if tuned_name(name, 0) in names}
        specs[f"run-{family}"] = options.apply(final_spec(family, with_likes(first)), QUICK)
    return specs


def applied_tuning(options: Options, family: str) -> ExperimentSpec:
    """Return the spec of tuning with the options; it keeps its repetitions, and another seed."""
    tuning = tuning_spec(family)
    seed = None if options.seed is None else options.seed + 1
    return options.apply(tuning, QUICK).with_changes(repetitions=tuning.repetitions, seed=seed)


def reproduce(options: Options) -> Report:
    """Tune all entrants in each family, and compare those that are chosen."""
    specs, found = [], {}
    for family in QUICK_FAMILIES if options.quick else FAMILIES:
        setting, tuning = setting_of(family), applied_tuning(options, family)
        tuned = tuning_means(setting, options.run(tuning, f"tune-{family}"))
        spec = options.apply(final_spec(family, with_likes(chosen_settings(tuned))), QUICK)
        results = options.run(spec, f"run-{family}")
        seconds = StoredRun(options.location / f"run-{family}").seconds()
        found[family] = measure(setting, spec, results, tuned, seconds)
        specs += [tuning, spec]
    compared = {family: Comparison.of(each) for family, each in found.items()}
    measured = {family: numbers(each, compared[family]) for family, each in found.items()}
    return Report(
        specs=specs,
        summary={"families": measured, "wins": wins(compared)},
        claims=claims(found),
        tables=list(tables(found, compared)),
        figures=figures(measured, options.title_suffix),
    )


def tuning_means(setting: FamilySetting, results: "xr.Dataset") -> dict[str, list[float]]:
    """Return the mean return of each setting of each entrant; NaN if it did not finish."""
    later = setting.as_shown(results).returns.isel(task=slice(1, None))
    later = later.mean(("repetition", "task", "episode"), skipna=False)
    means = {str(name): float(mean) for name, mean in zip(later.agent.values, later, strict=True)}
    return {
        name: [means[tuned_name(name, i)] for i in range(len(entrant.settings))]
        for name, entrant in ENTRANTS.items()
        if tuned_name(name, 0) in means
    }


def chosen_settings(tuned: Mapping[str, list[float]]) -> dict[str, int]:
    """Return the best setting of each entrant; those of which none finished are left out."""
    return {
        name: int(np.nanargmax(means)) for name, means in tuned.items() if np.isfinite(means).any()
    }


def with_likes(chosen: Mapping[str, int]) -> dict[str, int]:
    """Add the entrants whose setting is that of another one."""
    likes = {name: like for name, entrant in ENTRANTS.items() if (like := entrant.like) is not None}
    return {**chosen, **{name: chosen[like] for name, like in likes.items() if like in chosen}}


class Found(NamedTuple):
    """What is measured in one family; entrants that did not finish are left out."""

    setting: FamilySetting
    tasks: dict[str, FloatArray]
    """The mean return of each later task, [repetition, task], by entrant."""
    first: dict[str, FloatArray]
    """The mean return of the first episodes of later tasks, [repetition]."""
    optimal: FloatArray
    """The optimal expected return of later tasks, [repetition]."""
    ceiling: FloatArray
    """That of the policy which is optimal with the discount factor of agents."""
    unfinished: dict[str, str]
    """Entrants that did not finish, and which of their jobs."""
    seconds: dict[str, float]
    """The time of a life, in the mean."""
    tuned: dict[str, list[float]]
    """The mean return of each setting in the tuning run."""
    chosen: dict[str, dict[str, Any]]
    """The options of each entrant."""

    def mean(self, name: str) -> FloatArray:
        """The mean return of an entrant, [repetition]."""
        return self.tasks[name].mean(axis=1)

    @property
    def gap(self) -> float:
        """By how much the optimal return exceeds that of the frozen RMax, in the mean."""
        return float((self.optimal - self.mean(BASELINE)).mean())

    @property
    def has_shares(self) -> bool:
        """Whether the gap is large enough to be divided by."""
        return self.gap > LEAST_GAP * abs(float(self.optimal.mean()))

    def share(self, name: str, other: str = BASELINE) -> FloatArray:
        """The return of an entrant minus that of another one, divided by the gap, [repetition]."""
        return (self.mean(name) - self.mean(other)) / self.gap

    def over_rmax(self, name: str) -> FloatArray:
        """The return minus that of tuned RMax, divided by the gap, [repetition, task]."""
        return (self.tasks[name] - self.tasks[RMAX]) / self.gap

    def worst(self, name: str) -> FloatArray:
        """The same in the task in which it is smallest in the mean over repetitions."""
        difference = self.over_rmax(name)
        worst: FloatArray = difference[:, int(difference.mean(axis=0).argmin())]
        return worst

    def by_task(self, name: str) -> dict[str, FloatArray]:
        """The same by task, with labels; claims on the worst task are claims on all of them."""
        return {
            f"{self.setting.title}, {name}, task {k + 2}": x
            for k, x in enumerate(self.over_rmax(name).T)
        }

    def best(self, kind: Kind) -> str | None:
        """The entrant of this kind that was best in the tuning run and finished."""
        names = self.tasks.keys() & self.tuned.keys() - {BASELINE}
        found = [name for name in self.tasks if name in names and ENTRANTS[name].kind == kind]
        return max(found, key=lambda name: float(np.nanmax(self.tuned[name])), default=None)


def measure(
    setting: FamilySetting,
    spec: ExperimentSpec,
    results: "xr.Dataset",
    tuned: Mapping[str, list[float]],
    seconds: FloatArray,
) -> Found:
    """Average the results of a family."""
    shown = setting.as_shown(results).isel(task=slice(1, None))
    later = shown.returns.transpose("agent", "repetition", "task", "episode")
    names = [str(name) for name in later.agent.values]
    finished = {
        name: x for name, x in zip(names, later.values, strict=True) if np.isfinite(x).all()
    }
    for name in (BASELINE, RMAX):
        if name not in finished:
            raise InvalidArgument(
                f"{name} did not finish in {setting.title}, and all others are compared with it: "
                "run the experiment on a faster machine"
            )
    unfinished = {name: "in tuning" for name in tuned if name not in names}
    for name, x in zip(names, later.values, strict=True):
        if name not in finished:
            n = int(np.isnan(x).all(axis=(1, 2)).sum())
            unfinished[name] = f"in {n} of {len(x)} lives"
    return Found(
        setting,
        {name: x.mean(axis=2) for name, x in finished.items()},
        {name: x[:, :, :FIRST].mean(axis=(1, 2)) for name, x in finished.items()},
        shown.optimal.transpose("repetition", "task").values.mean(axis=1),
        np.array([_ceiling(setting, spec, j) for j in range(spec.repetitions)]),
        unfinished,
        {name: float(x.mean()) for name, x in zip(names, seconds, strict=True)},
        dict(tuned),
        {agent.name: agent.options for agent in spec.agents},
    )


def _ceiling(setting: FamilySetting, spec: ExperimentSpec, repetition: int) -> float:
    """Return the expected return of γ-optimal policies in the later tasks."""
    tasks = draw_tasks(spec, repetition)[1:]
    values = {
        key: expected_return(m, solve(m).policy, horizon=spec.steps, discounted=setting.discounted)
        for key, m in {id(m): m for m in tasks}.items()
    }
    return float(np.mean([values[id(m)] for m in tasks]))


class Comparison(NamedTuple):
    """Which entrant is better than which other one, with 5 % errors over all pairs together."""

    names: list[str]
    is_better: BoolArray
    """Whether the entrant of a row is better than that of a column."""

    @classmethod
    def of(cls, found: Found) -> "Comparison":
        """Compare all entrants with true or without knowledge."""
        names = [name for name in found.tasks if ENTRANTS[name].kind != "false nearness"]
        n = len(names)
        x = np.column_stack([found.mean(name) for name in names])
        rows, columns = np.triu_indices(n, 1)
        differences = x[:, rows] - x[:, columns]
        is_real = step_down(differences) <= ERROR
        is_better = np.zeros((n, n), dtype=bool)
        is_better[rows, columns] = is_real & (differences.mean(axis=0) > 0)
        is_better[columns, rows] = is_real & (differences.mean(axis=0) < 0)
        return cls(names, is_better)

    @property
    def unbeaten(self) -> list[str]:
        """The entrants that no other one is shown to be better than."""
        return [
            name
            for name, beaten in zip(self.names, self.is_better.T, strict=True)
            if not beaten.any()
        ]


def figures(
    measured: Mapping[str, Mapping[str, Any]], title_suffix: str = ""
) -> "dict[str, Figure]":
    """Draw the best of each kind, their worst tasks, and profiles, from `summary.json`."""
    shown = [each for each in measured.values() if each["gap"] is not None]
    drawn = {}
    for family, sequence in SEQUENCES.items():
        if family in measured:
            entrants = measured[family]["entrants"]
            drawn[f"rivals-{family}"] = draw_lines(
                {n: entrants[n]["tasks"] for n in (RMAX, *POOLED, NEAR) if n in entrants},
                first=2,
                xlabel="task",
                ylabel="mean return of an episode",
                title=f"{measured[family]['title']}: {sequence}{title_suffix}",
            )

    def of_kinds(kinds: Sequence[Kind], what: str) -> dict[str, dict[str, Interval]]:
        return {
            each["title"]: {
                kind_title(kind): _interval(each["entrants"][each["best"][kind]][what])
                for kind in kinds
                if each["best"][kind] is not None
            }
            for each in shown
        }

    return {
        "rivals": draw_rows(
            of_kinds(KINDS[:-1], "share"),
            levels={BASELINE: 0.0, "optimum": 1.0},
            xlabel="mean return of later tasks, as a share of the gap",
            title=f"The best of each kind, as chosen by tuning{title_suffix}",
        ),
        "rivals-worst": draw_rows(
            of_kinds(KINDS[1:-1], "worst"),
            levels={f"tuned {RMAX}": 0.0},
            xlabel=f"return minus that of tuned {RMAX} in the worst task, as a share of the gap",
            title=f"Negative transfer{title_suffix}",
        ),
        "rivals-profiles": draw_profiles(
            profiles(shown),
            xlabel="share of the gap",
            ylabel="share of families with at least this share",
            title=f"Performance profiles{title_suffix}",
        ),
        **drawn,
    }


def _interval(pair: Sequence[float | None]) -> Interval:
    return Interval(*np.array(pair, dtype=float))


def kind_title(kind: Kind) -> str:
    """Return the name of a kind in figures."""
    return f"best with {kind}" if kind != "no transfer" else "best without transfer"


def profiles(shown: Sequence[Mapping[str, Any]]) -> dict[str, FloatArray]:
    """Return the sorted shares of the gap of the best two entrants of each kind.

    The share is -∞ in families in which an entrant did not finish or does not apply.
    """
    profiles: dict[str, FloatArray] = {}
    for kind in KINDS[:-1]:
        shares = {
            name: np.sort(
                [
                    each["entrants"][name]["share"][0] if name in each["entrants"] else -np.inf
                    for each in shown
                ]
            )
            for name, entrant in ENTRANTS.items()
            if entrant.kind == kind and shown
        }
        best = sorted(shares, key=lambda name: -float(np.clip(shares[name], 0, 1).mean()))[:2]
        profiles |= {name: x for name, x in shares.items() if name in best}
    return profiles


def numbers(found: Found, compared: Comparison) -> dict[str, Any]:
    """Return what `summary.json` has of a family."""
    optimal, ceiling = (float(x.mean()) for x in (found.optimal, found.ceiling))
    return {
        "title": found.setting.title,
        "unit": found.setting.unit,
        "discounted": found.setting.discounted,
        "optimal": optimal,
        "ceiling": ceiling,
        "gap": found.gap if found.has_shares else None,
        "entrants": {name: _of_entrant(found, name) for name in found.tasks},
        "did_not_finish": found.unfinished,
        "best": {kind: found.best(kind) for kind in KINDS[:-1]},
        "unbeaten": compared.unbeaten,
    }


def _of_entrant(found: Found, name: str) -> dict[str, Any]:
    mean, half_width = student_interval(found.mean(name))
    tuned = found.tuned.get(name, [])
    row: dict[str, Any] = {
        "kind": ENTRANTS[name].kind,
        "options": found.chosen[name],
        "return": float(mean),
        "ci95": nan_to_none(half_width)[0],
        "first": float(found.first[name].mean()),
        "tasks": found.tasks[name].mean(axis=0).tolist(),
        "seconds": found.seconds[name],
        "settings": nan_to_none(np.array(tuned)),
    }
    if found.has_shares:
        spread = (np.nanmax(tuned) - np.nanmin(tuned)) / found.gap if len(tuned) > 1 else np.nan
        row |= {
            "share": interval_to_list(found.share(name)),
            "worst": interval_to_list(found.worst(name)),
            "sensitivity": nan_to_none(np.array(spread))[0],
        }
    return row


def wins(compared: Mapping[str, Comparison]) -> dict[str, dict[str, int]]:
    """Count the families in which an entrant is shown to be better than another one."""
    counted: dict[str, dict[str, int]] = {}
    for each in compared.values():
        for i, j in zip(*np.nonzero(each.is_better), strict=True):
            row = counted.setdefault(each.names[i], {})
            row[each.names[j]] = row.get(each.names[j], 0) + 1
    return counted


def tables(found: Mapping[str, Found], compared: Mapping[str, Comparison]) -> Iterator[ResultTable]:
    """Tabulate the best of each kind, and what false knowledge costs."""
    rows = []
    for family, each in found.items():
        optimal = float(each.optimal.mean())
        cells = [each.setting.title, format_return(float(each.mean(BASELINE).mean()), optimal)]
        for kind in KINDS[:-1]:
            name = each.best(kind)
            cells.append(
                "-"
                if name is None
                else f"{format_return(float(each.mean(name).mean()), optimal)} {name}"
                + (" *" if name in compared[family].unbeaten else "")
            )
        ceiling = format_return(float(each.ceiling.mean()), optimal)
        rows.append([*cells, ceiling, format_return(optimal, optimal)])
    header = ["family", BASELINE, *map(kind_title, KINDS[:-1]), "ceiling", "optimum"]
    yield ResultTable("mean return of later tasks (* no other one is shown better)", header, rows)
    names = [NEAR, *(name for name, entrant in ENTRANTS.items() if entrant.like == NEAR)]
    yield ResultTable(
        "share of the gap with a false nearness, and in the worst task",
        ["family", *names],
        [
            [
                each.setting.title,
                *(
                    f"{each.share(name).mean():.2f} ({each.worst(name).mean():+.2f})"
                    if name in each.tasks
                    else "did not finish"
                    for name in names
                ),
            ]
            for each in found.values()
            if each.has_shares
        ],
    )


def claims(found: Mapping[str, Found]) -> list[Claim]:
    """Decide the claims on who wins where."""
    shown = {each.setting.title: each for each in found.values() if each.has_shares}
    near = {title: each for title, each in shown.items() if NEAR in each.tasks}

    def against(choose: Callable[[Found], str | None]) -> dict[str, FloatArray]:
        others = {title: choose(each) for title, each in near.items()}
        return {
            title: near[title].share(NEAR, name)
            for title, name in others.items()
            if name is not None
        }

    if not near:
        return []
    decided = [
        always_above(
            f"{RMAX} that keeps learning, with the best n_known, outperforms {BASELINE}",
            {title: each.share(RMAX) for title, each in shown.items()},
        ),
        always_above(f"{NEAR} outperforms tuned {RMAX}", against(lambda each: RMAX)),
        always_above(
            f"{NEAR} outperforms the best without transfer, as chosen by tuning",
            against(lambda each: each.best("no transfer")),
        ),
        always_above(
            f"{NEAR} outperforms the best naive transfer, as chosen by tuning",
            against(lambda each: each.best("naive transfer")),
        ),
        never_below(
            f"with a true nearness, {NEAR} loses nothing to tuned {RMAX} in any task",
            {label: x for each in near.values() for label, x in each.by_task(NEAR).items()},
        ),
        can_fall_below(
            f"naive transfer can lose to tuned {RMAX} in a task",
            {
                label: x
                for each in shown.values()
                for name in POOLED
                if name in each.tasks
                for label, x in each.by_task(name).items()
            },
        ),
    ]
    if "shortcut" in found and NEAR in found["shortcut"].tasks:
        decided.append(_shortcut(found["shortcut"]))
    return decided


def _shortcut(found: Found) -> Claim:
    """Claim that pooled methods miss an action that was bad and has become the best."""
    statement = (
        f"where an action that was bad becomes the best, {NEAR} outperforms all pooled methods"
    )
    turned = slice(len(found.tasks[NEAR][0]) // 2, None)  # tasks in which it is the best
    late = {name: x[:, turned].mean(axis=1) for name, x in found.tasks.items()}
    pooled = [name for name in POOLED if name in late]
    if not pooled:
        return Claim(statement, "no pooled method finished", "undecided", OURS)
    best = max(pooled, key=lambda name: float(late[name].mean()))
    others = np.column_stack([late[NEAR] - late[name] for name in pooled])
    return Claim(
        statement,
        f"in these tasks {format_interval(student_interval(late[NEAR]), 3)}; the best pooled one, "
        f"{best}, {format_interval(student_interval(late[best]), 3)}",
        all_above(others),
        OURS,
    )


EXPERIMENT = Experiment(
    "Everything side by side: tuned algorithms of the field, with and without knowledge.",
    reproduce,
    settings,
    runs,
    has_variants=False,
)
