"""The current or last task of an agent in its file: its log, and what the agent was when it began.

`restored` lets an agent repeat the task. Compiled code uses the log as indices, so `SavedTask.read`
checks all of it.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from heirloom.agents import task_log
from heirloom.agents.candidates import ROUNDING, Candidate
from heirloom.agents.certificate import certify
from heirloom.agents.explaining import apart
from heirloom.agents.optimistic import OptimisticAgent
from heirloom.agents.task_learner import TaskLearner
from heirloom.agents.task_log import Begun, Request
from heirloom.arrays import BoolArray, FloatArray, IntArray, frozen
from heirloom.errors import HeirloomError, WrongOrder
from heirloom.kernels import counting
from heirloom.kernels.counting import N_ENTRIES, N_LOGGED, N_OTHERS, NEVER
from heirloom.mdp.available import read_mask
from heirloom.mdp.from_arrays import read_start
from heirloom.mdp.learned import MOST_LOGGED, LearnedModel
from heirloom.naming import checked_label
from heirloom.storage.archive import Content, check, take
from heirloom.transfer import memory_file
from heirloom.transfer.declared import Declared, as_options, from_options
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.nearness.bound import arrays_of, rebuilt
from heirloom.transfer.refutation.watch import claims_of
from heirloom.transfer.setting import Setting
from heirloom.validation import positive_probability, real_number, truth, whole_number

WIDTHS = (np.int8, np.int16, np.int32)  # of the numbers of steps
PREFIX = "task/"


def divided(options: dict[str, Any], prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Add the arrays among options to those of a file; return the others."""
    arrays |= {f"{prefix}{n}": v for n, v in options.items() if isinstance(v, np.ndarray)}
    return {name: v for name, v in options.items() if not isinstance(v, np.ndarray)}


def joined(scalars: dict[str, Any], prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the options that `divided` has divided."""
    own = {n.removeprefix(prefix): arrays[n] for n in arrays if n.startswith(prefix)}
    return {**scalars, **own}


def logged_steps(learner: TaskLearner) -> dict[str, np.ndarray]:
    """Return the steps of a task with the pair, outcome and first reward of each entry, and masks.

    Raises `WrongOrder` if there were too many steps.
    """
    a, log = learner.model._arrays, learner.log
    if not log.is_complete:
        raise WrongOrder(
            f"save() was called within a task of more than {MOST_LOGGED:,} steps, too many to be "
            "kept in a file: save the agent earlier, or after end_task()"
        )
    n, n_logged, n_others = (int(a.sizes[i]) for i in (N_ENTRIES, N_LOGGED, N_OTHERS))
    pairs, steps = np.empty(n, dtype=np.int64), a.log[:n_logged]
    counting.entry_pairs(a.head, a.next_entry, pairs)
    largest = max(steps.max(initial=0), -1 - steps.min(initial=0))
    width = next(one for one in WIDTHS if largest <= np.iinfo(one).max)
    return {
        "steps": steps.astype(width),
        "other_rewards": a.other_rewards[:n_others],
        "entries/pairs": pairs,
        "entries/outcomes": a.outcomes[:n],
        "entries/rewards": a.rewards[:n],
        "masks/states": np.array([s for s, _ in log.masks], dtype=np.int64),
        "masks/flags": np.array([mask for _, mask in log.masks], dtype=np.bool_).reshape(
            -1, learner.setting.n_actions
        ),
    }


def read_masks(arrays: dict[str, np.ndarray], setting: Setting) -> list[tuple[int, BoolArray]]:
    """Return the states whose masks were observed, and these."""
    states = take(arrays, "masks/states", np.int64, (-1,))
    flags = take(arrays, "masks/flags", np.bool_, (states.size, setting.n_actions))
    check(((states >= 0) & (states < setting.n_states)).all(), "a mask has no state")
    rows = zip(states.tolist(), flags, strict=True)
    return [(s, read_mask(row, setting.n_actions, "mask")) for s, row in rows]


@dataclass(frozen=True)
class Steps:
    """The steps of a task, as `counting.Model` describes them, which are valid indices."""

    codes: IntArray
    other_rewards: FloatArray
    pairs: IntArray
    outcomes: IntArray
    rewards: FloatArray

    @classmethod
    def read(cls, arrays: dict[str, np.ndarray], setting: Setting) -> "Steps":
        """Return the steps in the arrays of a file; raise `InvalidFile` if they are not valid."""
        kind = np.asarray(arrays.get("steps")).dtype
        check(kind in WIDTHS, f"the steps have the type {kind}")
        codes = take(arrays, "steps", kind.type, (-1,)).astype(np.int32)
        others = take(arrays, "other_rewards", np.float64, (-1,))
        pairs = take(arrays, "entries/pairs", np.int64, (-1,))
        outcomes = take(arrays, "entries/outcomes", np.int32, pairs.shape)
        rewards = take(arrays, "entries/rewards", np.float64, pairs.shape)
        n_states, (lo, hi) = setting.n_states, setting.reward_range
        check(codes.size <= MOST_LOGGED, "there are too many steps")
        check(((pairs >= 0) & (pairs < setting.n_pairs)).all(), "a step has no valid pair")
        lowest = -n_states if setting.terminating else 0
        is_outcome = (outcomes >= lowest) & (outcomes < n_states)
        check(is_outcome.all(), "a step has no valid outcome")
        keys = pairs * (2 * n_states) + outcomes
        check(np.unique(keys).size == keys.size, "two entries have the same outcome")
        # The first reward of visits that were borrowed is a mean, which rounding may have moved.
        tol = ROUNDING * max(abs(lo), abs(hi))
        check(((rewards >= lo - tol) & (rewards <= hi + tol)).all(), "a reward is out of range")
        check(((others >= lo) & (others <= hi)).all(), "a reward is out of range")
        check((codes >= -n_states).all(), "an episode begins in no state")
        check((codes < 2 * pairs.size).all(), "a step has no entry")
        is_other = codes[codes >= 0] % 2 == 1
        check(np.count_nonzero(is_other) == others.size, "rewards of steps are missing")
        return cls(codes, others, pairs, outcomes, rewards)

    @property
    def visited(self) -> IntArray:
        """The pairs that were visited in the task."""
        return np.unique(self.pairs[self.codes[self.codes >= 0] // 2])

    def repeat(
        self,
        model: LearnedModel,
        starts: IntArray,
        at: IntArray,
        last: int,
        last_step: int = NEVER,
        *,
        looks: bool = False,
    ) -> int:
        """Count steps again, as `counting.recount` does; new outcomes get an entry."""
        while True:
            k = counting.recount(model._arrays, self.pairs, starts, at, last, last_step, looks)
            if k >= 0 or at[0] == last or at[2] == last_step:
                return int(k)
            i, n = int(self.codes[at[0]]) // 2, int(model._arrays.sizes[N_ENTRIES])
            check(i == n and self.codes[at[0]] == 2 * i, "entries are not in the order of steps")
            pair, r = int(self.pairs[i]), float(self.rewards[i])
            due = model._count(pair, r, int(self.outcomes[i]))
            at[0], at[2] = at[0] + 1, at[2] + 1
            if due is not None and looks:
                return pair

    def repeat_all(self, learner: TaskLearner, at: IntArray) -> None:
        """Count all steps again, without looks."""
        self.install(learner.model)
        self.repeat(learner.model, learner.starts, at, self.codes.size)
        self.check_counted(learner, at)
        learner.model._is_logged = True

    def install(self, model: LearnedModel) -> None:
        """Write the steps to the log of a model, which then logs no steps."""
        model._start_log(self.codes, self.other_rewards)
        model._is_logged = False

    def check_counted(self, learner: TaskLearner, at: IntArray) -> None:
        """Raise `InvalidFile` unless a learner has counted exactly these steps."""
        counted, model = logged_steps(learner), learner.model
        same = at[0] == self.codes.size and at[1] == self.other_rewards.size
        same = same and np.array_equal(counted["entries/pairs"], self.pairs)
        same = same and np.array_equal(counted["entries/outcomes"], self.outcomes)
        check(bool(same), "the steps do not fit the memory")
        missing = model._availability.missing
        check(missing is None or not missing[self.visited].any(), "an action does not exist")


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
    bounds = []
    for i, (bound, options) in enumerate(zip(agent.bounds, begun.bounds, strict=True)):
        differs = options is not None and not _equal(options, bound.options())
        bounds.append(divided(options, f"bound/{i}/", arrays) if options and differs else None)
    requests = []
    for i, one in enumerate(log.requests):
        texts = divided(as_options(one.declared), f"request/{i}/declared/", arrays)
        if one.nearness is not None and one.origin == task_log.GIVEN:
            divided(arrays_of(one.nearness), f"request/{i}/nearness/", arrays)
        requests.append({"delta": one.delta, "origin": one.origin, "declared": texts})
    candidates = []
    for i, each in enumerate(learner.candidates):
        arrays[f"candidate/{i}/policy"] = each.policy.astype(np.int64)
        arrays[f"candidate/{i}/returns"] = np.array(each.returns, dtype=np.float64)
        if each.start is not None:
            arrays[f"candidate/{i}/start"] = each.start
        candidates.append({name: getattr(each, name) for name in ("number", "low", "high")})
    before = None
    if not begun.memory._equals(agent.memory):
        before, of_memory = memory_file.packed(begun.memory, besides=agent.memory)
        arrays |= {f"memory/{name}": array for name, array in of_memory.items()}
    header = {
        "in_task": agent.in_task,
        "bounds": bounds,
        "warned": begun.warned,
        "refuted": begun.refuted,
        "n_widened": begun.n_widened,
        "drawn": begun.drawn,
        "requests": requests,
        "candidates": candidates,
        "texts": learner.texts,
        "ended": log.texts,
        "memory": before,
    }
    return Content(header, {f"{PREFIX}{name}": array for name, array in arrays.items()})


def _equal(one: dict[str, Any], other: dict[str, Any] | None) -> bool:
    return (
        other is not None
        and one.keys() == other.keys()
        and all(np.array_equal(value, other[name]) for name, value in one.items())
    )


@dataclass(frozen=True)
class SavedTask:
    """A task in a file, of which everything was checked."""

    in_task: bool
    begun: Begun
    bounds: list[dict[str, Any] | None]
    """The options with which bounds began, where they differ from those now."""
    steps: Steps
    events: list[tuple[int, int, int]]
    masks: list[tuple[int, BoolArray]]
    requests: list[Request]
    candidates: list[Candidate]
    texts: dict[str, str]
    ended: tuple[str, str]

    @classmethod
    def read(cls, agent: OptimisticAgent, content: Content, where: str) -> "SavedTask":
        """Return the task in a file; raise `InvalidFile` or another error if it is not valid."""
        header = content.header["task"]
        arrays = joined({}, PREFIX, content.arrays)
        setting, n_actions = agent.setting, agent.n_actions
        memory = agent.memory._copy()
        if header["memory"] is not None:
            before = Content({"memory": header["memory"]}, joined({}, "memory/", arrays))
            memory = memory_file.unpacked(TaskMemory, before, where, besides=agent.memory)
            memory.bind(setting)
        available = None
        if "available" in arrays:
            available = take(arrays, "available", np.bool_, (setting.n_pairs,))
            check(available.reshape(-1, n_actions).any(axis=1).all(), "a state has no action")
        masks = read_masks(arrays, setting)
        steps = Steps.read(arrays, setting)
        requests = [
            _request(agent, one, joined({}, f"request/{i}/", arrays))
            for i, one in enumerate(header["requests"])
        ]
        candidates = [
            _candidate(one, joined({}, f"candidate/{i}/", arrays), setting)
            for i, one in enumerate(header["candidates"])
        ]
        in_task = truth("in_task", header["in_task"])
        sizes = len(masks), len(requests), [len(one.returns) for one in candidates]
        events = _events(arrays, steps.codes.size, *sizes, in_task=in_task)
        drawn = real_number("drawn", header["drawn"], "expected a number", least=0, below=1)
        warned, refuted = truth("warned", header["warned"]), truth("refuted", header["refuted"])
        n_widened = whole_number("n_widened", header["n_widened"], least=0)
        bounds = [
            None if one is None else joined(one, f"bound/{i}/", arrays)
            for i, one in enumerate(header["bounds"])
        ]
        check(len(bounds) == len(agent.bounds), "a bound is missing")
        label, time = (checked_label("label", text) for text in header["ended"])
        texts = {str(key): checked_label(key, text) for key, text in header["texts"].items()}
        begun = Begun(memory, [], warned, refuted, n_widened, drawn, available)
        return cls(
            *(in_task, begun, bounds, steps, events, masks, requests, candidates, texts),
            ended=(label, time),
        )

    def restore(self, agent: OptimisticAgent, ghost: OptimisticAgent, memory: TaskMemory) -> None:
        """Let `ghost`, an agent as it was, repeat the task, and give the task to `agent`.

        `memory` is that of both, and is as it was only while the task is repeated.
        """
        now = dict(vars(memory))
        try:
            vars(memory).update(vars(self.begun.memory._copy()))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                learner = self._repeated(ghost)
        finally:
            vars(memory).update(now)
        refutation, ghost_refutation = agent.refutation, ghost.refutation
        for name in ("warned", "is_refuted", "n_widened"):
            setattr(ghost_refutation, name, getattr(refutation, name))
        agent.refutation, agent.bounds = ghost_refutation, ghost.bounds
        agent._task, agent._begun, agent._limits = learner, ghost._begun, ghost._limits
        agent.in_task = self.in_task

    def _repeated(self, ghost: OptimisticAgent) -> TaskLearner:
        """Return the learner of a task that is repeated."""
        begun = self.begun
        for name, value in (("warned", begun.warned), ("is_refuted", begun.refuted)):
            setattr(ghost.refutation, name, value)
        ghost.refutation.n_widened = begun.n_widened
        ghost._uniforms.block, ghost._uniforms.n_used = np.array([begun.drawn]), 0
        shape = ghost.n_states, ghost.n_actions
        mask = None if begun.available is None else begun.available.reshape(shape)
        OptimisticAgent.begin_task(ghost, available=mask)
        learner = ghost.task
        self.steps.install(learner.model)
        at = np.zeros(3, dtype=np.int64)
        seen = [0] * len(self.candidates)
        for position, kind, argument in self.events:
            self._count(learner, at, position)
            try:
                self._happen(ghost, kind, argument, seen, at)
            except HeirloomError:  # as it was raised before, such as `RefutedKnowledge`
                if kind in (task_log.MASK, task_log.ENDED) and not learner.place.is_over:
                    raise
        self._count(learner, at, self.steps.codes.size)
        self.steps.check_counted(learner, at)
        learner.candidates, learner.texts = self.candidates, self.texts
        learner.model._is_logged = True
        log = learner.log
        log.events, log.masks, log.requests = list(self.events), self.masks, self.requests
        log.texts = self.ended
        return learner

    def _happen(
        self, ghost: OptimisticAgent, kind: int, argument: int, seen: list[int], at: IntArray
    ) -> None:
        """Repeat an event; `seen` are the numbers of returns of candidates so far."""
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
            certify(ghost if kind == task_log.CERTIFICATE else apart(ghost), asked)
        elif kind == task_log.RETURN:
            seen[argument] += 1
            learner.candidates = [
                Candidate(c.number, c.policy, c.start, c.low, c.high, c.returns[:n])
                for c, n in zip(self.candidates, seen, strict=True)
                if n
            ]
        elif kind == task_log.ENDED:
            label, time = self.ended
            learner.texts = self.texts
            ghost.end_task(label=label, time=time)
        elif kind == task_log.DROPPED:
            ghost.drop_task()
        elif kind == task_log.FURTHER and learner.model.refresh is not None:
            further = LearnedModel(ghost.n_states, ghost.n_actions, n_known=1, refresh=2.0)
            self._count_further(further, at)
            ghost.memory.visits.add(further.all_visits)

    def _count_further(self, further: LearnedModel, at: IntArray) -> None:
        """Count the steps since the end of the task, or since they were counted last."""
        earlier = [p for p, kind, _ in self.events if p < at[0] and kind >= task_log.ENDED]
        codes, others = self.steps.codes, self.steps.other_rewards
        first = max(earlier, default=0)
        n_others = int(np.count_nonzero(codes[:first][codes[:first] >= 0] % 2))
        for code in codes[first : int(at[0])].tolist():
            if code < 0:
                continue
            r = self.steps.rewards[code // 2]
            if code % 2:
                r, n_others = others[n_others], n_others + 1
            i = code // 2
            further._count(int(self.steps.pairs[i]), float(r), int(self.steps.outcomes[i]))

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
    nearness = joined({}, "nearness/", arrays)
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


def _candidate(saved: dict[str, Any], arrays: dict[str, Any], setting: Setting) -> Candidate:
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
