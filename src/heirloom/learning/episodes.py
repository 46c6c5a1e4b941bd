"""`run_episodes`: run episodes of a task that an agent has begun, compiled or step by step."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from heirloom.agents.optimistic import OptimisticAgent
from heirloom.agents.protocol import Agent
from heirloom.agents.tables import TableAgent
from heirloom.agents.task_learner import TaskLearner
from heirloom.arrays import BoolArray, FloatArray, IntArray, frozen
from heirloom.errors import IncompatibleTasks, UnsupportedEnvironment, WrongOrder
from heirloom.kernels import rollout
from heirloom.kernels.counting import NEVER
from heirloom.learning.outcomes import failed, observe_mask, read_reset, read_step, takes
from heirloom.learning.plan import Plan
from heirloom.learning.recorder import run_recorded_episode
from heirloom.learning.recording import Recording
from heirloom.mdp.available import MaskNotice
from heirloom.mdp.tabular import TabularMDP
from heirloom.validation import generator
from heirloom.wording import counted, size_of_task

if TYPE_CHECKING:
    import gymnasium as gym

    from heirloom.agents.certificate import Certificate

LOOKED_FOR_MASKS = 1000  # steps of a task in which masks that are not used are noticed
BLOCK = 8192  # uniform numbers per draw; a compiled call returns when they are used up


@dataclass(frozen=True, eq=False)
class Record:
    """The returns and model updates of a task; arrays of returns have one entry per episode."""

    returns: FloatArray
    """Sum of the rewards of each episode."""
    discounted_returns: FloatArray
    """Sum of the discounted rewards of each episode; NaN if no discount factor is known.

    An environment has none, so it is that of the agent, if the agent has the attribute `gamma`.
    """
    update_steps: IntArray
    """The time steps of the task, counted from 1, after which the model was updated."""
    n_steps: int
    """The number of time steps of the task."""
    recording: Recording | None = None
    """What was recorded, if `learn` was called with `record`."""
    certificate: "Certificate | None" = None
    """The last certificate, if `learn` was called with `until`."""
    is_certified: bool = False
    """Whether its gap was small enough, so that `learn` stopped."""

    def __post_init__(self) -> None:
        for array in (self.returns, self.discounted_returns, self.update_steps):
            frozen(array)

    def __repr__(self) -> str:
        mean = self.returns.mean() if self.returns.size else np.nan
        text = (
            f"{counted(self.returns.size, 'episode')}, {counted(self.n_steps, 'step')}, "
            f"{counted(self.update_steps.size, 'update')}, mean return {mean:.4g}"
        )
        if self.certificate is not None:
            done = "certified" if self.is_certified else "not certified, all episodes are used up"
            text += f", {done}: a gap of {self.certificate.relative_gap:.1%}"
        return f"Record({text})"


def run_episodes(agent: Agent, env: "TabularMDP | gym.Env[Any, Any]", plan: Plan) -> Record:
    """Run the episodes of a task that the agent has begun."""
    is_compiled = isinstance(env, TabularMDP) and getattr(agent, "compiled", None) is True
    if is_compiled and isinstance(agent, TableAgent):
        record = _learn_table(agent, cast("TabularMDP", env), plan)
    elif is_compiled and isinstance(env, TabularMDP):
        record = _learn_compiled(cast("OptimisticAgent", agent), env, plan)
    elif isinstance(env, TabularMDP):
        masks = env.transitions.available is not None
        record = _learn_step_by_step(agent, env.to_gymnasium(), replace(plan, masks=masks))
    else:
        record = _learn_step_by_step(agent, env, plan)
    if plan.recorder is None:
        return record
    return replace(record, recording=plan.recorder.result(record.update_steps))


def _learn_compiled(agent: OptimisticAgent, m: TabularMDP, plan: Plan) -> Record:
    rng, episodes = generator(plan.seed), plan.episodes
    learner, uniforms = agent.task, agent._uniforms
    _check_begun(m, learner.model.available, learner._values.V.size)
    compiled = _compiled_task(m)
    task, values = tuple(compiled), tuple(learner._values)
    near, check = _optional(learner._near), _check(learner)
    run = _new_run(agent, episodes, rng)
    stride, reported = episodes if plan.callback is None else plan.stride, 0
    limit = -1 if plan.max_steps is None else plan.max_steps
    recorder, looks = plan.recorder, plan.on_update is not None
    looks = looks or (recorder is not None and recorder.looks_at_updates) or learner.follows
    pause, planned, before = learner.refines or looks, -1, learner.n_steps
    while (episode := int(run.at[rollout.EPISODE])) < episodes:
        due = until = min(episodes, (episode // stride + 1) * stride)
        if learner.plans_episodes:
            until = episode + 1
        if recorder is not None:
            until = min(until, recorder.next_episode(episode))
            if until == episode and run.at[rollout.STATE] < 0:
                run = run_recorded_episode(agent, compiled, run, rng, plan)
                values, near = tuple(learner._values), _optional(learner._near)
                check, pause = _check(learner), learner.refines or looks
                reported = _report(plan, run, due, reported)
                continue
            until = max(until, episode + 1)
        if learner.plans_episodes and planned < episode:
            learner.begin_episode()
            planned = episode
        status, pair = rollout.rollout(
            task,
            tuple(learner.model._arrays),
            values,
            near,
            check,
            tuple(run),
            until,
            limit,
            agent.explore,
            pause,
            pause_looks=learner.follows_later,
            plan_at=NEVER if learner.next_plan is None else learner.next_plan - before,
        )
        uniforms.n_used = int(run.at[rollout.CHOICE])
        learner.greedy.clear()
        if status in (rollout.KNOWN, rollout.LOOKED, rollout.REFUTED, rollout.REFUTED_AGAIN):
            is_first = status in (rollout.KNOWN, rollout.REFUTED)
            if learner.next_plan is not None:  # if an error is raised, as after a single step
                learner.n_steps = before + int(run.at[rollout.STEPS]) - 1
            learner._looked(pair, is_first=is_first)
            if status in (rollout.REFUTED, rollout.REFUTED_AGAIN):
                agent.refutation.react(learner, pair)
            values, near = tuple(learner._values), _optional(learner._near)
            check, pause = _check(learner), learner.refines or looks
            if learner.next_plan is not None:
                learner.count_steps(before + int(run.at[rollout.STEPS]))
            if is_first and recorder is not None:
                recorder.after_update(int(run.at[rollout.STEPS]))
            if is_first and plan.on_update is not None:
                plan.on_update()
        elif status == rollout.NO_UNIFORMS:
            run.uniforms[:] = rng.random(BLOCK)
            run.at[rollout.UNIFORM] = 0
        elif status == rollout.NO_CHOICES:
            uniforms.refill()
            run = run._replace(choices=uniforms.block)
            run.at[rollout.CHOICE] = uniforms.n_used
        elif status == rollout.NO_ROOM:
            learner.model._grow()
        elif status == rollout.UNFINISHED:
            learner._finish_update()
        if learner.next_plan is not None:
            learner.count_steps(before + int(run.at[rollout.STEPS]))
        reported = _report(plan, run, due, reported)
    return _record(run)


def _learn_table(agent: TableAgent, m: TabularMDP, plan: Plan) -> Record:
    agent.resume_task()
    rng, recorder, compiled = generator(plan.seed), plan.recorder, _compiled_task(m)
    _check_begun(m, agent._table.Q > -np.inf, agent._limits[0])
    run = _new_run(agent, plan.episodes, rng)
    stride, reported = plan.episodes if plan.callback is None else plan.stride, 0
    limit = -1 if plan.max_steps is None else plan.max_steps
    while (episode := int(run.at[rollout.EPISODE])) < plan.episodes:
        due = until = min(plan.episodes, (episode // stride + 1) * stride)
        if recorder is not None:
            until = min(until, recorder.next_episode(episode))
        if until == episode and run.at[rollout.STATE] < 0:
            run = run_recorded_episode(agent, compiled, run, rng, plan)
        elif agent._run_until(compiled, run, max(until, episode + 1), limit) == rollout.NO_UNIFORMS:
            run.uniforms[:] = rng.random(BLOCK)
            run.at[rollout.UNIFORM] = 0
        reported = _report(plan, run, due, reported)
    return _record(run)


def _record(run: rollout.Run) -> Record:
    """Return the record of a compiled run."""
    updates = run.update_steps[: run.at[rollout.UPDATES]].copy()
    return Record(run.returns, run.discounted, updates, int(run.at[rollout.STEPS]))


def _check_begun(m: TabularMDP, available: BoolArray, n_states: int) -> None:
    """Raise unless a task fits the arrays with which the agent began it.

    Compiled code relies on this, whatever attributes of the agent were changed since it was made.
    """
    if (m.n_states, m.R.size) != (n_states, available.size):
        raise IncompatibleTasks(
            f"the task has {size_of_task(m.n_states, m.n_actions)}, which are not those of the "
            "task that the agent has begun: create an agent of this size"
        )
    if not np.array_equal(available.reshape(m.R.shape), m.available):
        raise WrongOrder(
            "the available actions of the task are not those with which the agent began it: call "
            "begin_task(available=m.available), or resume with the same task"
        )


def _report(plan: Plan, run: rollout.Run, due: int, reported: int) -> int:
    """Call the callback if `due` episodes are done; return after how many it was called last."""
    done = int(run.at[rollout.EPISODE])
    if plan.callback is None or done != due or done <= reported:
        return reported
    plan.callback(done, plan.episodes)
    return done


def _optional(arrays: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    """Return a named tuple as a plain one, and None as None."""
    return None if arrays is None else tuple(arrays)


def _check(learner: TaskLearner) -> tuple[Any, ...] | None:
    """Return what compiled code compares known pairs with, or None for nothing."""
    return None if learner.watch is None else _optional(learner.watch.check)


def _new_run(
    agent: OptimisticAgent | TableAgent, episodes: int, rng: np.random.Generator
) -> rollout.Run:
    """Create the state of a compiled run, with random numbers for the task and for the agent."""
    agent._uniforms.refill()
    starts = agent.task.starts if isinstance(agent, OptimisticAgent) else agent.starts
    run = rollout.Run(
        at=np.array([0, 0, -1, 0, 0, 0, 0]),
        discount=np.ones(1),
        uniforms=rng.random(BLOCK),
        choices=agent._uniforms.block,
        returns=np.zeros(episodes),
        discounted=np.zeros(episodes),
        update_steps=np.empty(agent.n_states * agent.n_actions, dtype=np.int64),
        starts=starts,
    )
    run.at[rollout.CHOICE] = agent._uniforms.n_used
    return run


def _learn_step_by_step(agent: Agent, env: "gym.Env[Any, Any]", plan: Plan) -> Record:
    from gymnasium.error import InvalidAction

    # The first is raised for what the environment returned; the others for an action, by it.
    failures = (
        UnsupportedEnvironment,
        *(AssertionError, ValueError, LookupError, RuntimeError, InvalidAction),
    )
    episodes, n_states, gamma = plan.episodes, plan.n_states, plan.gamma
    begin_episode = getattr(agent, "begin_episode", None)
    observe: Callable[..., bool | None] = agent.observe
    takes_truncated = takes(observe, "truncated")
    returns, discounted = np.zeros(episodes), np.zeros(episodes)
    update_steps: list[int] = []
    n_steps = 0
    for episode in range(episodes):
        try:
            s, info = read_reset(env.reset(seed=plan.seed if episode == 0 else None), n_states)
        except UnsupportedEnvironment as error:
            raise failed(error, f"reset of episode {episode + 1}") from error
        if not plan.masks:
            MaskNotice.look(env, info)
        total, discounted_total = 0.0, 0.0 * gamma  # NaN if gamma is
        discount, step, done = 1.0, 0, False
        recorder = plan.recorder
        chosen = recorder is not None and recorder.next_episode(episode) == episode
        if recorder is not None and chosen:
            recorder.begin_episode(episode, n_steps)
        if begin_episode is not None:
            begin_episode()
        if isinstance(agent, OptimisticAgent):
            agent.task.start_at(s)
        elif isinstance(agent, TableAgent):
            agent.start_at(s)
        while not done:
            if plan.masks:
                observe_mask(agent, env, s, info)
            a = agent.act(s)
            try:
                s_next, r, terminated, truncated, info = read_step(env.step(a), n_states)
            except failures as error:
                where = f"episode {episode + 1}, step {step + 1}, action {a} in state {s}"
                raise failed(error, where) from error
            if not plan.masks and n_steps < LOOKED_FOR_MASKS:
                MaskNotice.look(env, info)
            total += r
            discounted_total += discount * r
            discount *= gamma
            step += 1
            n_steps += 1
            truncated = truncated or step == plan.max_steps
            if takes_truncated:
                updated = observe(s, a, r, s_next, terminated=terminated, truncated=truncated)
            else:
                updated = observe(s, a, r, s_next, terminated=terminated)
            if recorder is not None and chosen:
                recorder.step(s, a, r, updated=bool(updated), n_steps=n_steps)
            if updated:
                update_steps.append(n_steps)
                if recorder is not None and not chosen:
                    recorder.after_update(n_steps)
                if plan.on_update is not None:
                    plan.on_update()
            s = s_next
            done = terminated or truncated
        if recorder is not None and chosen:
            recorder.end_episode(s, n_steps, terminated=terminated)
        returns[episode], discounted[episode] = total, discounted_total
        is_due = (episode + 1) % plan.stride == 0 or episode + 1 == episodes
        if plan.callback is not None and is_due:
            plan.callback(episode + 1, episodes)
    return Record(returns, discounted, np.array(update_steps, dtype=np.int64), n_steps)


def _compiled_task(m: TabularMDP) -> rollout.Task:
    """Return the arrays from which compiled code draws the steps of a task."""
    t = m.transitions
    start_states, sums = np.flatnonzero(m.start), np.empty(t.p.size)
    rollout.cumulative(t.indptr, t.p, sums)
    return rollout.Task(
        indptr=t.indptr,
        successors=t.successors,
        sums=sums,
        rewards=frozen(t.R[t.pairs]) if t.rewards is None else t.rewards,
        ends=frozen(np.zeros(t.p.size, dtype=bool)) if t.ends is None else t.ends,
        start_states=start_states,
        start_sums=np.cumsum(m.start[start_states]),
        entries=np.full(t.p.size, -1),
    )
