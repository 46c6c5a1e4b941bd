"""The reproducibility table of the paper, from the specs, with the time that was measured."""

import math
from collections.abc import Mapping
from platform import machine, system
from typing import Any

from heirloom.experiments.spec import ExperimentSpec
from heirloom.paper.registry import experiment
from heirloom.runs.versions import versions

COLUMNS = (
    "experiment",
    "variant",
    "agents",
    "repetitions",
    "tasks",
    "episodes",
    "steps",
    "samples an agent",
    "seconds",
)


def reproducibility_table(
    ran: Mapping[tuple[str, Any], tuple[ExperimentSpec | None, float]], *, quick: bool
) -> str:
    """One row for each experiment that was run, in its variant and as it was run, as Markdown.

    Samples are those of all repetitions of an agent, at most: episodes may end early. Seconds are
    those of this call, with figures; what was computed before is not counted again.
    """
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    for (name, variant), (spec, seconds) in ran.items():
        if spec is None:
            rows.append((name, variant, *("",) * 6, f"{seconds:.1f}"))
            continue
        numbers = (spec.repetitions, spec.tasks, spec.episodes, spec.steps)
        samples = math.prod(numbers) * experiment(name).n_runs
        cells = (f"{number:,}" for number in (len(spec.agents), *numbers, samples))
        rows.append((name, variant, *cells, f"{seconds:.1f}"))
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    used = ", ".join(f"{name} {version}" for name, version in versions().items())
    quickly = (
        "This was a quick look, with few repetitions and less of all else.\n\n" if quick else ""
    )
    return f"{quickly}{table}\n\n{system()} {machine()}; {used}.\n"
