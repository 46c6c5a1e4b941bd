"""Cost of agents, relative to the floor: a bare loop that acts greedily and draws successors.

Each run is one task of the paper's main experiment: an 11x11 grid, 2000 episodes of 10 steps,
n_known = 10, with all code compiled before. The floor is a compiled loop that takes the same number
of steps and does nothing else. Runs alternate, and minima are compared. The script also prints the
cost per step of `act` and `observe`, for environments that are stepped by the user.

    python benchmarks/agents.py
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from peer import ask
from rows import Measured, Row

import heirloom as hl
from heirloom.agents.algorithm_options import TaskKnowledge
from heirloom.agents.algorithms import ALGORITHMS
from heirloom.envs.paper_families import Tight
from heirloom.envs.paper_tasks import tight
from heirloom.learning.episodes import Record

EPISODES, STEPS, REPEATS = 2000, 10, 40
SLICE, HORIZON, SLIP, SEEDS = 200, 4, 0.05, 4  # of the comparison with simple_rl
OPTIONS: dict[str, Any] = {
    "n_states": 121,
    "n_actions": 4,
    "gamma": 0.9,
    "n_known": 10,
    "refresh": None,
    "epsilon": 0.01,
    "seed": 0,
}
ALGORITHM_REPEATS = 5
# Algorithms plan at looks, PSRL before each episode. None: no target, the number is reported.
TARGETS: dict[str, float | None] = {"PSRL": 300, "NearPSRL": None, "BisimulationTransfer": None}
TARGET = 100


@njit(cache=True)
def bare_loop(indptr, successors, p, Q, uniforms, start, n_actions, max_steps):
    """Act greedily on a fixed table and draw successors, without counting or learning."""
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
    """Return the processor time of a run, which other programs on the machine affect little."""
    start = time.process_time()
    run()
    return time.process_time() - start


def tasks(number: int) -> list[hl.TabularMDP]:
    """Draw tasks of the main experiment, with the released settings."""
    rng = np.random.default_rng(0)
    return [tight(rng.uniform(0.9, 1, 3), rng.uniform(0, 0.1)) for _ in range(number)]


def learn_task(agent: hl.Agent, m: hl.TabularMDP, seed: int, episodes: int) -> Record:
    """Let an agent learn one task."""
    return hl.learn(agent, m, episodes=episodes, max_steps=STEPS, seed=seed)


def after_sources(
    make: Callable[[], hl.OptimisticAgent], n_sources: int, *, kept_meanwhile: int = 16
) -> Callable[[], Any]:
    """Let an agent learn `n_sources` tasks, untimed, and return a run on one more task.

    While the agent learns the sources, it has only the last `kept_meanwhile` of them, which is
    faster; in the run it has all.
    """
    *sources, m = tasks(n_sources + 1)
    agent, memory = make(), []
    for i, source in enumerate(sources):
        agent.memory._sources[:] = memory[-kept_meanwhile:]
        learn_task(agent, source, i, EPISODES)
        memory.append(agent.memory.sources[-1])

    def run() -> Record:
        agent.memory._sources[:] = memory
        return learn_task(agent, m, n_sources, EPISODES)

    return run


def best_times(runs: dict[Any, Callable[[], Any]]) -> dict[Any, float]:
    """Return the smallest processor time of each run, after a warm-up; the runs alternate."""
    for run in runs.values():
        run()
    times = [[seconds(run) for run in runs.values()] for _ in range(REPEATS)]
    return dict(zip(runs, np.min(times, axis=0).tolist(), strict=True))


def floor() -> Callable[[], Any]:
    """Return a run of the floor."""
    (m,) = tasks(1)
    t, rng = m.transitions, np.random.default_rng(0)
    Q, uniforms = rng.random(t.R.size), rng.random(EPISODES * STEPS)
    return lambda: bare_loop(t.indptr, t.successors, t.p, Q, uniforms, 60, 4, STEPS)


def task_times() -> dict[str, float]:
    """Return the seconds of the floor and of agents, on one task after their sources."""

    def lrmax(d_max: float | None) -> Callable[[], hl.OptimisticAgent]:
        return lambda: hl.LRMax(d_max=d_max, **OPTIONS)

    def near_rmax() -> hl.OptimisticAgent:
        return hl.NearRMax(nearness=hl.Nearness(rewards=0.19, transitions=0.1), **OPTIONS)

    successors = hl.family_nearness(tasks(1)).successors

    def psrl(sample: str) -> Callable[[], hl.OptimisticAgent]:
        return lambda: hl.PSRL(successors=successors, terminates=False, sample=sample, **OPTIONS)

    return best_times(
        {
            "floor": floor(),
            "RMax": after_sources(lambda: hl.RMax(**OPTIONS), 0),
            "RMax after 1 task": after_sources(lambda: hl.RMax(**OPTIONS), 1),
            "RMax after 16 tasks": after_sources(lambda: hl.RMax(**OPTIONS), 16),
            "LRMax without prior, 1 source": after_sources(lrmax(None), 1),
            "LRMax without prior, 16 sources": after_sources(lrmax(None), 16),
            "LRMax(0.1), 1 source": after_sources(lrmax(0.1), 1),
            "LRMax(1.0), 1 source": after_sources(lrmax(1.0), 1),
            "LRMax(0.1), 16 sources": after_sources(lrmax(0.1), 16),
            "LRMax(0.1), 256 sources": after_sources(lrmax(0.1), 256),
            "NearRMax, 1 source": after_sources(near_rmax, 1),
            "NearRMax, 16 sources": after_sources(near_rmax, 16),
            "NearRMax, 256 sources": after_sources(near_rmax, 256),
            "PSRL, a sample per episode": after_sources(psrl("episode"), 0),
            "PSRL, samples as visits grow": after_sources(psrl("visits"), 0),
        }
    )


def print_task_times() -> None:
    """Print the times of a task, and their ratios to the floor."""
    times = task_times()
    print(f"{tasks(1)[0]}: {EPISODES} episodes of {STEPS} steps")
    for name, time_taken in times.items():
        ratio = time_taken / times["floor"]
        print(f"  {name:32} {1e3 * time_taken:8.2f} ms {ratio:8.1f} x the floor")


def measure() -> Measured:
    """Measure the ratios of agents to the floor and to each other."""
    times = task_times()

    def row(fast_label: str, slow: str, fast: str, at_most: float | None) -> Row:
        return Row(f"{slow} / {fast_label}", times[slow] / times[fast], at_most=at_most)

    rows = [
        row("the floor", "RMax", "floor", 12),
        row("the floor", "LRMax without prior, 1 source", "floor", None),
        # Both agents learn the same task, because tasks differ in how much there is to learn.
        row("RMax", "LRMax without prior, 1 source", "RMax after 1 task", 1.1),
        row("RMax", "LRMax without prior, 16 sources", "RMax after 16 tasks", 1.1),
        row("the floor", "LRMax(0.1), 1 source", "floor", 60),
        row("the floor", "LRMax(0.1), 16 sources", "floor", 250),
        row("16 sources", "LRMax(0.1), 256 sources", "LRMax(0.1), 16 sources", 6),
        row("the floor", "LRMax(1.0), 1 source", "floor", None),
        row("the floor", "NearRMax, 1 source", "floor", 60),
        row("the floor", "NearRMax, 16 sources", "floor", 120),
        row("16 sources", "NearRMax, 256 sources", "NearRMax, 16 sources", 6),
        row("the floor", "PSRL, a sample per episode", "floor", None),
        row("the floor", "PSRL, samples as visits grow", "floor", None),
    ]
    return Measured(rows, times)


def make_agent(name: str) -> Any:
    """Return an agent of the registry, with default options and true knowledge of the tasks."""
    family = Tight()
    fields = ALGORITHMS[name].options.model_fields
    options = {key: value for key, value in {"beta": 1.0}.items() if key in fields}
    known = TaskKnowledge(
        family.options, 1 / 5, lambda: family.d_max, lambda: family.nearness, tasks(2)
    )
    return ALGORITHMS[name].make(options, known, np.random.default_rng(0))


def second_task_time(name: str) -> float:
    """Return the processor time in which an algorithm learns a task, after another one."""
    first, second = tasks(2)
    agent = make_agent(name)
    learn_task(agent, first, 0, EPISODES)
    return seconds(lambda: learn_task(agent, second, 1, EPISODES))


def measure_algorithms() -> Measured:
    """Measure the ratio to the floor of every algorithm of the registry, on its second task."""
    run_floor = floor()
    run_floor()
    bare = min(seconds(run_floor) for _ in range(REPEATS))
    times = {}
    for name in ALGORITHMS:
        second_task_time(name)  # compiles
        times[name] = min(second_task_time(name) for _ in range(ALGORITHM_REPEATS))
    rows = [
        Row(f"{name}, defaults / the floor", taken / bare, at_most=TARGETS.get(name, TARGET))
        for name, taken in times.items()
    ]
    return Measured(rows, {f"{name}, defaults": taken for name, taken in times.items()})


def measure_simple_rl() -> Measured:
    """Compare the RMax of simple_rl with ours on the same grid.

    RMax of simple_rl plans `HORIZON` steps ahead at every step, and its cost per step grows as it
    learns. Therefore it runs `SLICE` episodes only. Ours is timed on the same number of episodes,
    and on a whole task, per step. Both run with `SEEDS` seeds, because the cost of planning depends
    on the observations.
    """
    m = tight([1.0, 1.0, 1.0], SLIP)
    agent = hl.RMax(**OPTIONS)

    def ours(seed: int, episodes: int) -> Callable[[], Any]:
        return lambda: (agent.memory._sources.clear(), learn_task(agent, m, seed, episodes))

    times = best_times(
        {(seed, n): ours(seed, n) for seed in range(SEEDS) for n in (SLICE, EPISODES)}
    )
    slice_time, task_time = (
        sum(times[seed, n] for seed in range(SEEDS)) for n in (SLICE, EPISODES)
    )
    numbers = (SLICE, STEPS, OPTIONS["n_known"], HORIZON, SLIP, SEEDS)
    theirs = ask("simple_rl_rmax.py", *map(str, numbers))
    same_episodes = f"simple_rl RMax / ours, both on {SLICE} episodes"
    per_step = f"simple_rl RMax on {SLICE} episodes / ours on {EPISODES}, per step"
    seconds_taken = {
        f"RMax on the grid of simple_rl, {SLICE} episodes": slice_time / SEEDS,
        f"RMax on the grid of simple_rl, {EPISODES} episodes": task_time / SEEDS,
    }
    if theirs.seconds is None:
        rows = [
            Row(same_episodes, None, at_least=10_000, note=theirs.problem),
            Row(per_step, None),
        ]
        return Measured(rows, seconds_taken)
    seconds_taken[f"simple_rl RMax, {SLICE} episodes"] = theirs.seconds / SEEDS
    rows = [
        Row(same_episodes, theirs.seconds / slice_time, at_least=10_000, stopped=theirs.stopped),
        Row(per_step, theirs.seconds / task_time * EPISODES / SLICE, stopped=theirs.stopped),
    ]
    return Measured(rows, seconds_taken, {"simple_rl": theirs.version})


def print_step_times() -> None:
    """Print the cost of `act` and `observe` per step, without updates."""
    (m,) = tasks(1)
    n = 100_000
    for name, agent, learns in (
        ("all visited pairs known", hl.RMax(**OPTIONS), False),
        ("no pair known", hl.RMax(**{**OPTIONS, "n_known": 10**9}), True),
    ):
        if not learns:
            learn_task(agent, m, 0, EPISODES)
        agent.begin_task()
        if not learns:
            agent.model._arrays.known[:] = True
        rng = np.random.default_rng(0)
        states = rng.integers(121, size=n).tolist()
        for s in range(121):
            agent.act(s)

        def run(agent: hl.OptimisticAgent = agent, states: list[int] = states) -> None:
            for s in states:
                a = agent.act(s)
                agent.observe(s, a, 0.0, s, terminated=False)

        print(f"  act and observe, {name}: {1e6 * seconds(run) / n:.2f} µs per step")


if __name__ == "__main__":
    print_task_times()
    print_step_times()
