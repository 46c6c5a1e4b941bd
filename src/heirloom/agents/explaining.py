"""`explain`: collect from an agent and its bounds where the values `Q` come from."""

from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.agents.explanation import MODEL, V_MAX, Explanation
from heirloom.agents.optimistic import OptimisticAgent
from heirloom.agents.own_bounds import sources_used
from heirloom.agents.task_log import APART
from heirloom.arrays import IntArray, frozen
from heirloom.errors import HeirloomError
from heirloom.transfer.bound import Details
from heirloom.transfer.refutation.watch import claims_of
from heirloom.wording import counted

if TYPE_CHECKING:
    from heirloom.agents.certificate import Certificate


def explain(agent: OptimisticAgent) -> Explanation:
    """Return where the values `Q` of the current task, or between tasks of the last, come from."""
    shape = agent.n_states, agent.n_actions
    Q, U, known = agent.Q.copy(), agent.U.copy(), agent.known.copy()
    details = [bound.details() for bound in agent.bounds]
    names, bound = _bounds(agent, details)
    arrays = (
        np.where(Q < U, len(names), bound),
        bound,
        Q,
        U,
        known,
        agent.model.counts.copy(),
        ~known & agent.greedy & agent.model.reached[:, None],
    )
    for array in arrays:
        frozen(array)
    return Explanation(
        (*names, MODEL),
        *arrays,
        prior_used={
            _name(agent, i, task): frozen(used.reshape(shape))
            for i, detail in enumerate(details)
            for task, used in detail.prior_used.items()
        },
        dropped=tuple(dropped for detail in details for dropped in detail.dropped),
        knowledge_used={
            f"{_name(agent, i)}, {part}": frozen(used.reshape(shape))
            for i, detail in enumerate(details)
            for part, used in detail.knowledge_used.items()
        },
        bound_notes=tuple(
            f"{_name(agent, i)}: {note}"
            for i, detail in enumerate(details)
            for note in detail.notes
        ),
        checks=_checks(agent),
        certificate=certificate_text(agent) or NOT_DECLARED,
        available=None if agent.task.missing is None else frozen(agent.model.available.copy()),
        pair_names=agent.memory.names,
        task_names={source.task: source.name for source in agent.memory.sources},
    )


NOT_DECLARED = "no certificate: agent.certificate() needs declared successors"


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


def certificate_apart(agent: OptimisticAgent, delta: float = 0.05, **given: Any) -> "Certificate":
    """Return `agent.certificate(...)` without any effect on the agent.

    If the certificate contradicts the knowledge, it does not use the knowledge, and the agent does
    not react.
    """
    from heirloom.agents.certificate import certify, request

    asked = request(agent, delta=delta, **given)
    agent.task.log.add_request(APART, asked)
    return certify(apart(agent), asked)


def apart(agent: OptimisticAgent) -> OptimisticAgent:
    """Return an agent whose certificates have no effect on `agent`.

    Bounds of earlier certificates are shared: a later one goes on from them.
    """
    other = copy(agent)
    other._task, other.refutation = copy(agent.task), copy(agent.refutation)
    other._task.certified, other.refutation.reaction = [*agent.task.certified], "ignore"
    other._task.planner = None  # it would give up a nearness that is refuted
    return other


def _checks(agent: OptimisticAgent) -> str:
    """Say whether the pairs that become known are compared with the knowledge of the agent."""
    refutation, watch = agent.refutation, agent.task.watch
    if refutation.warned:
        return "The knowledge was refuted: the bounds that rest on it may be invalid."
    if refutation.n_widened:
        return (
            f"The knowledge was refuted and widened {counted(refutation.n_widened, 'time')} so far."
        )
    if watch is None or watch.n_sources == 0:
        return ""
    if watch.blind:
        return (
            f"With n_known = {agent.n_known}, no single pair can contradict the claimed "
            "differences, because the confidence radii of the models are too large. The pooled "
            "test of all pairs, at the end of tasks 2, 4, 8, ..., and excluded successors can. Use "
            "a larger n_known; if tasks are deterministic, use exact=True."
        )
    return "Pairs that become known are compared with the knowledge; nothing contradicts it so far."


def _bounds(agent: OptimisticAgent, details: list[Details]) -> tuple[list[str], IntArray]:
    """Return the possible origins of `U`, and the index of the origin at each pair, [s, a]."""
    names, index = [V_MAX], np.zeros((agent.n_states, agent.n_actions), dtype=np.int64)
    for i, bound in enumerate(agent.bounds):
        is_minimum = agent.decider == i + 1
        source = sources_used(bound, index.size).reshape(index.shape)
        pairs_by_name = {
            _name(agent, i, task): is_minimum & (source == task) for task in details[i].sources
        }
        without_source = is_minimum & ~np.isin(source, details[i].sources)
        if not pairs_by_name or without_source.any():
            pairs_by_name[_name(agent, i)] = without_source
        for name, pairs in pairs_by_name.items():
            index[pairs] = len(names)
            names.append(name)
    return names, index


def _name(agent: OptimisticAgent, i: int, task: int | None = None) -> str:
    """Unique name of the bound i, or of the part of it that comes from a source."""
    name = type(agent.bounds[i]).__name__
    if [type(bound).__name__ for bound in agent.bounds].count(name) > 1:
        name += f" {i + 1}"
    return name if task is None else f"{name}, {agent.memory.source_name(task)}"
