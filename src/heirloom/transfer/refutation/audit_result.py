"""`Audit`: what the tasks in a memory say about a claim."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from heirloom.arrays import BoolArray, FloatArray
from heirloom.naming import NO_NAMES, Names
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.transfer.refutation.contradiction import Contradiction, Part
from heirloom.transfer.refutation.power import FOUND, Power
from heirloom.wording import counted, counted_of

if TYPE_CHECKING:
    import xarray as xr

WIDTH = 100  # columns of the printed text
COLUMNS = {"claimed": 16, "estimate": 12, "lower limit": 12, "upper limit": 12, "contradicted": 12}
NO_USE = "no prior can lower a bound"
ONE_TASK = ("highest_rewards", "successors")  # parts of a claim that one task can contradict
EXACT = 1e-6  # of the range: smaller differences of exact models are due to rounding
NEGLIGIBLE = 1e-9  # of the largest number of a range: a smaller one is due to rounding
TITLES = {
    "rewards": "difference of mean rewards",
    "transitions": "total variation of transitions",
    "d_max": "distance D",
}


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """What the tasks in a memory say about a nearness, a prior or a `p_min`.

    Arrays are [s, a] and read-only. `print` shows a table that ends with the verdict. Its columns
    "estimate", "lower limit" and "upper limit" show the largest `seen`, `sure` and `upper` of each
    part, of which the limits depend on the claim (`Part.sure`), and "contradicted" counts pairs.
    """

    knowledge: str
    """The knowledge as text; empty if none was given."""
    exact: bool
    """Whether models were declared exact."""
    delta: float
    """δ, the probability that a true claim is contradicted; it is not used if models are exact."""
    tasks: tuple[int, ...]
    """The numbers of the tasks that were compared."""
    n_tasks: int
    """The number of tasks that the memory has seen."""
    untested: tuple[int, ...]
    """The tasks whose number of visits is not recorded: their models were not tested."""
    compared: BoolArray
    """The pairs that are known in two tasks or more."""
    parts: dict[str, Part]
    """The differences in "rewards", "transitions" and "d_max"."""
    contradictions: tuple[Contradiction, ...]
    """The largest contradiction of each part of the knowledge; empty if there is none."""
    different_tasks: tuple[int, ...]
    """Tasks that are proved to be all different from each other."""
    p_min: float | None
    """The smallest probability of a task, if that is the knowledge."""
    useful_below: FloatArray
    """The value below which a prior can lower a bound of the next task; infinite if unknown."""
    helps: bool | None
    """Whether the knowledge can lower a bound of a new task; None if that is not known."""
    pooled_e: float | None
    """The evidence of all pairs and tasks together against a nearness or prior; None if unknown.

    A true claim reaches `pooled_limit` with probability δ/2 at most. Without a claim, with models
    declared exact, or if visits were not recorded, it is not known."""
    pooled_limit: float
    """The evidence from which on a claim is refuted, 2/δ."""
    power: Mapping[str, Power]
    """By how much each part of a claim must be too small to be found with probability 0.8.

    It is empty if models are exact, without a claim about differences, and if one was contradicted.
    For a `p_min` it says how far apart tasks must be to be proved different, and for "successors"
    which probability an excluded one must have to be seen.
    """
    exact_parts: str = ""
    """Which parts of models were declared exact, as text."""
    n_missing: int = 0
    """The number of pairs whose action is missing in all tasks."""
    pair_names: Names = NO_NAMES
    """The names of states and actions, as far as there are any."""
    task_names: Mapping[int, str] = field(default_factory=dict)
    """The number of each task with its label and time, such as "3 (Lyon, week 12)"."""

    @property
    def n_pairs(self) -> int:
        """The number of pairs that exist in some task."""
        return self.compared.size - self.n_missing

    @property
    def contradicted(self) -> bool:
        """Whether the tasks contradict the knowledge."""
        too_many = self.p_min is not None and len(self.different_tasks) > self.most_tasks
        return bool(self.contradictions) or too_many or self.pooled_refutes

    @property
    def pooled_refutes(self) -> bool:
        """Whether all pairs and tasks together refute the knowledge."""
        return self.pooled_e is not None and self.pooled_e >= self.pooled_limit

    @property
    def most_tasks(self) -> float:
        """The largest number of tasks that `p_min` admits."""
        return math.inf if self.p_min is None else math.floor((1 + 1e-9) / self.p_min)

    @property
    def smallest_nearness(self) -> Nearness:
        """The smallest nearness that no single pair contradicts, without successors.

        With models that are not exact, it is a lower bound on the true differences, and all pairs
        together may refute it.
        """
        rewards, transitions = self.parts["rewards"].sure, self.parts["transitions"].sure
        return Nearness(rewards=rewards, transitions=np.minimum(transitions, 1.0))

    @property
    def smallest_d_max(self) -> float:
        """The smallest number `d_max` that no single pair contradicts."""
        return float(self.parts["d_max"].sure.max())

    @property
    def largest_p_min(self) -> float:
        """The largest `p_min` that agrees with all that is known."""
        return 1.0 / max(1, len(self.different_tasks))

    @property
    def largest_useful_d_max(self) -> float:
        """A `d_max` of this or more cannot lower a bound below `v_max`; infinite if unknown."""
        return float(self.useful_below.max())

    def to_xarray(self) -> "xr.Dataset":
        """Return all arrays over pairs, with the dimensions `state` and `action`."""
        import xarray as xr

        arrays: dict[str, np.ndarray] = {"compared": self.compared}
        for name, part in self.parts.items():
            for side in ("seen", "sure", "upper", "claimed"):
                array = getattr(part, side)
                if array is not None:
                    arrays[f"{name}_{side}"] = array
        arrays["d_max_useful_below"] = self.useful_below
        for found in self.contradictions:
            arrays[f"{found.part}_contradicted"] = found.pairs
        dataset = xr.Dataset({name: (("state", "action"), x) for name, x in arrays.items()})
        n_states, n_actions = self.compared.shape
        return dataset.assign_coords(
            state=np.arange(n_states), action=np.arange(n_actions), **self.pair_names.coordinates()
        ).assign_attrs(
            knowledge=self.knowledge,
            verdict=self.verdict,
            contradicted=int(self.contradicted),
            exact=int(self.exact),
            delta=self.delta,
            different_tasks=len(self.different_tasks),
        )

    def __repr__(self) -> str:
        compared = counted_of(int(self.compared.sum()), self.n_pairs, "pair")
        of = f"Audit of {self.knowledge}" if self.knowledge else "Audit without knowledge"
        how = "models declared exact" if self.exact else f"confidence {1 - self.delta:.4g}"
        if self.exact_parts and not self.exact:
            how += f", {self.exact_parts} declared exact"
        title = f"{of}: {counted(len(self.tasks), 'task')}, {compared} known in at least two, {how}"
        verdict = fill(self.verdict, WIDTH, break_on_hyphens=False)
        lines = [fill(title, WIDTH, break_on_hyphens=False), *self._table()]
        if self.pooled_e is not None:
            confidence, limit = f"{1 - self.delta:.4g}", f"{self.pooled_limit:.4g}"
            lines.append(
                f"pooled evidence: e = {self.pooled_e:.3g} (the claim is refuted at confidence "
                f"{confidence} if e is {limit} or more)"
            )
        return "\n".join([*lines, verdict])

    def _table(self) -> list[str]:
        width = max(len(title) for title in TITLES.values())
        lines = [" " * width + "".join(f"  {name:>{size}}" for name, size in COLUMNS.items())]
        n_contradicted = {found.part: int(found.pairs.sum()) for found in self.contradictions}
        for name, part in self.parts.items():
            count = "" if part.claimed is None else f"{n_contradicted.get(name, 0):,}"
            found = (part.seen, part.sure, part.upper) if self.compared.any() else (None,) * 3
            cells = (formatted_range(part.claimed), *map(_largest, found), count)
            padded = (f"  {x:>{size}}" for x, size in zip(cells, COLUMNS.values(), strict=True))
            lines.append(f"{TITLES[name]:<{width}}" + "".join(padded))
        return lines

    @property
    def verdict(self) -> str:
        """The result in one sentence or two."""
        if not self.knowledge:
            return self._differences() + self._limits()
        if self.p_min is not None:
            return self._verdict_on_p_min() + self._limits()
        if self.contradictions:
            worst = "; ".join(str(found) for found in self.contradictions)
            return f"{self.knowledge} is contradicted: {worst}. {self._differences()}"
        if self.pooled_refutes:
            return (
                f"{self.knowledge} is contradicted by all pairs and tasks together, although no "
                f"single pair contradicts it: e = {self.pooled_e:.3g}, and "
                f"{self.pooled_limit:.4g} is enough. {self._differences()}"
            )
        alone = self._could_find([name for name in ONE_TASK if self._finds(name)])
        tested = f"{self.knowledge} is {'hardly' if alone else 'not'} tested"
        if not self.compared.any():
            return f"{tested}: no pair is known in two tasks.{alone}{self._limits()}"
        if self.parts["d_max"].claimed is not None and not (self.exact or self._finds("d_max")):
            needed = self.power["d_max"].visits_needed if self.power else None
            visits = "" if needed is None else f"; that needs {needed:,} visits in two tasks"
            use = f" It cannot help: {self._useful_d_max()}." if self.helps is False else ""
            return (
                f"{self.knowledge} is hardly tested: no false claim would have been found through "
                f"the mean rewards of a pair{visits}.{use}{self._limits()}"
            )
        if self._lacks_power:
            return f"{tested}: {self._too_few_visits()}{alone}{self._limits()}"
        return (
            f"Nothing contradicts {self.knowledge} so far{self._use()}."
            f"{self._could_find(self.power)}"
            f"{self._limits()}"
        )

    def _finds(self, part: str) -> bool:
        return part in self.power and self.power[part].finds_something

    @property
    def _lacks_power(self) -> bool:
        """Whether no false claim about differences would have been found, or about anything."""
        differences = [name for name in self.power if name not in ONE_TASK] or self.power
        return bool(differences) and not any(map(self._finds, differences))

    def _too_few_visits(self) -> str:
        needed = [x.visits_needed for x in self.power.values() if x.visits_needed is not None]
        how_many = f" At a pair, that needs {max(needed):,} visits in two tasks." if needed else ""
        about = " about differences" if any(map(self._finds, ONE_TASK)) else ""
        what = f"no false claim{about} would have been found"
        if self.p_min is not None:
            what = "no two tasks would have been proved to be different"
        return f"with so few visits, {what}.{how_many}"

    def _use(self) -> str:
        """Say whether knowledge that is not contradicted can help."""
        if self.helps is not False:
            return ""
        if self.parts["d_max"].claimed is None:
            return ", but it cannot help: it lowers no bound, whatever the next task is"
        return f", but it cannot help: {self._useful_d_max()}"

    def _useful_d_max(self) -> str:
        limit = self.largest_useful_d_max
        return f"only a prior below {limit:.4g} can lower a bound" if limit > 0 else NO_USE

    def _verdict_on_p_min(self) -> str:
        n, most = len(self.different_tasks), self.most_tasks
        if self.contradicted:
            some = self.different_tasks[: int(most) + 1]
            tasks = ", ".join(self.task_names.get(task, str(task)) for task in some)
            return (
                f"{self.knowledge} is contradicted: it admits {counted(int(most), 'task')}, but "
                f"{n:,} tasks are all different (such as {tasks}). The largest p_min that agrees "
                f"is {self.largest_p_min:.4g}."
            )
        admits = f"it admits {counted(int(most), 'task')}"
        not_tested = f"{self.knowledge} is not tested"
        if len(self.tasks) <= most:
            return f"{not_tested}: {admits}, and {len(self.tasks):,} were compared."
        if not self.compared.any():
            return f"{not_tested}: no pair is known in two tasks."
        if self._lacks_power:
            return f"{not_tested}: {self._too_few_visits()}"
        seen = f"{n:,} of those seen are" if n > 1 else "no two of those seen are"
        return (
            f"Nothing contradicts {self.knowledge} so far: {admits}, and {seen} proved to be "
            f"different.{self._could_find(self.power)}"
        )

    def _differences(self) -> str:
        if not self.compared.any():
            return "Nothing was compared: no pair is known in two tasks."
        d_max, near = self.smallest_d_max, self.smallest_nearness
        numbers = (
            f"rewards={near.rewards.max():.4g} and transitions={near.transitions.max():.4g} for a "
            f"nearness, and d_max = {d_max:.4g}"
        )
        if self.exact:
            text = f"The smallest numbers that agree with what is known are {numbers}."
        else:
            text = (
                f"Single pairs prove that true claims are at least {numbers}; the true differences "
                "may be larger."
            )
        if math.isfinite(self.largest_useful_d_max):
            useful = self._useful_d_max()
            text += f" {useful[0].upper()}{useful[1:]}."
        return text

    def _could_find(self, names: Iterable[str]) -> str:
        """Say which false claims about these parts the audit would have found, and which not."""
        text = ""
        for name in names:
            power, part = self.power[name], name.replace("_", " ")
            if not power.finds_something:
                what = "No false claim" if self.p_min is None else "No difference of tasks"
                text += f" {what} about {part} would have been found"
                if power.visits_needed is not None:
                    tasks = "one task" if name in ONE_TASK else "two tasks"
                    visits = counted(power.visits_needed, "visit")
                    text += f": that needs {visits} of a pair in {tasks}"
                text += "."
                continue
            what = f"A claim about {part} that is too small would have been found"
            how = "it is so by"
            if name == "successors":
                what = "An excluded successor would have been found"
                how = "its probability is at least"
            elif name == "d_max":
                what = (
                    "A d_max that is too small would have been found, through mean rewards alone,"
                )
            elif self.p_min is not None:
                what, how = f"Different {part} would have been found", "they differ by"
            ways = ", or by ".join(self._ways(name, power))
            text += f" {what} with a probability of about {FOUND:g}, if {how} {ways}."
        return text

    def _ways(self, name: str, power: Power) -> list[str]:
        """Return by how much, and where, a claim must be too small to be found."""
        found = power.one_pair[np.isfinite(power.one_pair)]
        least, most = found.min(initial=math.inf), found.max(initial=-math.inf)
        ways = []
        if power.all_pairs < least:
            ways.append(f"{power.all_pairs:.3g} at all pairs, between two halves of the tasks")
        if found.size:
            amount = f"{least:.3g}" if most - least < 0.005 * most else f"{least:.3g} to {most:.3g}"
            if most <= EXACT * power.widest:
                amount = "any amount"
            where = "the most visited pair" if found.size == 1 else f"one of {found.size:,} pairs"
            tasks = "between the two tasks that visited it most"
            if name in ONE_TASK:
                tasks = "in the task that visited it most"
            ways.append(f"{amount} at {where}, {tasks}")
        return ways

    def _limits(self) -> str:
        """Say of which tasks nothing was tested."""
        text = ""
        if self.untested:
            tasks = counted(len(self.untested), "task")
            text += f" The visits of {tasks} are not recorded: not tested."
        return text


def formatted_range(array: FloatArray | None) -> str:
    """Return the smallest and the largest number of an array, or the only one, as text."""
    if array is None:
        return "-"
    low, high = float(array.min()), float(array.max())
    low = 0.0 if low < NEGLIGIBLE * high else low
    return f"{high:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


def _largest(array: FloatArray | None) -> str:
    return "-" if array is None else f"{float(array.max()):.4g}"
