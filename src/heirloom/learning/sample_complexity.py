"""Number of pairs that an agent must learn, with and without transfer (Proposition 5)."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from heirloom.agents.paper_algorithms import LRMax, RMax
from heirloom.arrays import BoolArray
from heirloom.envs.family import TaskFamily
from heirloom.errors import InvalidArgument
from heirloom.learning.learn import learn
from heirloom.learning.outcomes import begin
from heirloom.learning.streams import stream
from heirloom.mdp.tabular import TabularMDP, check_task
from heirloom.planning.solve import solve
from heirloom.validation import numbers, real_number


def pairs_to_learn(U: ArrayLike, m: TabularMDP, *, epsilon: float) -> BoolArray:
    """Return where `U(s, a) >= V*(s) - ε`, [s, a]: the pairs that an agent with bound U must learn.

    Actions that are not available do not count.

    With n such pairs, the agent is ε-optimal in all but `S · n / (ε³ (1-γ)³)` steps, up to constant
    and logarithmic factors, with high probability (Proposition 5).
    """
    check_task(m)
    bound = numbers("U", U)
    if bound.shape != m.R.shape:
        raise InvalidArgument(
            f"U has shape {bound.shape}: expected one value for each pair of the task, shape "
            f"{m.R.shape}"
        )
    epsilon = real_number("epsilon", epsilon, "expected an accuracy, 0 or more", least=0)
    sol = solve(m)
    # V may be above V* by up to its error; subtracting the error includes every pair that counts.
    return np.asarray(bound >= sol.V[:, None] - sol.error - epsilon) & m.available


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
    """Count the pairs with U >= V* - ε at the beginning of a second task of a family.

    RMax has learned nothing before; LRMax has learned a first task of the family.

    Returns:
        For each agent, by name: the number of these pairs, and the number of all pairs.
    """
    rng = stream(seed, "tasks", 0)
    source, target = tasks.draw(rng), tasks.draw(rng)
    options: dict[str, Any] = {
        **tasks.options,
        "n_known": n_known,
        "refresh": None,
        "seed": np.random.default_rng(seed),
    }
    lrmax, rmax = LRMax(d_max=d_max, **options), RMax(**options)
    learn(lrmax, source, episodes=episodes, max_steps=steps, seed=seed)
    counts = {}
    for name, agent in (("RMax", rmax), (f"LRMax({d_max:g})", lrmax)):
        begin(agent, target)
        to_learn = pairs_to_learn(agent.U, target, epsilon=epsilon)
        counts[name] = int(to_learn.sum()), int(target.available.sum())
    return counts
