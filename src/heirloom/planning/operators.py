"""Bellman operators V = choice(R + γ T V), for the best action or for a given policy."""

from typing import NamedTuple, Protocol

import numpy as np
from scipy import sparse

from heirloom.arrays import FloatArray, IntArray, frozen
from heirloom.kernels import values
from heirloom.mdp.available import SparseRows


class Problem(NamedTuple):
    """The rewards, transitions and discount factor of a Bellman operator, over k = s * A + a."""

    R: FloatArray
    rows: SparseRows
    gamma: float
    n_states: int
    terminating: bool
    """Whether some rows sum to less than 1, because transitions may terminate."""

    @property
    def n_actions(self) -> int:
        """The number of actions, A."""
        return self.R.size // self.n_states


class Choice(Protocol):
    """Maps the values of state-action pairs, Q[s, a], to values of states, V[s]."""

    roundings: int
    """The number of rounding errors between the result and the exact one."""

    def __call__(self, Q: FloatArray) -> FloatArray:
        """Return the values of states, V[s]."""

    def restrict(self, problem: Problem) -> Problem:
        """Return a problem whose optimal state values are the fixed point under this choice."""


class Best:
    """The value of a state is that of its best action."""

    roundings = 0

    def __call__(self, Q: FloatArray) -> FloatArray:
        """Return max_a Q[s, a]."""
        return greedy(Q)[0]

    def restrict(self, problem: Problem) -> Problem:
        """Return the problem itself."""
        return problem


class PolicyMean:
    """The value of a state is the mean over a policy with probabilities `pi` [s, a]."""

    def __init__(self, pi: FloatArray) -> None:
        self.pi = pi
        self.roundings = pi.shape[1] + 2

    def __call__(self, Q: FloatArray) -> FloatArray:
        """Return Σ_a π(a | s) Q[s, a]."""
        return (self.pi * Q).sum(axis=1)

    def restrict(self, problem: Problem) -> Problem:
        """Return the Markov chain of the policy, as a problem with one action."""
        R, rows, gamma, n_states, terminating = problem
        state, action = np.nonzero(self.pi)
        choose = sparse.csr_array(
            (self.pi[state, action], (state, state * self.pi.shape[1] + action)),
            shape=(n_states, R.size),
        )
        T = choose @ sparse.csr_array((rows.p, rows.successors, rows.indptr), (R.size, n_states))
        indptr, successors = T.indptr.astype(np.int64), T.indices.astype(np.int32)
        chain = SparseRows(frozen(indptr), frozen(successors), frozen(T.data))
        return Problem(frozen(choose @ R), chain, gamma, n_states, terminating)


def greedy(Q: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return max_a Q[s, a] and, for each state, the first action that attains it."""
    V, policy = np.empty(Q.shape[0]), np.empty(Q.shape[0], dtype=np.int64)
    values.maximise(Q.reshape(-1), V, policy)
    return V, policy
