"""The tables of the comparison with rivals, generated from the stored results."""

from collections.abc import Callable
from typing import Any

import numpy as np

from heirloom.paper.families import format_return
from heirloom.paper.rivals_settings import BASELINE, ENTRANTS, NEAR, NEAR_PSRL, POOLED, RMAX
from published import results

DASH = "-"
Table = tuple[list[str], list[list[str]]]
TRUE = [name for name, entrant in ENTRANTS.items() if entrant.kind != "false nearness"]
TITLES = {
    "no transfer": "without transfer",
    "naive transfer": "naive transfer",
    "assumptions": "with assumptions",
    "nearness": "with a nearness",
}


def families() -> dict[str, Any]:
    """Return what was measured, by family."""
    return results.load("rivals")["summary"]["families"]


def shown() -> dict[str, Any]:
    """Return the families in which shares of the gap are shown."""
    return {name: each for name, each in families().items() if each["gap"] is not None}


def best() -> Table:
    """Tabulate the best entrant of each kind, as chosen by tuning, one row per family."""
    rows = []
    for each in families().values():
        title = f"{each['title']}{', discounted' if each['discounted'] else ''} ({each['unit']})"
        chosen = [each["best"][kind] for kind in TITLES]
        bounds = [format_return(each[name], each["optimal"]) for name in ("ceiling", "optimal")]
        rows.append([title, *(_best_cell(each, name) for name in (BASELINE, *chosen)), *bounds])
    return ["family (unit)", BASELINE, *TITLES.values(), "ceiling", "optimum"], rows


def _best_cell(family: dict[str, Any], name: str | None) -> str:
    """Return the mean return, its interval and the name; bold if no other one is better."""
    if name is None:
        return DASH
    found = family["entrants"][name]
    text = format_return(found["return"], family["optimal"])
    if found["ci95"] is not None:
        text += f" ± {format_return(found['ci95'], family['optimal'])}"
    text += f" {name}" if name != BASELINE else ""
    return f"**{text}**" if name in family["unbeaten"] else text


def shares() -> Table:
    """Tabulate the share of the gap of every entrant in every family."""
    return _by_entrant(TRUE, lambda row: f"{row['share'][0]:.2f}")


def worst() -> Table:
    """Tabulate the worst task of every entrant that transfers, relative to tuned RMax."""
    names = [name for name in TRUE if ENTRANTS[name].kind != "no transfer"]
    return _by_entrant(names, lambda row: f"{row['worst'][0]:+.2f}")


def false() -> Table:
    """Tabulate the share of the gap, and the worst task, with a false nearness."""
    names = [RMAX, NEAR, *(name for name, entrant in ENTRANTS.items() if entrant.like == NEAR)]
    return _by_entrant(names, lambda row: f"{row['share'][0]:.2f} ({row['worst'][0]:+.2f})")


def _by_entrant(names: list[str], cell: Callable[[dict[str, Any]], str]) -> Table:
    rows = []
    for name in names:
        cells = []
        for each in shown().values():
            if name in each["entrants"]:
                cells.append(cell(each["entrants"][name]))
            else:
                cells.append("unfinished" if name in each["did_not_finish"] else DASH)
        rows.append([name, *cells])
    return ["", *(each["title"] for each in shown().values())], rows


def first() -> Table:
    """Tabulate the return of the first ten episodes of a task, of a few entrants."""
    names = (BASELINE, RMAX, POOLED[0], "FMRL", NEAR, NEAR_PSRL)
    rows = [
        [
            each["title"],
            *(
                format_return(each["entrants"][name]["first"], each["optimal"])
                if name in each["entrants"]
                else DASH
                for name in names
            ),
            format_return(each["optimal"], each["optimal"]),
        ]
        for each in families().values()
    ]
    return ["family", *names, "optimum"], rows


def sensitivity() -> Table:
    """Tabulate how much settings decide, wins and losses, and the time of a life."""
    wins = results.load("rivals")["summary"]["wins"]
    rows = []
    for name in TRUE:
        found = [each["entrants"][name] for each in families().values() if name in each["entrants"]]
        spread = [x for row in found if (x := row.get("sensitivity")) is not None]
        settings = ENTRANTS[name].settings
        tried = dict.fromkeys(option for each in settings for option in each)
        unbeaten = sum(name in each["unbeaten"] for each in families().values())
        rows.append(
            [
                name,
                ", ".join(f"`{option}`" for option in tried) if len(settings) > 1 else DASH,
                f"{np.median(spread):.2f}" if spread else DASH,
                f"{max(spread):.2f}" if spread else DASH,
                str(sum(wins.get(name, {}).values())),
                str(sum(row.get(name, 0) for row in wins.values())),
                f"{unbeaten} of {len(found)}",
                f"{np.median([row['seconds'] for row in found]):.2f}" if found else DASH,
            ]
        )
    header = ["", "tuned", "sensitivity, median", "largest", "wins", "losses", "unbeaten"]
    return [*header, "seconds of a life"], rows


def wins() -> Table:
    """Tabulate in how many families a row is shown to be better than a column."""
    counted = results.load("rivals")["summary"]["wins"]
    names = [RMAX, "UCBVI", "PSRL", *POOLED, "FMRL", "LRMax (valid prior)", "UCBVI (arrays)"]
    names += ["NearRMax (two numbers)", NEAR, NEAR_PSRL]
    rows = [
        [
            name,
            *("" if name == other else str(counted.get(name, {}).get(other, 0)) for other in names),
        ]
        for name in names
    ]
    return ["better than", *names], rows


def unfinished() -> str:
    """List the entrants that did not finish."""
    lines = []
    for each in families().values():
        which = [f"{name} {where}" for name, where in each["did_not_finish"].items()]
        if which:
            lines.append(f"- {each['title']}: {'; '.join(which)}")
    return "\n".join(lines) or "All finished."
