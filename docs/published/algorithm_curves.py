"""How each algorithm of the registry learns one task, after the same earlier tasks.

The tasks are grids of 6x6 cells whose slip and goal reward differ, drawn from four. Each algorithm
learns a sequence of them with its default options and true knowledge; shown is the last task.
"""

from typing import Any

import numpy as np

import heirloom as hl
from heirloom.agents.algorithm_options import TaskKnowledge
from heirloom.agents.algorithms import ALGORITHMS

SEED = 33
CELLS = """
    ......
    .#..#.
    ......
    ..S...
    .#..#G
    ......"""
EARLIER, EPISODES, STEPS, REPETITIONS = 12, 200, 12, 10
BLOCK = 10  # episodes per point of a curve
OPTIONS: dict[str, dict[str, Any]] = {
    "LRMax": {"d_max": "family"},
    "LRMaxQInit": {"d_max": "family"},
    "CertifiedRMax": {"nearness": "family", "rewards": "per transition"},
    "EnvelopeRMax": {"alpha": 0.2, "first": 5},  # calibrated on 4 tasks
}


def family() -> hl.FiniteFamily:
    """Return four grids: slip 0.05 or 0.1, and goal reward 0.9 or 1."""
    tasks = {
        f"slip {slip:g}, reward {reward:g}": hl.grid_world(
            CELLS, gamma=0.9, slip=slip, goal_rewards=reward
        )
        for slip in (0.05, 0.1)
        for reward in (0.9, 1.0)
    }
    return hl.FiniteFamily(tasks)


def options_of(name: str, of: hl.FiniteFamily) -> dict[str, Any]:
    """Return the options of an algorithm: the defaults, and β if it needs one."""
    Q = np.array([hl.solve(m).Q for m in of.all_tasks])
    needed = {"beta": float(np.ptp(Q, axis=0).max())}
    fields = ALGORITHMS[name].options.model_fields
    return {**OPTIONS.get(name, {}), **{key: x for key, x in needed.items() if key in fields}}


def curve(name: str, repetition: int) -> np.ndarray:
    """Return the returns of the last task relative to the optimum, one mean per block."""
    of = family()
    rng = np.random.default_rng([SEED, repetition])
    tasks = [of.draw(rng) for _ in range(EARLIER + 1)]
    known = TaskKnowledge(of.options, of.p_min, lambda: of.d_max, lambda: of.nearness, tasks)
    agent = ALGORITHMS[name].make(options_of(name, of), known, rng)
    for i, m in enumerate(tasks):
        seed = 1000 * repetition + i
        record = hl.learn(agent, m, episodes=EPISODES, max_steps=STEPS, seed=seed)
    best = hl.optimal_return(tasks[-1], horizon=STEPS, discounted=False)
    return record.returns.reshape(-1, BLOCK).mean(axis=1) / best


def curves(repetitions: int = REPETITIONS) -> dict[str, np.ndarray]:
    """Return the mean curve of each registered algorithm."""
    return {
        name: np.mean([curve(name, i) for i in range(repetitions)], axis=0) for name in ALGORITHMS
    }
