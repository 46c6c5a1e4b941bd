"""Growth of the cost with the number of sources and with the number of states.

Sources: the time of one task of the paper's main experiment (2000 episodes of 10 steps) after 16
and after 1000 others; `agents.py` measures smaller numbers of sources. Visits: the time in which a
memory adds the visits of such a task to those of earlier tasks, and computes pooled rows. States:
the mean time of an update, which follows each pair that becomes known, in square grids of 10^4 and
of 10^5 states with 4 sources. All times are processor times, which other programs on the machine
affect less than elapsed time. Runs alternate, and minima are compared.

    python benchmarks/scaling.py
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from agents import EPISODES, OPTIONS, best_times, learn_task, tasks
from rows import Measured, Row, as_text

import heirloom as hl
from heirloom.agents.task_learner import TaskLearner
from heirloom.envs.grid import grid_world
from heirloom.transfer.visits import Visits

TARGETS = {
    "LRMax without prior, 1000 sources / RMax": 1.1,
    "visits pooled, 10000 tasks before / 100 tasks before": 1.5,
    **{
        f"update, {name}, 10^5 states / 10^4 states": 3.0
        for name in ("RMax", "LRMax(0.1)", "LRMax(1)", "LRMax(19)", "NearRMax")
    },
}
"""The largest acceptable ratios."""


def measure() -> Measured:
    """Measure all ratios."""
    ratios = {**with_sources(), **with_visits(), **with_states()}
    return Measured([Row(name, x, at_most=TARGETS.get(name)) for name, x in ratios.items()])


def with_sources(few: int = 16, many: int = 1000) -> dict[str, float]:
    """Compare a task after many sources with the same task after few sources, and with RMax."""
    *sources, m = tasks(many + 1)
    memory = _memory_of(hl.RMax(**OPTIONS), sources)

    def lrmax(n: int, **options: float) -> Callable[[], object]:
        # The prior is false for some of these tasks; a warning would not change the time.
        agent = hl.LRMax(on_refutation="ignore", **options, **OPTIONS)
        return _run(agent, m, memory[-n:])

    # These are timed separately: runs with many sources displace the data of others from caches.
    with_prior = best_times({n: lrmax(n, d_max=0.1) for n in (few, many)})
    without_prior = best_times({"RMax": _run(hl.RMax(**OPTIONS), m, []), "LRMax": lrmax(many)})
    return {
        f"LRMax(0.1), {many} sources / {few} sources": with_prior[many] / with_prior[few],
        f"LRMax without prior, {many} sources / RMax": without_prior["LRMax"]
        / without_prior["RMax"],
    }


def with_visits(few: int = 100, many: int = 10_000) -> dict[str, float]:
    """Compare the time in which a memory pools the visits of a task after many and few others."""
    rows = [source.rows for source in _memory_of(hl.RMax(**OPTIONS), tasks(16))]

    def pool(n: int) -> Callable[[], object]:
        visits = Visits(OPTIONS["n_states"], OPTIONS["n_actions"])
        for i in range(n):
            visits.add(rows[i % len(rows)])

        def run() -> object:
            for of_task in rows:
                visits.add(of_task)
                pooled = visits.rows
            return pooled

        return run

    times = best_times({n: pool(n) for n in (few, many)})
    name = f"visits pooled, {many} tasks before / {few} tasks before"
    return {name: times[many] / times[few]}


def with_states(sides: tuple[int, int] = (100, 316)) -> dict[str, float]:
    """Compare the time of an update in a grid of 10^5 states with that in one of 10^4."""
    ratios = {}
    for name, options in (
        ("RMax", {}),
        ("LRMax(0.1)", {"d_max": 0.1}),
        ("LRMax(1)", {"d_max": 1.0}),
        ("LRMax(19)", {"d_max": 19.0}),
        ("NearRMax", {}),
    ):
        small, large = (min(_update_time(side, name, options) for _ in range(2)) for side in sides)
        ratios[f"update, {name}, 10^5 states / 10^4 states"] = large / small
    return ratios


def _memory_of(agent: hl.OptimisticAgent, learned: list[hl.TabularMDP]) -> list[Any]:
    for seed, m in enumerate(learned):
        learn_task(agent, m, seed, EPISODES)
    return agent.memory.sources


def _run(agent: hl.OptimisticAgent, m: hl.TabularMDP, sources: list[Any]) -> Callable[[], object]:
    """Return a run of one task with `sources` in memory, which it does not change."""

    def run() -> object:
        agent.memory._sources[:] = sources
        return learn_task(agent, m, 0, EPISODES)

    return run


def _grid(side: int, slip: float) -> hl.TabularMDP:
    """Return an open room with the goal near the start, so that all sizes are equally difficult."""
    rows = [["."] * side for _ in range(side)]
    rows[side // 2][side // 2], rows[side // 2 + 7][side // 2 + 7] = "S", "G"
    text = "\n".join("".join(row) for row in rows)
    return grid_world(text, gamma=0.95, slip=slip)


def _update_time(side: int, name: str, options: dict[str, float]) -> float:
    """Return the mean time of an update; NearRMax has the exact nearness of the grids.

    Updates inside compiled code cannot be timed, so agents are stepped from Python.
    """
    grids = [_grid(side, slip) for slip in (0.0, 0.02, 0.04, 0.06, 0.08)]
    common: dict[str, Any] = {
        "n_states": grids[0].n_states,
        "n_actions": 4,
        "gamma": 0.95,
        "n_known": 5,
        "refresh": None,
        "epsilon": 0.001,
        "seed": 0,
        "on_refutation": "ignore",  # the priors are guesses
    }
    agent: hl.OptimisticAgent = hl.RMax(**common)
    if name == "NearRMax":
        agent = hl.NearRMax(nearness=hl.family_nearness(grids), **common)
    elif options:
        agent = hl.LRMax(**options, **common)
    times: list[float] = []
    update = TaskLearner._update

    def timed(learner: TaskLearner, pair: int) -> None:
        started = time.thread_time()
        update(learner, pair)
        times.append(time.thread_time() - started)

    TaskLearner._update = timed  # type: ignore[method-assign]
    for seed, m in enumerate(grids):
        times.clear()
        hl.learn(agent, m.to_gymnasium(), episodes=60, max_steps=100, seed=seed)
    TaskLearner._update = update  # type: ignore[method-assign]
    return float(np.mean(times))


if __name__ == "__main__":
    print(as_text(measure().rows))
