"""What an attack found."""

import resource
from dataclasses import dataclass, field


@dataclass
class Outcome:
    """Counts of an attack."""

    attempts: int = 0
    lost: int = 0
    """Jobs that were complete, and had to be computed again although one copy was intact."""
    wrong: int = 0
    """Runs whose results differ from those of a run that was never disturbed."""
    unnoticed: int = 0
    """Damages that `heirloom status` did not report."""
    foreign: list[str] = field(default_factory=list)
    """Exceptions that are not Heirloom's own."""

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
