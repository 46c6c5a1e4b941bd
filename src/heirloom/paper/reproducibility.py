"""The reproducibility table of the paper: sizes from the specs, and measured times."""

import math
from collections.abc import Mapping
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
    completed: Mapping[tuple[str, Any], tuple[ExperimentSpec | None, float]], *, quick: bool
) -> str:
    """Return the table as Markdown, with one row per experiment and variant.

    The number of samples is an upper bound on the steps of one agent in all repetitions, because
    episodes may terminate early. The seconds include drawing the figures, but not the jobs that an
    earlier call computed.

    Args:
        completed: the spec as it was run (None for a figure without agents) and the seconds taken,
            by experiment and variant.
        quick: whether these were quick runs, which the text then says.
    """
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    for (name, variant), (spec, seconds) in completed.items():
        if spec is None:
            rows.append((name, variant, *("",) * 6, f"{seconds:.1f}"))
            continue
        numbers = (spec.repetitions, spec.tasks, spec.episodes, spec.steps)
        samples = math.prod(numbers) * experiment(name).n_runs
        cells = (f"{number:,}" for number in (len(spec.agents), *numbers, samples))
        rows.append((name, variant, *cells, f"{seconds:.1f}"))
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    used = ", ".join(f"{name} {version}" for name, version in versions().items())
    note = f"{QUICK_NOTE.capitalize()}.\n\n" if quick else ""
    return f"{note}{table}\n\n{system()} {machine()}; {used}.\n"
