"""How much there is to learn, and to compute (Propositions 5 and 6)."""

import math

import numpy as np
from numpy.typing import ArrayLike

from heirloom.arguments import numbers, real_number, whole_number
from heirloom.arrays import BoolArray
from heirloom.errors import InvalidArgument
from heirloom.mdp.exact import TabularMDP, check_gamma, check_task
from heirloom.mdp.solving import solve


def pairs_to_learn(U: ArrayLike, m: TabularMDP, *, epsilon: float) -> BoolArray:
    """Where U(s, a) >= V*(s) - ε, [s, a]: what the sample complexity of an agent counts.

    The agent needs about S · count / (ε³ (1-γ)³) samples for an ε-optimal return, up to logarithms.
    """
    check_task(m)
    bound = numbers("U", U)
    if bound.shape != m.R.shape:
        raise InvalidArgument(f"U has shape {bound.shape}: the task has pairs {m.R.shape}")
    epsilon = real_number("epsilon", epsilon, "an accuracy is from 0 up", least=0)
    sol = solve(m)
    # V may be above V* by its error: no pair that counts is left out.
    return np.asarray(bound >= sol.V[:, None] - sol.error - epsilon)


def dynamic_programs(n_states: int, n_actions: int, n_sources: int) -> int:
    """S A (2N + 1): how many dynamic programs a task takes at most, with N sources."""
    pairs = whole_number("n_states", n_states) * whole_number("n_actions", n_actions)
    return pairs * (2 * whole_number("n_sources", n_sources, least=0) + 1)


def value_iterations(gamma: float, precision: float) -> int:
    """⌈ln(1 / (ε_Q (1-γ))) / (1-γ)⌉: sweeps of value iteration for a dynamic program."""
    gamma = check_gamma(gamma)
    precision = real_number("precision", precision, "it is a positive number", above=0)
    return max(0, math.ceil(math.log(1 / (precision * (1 - gamma))) / (1 - gamma)))
