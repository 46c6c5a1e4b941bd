"""Evidence that borrows visits of other tasks, which then count as visits of the current one.

Which visits: those of all earlier tasks (`PooledVisits`), of the tasks that seem to be the same as
the current one (`Groups`), or of all pairs that seem to behave alike (`Templates`). Borrowed visits
are not stored with the task. Where they are of another model than the pair's, nothing bounds the
error.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from heirloom.arrays import FloatArray, IntArray
from heirloom.errors import InvalidArgument
from heirloom.mdp.learned import LearnedModel
from heirloom.mdp.rows import Rows
from heirloom.mdp.tabular import reward_scale
from heirloom.options import Option
from heirloom.transfer.bound import NO_PAIRS, Bound, Evidence
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.model_sets import ModelSets, Rule
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source
from heirloom.transfer.visits import Visits
from heirloom.validation import positive_probability, real_number, whole_number

Pool = Annotated[
    float,
    Option(
        "visits of earlier tasks count as visits of the current one, up to this number for each "
        'pair; 0 for none, infinity (in a spec "inf") for all.',
        0.0,
        spec=Annotated[float, Field(ge=0)] | Literal["inf"],
    ),
]
"""The type of the option `pool`."""


class Borrowing(Evidence):
    """Evidence that borrows visits of other tasks."""

    def join(self, bounds: Sequence[Bound], *, restarted: bool) -> None:
        """Raise `InvalidArgument` if another bound claims something that visits could refute.

        Borrowed visits hide how the task differs from the one they come from.
        """
        if any(claim is not None for bound in bounds for claim in bound.claims()):
            raise InvalidArgument(
                "visits of other tasks are borrowed (pool, FMRL or TempLe), so that a nearness or "
                "a prior could not be refuted: leave one of the two out"
            )


class PooledVisits(Borrowing):
    """Visits of earlier tasks count as visits of the current one, up to `most` for each pair.

    They are all visits of all earlier tasks, in proportion if they are more than `most`. This is
    valid if the pair is the same in all tasks; otherwise nothing is guaranteed.
    """

    def __init__(self, *, most: float) -> None:
        expected = "expected a number of visits, 0 or more, or infinity"
        is_infinite = isinstance(most, float) and most == math.inf
        self.most = most if is_infinite else real_number("pool", most, expected, least=0)

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """Borrow the visits, unless the task begins again."""
        result = super().begin_task(setting, model, memory)
        if not model.has_borrowed:
            lend(model, memory.pooled, self.most)
        return result

    def options(self) -> dict[str, Any]:
        """Return `most`."""
        return {"most": self.most}


def pooled(most: float) -> list[Bound]:
    """Return the evidence of pooled visits, none if `most` is 0."""
    evidence = PooledVisits(most=most)
    return [evidence] if evidence.most > 0 else []


def lend(model: LearnedModel, rows: Rows, most: float = math.inf) -> list[int]:
    """Let a model borrow the visits of rows, up to `most` per pair; return the pairs looked at."""
    n_states = model.n_states
    outcomes, p = rows.outcomes(n_states)
    order = np.argsort(outcomes)
    (pairs, states), p = np.divmod(outcomes[order], n_states + 1), p[order]
    exists = model.available.reshape(-1)[pairs] & (rows.counts[pairs] > 0)
    pairs, states, p = pairs[exists], states[exists], p[exists]
    # Sums of p are rounded, not p: so the visits of a pair add up to their whole number.
    n = np.floor(np.minimum(rows.counts, most))[pairs]
    sums = np.cumsum(p)
    is_first = np.diff(pairs, prepend=-1) != 0
    before = np.repeat((sums - p)[is_first], np.diff(np.append(np.flatnonzero(is_first), p.size)))
    upto = np.rint(n * (sums - before)).astype(np.int64)
    times = np.where(is_first, upto, np.diff(upto, prepend=0))
    some = times > 0
    return model.borrow(pairs[some], states[some], times[some], rows.R[pairs[some]])


class Groups(Borrowing):
    """Finds out to which group of earlier tasks the current one belongs, and borrows its visits.

    Let θ be a pair's model: the probabilities of its outcomes, and its mean reward in the unit of
    the reward range. Earlier tasks are in one group if no pair has models that are further apart
    than `gap` (Γ) and than `3 √(1/n + 1/n')`, which chance explains after n and n' visits. From
    task `first` + 1 on, all groups are candidates. For two of them, i and j, each visit with
    outcome z (one-hot, and the reward) of a pair whose θ differ by `separation` times their
    confidence radii `√((2/n)(ln(2/δ) + 2))` or more adds

        c += ¼ ‖θ_i - θ_j‖²,    Δ += ‖θ_i - z‖² - ‖θ_j - z‖².

    Once c reaches `evidence` (ξ), i is dropped if Δ >= 0, else j. The last candidate lends all its
    visits. Sums change when a pair is looked at.
    """

    def __init__(
        self, *, first: int, gap: float, evidence: float, separation: float, delta: float
    ) -> None:
        self.first, self.delta = whole_number("first", first), positive_probability("delta", delta)
        self.gap, self.evidence, self.separation = (
            real_number(name, value, "expected a number above 0", above=0)
            for name, value in (("gap", gap), ("evidence", evidence), ("separation", separation))
        )
        self._sources: tuple[Source, ...] = ()
        self._groups: list[Visits] = []

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """Begin with all groups as candidates; a single one lends its visits at once."""
        result = super().begin_task(setting, model, memory)
        if memory.sources[: len(self._sources)] != self._sources:  # some were forgotten
            self._sources, self._groups = (), []
        for source in memory.sources[len(self._sources) :]:
            self._add(source.rows)
        self._sources = memory.sources
        has_begun = memory.n_tasks >= self.first and not model.has_borrowed
        self.candidates = list(range(len(self._groups))) if has_begun else []
        n = len(self.candidates)
        self._sums: dict[int, tuple[FloatArray, FloatArray]] = {}
        self._c, self._delta = np.zeros((n, n)), np.zeros((n, n))
        if n == 1:
            self._lend()
        return result

    def model_sets(self) -> ModelSets:
        """Return no sets; `look` is called as long as there are candidates."""
        return ModelSets(follows=len(self.candidates) > 1)

    def look(self, pair: int, V: FloatArray) -> IntArray:
        """Compare the candidates at a pair, and borrow the visits of the last one."""
        if len(self.candidates) < 2:
            return NO_PAIRS
        before = self._sums.get(pair, (0.0, 0.0))
        self._sums[pair] = c, delta = self._evidence(pair)
        self._c += c - before[0]
        self._delta += delta - before[1]
        rejected = (self._c >= self.evidence) & (self._delta >= 0)
        np.fill_diagonal(rejected, val=False)
        for i, j in np.argwhere(rejected).tolist():  # of two that are equally good one remains
            both = {i, j} <= set(self.candidates)
            if both:
                self.candidates.remove(i)
        if len(self.candidates) > 1:
            return NO_PAIRS
        return np.array(self._lend(), dtype=np.int64)

    def _evidence(self, pair: int) -> tuple[FloatArray, FloatArray]:
        """Return what all visits of a pair add to c and Δ, for all pairs of groups."""
        n = int(self.model._arrays.counts[pair])
        z = self._theta(self.model.rows, pair)
        groups = [self._groups[i].rows for i in range(len(self._c))]
        theta = np.array([self._theta(rows, pair) for rows in groups])
        visits = np.array([rows.counts[pair] for rows in groups])
        apart = ((theta[:, None] - theta[None]) ** 2).sum(axis=2)
        radii = self._radius(np.minimum(visits[:, None], visits[None]))
        counts = np.sqrt(apart) >= self.separation * radii
        # Σ ‖θ - z‖² over visits, up to terms that are the same for all θ.
        errors = n * ((theta**2).sum(axis=1) - 2 * theta @ z)
        delta = errors[:, None] - errors[None]
        return np.where(counts, n * apart / 4, 0.0), np.where(counts, delta, 0.0)

    def _theta(self, rows: Rows, k: int) -> FloatArray:
        """Return the probabilities of the outcomes of a pair, and its reward."""
        reward_range, n_states = self.setting.reward_range, self.setting.n_states
        row = slice(rows.first[k], rows.last[k])
        theta = np.zeros(n_states + 2)
        theta[rows.successors[row]] = rows.p[row]
        theta[n_states:] = rows.ends[k], rows.R[k] / reward_scale(reward_range)
        return theta

    def _add(self, rows: Rows) -> None:
        """Add a task to the first group that it can belong to, or make a new one."""
        setting = self.setting
        for group in self._groups:
            if self._are_alike(rows, group.rows):
                group.add(rows)
                return
        self._groups.append(Visits(setting.n_states, setting.n_actions))
        self._groups[-1].add(rows)

    def _are_alike(self, rows: Rows, others: Rows) -> bool:
        """Return whether no pair has models further apart than Γ and than chance explains."""
        scale, n_states = reward_scale(self.setting.reward_range), self.setting.n_states
        (keys, p), (other_keys, other_p) = rows.outcomes(n_states), others.outcomes(n_states)
        both, at = np.unique(np.concatenate([keys, other_keys]), return_inverse=True)
        difference = np.bincount(at, np.concatenate([p, -other_p]), minlength=both.size)
        squares = ((rows.R - others.R) / scale) ** 2
        squares += np.bincount(both // (n_states + 1), difference**2, minlength=squares.size)
        with np.errstate(divide="ignore"):
            chance = 3 * np.sqrt(1 / rows.counts + 1 / others.counts)
        return bool((np.sqrt(squares) <= np.maximum(self.gap, chance)).all())

    def _radius(self, n: IntArray) -> FloatArray:
        """Return the confidence radii of models after n visits."""
        with np.errstate(divide="ignore"):
            return np.sqrt(2 / n * (math.log(2 / self.delta) + 2))

    def _lend(self) -> list[int]:
        return lend(self.model, self._groups[self.candidates[0]].rows)

    def options(self) -> dict[str, Any]:
        """Return the arguments."""
        names = ("first", "gap", "evidence", "separation", "delta")
        return {name: getattr(self, name) for name in names}


class _Templates:
    """Probabilities of outcomes in decreasing order, mean rewards and visits, one row each."""

    def __init__(self, rows: FloatArray | None = None, n: FloatArray | None = None) -> None:
        self.rows = np.zeros((0, 1)) if rows is None else rows
        """The mean reward in the unit of the reward range, and the probabilities."""
        self.n = np.zeros(0) if n is None else n

    def copy(self) -> "_Templates":
        """Return a copy."""
        return _Templates(self.rows.copy(), self.n.copy())

    def join(self, row: FloatArray, n: float, distance: float) -> tuple[FloatArray, float] | None:
        """Add n visits to the nearest template within a distance, or make a new one.

        Returns the template as it was before, and its visits; None if it is new.
        """
        missing = row.size - self.rows.shape[1]
        if missing > 0:
            self.rows = np.pad(self.rows, ((0, 0), (0, missing)))
        row = np.append(row, np.zeros(max(-missing, 0)))
        squares = ((self.rows - row) ** 2).sum(axis=1)
        best = int(squares.argmin()) if squares.size else -1
        if best < 0 or squares[best] > distance**2:
            self.rows, self.n = np.vstack([self.rows, row]), np.append(self.n, n)
            return None
        found = self.rows[best].copy(), float(self.n[best])
        self.n[best] += n
        self.rows[best] += n / self.n[best] * (row - found[0])
        return found


class Templates(Borrowing):
    """Pairs that behave alike up to the names of their successors lend each other their visits.

    The template of a pair is its row, sorted by probability, with its mean reward. When a pair has
    as many visits as make it known to the model, it joins the nearest template, of any task, within
    `distance` (L2, rewards in the unit of the reward range), whose visits it borrows, permuted
    to its own successors; or it founds a new one. Its values follow from its model once it has `m`
    visits together with borrowed ones, and before they are `v_max`.
    """

    def __init__(self, *, distance: float, m: int) -> None:
        self.distance = real_number("distance", distance, "expected a number above 0", above=0)
        self.m = whole_number("m", m)
        self._sources: tuple[Source, ...] = ()
        self._of_sources = _Templates()

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """Begin with the templates of all earlier tasks."""
        result = super().begin_task(setting, model, memory)
        if memory.sources[: len(self._sources)] != self._sources:  # some were forgotten
            self._sources, self._of_sources = (), _Templates()
        for source in memory.sources[len(self._sources) :]:
            for k in np.flatnonzero(source.rows.counts >= model.n_known):
                row, _ = self._template(source.rows, int(k))
                self._of_sources.join(row, source.rows.counts[k], self.distance)
        self._sources = memory.sources
        self.templates = self._of_sources.copy()
        self._is_matched = np.zeros(setting.n_pairs, dtype=bool)
        self._is_matched[model._arrays.known] = True  # if the task begins again
        return result

    def model_sets(self) -> ModelSets:
        """Return the rule that the model counts from `m` visits on."""
        return ModelSets(
            rule=Rule(full=self.m, step=True, v_max=self.setting.v_max), follows="first"
        )

    def look(self, pair: int, V: FloatArray) -> IntArray:
        """Match a pair that was looked at for the first time."""
        if self._is_matched[pair]:
            return NO_PAIRS
        self._is_matched[pair] = True
        rows, scale = self.model.rows, reward_scale(self.setting.reward_range)
        row, states = self._template(rows, pair)
        found = self.templates.join(row, rows.counts[pair], self.distance)
        if found is None:
            return NO_PAIRS
        (reward, *p), n = found[0].tolist(), found[1]
        times = np.rint(n * np.array(p[: states.size])).astype(np.int64)
        some = times > 0
        states, times = states[some], times[some]
        R = np.full(states.size, reward * scale)
        self.model.borrow(np.full(states.size, pair), states, times, R)
        self.model._look(pair)
        return NO_PAIRS

    def _template(self, rows: Rows, k: int) -> tuple[FloatArray, IntArray]:
        """Return the template of a pair, and its successors (S for ⊥) in the same order."""
        p = np.append(rows.p[rows.first[k] : rows.last[k]], rows.ends[k])
        states = np.append(rows.successors[rows.first[k] : rows.last[k]], self.setting.n_states)
        order = np.argsort(-p, kind="stable")[: np.count_nonzero(p)]
        return np.append(rows.R[k] / reward_scale(self.setting.reward_range), p[order]), states[
            order
        ]

    def options(self) -> dict[str, Any]:
        """Return `distance` and `m`."""
        return {"distance": self.distance, "m": self.m}
