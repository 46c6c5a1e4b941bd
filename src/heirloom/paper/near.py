"""NearRMax beside the agents of the paper: its claims, and the figures that show both.

The figures and claims of the paper have only the paper's agents. NearRMax has claims and figures of
its own.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from heirloom.paper.claims import (
    OURS,
    Claim,
    all_above,
    format_interval,
    never_below_rmax,
)
from heirloom.stats import FloatArray, student_interval

T = TypeVar("T")

ALGORITHM = "NearRMax"
FAMILY: dict[str, Any] = {"algorithm": ALGORITHM, "nearness": "family"}
"""Options of NearRMax in a spec, with the nearness of the family: arrays and successors."""


def near_with_numbers(rewards: float, transitions: float) -> dict[str, Any]:
    """Return the options of NearRMax in a spec, with the same two numbers at all pairs."""
    return {
        "algorithm": ALGORITHM,
        "nearness": {"rewards": rewards, "transitions": transitions},
    }


def of_the_paper(by_agent: Mapping[str, T]) -> dict[str, T]:
    """Return the entries of the paper's agents."""
    return {name: entry for name, entry in by_agent.items() if not is_near(name)}


def near_names(names: Iterable[str]) -> list[str]:
    """Return those of the names that belong to NearRMax."""
    return [name for name in names if is_near(name)]


def is_near(name: str) -> bool:
    """Return whether an agent of this name is NearRMax."""
    return name.startswith(ALGORITHM)


def return_claims(vs_rmax: Mapping[str, FloatArray], least: Mapping[str, float]) -> list[Claim]:
    """Our claims about the returns of NearRMax: how large they are, and never below those of RMax.

    Args:
        vs_rmax: returns divided by those of RMax, [repetition, task], by agent.
        least: the claimed ratio over the tasks from the second on, by agent.
    """
    claims = []
    for name, ratio in least.items():
        later = vs_rmax[name][:, 1:].mean(axis=1)
        claims.append(
            Claim(
                f"{name} returns at least {ratio:g} times as much as RMax from task 2 on",
                f"{format_interval(student_interval(later))} times the return of RMax",
                all_above(later, ratio),
                OURS,
            )
        )
    return claims + [never_below_rmax(name, vs_rmax[name])._replace(whose=OURS) for name in least]
