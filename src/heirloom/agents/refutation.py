"""What an agent does when a pair that becomes known contradicts a claim."""

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from heirloom.choices import OnRefutation
from heirloom.errors import RefutedKnowledge, RefutedKnowledgeWarning
from heirloom.mdp.rows import MOST_VISITS
from heirloom.naming import with_name
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.radii import Accuracy
from heirloom.transfer.refutation.observed import Difference, Observed, differences, outside
from heirloom.transfer.refutation.pooled import SHARE_OF_DELTA, Pooled, is_due, pooled_evidence
from heirloom.transfer.refutation.watch import TaskWatch, claims_of
from heirloom.transfer.refutation.widening import (
    raised_where,
    revise,
    widened_d_max,
    widened_everywhere,
    widened_nearness,
)
from heirloom.validation import truth, whole_number
from heirloom.wording import counted

if TYPE_CHECKING:
    from heirloom.agents.task_learner import TaskLearner

REMEDY = (
    "Give a wider claim, or use on_refutation='widen'; hl.audit(agent.memory, ...) compares all "
    "stored tasks."
)


class Reactions(NamedTuple):
    """What refutations have changed in an agent so far; see the attributes of `Refutation`."""

    warned: bool
    refuted: bool
    n_widened: int

    @classmethod
    def read(cls, saved: dict[str, Any]) -> "Reactions":
        """Return the reactions in the header of a file; raise unless they are valid."""
        warned, refuted = (truth(name, saved[name]) for name in ("warned", "refuted"))
        return cls(warned, refuted, whole_number("n_widened", saved["n_widened"], least=0))


class Refutation:
    """Compares tasks with the knowledge of an agent, and reacts to a contradiction.

    Args:
        reaction: "warn", once; "raise"; "widen"; or "ignore", which compares nothing.
        exact: whether the models of known pairs are exact, up to the `epsilon` of the agent.
        delta: the probability that true knowledge is refuted, in all tasks of the agent together,
            including dropped ones.
    """

    def __init__(self, reaction: OnRefutation, *, exact: bool, delta: float) -> None:
        self.reaction, self.accuracy = reaction, Accuracy(exact, delta)
        self.warned = False
        """Whether the agent has warned."""
        self.n_widened = 0
        """How often the agent has widened its knowledge."""
        self.is_refuted = False
        """Whether knowledge was refuted: what is left of it was chosen after the data."""

    @property
    def reactions(self) -> Reactions:
        """What refutations have changed so far."""
        return Reactions(self.warned, self.is_refuted, self.n_widened)

    @reactions.setter
    def reactions(self, reactions: Reactions) -> None:
        self.warned, self.is_refuted, self.n_widened = reactions

    def begin_task(self, learner: "TaskLearner") -> TaskWatch | None:
        """Prepare the comparison of a task with the sources; None if nothing is claimed."""
        if self.reaction == "ignore" or (self.reaction == "warn" and self.warned):
            return None
        claims = claims_of(learner.bounds)
        if claims.nearness is None and claims.d_max is None:
            return None
        memory = learner.memory
        return TaskWatch.begin(
            claims,
            replace(
                self.accuracy,
                delta=(1 - SHARE_OF_DELTA) * self.accuracy.delta,
                n_dropped=memory.n_dropped,
            ),
            learner.setting,
            list(memory.sources),
            task=memory.n_tasks + 1,
            most=learner.model.n_known if learner.model.refresh is None else MOST_VISITS,
        )

    def react(self, learner: "TaskLearner", pair: int) -> None:
        """React to a pair that became known and contradicts the knowledge."""
        watch = learner.watch
        assert watch is not None
        seen = _observed(learner, pair)
        found = differences(watch, seen)
        task = with_name(watch.task, ", ".join(learner.texts.values()))
        described = _described(watch, seen, found, self.accuracy, learner.memory, task)
        if not self._object(described):
            self._widen_at(learner, watch, seen, found)
        elif watch.check is not None:
            watch.check.active[0] = False

    def _object(self, described: str) -> bool:
        """Raise an error, or warn and return True; return False if the knowledge is to be widened.

        `described` says what contradicts the knowledge.
        """
        message = f"{described}. {REMEDY}"
        self.is_refuted = True
        if self.reaction == "raise":
            raise RefutedKnowledge(message)
        if self.reaction == "warn":
            self.warned = True
            warnings.warn(message, RefutedKnowledgeWarning, stacklevel=3)
            return True
        self.n_widened += 1
        return False

    def refute_certificate(self, described: str) -> None:
        """React to a certificate that contradicts the knowledge, which it then no longer uses."""
        self.is_refuted = True
        if self.reaction in ("warn", "raise") and not self.warned:
            self._object(described)

    def check_evidence(self, learner: "TaskLearner", pair: int) -> None:
        """React if a pair that was looked at contradicts evidence that checks itself."""
        if self.reaction == "ignore" or (self.reaction == "warn" and self.warned):
            return
        for bound in learner.bounds:
            found = bound.contradiction(pair)
            if found is None:
                continue
            if not self._object(f"the knowledge of {type(bound).__name__} is refuted: {found}"):
                bound.widen(pair)
                revise(learner.memory, learner.setting)
                learner.restart()
            return

    def end_task(self, learner: "TaskLearner") -> None:
        """React if the evidence of all stored pairs and tasks together refutes the knowledge."""
        memory, setting = learner.memory, learner.setting
        is_off = self.reaction == "ignore" or (self.reaction == "warn" and self.warned)
        if is_off or self.accuracy.exact or not is_due(memory.n_tasks):
            return
        claims = claims_of(learner.bounds)
        if claims.nearness is None and claims.d_max is None:
            return
        pooled = pooled_evidence(memory, claims, setting, from_above=True)
        if pooled is None or not pooled.refutes(self.accuracy.delta):
            return
        pooled = pooled_evidence(memory, claims, setting)
        if pooled is None or not pooled.refutes(self.accuracy.delta):
            return
        if self._object(_described_pooled(pooled, self.accuracy, memory.n_tasks)):
            return
        largest = setting.reward_range[1] - setting.reward_range[0]
        largest += 2 * setting.gamma * (setting.v_max - setting.floor)
        for bound in learner.bounds:
            bound.widen_claims(
                lambda nearness: widened_everywhere(nearness, pooled, setting),
                lambda d_max: raised_where(d_max, pooled.rewards > 0, largest),
            )
        revise(memory, setting)

    def _widen_at(
        self, learner: "TaskLearner", watch: TaskWatch, seen: Observed, found: list[Difference]
    ) -> None:
        """Widen the knowledge to the model of a pair, and compute everything anew."""
        for bound in learner.bounds:
            bound.widen_claims(
                lambda nearness: widened_nearness(nearness, seen, found, watch),
                lambda d_max: widened_d_max(d_max, seen, found, learner.setting),
            )
        revise(learner.memory, learner.setting)
        learner.restart()


def _observed(learner: "TaskLearner", pair: int) -> Observed:
    arrays, n_states = learner.model._arrays, learner.setting.n_states
    T = np.zeros(n_states + 1)
    row = slice(arrays.first[pair], arrays.last[pair])
    T[arrays.successors[row]] = arrays.p[row]
    T[n_states] = arrays.ends[pair]
    return Observed(pair, int(arrays.looked[pair]), float(arrays.R[pair]), T)


def _described_pooled(pooled: Pooled, accuracy: Accuracy, n_tasks: int) -> str:
    """Return how strong the evidence is, and where it is strongest."""
    parts = {"mean rewards": pooled.rewards, "transitions": pooled.transitions}
    what = max(parts, key=lambda name: float(parts[name].max()))
    n_pairs = int((parts[what] > 0).sum())
    limit = 1 / (SHARE_OF_DELTA * accuracy.delta)
    return (
        f"the knowledge is refuted by {n_tasks} tasks together (pooled evidence e = "
        f"{pooled.e:.3g}, and {limit:.4g} is enough; probability of error at most "
        f"{accuracy.delta:g}): {what} differ by more than claimed at {counted(n_pairs, 'pair')}"
    )


def _described(
    watch: TaskWatch,
    seen: Observed,
    found: list[Difference],
    accuracy: Accuracy,
    memory: TaskMemory,
    task: str,
) -> str:
    """Return which pair, tasks and numbers contradict which claim; `task` is the current one."""
    nearness, d_max = watch.claims
    n_pairs = watch.setting.n_pairs
    s, a = divmod(seen.pair, watch.setting.n_actions)
    where = f"at {memory.names.pair(s, a)}"

    def name(found: Difference) -> str:
        return memory.task_name(found.task)

    models = "exact" if accuracy.exact else f"estimated, probability of error {accuracy.delta:g}"
    texts = []
    if nearness is not None:
        k = seen.pair
        r, t = (float(nearness._per_pair(name, n_pairs)[k]) for name in ("rewards", "transitions"))
        states, ends = outside(nearness, seen)
        if states.size or ends:
            what = f"state {memory.names.state(int(states[0]))}" if states.size else "termination"
            texts.append(f"task {task} has the excluded successor {what} {where}")
        worst = max(found, key=lambda d: d.reward - d.eta, default=None)
        if worst is not None and worst.reward - worst.eta > r:
            texts.append(
                f"mean rewards of tasks {name(worst)} and {task} differ by {worst.reward:.4g} "
                f"{where} (confidence radii {worst.eta:.2g}); the claim allows {r:.4g}"
            )
        worst = max(found, key=lambda d: d.tv - d.tau, default=None)
        if worst is not None and worst.tv - worst.tau > t:
            texts.append(
                f"transitions of tasks {name(worst)} and {task} differ by a total variation of "
                f"{worst.tv:.4g} {where} (confidence radii {worst.tau:.2g}); the claim allows "
                f"{t:.4g}"
            )
    if d_max is not None:
        claimed = float(d_max.reshape(-1)[seen.pair if d_max.ndim else 0])
        worst = max(found, key=lambda d: d.distance, default=None)
        if worst is not None and worst.distance > claimed:
            texts.append(
                f"models of tasks {name(worst)} and {task} differ by at least D = "
                f"{worst.distance:.4g} {where}; d_max is {claimed:.4g}"
            )
    if not texts:
        texts = [f"task {task} {where} has a mean reward of {seen.R:.4g}, outside what is claimed"]
    return f"the knowledge is refuted (models {models}): {'; '.join(texts)}"
