"""Upper bounds on `Q*` of the current task, each refined as the task is learned.

The pointwise minimum of bounds is a bound, so an agent takes a list of them. `Bound` is the whole
interface that the learner, the explanation, the memory and the saved agent use. A bound gives a
number for each pair (`U`), or sets of models (`model_sets`), from which the learner computes the
numbers together with `Q`; then it is called evidence.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from heirloom.arrays import BoolArray, FloatArray, IntArray, frozen
from heirloom.choices import Plans, Scope
from heirloom.errors import IncompatibleTasks, InvalidArgument, WrongOrder
from heirloom.kernels.solving import Near
from heirloom.mdp.learned import LearnedModel
from heirloom.options import Option, declared, options_of
from heirloom.theory import tasks_for_max_q
from heirloom.transfer.different_tasks import check_p_min
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.model_sets import ModelSets
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source
from heirloom.validation import index, instance, numbers, shown, weights
from heirloom.wording import counted_of, size_of_task

if TYPE_CHECKING:
    from heirloom.transfer.nearness.knowledge import Nearness

NO_PAIRS = frozen(np.empty(0, dtype=np.int64))


class Change(NamedTuple):
    """A pair became known. The arrays are those before the update and must not be written to."""

    pair: int
    """The pair, k = s * A + a."""
    U: FloatArray
    """The agent's bound, which is the minimum of all its bounds, over pairs."""
    V: FloatArray
    """The agent's values, over states."""
    decreased: IntArray
    """The states whose value decreased since the last change."""


class Dropped(NamedTuple):
    """A source that could no longer lower a bound, and the number of known pairs at that time."""

    task: int
    n_known: int


class Details(NamedTuple):
    """Information about a bound for an explanation."""

    sources: tuple[int, ...] = ()
    """What may determine the bound at some pair, as in `sources_used`, without 0."""
    prior_used: dict[int, BoolArray] = {}  # noqa: RUF012 -- never written to
    """For the number of each source in use: the pairs where the prior is the smaller distance."""
    dropped: tuple[Dropped, ...] = ()
    """The sources that were dropped in this task."""
    knowledge_used: dict[str, BoolArray] = {}  # noqa: RUF012 -- never written to
    """For each part of the nearness: the pairs where the bound depends on it."""
    notes: tuple[str, ...] = ()
    """What the bound has learned so far, when it is used and when it is valid.

    An explanation shows each note after the name of the bound and a colon."""


class Claims(NamedTuple):
    """What was given to a bound as knowledge of how tasks differ; None for nothing.

    What a bound learns is no claim: it holds with a stated probability.
    """

    nearness: "Nearness | None" = None
    d_max: FloatArray | None = None


class Bound(Protocol):
    """An upper bound on Q* of the current task.

    A bound has state, so each agent needs its own. To define a bound, derive a class from this one
    with a `begin_task` that sets `U`. The other methods have defaults: the bound then fits every
    setting, is not refined, and names no sources.
    """

    U: FloatArray
    """The current bound, over pairs k = s * A + a."""
    plans: Plans | None = None
    """When `plan` is called.

    Before each "episode"; when the "visits" of a pair grew; or when the "steps" of the task grew by
    1 %.
    """

    def check(self, setting: Setting) -> None:
        """Raise `InvalidArgument` unless the bound fits the setting of an agent."""
        return

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """Set `U` for a new task; return whether it may be refined as the task is learned."""
        ...

    def refine(self, change: Change) -> IntArray:
        """Lower `U` after a change, and return the unknown pairs where it was lowered."""
        return NO_PAIRS

    def model_sets(self) -> ModelSets | None:
        """Return sets of models of the pairs of the task that began; None for none."""
        return None

    def solved_with(self, near: Near) -> None:
        """Take note of the arrays in which the learner keeps what follows from `model_sets`."""
        return

    def look(self, pair: int, V: FloatArray) -> IntArray:
        """Write to the slots of `model_sets` after a look at a pair; return all that changed.

        It is called if the sets have `follows`, whenever the model of a pair was estimated. `V` are
        the agent's values over states at that time.
        """
        return NO_PAIRS

    def contradiction(self, pair: int) -> str | None:
        """Return how the model of a pair contradicts the knowledge, in words; None if it does not.

        It is called after `look`. The words follow "the knowledge is refuted: ".
        """
        return None

    def widen(self, pair: int) -> None:
        """Widen the knowledge so that the model of a pair no longer contradicts it.

        The agent calls it after a contradiction with `on_refutation="widen"`, and then begins the
        task again with its model.
        """
        return

    def claims(self) -> Claims:
        """Return the claims of the bound, which the agent compares with what it learns."""
        return Claims()

    def widen_claims(
        self,
        nearness: "Callable[[Nearness], Nearness]",
        d_max: Callable[[FloatArray], FloatArray],
    ) -> None:
        """Replace claims that were refuted by wider ones."""
        return

    def join(self, bounds: "Sequence[Bound]", *, restarted: bool) -> None:
        """Take note of all bounds of the agent, and whether the task widened a claim.

        The agent calls it after `begin_task` of all bounds.
        """
        return

    def exclude(self, pairs: IntArray) -> None:
        """Take note that the actions of `pairs` are not available in the current task.

        The agent calls it when it observes the mask of a state, and never chooses these actions. A
        bound may ignore it. Actions that are known to be missing at the beginning of a task are
        those that `model.available` of `begin_task` does not mark.
        """
        return

    def plan(self, Q: FloatArray, V: FloatArray, rng: np.random.Generator | None) -> None:
        """Write the values on which the agent acts, instead of the solver, if the bound `plans`.

        Q is -infinity at actions that are not available, and must stay so. Random numbers are from
        `rng`; if it is None, only these actions have changed since the last call.
        """
        return

    def end_task(self, source: Source, memory: TaskMemory) -> None:
        """Learn from the task that ended, given as `source`, which is not in the memory yet."""
        return

    def sources_used(self) -> IntArray:
        """Return what determines `U` at each pair: the number of a task in the memory, or 0.

        Negative numbers stand for several tasks together (`TaskMemory.source_name`).
        """
        check_begun(self)
        return np.zeros(self.U.size, dtype=np.int64)

    def details(self) -> Details:
        """Return information for an explanation, in addition to `sources_used`."""
        return Details()

    def options(self) -> dict[str, Any] | None:
        """Return the options to save with an agent; `type(self)(**options)` makes the same bound.

        Values are numbers, strings, None or arrays. None means that the bound cannot be saved.
        """
        return None


class Evidence(Bound):
    """A bound that gives sets of models only. To define one, derive a class from this one.

    Define `model_sets`, and if its slots change with the visits, `look`. `contradiction` and
    `widen` let the agent check it.
    """

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """Keep the arguments, and set `U` to `v_max`."""
        check_arguments(setting, model, memory)
        self.setting, self.model, self.memory = setting, model, memory
        self.U = np.full(setting.n_pairs, setting.v_max)
        return False

    def solved_with(self, near: Near) -> None:
        """Let `U` be what follows from the sets of all bounds."""
        self.U = near.U


PMin = Annotated[
    float,
    Option(
        "the smallest probability of a task. In a spec, by default 1 / distinct_tasks, or that of "
        "the family.",
        gt=0,
        le=1,
        spec=float | None,
    ),
]
"""The type of the option `p_min`."""


class Confidence(TypedDict, total=False):
    """The options of knowledge that is learned from the first tasks."""

    delta: Annotated[
        float,
        Option(
            "δ; what is learned from the first tasks is valid with probability 1 - δ.",
            0.05,
            gt=0,
            le=1,
        ),
    ]
    scope: Annotated[
        Scope,
        Option(
            'whether that is for each "task" on its own, or for all tasks of a "lifetime" '
            "together, which takes more tasks before the knowledge is used.",
            "task",
        ),
    ]


class Constant(Bound):
    """The constant bound `v_max`, the only bound of RMax."""

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """Set `U` to `v_max`; it is never refined."""
        check_arguments(setting, model, memory)
        self.U = np.full(setting.n_pairs, setting.v_max)
        return False

    def options(self) -> dict[str, Any] | None:
        """Return no options."""
        return {}


@declared
class MaxQ(Constant):
    """The largest Q of all tasks seen, once enough tasks have been seen (Abel et al., 2018).

    If each task is drawn independently with probability `p_min` or more, it is an upper bound with
    probability 1 - δ: for each task on its own, so that a fraction δ of all tasks may have an
    invalid bound, or for all tasks of a lifetime together if `scope` is "lifetime", which takes
    more tasks. If the memory holds more different tasks than `p_min` admits, `begin_task` raises
    `InvalidArgument`; tasks count as different only if sampling cannot explain the difference of
    their learned models (see `transfer/different_tasks.py`).
    """

    def __init__(self, *, p_min: PMin, **options: Unpack[Confidence]) -> None:
        self.p_min, self.delta, self.scope = p_min, options["delta"], options["scope"]
        self.n_tasks = tasks_for_max_q(self.p_min, self.delta, scope=self.scope)

    def begin_task(self, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
        """Set `U` for the task; it is not refined."""
        super().begin_task(setting, model, memory)
        check_p_min(self.p_min, memory, setting)
        if memory.max_Q is not None and memory.n_tasks >= self.n_tasks:
            # Where no task had the action, nothing is known.
            self.U = np.where(np.isneginf(memory.max_Q), self.U, np.minimum(self.U, memory.max_Q))
        self._n_seen = memory.n_tasks
        return False

    def details(self) -> Details:
        """Return a note on when the bound is used, or when it is valid."""
        check_begun(self)
        if self._n_seen < self.n_tasks:
            return Details(
                notes=(
                    f"when this task began, {counted_of(self._n_seen, self.n_tasks, 'task')} had "
                    f"been seen; the bound is used after {self.n_tasks:,}.",
                )
            )
        return Details(notes=(f"{validity(self.p_min, self.delta, self.scope)}.",))

    def options(self) -> dict[str, Any] | None:
        """Return `p_min`, `delta` and `scope`."""
        return {name: getattr(self, name) for name in options_of(MaxQ)}


def validity(p_min: float, delta: float, scope: Scope) -> str:
    """Return when a bound that rests on drawn tasks is valid, in words."""
    which = "each task" if scope == "task" else "all tasks together"
    return (
        f"valid with probability {1 - delta:g} for {which}, if tasks are drawn independently and "
        f"each has a probability of at least p_min = {p_min:g}"
    )


def check_arguments(setting: Setting, model: LearnedModel, memory: TaskMemory) -> None:
    """Raise unless the arguments of `begin_task` fit each other."""
    instance("setting", setting, Setting, "such as agent.setting")
    instance("model", model, LearnedModel, "such as agent.model")
    instance("memory", memory, TaskMemory, "such as agent.memory")
    for name, other in (("model", model), ("memory", memory)):
        sizes, expected = ((which.n_states, which.n_actions) for which in (other, setting))
        if sizes != expected:
            raise IncompatibleTasks(
                f"the {name} has {size_of_task(sizes[0], sizes[1])}, the setting {expected[0]} and "
                f"{expected[1]}: use those of one agent"
            )


def read_per_pair(name: str, value: ArrayLike, what: str) -> FloatArray:
    """Return a number, or an array over pairs, of finite numbers that are not negative."""
    what = f"one {what} for all pairs, or one per pair [s, a]"
    return weights(name, value, numbers(name, value).shape, what).copy()


def check_per_pair(name: str, array: FloatArray, setting: Setting) -> None:
    """Raise `InvalidArgument` unless an array is one number, or over the pairs of a setting."""
    instance("setting", setting, Setting, "such as agent.setting")
    shape = setting.n_states, setting.n_actions
    if array.shape not in ((), shape):
        raise InvalidArgument(
            f"{name} has shape {array.shape}: expected a number, or shape {shape}"
        )


def check_change(change: Change, setting: Setting, model: LearnedModel) -> None:
    """Raise `InvalidArgument` unless a change belongs to a task with this setting and model."""
    pair, U, V, decreased = change
    if not model._arrays.known[index("pair", pair, setting.n_pairs)]:
        raise InvalidArgument(f"pair {pair} is not known: expected a pair that became known")
    for name, array, size in (("U", U, setting.n_pairs), ("V", V, setting.n_states)):
        if array.dtype != np.float64 or array.shape != (size,):
            raise InvalidArgument(
                f"{name} is {shown(array)}: expected an array of float64 of shape ({size},)"
            )
    if decreased.dtype != np.int64 or not ((decreased >= 0) & (decreased < setting.n_states)).all():
        raise InvalidArgument(
            f"decreased is {shown(decreased)}: expected states from 0 to {setting.n_states - 1}"
        )


def check_begun(bound: Bound) -> None:
    """Raise `WrongOrder` unless a bound has begun a task."""
    if not hasattr(bound, "U"):
        raise WrongOrder(
            f"the bound {type(bound).__name__} has not begun a task: call begin_task() of its "
            "agent first"
        )
