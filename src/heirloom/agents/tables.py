"""`TableAgent`: what all agents have in common that learn a table `Q` and no model."""

import os
from collections.abc import Mapping
from typing import Annotated, Any, Self, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from heirloom.agents.optimistic import Limits, SeedOption, TaskOptions, checked_step
from heirloom.agents.uniforms import Uniforms
from heirloom.arrays import BoolArray, FloatArray, IntArray, read_only
from heirloom.errors import InvalidArgument, WrongOrder
from heirloom.kernels import rollout, tables
from heirloom.mdp.available import action_text, read_available, read_mask
from heirloom.mdp.tabular import value_range
from heirloom.options import Option
from heirloom.storage import archive
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.setting import Setting
from heirloom.validation import Range, generator, index

RATE = "α, the weight of a new observation in an update of Q"
SCHEDULE = "(H+1) / (H+n) at the n-th visit of a pair, with H = 1 / (1-γ)"
ExplorationOption = Annotated[
    float, Option("ε, the probability of a random action.", 0.1, ge=0, le=1)
]


class Rates(TypedDict, total=False):
    """The options of Q-learning that do not depend on the task."""

    learning_rate: Annotated[
        float | None, Option(f'{RATE}; None, in a spec "none", for {SCHEDULE}.', 0.1, gt=0, le=1)
    ]
    exploration: ExplorationOption
    seed: SeedOption


class TableOptions(TaskOptions, total=False):
    """What all agents on tables are told about their tasks."""

    reward_range: Annotated[
        Range, Option("(lo, hi), an interval that contains every reward.", (0.0, 1.0), spec=None)
    ]


class OptimisticTableOptions(TableOptions, total=False):
    """The options of agents that learn as Q-learning does, from `v_max`."""

    learning_rate: Annotated[
        float | None, Option(f"{RATE}; by default {SCHEDULE}.", None, gt=0, le=1)
    ]
    exploration: ExplorationOption
    seed: SeedOption


class TableAgent:
    """An agent that acts on a table `Q`, and updates it after each step; see `kernels/tables.py`.

    A derived class says in `_begin` how a task begins, and in `_end` what it leaves behind in
    `kept`. Its docstring says what is guaranteed. `learn` runs it in compiled code on an exact
    task, unless a class overrides `act`, `observe` or `begin_episode`.
    """

    shown: tuple[str, ...] = ()
    """The options that `repr` shows."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = {name: value for name, value in options.items() if name != "seed"}
        """All options but the seed, by name; a saved agent contains them."""
        names = ("n_states", "n_actions", "gamma", "reward_range", "terminating", "v_max")
        setting = Setting(**{name: options[name] for name in names})
        self.setting = setting
        """What the agent knows before its first task, and assumes for all tasks."""
        self.n_states, self.n_actions, self.gamma = (getattr(setting, name) for name in names[:3])
        self.v_max, (lo, hi) = setting.v_max, setting.reward_range
        self.v_min = value_range((lo, hi), self.gamma, terminating=setting.terminating)[0]
        # Compiled code relies on the first two, whatever attributes are changed later.
        self._limits: Limits = self.n_states, self.n_actions, lo, hi, setting.terminating
        self.in_task = False
        self.starts: IntArray = np.zeros(self.n_states, dtype=np.int64)
        """How many episodes that `learn` ran began in each state, in the current task."""
        self.kept: dict[str, np.ndarray] = {}
        """What earlier tasks left behind, by name."""
        self._uniforms = Uniforms(generator(options["seed"]))
        self._table = self._new_table(np.full(setting.n_pairs, setting.v_max))

    def _begin(self, available: BoolArray) -> tuple[FloatArray, dict[str, Any]]:
        """Return `Q` at the beginning of a task, over pairs, and other fields of its table."""
        raise NotImplementedError

    def _end(self) -> None:
        """Keep what may help in later tasks."""

    def begin_task(self, *, available: ArrayLike | None = None) -> None:
        """Begin a new task.

        `available` marks the actions that exist in the task, booleans [s, a]. By default all
        actions are assumed to exist, until `observe_mask` says otherwise.
        """
        mask = read_available(available, self.n_states, self.n_actions)
        if self.in_task:
            raise WrongOrder(
                "begin_task() was called within a task: call end_task() first, or resume the task "
                "with learn(..., resume=True)"
            )
        exists = np.ones(self._table.Q.size, dtype=bool) if mask is None else mask
        Q, fields = self._begin(exists)
        self._table = self._new_table(np.where(exists, Q, -np.inf), **fields)
        self.starts = np.zeros(self._limits[0], dtype=np.int64)
        self._begun_with = exists
        self.in_task = True

    def _new_table(self, Q: FloatArray, **fields: Any) -> tables.Table:
        """Return a table; fields that are not given are not used."""
        real, whole = np.empty(0), np.empty(0, dtype=np.int64)
        table: dict[str, Any] = dict.fromkeys(("bonus", "log", "reuse", "decay", "heat"), 0.0)
        table |= dict.fromkeys(("sums", "shaping", "lower", "upper", "weights"), real)
        table |= dict.fromkeys(("last", "uses", "path", "best_path"), whole)
        table |= {"rule": tables.MEAN, "n_actions": self._limits[1], "gamma": self.gamma, "m": 1}
        table |= {"explore": self.options.get("exploration", 0.0), "unit": 1.0}
        table |= {"rate": self.options.get("learning_rate") or 0.0, "horizon": 1 / (1 - self.gamma)}
        table |= {"gains": real, "episode": real, "learns": np.empty(0, dtype=bool)}
        table |= {"visits": np.zeros(Q.size, dtype=np.int64), "clock": np.zeros(3, dtype=np.int64)}
        table |= {"Q": Q, "policies": np.empty((0, 0), dtype=np.int64)}
        return tables.Table(**{**table, **fields})

    def observe_mask(self, s: int, mask: ArrayLike) -> None:
        """Observe which actions are available in state `s`; the others are never chosen."""
        self._check_task("observe_mask")
        s = index("state", s, self._limits[0])
        self._observe_mask(s, read_mask(mask, self._limits[1], f"the mask of state {s}"))

    def _observe_mask(self, s: int, flags: BoolArray) -> None:
        """Take note of the actions that are available in a state."""
        if (np.isneginf(self.Q[s]) & flags).any():
            raise InvalidArgument(
                f"the mask of state {s} has an action that was not available before: the available "
                "actions must depend on the state only"
            )
        self._table.Q[s * flags.size : (s + 1) * flags.size][~flags] = -np.inf

    def begin_episode(self) -> None:
        """Begin an episode."""
        self._check_task("begin_episode")
        if self._table.episode.size:
            uniforms = self._uniforms
            uniforms.refill(tables.NUMBERS)
            used = tables.begin_episode(tuple(self._table), uniforms.block, uniforms.n_used)
            uniforms.n_used += used

    def act(self, s: int) -> int:
        """Return the action to take in state `s`; among greedy ones, each is equally likely."""
        self._check_task("act")
        s, uniforms = index("state", s, self._limits[0]), self._uniforms
        uniforms.refill(tables.NUMBERS)
        k, used = tables.act(tuple(self._table), s, uniforms.block, uniforms.n_used)
        uniforms.n_used += used
        return int(k) - s * self._limits[1]

    def observe(self, s: int, a: int, r: float, s_next: int, *, terminated: bool) -> bool:
        """Learn from a step; returns False because there is no model to update."""
        s, a, r, s_next, ended = checked_step(self._limits, s, a, r, s_next, terminated)
        self._check_task("observe")
        k = s * self._limits[1] + a
        if self._table.Q[k] == -np.inf:
            raise InvalidArgument(action_text(s, a, self.Q[s] > -np.inf))
        self._count(k, r, -1 - s_next if ended else s_next)
        tables.observe(tuple(self._table), k, r, s_next, ended)
        return False

    def _count(self, k: int, r: float, outcome: int) -> None:
        """Count a step, if the agent counts them; `outcome` is -1 - s' at the end of an episode."""

    @property
    def compiled(self) -> bool:
        """Whether `learn` can run the agent in compiled code, on an exact task."""
        kind, names = type(self), ("act", "observe", "begin_episode")
        return all(getattr(kind, name) is getattr(TableAgent, name) for name in names)

    def _run_until(self, task: rollout.Task, run: rollout.Run, episode: int, limit: int) -> int:
        """Run in compiled code until `episode` episodes are done; return the status of the run.

        `limit` is the number of steps after which an episode is truncated, or -1.
        """
        uniforms = self._uniforms
        uniforms.refill(tables.NUMBERS)
        run.at[rollout.CHOICE] = uniforms.n_used
        run = run._replace(choices=uniforms.block)
        arrays = tuple(task), tuple(self._table), self._model(), tuple(run)
        status = tables.rollout(*arrays, episode, limit)
        uniforms.n_used = int(run.at[rollout.CHOICE])
        return int(status)

    def _model(self) -> tuple[Any, ...] | None:
        """Return the arrays of the model that counts the steps of a compiled run, if any."""
        return None

    def resume_task(self) -> None:
        """Continue with the current task."""
        if not self.in_task:
            raise WrongOrder("there is no task to resume: call learn without resume=True")

    def end_task(self) -> None:
        """End the task; `Q` can be read until the next one begins."""
        self._check_task("end_task")
        self.begin_episode()  # which ends the last one
        self._end()
        self.in_task = False

    def drop_task(self) -> None:
        """End the task without keeping anything of it."""
        self.in_task = False

    @property
    def n_episodes(self) -> int:
        """The number of episodes that `learn` has begun in the current task; 0 between tasks."""
        return int(self.starts.sum()) if self.in_task else 0

    def start_at(self, s: int) -> None:
        """Take note that an episode that `learn` runs begins in state s."""
        self.starts[s] += 1

    def _check_task(self, method: str) -> None:
        if not self.in_task:
            raise WrongOrder(f"{method}() was called outside a task: call begin_task() first")

    @property
    def Q(self) -> FloatArray:
        """The learned values, [s, a]; -infinity where an action is not available."""
        return read_only(self._table.Q.reshape(self.n_states, self.n_actions))

    @property
    def greedy(self) -> BoolArray:
        """Whether each action has the largest `Q` of its state, [s, a]."""
        return self.Q == self.Q.max(axis=1, keepdims=True)

    @property
    def policy(self) -> IntArray:
        """The first greedy action of each state, [s]."""
        return self.Q.argmax(axis=1)

    def __repr__(self) -> str:
        names = ("n_states", "n_actions", "gamma")
        shown = {name: getattr(self, name) for name in names}
        shown |= {name: self.options[name] for name in self.shown}
        return f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in shown.items())})"

    def _counted(self) -> dict[str, np.ndarray]:
        """Return what a file has of the steps of the current task, besides the table."""
        return {}

    def _count_again(self, arrays: dict[str, np.ndarray]) -> None:
        """Restore what `_counted` returned, in a task that has just begun, after checking it."""

    def saved_options(self) -> dict[str, Any]:
        """Return the options that a file contains, of which `from_options` makes the agent."""
        return self.options

    @classmethod
    def from_options(cls, options: dict[str, Any], memory: TaskMemory | None) -> Self:
        """Create an agent with the options of a file, and with its memory if there is one."""
        return cls(**options)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load an agent, which continues exactly as if it had not been saved and loaded."""
        from heirloom.agents.table_file import unpacked

        return unpacked(cls, archive.read(path, "table"), str(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the agent to a file, without code, also within a task or an episode."""
        from heirloom.agents.table_file import packed

        archive.write(path, "table", packed(self))
