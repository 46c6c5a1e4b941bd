"""Compile the kernels that most tests call, so that numba's cache has them before the tests start.

Otherwise each process that runs tests compiles them at the same time. `make test` runs this program
while it checks types: `python -m tests.compile_kernels GAMMA`, with a discount factor below and one
above `program.MAX_PLAIN_GAMMA`, which need different variants of the largest kernels.
"""

import sys
import warnings

import numpy as np

import heirloom as hl


def agents(tasks):
    """Agents with and without models of near tasks, and with and without checks of knowledge."""
    m = tasks[0]
    sizes = {"n_states": m.n_states, "n_actions": m.n_actions, "gamma": m.gamma}
    options = {**sizes, "reward_range": m.reward_range, "n_known": 1, "exact": True, "seed": 0}
    near = hl.family_nearness(tasks)
    on_table = {**sizes, "reward_range": m.reward_range, "seed": 0}
    yield hl.QLearning(**on_table)
    yield hl.BUMEX(nearness=near, **on_table)
    for reaction in ("ignore", "warn"):
        options["on_refutation"] = reaction
        yield hl.LRMax(d_max=hl.metrics.family_distance(tasks), **options)
        yield hl.NearRMax(nearness=near, **options)


def main(gamma):
    """Learn and compare small tasks."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    tasks = [hl.garnet(6, 2, branching=2, gamma=gamma, terminating=0.1, seed=rng) for _ in range(2)]
    for agent in agents(tasks):
        for m in (*tasks, tasks[0]):
            hl.learn(agent, m, episodes=4, max_steps=10, seed=0)
        hl.learn(agent, m.to_gymnasium(), episodes=2, max_steps=10, seed=0)
    hl.dissimilarity(*tasks)
    hl.local_pseudometric(*tasks)


if __name__ == "__main__":
    main(float(sys.argv[1]))
