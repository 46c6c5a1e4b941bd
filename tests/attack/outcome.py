"""What an attack found."""

import argparse
import resource
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Outcome:
    """Counts of an attack."""

    attempts: int = 0
    lost: int = 0
    """Jobs that were committed and are gone, or damaged files that were not kept."""
    wrong: int = 0
    """Runs whose results differ from those of a run that was never disturbed."""
    unnoticed: int = 0
    """Damages that `heirloom status` did not report."""
    foreign: list[str] = field(default_factory=list)
    """Exceptions that are not Heirloom's own, and changes to files that are not Heirloom's."""
    before: int = 0
    """Jobs that the run had at its last kill."""

    @property
    def is_good(self) -> bool:
        return not (self.lost or self.wrong or self.unnoticed or self.foreign)

    def __str__(self) -> str:
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        return (
            f"{self.attempts} attempts: {self.lost} lost, {self.wrong} wrong, {self.unnoticed} "
            f"unnoticed, {len(self.foreign)} foreign exceptions, {max(own, children) // 1024} MB "
            "of memory" + "".join(f"\n{each}" for each in self.foreign[:5])
        )


def run_command(
    name: str, attack: Callable[[Path, int, int], Outcome], count: int, argv: Sequence[str]
) -> bool:
    """Run an attack with the options of the command line; return whether it found a defect."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.attack {name}")
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        outcome = attack(Path(folder), options.count, options.seed)
    print(outcome)
    return not outcome.is_good
