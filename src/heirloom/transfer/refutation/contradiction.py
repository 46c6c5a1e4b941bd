"""The differences that an audit found in one part of the models, and what they contradict."""

from dataclasses import dataclass

from heirloom.arrays import BoolArray, FloatArray
from heirloom.naming import NO_NAMES


@dataclass(frozen=True, eq=False)
class Part:
    """The differences of one part of the models: rewards, transitions or the distance D; [s, a]."""

    seen: FloatArray | None
    """The largest difference between two learned models; None for D, which needs exact values."""
    sure: FloatArray
    """A lower bound on the largest difference between two tasks: no smaller claim can be true.

    With estimated models it depends on the knowledge that is audited: if that knowledge admits
    fewer successors, the confidence radii of the models are smaller. Without a claim, this bound
    uses all of δ; with a claim, this bound and the pooled test of all pairs use half of δ each."""
    upper: FloatArray | None
    """An upper bound on it, with the same confidence, from all visits; None for D.

    It is also about tasks in which the pair did not become known, or was not visited."""
    claimed: FloatArray | None
    """The largest difference that the knowledge allows; None if it does not say."""


@dataclass(frozen=True, eq=False)
class Contradiction:
    """A contradiction of one part of the knowledge, where it is largest."""

    part: str
    """"rewards", "transitions", "successors", "highest_rewards" or "d_max"."""
    state: int
    action: int
    tasks: tuple[int, ...]
    """The numbers of the tasks: two that differ by too much, or one that has what is excluded."""
    difference: float
    """A lower bound on the true difference of the tasks."""
    claimed: float
    """The largest difference that the knowledge allows."""
    pairs: BoolArray
    """All pairs where this part is contradicted, [s, a]."""
    pair_name: str = ""
    """The state and the action with their names; by default their numbers."""
    task_names: tuple[str, ...] = ()
    """The numbers of the tasks with their labels and times; by default the numbers."""

    @property
    def excess(self) -> float:
        """By how much the difference is larger than claimed, at least."""
        return self.difference - self.claimed

    def __str__(self) -> str:
        where = f"at {self.pair_name or NO_NAMES.pair(self.state, self.action)}"
        names = " and ".join(self.task_names or map(str, self.tasks))
        if self.part == "successors":
            return (
                f"task {names} has an excluded successor {where} "
                f"(observed with frequency {self.difference:.4g})"
            )
        if self.part == "highest_rewards":
            return (
                f"the mean reward of task {names} {where} exceeds the claimed largest one by at "
                f"least {self.excess:.4g}"
            )
        what = {"rewards": "mean rewards", "transitions": "transitions", "d_max": "models"}
        return (
            f"the {what[self.part]} of tasks {names} differ by at least {self.difference:.4g} "
            f"{where}; the claim allows {self.claimed:.4g}"
        )
