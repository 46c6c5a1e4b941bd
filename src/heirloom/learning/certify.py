"""`certify`: let an agent roll out one fixed policy, for a certificate."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from heirloom.agents.candidates import Candidate, range_of_returns
from heirloom.agents.optimistic import OptimisticAgent, checked_step
from heirloom.agents.task_log import FURTHER, RETURN
from heirloom.arrays import BoolArray, FloatArray, IntArray, frozen
from heirloom.errors import InvalidArgument, WrongOrder
from heirloom.learning.outcomes import observe_mask, read_reset, read_step
from heirloom.learning.plan import Plan
from heirloom.learning.streams import stream
from heirloom.mdp.available import read_mask
from heirloom.mdp.from_arrays import read_start
from heirloom.mdp.from_learned import mdp_of
from heirloom.mdp.learned import LearnedModel
from heirloom.mdp.tabular import TabularMDP, value_range
from heirloom.planning.solve import evaluate, read_policy, solve
from heirloom.progress import bar
from heirloom.validation import positive_probability, shown, truth

if TYPE_CHECKING:
    import gymnasium as gym

    from heirloom.agents.certificate import Certificate

CLOSE = 0.01  # of the best value: an earlier policy this close to it is continued


def certify(
    agent: OptimisticAgent,
    env: "TabularMDP | gym.Env[Any, Any]",
    *,
    policy: ArrayLike | None = None,
    episodes: int = 200,
    max_steps: int | None = None,
    delta: float = 0.05,
    start: int | ArrayLike | None = None,
    masks: bool = False,
    seed: int | None = None,
    **declared: Any,
) -> "Certificate":
    """Run episodes of one fixed policy in a task, and return a certificate that uses them.

    The task is the agent's current one, or between tasks the last one. Every step also counts for
    the agent's model, so it helps both bounds; after the end of the task it no longer changes the
    source in the memory. An episode that was started counts, also if the environment fails: its
    return is then the smallest possible one. Another call with the same policy, start and
    `max_steps` continues with the same returns: you may call it as often as you like. Each further
    policy costs a larger share of δ, so do not try many.

    Args:
        agent: an agent with a model: an `OptimisticAgent`, such as `RMax`.
        env: the task that the agent has learned, exact or as a Gymnasium environment. Its episodes
            must start independently of each other.
        policy: one action per state, [s]; it must not depend on the episodes that follow. By
            default the best of these on the means of all visits, where pairs without visits have
            the smallest value: that of the certificate, the greedy one, and the optimal one of the
            means; or that of an earlier call in this task, if it is at most 1 % worse.
        episodes: the number of episodes.
        max_steps: the number of steps after which an episode is cut, as in `learn`. What is cut
            counts as the smallest possible value: choose it so large that γ^max_steps is small.
        delta: δ, the probability that a bound fails, in all tasks and calls together.
        start: the first state, or the distribution of first states, if it is known; by default
            what the agent was told, or else the starts of the environment.
        masks: whether the masks of an environment are obeyed, as in `learn`. In a state where the
            action of the policy does not exist, the first one that exists is taken.
        seed: the seed of the episodes. Each call has episodes of its own, also if the seed is that
            of another call, or of `learn`.
        declared: `successors`, `terminates` and `rewards`, as in `agent.certificate`.
    """
    if not isinstance(agent, OptimisticAgent):
        raise InvalidArgument(
            f"agent is {shown(agent)}: expected an agent that counts its steps in a model, such as "
            "RMax or another OptimisticAgent; it can roll out any policy that is given"
        )
    delta, masks = positive_probability("delta", delta), truth("masks", masks)
    if agent.task.is_dropped:
        raise WrongOrder("the last task was dropped: begin a task, and call certify in it")
    if masks:
        agent.task.expect_masks()
    plan = Plan.checked(agent, env, episodes=episodes, max_steps=max_steps, seed=seed)
    p_start = agent.declared.start
    if start is not None:
        p_start = frozen(read_start(start, agent.n_states))
    if isinstance(env, TabularMDP):
        masks, env = env.transitions.available is not None, env.to_gymnasium()
    of_certificate = {"start": start, "delta": delta, **declared}
    given = None if policy is None else _read_policy(agent, policy)
    before = agent.certificate(**of_certificate)  # raises if what is declared is not valid
    policy = chosen_policy(agent, p_start, before.policy) if given is None else given
    roll_out(agent, env, replace(plan, masks=masks), policy, p_start)
    return agent.certificate(**of_certificate)


def roll_out(
    agent: OptimisticAgent,
    env: "gym.Env[Any, Any]",
    plan: Plan,
    policy: IntArray,
    start: FloatArray | None,
) -> "Rollouts":
    """Run the episodes of a plan with one fixed policy, which becomes a candidate of the task."""
    candidate = _candidate(agent, policy, start, plan.max_steps)
    rollouts = Rollouts(agent, env, candidate, plan.max_steps, masks=plan.masks)
    seeds = [_seed(candidate, plan.seed)] + [None] * (plan.episodes - 1)  # the first seeds all
    with bar("rolling out", plan.episodes, unit="episodes") as show:
        try:
            for done, seed in enumerate(seeds):
                show(done)
                agent.task.log.add(RETURN, agent.task.candidates.index(candidate))
                candidate.returns.append(candidate.low)  # if the episode fails, this remains
                candidate.returns[-1] = rollouts.episode(seed)
        finally:
            rollouts.end()
    return rollouts


def _read_policy(agent: OptimisticAgent, policy: ArrayLike) -> IntArray:
    """Return a policy that was given; raise `InvalidArgument` unless it has available actions."""
    read_policy(policy, _estimated(agent, None))
    actions = np.array(policy)
    if actions.ndim != 1:
        raise InvalidArgument(
            f"policy is {shown(policy)}, probabilities of actions: expected one action per state"
        )
    return frozen(actions.astype(np.int64))


def _estimated(agent: OptimisticAgent, start: FloatArray | None) -> TabularMDP:
    """Return the means of all visits as a task, in which other pairs have the smallest value."""
    model, setting = agent.model, agent.setting
    rows = model.all_visits
    return mdp_of(
        rows._replace(known=rows.counts > 0),
        model.n_states,
        gamma=setting.gamma,
        unknown="pessimistic",
        reward_range=setting.reward_range,
        terminating=setting.terminating,
        start=start,
        missing=~model.available.ravel(),
    )


def _existing(policy: IntArray, available: BoolArray) -> IntArray:
    """Return a policy that takes the first available action where its own does not exist."""
    exists = available[np.arange(policy.size), policy]
    return frozen(np.where(exists, policy, available.argmax(axis=1)))


def chosen_policy(
    agent: OptimisticAgent,
    start: FloatArray | None,
    below: IntArray,
    close: float = CLOSE,
    *,
    in_order: bool = False,
) -> IntArray:
    """Return the best policy by estimate: an earlier candidate, `below`, or one that looks optimal.

    An earlier one is taken if at most the share `close` of the best value is lost with it; with
    `in_order`, so are the others, in this order. If no start is declared, the mean over all states
    decides.
    """
    m = _estimated(agent, start)
    earlier = [one.policy for one in agent.task.candidates if one.starts_as(start)]
    latest = below, agent.policy, solve(m).Q.argmax(axis=1)
    policies = [_existing(one, m.available) for one in (*earlier, *latest)]
    values = np.array([m.start @ evaluate(m, one).V for one in policies])
    v_min, _ = m.reward_range  # an unknown pair ends with a value as its reward
    is_close = values >= values.max() - close * (values.max() - v_min)
    if not in_order:
        is_close[len(earlier) :] = values[len(earlier) :] == values.max()
    return policies[int(is_close.argmax())]


def _candidate(
    agent: OptimisticAgent, policy: IntArray, start: FloatArray | None, max_steps: int | None
) -> Candidate:
    """Return the candidate of the task with this policy, start and range of returns, or a new one.

    A new one takes the next number of the life.
    """
    low, high = range_of_returns(agent.setting, max_steps)
    available, candidates = agent.model.available, agent.task.candidates
    for one in candidates:
        # More may be known by now of the actions that exist: the policy is the same one.
        one.policy = _existing(one.policy, available)
        if one.high == high and one.starts_as(start) and np.array_equal(one.policy, policy):
            return one
    agent.memory.n_candidates += 1
    candidates.append(Candidate(agent.memory.n_candidates, policy, start, low, high))
    return candidates[-1]


def _seed(candidate: Candidate, seed: int | None) -> int | None:
    """Return a seed of the next episodes of a candidate, which no other episodes have."""
    if seed is None:
        return None
    key = "certify", candidate.number, len(candidate.returns)
    return int(stream(seed, *key).integers(2**31))


class Rollouts:
    """Episodes of a candidate in an environment, their returns and their number of steps."""

    def __init__(
        self,
        agent: OptimisticAgent,
        env: "gym.Env[Any, Any]",
        candidate: Candidate,
        max_steps: int | None,
        *,
        masks: bool,
    ) -> None:
        self.env, self.candidate, self.max_steps, self.masks = env, candidate, max_steps, masks
        self.setting, self.model = agent.setting, agent.model
        self.returns: list[float] = []
        self.discounted: list[float] = []
        self.n_steps = 0
        self.observer: Any = agent if agent.in_task else _EndedTask(agent)
        self.v_min, _ = value_range(
            self.setting.reward_range, self.setting.gamma, terminating=self.setting.terminating
        )

    def episode(self, seed: int | None) -> float:
        """Run an episode; return its discounted return, and the smallest value if it was cut."""
        step = 0
        try:
            s, info = self._begin(seed)
            undiscounted, total, discount = 0.0, 0.0, 1.0
            while True:
                if self.masks:
                    observe_mask(self.observer, self.env, s, info)
                a = self._action(s)
                outcome = read_step(self.env.step(a), self.setting.n_states)
                s_next, r, terminated, truncated, info = outcome
                self.observer.observe(s, a, r, s_next, terminated=terminated)
                undiscounted, total = undiscounted + r, total + discount * r
                discount, step = discount * self.setting.gamma, step + 1
                if terminated or truncated or step == self.max_steps:
                    self.returns.append(undiscounted)
                    self.discounted.append(total)
                    self.n_steps += step
                    return total if terminated else total + discount * self.v_min
                s = s_next
        except Exception as error:
            error.add_note(
                f"This was in step {step + 1} of episode {len(self.candidate.returns)} of the "
                f"policy, which counts with the smallest return, {self.candidate.low:g}."
            )
            raise

    def end(self) -> None:
        """Add the steps to the visits of the memory, if the task had ended before."""
        if isinstance(self.observer, _EndedTask):
            self.observer.end()

    def _begin(self, seed: int | None) -> tuple[int, Any]:
        s, info = read_reset(self.env.reset(seed=seed), self.setting.n_states)
        start = self.candidate.start
        if start is not None and start[s] == 0:
            raise InvalidArgument(
                f"episode {len(self.candidate.returns)} of the policy began in state {s}, which "
                "has probability 0 in start: declare the true start, or None"
            )
        return s, info

    def _action(self, s: int) -> int:
        """Return the action of the policy, or the first available one if it does not exist."""
        candidate, missing = self.candidate, self.model._availability.missing
        a = int(candidate.policy[s])
        if missing is None or not missing[s * self.setting.n_actions + a]:
            return a
        candidate.policy = _existing(candidate.policy, self.model.available)
        return int(candidate.policy[s])


class _EndedTask:
    """Counts steps in the model of a task that has ended: its source is stored already."""

    def __init__(self, agent: OptimisticAgent) -> None:
        self.task, self.model, self.limits = agent.task, agent.model, agent._limits
        self.memory = agent.memory
        self.further = LearnedModel(agent.n_states, agent.n_actions, n_known=1, refresh=2.0)

    def end(self) -> None:
        """Add the steps to the visits of all tasks, which must be complete to be pooled."""
        if self.model.refresh is not None:
            self.memory.visits.add(self.further.all_visits)
        self.task.log.add(FURTHER)

    def observe_mask(self, s: int, mask: ArrayLike) -> None:
        flags = read_mask(mask, self.model.n_actions, f"the mask of state {s}")
        self.task.observe_mask(s, flags)

    def observe(self, s: int, a: int, r: float, s_next: int, *, terminated: bool) -> None:
        s, a, r, s_next, terminated = checked_step(self.limits, s, a, r, s_next, terminated)
        k = s * self.model.n_actions + a
        for model in (self.model, self.further):  # values stay as they are
            model._count(k, r, -1 - s_next if terminated else s_next)
