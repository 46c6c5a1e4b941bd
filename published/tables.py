"""The tables of README and docs, from the results that are kept."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from published import results
from published.experiments import CHECKED

YES_OR_NO = {True: "yes", False: "**no**", None: "?"}


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: int = 0) -> str:
    """A table in Markdown; the columns from `right` on, if given, are aligned to the right."""
    rules = ["---:" if right and i >= right else "---" for i in range(len(header))]
    lines = [header, rules, *rows]
    return "\n".join(" ".join(["|", *(f"{cell} |".lstrip() for cell in line)]) for line in lines)


def tight() -> str:
    """The main experiment as released, for the README."""
    agents = results.load("tight-released")["summary"]["agents"]

    def mean(name: str, first: int, last: int) -> str:
        return f"{np.mean(agents[name]['return_vs_rmax'][first - 1 : last]):.2f}"

    def of_optimum(name: str) -> str:
        return f"{np.mean(agents[name]['return_vs_optimal'][1:]):.2f}"

    return table(
        ["agent", "tasks 2 to 11", "tasks 12 to 15", "tasks 2 to 15, over the optimum"],
        [[name, mean(name, 2, 11), mean(name, 12, 15), of_optimum(name)] for name in agents],
        right=1,
    )


def examples() -> str:
    """What transfer gains in each example."""
    rows = []
    for name, measured in results.load("examples").items():
        for title, gains in _gains(measured["printed"]):
            label = f"`{name}.py`" + (f", {title}" if title else "")
            rows.append([label, *(gains[agent] for agent in ("LRMax", "MaxQInit"))])
    return table(["example", "LRMax", "MaxQInit"], rows, right=1)


def _gains(printed: str) -> list[tuple[str, dict[str, str]]]:
    """The gain of each agent, by table that an example prints, with what the table is about."""
    found, title = [], ""
    for line in printed.splitlines():
        if line.startswith("Changing "):
            title = line[0].lower() + line[1:].split(":")[0]
        if line.startswith("agent "):
            found.append((title, {}))
        gain = re.match(r"(\w+) .*?([+-][\d.]+% ± [\d.]+%)$", line)
        if gain and found:
            found[-1][1][gain[1]] = gain[2].replace("%", " %")
    return found


def claims(experiment: str) -> Callable[[], str]:
    """The claims of an experiment, with what was measured in both variants."""

    def both() -> str:
        variants = {v: results.load(f"{experiment}-{v}")["claims"] for v in ("text", "released")}
        rows = []
        for statement, whose in _statements(variants.values()):
            cells = [_cell(statement, said) for said in variants.values()]
            rows.append([f"{statement}{_ours(whose)}", *cells])
        return table(["claim", "text", "released"], rows)

    return both


def claims_of_one(experiment: str) -> Callable[[], str]:
    """The claims of an experiment without variants."""

    def one() -> str:
        rows = [
            [f"{claim['statement']}{_ours(claim['whose'])}", _verdict(claim)]
            for claim in results.load(experiment)["claims"]
        ]
        return table(["claim", "measured"], rows)

    return one


def _statements(variants: Any) -> list[tuple[str, str]]:
    """All statements, in an order that is that of each variant."""
    merged: list[tuple[str, str]] = []
    for said in variants:
        place = 0
        for claim in said:
            key = claim["statement"], claim["whose"]
            if key in merged:
                place = merged.index(key) + 1
            else:
                merged.insert(place, key)
                place += 1
    return merged


def _cell(statement: str, said: list[dict[str, Any]]) -> str:
    return next((_verdict(claim) for claim in said if claim["statement"] == statement), "")


def _verdict(claim: dict[str, Any]) -> str:
    return f"{YES_OR_NO[claim['holds']]}: {claim['measured']}"


def _ours(whose: str) -> str:
    return "" if whose == "paper" else " *(our statement)*"


def notes(experiment: str) -> Callable[[], str]:
    """What a report adds to its claims, as a list."""
    return lambda: "\n".join(f"- {note}" for note in results.load(experiment)["notes"])


def bounds() -> str:
    """Figure 3d in numbers."""
    rows, header = [], ["percent", "variant"]
    for key, name in (
        ("rho_lip", "ρ_Lip"),
        ("rho_speedup", "ρ_Speed-up"),
        ("rho_return", "ρ_Return"),
    ):
        for variant in ("text", "released"):
            summary = results.load(f"bounds-{variant}")["summary"]
            header[2:] = [f"D_max = {d:g}" for d in summary["d_max"]]
            numbers = zip(summary[key], summary["ci95"][key], strict=True)
            rows.append(
                [name, variant, *(f"{100 * x:.1f} ± {100 * half:.1f}" for x, half in numbers)]
            )
    return table(header, rows, right=2)


def negative_transfer() -> str:
    """Episodes until the policy is optimal for good."""
    summary = results.load("negative-transfer")["summary"]
    return table(
        ["agent", *(f"k = {k}" for k in summary["k"])],
        [
            [name, *(f"{x:.1f}" for x in numbers["episodes_to_optimality"])]
            for name, numbers in summary["agents"].items()
        ],
        right=1,
    )


def reproducibility() -> str:
    """The size of each experiment, and the seconds that it took."""
    header = ["experiment", "agents", "repetitions", "tasks", "episodes", "steps", "seconds"]
    rows = []
    for experiment in CHECKED:
        size = results.load(experiment.key)["size"].values()
        taken = results.seconds(experiment.key)["all"]
        rows.append([experiment.key, *(f"{n:,}" for n in size), f"{taken:.0f}"])
    return table(header, rows, right=1)


def speed() -> str:
    """The ratios of `make bench`."""
    rows = [row["cells"] for row in results.load("speed")["rows"] if row["part"] != "start-up"]
    return table(["what", "ratio", "target", "reached", "note"], rows)


def start_up() -> str:
    """Seconds until something happens."""
    rows = [row["cells"][:4] for row in results.load("speed")["rows"] if row["part"] == "start-up"]
    return table(["what", "seconds", "target", "reached"], rows)


def errors() -> str:
    """The true errors of all libraries in the benchmark of `solve`."""
    measured = results.load("speed")["errors"]
    split = [(*name.split(", ", 1), error) for name, error in measured.items()]
    tasks = list(dict.fromkeys(task for _, task, _ in split))
    names = list(dict.fromkeys(name for name, _, _ in split))
    by_place = {(name, task): f"{error:.0e}" for name, task, error in split}
    return table(
        ["true error", *tasks],
        [
            [
                "Heirloom" if name == "ours" else name,
                *(by_place.get((name, task), "stopped") for task in tasks),
            ]
            for name in names
        ],
    )


def versions(name: str) -> Callable[[], str]:
    """The versions and the machine that a result came from, as a sentence."""

    def sentence() -> str:
        made_by = results.made_by(name)
        used = {**made_by["versions"], **results.load(name).get("versions", {})}
        listed = ", ".join(f"{what} {version}" for what, version in used.items())
        return f"Measured on {made_by['machine']} with {listed}."

    return sentence


BLOCKS: dict[str, Callable[[], str]] = {
    "tight": tight,
    "examples": examples,
    "claims of tight": claims("tight"),
    "notes on tight": notes("tight-released"),
    "bounds": bounds,
    "claims of corridor": claims("corridor"),
    "claims of maze": claims("maze"),
    "claims of prior-use": claims_of_one("prior-use"),
    "negative-transfer": negative_transfer,
    "claims of negative-transfer": claims_of_one("negative-transfer"),
    "claims of bounds-illustration": claims_of_one("bounds-illustration"),
    "claims of prior-illustration": claims_of_one("prior-illustration"),
    "reproducibility": reproducibility,
    "versions of tight": versions("tight-released"),
    "speed": speed,
    "start-up": start_up,
    "errors": errors,
    "versions of speed": versions("speed"),
}
