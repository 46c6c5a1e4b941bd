"""`CertifiedSets`: exploration that serves a certificate, and episodes that are safe."""

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from heirloom.arrays import FloatArray, IntArray
from heirloom.choices import Plans
from heirloom.errors import InvalidArgument
from heirloom.mdp.learned import LearnedModel
from heirloom.options import Option, checked
from heirloom.transfer.bound import Bound, Claims, Details, check_arguments
from heirloom.transfer.certified import CertifiedValues, Place
from heirloom.transfer.declared import Declared
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.nearness.bound import REMEDY, arrays_of, rebuilt
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.transfer.setting import Setting
from heirloom.validation import instance, positive_probability

GROWTH = 1.01  # of the steps of a task between two plans
FIRST_CHECK = 256  # steps after which the nearness is compared with own visits, then doubled
ACCURACY = 0.03  # of plans, in the range of rewards

Floor = Annotated[
    float | None,
    Option(
        "the share of the guaranteed values that the expected values of all episodes so far keep; "
        "None to explore in every episode.",
        None,
        ge=0,
        le=1,
    ),
]
"""The type of the option `floor`."""


class CertifiedSets(Bound):
    """The largest values of the models in all confidence sets, on which the agent acts.

    The values are those of `heirloom.agents.certificate`: upper bounds on Q* with probability
    1 - δ, from own visits, and with a nearness from those of earlier tasks. They are computed anew
    after 1 % more steps.

    With `floor`, the agent explores in an episode n, acting greedily on these values, only if

        Σ_{i <= n} (l_i - v_min)  >=  floor Σ_{i <= n} (b_i - v_min),

    and otherwise plays the policy with the largest guaranteed value. b_i is the guaranteed value of
    the first state before episode i, and l_i that of the policy of the episode, which does not
    change within it. In an episode that is not exploratory l_i = b_i, so that the inequality is
    preserved. With probability 1 - δ all guaranteed values are true, and then

        Σ_{i <= n} (V^{π_i} - v_min)  >=  floor Σ_{i <= n} (b_i - v_min)    for all n.

    This is about expected discounted returns of episodes that go on until they terminate, and not
    about the returns of single or cut episodes. It says nothing as long as b = v_min.
    """

    def __init__(
        self,
        nearness: Nearness | None = None,
        *,
        delta: float = 0.05,
        floor: Floor = None,
        **options: Any,
    ) -> None:
        """Take a nearness, or the options of one, or neither."""
        if nearness is not None:
            instance("nearness", nearness, Nearness, REMEDY)
        self.nearness = rebuilt(options) if options else nearness
        """By how much tasks can differ; None if that is not known, or was refuted."""
        self.delta = positive_probability("delta", delta)
        self.floor = checked("floor", Floor, floor)
        self.plans: Plans = "steps" if floor is None else "episode"
        self.declared = Declared()
        """What is known of all tasks; the agent sets it."""
        self.guaranteed = self.promised = 0.0
        """Σ (b - v_min) and Σ (l - v_min) of the episodes of this task."""

    def check(self, setting: Setting) -> None:
        """Raise `InvalidArgument` unless tasks of this setting can have the nearness."""
        if self.nearness is not None:
            self.nearness._check_shape(setting.n_states, setting.n_actions)
            self.nearness._check_possible(setting)

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """Begin with what is known before the first step."""
        check_arguments(setting, model, memory)
        self.setting, self.model = setting, model
        place = Place(memory.n_tasks + 1, memory.n_dropped)
        self._arguments = setting, model, memory, place, self.declared
        self.values = CertifiedValues(*self._arguments, self.nearness, self.delta)
        """The bounds of the task."""
        self.U = np.full(setting.n_pairs, setting.v_max)
        self.starts: IntArray = np.zeros(setting.n_states, dtype=np.int64)
        """How many episodes began in each state; the agent counts them."""
        self.guaranteed = self.promised = 0.0
        self._planned_at, self._check_at = -1, FIRST_CHECK
        self._found: str | None = None
        return False

    def plan(self, Q: FloatArray, V: FloatArray, rng: np.random.Generator | None) -> None:
        """Write the values on which the agent acts: upper ones, or with `floor` guaranteed ones."""
        is_first, n_steps = self._planned_at < 0, int(self.model._arrays.counts.sum())
        if self.floor is not None and rng is None:
            return  # the policy of an episode stays as it is
        self._count()
        if self.floor is None or n_steps >= max(self._planned_at + 1, GROWTH * self._planned_at):
            self.values.upper(accuracy=ACCURACY, search=is_first)
            self._planned_at = n_steps
            if self.floor is not None:
                self.values.lower(accuracy=ACCURACY)
        V[:], Q[:] = self.values._upper.V, self.values._upper.Q
        if self.floor is not None:
            self._choose(Q, V, self.floor, is_episode=not is_first)

    def _count(self) -> None:
        """Take note of all visits; give up a nearness that they contradict."""
        try:
            self.values.count()
        except InvalidArgument as error:
            if self.nearness is None:
                raise
            self._found = str(error)
            self.give_up_nearness()
            self.values.count()
        n_steps = int(self.model._arrays.counts.sum())
        if self.nearness is not None and n_steps >= self._check_at:
            self._check_at = 2 * max(n_steps, FIRST_CHECK)
            self.values.upper(accuracy=ACCURACY, search=False)
            self.values.lower(accuracy=ACCURACY, search=False)
            if self.values.crossing() is not None:
                self._found = "a lower bound on a value is above an upper one"
                self.give_up_nearness()
                self.values.count()

    def give_up_nearness(self) -> None:
        """Go on in this task, and in later ones, with what own visits say."""
        self.nearness = None
        self.values = CertifiedValues(*self._arguments, None, self.delta)

    def contradiction(self, pair: int) -> str | None:
        """Return what has refuted the nearness, once."""
        found, self._found = self._found, None
        return found

    def _choose(self, Q: FloatArray, V: FloatArray, floor: float, *, is_episode: bool) -> None:
        """Choose the policy of the next episode, and write values on which it alone is greedy.

        Before the first episode begins, the choice is safe and counts for nothing.
        """
        values, lower, v_min = self.values, self.values._lower, self.values.v_min
        explores = self._first_best(Q)
        safe = np.where(lower.exists, lower.Q, -np.inf)
        has_sure = np.isfinite(safe.reshape(V.size, -1)).any(axis=1)
        b, least = values.of_start(lower.V, self.starts, -1.0) - v_min, 0.0
        if is_episode:
            self.guaranteed += b
            if self.promised < floor * self.guaranteed:
                policy = explores % self.setting.n_actions
                least = values.of_start(values.lower_of(policy), self.starts, -1.0) - v_min
        if is_episode and self.promised + least >= floor * self.guaranteed:
            self.promised += least
            chosen = explores
        else:
            self.promised += b if is_episode else 0.0
            chosen = np.where(has_sure, self._first_best(safe), explores)
            Q[np.isfinite(Q)] = v_min
            Q[lower.exists], V[:] = lower.Q[lower.exists], lower.V
        others = np.isfinite(Q)
        others[chosen] = False
        Q[others] -= 4 * self.setting.tie  # so that no other action counts as equally good

    def _first_best(self, Q: FloatArray) -> IntArray:
        """Return the first pair of each state with the largest value."""
        n_states, n_actions = self.setting.n_states, self.setting.n_actions
        return np.arange(n_states) * n_actions + Q.reshape(n_states, -1).argmax(axis=1)

    def exclude(self, pairs: IntArray) -> None:
        """Do nothing: the values read which actions exist."""

    def claims(self) -> Claims:
        """Return the nearness."""
        return Claims(nearness=self.nearness)

    def widen_claims(
        self, nearness: Callable[[Nearness], Nearness], d_max: Callable[[FloatArray], FloatArray]
    ) -> None:
        """Give up the nearness: one that is chosen after the data proves nothing."""
        self.nearness = None

    def details(self) -> Details:
        """Return when the values are valid."""
        return Details(notes=(f"valid with probability {1 - self.delta:g} in all tasks together.",))

    def options(self) -> dict[str, Any]:
        """Return the nearness, `delta` and `floor`."""
        given = {} if self.nearness is None else arrays_of(self.nearness)
        return {**given, "delta": self.delta, "floor": self.floor}
