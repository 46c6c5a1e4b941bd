"""Mean returns in the grid and the maze of TempLe, beside those that its authors published.

The tasks are those of the public examples of TempLe (Sun, Yin and Huang, AAAI 2021): 4x4 cells,
four moves, γ = 0.95, 20 tasks of 5,000 episodes of 30 steps. A move slips to one of the two sides;
the goal is not terminal. Each step costs 0.2, and entering the goal pays 1.

- Grid: slip 0.4 everywhere; the goal is (4, 4) or (3, 3), drawn for each task.
- Maze: the slip of each cell is 0, 0.2 or 0.4, drawn for each task; the goal is (4, 4), and
  entering (2, 2) costs 1 instead of 0.2.

The start of a task is drawn once. Published numbers are means over one run, whose tasks are not
those here: in the grid the optimum depends on how often each goal was drawn. Their RMax differs
from ours: in a state with an unknown action it takes the one that it has tried least often, instead
of planning. So the order of the agents can be compared, and small differences cannot.

    python benchmarks/temple_grid.py --tasks 20 --episodes 5000
"""

import argparse

import numpy as np

import heirloom as hl
from heirloom.agents.algorithm_options import TaskKnowledge
from heirloom.agents.algorithms import ALGORITHMS

SIZE, GAMMA, STEPS, COST = 4, 0.95, 30, 0.2
MOVES = ((0, 1), (0, -1), (-1, 0), (1, 0))  # up, down, left, right
RANGE = (-1.0, 1.0 - COST)
GOALS = ((3, 3), (2, 2))
SLIPS, LAVA = (0.0, 0.2, 0.4), (1, 1)
PUBLISHED = {
    "grid": {"RMax": 4.945, "FMRL": 5.558, "QLearning": 6.617, "TempLe": 7.730},
    "maze": {"RMax": 12.618, "QLearning": 16.004, "TempLe": 16.968},
}
# Each algorithm is given those of the options that it has.
OPTIONS = {
    "grid": {"n_known": 500, "m": 500, "n_matched": 100, "distance": 0.24},
    "maze": {"n_known": 500, "m": 500, "n_matched": 50, "distance": 0.15},
}
OWN = {
    "RMax": {"refresh": "none"},
    "FMRL": {"refresh": "none", "first": 5, "evidence": 0.2},
}


def task(slips: np.ndarray, goal: tuple[int, int], lava: tuple[int, int] | None, start: int):
    """Build a task from the slip of each cell [x, y]; state x + 4 y is cell (x, y)."""
    n = SIZE * SIZE
    T = np.zeros((n, len(MOVES), n))
    entering = np.full(n, -COST)
    entering[goal[0] + SIZE * goal[1]] = 1.0 - COST
    if lava is not None:
        entering[lava[0] + SIZE * lava[1]] = -1.0
    for s in range(n):
        x, y = s % SIZE, s // SIZE
        for a, (dx, dy) in enumerate(MOVES):
            slip = slips[x, y]
            for p, (mx, my) in ((1 - slip, (dx, dy)), (slip / 2, (dy, dx)), (slip / 2, (-dy, -dx))):
                inside = 0 <= x + mx < SIZE and 0 <= y + my < SIZE
                T[s, a, s + (mx + SIZE * my) * inside] += p
    R = np.broadcast_to(entering, T.shape)
    return hl.TabularMDP(R, T, gamma=GAMMA, start=start, reward_range=RANGE)


def draw(where: str, rng: np.random.Generator) -> hl.TabularMDP:
    """Draw a task of the grid or of the maze."""
    start = int(rng.integers(SIZE * SIZE))
    if where == "grid":
        return task(np.full((SIZE, SIZE), 0.4), GOALS[rng.integers(2)], None, start)
    return task(rng.choice(SLIPS, (SIZE, SIZE)), GOALS[0], LAVA, start)


def options_of(name: str, where: str) -> dict:
    """Return the published options that an algorithm of the registry has."""
    fields = ALGORITHMS[name].options.model_fields
    given = {**OPTIONS[where], **OWN.get(name, {})}
    return {key: value for key, value in given.items() if key in fields}


def draw_tasks(where: str, n_tasks: int, seed: int) -> list[hl.TabularMDP]:
    """Draw the tasks of one run, which all agents face."""
    rng = np.random.default_rng(seed)
    return [draw(where, rng) for _ in range(n_tasks)]


def optimum(where: str, n_tasks: int, seed: int) -> float:
    """Return the mean optimal return per episode over the tasks of one run."""
    tasks = draw_tasks(where, n_tasks, seed)
    return float(np.mean([hl.optimal_return(m, horizon=STEPS, discounted=False) for m in tasks]))


def mean_return(name: str, where: str, n_tasks: int, episodes: int, seed: int) -> float:
    """Return the mean return per episode over the tasks of one run."""
    tasks = draw_tasks(where, n_tasks, seed)
    sizes = {"n_states": SIZE * SIZE, "n_actions": len(MOVES), "gamma": GAMMA}
    known = TaskKnowledge(
        {**sizes, "reward_range": RANGE, "terminating": False},
        None,
        lambda: None,
        lambda: None,
        tasks,
    )
    agent = ALGORITHMS[name].make(options_of(name, where), known, np.random.default_rng(seed))
    records = [
        hl.learn(agent, m, episodes=episodes, max_steps=STEPS, seed=1000 * seed + i)
        for i, m in enumerate(tasks)
    ]
    return float(np.mean([record.returns.mean() for record in records]))


def main() -> None:
    """Print the mean returns of each agent, in the order of the published ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=5000)
    parser.add_argument("--runs", type=int, default=1)
    arguments = parser.parse_args()
    for where, published in PUBLISHED.items():
        best = np.mean([optimum(where, arguments.tasks, seed) for seed in range(arguments.runs)])
        print(f"{where}: {arguments.tasks} tasks, {arguments.episodes} episodes of {STEPS} steps")
        print(f"  {'optimum':10} {best:7.3f}")
        for name, number in published.items():
            if name not in ALGORITHMS:
                print(f"  {name:10} is not registered; published: {number:.3f}")
                continue
            numbers = [
                mean_return(name, where, arguments.tasks, arguments.episodes, seed)
                for seed in range(arguments.runs)
            ]
            print(f"  {name:10} {np.mean(numbers):7.3f}  published: {number:.3f}", flush=True)


if __name__ == "__main__":
    main()
