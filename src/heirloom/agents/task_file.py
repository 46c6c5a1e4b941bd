"""The current or last task of an agent in its file: its log, and what the agent was when it began.

`SavedTask.restore` lets an agent repeat the task, from the log, of which `read` checks all.
"""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heirloom.agents import task_log
from heirloom.agents.candidates import ROUNDING, Candidate
from heirloom.agents.certificate import certify
from heirloom.agents.optimistic import OptimisticAgent
from heirloom.agents.refutation import Reactions
from heirloom.agents.steps_file import Steps, logged_steps, read_masks
from heirloom.agents.task_learner import TaskLearner
from heirloom.agents.task_log import Begun, Request
from heirloom.arrays import BoolArray, IntArray, frozen
from heirloom.errors import HeirloomError
from heirloom.kernels.counting import NEVER
from heirloom.mdp.from_arrays import read_start
from heirloom.mdp.learned import LearnedModel
from heirloom.naming import checked_label
from heirloom.storage.archive import Content, check, take
from heirloom.transfer import memory_file
from heirloom.transfer.declared import Declared, as_options, from_options
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.nearness.bound import arrays_of, rebuilt
from heirloom.transfer.refutation.watch import claims_of
from heirloom.transfer.setting import Setting
from heirloom.validation import positive_probability, real_number, truth, whole_number

PREFIX = "task/"


def divided(options: dict[str, Any], prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Add the arrays among options to those of a file; return the others."""
    arrays |= {f"{prefix}{n}": v for n, v in options.items() if isinstance(v, np.ndarray)}
    return {name: v for name, v in options.items() if not isinstance(v, np.ndarray)}


def joined(scalars: dict[str, Any], prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the options that `divided` has divided."""
    own = {n.removeprefix(prefix): arrays[n] for n in arrays if n.startswith(prefix)}
    return {**scalars, **own}


def packed(agent: OptimisticAgent) -> Content | None:
    """Return the current or last task of an agent; None if it has none, or one too long."""
    if agent._last is None and agent._task is None:
        return None
    learner, begun = agent.task, agent._begun
    log = learner.log
    if begun is None or not (log.is_complete or agent.in_task):
        return None
    arrays = logged_steps(learner)
    arrays["events"] = np.array(log.events, dtype=np.int64).reshape(-1, 3)
    if begun.available is not None:
        arrays["available"] = begun.available
    header: dict[str, Any] = {
        **{"in_task": agent.in_task, "drawn": begun.drawn, **begun.reactions._asdict()},
        **{"texts": learner.texts, "ended": log.texts, "memory": None},
        **{"bounds": [], "requests": [], "candidates": []},
    }
    for i, (bound, options) in enumerate(zip(agent.bounds, begun.bounds, strict=True)):
        differs = not task_log.same_options(options, bound.options())
        then = divided(options, f"bound/{i}/", arrays) if options and differs else None
        header["bounds"].append(then)
    for i, one in enumerate(log.requests):
        texts = divided(as_options(one.declared), f"request/{i}/declared/", arrays)
        asked = {"delta": one.delta, "origin": one.origin, "declared": texts}
        if one.nearness is not None and one.origin == task_log.GIVEN:
            near = arrays_of(one.nearness)
            asked["nearness"] = divided(near, f"request/{i}/nearness/", arrays)
        header["requests"].append(asked)
    for i, each in enumerate(learner.candidates):
        of_candidate = {"policy": each.policy.astype(np.int64), "start": each.start}
        of_candidate["returns"] = np.array(each.returns, dtype=np.float64)
        divided(of_candidate, f"candidate/{i}/", arrays)
        numbers = {name: getattr(each, name) for name in ("number", "low", "high")}
        header["candidates"].append(numbers)
    if not begun.memory._equals(agent.memory):
        header["memory"], of_memory = memory_file.packed(begun.memory, besides=agent.memory)
        arrays |= {f"memory/{name}": array for name, array in of_memory.items()}
    return Content(header, {f"{PREFIX}{name}": array for name, array in arrays.items()})


@dataclass(frozen=True)
class SavedTask:
    """A task in a file, of which everything was checked."""

    in_task: bool
    begun: Begun
    """Its bounds are None where their options are those of today."""
    steps: Steps
    masks: list[tuple[int, BoolArray]]
    requests: list[Request]
    candidates: list[Candidate]
    events: list[tuple[int, int, int]]
    texts: dict[str, str]
    ended: tuple[str, str]

    @classmethod
    def read(cls, agent: OptimisticAgent, content: Content, where: str) -> "SavedTask":
        """Return the task in a file; raise `InvalidFile` or another error if it is not valid."""
        header, setting = content.header["task"], agent.setting
        arrays = joined({}, PREFIX, content.arrays)
        memory = agent.memory._copy()
        if header["memory"] is not None:
            before = Content({"memory": header["memory"]}, joined({}, "memory/", arrays))
            memory = memory_file.unpacked(TaskMemory, before, where, besides=agent.memory)
            memory.bind(setting)
        available = None
        if "available" in arrays:
            available = take(arrays, "available", np.bool_, (setting.n_pairs,))
            has_action = available.reshape(-1, setting.n_actions).any(axis=1)
            check(has_action.all(), "a state has no action")
        bounds = [
            None if one is None else joined(one, f"bound/{i}/", arrays)
            for i, one in enumerate(header["bounds"])
        ]
        check(len(bounds) == len(agent.bounds), "a bound is missing")
        drawn = real_number("drawn", header["drawn"], "expected a number", least=0, below=1)
        begun = Begun(memory, bounds, Reactions.read(header), drawn, available)
        steps, masks = Steps.read(arrays, setting), read_masks(arrays, setting)
        requests = [
            _request(agent, one, joined({}, f"request/{i}/", arrays))
            for i, one in enumerate(header["requests"])
        ]
        candidates = [
            _candidate(setting, one, joined({}, f"candidate/{i}/", arrays))
            for i, one in enumerate(header["candidates"])
        ]
        in_task = truth("in_task", header["in_task"])
        sizes = len(masks), len(requests), [len(one.returns) for one in candidates]
        events = _events(arrays, steps.codes.size, *sizes, in_task=in_task)
        label, time = (checked_label("label", text) for text in header["ended"])
        texts = {str(key): checked_label(key, text) for key, text in header["texts"].items()}
        found = in_task, begun, steps, masks, requests, candidates, events, texts
        return cls(*found, ended=(label, time))

    def restore(self, agent: OptimisticAgent, ghost: OptimisticAgent, memory: TaskMemory) -> None:
        """Let `ghost`, an agent as it was, repeat the task, and give the task to `agent`.

        `memory` is that of both, and is as it was only while the task is repeated.
        """
        now = dict(vars(memory))
        try:
            vars(memory).update(vars(self.begun.memory._copy()))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._repeat(ghost)
        finally:
            vars(memory).update(now)
        ghost.refutation.reactions = agent.refutation.reactions
        for name in ("refutation", "bounds", "_task", "_begun", "_limits"):
            setattr(agent, name, getattr(ghost, name))
        agent.in_task = self.in_task

    def _repeat(self, ghost: OptimisticAgent) -> None:
        """Let an agent repeat the task."""
        begun, shape = self.begun, (ghost.n_states, ghost.n_actions)
        ghost.refutation.reactions = begun.reactions
        ghost._uniforms.block, ghost._uniforms.n_used = np.array([begun.drawn]), 0
        mask = None if begun.available is None else begun.available.reshape(shape)
        OptimisticAgent.begin_task(ghost, available=mask)
        learner = ghost.task
        self.steps.install(learner.model)
        # The codes, other rewards and steps that were read, and the first two when visits were
        # added to those of the memory last, after the end.
        at = np.zeros(5, dtype=np.int64)
        rolled = [replace(one, returns=[]) for one in self.candidates]
        for position, kind, argument in self.events:
            self._count(learner, at, position)
            try:
                self._happen(ghost, kind, argument, rolled, at)
            except HeirloomError:  # as it was raised before, such as `RefutedKnowledge`
                if kind in (task_log.MASK, task_log.ENDED) and not learner.place.is_over:
                    raise
        self._count(learner, at, self.steps.codes.size)
        self.steps.finish(learner, at)
        learner.candidates, learner.texts = self.candidates, self.texts
        log = learner.log
        log.events, log.masks, log.requests = list(self.events), self.masks, self.requests
        log.texts = self.ended

    def _happen(
        self,
        ghost: OptimisticAgent,
        kind: int,
        argument: int,
        rolled: list[Candidate],
        at: IntArray,
    ) -> None:
        """Repeat an event; `rolled` are the candidates with their returns so far."""
        learner = ghost.task
        if kind == task_log.MASK:
            learner.observe_mask(*self.masks[argument])
        elif kind == task_log.EXPECTED:
            learner.expect_masks()
        elif kind == task_log.EPISODE:
            learner.begin_episode()
        elif kind == task_log.RESUMED:
            learner.resume()
        elif kind in (task_log.CERTIFICATE, task_log.APART):
            asked = self.requests[argument]
            if asked.origin == task_log.OWN:
                asked = asked._replace(nearness=claims_of(ghost.bounds).nearness)
            certify(ghost, asked, reacts=kind == task_log.CERTIFICATE)
        elif kind == task_log.RETURN:
            returns = rolled[argument].returns
            if not returns:
                learner.candidates.append(rolled[argument])
            returns.append(self.candidates[argument].returns[len(returns)])
        elif kind == task_log.ENDED:
            label, time = self.ended
            learner.texts = self.texts
            at[3:] = at[:2]
            ghost.end_task(label=label, time=time)
        elif kind == task_log.DROPPED:
            ghost.drop_task()
        elif kind == task_log.FURTHER and learner.model.refresh is not None:
            further = LearnedModel(ghost.n_states, ghost.n_actions, n_known=1, refresh=2.0)
            self.steps.count_again(further, at[3:], at[:2])
            at[3:] = at[:2]
            ghost.memory.visits.add(further.all_visits)

    def _count(self, learner: TaskLearner, at: IntArray, last: int) -> None:
        """Repeat steps up to a position of the log."""
        is_over = learner.place.is_over
        counts_steps = learner.next_plan is not None and not is_over
        while at[0] < last:
            before, plan_at = int(at[2]), NEVER
            if learner.next_plan is not None and counts_steps:
                plan_at = before + learner.next_plan - learner.n_steps
            k = self.steps.repeat(
                *(learner.model, learner.starts, at, last, plan_at), looks=not is_over
            )
            n_steps = learner.n_steps + int(at[2]) - before
            try:
                if k >= 0:
                    if counts_steps:  # if an error is raised, the step is not counted
                        learner.n_steps = n_steps - 1
                    learner.look(k)
                if counts_steps:
                    learner.count_steps(n_steps)
            except HeirloomError:  # as it was raised before, such as `RefutedKnowledge`
                pass


def _request(agent: OptimisticAgent, saved: dict[str, Any], arrays: dict[str, Any]) -> Request:
    """Return a request for a certificate."""
    declared = read_declared(agent, joined(saved["declared"], "declared/", arrays))
    nearness = joined(saved.get("nearness", {}), "nearness/", arrays)
    origin = saved["origin"]
    check(origin in (task_log.OWN, task_log.NONE, task_log.GIVEN), "a nearness has no origin")
    given = rebuilt(nearness) if origin == task_log.GIVEN else None
    if given is not None:
        given._check_shape(agent.n_states, agent.n_actions)
    return Request(positive_probability("delta", saved["delta"]), declared, given, origin)


def read_declared(agent: OptimisticAgent, options: dict[str, Any]) -> Declared:
    """Return what is declared, with the same bits as in a file."""
    read = Declared.read(agent.setting, **from_options(options, agent.memory))
    start = options.get("start")
    return read if start is None else Declared(**{**vars(read), "start": frozen(np.array(start))})


def _candidate(setting: Setting, saved: dict[str, Any], arrays: dict[str, Any]) -> Candidate:
    """Return a policy that was rolled out."""
    number = whole_number("number", saved["number"])
    policy = take(arrays, "policy", np.int64, (setting.n_states,))
    check(((policy >= 0) & (policy < setting.n_actions)).all(), "a policy has no valid action")
    returns = take(arrays, "returns", np.float64, (-1,))
    low, high = (real_number(name, saved[name], "expected a number") for name in ("low", "high"))
    tol = ROUNDING * max(abs(low), abs(high))
    check(np.isfinite(returns).all() and (returns >= low - tol).all(), "a return is out of range")
    start = None
    if "start" in arrays:
        start = frozen(take(arrays, "start", np.float64, (setting.n_states,)).copy())
        read_start(start, setting.n_states)
    return Candidate(number, frozen(policy.copy()), start, low, high, returns.tolist())


def _events(
    arrays: dict[str, np.ndarray],
    n_steps: int,
    n_masks: int,
    n_requests: int,
    n_returns: list[int],
    *,
    in_task: bool,
) -> list[tuple[int, int, int]]:
    """Return the events of a task."""
    events = take(arrays, "events", np.int64, (-1, 3))
    position, kind, argument = events.T
    most = np.ones(task_log.DROPPED + 1, dtype=np.int64)
    most[task_log.MASK] = n_masks
    most[[task_log.CERTIFICATE, task_log.APART]] = n_requests
    most[task_log.RETURN] = len(n_returns)
    check(((kind >= 0) & (kind < most.size)).all(), "an event is of no known kind")
    check(((argument >= 0) & (argument < most[kind])).all(), "an event has no valid argument")
    in_range = (position >= 0) & (position <= n_steps)
    check(in_range.all() and (np.diff(position) >= 0).all(), "events are not in their order")
    is_end = (kind == task_log.ENDED) | (kind == task_log.DROPPED)
    check(np.count_nonzero(is_end) == (not in_task), "the task has ended, or not")
    first = int(is_end.argmax()) if is_end.any() else kind.size
    within = np.isin(kind, (task_log.EPISODE, task_log.RESUMED))
    check(not within[first:].any(), "an event is behind the end of the task")
    check(not (kind[:first] == task_log.FURTHER).any(), "an event is before the end of the task")
    counted = np.bincount(argument[kind == task_log.RETURN], minlength=len(n_returns))
    check(counted.tolist() == n_returns, "returns of a policy are missing")
    return [tuple(event) for event in events.tolist()]
