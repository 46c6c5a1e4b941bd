"""`audit`: compare a claim with what was learned of the tasks in a memory."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from heirloom.arrays import BoolArray, FloatArray, IntArray, frozen
from heirloom.errors import InvalidArgument
from heirloom.transfer import program
from heirloom.transfer.bound import Claims
from heirloom.transfer.different_tasks import different_tasks
from heirloom.transfer.lipschitz.screening import useful_below
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.model_sets import combined
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.transfer.nearness.limits import Alike, Comparison, Kind, Limits, read_alike
from heirloom.transfer.nearness.rows import near_sets, rows_of_memory
from heirloom.transfer.radii import (
    Accuracy,
    all_outcomes,
    possible_outcomes,
    read_exact,
    visits_of,
)
from heirloom.transfer.refutation.audit_result import Audit, formatted_range
from heirloom.transfer.refutation.contradiction import Contradiction, Part
from heirloom.transfer.refutation.differences import Differences, Largest
from heirloom.transfer.refutation.pooled import SHARE_OF_DELTA, pooled_evidence
from heirloom.transfer.refutation.power import (
    Power,
    all_pairs,
    one_outcome,
    one_pair,
    visits_needed,
)
from heirloom.transfer.setting import Setting
from heirloom.validation import instance, numbers, positive_probability, shown, weights

EXPECTED = "expected a Nearness, or a prior: a number or an array [s, a]"


def audit(
    memory: TaskMemory,
    knowledge: Nearness | ArrayLike | None = None,
    *,
    d_max: ArrayLike | None = None,
    p_min: float | None = None,
    exact: bool | Mapping[str, Any] = False,
    delta: float = 0.05,
    rewards_alike: ArrayLike | None = None,
    transitions_alike: ArrayLike | None = None,
    kind: Kind | None = None,
) -> Audit:
    """Return where the tasks in a memory contradict a nearness, a prior or a `p_min`.

    Only pairs that are known in two tasks are compared. With estimated models, a true claim is
    contradicted with probability δ at most, over all audits of a memory with the same δ: the radii
    of the learned models are subtracted from every difference (`transfer/radii.py`). If the number
    of visits of a task is not recorded, its models are not tested.

    In the same way, all pairs and tasks are tested together by an e-value, which can refute a claim
    that no single pair refutes (`transfer/refutation/pooled.py`). Each test has half of δ.

    A nearness is compared directly with the models. A `d_max` is compared with a lower bound on the
    distance D = |R - R̄| + γ Σ V̄ |T - T̄|, in which the values V̄ are as small as the known pairs
    allow. A `p_min` is contradicted if more than 1 / p_min tasks are all different.

    If pairs are declared alike, a nearness is also compared with all visits of each group, even of
    pairs that are not known. Single pairs and groups then have half of δ each.

    Args:
        memory: the tasks that an agent has learned, such as `agent.memory`.
        knowledge: a `Nearness`; a number or an array [s, a] is a prior. Without knowledge, the
            audit reports the differences only.
        d_max: a bound on the distance between two tasks, a number or an array [s, a].
        p_min: the smallest probability of a task.
        exact: whether the learned models are exact, up to the `epsilon` of the agent. A dictionary
            says it of "rewards" and "transitions", each by True, False or booleans [s, a].
        delta: δ, the probability that a true claim is contradicted.
        rewards_alike: as in `estimate_nearness`, pairs with the same mean reward in each task.
        transitions_alike: pairs with the same distribution over kinds of outcomes in each task.
        kind: the kind of an outcome.

    Raises `InvalidArgument` if pairs that were declared alike are proved to differ within a task.
    """
    instance("memory", memory, TaskMemory, "such as agent.memory")
    delta = positive_probability("delta", delta)
    if memory.setting is None:
        raise InvalidArgument(
            "the memory has no setting, because no agent has used it: give agent.memory, or a "
            "memory that was saved by an agent"
        )
    nearness, prior, probability = _checked_claim(knowledge, d_max, p_min, memory.setting)
    parts = read_exact(exact, memory.setting)
    accuracy = Accuracy(parts.everywhere, delta, memory.n_dropped, parts)
    size = memory.n_states, memory.n_actions
    alike = read_alike(rewards_alike, transitions_alike, kind, size)
    return _Auditor(memory, accuracy, alike).audit(nearness, prior, probability)


def _checked_claim(
    knowledge: Any, d_max: Any, p_min: Any, setting: Setting
) -> tuple[Nearness | None, FloatArray | None, float | None]:
    """Return the nearness, the prior or the probability; at most one of them is given."""
    if sum(claim is not None for claim in (knowledge, d_max, p_min)) > 1:
        raise InvalidArgument("give one of knowledge, d_max and p_min: audit each claim by itself")
    if isinstance(knowledge, Nearness):
        knowledge._check_shape(setting.n_states, setting.n_actions)
        return knowledge, None, None
    name, given = ("knowledge", knowledge) if d_max is None else ("d_max", d_max)
    if given is not None:
        if isinstance(given, str):
            raise InvalidArgument(f"{name} is {shown(given)}: {EXPECTED}")
        prior = numbers(name, given)
        shape = setting.n_states, setting.n_actions
        if prior.shape not in ((), shape):
            raise InvalidArgument(f"{name} has shape {prior.shape}: {EXPECTED} of shape {shape}")
        return None, weights(name, prior, prior.shape, "a distance"), None
    return None, None, None if p_min is None else positive_probability("p_min", p_min)


class _Auditor:
    """The comparison of the tasks of a memory with one claim."""

    def __init__(self, memory: TaskMemory, accuracy: Accuracy, alike: Alike) -> None:
        assert memory.setting is not None
        self.alike = alike
        self.memory, self.sources, self.accuracy = memory, memory.stored, accuracy
        self.delta = accuracy.delta
        self.setting = memory.setting
        self.shape = memory.n_states, memory.n_actions

    def audit(
        self, nearness: Nearness | None, d_max: FloatArray | None, p_min: float | None
    ) -> Audit:
        setting = self.setting
        outcomes, pooled = all_outcomes(setting), None
        if nearness is not None:
            outcomes = possible_outcomes(nearness, setting)
        is_claim = nearness is not None or d_max is not None
        if is_claim and not self.accuracy.exact:
            self.accuracy = replace(self.accuracy, delta=(1 - SHARE_OF_DELTA) * self.delta)
            pooled = pooled_evidence(self.memory, Claims(nearness, d_max), setting)
        if self.alike.has_groups():
            self.accuracy = replace(self.accuracy, delta=self.accuracy.delta / 2)
        found = Differences(self.sources, setting, self.accuracy, outcomes)
        visited = self._visited(outcomes)
        parts, contradictions = self._parts(found, visited, nearness, d_max)
        compared = found.compared
        for name, limits in ({} if visited is None else visited.limits).items():
            compared = compared | (self._has_group(name) & ~np.isnan(limits.estimate.reshape(-1)))
        different = different_tasks(self.sources, setting, self.accuracy)
        useful = useful_below(self.sources, setting)
        return Audit(
            knowledge=_as_text(nearness, d_max, p_min),
            exact=self.accuracy.exact,
            exact_parts=str(self.accuracy.parts),
            delta=self.delta,
            pooled_e=None if pooled is None else pooled.e,
            pooled_limit=1
            / max(SHARE_OF_DELTA * self.delta, 1e-300),  # e-values are at most 10^304
            tasks=tuple(source.task for source in self.sources),
            n_tasks=self.memory.n_tasks,
            untested=tuple(
                source.task
                for source in self.sources
                if source.n_known == 0 and not self.accuracy.exact
            ),
            compared=self._by_pair(compared),
            parts=parts,
            contradictions=contradictions,
            different_tasks=different,
            p_min=p_min,
            useful_below=self._by_pair(useful),
            helps=self._helps(nearness, d_max, useful),
            power={}
            if self.accuracy.exact or contradictions
            else self._power(
                found,
                None if p_min is not None else visited,
                self._claims(parts, nearness, p_min),
                is_pooled=is_claim,
            ),
            n_missing=self._n_missing(),
            pair_names=self.memory.names,
            task_names={source.task: source.name for source in self.sources},
        )

    def _n_missing(self) -> int:
        """Return the number of pairs whose action is missing in all tasks."""
        missing = np.full(self.setting.n_pairs, bool(self.sources))
        for source in self.sources:
            missing &= source.missing
        return int(missing.sum())

    def _visited(self, outcomes: IntArray) -> Comparison | None:
        """Return what all visits say of the differences, also of groups; None for one task."""
        if len(self.sources) < 2:
            return None
        names = self.memory.names
        found = Comparison(self.sources, self.setting, self.accuracy, outcomes, self.alike, names)
        if found.contradictions:
            raise InvalidArgument(f"{found.contradictions[0]}: leave such pairs out of the group")
        return found

    def _has_group(self, part: str) -> BoolArray:
        """Return which pairs were declared alike to others, in rewards or in transitions."""
        return np.asarray(getattr(self.alike, part) >= 0)

    def _with_group(self, part: str, alone: Largest, limits: Limits) -> Largest:
        """Return the larger of two lower bounds: of a pair alone, and of its group."""
        lower = limits.lower.reshape(-1)
        better = self._has_group(part) & (lower > alone.difference)
        tasks = np.where(better[:, None], limits.tasks.reshape(-1, 2), alone.tasks)
        return Largest(np.where(better, lower, alone.difference), tasks)

    def _parts(
        self,
        found: Differences,
        visited: Comparison | None,
        nearness: Nearness | None,
        d_max: FloatArray | None,
    ) -> tuple[dict[str, Part], tuple[Contradiction, ...]]:
        """Return each part of the models that is compared, and the largest contradictions."""
        n_pairs = self.setting.n_pairs
        claimed: dict[str, FloatArray] = {}
        if nearness is not None:
            claimed = {
                name: nearness._per_pair(name, n_pairs) for name in ("rewards", "transitions")
            }
        if d_max is not None:
            claimed["d_max"] = np.broadcast_to(d_max.reshape(-1), n_pairs)
        sides: dict[str, tuple[Largest | None, Largest]] = {
            "rewards": found.rewards(),
            "transitions": found.transitions(),
            "d_max": (None, found.distances()),
        }
        parts, contradictions = {}, []
        for name, (seen, sure) in sides.items():
            limits = None if visited is None else visited.limits.get(name)
            differences = None if seen is None else seen.difference
            if limits is not None and differences is not None:
                estimate = np.nan_to_num(limits.estimate.reshape(-1))
                differences = np.where(self._has_group(name), estimate, differences)
                sure = self._with_group(name, sure, limits)
            parts[name] = Part(
                None if differences is None else self._by_pair(differences),
                self._by_pair(sure.difference),
                None if limits is None else limits.upper,
                self._by_pair(claimed[name]) if name in claimed else None,
            )
            if name in claimed:
                contradictions += self._contradictions(name, sure, claimed[name])
        if nearness is not None:
            contradictions += self._absolute(found, nearness)
        return parts, tuple(contradictions)

    def _absolute(self, found: Differences, nearness: Nearness) -> list[Contradiction]:
        """Return contradictions of what a nearness says about each single task."""
        nothing, contradictions = np.zeros(self.setting.n_pairs), []
        if nearness.successors is not None or nearness.terminates is not None:
            impossible = found.impossible(nearness)
            contradictions += self._contradictions("successors", impossible, nothing)
        if nearness.highest_rewards is not None:
            highest = nearness._per_pair("highest_rewards", self.setting.n_pairs)
            above = found.above(np.asarray(highest))
            contradictions += self._contradictions("highest_rewards", above, nothing)
        return contradictions

    def _contradictions(self, part: str, sure: Largest, claimed: FloatArray) -> list[Contradiction]:
        """Return the largest contradiction of one part of a claim, in a list, if there is one."""
        excess = sure.difference - claimed
        if not (excess > 0).any():
            return []
        k = int(excess.argmax())
        s, a = divmod(k, self.shape[1])
        first, second = (int(task) for task in sure.tasks[k])
        tasks = (first,) if first == second else (first, second)
        return [
            Contradiction(
                part=part,
                state=s,
                action=a,
                tasks=tasks,
                difference=float(sure.difference[k]),
                claimed=float(claimed[k]),
                pairs=self._by_pair(excess > 0),
                pair_name=self.memory.names.pair(s, a),
                task_names=tuple(self.memory.task_name(task) for task in tasks),
            )
        ]

    def _helps(
        self, nearness: Nearness | None, d_max: FloatArray | None, useful: FloatArray
    ) -> bool | None:
        """Return whether the claim can lower a bound of a new task; None if that is not known."""
        if d_max is not None:
            return None if np.isinf(useful).any() else bool((d_max.reshape(-1) < useful).any())
        if nearness is not None:
            setting = self.setting
            sets = near_sets(rows_of_memory(self.memory, setting), nearness, setting)
            values = program.initial_values(setting, np.full(setting.n_pairs, setting.v_max))
            return combined([(1, sets)], setting, values) is not None
        return None

    def _claims(
        self, parts: dict[str, Part], nearness: Nearness | None, p_min: float | None
    ) -> dict[str, FloatArray]:
        """Return what can be false of a claim, by part; a `p_min` needs differences above 0."""
        n_pairs, lo = self.setting.n_pairs, self.setting.reward_range[0]
        if p_min is not None:
            return {name: np.zeros(n_pairs) for name in ("rewards", "transitions")}
        claims = {
            name: part.claimed.reshape(-1)
            for name, part in parts.items()
            if part.claimed is not None
        }
        if nearness is not None and nearness.highest_rewards is not None:
            highest = nearness._per_pair("highest_rewards", n_pairs)
            claims["highest_rewards"] = np.asarray(highest - lo)
        return claims

    def _power(
        self,
        found: Differences,
        visited: Comparison | None,
        claims: dict[str, FloatArray],
        *,
        is_pooled: bool,
    ) -> dict[str, Power]:
        """Return by how much each part of the claim must be too small to be found."""
        setting, exact = self.setting, self.accuracy.parts
        assert exact is not None
        lo, hi = setting.reward_range
        widths = {name: 1.0 if name == "transitions" else hi - lo for name in claims}
        claims = {name: claim for name, claim in claims.items() if (claim < widths[name]).any()}
        if not self.sources:
            return {}
        together = dict.fromkeys(claims, math.inf)
        if is_pooled and any(source.rows.counts.any() for source in self.sources):
            pooled = {name: claim for name, claim in claims.items() if name != "highest_rewards"}
            together |= all_pairs(self.memory, pooled, setting, self.delta)
        visits = np.array([visits_of(source) for source in self.sources])
        known = np.array([source.known for source in self.sources])
        of_task = self.accuracy.of_task(self.memory.n_tasks, setting, found.outcomes)
        power = {}
        for name, claim in claims.items():
            kind = "transitions" if name == "transitions" else "rewards"  # a prior bounds rewards
            width, n_tasks = widths[name], 1 if name == "highest_rewards" else 2
            radii = np.array([getattr(one, kind) for one in found.radii])
            radii[~known] = np.inf
            needed = visits_needed(of_task, kind, claim, width, n_tasks)
            single = one_pair(radii, visits, claim, width, getattr(exact, kind), n_tasks)
            if visited is not None and name in visited.limits:
                of_group = one_pair(*visited.visited(name), claim, width, getattr(exact, kind))
                single = np.where(self._has_group(name), np.minimum(single, of_group), single)
            power[name] = Power(self._by_pair(single), together[name], width, needed)
        excludes = found.outcomes < all_outcomes(setting)
        if excludes.any():
            least = np.where(excludes, one_outcome(visits), np.inf)
            power["successors"] = Power(self._by_pair(least), math.inf, 1.0, 1)
        return power

    def _by_pair(self, array: FloatArray | BoolArray) -> Any:
        return frozen(np.array(array).reshape(self.shape))


def _as_text(nearness: Nearness | None, d_max: FloatArray | None, p_min: float | None) -> str:
    if nearness is not None:
        return repr(nearness)
    if p_min is not None:
        return f"p_min = {p_min:g}"
    if d_max is None:
        return ""
    if d_max.ndim == 0:
        return f"d_max = {float(d_max):g}"
    return f"d_max = {formatted_range(d_max)}"
