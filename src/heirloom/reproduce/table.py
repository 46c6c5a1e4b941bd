"""The reproducibility table of the paper, from the specs, with the time that was measured."""

from collections.abc import Mapping
from importlib.metadata import version
from platform import machine, python_version, system

from heirloom.experiments import paper
from heirloom.experiments.store import PACKAGES
from heirloom.reproduce.report import QUICK

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
    seconds: Mapping[tuple[str, str], float], *, repetitions: int | None, quick: bool
) -> str:
    """One row for each experiment that was run, as Markdown.

    Samples are those of all repetitions of an agent, at most: episodes may end early. Seconds are
    those of this call, with figures; what was computed before is not counted again.
    """
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    for (name, variant), time in seconds.items():
        if name not in paper.EXPERIMENTS:
            rows.append((name, variant, *("",) * 6, f"{time:.1f}"))
            continue
        spec = paper.EXPERIMENTS[name]("released" if variant == "both" else variant)
        n = repetitions or (min(QUICK, spec.repetitions) if quick else spec.repetitions)
        several = len(paper.K) if name == "negative-transfer" else 1
        samples = n * spec.tasks * spec.episodes * spec.steps * several
        numbers = (len(spec.agents), n, spec.tasks, spec.episodes, spec.steps, samples)
        rows.append((name, variant, *(f"{number:,}" for number in numbers), f"{time:.1f}"))
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    quickly = "This was a quick look, with few repetitions.\n\n" if quick else ""
    return f"{quickly}{table}\n\nPython {python_version()} on {system()} {machine()}; {versions}.\n"
