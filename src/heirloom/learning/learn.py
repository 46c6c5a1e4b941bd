"""`learn`: let an agent learn one task."""

import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from heirloom.agents.candidates import Candidate, range_of_returns
from heirloom.agents.optimistic import OptimisticAgent
from heirloom.agents.protocol import Agent
from heirloom.arrays import IntArray, joined
from heirloom.errors import (
    InvalidArgument,
    WrongOrder,
)
from heirloom.learning.episodes import Record, run_episodes
from heirloom.learning.outcomes import (
    begin,
    read_existing,
)
from heirloom.learning.plan import Callback, Plan, adopt_names, checked_texts
from heirloom.learning.recorder import Recorder
from heirloom.learning.recording import RecordChoice
from heirloom.learning.streams import stream
from heirloom.mdp.tabular import TabularMDP
from heirloom.progress import Show, bar, silent
from heirloom.storage.files import check_folder
from heirloom.validation import (
    positive_probability,
    real_number,
    shown,
    truth,
    whole_number,
)

if TYPE_CHECKING:
    import gymnasium as gym

    from heirloom.agents.certificate import Certificate

N_CHECKS = 20  # of a certificate for each doubling of the episodes, about
WIDEST = 0.5  # relative gap at which policies are rolled out to see how good they are
ROLLED = 5  # one episode in this many, and the fewest that say something of a policy
LOG_OF_ROLLOUTS = 7.0  # L of `_promising`, for the first policies of a life
PATIENCE = 5  # times as many rollouts as an optimal policy needs are made in any case
LOSS = 4  # an earlier policy is kept if it loses up to `until` divided by this


def learn(
    agent: Agent,
    env: "TabularMDP | gym.Env[Any, Any]",
    *,
    episodes: int,
    max_steps: int | None = None,
    seed: int | None = None,
    callback: Callback | None = None,
    every: int | None = None,
    resume: bool = False,
    masks: bool = False,
    available: ArrayLike | None = None,
    label: str | None = None,
    time: str | date | None = None,
    record: bool | Mapping[str, int] | RecordChoice | None = None,
    until: float | None = None,
    delta: float = 0.05,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Record:
    """Let `agent` learn one task: begin it, run a number of episodes, and end it.

    A `TabularMDP` runs in compiled code, an environment step by step. With the same seeds,
    `learn(agent, m)` and `learn(agent, m.to_gymnasium())` give bitwise identical results, with
    `masks=True` if `m` lacks actions. A terminal shows a progress bar, after two seconds.

    Args:
        agent: the agent, also one of your own: any object with the methods of `heirloom.Agent`.
        env: an exact task, or a Gymnasium environment with discrete observations and actions.
        episodes: the number of episodes; with `resume`, of those that are left, which may be 0.
        max_steps: the number of steps after which an episode is truncated. Truncation is not
            termination: the agent does not learn from it. None leaves truncation to the
            environment, which must then declare a time limit, by the wrapper `TimeLimit` or by
            `max_episode_steps` in its `spec`.
        seed: the seed of the task's randomness. Give each task of a life, and each call with
            `resume`, a seed of its own: the same one repeats the same random numbers, and
            certificates need independent ones.
        callback: called as `callback(done, episodes)`, `done` being the number of episodes done.
        every: the number of episodes between two calls of `callback`, and between two checkpoints;
            by default 1% of them.
        resume: continue the current task, which was interrupted, instead of beginning a new one.
        masks: whether the agent obeys the masks of available actions that an environment gives,
            in `info["action_mask"]` or by `env.unwrapped.action_masks()`. The missing actions of a
            `TabularMDP` are always respected.
        available: the actions that exist, booleans [s, a], if they are known before the task is
            learned; None for those of an exact task, or if an environment gives masks on the way.
        label: what the task is called, for texts about the agent's memory and for replays; None
            for no label.
        time: when the task took place, such as "week 12" or a date; None for no time.
        record: which episodes are recorded for `heirloom.replay`: a dictionary with some of the
            keys `first` and `last` (numbers of episodes; by default 3 and 1), `every` (records
            every k-th episode) and `updates` (takes a snapshot after every k-th update too), or
            True for the default. This does not change what is learned.
        until: stop once a policy is certified, and the relative gap of its certificate is at most
            this, such as 0.2. The agent must count its visits; `CertifiedRMax` explores for the
            certificate. Some episodes are rollouts of one fixed policy: all of them, once its mean
            return would do; an agent with `floor` has none. `Record.certificate` and `is_certified`
            say how it ended.
        delta: δ of the certificate. It is about the start that the agent was told, or else that of
            an exact task, or that of the episodes.
        checkpoint: a file to which the agent is saved after `every` episodes and at the end; it is
            replaced as a whole. If the process is killed, load the agent and repeat the call with
            `resume=agent.in_task` and `episodes=n - agent.n_episodes`, where n is the number of
            episodes of the whole task: with the same `seed` and `every`, the agent then learns what
            it would have learned. For this, each part of the task between two checkpoints has a
            seed of its own, so results differ from those without checkpoints. What an
            environment does after `reset(seed=...)` must depend on nothing that was before. After
            16 million steps of a task no checkpoints are written any more, and a warning says so.
    """
    choice = RecordChoice.read(record)
    every = None if every is None else whole_number("every", every)
    resume, masks = truth("resume", resume), truth("masks", masks)
    if callback is not None and not callable(callback):
        raise InvalidArgument(
            f"callback is {shown(callback)}: expected a function of the number of episodes done "
            "and of all episodes"
        )
    if until is not None:
        until, delta = _checked_until(agent, until, choice), positive_probability("delta", delta)
    if checkpoint is not None:
        _check_checkpoint(agent, checkpoint, choice)
    texts = checked_texts(agent, label, time)
    least = 0 if resume else 1
    plan = Plan.checked(agent, env, episodes=episodes, max_steps=max_steps, seed=seed, least=least)
    exist = None
    if available is not None:
        exist = read_existing(available, plan.n_states, plan.n_actions)
        if isinstance(env, TabularMDP) and not np.array_equal(exist, env.available):
            raise InvalidArgument(
                "available differs from the available actions of the task: leave it out"
            )
    if choice is not None:
        n_pairs = plan.n_states * plan.n_actions
        choice.check_size(episodes=plan.episodes, steps=plan.max_steps, n_pairs=n_pairs)
    before = agent.n_episodes if checkpoint is not None else 0  # type: ignore[attr-defined]
    stride = max(1, (before + plan.episodes) // 100) if every is None else every
    plan = replace(plan, masks=masks)
    if not resume:
        begin(agent, env, masks=masks, available=exist)
    elif hasattr(agent, "resume_task"):
        agent.resume_task()
    if hasattr(agent, "name_task"):
        texts = agent.name_task(texts)
    adopt_names(agent, env)
    recorder = None
    if choice is not None:
        sizes, text = (plan.n_states, plan.n_actions), ", ".join(texts.values())
        recorder = Recorder(choice, agent, env, sizes, plan.episodes, label=text)
    with bar("learning", plan.episodes, unit="episodes") as show:
        plan = replace(plan, stride=stride, recorder=recorder)
        if checkpoint is not None or callback is not None or show is not silent:
            after = partial(_after_episodes, agent, env, checkpoint, callback, show)
            plan = replace(plan, callback=after)
        if until is not None:
            result = learn_until(
                *(agent, env, plan, until, delta, before), is_saved=checkpoint is not None
            )
        elif checkpoint is not None:
            result = _learn_parts(agent, env, plan, before)
        else:
            result = run_episodes(agent, env, plan)
    adopt_names(agent, env)  # again, since the environment may have numbered new states
    agent.end_task(**texts)
    if checkpoint is not None:
        agent.save(checkpoint)  # type: ignore[attr-defined]
    return result


def _check_checkpoint(
    agent: Agent, checkpoint: str | os.PathLike[str], choice: RecordChoice | None
) -> None:
    """Raise `InvalidArgument` or `CannotWrite` unless checkpoints of the agent can be written."""
    check_folder(checkpoint)
    if not callable(getattr(agent, "save", None)) or not hasattr(agent, "n_episodes"):
        raise InvalidArgument(
            f"checkpoint is given, but {type(agent).__name__} has no method save(path) and no "
            "n_episodes, the number of episodes begun in the task: leave it out"
        )
    if choice is not None:
        raise InvalidArgument(
            "record and checkpoint are given: files of agents contain no recording; leave one out"
        )


def _after_episodes(
    agent: Any,
    env: "TabularMDP | gym.Env[Any, Any]",
    checkpoint: str | os.PathLike[str] | None,
    callback: Callback | None,
    show: Show,
    done: int,
    episodes: int,
) -> None:
    """Save the agent if there are checkpoints, call the callback, and move the bar.

    After all episodes the agent is saved once it has ended the task.
    """
    if checkpoint is not None and done < episodes:
        adopt_names(agent, env)
        try:
            agent.save(checkpoint)
        except WrongOrder as error:
            warnings.warn(f"no checkpoint was written: {error}", stacklevel=4)
    if callback is not None:
        callback(done, episodes)
    show(done)


def _learn_parts(
    agent: Agent, env: "TabularMDP | gym.Env[Any, Any]", plan: Plan, before: int
) -> Record:
    """Run episodes in parts that end at the multiples of the stride, each with a seed of its own.

    `before` is the number of episodes of the task that were run earlier. The task is resumed after
    each part, as it is if the agent was loaded.
    """
    assert plan.callback is not None
    parts: list[Record] = []
    done, last = before, before + plan.episodes
    while done < last:
        n = min(plan.stride - done % plan.stride, last - done)
        parts.append(run_episodes(agent, env, _part(plan, n, "checkpoint", done)))
        done += n
        plan.callback(done - before, plan.episodes)
        if hasattr(agent, "resume_task") and done < last:
            agent.resume_task()
    return _joined(parts)


def _part(plan: Plan, episodes: int, key: str, done: int) -> Plan:
    """Return the plan of a part of the episodes, with a seed that the others do not have."""
    seed = None if plan.seed is None else int(stream(plan.seed, key, done).integers(2**31))
    return replace(plan, episodes=episodes, seed=seed, callback=None)


def _joined(parts: list[Record]) -> Record:
    """Return the record of several parts."""
    n_steps = np.cumsum([0, *(part.n_steps for part in parts)])
    steps = [part.update_steps + n for part, n in zip(parts, n_steps[:-1], strict=True)]
    returns = joined([part.returns for part in parts], np.float64)
    discounted = joined([part.discounted_returns for part in parts], np.float64)
    return Record(returns, discounted, joined(steps, np.int64), int(n_steps[-1]))


def _checked_until(agent: Agent, until: float, choice: RecordChoice | None) -> float:
    """Return `until`; raise `InvalidArgument` unless the agent can be certified."""
    if not isinstance(agent, OptimisticAgent):
        raise InvalidArgument(
            f"until is {shown(until)}, but {type(agent).__name__} has no certificates: use an "
            "agent that counts its visits, such as CertifiedRMax"
        )
    if choice is not None:
        raise InvalidArgument(
            "record and until are given: the number of episodes is not known; leave one out"
        )
    return real_number("until", until, "expected a number above 0, at most 1", above=0, most=1)


def learn_until(
    agent: Agent,
    env: "TabularMDP | gym.Env[Any, Any]",
    plan: Plan,
    until: float,
    delta: float,
    before: int = 0,
    *,
    is_saved: bool = False,
) -> Record:
    """Run episodes of a task that the agent has begun, until a certificate has a small gap.

    Each part has 5 % more episodes, with a seed of its own, so that results do not depend on
    whether compiled code runs. `before` is the number of episodes that were run earlier, and
    `is_saved` says whether there are checkpoints.
    """
    from heirloom.learning.certify import chosen_policy, roll_out

    assert isinstance(agent, OptimisticAgent)
    start = agent.declared.start
    rolled = sum(len(one.returns) for one in agent.task.candidates) if before else 0
    if start is None and isinstance(env, TabularMDP):
        start = env.start
    environment = env.to_gymnasium() if isinstance(env, TabularMDP) else env
    masks = env.transitions.available is not None if isinstance(env, TabularMDP) else plan.masks
    # Rollouts would not keep the promise of `floor`.
    is_safe = getattr(agent.task.planner, "floor", None) is not None
    _, high = range_of_returns(agent.setting, plan.max_steps)
    parts: list[Record] = []
    found = agent.certificate(start=start, delta=delta)
    done, last = before, before + plan.episodes
    while done < last and found.relative_gap > until:
        n = min(max(1, done // N_CHECKS), last - done)
        part = _part(plan, n, "until", done)
        policy = None
        if not is_safe and found.relative_gap <= WIDEST:
            candidates = agent.task.candidates
            tried = [one for one in candidates if one.high == high and one.starts_as(start)]
            policy = _promising(tried, found, until, done if 2 * rolled <= done else 0)
            if policy is None and ROLLED * rolled <= done:
                begun = [one for one in tried if len(one.returns) < ROLLED]
                if begun:
                    policy = begun[-1].policy
                else:
                    close = until / LOSS
                    policy = chosen_policy(agent, start, found.policy, close, in_order=True)
        if policy is not None:
            result = roll_out(agent, environment, replace(part, masks=masks), policy, start)
            returns = np.array(result.returns), np.array(result.discounted)
            parts.append(Record(*returns, np.empty(0, dtype=np.int64), result.n_steps))
            rolled += n
        else:
            parts.append(run_episodes(agent, env, part))
        is_due = done // plan.stride < (done + n) // plan.stride or done + n == last
        done += n
        if plan.callback is not None and is_due:
            plan.callback(done - before, plan.episodes)
            if is_saved:
                agent.resume_task()
        found = agent.certificate(start=start, delta=delta)
    is_certified = found.relative_gap <= until
    return replace(_joined(parts), certificate=found, is_certified=is_certified)


def _promising(
    tried: list[Candidate], found: "Certificate", until: float, most: int
) -> IntArray | None:
    """Return the policy of a candidate whose mean return would do soon, or None.

    The lower bound after n episodes with the mean return x is about x exp(-L / n), on the scale of
    returns above the smallest one: x would do after L / ln(x / enough) of them. That is soon if it
    is at most `most`, or if the policy had fewer rollouts than some times those that an optimal
    one needs.
    """
    enough = (1 - until) * (found.optimum_at_most - found.v_min)
    patience = PATIENCE * LOG_OF_ROLLOUTS / -np.log1p(-until)
    for one in sorted(tried, key=lambda one: -len(one.returns)):
        if len(one.returns) < ROLLED:
            continue
        ratio = (np.mean(one.returns) - found.v_min) / enough if enough > 0 else np.inf
        if ratio > 1 and (len(one.returns) < patience or LOG_OF_ROLLOUTS / np.log(ratio) <= most):
            return one.policy
    return None
