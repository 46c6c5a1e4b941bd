"""`estimate_nearness`: what the visits of several tasks say about how tasks differ.

**The tasks seen.** `limits.py` has limits on their differences that hold at all pairs, and for all
pairs of tasks, at once with probability 1 - δ.

**The next task.** Let the tasks 1, ..., m, m + 1 be exchangeable, and let x_ij be the largest
difference of tasks i and j over a set of pairs, in units of a shape r(s, a), t(s, a). If shape and
set were fixed before the tasks were seen, each of the m (m + 1) / 2 pairs of tasks is equally
likely to have the largest x, or one of the largest. m of them involve task m + 1. So with
probability 1 - 2/(m + 1) at least, the largest x among the first m tasks bounds those between the
next task and all of them. With limits in place of x it is 1 - 2/(m + 1) - δ. Nothing is assumed
about how tasks are distributed. The statement is about the next task, averaged over all that may
be seen before it; for the next k tasks together it is m (m - 1) / ((m + k) (m + k - 1)) - δ.
Without a shape, the largest differences of rewards and of transitions are two such numbers, and
each fails with probability 2/(m + 1) at most.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from heirloom.arrays import BoolArray, FloatArray, frozen
from heirloom.errors import InvalidArgument
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.transfer.nearness.limits import CLOSE, Comparison, Kind, Limits, read_alike
from heirloom.transfer.nearness.successors import as_array
from heirloom.transfer.radii import Accuracy, all_outcomes, possible_outcomes, read_exact
from heirloom.validation import instance, real_number, shown, whole_number
from heirloom.wording import counted, were

TITLES = {
    "rewards": "difference of mean rewards",
    "transitions": "total variation of transitions",
}


@dataclass(frozen=True, eq=False, repr=False)
class NearnessEstimate:
    """What the visits of several tasks say about how tasks differ; `print` shows it as a table."""

    confidence: float
    """The probability that all limits hold at once."""
    doubt: float
    """The probability that a limit of the estimated parts fails: 0 if these are exact."""
    n_tasks: int
    """The number of tasks that were compared, m."""
    n_seen: int
    """The number of tasks that the memory has seen, also those that it has forgotten."""
    rewards: Limits
    transitions: Limits
    pairs: BoolArray
    """The pairs about which the nearness for the next task says something, [s, a]."""
    nearness: Nearness
    """The claim for the next task: it bounds the differences between it and all tasks seen."""
    parts: tuple[str, ...]
    """The parts of it that were estimated; it claims nothing about others."""
    scale: float | None
    """The factor by which the shape was multiplied for it; None without a shape."""
    n_scales: int
    """How many numbers were estimated for it: 1 with a shape, and otherwise 1 for each part."""
    obstacle: str
    """Why nothing is known about the next task; empty if it is."""
    contradictions: tuple[str, ...]
    """What the user has declared, and the data contradict."""
    visits_needed: Mapping[str, int | None]
    """How many visits in every task limits close to the estimate need, by part; None if unknown.

    They are those of a pair, together with those of pairs that are alike."""

    def probability(self, n_next: int = 1) -> float:
        """Return with which probability `nearness` holds for the next tasks; 0 if unknown.

        It is the probability that it bounds the differences between each of the next `n_next` tasks
        and all tasks seen, and among these, if tasks are exchangeable.
        """
        if self.obstacle or self.contradictions:
            return 0.0
        m, n = self.n_tasks, self.n_seen + whole_number("n_next", n_next)
        among_compared = m * (m - 1) / (n * (n - 1))
        return max(0.0, 1 - self.doubt - self.n_scales * (1 - among_compared))

    @property
    def is_vacuous(self) -> bool:
        """Whether the data exclude nothing at these pairs, beyond what the shape says itself."""
        for name in self.parts:
            x: Limits = getattr(self, name)
            claim = np.broadcast_to(getattr(self.nearness, name), self.pairs.shape)
            if ((x.upper <= claim) & (claim < x.widest))[self.pairs].any():
                return False
        return True

    def __repr__(self) -> str:
        width = max(map(len, TITLES.values()))
        columns = ("estimate", "lower limit", "upper limit", "possible")
        lines = [
            f"{counted(self.n_tasks, 'task')}, {counted(int(self.pairs.sum()), 'pair')}, "
            f"confidence {self.confidence:.4g}; largest difference between two tasks seen:",
            " " * width + "".join(f"  {name:>11}" for name in columns),
        ]
        for name, title in TITLES.items():
            x: Limits = getattr(self, name)
            found = (a[self.pairs] for a in (x.estimate, x.lower, x.upper))
            largest = (np.fmax.reduce(array) for array in found)  # NaN if there is none
            cells = "".join(f"  {value:>11.4g}" for value in (*largest, x.widest))
            lines.append(f"{title:<{width}}{cells}")
        lines += filter(None, map(self._too_few, self.parts))
        lines += [f"Contradicted: {text}." for text in self.contradictions]
        return "\n".join([*lines, self._next_task()])

    def _too_few(self, part: str) -> str:
        """Say that there are too few visits for a part, if it is so, and how many are needed."""
        x: Limits = getattr(self, part)
        wide = (x.upper - np.nan_to_num(x.estimate) > CLOSE * x.widest) & self.pairs
        if not wide.any():
            return ""
        line = f"Too few visits for {part} at {counted(int(wide.sum()), 'pair')}"
        if unvisited := int((wide & (x.visits == 0)).sum()):
            line += f", {unvisited:,} of them not visited in every task"
        n = self.visits_needed[part]
        if n is not None:
            line += (
                f": limits within {CLOSE * x.widest:.3g} of the estimate need "
                f"{counted(n, 'visit')} in every task of each pair, or of alike ones together"
            )
        return f"{line}."

    def _next_task(self) -> str:
        p, enough = self.probability(), 40 * self.n_scales - 1  # for a doubt of 5 % in addition
        obstacle = self.obstacle
        if self.contradictions:
            obstacle = obstacle or "what was declared is contradicted"
        elif self.is_vacuous:
            obstacle = obstacle or "the limits exclude nothing"
        elif p == 0:
            few = f"{counted(self.n_tasks, 'task')} of {self.n_seen:,} are too few"
            obstacle = obstacle or few
        if obstacle:
            return f"Nothing is known about the next task: {obstacle}."
        shape = "" if self.scale is None else f", {self.scale:.4g} times the shape"
        text = (
            f"The next task: {self.nearness!r}{shape}, with probability {p:.0%} if tasks are "
            "exchangeable"
        )
        if self.n_tasks == self.n_seen < enough and self.doubt < 0.95:
            text += f" ({0.95 - self.doubt:.0%} with {enough:,} tasks)"
        return f"{text}."


def estimate_nearness(
    memory: TaskMemory,
    *,
    confidence: float = 0.95,
    parts: Sequence[str] = tuple(TITLES),
    shape: Nearness | None = None,
    pairs: ArrayLike | None = None,
    rewards_alike: ArrayLike | None = None,
    transitions_alike: ArrayLike | None = None,
    kind: Kind | None = None,
    exact: bool | Mapping[str, Any] = False,
) -> NearnessEstimate:
    """Return what the visits of the tasks in a memory say about how tasks differ.

    The limits are about the tasks seen, and hold at all pairs at once with probability
    `confidence`. From them follows a nearness for the next task, with a smaller probability that
    grows with the number of tasks (`probability`), if tasks are exchangeable: any order of them is
    equally likely, as if they were drawn independently, without drift. `parts`, `shape` and `pairs`
    must not be chosen after looking at the data. The text of this module has the proof.

    Args:
        memory: the tasks that an agent has learned, such as `agent.memory`, also from a log.
        confidence: the probability that all limits hold.
        parts: the parts of the nearness for the next task that are estimated; it claims nothing
            about the other one. Each number that is estimated makes it less probable.
        shape: a nearness that is true up to a factor, which is estimated: differences of rewards
            and transitions in the same proportion at all pairs. Where it is 0, tasks are claimed
            not to differ. Its successors, `terminates` and `highest_rewards` are taken as known.
            Without it, the nearness for the next task has two numbers.
        pairs: the pairs about which the nearness for the next task is to say something, booleans
            [s, a]; by default all.
        rewards_alike: integers [s, a]. In each task, pairs with the same number have the same mean
            reward. Pairs with -1 are alike to no other one.
        transitions_alike: integers [s, a]. In each task, pairs with the same number have the same
            distribution over kinds of outcomes.
        kind: a function of a state, an action and a successor (None if the step terminated) that
            returns the kind of this outcome. Different outcomes of one pair must be of different
            kinds. By default the successor itself.
        exact: whether learned models are exact, as in `audit`.
    """
    instance("memory", memory, TaskMemory, "such as agent.memory")
    expected = "expected a probability above 0 and below 1"
    confidence = real_number("confidence", confidence, expected, above=0, below=1)
    setting, sources = memory.setting, memory.stored
    if setting is None or len(sources) < 2:
        raise InvalidArgument(
            f"the memory has {counted(len(sources), 'task')}: differences need at least two"
        )
    if (
        not isinstance(parts, list | tuple)
        or not parts
        or any(x not in list(TITLES) for x in parts)
    ):
        raise InvalidArgument(f"parts is {shown(parts)}: expected some of {', '.join(TITLES)}")
    size, outcomes = (setting.n_states, setting.n_actions), all_outcomes(setting)
    if shape is not None:
        instance("shape", shape, Nearness, "or None")._check_shape(*size)
        outcomes = possible_outcomes(shape, setting)
    is_exact = read_exact(exact, setting)
    accuracy = Accuracy(
        exact=False, delta=1 - confidence, n_dropped=memory.n_dropped, parts=is_exact
    )
    alike = read_alike(rewards_alike, transitions_alike, kind, size)
    chosen = _flags(pairs, size)
    found = Comparison(sources, setting, accuracy, outcomes, alike, memory.names)
    chosen &= found.exists.any(axis=0).reshape(size)
    if not chosen.any():
        raise InvalidArgument("pairs has no pair that exists in a task: choose some that do")
    claims = {name: np.full(size, x.widest) for name, x in found.limits.items()}
    estimated = {name: x for name, x in found.limits.items() if name in parts and x.widest > 0}
    scale = None
    if shape is None:
        for name, x in estimated.items():
            claims[name][chosen] = x.upper[chosen].max()
    else:
        found.check_possible(shape)
        scale = _scale(estimated, shape, chosen, found)
        for name, x in estimated.items():
            unit, upper = _unit(shape, name, size)[chosen], x.upper[chosen]
            with np.errstate(over="ignore", invalid="ignore"):
                claim = np.clip(scale * unit, upper, x.widest)  # a product may be rounded down
            claims[name][chosen] = np.where(unit > 0, claim, 0.0)
    needed = {name: found.visits_needed(name, chosen.reshape(-1)) for name in found.limits}
    is_sure = all(getattr(is_exact, name)[chosen.reshape(-1)].all() for name in parts)
    return NearnessEstimate(
        confidence=confidence,
        doubt=0.0 if is_sure else 1 - confidence,
        n_tasks=len(sources),
        n_seen=memory.n_tasks,
        **found.limits,
        pairs=frozen(chosen),
        nearness=Nearness(**claims) if shape is None else shape._with(**claims),
        parts=tuple(parts),
        scale=scale,
        n_scales=len(estimated) if shape is None else 1,
        obstacle=_obstacle(memory),
        contradictions=tuple(found.contradictions),
        visits_needed=needed,
    )


def _unit(shape: Nearness, part: str, size: tuple[int, int]) -> FloatArray:
    """Return one part of a shape, [s, a]."""
    return np.broadcast_to(getattr(shape, part), size)


def _scale(
    limits: Mapping[str, Limits], shape: Nearness, chosen: BoolArray, found: Comparison
) -> float:
    """Return the smallest factor that makes a shape at least as large as all upper limits."""
    scale = 0.0
    for name, x in limits.items():
        unit = _unit(shape, name, chosen.shape)
        zero, positive = chosen & (unit == 0), chosen & (unit > 0)
        with np.errstate(over="ignore"):
            ratios = x.upper[positive] / unit[positive]
        scale = max(scale, float(ratios.max(initial=0.0)))
        if (x.lower[zero] > 0).any():
            k = int(np.where(zero, x.lower, -1.0).argmax())
            found.contradictions.append(
                f"the shape says that tasks do not differ in {name} at {found.name(k)}, but "
                f"two of them do by at least {x.lower.flat[k]:.4g}"
            )
    return scale


def _obstacle(memory: TaskMemory) -> str:
    """Return why the stored tasks are a selection, or an empty text."""
    n = memory.n_dropped
    if n:
        return f"{counted(n, 'task')} {were(n)} dropped, so that the others are a selection"
    if memory.forgotten and memory.keep == "most_used":
        return 'the memory keeps the tasks that were "most_used", which is a selection'
    return ""


def _flags(pairs: ArrayLike | None, size: tuple[int, int]) -> BoolArray:
    """Return the chosen pairs."""
    flags = as_array("pairs", np.ones(size, dtype=bool) if pairs is None else pairs)
    if flags.dtype != np.bool_ or flags.shape != size or not flags.any():
        raise InvalidArgument(
            f"pairs is {shown(pairs)}: expected booleans [s, a] of shape {size}, some of them True"
        )
    return flags
