"""`Recorder`: records chosen episodes of a task while an agent learns it."""

from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.agents.certificate import certificate_text
from heirloom.agents.optimistic import OptimisticAgent
from heirloom.agents.own_bounds import sources_used
from heirloom.agents.protocol import Agent, memory_of
from heirloom.agents.tables import TableAgent
from heirloom.agents.task_learner import TaskLearner
from heirloom.arrays import IntArray, frozen
from heirloom.kernels import rollout
from heirloom.kernels.rollout import CHOICE, EPISODE, STATE, STEP, STEPS, UNIFORM, UPDATES
from heirloom.learning.recording import (
    LAYERS,
    MOST_STEPS,
    Changes,
    RecordChoice,
    Recording,
    as_array,
)
from heirloom.mdp.scene import scene_of
from heirloom.mdp.tabular import TabularMDP
from heirloom.naming import Names
from heirloom.transfer.memory import SEVERAL
from heirloom.transfer.setting import Setting

if TYPE_CHECKING:
    import gymnasium as gym

    from heirloom.learning.plan import Plan

TASKS = 2**32  # more than the tasks that an agent numbers
LOWEST = min(SEVERAL)  # the smallest number of a source


class Recorder:
    """Collects the frames of chosen episodes, and snapshots of what the agent knows.

    It only reads the agent, and has no effect on what the agent does.
    """

    def __init__(
        self,
        choice: RecordChoice,
        agent: Agent,
        env: "TabularMDP | gym.Env[Any, Any]",
        sizes: tuple[int, int],
        episodes: int,
        *,
        label: str = "",
    ) -> None:
        self._label = label
        self._agent, self._env, self._n_episodes = agent, env, episodes
        self._sizes = sizes
        self._chosen = choice.episodes(episodes)
        self._every_update = choice.updates
        self._n_updates = 0
        self._layers = {name: _Layer(sizes[0] * sizes[1], LAYERS[name]) for name in self._read()}
        self._snapshot_steps: list[int] = []
        self._episodes: list[int] = []
        self._terminated: list[bool] = []
        self._first_steps: list[int] = []
        self._starts = [0]
        self._frames: list[tuple[int, int, float, int]] = []

    @property
    def looks_at_updates(self) -> bool:
        """Whether `after_update` must be called after all updates of the task."""
        return self._every_update is not None

    def next_episode(self, episode: int) -> int:
        """Return the first chosen episode from `episode` on; if none, the number of episodes."""
        position = int(np.searchsorted(self._chosen, episode))
        return int(self._chosen[position]) if position < self._chosen.size else self._n_episodes

    def begin_episode(self, episode: int, step: int) -> None:
        """Begin to record an episode, given by its index, before the time step `step`."""
        self._episodes.append(episode + 1)
        self._first_steps.append(step)
        self.snapshot(step)

    def step(self, s: int, a: int, r: float, *, updated: bool, n_steps: int) -> None:
        """Record a step, and a snapshot if the agent estimated the pair after it."""
        if len(self._frames) - self._starts[-1] < MOST_STEPS:
            self._frames.append((s, a, r, len(self._snapshot_steps) - 1))
        self._n_updates += updated
        if updated or self._was_looked_at(s, a):
            self.snapshot(n_steps)

    def _was_looked_at(self, s: int, a: int) -> bool:
        """Return whether an optimistic agent estimated the pair after its last visit."""
        task = getattr(self._agent, "task", None)
        return isinstance(task, TaskLearner) and task.model.was_looked_at(s, a)

    def end_episode(self, s: int, step: int, *, terminated: bool) -> None:
        """Record the last state of the episode."""
        self.snapshot(step)
        self._frames.append((s, -1, 0.0, len(self._snapshot_steps) - 1))
        self._starts.append(len(self._frames))
        self._terminated.append(terminated)

    def after_update(self, step: int) -> None:
        """Take a snapshot after every k-th update outside of recorded episodes."""
        self._n_updates += 1
        if self._every_update is not None and self._n_updates % self._every_update == 0:
            self.snapshot(step)

    def snapshot(self, step: int) -> None:
        """Take a snapshot of what the agent knows, unless nothing changed since the last one."""
        read, layers = self._read(), self._layers
        arrays = {name: layer.converted(read[name]) for name, layer in layers.items()}
        if self._snapshot_steps and not any(layers[n].differs(a) for n, a in arrays.items()):
            return
        self._snapshot_steps.append(step)
        for name, array in arrays.items():
            layers[name].add(array)

    def result(self, update_steps: IntArray) -> Recording:
        """Return what was recorded."""
        agent, task = self._agent, exact_task_of(self._env)
        memory, setting = memory_of(agent), getattr(agent, "setting", None)
        names = names_of(self._env)
        columns = zip(*self._frames, strict=True) if self._frames else ((),) * 4
        states, actions, rewards, snapshots = columns
        layers = {name: layer.changes() for name, layer in self._layers.items()}
        deciders: tuple[str, ...] = ()
        if "decided" in layers:
            deciders, layers["decided"] = self._named(layers["decided"])
        return Recording(
            agent=type(agent).__name__,
            repetition=1,
            task=1 if memory is None else memory.n_tasks + 1,
            n_states=self._sizes[0],
            n_actions=self._sizes[1],
            n_episodes=self._n_episodes,
            v_max=setting.v_max if isinstance(setting, Setting) else None,
            state_names=names.states,
            action_names=names.actions,
            scene=scene_of(self._env) if task is None else task.scene,
            deciders=deciders,
            episodes=as_array(self._episodes, "i8"),
            terminated=as_array(self._terminated, "bool"),
            first_steps=as_array(self._first_steps, "i8"),
            starts=as_array(self._starts, "i8"),
            states=as_array(states, "i4"),
            actions=as_array(actions, "i2"),
            rewards=as_array(rewards, "f8"),
            snapshots=as_array(snapshots, "i4"),
            snapshot_steps=as_array(self._snapshot_steps, "i8"),
            update_steps=update_steps,
            layers=layers,
            label=self._label,
            certificate=certificate_text(agent),
        )

    def _read(self) -> dict[str, np.ndarray]:
        """Return the arrays over pairs that the agent has."""
        agent = self._agent
        task = getattr(agent, "task", None)
        if isinstance(task, TaskLearner):
            arrays = {"Q": task.Q, "U": task.U, "known": task.model.known.reshape(-1)}
            return {**arrays, "decided": self._decided(task)}
        Q: Any = getattr(agent, "Q", None)
        has_values = isinstance(Q, np.ndarray) and Q.shape == self._sizes and Q.dtype.kind == "f"
        return {"Q": Q.reshape(-1)} if has_values else {}

    def _decided(self, task: TaskLearner) -> IntArray:
        """Return what decides `U` at each pair: the bound i and a source, or 0 for `v_max`.

        The number is i * TASKS + source, and sources are counted from `LOWEST`.
        """
        decider = task.decider
        decided = decider * TASKS
        for i, bound in enumerate(task.bounds):
            chosen = decider == i + 1
            if chosen.any():
                decided[chosen] += sources_used(bound, decider.size)[chosen] - LOWEST
        return decided

    def _named(self, changes: Changes) -> tuple[tuple[str, ...], Changes]:
        """Return the names of deciders, and the changes with indices into these names."""
        codes, index = np.unique(np.append(0, changes.values), return_inverse=True)
        names = []
        kinds = [type(bound).__name__ for bound in getattr(self._agent, "bounds", [])]
        memory: Any = getattr(self._agent, "memory", None)
        for code in codes.tolist():
            i, shifted = divmod(code, TASKS)
            name = "v_max" if i == 0 else kinds[i - 1]
            name += f" {i}" if kinds.count(name) > 1 else ""
            source = shifted + LOWEST if i else 0
            names.append(f"{name}, {memory.source_name(source)}" if source else name)
        values = frozen(index[1:].astype(LAYERS["decided"]))
        return tuple(names), changes._replace(values=values)


class _Layer:
    """The history of an array over pairs."""

    def __init__(self, n_pairs: int, dtype: str) -> None:
        self._dtype = np.dtype("i8" if dtype == "i2" else dtype)
        self._last = np.zeros(n_pairs, dtype=self._dtype)
        self._ends: list[int] = []
        self._pairs: list[np.ndarray] = []
        self._values: list[np.ndarray] = []

    def converted(self, array: np.ndarray) -> np.ndarray:
        """Return the array in the type of the layer; numbers too large for it become infinite."""
        with np.errstate(over="ignore"):
            return array.astype(self._dtype)

    def differs(self, array: np.ndarray) -> bool:
        return not np.array_equal(array, self._last)

    def add(self, array: np.ndarray) -> None:
        pairs = np.flatnonzero(array != self._last)
        self._ends.append((self._ends[-1] if self._ends else 0) + pairs.size)
        self._pairs.append(pairs.astype("i4"))
        self._values.append(array[pairs])
        self._last = array

    def changes(self) -> Changes:
        pairs = np.concatenate([np.empty(0, "i4"), *self._pairs])
        values = np.concatenate([np.empty(0, self._dtype), *self._values])
        return Changes(as_array(self._ends, "i8"), frozen(pairs), frozen(values))


def names_of(env: "TabularMDP | gym.Env[Any, Any]") -> Names:
    """Return the names of the states and actions of what is learned."""
    if isinstance(env, TabularMDP):
        return Names(env.state_names, env.action_names)
    from heirloom.mdp.gymnasium import read_names

    return read_names(env)


def exact_task_of(env: Any) -> TabularMDP | None:
    """Return the exact task that is learned, if it is known."""
    task = env if isinstance(env, TabularMDP) else getattr(env.unwrapped, "task", None)
    return task if isinstance(task, TabularMDP) else None


def run_recorded_episode(
    agent: OptimisticAgent | TableAgent,
    task: rollout.Task,
    run: rollout.Run,
    rng: np.random.Generator,
    plan: "Plan",
) -> rollout.Run:
    """Run the next episode of a compiled run and record it; return the state of the run after it.

    It uses the same random numbers in the same order as compiled code, and calls the agent step by
    step, which gives bitwise identical results. Compiled code stays as fast as without recording.
    """
    at, recorder, n_actions = run.at, plan.recorder, agent.n_actions
    assert recorder is not None
    episode, steps = int(at[EPISODE]), int(at[STEPS])
    discount, step, ended = 1.0, 0, False
    recorder.begin_episode(episode, steps)
    if hasattr(agent, "begin_episode"):
        agent.begin_episode()
    s = int(task.start_states[rollout.first_above(task.start_sums, _uniform(run, rng))])
    (agent.task if isinstance(agent, OptimisticAgent) else agent).start_at(s)
    while not ended and step != plan.max_steps:
        a = agent.act(s)
        j = _drawn(task, s * n_actions + a, _uniform(run, rng))
        reward, s_next, ended = float(task.rewards[j]), int(task.successors[j]), bool(task.ends[j])
        run.returns[episode] += reward
        run.discounted[episode] += discount * reward
        discount *= agent.gamma
        step, steps = step + 1, steps + 1
        updated = agent.observe(s, a, reward, s_next, terminated=ended)
        recorder.step(s, a, reward, updated=updated, n_steps=steps)
        if updated:
            run.update_steps[at[UPDATES]] = steps
            at[UPDATES] += 1
            if plan.on_update is not None:
                plan.on_update()
        s = s_next
    recorder.end_episode(s, steps, terminated=ended)
    run.discount[0] = discount
    at[EPISODE], at[STEP], at[STATE], at[STEPS] = episode + 1, step, -1, steps
    agent._uniforms.refill()
    at[CHOICE] = agent._uniforms.n_used
    return run._replace(choices=agent._uniforms.block)


def _uniform(run: rollout.Run, rng: np.random.Generator) -> float:
    """Return the next random number of the task."""
    if run.at[UNIFORM] == run.uniforms.size:
        run.uniforms[:] = rng.random(run.uniforms.size)
        run.at[UNIFORM] = 0
    run.at[UNIFORM] += 1
    return float(run.uniforms[run.at[UNIFORM] - 1])


def _drawn(task: rollout.Task, pair: int, u: float) -> int:
    """Return the index of the transition that the uniform number `u` selects."""
    j, last = int(task.indptr[pair]), int(task.indptr[pair + 1]) - 1
    while j < last and u >= task.sums[j]:
        j += 1
    return j
