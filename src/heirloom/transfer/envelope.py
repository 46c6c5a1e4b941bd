"""`Envelope`: an upper bound on Q* for exchangeable tasks, calibrated on earlier tasks.

Fix a table E from the first tasks, here the largest of their Q. Score each of m further tasks, the
calibration tasks, by S_i = max over pairs of Q⁺_i - E, where Q⁺_i >= Q*_i. Let S be the k-th
smallest score, k = ⌈(1 - α) (m + 1)⌉. Then the next task M satisfies Q*_M <= E + S, at all pairs at
once, with probability at least k / (m + 1) >= 1 - α, if the calibration tasks and M are
exchangeable given E, as independent draws from any family are.

Proof. Let S*_i = max (Q*_i - E), and S* = max (Q*_M - E). These m + 1 numbers are exchangeable, so
S* is among the k smallest of them with probability k / (m + 1), or more if there are ties. Then S*
is at most the k-th smallest of the S*_i, which is at most S, because S_i >= S*_i for all i. ∎

The probability is that of one later task, over the draw of all tasks. If k = m, the next n tasks
are covered together with probability m / (m + n). Four rules make it true:

- Q⁺ of a calibration task must not rest on the envelope or on anything else that was learned from
  earlier tasks and is true with a probability only: a task that is learned under an envelope hides
  by how much it exceeds it. Heirloom computes Q⁺ anew at the end of the task, from the data of the
  task and from a given nearness, and from no other bound.
- Once calibrated, an envelope does not change. Later tasks are learned under it, and say nothing
  about it.
- Tasks that are dropped are not scored. If they are dropped because of what they are, the others
  are a selection, and nothing is claimed.
- A task that widens a given nearness or prior (`on_refutation="widen"`) was selected by its
  content, and is not scored. E is fixed and the calibration begins anew after it, because earlier
  scores may rest on the false claim. The tasks after it are exchangeable given all before. So when
  it ends, the probability that the next m tasks and a later task M do not widen the claim, and M is
  not covered, is at most α. Nothing is claimed for a task that widens.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any, TypedDict, Unpack

import numpy as np

from heirloom.arrays import FloatArray, frozen
from heirloom.errors import InvalidArgument
from heirloom.mdp.learned import LearnedModel
from heirloom.options import Option, declared, options_of
from heirloom.transfer import program
from heirloom.transfer.bound import Bound, Details, check_arguments, check_begun
from heirloom.transfer.memory import EnvelopeState, TaskMemory
from heirloom.transfer.model_sets import combined
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source
from heirloom.wording import counted

ROUNDING = 1e-14  # of a score, relative to the largest value


class EnvelopeOptions(TypedDict, total=False):
    """The options of `Envelope`."""

    alpha: Annotated[
        float,
        Option("α, the largest probability that the bound of a task is invalid.", 0.05, gt=0, le=1),
    ]
    first: Annotated[
        int,
        Option(
            "the number of tasks that the memory must have seen before the calibration begins.",
            5,
            ge=1,
        ),
    ]
    calibration: Annotated[
        int | None,
        Option(
            "the number of calibration tasks, m; by default the smallest number that α admits, "
            "⌈1/α⌉ - 1: 19 for 5 %.",
            None,
            ge=1,
        ),
    ]


@declared
class Envelope(Bound):
    """An upper bound for exchangeable tasks, without `p_min`: valid with probability 1 - α.

    The bound is E + S: E is the largest Q of the tasks seen before the calibration begins, and S is
    the largest amount by which a calibration task exceeds it (or a smaller quantile, if there are
    more calibration tasks than α needs). It covers each later task with probability 1 - α, and is
    never updated after its calibration. It can be combined with all other bounds: the calibration
    uses the data of each task and a given nearness, and no other bound. A task that widens a claim
    (`on_refutation="widen"`) is not covered; the calibration begins anew after it.

    A pair that a calibration task leaves at `v_max` makes the envelope useless, unless a task
    before the calibration left it at `v_max` too: then it is useless at this pair only.

    Examples:
        >>> import heirloom as hl
        >>> envelope = hl.Envelope(alpha=0.05)
        >>> envelope.calibration
        19
    """

    def __init__(self, **options: Unpack[EnvelopeOptions]) -> None:
        self.alpha, self.first = options["alpha"], options["first"]
        needed = max(1, math.ceil(1 / Fraction(self.alpha)) - 1)
        given = needed if options["calibration"] is None else options["calibration"]
        if given < needed:
            raise InvalidArgument(
                f"calibration is {given}: with alpha={self.alpha:g}, expected "
                f"{counted(needed, 'task')} or more; give more, or a larger alpha"
            )
        self.calibration = given
        self.rank = max(1, math.ceil((1 - Fraction(self.alpha)) * (self.calibration + 1)))
        """The score in use is the k-th smallest one."""
        self._near: Bound | None = None  # the bound of the same agent with a given nearness
        self._is_restarted = False  # whether the current task widened a claim of the agent

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """Set `U` to E + S after the calibration, before it to `v_max`; it is not refined."""
        check_arguments(setting, model, memory)
        self.setting, self.model = setting, model
        self.U = np.full(setting.n_pairs, setting.v_max)
        self._state = self._begun_state(memory)
        self._n_seen = memory.n_tasks
        if self._state is not None and self._state.scores.size >= self.calibration:
            np.minimum(self.U, self._envelope(self._state, self.rank), out=self.U)
        return False

    def join(self, bounds: Sequence[Bound], *, restarted: bool) -> None:
        """Take note of a given nearness, on which the calibration may rest."""
        given = (bound for bound in bounds if bound.claims().nearness is not None)
        self._near, self._is_restarted = next(given, None), restarted

    def end_task(self, source: Source, memory: TaskMemory) -> None:
        """Score the task that ended, if it is a calibration task that did not widen a claim."""
        check_begun(self)
        check_arguments(self.setting, self.model, memory)
        memory._check_fit(source)
        state = self._state
        if state is None or self._is_restarted or state.scores.size >= self.calibration:
            return
        score = float((self._own_Q() - state.E).max())
        memory.envelopes[self._name] = EnvelopeState(
            state.E,
            frozen(np.append(state.scores, score)),
            frozen(np.append(state.tasks, memory.n_tasks + 1)),
        )

    def details(self) -> Details:
        """Return how far the calibration is, and whether the envelope can help."""
        check_begun(self)
        return Details(notes=self._report())

    def options(self) -> dict[str, Any] | None:
        """Return `alpha`, `first` and `calibration`."""
        return {name: getattr(self, name) for name in options_of(Envelope)}

    @property
    def _name(self) -> str:
        """The name in the memory: calibrations with the same numbers of tasks are shared."""
        return f"first={self.first}, calibration={self.calibration}"

    def _begun_state(self, memory: TaskMemory) -> EnvelopeState | None:
        """Return E and the scores so far; fix E if enough tasks were seen; None before.

        The score of a task that was not stored, because of an interruption, is discarded.
        """
        state = memory.envelopes.get(self._name)
        if state is None and memory.max_Q is not None and memory.n_tasks >= self.first:
            # Where no task had the action, nothing is known.
            E = np.where(np.isneginf(memory.max_Q), self.setting.v_max, memory.max_Q)
            state = EnvelopeState(frozen(E), np.empty(0), np.empty(0, dtype=np.int64))
            memory.envelopes[self._name] = state
        if state is None:
            return None
        stored = state.tasks <= memory.n_tasks
        return EnvelopeState(state.E, state.scores[stored], state.tasks[stored])

    def _envelope(self, state: EnvelopeState, rank: int) -> FloatArray:
        """Return E plus the score of this rank, from 1, rounded up."""
        score = np.sort(state.scores)[rank - 1]
        lo, hi = self.setting.reward_range
        largest = max(abs(lo), abs(hi)) / (1 - self.setting.gamma)
        return state.E + (score + ROUNDING * largest)

    def _own_Q(self) -> FloatArray:
        """Return Q⁺ >= Q* of the current task, from its data and from a given nearness only."""
        setting = self.setting
        available = self.model.available.reshape(-1)
        values = program.initial_values(setting, np.where(available, setting.v_max, -np.inf))
        sets = None if self._near is None else self._near.model_sets()
        near = None if sets is None else combined([(1, sets)], setting, values, available)
        values = values if near is None else program.with_near(values, near)
        program.update(self.model._arrays, values, near, np.arange(setting.n_pairs))
        program.complete(self.model._arrays, values, near, setting.slack)
        return values.Q

    def _report(self) -> tuple[str, ...]:
        """Describe the calibration before the current task, in sentences for an explanation."""
        state = self._state
        if self._is_restarted:
            return (
                "this task widened the claim and is not scored. The envelope is calibrated anew, "
                f"on {counted(self.calibration, 'task')} after it.",
            )
        if state is None:
            return (
                f"when this task began, {self._n_seen} of the first {self.first} tasks had been "
                f"seen. The envelope is used after {self.calibration} further tasks, on which it "
                "is calibrated.",
            )
        n, n_pairs = state.scores.size, self.setting.n_pairs
        use = f"It is used, and valid with probability {self.coverage:.3g} for each later task."
        lines = [
            f"when this task began, {n} of {self.calibration} calibration tasks had been scored. "
            + (use if n >= self.calibration else "The envelope is not used in this task.")
        ]
        # At best, all scores that are still missing are smaller than those of today.
        rank = self.rank - (self.calibration - n)
        if rank < 1:
            return tuple(lines)
        score = float(np.sort(state.scores)[rank - 1])
        n_helped = int((self._envelope(state, rank) < self.setting.v_max).sum())
        help_ = f"it can lower bounds at up to {n_helped:,} of {n_pairs:,} pairs."
        if n_helped == 0:
            help_ = (
                "it cannot lower a bound: calibration tasks left pairs at v_max that tasks before "
                "had a bound for. Learn each task longer, or give a larger `first`."
            )
        lines.append(f"tasks exceed E, the largest Q of the first tasks, by {score:.4g}; {help_}")
        return tuple(lines)

    @property
    def coverage(self) -> float:
        """The probability with which each later task is covered: k / (m + 1)."""
        return self.rank / (self.calibration + 1)
