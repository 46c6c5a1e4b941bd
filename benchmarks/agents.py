"""Agents against the floor: a compiled loop that looks up a greedy action and draws a successor.

One task of the paper's main experiment, an 11x11 grid, 2000 episodes of 10 steps, n_known = 10, all
compiled code warm. The floor takes the same number of steps and does nothing else. Runs alternate,
and medians are compared. Then what an agent costs a step in an environment that is run by hand.

    python benchmarks/agents.py
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

import heirloom as hl
from heirloom.envs.families import tight

EPISODES, STEPS, REPEATS = 2000, 10, 15
OPTIONS: dict[str, Any] = {
    "n_states": 121,
    "n_actions": 4,
    "gamma": 0.9,
    "n_known": 10,
    "epsilon": 0.01,
    "seed": 0,
}


@njit(cache=True)
def bare_loop(indptr, successors, p, Q, uniforms, start, n_actions, max_steps):
    """Greedy actions on a fixed table, successors drawn; nothing is counted or learned."""
    s, visited = start, 0
    for t in range(uniforms.size):
        if t % max_steps == 0:
            s = start
        best = 0
        for a in range(1, n_actions):
            if Q[s * n_actions + a] > Q[s * n_actions + best]:
                best = a
        j, last = indptr[s * n_actions + best], indptr[s * n_actions + best + 1] - 1
        total = p[j]
        while uniforms[t] >= total and j < last:
            j += 1
            total += p[j]
        s = successors[j]
        visited += s
    return visited


def seconds(run: Callable[[], Any]) -> float:
    """How long a run takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def tasks(number: int) -> list[hl.TabularMDP]:
    """Tasks of the main experiment, as released."""
    rng = np.random.default_rng(0)
    return [tight(rng.uniform(0.9, 1, 3), rng.uniform(0, 0.1)) for _ in range(number)]


def learned(agent: hl.OptimisticAgent, m: hl.TabularMDP, seed: int) -> hl.Record:
    """One task, in full."""
    return hl.learn(agent, m, episodes=EPISODES, max_steps=STEPS, seed=seed)


def after_sources(make: Callable[[], hl.OptimisticAgent], n_sources: int) -> Callable[[], Any]:
    """A run on a task after `n_sources` others; those are not timed."""
    *sources, m = tasks(n_sources + 1)
    agent = make()
    for i, source in enumerate(sources):
        learned(agent, source, i)
    memory = agent.memory.sources[:]

    def run() -> hl.Record:
        agent.memory.sources[:] = memory
        return learned(agent, m, n_sources)

    return run


def against_the_floor() -> None:
    """Print the ratios."""
    (m,) = tasks(1)
    t, rng = m.transitions, np.random.default_rng(0)
    Q, uniforms = rng.random(t.R.size), rng.random(EPISODES * STEPS)
    runs = {
        "floor": lambda: bare_loop(t.indptr, t.successors, t.p, Q, uniforms, 60, 4, STEPS),
        "RMax": after_sources(lambda: hl.RMax(**OPTIONS), 0),
        "LRMax, no prior, 1 source": after_sources(lambda: hl.LRMax(**OPTIONS), 1),
        "LRMax(0.1), 1 source": after_sources(lambda: hl.LRMax(d_max=0.1, **OPTIONS), 1),
        "LRMax(1.0), 1 source": after_sources(lambda: hl.LRMax(d_max=1.0, **OPTIONS), 1),
        "LRMax(0.1), 16 sources": after_sources(lambda: hl.LRMax(d_max=0.1, **OPTIONS), 16),
    }
    for run in runs.values():
        run()
    times = np.array([[seconds(run) for run in runs.values()] for _ in range(REPEATS)])
    medians = np.median(times, axis=0)
    print(f"{m}: {EPISODES} episodes of {STEPS} steps")
    for name, median in zip(runs, medians, strict=True):
        print(f"  {name:26} {1e3 * median:8.2f} ms {median / medians[0]:8.1f} x the floor")


def step_by_step() -> None:
    """Print what `act` and `observe` cost a step, outside of updates."""
    (m,) = tasks(1)
    n = 100_000
    for name, agent, learns in (
        ("all that is visited is known", hl.RMax(**OPTIONS), False),
        ("nothing is known yet", hl.RMax(**{**OPTIONS, "n_known": 10**9}), True),
    ):
        if not learns:
            learned(agent, m, 0)
        agent.begin_task()
        if not learns:
            agent.model.arrays.known[:] = True
        rng = np.random.default_rng(0)
        states = rng.integers(121, size=n).tolist()
        for s in range(121):
            agent.act(s)

        def run(agent: hl.OptimisticAgent = agent, states: list[int] = states) -> None:
            for s in states:
                a = agent.act(s)
                agent.observe(s, a, 0.0, s, terminated=False)

        print(f"  act and observe, {name}: {1e6 * seconds(run) / n:.2f} µs a step")


if __name__ == "__main__":
    against_the_floor()
    step_by_step()
