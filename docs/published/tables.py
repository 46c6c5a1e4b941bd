"""The tables of README and docs, generated from the stored results."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from heirloom.paper import certificates as certified
from heirloom.paper import knowledge as study
from heirloom.paper.knowledge import setting_of
from heirloom.paper.returns import is_near, of_the_paper
from published import checks, intervals, results, rivals, task_bounds
from published.experiments import REPEATED


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: int = 0) -> str:
    """Return a Markdown table; if `right` is given, columns from it on are right-aligned."""
    rules = ["---:" if right and i >= right else "---" for i in range(len(header))]
    lines = [header, rules, *rows]
    return "\n".join(" ".join(["|", *(f"{cell} |".lstrip() for cell in line)]) for line in lines)


def tight() -> str:
    """Return the results of the main experiment with the released settings, NearRMax last."""
    agents = results.load("tight-released")["summary"]["agents"]

    def relative_to_rmax(name: str, first: int, last: int) -> str:
        return f"{np.mean(agents[name]['return_vs_rmax'][first - 1 : last]):.2f}"

    def relative_to_optimum(name: str) -> str:
        return f"{np.mean(agents[name]['return_vs_optimal'][1:]):.2f}"

    return table(
        [
            "agent",
            "tasks 2 to 11, relative to RMax",
            "tasks 12 to 15, relative to RMax",
            "tasks 2 to 15, relative to the optimum",
        ],
        [
            [
                name,
                relative_to_rmax(name, 2, 11),
                relative_to_rmax(name, 12, 15),
                relative_to_optimum(name),
            ]
            for name in agents
        ],
        right=1,
    )


def examples() -> str:
    """Return the mean return of RMax, and the differences of agents that transfer, by example."""
    agents, rows = ("RMax", "LRMax", "MaxQInit", "NearRMax"), []
    for name, measured in results.load("examples").items():
        for title, gains in _gains(measured["printed"]):
            label = f"`{name}.py`" + (f", {title}" if title else "")
            rows.append([label, *(gains[agent] for agent in agents)])
    return table(["example", *agents], rows, right=1)


def _gains(printed: str) -> list[tuple[str, dict[str, str]]]:
    """Return the title, and the cell of each agent, of every table in the output of an example."""
    tables, title = [], ""
    for line in printed.splitlines():
        if line.startswith("Changing "):
            title = line[0].lower() + line[1:].split(":")[0]
        if line.startswith("agent "):
            tables.append((title, {}))
        mean = re.match(r"(RMax) +\S+ +(\S+) +\S+\s*$", line)
        found = mean or re.match(r"(\w+) .* ([+-][\d.,]+ ± [\d.,]+)\s*$", line)
        if found and tables:
            tables[-1][1].setdefault(found[1], found[2])
    return tables


def claims(experiment: str, *, near: bool = False) -> Callable[[], str]:
    """Tabulate the claims of an experiment, with the measurements of both variants.

    With `near` these are the claims about NearRMax, otherwise all others.
    """

    def write() -> str:
        variants = {
            variant: _selected(results.load(f"{experiment}-{variant}")["claims"], near=near)
            for variant in ("text", "released")
        }
        rows = []
        for statement, whose in _statements(variants.values()):
            cells = [_verdict_on(statement, of_variant) for of_variant in variants.values()]
            rows.append([f"{statement}{_origin(whose)}", *cells])
        return table(["claim", "text", "released"], rows)

    return write


def claims_without_variants(experiment: str, *, near: bool | None = False) -> Callable[[], str]:
    """Tabulate the claims of an experiment without variants: on NearRMax, all others, or all."""

    def write() -> str:
        rows = [
            [f"{claim['statement']}{_origin(claim['whose'])}", _verdict(claim)]
            for claim in _selected(results.load(experiment)["claims"], near=near)
        ]
        return table(["claim", "measured"], rows)

    return write


def _selected(claims: list[dict[str, Any]], *, near: bool | None) -> list[dict[str, Any]]:
    """Return the claims about NearRMax, all others, or all if `near` is None."""
    return [claim for claim in claims if near is None or is_near(claim["statement"]) == near]


def _statements(variants: Any) -> list[tuple[str, str]]:
    """Merge the statements of all variants, keeping the order of each."""
    merged: list[tuple[str, str]] = []
    for of_variant in variants:
        position = 0
        for claim in of_variant:
            key = claim["statement"], claim["whose"]
            if key in merged:
                position = merged.index(key) + 1
            else:
                merged.insert(position, key)
                position += 1
    return merged


def _verdict_on(statement: str, of_variant: list[dict[str, Any]]) -> str:
    return next((_verdict(claim) for claim in of_variant if claim["statement"] == statement), "")


def _verdict(claim: dict[str, Any]) -> str:
    verdict = claim["verdict"]
    return f"{f'**{verdict}**' if verdict == 'contradicted' else verdict}: {claim['measured']}"


def _with_interval(mean: str, half_width: str | None) -> str:
    """Return a mean and half the width of its interval, if there is one."""
    return mean if half_width is None else f"{mean} ± {half_width}"


def _origin(whose: str) -> str:
    return "" if whose == "paper" else " *(our claim)*"


def notes(experiment: str) -> Callable[[], str]:
    """List the notes of a report."""
    return lambda: "\n".join(f"- {note}" for note in results.load(experiment)["notes"])


def bounds() -> str:
    """Return the numbers of figure 3d, in percent."""
    rows, header = [], ["measure, in %", "variant"]
    for key, name in (
        ("rho_lip", "ρ_Lip"),
        ("rho_speedup", "ρ_Speed-up"),
        ("rho_return", "ρ_Return"),
    ):
        for variant in ("text", "released"):
            summary = results.load(f"bounds-{variant}")["summary"]
            header[2:] = [f"D_max = {d:g}" for d in summary["d_max"]]
            numbers = zip(summary[key], summary["ci95"][key], strict=True)
            rows.append([name, variant, *(_percent(*cell) for cell in numbers)])
    return table(header, rows, right=2)


def _percent(mean: float, half_width: float | None) -> str:
    half = None if half_width is None else f"{100 * half_width:.1f}"
    return _with_interval(f"{100 * mean:.1f}", half)


def bounds_with_near() -> str:
    """Return the ratios of NearRMax in the experiment of figure 3d, in percent."""
    rows = []
    for variant in ("text", "released"):
        for name, numbers in results.load(f"bounds-{variant}")["summary"]["near"].items():
            means = numbers["rho_speedup"], numbers["rho_return"]
            cells = zip(means, numbers["ci95"], strict=True)
            rows.append([name, variant, *(_percent(*cell) for cell in cells)])
    return table(["agent, in %", "variant", "ρ_Speed-up", "ρ_Return"], rows, right=2)


def negative_transfer(*, near: bool = False) -> Callable[[], str]:
    """Tabulate the number of episodes after which the policy stays optimal.

    With `near` the table has all agents, otherwise those of the paper.
    """

    def write() -> str:
        summary = results.load("negative-transfer")["summary"]
        agents = summary["agents"] if near else of_the_paper(summary["agents"])
        return table(
            ["agent", *(f"k = {k}" for k in summary["k"])],
            [
                [name, *(f"{x:.1f}" for x in numbers["episodes_to_optimality"])]
                for name, numbers in agents.items()
            ],
            right=1,
        )

    return write


def reproducibility() -> str:
    """Return the size of each experiment, and the seconds that it took."""
    header = [
        "experiment",
        "agents",
        "repetitions",
        "tasks",
        "episodes per task",
        "steps per episode",
        "seconds",
    ]
    rows = []
    for experiment in REPEATED:
        size = results.load(experiment.key)["size"].values()
        seconds = results.seconds(experiment.key)["all"]
        rows.append([experiment.key, *map(_size, size), f"{seconds:.0f}"])
    return table(header, rows, right=1)


def _size(size: int | list[int]) -> str:
    """Return a size as text; a list is the range of the sizes of several runs."""
    return " to ".join(f"{n:,}" for n in (size if isinstance(size, list) else [size]))


def knowledge(columns: dict[str, str], *, optimum: bool) -> Callable[[], str]:
    """Tabulate the mean returns of later tasks, one row per family.

    Args:
        columns: the agents to show, by the title of their column.
        optimum: whether to add a column with the optimal return.
    """

    def write() -> str:
        rows = []
        for family, measured in results.load("knowledge")["summary"]["families"].items():
            optimal = measured["optimal"]
            setting = setting_of(family)
            row = [setting.title, "discounted" if setting.discounted else "undiscounted"]
            for name in columns.values():
                agent = measured["agents"][name]
                best = f" ({measured['best_n_known']})" if name == study.BEST else ""
                row.append(_return(agent, optimal) + best)
            rows.append([*row, study.format_return(optimal, optimal)] if optimum else row)
        header = ["family", "return per episode", *columns, *(["optimum"] if optimum else [])]
        return table(header, rows, right=2)

    return write


def _return(agent: dict[str, Any], optimal: float) -> str:
    mean, half = agent["return"], agent["ci95"]
    shown = None if half is None else study.format_return(half, optimal)
    return _with_interval(study.format_return(mean, optimal), shown)


def learned_knowledge() -> str:
    """Tabulate the mean returns of the tasks in which learned knowledge is used."""
    rows = []
    for family, measured in results.load("knowledge")["summary"]["families"].items():
        learned = measured["learned"]
        optimal, row = learned["optimal"], [setting_of(family).title, str(learned["used_from"])]
        for name in (study.RMAX, *study.LEARNING, study.ARRAYS):
            cell = _return(learned["agents"][name], optimal)
            helps = learned["helps_from"].get(name)
            row.append(cell if helps is None else f"{cell} (from {helps})")
        rows.append(row)
    header = ["family", "from task", study.RMAX, *study.LEARNING, study.ARRAYS]
    return table(header, rows, right=1)


def certificates() -> str:
    """Tabulate how many episodes a certificate takes, by what an agent knows."""
    rows = [certified.cells(row) for row in results.load("certificates")["summary"]["rows"]]
    return table(certified.HEADER, rows, right=2).replace("%", " %")


def coverage() -> str:
    """Return how often learned bounds were valid, beside what is promised."""
    rows = []
    for case in results.load("coverage")["cases"]:
        promised = case["probability"]
        rows.append(
            [
                case["bound"],
                case["family"],
                "nothing" if promised is None else f"{promised:.0%} of {PROMISED[case['promise']]}",
                f"{case['sequences']:,}",
                f"{case['each_task']:.1%}",
                f"{case['all_tasks']:.1%}",
            ]
        )
    header = ["bound", "family", "promised", "sequences", "valid tasks", "valid sequences"]
    return table(header, rows, right=3).replace("%", " %")


PROMISED = {"each task": "tasks", "all tasks": "sequences"}


def false_alarms() -> str:
    """Return how often checks refuted a true claim, beside δ."""
    rows = [
        [
            "1, exact" if row["n"] == 1 else f"{row['n']}",
            f"{row['delta']:g}",
            f"{row['alarms']} of {checks.LIFETIMES}",
        ]
        for row in results.load("checks")["size"]
    ]
    return table(["`n_known`", "δ", "lifetimes with a false alarm"], rows, right=1)


def power() -> str:
    """Return how often checks refuted a false claim, over the true difference / claim."""
    rows = []
    for row in results.load("checks")["power"]:
        shares = [f"{share:.0%}" for share in row["shares"]]
        says = "never" if row["says"] is None else f"{row['says']:.1f}"
        rows.append([row["part"], f"{row['n']}", row["test"], *shares, says])
    ratios = (f"{ratio:g}" for ratio in checks.RATIOS)
    header = ["part", "`n_known`", "test", *ratios, "80% (audit)"]
    return table(header, rows, right=3).replace("%", " %")


def wrong_statements() -> str:
    """Return how often a Student interval says wrongly that an agent helps."""
    rows = [
        [case["differences"], *(f"{share:.1%}" for share in case["wrong"])]
        for case in results.load("intervals")["cases"]
    ]
    header = ["differences", *(f"{n} repetitions" for n in intervals.REPETITIONS)]
    return table(header, rows, right=1).replace("%", " %")


def cost_of_exploration() -> str:
    """Return the mean return in the main experiment for each `explore`."""
    rows = [
        [f"{row['explore']:g}", f"{row['return']:.3f}"] for row in results.load("checks")["explore"]
    ]
    return table(["`explore`", "mean return of an episode"], rows, right=1)


def bounds_from_one_source() -> str:
    """Return how loose the bounds from one source are, in percent of the bound v_max."""
    rows = [
        [case["tasks"], *(f"{100 * case['means'][name]:.1f} %" for name in task_bounds.BOUNDS)]
        for case in results.load("task-bounds")["cases"]
    ]
    return table(["two tasks", *task_bounds.BOUNDS], rows, right=1)


def speed() -> str:
    """Return the ratios measured by `make bench`."""
    rows = [row["cells"] for row in results.load("speed")["rows"] if row["part"] != "start-up"]
    return table(["comparison", "ratio", "target", "target met", "note"], rows)


def start_up() -> str:
    """Return the start-up times measured by `make bench`."""
    rows = [row["cells"][:4] for row in results.load("speed")["rows"] if row["part"] == "start-up"]
    return table(["command", "seconds", "target", "target met"], rows)


def errors() -> str:
    """Return the true errors of all libraries in the benchmark of `solve`."""
    measured = results.load("speed")["errors"]
    split = [(*name.split(", ", 1), error) for name, error in measured.items()]
    tasks = list(dict.fromkeys(task for _, task, _ in split))
    names = list(dict.fromkeys(name for name, _, _ in split))
    by_name_and_task = {(name, task): f"{error:.0e}" for name, task, error in split}
    return table(
        ["true error of", *tasks],
        [
            [
                "Heirloom" if name == "ours" else name,
                *(by_name_and_task.get((name, task), "stopped") for task in tasks),
            ]
            for name in names
        ],
    )


def versions(name: str) -> Callable[[], str]:
    """State the machine and the versions that produced a result, in a sentence."""

    def write() -> str:
        made_by = results.made_by(name)
        used = {**made_by["versions"], **results.load(name).get("versions", {})}
        listed = ", ".join(f"{package} {version}" for package, version in used.items())
        commit = "" if made_by["commit"].endswith("-dirty") else f"at commit {made_by['commit']} "
        where = f"{commit}on {made_by['machine']}"
        return f"Measured {where} with {listed}."

    return write


BLOCKS: dict[str, Callable[[], str]] = {
    "tight": tight,
    "examples": examples,
    "claims of tight": claims("tight"),
    "NearRMax in tight": claims("tight", near=True),
    "notes on tight": notes("tight-released"),
    "bounds": bounds,
    "NearRMax in bounds": bounds_with_near,
    "claims of corridor": claims("corridor"),
    "NearRMax in corridor": claims("corridor", near=True),
    "claims of maze": claims("maze"),
    "NearRMax in maze": claims("maze", near=True),
    "claims of prior-use": claims_without_variants("prior-use"),
    "negative-transfer": negative_transfer(),
    "claims of negative-transfer": claims_without_variants("negative-transfer"),
    "negative-transfer with NearRMax": negative_transfer(near=True),
    "NearRMax in negative-transfer": claims_without_variants("negative-transfer", near=True),
    "claims of bounds-illustration": claims_without_variants("bounds-illustration"),
    "claims of prior-illustration": claims_without_variants("prior-illustration"),
    "knowledge": knowledge(
        {name: name for name in (study.RMAX, study.BEST, study.VALID, *study.TRUE)},
        optimum=True,
    ),
    "false knowledge": knowledge(
        {
            "RMax": study.RMAX,
            "NearRMax (true arrays)": study.ARRAYS,
            "half of them": study.HALF,
            "a tenth of them": study.TENTH,
            "all tasks equal": study.EQUAL,
        },
        optimum=False,
    ),
    "checked knowledge": knowledge(
        {
            "RMax": study.RMAX,
            "a tenth": study.TENTH,
            "a tenth, widening": study.TENTH_WIDENING,
            "all tasks equal": study.EQUAL,
            "all tasks equal, widening": study.EQUAL_WIDENING,
        },
        optimum=False,
    ),
    "learned knowledge": learned_knowledge,
    "claims of knowledge": claims_without_variants("knowledge", near=None),
    "certificates": certificates,
    "claims of certificates": claims_without_variants("certificates", near=None),
    "rivals": lambda: table(*rivals.best(), right=1),
    "rivals, shares": lambda: table(*rivals.shares(), right=1),
    "rivals, worst tasks": lambda: table(*rivals.worst(), right=1),
    "rivals, first episodes": lambda: table(*rivals.first(), right=1),
    "rivals, settings": lambda: table(*rivals.sensitivity(), right=2),
    "rivals, wins": lambda: table(*rivals.wins(), right=1),
    "rivals, false nearness": lambda: table(*rivals.false(), right=1),
    "rivals, not finished": rivals.unfinished,
    "claims of rivals": claims_without_variants("rivals", near=None),
    "versions of rivals": versions("rivals"),
    "coverage": coverage,
    "false alarms": false_alarms,
    "power": power,
    "wrong statements": wrong_statements,
    "cost of exploration": cost_of_exploration,
    "reproducibility": reproducibility,
    "versions of tight": versions("tight-released"),
    "bounds from one source": bounds_from_one_source,
    "speed": speed,
    "start-up": start_up,
    "errors": errors,
    "versions of speed": versions("speed"),
}
