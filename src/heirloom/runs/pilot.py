"""Estimate how long a run takes, from a few episodes of its first task."""

import time

from heirloom.experiments.job import run_job
from heirloom.experiments.spec import ExperimentSpec

ENOUGH = 0.3  # seconds of a measurement that is not repeated with more episodes
MOST_MEASURED = 8  # agents whose time is measured


def estimate_seconds(spec: ExperimentSpec) -> float:
    """Estimate the processor time of a run in seconds, by computing parts of a few jobs.

    One agent of each algorithm learns the first task of a sequence, for more and more episodes; the
    time of the others is extrapolated. Agents that use earlier tasks may take longer.
    """
    measured: dict[str, float] = {}
    total = 0.0
    for i, agent in enumerate(spec.agents):
        if agent.algorithm not in measured and len(measured) < MOST_MEASURED:
            measured[agent.algorithm] = _seconds_per_task(spec, i)
        mean = sum(measured.values()) / len(measured)
        total += measured.get(agent.algorithm, mean)
    return total * spec.tasks * spec.repetitions


def _seconds_per_task(spec: ExperimentSpec, agent: int) -> float:
    spec = spec.model_copy(update={"record": None})  # recordings take hardly any time
    run_job(spec.with_changes(tasks=1, episodes=1, repetitions=1), agent, 0)  # compiles kernels
    episodes, before, n_before = 1, 0.0, 0
    while True:
        started = time.perf_counter()
        run_job(spec.with_changes(tasks=1, episodes=episodes, repetitions=1), agent, 0)
        seconds = time.perf_counter() - started
        if seconds >= ENOUGH or episodes == spec.episodes:
            break
        before, n_before = seconds, episodes
        episodes = min(4 * episodes, spec.episodes)
    per_episode = max(seconds - before, 0.0) / (episodes - n_before)
    return seconds + per_episode * (spec.episodes - episodes)
