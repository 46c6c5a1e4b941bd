"""Bellman operators: V = choice(R + γ T V), where the choice is the best action or a policy."""

from typing import NamedTuple, Protocol

import numpy as np
from scipy import sparse

from heirloom.arrays import FloatArray, IntArray, frozen
from heirloom.kernels import values
from heirloom.mdp.transitions import Rows


class Problem(NamedTuple):
    """What a Bellman operator is made of, over pairs k = s * A + a."""

    R: FloatArray
    rows: Rows
    gamma: float
    n_states: int
    ending: bool
    """Whether some rows sum to less than one, because transitions end."""

    @property
    def n_actions(self) -> int:
        """The number of actions, A."""
        return self.R.size // self.n_states


class Choice(Protocol):
    """How the values of the actions of a state, Q[s, a], become the value of the state."""

    roundings: int
    """How many roundings separate the result from the exact one."""

    def __call__(self, Q: FloatArray) -> FloatArray:
        """The values of states."""

    def restrict(self, problem: Problem) -> Problem:
        """A problem with the same values of states in which the best action is the choice."""


class Best:
    """The best action decides."""

    roundings = 0

    def __call__(self, Q: FloatArray) -> FloatArray:
        """max_a Q[s, a]."""
        return greedy(Q)[0]

    def restrict(self, problem: Problem) -> Problem:
        """The problem itself."""
        return problem


class Followed:
    """A policy decides, with probabilities `pi` [s, a]."""

    def __init__(self, pi: FloatArray) -> None:
        self.pi = pi
        self.roundings = pi.shape[1] + 2

    def __call__(self, Q: FloatArray) -> FloatArray:
        """Σ_a π(a | s) Q[s, a]."""
        return (self.pi * Q).sum(axis=1)

    def restrict(self, problem: Problem) -> Problem:
        """The problem with one action that is left when the policy decides."""
        R, rows, gamma, n_states, ending = problem
        state, action = np.nonzero(self.pi)
        choose = sparse.csr_array(
            (self.pi[state, action], (state, state * self.pi.shape[1] + action)),
            shape=(n_states, R.size),
        )
        T = choose @ sparse.csr_array((rows.p, rows.successors, rows.indptr), (R.size, n_states))
        indptr, successors = T.indptr.astype(np.int64), T.indices.astype(np.int32)
        chain = Rows(frozen(indptr), frozen(successors), frozen(T.data))
        return Problem(frozen(choose @ R), chain, gamma, n_states, ending)


def greedy(Q: FloatArray) -> tuple[FloatArray, IntArray]:
    """max_a Q[s, a], and the first action that attains it."""
    V, policy = np.empty(Q.shape[0]), np.empty(Q.shape[0], dtype=np.int64)
    values.maximise(Q.reshape(-1), V, policy)
    return V, policy
