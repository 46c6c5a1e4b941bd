"""How many pairs of a task there are to learn, with and without transfer (Proposition 5)."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from heirloom.agents.paper_algorithms import LRMax, RMax
from heirloom.arrays import BoolArray
from heirloom.envs.family import TaskFamily
from heirloom.errors import InvalidArgument
from heirloom.learning.learn import learn
from heirloom.learning.streams import stream
from heirloom.mdp.tabular import TabularMDP, check_task
from heirloom.planning.solve import solve
from heirloom.validation import numbers, real_number


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


def count_pairs(
    tasks: TaskFamily,
    *,
    d_max: float,
    epsilon: float,
    n_known: int,
    episodes: int,
    steps: int,
    seed: int,
) -> dict[str, tuple[int, int]]:
    """By agent: the number of pairs with U >= V* - ε in a second task, and of all pairs.

    LRMax has learned a first task of the family, RMax starts from nothing.
    """
    rng = stream(seed, "tasks", 0)
    source, target = tasks.draw(rng), tasks.draw(rng)
    told: dict[str, Any] = {
        **tasks.options,
        "n_known": n_known,
        "seed": np.random.default_rng(seed),
    }
    lrmax, rmax = LRMax(d_max=d_max, **told), RMax(**told)
    learn(lrmax, source, episodes=episodes, max_steps=steps, seed=seed)
    counted = {}
    for name, agent in (("RMax", rmax), (f"LRMax({d_max:g})", lrmax)):
        agent.begin_task()
        wanted = pairs_to_learn(agent.U, target, epsilon=epsilon)
        counted[name] = int(wanted.sum()), wanted.size
    return counted
