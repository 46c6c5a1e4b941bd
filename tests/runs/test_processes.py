"""Worker processes on this machine: what happens when one is killed, and when one is used again."""

import os
import signal
import subprocess
import sys
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

import heirloom as hl
from heirloom.runs.batch import Origin
from heirloom.runs.workers import processes
from heirloom.runs.workers.compute import Computed
from heirloom.runs.workers.processes import RETRIES, compute_locally
from tests.small_run import wait_until

JOBS = [(agent, repetition) for agent in range(2) for repetition in range(10)]


@pytest.fixture(autouse=True)
def _no_idle_workers():
    """Each test begins and ends without workers."""
    yield
    processes._stop_idle()


def computed(job, **results):
    """Return results of a job; `pid` is the process that computed it."""
    arrays = {"pid": np.array(os.getpid()), **results}
    return Computed(job, arrays, Origin(0.0, "worker", {}))


def jobs_of(results):
    return sorted(result.job for result in results)


def pids_of(results):
    return {int(result.results["pid"]) for result in results}


def write_half_a_result_and_die(job, folder):
    """Kill this process in the middle of a message, the first time that `job` is computed."""
    if job == JOBS[3] and not (folder / "killed").exists():

        def send(self, data, write=None):
            os.write(self.fileno(), data[: len(data) // 2])
            (folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)

        Connection._send = send
    return computed(job, large=np.zeros(100_000))


def test_run_goes_on_when_a_worker_is_killed_while_it_writes_a_result(tmp_path, caplog):
    """Pools of joblib and `concurrent.futures` wait forever for the second half of the message."""
    results = list(compute_locally(partial(write_half_a_result_and_die, folder=tmp_path), JOBS, 2))
    assert (tmp_path / "killed").exists()
    assert jobs_of(results) == JOBS
    assert [record.getMessage() for record in caplog.records] == [
        "heirloom: a worker process was killed, perhaps because memory ran out; another one "
        "computes its jobs"
    ]


def count_and_die(job, folder):
    """Kill this process whenever it computes a certain job."""
    if job == JOBS[7]:
        (folder / str(os.getpid())).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return computed(job)


def test_job_that_kills_every_worker_ends_the_run_with_an_error(tmp_path):
    results = compute_locally(partial(count_and_die, folder=tmp_path), JOBS, 2)
    with pytest.raises(hl.WorkerLost, match="a worker process was killed"):
        list(results)
    assert len(list(tmp_path.iterdir())) == RETRIES + 1


def test_workers_are_used_again_by_the_next_call():
    first, second = (pids_of(compute_locally(computed, JOBS, 2)) for _ in range(2))
    assert second <= first
    assert len(first) == 2
    assert os.getpid() not in first


def test_workers_with_another_environment_are_not_used_again(monkeypatch):
    first = pids_of(compute_locally(computed, JOBS, 2))
    monkeypatch.setenv("SOME_SETTING", "1")
    second = pids_of(compute_locally(computed, JOBS, 2))
    assert not first & second


def test_idle_worker_that_was_killed_is_replaced():
    victim = min(pids_of(compute_locally(computed, JOBS, 2)))
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: not all(worker.process.is_alive() for worker in processes._idle))
    results = list(compute_locally(computed, JOBS, 2))
    assert jobs_of(results) == JOBS
    assert victim not in pids_of(results)


def test_idle_workers_are_stopped_after_a_while(monkeypatch):
    monkeypatch.setattr(processes, "IDLE_SECONDS", 0.2)
    list(compute_locally(computed, JOBS, 2))
    workers = list(processes._idle)
    wait_until(lambda: not processes._idle)
    wait_until(lambda: not any(worker.process.is_alive() for worker in workers))


def test_closing_the_results_stops_the_workers():
    results = compute_locally(computed, JOBS, 2)
    next(results)
    results.close()
    assert processes._idle == []


def raise_in_job(job, error):
    if job == JOBS[5]:
        raise error
    return computed(job)


class UnpicklableError(Exception):
    """An exception that cannot be restored from its arguments."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (hl.InvalidArgument("gamma is 2"), hl.InvalidArgument),
        (OSError("no space left"), OSError),
        (EOFError("an exception of the job, not of its connection"), EOFError),
    ],
)
def test_exception_of_a_job_is_raised_with_the_traceback_of_the_worker(error, raised):
    with pytest.raises(raised) as caught:
        list(compute_locally(partial(raise_in_job, error=error), JOBS, 2))
    assert str(caught.value) == str(error)
    assert "in raise_in_job" in caught.value.__notes__[0]
    assert processes._idle == []


def raise_unpicklable(job):
    raise UnpicklableError(1, 2)


def test_exception_that_cannot_be_sent_is_described():
    with pytest.raises(RuntimeError, match="UnpicklableError: 1 and 2") as caught:
        list(compute_locally(raise_unpicklable, JOBS, 2))
    assert "in raise_unpicklable" in str(caught.value)


def test_jobs_do_not_see_the_state_that_other_jobs_left_in_a_function():
    state = {"calls": 0}

    def compute(job):
        state["calls"] += 1
        return computed(job, calls=np.array(state["calls"]))

    results = compute_locally(compute, JOBS, 2)
    assert {int(result.results["calls"]) for result in results} == {1}


def test_forked_process_does_not_use_the_workers_of_its_parent():
    parents = pids_of(compute_locally(computed, JOBS, 2))
    child = os.fork()
    if child == 0:
        os._exit(len(processes._idle))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert pids_of(compute_locally(computed, JOBS, 2)) <= parents


SCRIPT = """
import heirloom as hl

task = hl.garnet(5, 2, branching=2, gamma=0.9, seed=0)
results = hl.compare(
    {"RMax": lambda seed: hl.RMax(n_states=5, n_actions=2, gamma=task.gamma, n_known=1, seed=seed)},
    lambda rng: task, tasks=2, episodes=3, max_steps=4, repetitions=4, jobs=2,
)
print("compared", results.sizes["repetition"])
"""


def test_script_without_a_main_guard_compares_in_parallel(tmp_path):
    """Workers do not import the main module, which would start the comparison again."""
    (tmp_path / "script.py").write_text(SCRIPT)
    ended = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=100
    )
    assert (ended.stdout, ended.returncode) == ("compared 4\n", 0), ended.stderr


KILLED = """
import os, sys, time
from heirloom.runs.workers import processes
from tests.runs.test_processes import JOBS, computed
list(processes.compute_locally(computed, JOBS, 2))
print(*(worker.process.pid for worker in processes._idle), flush=True)
time.sleep(100)
"""


def test_workers_end_when_their_parent_is_killed():
    root = Path(__file__).parents[2]
    parent = subprocess.Popen(
        [sys.executable, "-c", KILLED], cwd=root, stdout=subprocess.PIPE, text=True
    )
    workers = parent.stdout.readline().split()
    parent.kill()
    parent.communicate()
    assert len(workers) == 2
    wait_until(lambda: not any(Path("/proc", pid, "exe").exists() for pid in workers))
