"""What transfer does to the sample complexity of a task, before a step of it was taken."""

import numpy as np

from heirloom.agents.catalogue import LRMax, RMax
from heirloom.experiments.catalogue import make_family
from heirloom.experiments.loop import learn
from heirloom.experiments.streams import stream
from heirloom.transfer.complexity import pairs_to_learn


def count_pairs(
    family: str,
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
    tasks = make_family(family, {})
    rng = stream(seed, "tasks", 0)
    source, target = tasks.draw(rng), tasks.draw(rng)
    told = {
        "n_states": source.n_states,
        "n_actions": source.n_actions,
        "gamma": source.gamma,
        "reward_range": source.reward_range,
        **getattr(tasks, "options", {}),
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
