"""`Certificate`: how good a policy is at least, and any policy at most, with a probability."""

import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import spsolve

from heirloom.agents.candidates import best
from heirloom.agents.optimistic import OptimisticAgent
from heirloom.agents.task_log import APART, GIVEN, NONE, OWN, Request, same_nearness, same_options
from heirloom.arrays import FloatArray, IntArray, frozen
from heirloom.errors import (
    HeirloomError,
    InvalidArgument,
    RefutedKnowledge,
    RefutedKnowledgeWarning,
)
from heirloom.mdp.tabular import reward_scale
from heirloom.transfer.certified import ACCURACY, ROUNDING, CertifiedValues
from heirloom.transfer.certified_sets import CertifiedSets
from heirloom.transfer.declared import Declared, as_options
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.transfer.radii import Accuracy
from heirloom.transfer.refutation.watch import claims_of
from heirloom.validation import instance, positive_probability
from heirloom.wording import counted, counted_of

N_LIMITS = 10  # pairs that are named
NOTHING = 0.99  # relative gap above which a certificate says nothing
N_KEPT = 2  # bounds of a task, for different knowledge, that can go on


class Limit(NamedTuple):
    """A pair whose uncertainty makes the bound on the optimum larger than it need be."""

    s: int
    a: int
    name: str
    """The state and the action in words."""
    cost: float
    """By how much, at the start, up to the uncertainty of other pairs."""
    visits: int
    """Its visits so far."""
    more_visits: int
    """About how many more would halve the cost; 0 if there were none, so that this is not known."""


@dataclass(frozen=True)
class Certificate:
    """Bounds that hold together with probability 1 - δ, if what was declared is true.

    They are about expected discounted returns from the start, in tasks that go on until they
    terminate: an episode that is cut after a number of steps earns less if rewards are positive.
    """

    delta: float
    """δ, for all certificates of a life with this δ and the same knowledge together."""
    optimum_at_most: float
    """An upper bound on the value of every policy."""
    lower: float
    """A lower bound on the value of `policy`."""
    lower_from: Literal["model", "rollouts"]
    """Where it follows from: what is known of the model, or episodes of the policy."""
    policy: IntArray
    """The policy that is certified, [s]."""
    V_upper: FloatArray
    """Upper bounds on the optimal values, [s]."""
    V_lower: FloatArray
    """Lower bounds on the values of `policy`, [s]."""
    Q_upper: FloatArray
    """Upper bounds on the optimal values of actions, [s, a]."""
    Q_lower: FloatArray
    """Lower bounds on the optimal values of actions, [s, a]."""
    v_min: float
    """The smallest possible value."""
    n_visited: int
    """The number of pairs with visits in this task."""
    n_pairs: int
    """The number of pairs that exist."""
    limits: tuple[Limit, ...]
    """The pairs whose uncertainty costs most, at most ten."""
    advice: tuple[str, ...]
    """What could be declared, in words."""

    @property
    def gap(self) -> float:
        """By how much the policy can be worse than the best one."""
        return self.optimum_at_most - self.lower

    @property
    def relative_gap(self) -> float:
        """The gap, as a share of what the best policy can be worth above `v_min`."""
        most = self.optimum_at_most - self.v_min
        return self.gap / most if most > 0 else 0.0

    def __str__(self) -> str:
        probability = f"with probability {1 - self.delta:g}"
        if self.relative_gap > NOTHING:
            reasons = [f"{what.split(' (')[0]} are not declared" for what in self.advice]
            reasons.append(f"{counted_of(self.n_visited, self.n_pairs, 'pair')} visited")
            first = f"no certificate {probability}: {', '.join(reasons)}"
        else:
            first = (
                f"{probability}, the policy is worth at least {self.lower:.4g} (from "
                f"{'the model' if self.lower_from == 'model' else self.lower_from}), and no policy "
                f"more than {self.optimum_at_most:.4g}: a gap of {self.relative_gap:.1%}"
            )
        names = [
            f"{one.name}: {counted(one.visits, 'visit')}"
            + (f", {one.more_visits:,} more halve it" if one.more_visits else "")
            for one in self.limits[:3]
        ]
        second = (
            f"the most uncertain pairs: {'; '.join(names)}" if names else "no pair is uncertain"
        )
        third = f"it would help to declare {' and '.join(self.advice)}" if self.advice else ""
        return "\n".join(line for line in (first, second, third) if line)


def certify(agent: OptimisticAgent, asked: Request, *, reacts: bool = True) -> Certificate:
    """Return a certificate of the current task of an agent, or of the last one.

    Unless the agent `reacts`, this has no effect on it, also if its knowledge is contradicted.
    """
    values, task, delta = _values_of(agent, asked, kept=reacts), agent.task, asked.delta
    try:
        values.count()
    except InvalidArgument as error:
        if values.nearness is None:
            raise
        return _without_nearness(agent, values, str(error), asked, reacts=reacts)
    _check_prices(agent, values)
    upper, lower = values.upper(), values.lower()
    k = values.crossing()
    if k is not None:
        name = agent.memory.names.pair(*divmod(k, agent.n_actions))
        found = _contradiction(values, f"the value of {name}", lower.Q[k], upper.Q[k])
        return _without_nearness(agent, values, found, asked, reacts=reacts)
    Q = np.where(lower.exists, lower.Q, -np.inf).reshape(agent.n_states, -1)
    policy, lowest = Q.argmax(axis=1), lower.V
    lower_from: Literal["model", "rollouts"] = "model"
    at_least = values.of_start(lower.V, task.starts, -1.0)
    candidate = best(task.candidates, values.declared.start, delta)
    if candidate is not None and (value := candidate.lower(delta)) > at_least:
        at_least, policy, lower_from = value, candidate.policy, "rollouts"
        lowest = values.lower_of(policy)
    at_most = values.of_start(upper.V, task.starts, 1.0)
    if values.is_excess(at_least - at_most):
        found = _contradiction(values, "the value of a policy", at_least, at_most)
        return _without_nearness(agent, values, found, asked, reacts=reacts)
    return Certificate(
        delta=delta,
        optimum_at_most=at_most,
        lower=at_least,
        lower_from=lower_from,
        policy=frozen(policy.copy()),
        V_upper=frozen(upper.V.copy()),
        V_lower=frozen(lowest.copy()),
        Q_upper=frozen(upper.Q.reshape(Q.shape).copy()),
        Q_lower=frozen(Q),
        v_min=values.v_min,
        n_visited=int((task.model.own_counts > 0).sum()),
        n_pairs=int(upper.exists.sum()),
        limits=_limits(agent, values),
        advice=_advice(agent, values),
    )


def request(
    agent: OptimisticAgent, *, delta: float, nearness: Nearness | None = None, **given: Any
) -> Request:
    """Return what is asked for with the arguments of `OptimisticAgent.certificate`.

    What is not given is what the agent was told when it was created.
    """
    _ = agent.task  # first, because a loaded agent that repeats its last task gets other bounds
    delta, declared = positive_probability("delta", delta), agent.declared
    own = claims_of(agent.bounds).nearness
    if nearness is not None:
        instance("nearness", nearness, Nearness, "such as agent.bounds[0].nearness")
        nearness._check_shape(agent.n_states, agent.n_actions)
    elif not agent.refutation.is_refuted:
        nearness = own
    told = {name: value for name, value in given.items() if value is not None}
    if told:
        read = Declared.read(agent.setting, **told)
        declared = replace(declared, **{name: getattr(read, name) for name in told})
    origin = NONE if nearness is None else OWN if nearness is own else GIVEN
    return Request(delta, declared, nearness, origin)


def certificate_apart(agent: OptimisticAgent, delta: float = 0.05, **given: Any) -> Certificate:
    """Return `agent.certificate(...)` without any effect on the agent."""
    asked = request(agent, delta=delta, **given)
    agent.task.log.add_request(APART, asked)
    return certify(agent, asked, reacts=False)


def certificate_text(agent: object) -> str:
    """Return the certificate in words, or why there is none; empty if no successors are declared.

    Then nothing is computed. This does not change what the agent does.
    """
    if not isinstance(agent, OptimisticAgent):
        return ""
    nearness = None if agent.refutation.is_refuted else claims_of(agent.bounds).nearness
    if agent.declared.successors is None and (nearness is None or nearness.successors is None):
        return ""
    try:
        return str(certificate_apart(agent))
    except HeirloomError as error:
        return f"no certificate: {error}"


def _values_of(agent: OptimisticAgent, asked: Request, *, kept: bool) -> CertifiedValues:
    """Return the bounds that are asked for, which continue those of an earlier request.

    If they are `kept`, a later request continues them.
    """
    task, (delta, declared, nearness, _) = agent.task, asked
    told = {**as_options(declared), "start": None}  # bounds do not depend on it
    for values in task.certified:
        is_theirs = values.delta == delta and same_nearness(values.nearness, nearness)
        if is_theirs and same_options({**as_options(values.declared), "start": None}, told):
            values.declared = declared
            return values
    arguments = agent.setting, task.model, agent.memory, task.place
    values = CertifiedValues(*arguments, declared, nearness, delta)
    if kept:
        task.certified = [*task.certified[1 - N_KEPT :], values]
    return values


def _contradiction(values: CertifiedValues, what: str, low: float, high: float) -> str:
    """Return that a lower bound is above an upper one, which is evidence against knowledge.

    If what is known is true, this happens with probability δ at most in a life. Raises
    `RefutedKnowledge` if there is no nearness that could be false.
    """
    found = (
        f"{what} is at least {low:.4g} and at most {high:.4g} (probability of error "
        f"{values.delta:g})"
    )
    if values.nearness is None:
        raise RefutedKnowledge(
            f"what is declared is refuted: {found}. Correct v_max, successors, terminates, rewards "
            "or start"
        )
    return found


def _without_nearness(
    agent: OptimisticAgent, values: CertifiedValues, found: str, asked: Request, *, reacts: bool
) -> Certificate:
    """Let the agent react to a nearness that is refuted; return a certificate without it."""
    refutation, message = agent.refutation, f"the nearness is refuted: {found}"
    if reacts and asked.origin == OWN:
        refutation.refute_certificate(message)
        planner = agent.task.planner
        if isinstance(planner, CertifiedSets):
            planner.nearness = None
            if agent.in_task:
                planner.give_up_nearness()
    elif reacts and refutation.reaction == "raise":
        raise RefutedKnowledge(message)
    elif reacts and refutation.reaction != "ignore":
        warnings.warn(message, RefutedKnowledgeWarning, stacklevel=5)
    return certify(agent, asked._replace(nearness=None, origin=NONE), reacts=reacts)


def _check_prices(agent: OptimisticAgent, values: CertifiedValues) -> None:
    """Raise `RefutedKnowledge` if mean rewards of this task contradict those that are declared.

    If these are true, this happens with probability δ at most in a life.
    """
    if values.prices is None:
        return
    counts, R = agent.model.own_counts.reshape(-1), agent.model.mean_rewards
    place, outcomes = agent.task.place, np.ones(counts.size, dtype=np.int64)
    accuracy = Accuracy(exact=False, delta=values.delta, n_dropped=place.n_dropped)
    radii = accuracy.of_task(place.number, agent.setting, outcomes).at(counts).rewards
    tol = ROUNDING * reward_scale(agent.setting.reward_range)
    excess = np.where(counts > 0, np.abs(R - values.prices) - radii, -np.inf)
    k = int(excess.argmax())
    if excess[k] > tol:
        name = agent.memory.names.pair(*divmod(k, agent.n_actions))
        visits = counted(int(counts[k]), "reward")
        raise RefutedKnowledge(
            f"rewards is {values.prices[k]:.4g} at {name}, where {visits} had a mean of "
            f"{R[k]:.4g} (probability of error {values.delta:g}): give the true mean rewards"
        )


def _advice(agent: OptimisticAgent, values: CertifiedValues) -> tuple[str, ...]:
    """Return what could be declared, in words."""
    advice: tuple[str, ...] = () if values.successors is not None else ("the possible successors",)
    if values.declared.rewards is None:
        advice += ('rewards ("per transition", if they are the same at every visit of one)',)
    if values.declared.start is None and not agent.task.starts.any():
        advice += ("the first states (start=...; none was observed)",)
    return advice


def _limits(agent: OptimisticAgent, values: CertifiedValues) -> tuple[Limit, ...]:
    """Return the pairs of the most favourable policy whose uncertainty costs most."""
    setting, upper, counts = agent.setting, values._upper, agent.model.own_counts.reshape(-1)
    n_states, n_actions, gamma = setting.n_states, setting.n_actions, setting.gamma
    greedy = np.arange(n_states) * n_actions + upper.Q.reshape(n_states, -1).argmax(axis=1)
    point, rows, successors, p = values.at_frequencies(greedy)
    lowest = setting.reward_range[0] + gamma * min(0.0, float(upper.V.min()))
    cost = upper.Q[greedy] - np.where(np.isnan(point), lowest, point)
    T = sparse.csc_array((p, (rows, successors)), shape=(n_states, n_states))
    start = values.declared.start
    if start is None:
        start = (agent.task.starts + 1 / n_states) / (agent.task.starts.sum() + 1)
    visits = spsolve(sparse.eye_array(n_states, format="csc") - gamma * T.T, start)
    cost *= np.maximum(visits, 0.0)  # expected, discounted
    order = np.argsort(-cost, kind="stable")[:N_LIMITS]
    return tuple(
        Limit(
            *(pair := divmod(int(greedy[s]), n_actions)),
            agent.memory.names.pair(*pair),
            float(cost[s]),
            n := int(counts[greedy[s]]),
            3 * n,
        )
        for s in order
        if cost[s] > ACCURACY * reward_scale(setting.reward_range)
    )
