"""Estimate how long a run takes, from parts of a few jobs."""

import time
from collections.abc import Callable
from typing import Any

from heirloom.experiments.job import run_job, shared_results
from heirloom.experiments.spec import ExperimentSpec

ENOUGH = 0.3  # seconds of a measurement that is not repeated with more episodes or tasks
MOST_MEASURED = 8  # agents whose time is measured


def estimate_seconds(spec: ExperimentSpec) -> float:
    """Estimate the processor time of a run in seconds, by computing parts of a few jobs.

    One agent of each algorithm learns the first task of a sequence, for more and more episodes. If
    that takes little time, it learns more and more tasks, since agents that use earlier tasks take
    longer in later ones. The time of the rest is extrapolated.
    """
    spec = spec.model_copy(update={"record": None})  # recordings take hardly any time
    measured: dict[str, float] = {}
    total = 0.0
    for i, agent in enumerate(spec.agents):
        if agent.algorithm not in measured and len(measured) < MOST_MEASURED:
            measured[agent.algorithm] = _seconds_per_job(spec, i)
        mean = sum(measured.values()) / len(measured)
        total += measured.get(agent.algorithm, mean)
    shared = _timed(lambda: shared_results(spec.with_changes(tasks=1, repetitions=1), 0))
    return (total + shared * spec.tasks) * spec.repetitions


def _seconds_per_job(spec: ExperimentSpec, agent: int) -> float:
    def seconds(tasks: int, episodes: int) -> float:
        part = spec.with_changes(tasks=tasks, episodes=episodes, repetitions=1)
        return _timed(lambda: run_job(part, agent, 0))

    seconds(min(2, spec.tasks), 1)  # compiles kernels
    return extrapolated(seconds, spec.tasks, spec.episodes)


def extrapolated(seconds: Callable[[int, int], float], tasks: int, episodes: int) -> float:
    """Return the time of all tasks and episodes, from `seconds(tasks, episodes)` of parts."""
    measured, of_first = _grown(lambda n: seconds(1, n), episodes)
    if measured == episodes:
        return _grown(lambda n: seconds(n, episodes), tasks)[1]
    if tasks == 1:
        return of_first
    # Each later task takes as much longer than the first one as with the episodes measured.
    first, both = seconds(1, measured), seconds(2, measured)
    return of_first * (1 + max(1.0, (both - first) / first) * (tasks - 1))


def _grown(seconds: Callable[[int], float], size: int) -> tuple[int, float]:
    """Measure larger and larger parts; return the size of the last one, and the time of the whole.

    The time that does not depend on the size is measured with the smallest part.
    """
    n, least = 1, seconds(1)
    before, n_before, now = least, 1, least
    while n < size and now - least < ENOUGH:
        before, n_before = now, n
        n = min(4 * n, size)
        now = seconds(n)
    slope = max(now - before, 0.0) / (n - n_before) if n > n_before else 0.0
    return n, now + slope * (size - n)


def _timed(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
