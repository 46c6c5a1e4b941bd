"""`policy_table`: the policy that an agent has learned, as a table to hand over."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from heirloom.agents.certificate import certificate_apart
from heirloom.agents.optimistic import OptimisticAgent
from heirloom.agents.protocol import memory_of
from heirloom.arrays import FloatArray, IntArray
from heirloom.errors import InvalidArgument
from heirloom.naming import NO_NAMES, Names, NamesLike, checked_names
from heirloom.transfer.nearness.successors import as_array
from heirloom.validation import shown
from heirloom.wording import printable

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]


def policy_table(
    agent: Any,
    *,
    policy: ArrayLike | None = None,
    delta: float = 0.05,
    state_names: NamesLike = None,
    action_names: NamesLike = None,
    **declared: Any,
) -> "pd.DataFrame":
    """Return the policy of an agent's last task, one row per state; `to_csv` writes it to a file.

    The columns are `state` and `action`, by name or else by number; `value`, the value Q of the
    action; `visits`, how often it was taken there in this task; and `certain`, whether no other
    action of the state is better, with probability 1 - δ for all states together. An agent that
    counts its visits and was told what can happen knows this by its certificate; for other agents
    it is False. Actions that do not exist are never chosen, as far as their masks are known: give
    `learn(..., available=...)` if an environment tells them only on the way.

    The agent itself does not change. `heirloom.plot.draw_policy` draws the table, and `FixedPolicy`
    follows it.

    Args:
        agent: an agent with the attributes `Q` and `policy`, such as `RMax`.
        policy: another policy than that of the agent, one action per state, [s]. That of the agent
            may choose an action because little is known of it; `agent.certificate().policy` is the
            one that is known to be worth most.
        delta: δ of the certificate.
        state_names: the names of states, in order, such as `env.state_names`; None for those that
            the agent's tasks have. An agent without a memory, such as `QLearning`, knows none.
        action_names: the names of actions, likewise.
        declared: `successors`, `terminates` and `rewards`, as in `agent.certificate`.
    """
    import pandas as pd

    if not hasattr(agent, "policy") or not hasattr(agent, "Q"):
        raise InvalidArgument(
            f"agent is {shown(agent)}: expected one with values Q and a policy, such as hl.RMax"
        )
    Q = np.asarray(agent.Q)
    n_states, n_actions = Q.shape
    states, memory = np.arange(n_states), memory_of(agent)
    actions = np.asarray(agent.policy) if policy is None else _read_policy(policy, Q)
    known = NO_NAMES if memory is None else memory.names
    names = Names(
        checked_names(state_names, n_states, "state") or known.states,
        checked_names(action_names, n_actions, "action") or known.actions,
    )
    table: dict[str, Any] = {
        "state": states if names.states is None else [printable(x) for x in names.states],
        "action": actions
        if names.actions is None
        else [printable(names.actions[a]) for a in actions],
        "value": Q[states, actions],
    }
    certain = np.zeros(n_states, dtype=bool)
    if isinstance(agent, OptimisticAgent):
        table["visits"] = agent.model.own_counts.reshape(n_states, n_actions)[states, actions]
        found = certificate_apart(agent, delta=delta, **declared)
        others = np.where(np.isneginf(Q), -np.inf, found.Q_upper)
        others[states, actions] = -np.inf
        certain = found.Q_lower[states, actions] >= others.max(axis=1)
    table["certain"] = certain
    return pd.DataFrame(table)


def _read_policy(policy: ArrayLike, Q: FloatArray) -> IntArray:
    """Return a policy that was given; raise `InvalidArgument` unless its actions exist."""
    n_states, n_actions = Q.shape
    given = as_array("policy", policy)
    if given.shape != (n_states,) or given.dtype.kind not in "iu":
        raise InvalidArgument(
            f"policy is {shown(policy)}: expected the number of one action for each of the "
            f"{n_states} states"
        )
    for s in np.flatnonzero((given < 0) | (given >= n_actions))[:1]:
        raise InvalidArgument(
            f"policy has action {given[s]} in state {s}: expected one from 0 to {n_actions - 1}"
        )
    for s in np.flatnonzero(np.isneginf(Q[np.arange(n_states), given]))[:1]:
        raise InvalidArgument(
            f"policy has action {given[s]} in state {s}, where it does not exist: choose another"
        )
    return given.astype(np.int64)
