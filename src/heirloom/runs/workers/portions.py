"""Divide jobs into portions: a worker of a cluster computes several short jobs per message."""

from collections.abc import Iterable
from itertools import islice

from heirloom.experiments.job import Job
from heirloom.runs.workers.compute import Computed

SECONDS = 0.25  # of work in a portion, so that little is lost with a worker
MOST_JOBS = 256  # in a portion, so that its results fit in a message
MOST_PORTIONS = 1000  # sent at the same time, if the number of parallel jobs is not given


class Portions:
    """Jobs that have not been sent to workers, in their order.

    How long a job takes is estimated from measured jobs of the same agent. The estimate rises at
    once, and at most halves with each job, since the first job of a worker also loads kernels. A
    job of an agent without a measured job is a portion of its own.
    """

    def __init__(self, jobs: list[Job]):
        self._jobs = jobs
        self._n_sent = 0
        self._seconds: dict[int, float] = {}  # estimate for a job of each agent

    def next(self) -> list[Job]:
        """Return the jobs to send next, or an empty list if all were sent."""
        size, seconds = 0, 0.0
        for agent, _ in islice(self._jobs, self._n_sent, self._n_sent + MOST_JOBS):
            seconds += self._seconds.get(agent, SECONDS)
            if size > 0 and seconds > SECONDS:
                break
            size += 1
        self._n_sent += size
        return self._jobs[self._n_sent - size : self._n_sent]

    def measure(self, portion: Iterable[Computed]) -> None:
        """Learn from computed jobs how long the jobs of their agents take."""
        for (agent, _), _, origin in portion:
            self._seconds[agent] = max(origin.seconds, self._seconds.get(agent, 0.0) / 2)
