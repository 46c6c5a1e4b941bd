"""`OptimisticAgent`: greedy on an upper bound on `Q*`, which it refines as it learns a task."""

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import date
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Required, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from heirloom.agents.own_bounds import checked_bounds, is_user_defined
from heirloom.agents.refutation import Refutation
from heirloom.agents.task_learner import TaskLearner
from heirloom.agents.task_log import CERTIFICATE, DROPPED, ENDED, RESUMED, Begun
from heirloom.agents.uniforms import Uniforms
from heirloom.arrays import BoolArray, FloatArray, IntArray
from heirloom.choices import OnRefutation
from heirloom.errors import InvalidArgument, WrongOrder
from heirloom.kernels import rollout
from heirloom.mdp.available import action_text, read_available, read_mask
from heirloom.mdp.learned import MOST_LOGGED, LearnedModel
from heirloom.mdp.tabular import EQUAL
from heirloom.naming import checked_label
from heirloom.options import Option, declared, options_of
from heirloom.storage import archive
from heirloom.transfer.bound import Bound
from heirloom.transfer.certified_sets import CertifiedSets
from heirloom.transfer.declared import Declared, DeclaredOptions
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.setting import Setting
from heirloom.validation import (
    Range,
    generator,
    index,
    instance,
    reward,
    truth,
)

if TYPE_CHECKING:
    from heirloom.agents.certificate import Certificate
    from heirloom.agents.explanation import Explanation
    from heirloom.transfer.declared import Rewards
    from heirloom.transfer.nearness.knowledge import Nearness

MUCH_WIDER = 1e6  # the reward range; ties are then 1 % of the range of the rewards that were seen


class KnownOptions(TypedDict, total=False):
    """When a pair is known."""

    n_known: Annotated[
        int, Option("the number of visits after which a pair is known; in the paper 10.", 2, ge=1)
    ]


class TaskOptions(TypedDict, total=False):
    """What all agents are told about their tasks, besides the range of rewards."""

    n_states: Required[Annotated[int, Option("the number of states, S.", spec=None)]]
    n_actions: Required[Annotated[int, Option("the number of actions, A.", spec=None)]]
    gamma: Required[Annotated[float, Option("the discount factor.", spec=None)]]
    terminating: Annotated[
        bool, Option("whether tasks may terminate; True is always valid.", default=True, spec=None)
    ]
    v_max: Annotated[
        float,
        Option(
            "an upper bound on every value; hi / (1-γ) unless a smaller one is given.",
            np.inf,
            spec=None,
        ),
    ]


SeedOption = Annotated[
    int | np.random.Generator | None,
    Option("the seed of the agent's generator, or the generator.", None, spec=None),
]


class CommonOptions(DeclaredOptions, TaskOptions, total=False):
    """The options of every optimistic agent; `heirloom.options` says what follows from them."""

    refresh: Annotated[
        float | None,
        Option(
            "the factor by which the visits of a known pair grow until its model is estimated "
            'again. None, in a spec "none", estimates it once, as the paper does.',
            1.5,
            gt=1,
        ),
    ]
    seed: SeedOption
    epsilon: Annotated[
        float,
        Option(
            "the assumed accuracy of the models of known pairs, in reward and in L1 norm; 0 if "
            "they are exact, or estimates about which nothing is assumed.",
            0.0,
            ge=0,
        ),
    ]
    reward_range: Annotated[
        Range,
        Option(
            "(lo, hi), an interval that contains every reward. Accuracies and ties are multiples "
            "of its width; `end_task` warns once if it is a million times as wide as the range of "
            "the mean rewards so far.",
            (0.0, 1.0),
            spec=None,
        ),
    ]
    tol: Annotated[
        float | None,
        Option(
            "how far `Q` may be above its fixed point; by default 1e-11 times the width of the "
            "reward range. With a larger value, results depend on where iterations stop.",
            None,
            gt=0,
        ),
    ]
    memory: Annotated[
        TaskMemory | None,
        Option("the tasks to transfer from, and to store to; by default empty.", None, spec=None),
    ]
    on_refutation: Annotated[
        OnRefutation,
        Option(
            "what to do when a pair that becomes known contradicts the nearness or the given "
            '`d_max` of a bound: "warn" once, "raise" `RefutedKnowledge`, "widen" the knowledge to '
            'what was observed and compute everything anew, or "ignore", which compares nothing.',
            "warn",
        ),
    ]
    exact: Annotated[
        bool,
        Option(
            "whether the models of known pairs are exact, up to `epsilon`: in deterministic tasks. "
            "Otherwise they are estimates: few visits cannot refute knowledge, and bounds of a "
            "nearness pool the visits of all earlier tasks.",
            default=False,
        ),
    ]
    refutation_delta: Annotated[
        float,
        Option(
            "the probability that true knowledge is refuted by estimated models, in all tasks of "
            "the agent together. Half of it is for differences at single pairs, and half for the "
            "evidence of all pairs and tasks together, which is computed at the end of tasks 2, 4, "
            "8, 16, ....",
            0.05,
            gt=0,
            le=1,
        ),
    ]
    explore: Annotated[
        float,
        Option(
            "the probability of an exploratory step: it takes the unknown action with the fewest "
            "visits, or a random action if all are known, instead of a greedy one. Then false "
            "knowledge can be refuted near the agent's path where it would not look.",
            0.0,
            ge=0,
            le=1,
        ),
    ]


class AgentOptions(KnownOptions, CommonOptions, total=False):
    """The options of agents that know a pair after a number of visits."""


@declared
class OptimisticAgent:
    """Acts greedily on `Q`, the smallest upper bound on `Q*` that its bounds and its model imply.

    At unknown pairs `Q = U`, the minimum of `v_max` and of all bounds; at known pairs
    `Q = min(U, R̂ + γ Σ T̂ V)`. Estimates and values follow the visits in both directions; within a
    task values are accurate to a thousandth of the reward range, and at its end to `tol`. With
    `refresh=None` each known pair is estimated once: `Q` and `U` never increase within a task,
    unless false knowledge is widened, and `U` no longer changes at a pair that is known.

    Actions whose values differ by at most `setting.tie`, normally 1e-8 times the width of the
    reward range, count as equal: the agent chooses among them uniformly, with its own random
    generator.
    """

    def __init__(
        self,
        *,
        bounds: Annotated[
            Sequence[Bound],
            Option("upper bounds to combine, none for RMax; a bound belongs to one agent."),
        ],
        **options: Unpack[AgentOptions],
    ) -> None:
        seed, memory = options.pop("seed"), options.pop("memory")
        told = {name: options.pop(name) for name in options_of(DeclaredOptions)}  # type: ignore[misc]
        names = [each.name for each in fields(Setting) if each.init]
        self.setting = Setting(**{name: options[name] for name in names})  # type: ignore[literal-required]
        self._options = {**options, **{name: getattr(self.setting, name) for name in names}}
        self.n_states, self.n_actions = self.setting.n_states, self.setting.n_actions
        self.gamma = self.setting.gamma
        self.declared = Declared.read(self.setting, **told)
        """What is known of all tasks before any data, for certificates."""
        self._limits = _limits(self.setting)
        self.bounds = checked_bounds(bounds)
        for bound in self.bounds:
            bound.check(self.setting)
            if isinstance(bound, CertifiedSets):
                bound.declared = self.declared
        if sum(bound.claims().nearness is not None for bound in self.bounds) > 1:
            raise InvalidArgument(
                "bounds contains several NearModels: combine them with &, as in "
                "hl.NearModels(nearness & other)"
            )
        self.refutation = Refutation(
            options["on_refutation"], exact=options["exact"], delta=options["refutation_delta"]
        )
        """How tasks are compared with the knowledge of the bounds."""
        self._explore = options["explore"]  # looked up at every step
        self._uniforms = Uniforms(generator(seed))
        """Random numbers for the choice among actions of equal value."""
        self.memory = TaskMemory(self.n_states, self.n_actions) if memory is None else memory
        instance("memory", self.memory, TaskMemory, "or None for a new one")
        self.memory.bind(self.setting)
        self.in_task = False
        self._task: TaskLearner | None = None
        self._begun: Begun | None = None
        self._last: Callable[[], None] | None = None
        """Repeats the last task of a file, whose values are computed when they are read."""
        self._rewards_seen: Range | None = (np.inf, -np.inf)
        """The range of mean rewards in all tasks; None after a warning that it is narrow."""

    @property
    def options(self) -> Mapping[str, Any]:
        """All options but `bounds`, `seed`, `memory` and what is `declared`, by name."""
        return MappingProxyType(self._options)

    @property
    def n_known(self) -> int:
        """The number of visits after which a pair is known."""
        return self.options["n_known"]

    @property
    def explore(self) -> float:
        """The probability of an exploratory step."""
        return self.options["explore"]

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        bounds: Sequence[Bound | type[Bound]] | None = None,
    ) -> Self:
        """Load an agent, which continues exactly as if it had not been saved and loaded.

        If it was saved within a task, continue with `learn(..., resume=True)`. Otherwise the values
        of the last task are computed again when they are first read. An update of values that was
        interrupted by Ctrl-C is complete after loading.

        A file contains no code. If the agent has a user-defined bound, give all its `bounds` in
        order: each as a class that defines `options`, or as an instance created as before.
        """
        from heirloom.agents.agent_file import unpacked

        return unpacked(cls, archive.read(path, "agent"), str(path), bounds)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the agent to a file, also within a task or an episode.

        The file has the options, the memory, the generator, and the steps of the current or last
        task, with which `load` learns it again. It is replaced as a whole.
        """
        from heirloom.agents.agent_file import packed

        archive.write(path, "agent", packed(self))

    def begin_task(self, *, available: ArrayLike | None = None) -> None:
        """Begin a task with an empty model; the bounds transfer from the tasks in the memory.

        `available` marks the actions that exist in the task, booleans [s, a]. By default all
        actions are assumed to exist, until `observe_mask` says otherwise.
        """
        mask = read_available(available, self.n_states, self.n_actions)
        if self.in_task:
            raise WrongOrder(
                "begin_task() was called within a task: call end_task() first, which stores the "
                "task, or drop_task(), which discards it; or resume the task with "
                "learn(..., resume=True)"
            )
        self.memory.bind(self.setting)  # another agent that shares the memory may have filled it
        rng, drawn = None, 0.0
        if any(getattr(bound, "plans", None) for bound in self.bounds):
            drawn = self._uniforms.next()
            rng = np.random.Generator(np.random.SFC64(int(drawn * 2**53)))
        options = [None if is_user_defined(bound) else bound.options() for bound in self.bounds]
        begun = Begun(self.memory._copy(), options, self.refutation.reactions, drawn, mask)
        self._task = TaskLearner(
            *(self.setting, self.n_known, self.options["refresh"], self.bounds, self.memory),
            *(self.refutation, mask, rng),
        )
        self._begun, self._last = begun, None
        self._limits = _limits(self.setting)
        self.in_task = True

    @property
    def compiled(self) -> bool:
        """Whether `learn` can run the agent in compiled code, on an exact task.

        It cannot, if a derived class overrides `act`, `observe` or `begin_episode`.
        """
        own = ("act", "observe", "begin_episode")
        return all(getattr(type(self), name) is getattr(OptimisticAgent, name) for name in own)

    def begin_episode(self) -> None:
        """Take note that an episode begins: agents that sample models may draw one."""
        if self._task is None or not self.in_task:
            raise WrongOrder("begin_episode() was called outside a task: call begin_task() first")
        self._task.begin_episode()

    def resume_task(self) -> None:
        """Complete what an interruption left undone in the current task, to continue with it."""
        if not self.in_task:
            raise WrongOrder("there is no task to resume: call learn without resume=True")
        self.task.log.add(RESUMED)
        self.task.resume()

    def name_task(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Add the label and the time of the current task, if they are given; return both."""
        self.task.texts = {**self.task.texts, **texts}
        return self.task.texts

    def observe_mask(self, s: int, mask: ArrayLike) -> None:
        """Observe which actions are available in state `s`: 1 for each that is, 0 for the others.

        The agent never chooses the others. Raises `InvalidArgument` if the mask differs from the
        one that was observed before, or excludes an action that was taken.
        """
        task = self._task
        if task is None or not self.in_task:
            raise WrongOrder("observe_mask() was called outside a task: call begin_task() first")
        s = index("state", s, self.n_states)
        flags = read_mask(mask, self.n_actions, f"the mask of state {s}")
        taken = task.model.own_counts[s] > 0
        if (taken & ~flags).any():
            a = int((taken & ~flags).argmax())
            raise InvalidArgument(
                f"{action_text(s, a, flags)}, but the agent took it before: the available actions "
                "must depend on the state only"
            )
        task.observe_mask(s, flags)

    def act(self, s: int) -> int:
        """Return a greedy action; a random one if several have equal values."""
        task = self._task
        if task is None or not self.in_task:
            raise WrongOrder("act() was called outside a task: call begin_task() first")
        if type(s) is not int:  # the cache would also find a float or a boolean that equals a state
            s = index("state", s, self.n_states)
        actions = task.greedy.get(s)
        if actions is None:
            actions = task.greedy_actions(s)
        if self._explore > 0.0:
            return self._explored(task, s, actions)
        if len(actions) == 1:
            return actions[0]
        return actions[int(self._uniforms.next() * len(actions))]

    def _explored(self, task: TaskLearner, s: int, greedy: list[int]) -> int:
        """Return an exploratory action with probability `explore`, else a greedy one."""
        u, explore = self._uniforms.next(), self._explore
        if u < explore:
            arrays, first = task.model._arrays, s * self.n_actions
            pairs = first, self.n_actions
            k = rollout.explored(arrays.known, arrays.counts, task._values.Q, *pairs, u / explore)
            return int(k) - first
        if len(greedy) == 1:
            return greedy[0]
        u = (u - explore) / (1.0 - explore)
        return greedy[int(u * len(greedy))]

    def observe(self, s: int, a: int, r: float, s_next: int, *, terminated: bool) -> bool:
        """Count a step; returns whether the pair (s, a) has become known with this visit."""
        n_states, n_actions, lo, hi, may_terminate = self._limits
        # `0 <= s < n_states` alone would accept floats and booleans.
        if type(s) is not int:
            s = index("state", s, n_states)
        if type(a) is not int:
            a = index("action", a, n_actions)
        if type(s_next) is not int:
            s_next = index("next state", s_next, n_states)
        if type(r) is not float:
            r = reward(s, a, r)
        if not (
            0 <= s < n_states
            and 0 <= a < n_actions
            and 0 <= s_next < n_states
            and lo <= r <= hi
            and (terminated is False or (terminated is True and may_terminate))
        ):
            s, a, r, s_next, terminated = checked_step(self._limits, s, a, r, s_next, terminated)
        task = self._task
        if task is None or not self.in_task:
            raise WrongOrder("observe() was called outside a task: call begin_task() first")
        k = s * n_actions + a
        if task.missing is not None and task.missing[k]:
            raise InvalidArgument(action_text(s, a, self.model.available[s]))
        is_first = False
        if task.model._count(k, r, -1 - s_next if terminated else s_next) is not None:
            is_first = task.look(k)
        if task.next_plan is not None:
            task.count_steps(task.n_steps + 1)
        return is_first

    def end_task(self, *, label: str | None = None, time: str | date | None = None) -> None:
        """End the task, and store it in the memory as a source.

        Args:
            label: what the task is called, for texts; None for no label.
            time: when it took place, such as "week 12" or a date; None for no time.
        """
        label, time = checked_label("label", label), checked_label("time", time)
        if not self.in_task:
            raise WrongOrder("end_task() was called outside a task: call begin_task() first")
        self.task.end(self.memory, label=label, time=time)
        self.task.log.add(ENDED)
        self.task.log.texts = label, time
        self.in_task = False
        self.refutation.end_task(self.task)
        self._warn_if_range_is_wide(self.task.model)

    def _warn_if_range_is_wide(self, model: LearnedModel) -> None:
        """Warn once if rewards differ by so little that most actions are equally good, up to ties.

        Equal rewards, such as zeros before the first success, say nothing about the range.
        """
        visited = model.own_counts.reshape(-1) > 0
        if self._rewards_seen is None or not visited.any():
            return
        means = model.mean_rewards[visited]
        low, high = self._rewards_seen
        low, high = min(low, float(means.min())), max(high, float(means.max()))
        self._rewards_seen = low, high
        (lo, hi), seen = self.setting.reward_range, high - low
        if not EQUAL * max(abs(low), abs(high)) < seen <= (hi - lo) / MUCH_WIDER:
            return
        self._rewards_seen = None
        warnings.warn(
            f"mean rewards so far are from {low:g} to {high:g}, and reward_range is ({lo:g}, "
            f"{hi:g}), {(hi - lo) / seen:.1g} times as wide: actions whose values differ by up to "
            f"{self.setting.tie:.1g} count as equally good; create the agent with a range that "
            "fits the rewards",
            stacklevel=3,
        )

    def drop_task(self) -> None:
        """End the task without storing it."""
        if self.in_task and self._task is not None:
            self.memory._drop(self._task.model)
            self._task.place = self._task.place._replace(is_over=True)
            self._task.is_dropped = True
            self._task.log.add(DROPPED)
        self.in_task = False

    @property
    def task(self) -> TaskLearner:
        """The model, bounds and values of the current task, or of the last one after its end."""
        if self._task is None and self._last is not None:
            self._last()
            self._last = None
        if self._task is None:
            raise WrongOrder(
                "the agent has not begun a task since it was created or loaded (tasks of more than "
                f"{MOST_LOGGED:,} steps are not in files): call begin_task() first"
            )
        return self._task

    @property
    def n_episodes(self) -> int:
        """The number of episodes that `learn` and `certify` have begun in the current task.

        It is 0 between tasks. `learn(..., episodes=n - agent.n_episodes, resume=agent.in_task)`
        completes a task of n episodes, also after the agent was loaded.
        """
        return self.task.n_episodes if self.in_task else 0

    @property
    def model(self) -> LearnedModel:
        """The learned model of the current task, or of the last one after its end."""
        return self.task.model

    @property
    def Q(self) -> FloatArray:
        """The upper bound on Q* on which the agent acts greedily, [s, a].

        It is -infinity where an action is not available. If γ is above 0.99, `Q` at unknown pairs
        that are not greedy may be further above its fixed point than `tol` while the task is
        learned; `end_task` lowers it. The array is then a copy.
        """
        return self._by_pair(self.task.Q)

    @property
    def U(self) -> FloatArray:
        """The minimum of `v_max` and of all bounds, [s, a]; equal to `Q` at unknown pairs."""
        return self._by_pair(self.task._values.U)

    @property
    def known(self) -> BoolArray:
        """The known set, [s, a]."""
        return self.model.known

    @property
    def greedy(self) -> BoolArray:
        """Whether the agent may choose each action, [s, a]: it has the largest `Q`, up to ties."""
        Q = self._by_pair(self.task._values.Q)  # on which the agent acts
        return Q >= Q.max(axis=1, keepdims=True) - self.setting.tie

    @property
    def policy(self) -> IntArray:
        """The first greedy action of each state, [s]."""
        return self.greedy.argmax(axis=1)

    @property
    def decider(self) -> IntArray:
        """Which bound is the minimum `U`, [s, a]: 0 for `v_max`, i for `bounds[i - 1]`."""
        return self._by_pair(self.task.decider)

    def explain(self) -> "Explanation":
        """Explain where the values `Q` come from, and what the agent will still explore."""
        from heirloom.agents.explanation import explain

        return explain(self)

    def certificate(
        self,
        *,
        start: int | ArrayLike | None = None,
        delta: float = 0.05,
        successors: Any = None,
        terminates: ArrayLike | None = None,
        rewards: "Rewards" = None,
        nearness: "Nearness | None" = None,
    ) -> "Certificate":
        """Return how good a policy is at least, and any policy at most, with probability 1 - δ.

        It follows from the visits in the current task, or between tasks in the last one, from
        rollouts by `heirloom.certify`, from what is declared, and from earlier tasks if a nearness
        is given. All this must be known before the data, and true: values on which the agent acts
        prove nothing. By default it is what the agent was created with, and the nearness of its
        bounds, unless that was learned or refuted. Certificates of all tasks of a life with the
        same δ and the same knowledge hold together. An outcome that was declared impossible raises
        `InvalidArgument`.

        Args:
            start: the first state, or a distribution over first states. By default they are those
                that `learn` has observed, up to chance.
            delta: δ, the probability that a bound fails, in all tasks together.
            successors: the successors that are possible: booleans [s, a, s'], or as
                `Nearness.successors`; by default all states. Declare them if you can: otherwise
                bounds stay wide.
            terminates: the pairs at which a transition can terminate, booleans [s, a].
            rewards: "per transition" if the reward is the same at every visit of a transition; or
                the mean rewards of this task, [s, a]; by default any rewards in the reward range.
            nearness: by how much tasks can differ.
        """
        from heirloom.agents.certificate import certify, request

        given = {"successors": successors, "terminates": terminates, "rewards": rewards}
        asked = request(self, delta=delta, start=start, nearness=nearness, **given)
        self.task.log.add_request(CERTIFICATE, asked)
        return certify(self, asked)

    def __repr__(self) -> str:
        names = ", ".join(type(bound).__name__ for bound in self.bounds) or "v_max"
        sizes = f"n_states={self.n_states}, n_actions={self.n_actions}, gamma={self.gamma}"
        rest = f"n_known={self.n_known}, bounds: {names}, tasks seen: {self.memory.n_tasks}"
        return f"{type(self).__name__}({sizes}, {rest})"

    def _by_pair(self, array: np.ndarray) -> np.ndarray:
        view = array.reshape(self.n_states, self.n_actions)
        view.flags.writeable = False
        return view


Limits = tuple[int, int, float, float, bool]
"""The numbers of states and actions, the range of rewards, and whether tasks may terminate."""


def checked_step(
    limits: Limits, s: int, a: int, r: float, s_next: int, terminated: object
) -> tuple[int, int, float, int, bool]:
    """Return a step in standard types; raise `InvalidArgument` unless it is valid."""
    n_states, n_actions, lo, hi, may_terminate = limits
    s, a = index("state", s, n_states), index("action", a, n_actions)
    s_next = index("next state", s_next, n_states)
    r, ends = reward(s, a, r), truth("terminated", terminated)
    if not lo <= r <= hi:
        raise InvalidArgument(
            f"the reward of state {s} and action {a} is {r}, outside the agent's reward_range "
            f"({lo:g}, {hi:g}): create the agent with a range that contains the rewards of all "
            "its tasks"
        )
    if ends and not may_terminate:
        raise InvalidArgument(
            f"the episode terminated at state {s} and action {a}, but the agent has "
            "terminating=False: create it with terminating=True"
        )
    return s, a, r, s_next, ends


def _limits(setting: Setting) -> Limits:
    """Return the numbers that each step is compared with."""
    lo, hi = setting.reward_range
    return setting.n_states, setting.n_actions, lo, hi, setting.terminating
