"""The reproducibility table of the paper: sizes from the specs, and measured times."""

import math
from collections.abc import Mapping, Sequence
from platform import machine, system
from typing import Any

from heirloom.experiments.spec import ExperimentSpec
from heirloom.paper.registry import QUICK_NOTE, experiment
from heirloom.runs.versions import versions

COLUMNS = (
    "experiment",
    "variant",
    "agents",
    "repetitions",
    "tasks",
    "episodes",
    "steps",
    "samples per agent",
    "seconds",
)


def reproducibility_table(
    completed: Mapping[tuple[str, Any], tuple[Sequence[ExperimentSpec], float]], *, quick: bool
) -> str:
    """Return the table as Markdown, with one row per experiment and variant.

    The number of samples is an upper bound on the steps of one agent in all repetitions, because
    episodes may terminate early. The seconds include drawing the figures, but not the jobs that an
    earlier call computed.

    Args:
        completed: the specs as they were run (none for a figure without agents) and the seconds
            taken, by experiment and variant.
        quick: whether these were quick runs, which the text then says.
    """
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    for (name, variant), (specs, seconds) in completed.items():
        if not specs:
            rows.append((name, variant, *("",) * 6, f"{seconds:.1f}"))
            continue
        samples = sum(math.prod(sizes(spec)[1:]) for spec in specs) * experiment(name).n_runs
        cells = (*size_cells(list(map(sizes, specs))), f"{samples:,}")
        rows.append((name, variant, *cells, f"{seconds:.1f}"))
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    used = ", ".join(f"{name} {version}" for name, version in versions().items())
    note = f"{QUICK_NOTE.capitalize()}.\n\n" if quick else ""
    return f"{note}{table}\n\n{system()} {machine()}; {used}.\n"


def sizes(spec: ExperimentSpec) -> tuple[int, ...]:
    """Return the numbers of agents, repetitions, tasks, episodes and steps of a run."""
    return len(spec.agents), spec.repetitions, spec.tasks, spec.episodes, spec.steps


def size_cells(runs: Sequence[Sequence[int]]) -> list[str]:
    """Return each size as text, as a range where it differs between the runs."""
    return [
        f"{min(of_runs):,}" if len(set(of_runs)) == 1 else f"{min(of_runs):,} to {max(of_runs):,}"
        for of_runs in zip(*runs, strict=True)
    ]
