"""Worker processes on this machine: what happens when one is killed, and when one is used again."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from importlib import import_module
from multiprocessing import Pool
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import psutil
import pytest

import heirloom as hl
from heirloom import kernels
from heirloom.runs.layout import Origin
from heirloom.runs.workers import process, processes
from heirloom.runs.workers.compute import Computed
from heirloom.runs.workers.process import Worker, setting_now
from heirloom.runs.workers.processes import RETRIES, compute_locally
from tests.small_run import LONGEST, wait_until

ROOT = Path(__file__).parents[2]
JOBS = [(agent, repetition) for agent in range(2) for repetition in range(10)]


@pytest.fixture(autouse=True)
def _no_idle_workers():
    """Each test begins and ends without idle workers."""
    process.stop_all()
    yield
    process.stop_all()


def computed(job, **results):
    """Return results of a job; `pid` is the process that computed it."""
    arrays = {"pid": np.array(os.getpid()), **results}
    return Computed(job, arrays, Origin(0.0, "worker", {}))


def jobs_of(results):
    return sorted(result.job for result in results)


def pids_of(results):
    return {int(result.results["pid"]) for result in results}


def is_running(pid):
    try:
        process = psutil.Process(int(pid))
        return process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1
    except psutil.NoSuchProcess:
        return False


def write_half_a_result_and_die(job, folder):
    """Kill this process in the middle of a message, the first time that `job` is computed."""
    if job == JOBS[3] and not (folder / "killed").exists():

        def send_bytes(self, data):
            header = (len(data)).to_bytes(4, "big")
            os.write(self.fileno(), header + bytes(data[: len(data) // 2]))
            (folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)

        Connection._send_bytes = send_bytes
    return computed(job, large=np.zeros(1000))


def test_run_continues_if_a_worker_is_killed_while_it_writes_a_result(tmp_path, caplog):
    """The pools of `concurrent.futures` wait forever for the second half of the message."""
    results = list(compute_locally(partial(write_half_a_result_and_die, folder=tmp_path), JOBS, 2))
    assert (tmp_path / "killed").exists()
    assert jobs_of(results) == JOBS
    assert [record.getMessage() for record in caplog.records] == [
        "heirloom: a worker process ended (exit status -9, perhaps because memory ran out); its "
        "jobs are computed again"
    ]


def leave_a_child_and_die(job, folder, fork):
    """Kill this process once, while a process that it started lives on."""
    if job == JOBS[3] and not (folder / "child").exists():
        if fork:
            child = os.fork()
            if child == 0:
                time.sleep(10 * LONGEST)
                os._exit(0)
        else:
            child = subprocess.Popen(["sleep", str(10 * LONGEST)], close_fds=False).pid
        (folder / "child").write_text(str(child))
        os.kill(os.getpid(), signal.SIGKILL)
    return computed(job)


@pytest.mark.slow
@pytest.mark.parametrize("fork", [False, True])
def test_run_continues_if_a_killed_worker_leaves_a_child_behind(tmp_path, fork):
    """The child must not keep the connection of the worker open: the run would wait for its end."""
    compute = partial(leave_a_child_and_die, folder=tmp_path, fork=fork)
    assert jobs_of(compute_locally(compute, JOBS, 2)) == JOBS
    with suppress(ProcessLookupError):
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def count_and_die(job, folder, status):
    """End this process whenever it computes a certain job."""
    if job == JOBS[7]:
        (folder / str(os.getpid())).touch()
        if status is not None:
            os._exit(status)
        os.kill(os.getpid(), signal.SIGKILL)
    return computed(job)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (
            None,
            "4 worker processes .* repetition 8; exit status -9, perhaps because memory ran out",
        ),
        pytest.param(
            3,
            r"4 worker processes ended .*\(agent 1, repetition 8; exit status 3\): compute fewer",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_job_that_ends_every_worker_ends_the_run_with_an_error(tmp_path, status, message):
    results = compute_locally(partial(count_and_die, folder=tmp_path, status=status), JOBS, 2)
    with pytest.raises(hl.errors.WorkerLost, match=message):
        list(results)
    pids = [path.name for path in tmp_path.iterdir()]
    assert len(pids) == RETRIES + 1
    assert not any(map(is_running, pids))


def close_the_connection(job, folder):
    """Close all files of this process once, while it lives on."""
    if job == JOBS[3] and not (folder / "closed").exists():
        (folder / "closed").touch()
        os.closerange(3, 100)
        time.sleep(10 * LONGEST)
    return computed(job)


@pytest.mark.slow
def test_worker_that_heirloom_killed_is_not_said_to_lack_memory(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(process, "ENDING", 0.2)
    results = compute_locally(partial(close_the_connection, folder=tmp_path), JOBS, 2)
    assert jobs_of(results) == JOBS
    assert [record.getMessage() for record in caplog.records] == [
        "heirloom: a worker process ended (it closed its connection, and was killed); its jobs are "
        "computed again"
    ]


def stop_this_process(job, folder):
    """Stop this process once, as Ctrl-Z or a batch system does."""
    if job == JOBS[3] and not (folder / "stopped").exists():
        (folder / "stopped").write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
    return computed(job)


def stop_while_a_result_is_written(job, folder):
    """Stop this process once, in the middle of a message."""
    if job == JOBS[3] and not (folder / "stopped").exists():
        write = Connection._send

        def stop(self, data):
            half = len(data) // 2
            write(self, data[:half])
            (folder / "stopped").write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)
            write(self, data[half:])
            Connection._send = write

        Connection._send = stop
    return computed(job, large=np.zeros(1000))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "waitid"), reason="cannot see that a process was stopped")
@pytest.mark.parametrize("stop", [stop_this_process, stop_while_a_result_is_written])
def test_worker_that_was_stopped_is_reported_and_can_be_continued(
    tmp_path, caplog, monkeypatch, stop
):
    monkeypatch.setattr(processes, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(processes, "STOPPED_SECONDS", 0.3)
    found = []

    def run():
        found.extend(compute_locally(partial(stop, folder=tmp_path), JOBS, 2))

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: caplog.records)
    pid = int((tmp_path / "stopped").read_text())
    time.sleep(0.5)
    assert [record.getMessage() for record in caplog.records] == [
        "heirloom: the run waits for a worker process that was stopped; continue it with "
        f"`kill -CONT {pid}`, or kill it, and another one computes its job"
    ]
    os.kill(pid, signal.SIGCONT)
    thread.join()
    assert jobs_of(found) == JOBS


def test_workers_are_used_again_by_the_next_call():
    first, second = (pids_of(compute_locally(computed, JOBS, 2)) for _ in range(2))
    assert second <= first
    assert len(first) == 2
    assert os.getpid() not in first


@pytest.mark.slow
@pytest.mark.parametrize("change", ["environment", "folder", "path"])
def test_workers_with_another_setting_are_not_used_again(change, monkeypatch, tmp_path):
    first = pids_of(compute_locally(computed, JOBS, 2))
    if change == "environment":
        monkeypatch.setenv("SOME_SETTING", "1")
    elif change == "folder":
        monkeypatch.chdir(tmp_path)
    else:
        monkeypatch.syspath_prepend(tmp_path)
    assert not first & pids_of(compute_locally(computed, JOBS, 2))


@pytest.mark.slow
def test_workers_of_an_earlier_setting_that_return_later_are_not_used_again(monkeypatch):
    early = compute_locally(computed, JOBS, 2)
    next(early)
    monkeypatch.setenv("SOME_SETTING", "1")
    list(compute_locally(computed, JOBS, 2))
    old = pids_of(early)
    assert not old & pids_of(compute_locally(computed, JOBS, 4))


def number_of_module(job):
    """Import a module that the parent process never imports."""
    return computed(job, number=np.array(import_module("changing_module").number))


def numbers_of(results):
    return {int(result.results["number"]) for result in results}


def test_workers_compute_with_the_code_on_disk(tmp_path, monkeypatch):
    """A worker that imported a module in an earlier call is replaced after the file was changed."""
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "changing_module.py"
    module.write_text("number = 1\n")
    os.utime(module, (1e9, 1e9))
    first = list(compute_locally(number_of_module, JOBS, 2))
    assert numbers_of(first) == {1}
    again = list(compute_locally(number_of_module, JOBS, 2))
    assert pids_of(again) <= pids_of(first)
    module.write_text("number = 2\n")
    assert numbers_of(compute_locally(number_of_module, JOBS, 2)) == {2}
    assert "changing_module" not in sys.modules


def change_a_module_after_its_import(job, file):
    number = import_module("changing_module").number
    file.write_text("number = 2\n")
    return computed(job, number=np.array(number))


@pytest.mark.slow
def test_module_that_was_changed_while_a_job_used_it_is_noticed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "changing_module.py"
    module.write_text("number = 1\n")
    os.utime(module, (1e9, 1e9))
    list(compute_locally(partial(change_a_module_after_its_import, file=module), JOBS[:2], 2))
    assert numbers_of(compute_locally(number_of_module, JOBS, 2)) == {2}


@pytest.mark.slow
def test_idle_worker_that_was_killed_is_replaced_without_a_warning(caplog):
    victim = min(pids_of(compute_locally(computed, JOBS, 2)))
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: not is_running(victim))
    results = list(compute_locally(computed, JOBS, 2))
    assert jobs_of(results) == JOBS
    assert victim not in pids_of(results)
    assert caplog.records == []


@pytest.mark.slow
def test_idle_workers_end_after_a_while(monkeypatch):
    monkeypatch.setattr(process, "IDLE_SECONDS", 0.5)
    first = pids_of(compute_locally(computed, JOBS, 2))
    wait_until(lambda: not any(map(is_running, first)))
    results = list(compute_locally(computed, JOBS, 2))
    assert jobs_of(results) == JOBS
    assert not first & pids_of(results)


@pytest.mark.slow
def test_calls_leave_neither_threads_nor_file_descriptors_behind():
    list(compute_locally(computed, JOBS, 2))
    threads, files = threading.active_count(), psutil.Process().num_fds()
    for _ in range(5):
        list(compute_locally(computed, JOBS, 2))
    assert threading.active_count() <= threads
    assert psutil.Process().num_fds() <= files


@pytest.mark.slow
def test_closing_the_results_stops_the_workers():
    results = compute_locally(computed, JOBS, 2)
    pids = pids_of([next(results), next(results)])
    results.close()
    assert not any(map(is_running, pids))


def raise_in_job(job, error):
    if job == JOBS[5]:
        raise error
    return computed(job)


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (hl.errors.InvalidArgument("gamma is 2"), hl.errors.InvalidArgument),
        pytest.param(OSError("no space left"), OSError, marks=pytest.mark.slow),
        pytest.param(EOFError("of the job"), EOFError, marks=pytest.mark.slow),
    ],
)
def test_exception_of_a_job_is_raised_with_the_traceback_of_the_worker(error, raised):
    with pytest.raises(raised) as caught:
        list(compute_locally(partial(raise_in_job, error=error), JOBS, 2))
    assert str(caught.value) == str(error)
    assert "in raise_in_job" in caught.value.__notes__[0]


@pytest.mark.slow
def test_exception_of_the_main_module_keeps_its_class():
    class OwnError(Exception):
        """It is pickled by value, as the classes of a script or a notebook are."""

    with pytest.raises(OwnError, match="hi"):
        list(compute_locally(partial(raise_in_job, error=OwnError("hi")), JOBS, 2))


class UnpicklableError(Exception):
    """An exception that cannot be restored from its arguments."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def raise_unusual(job):
    raise UnpicklableError(1, 2)


def test_exception_that_cannot_be_sent_is_described():
    with pytest.raises(RuntimeError, match="UnpicklableError") as caught:
        list(compute_locally(raise_unusual, JOBS, 2))
    assert "in raise_unusual" in str(caught.value)


def test_function_that_cannot_be_sent_is_named():
    lock = threading.Lock()
    with pytest.raises(
        hl.errors.InvalidArgument, match=r"cannot be sent to other processes .*jobs=1"
    ):
        list(compute_locally(lambda job: (lock, job), JOBS, 2))


@pytest.mark.slow
def test_jobs_do_not_see_the_state_that_other_jobs_left_in_a_function():
    state = {"calls": 0}

    def compute(job):
        state["calls"] += 1
        return computed(job, calls=np.array(state["calls"]))

    results = compute_locally(compute, JOBS, 2)
    assert {int(result.results["calls"]) for result in results} == {1}


def test_function_is_sent_once_to_each_worker(monkeypatch):
    sizes, send = [], Connection._send_bytes

    def count(self, data):
        sizes.append(len(data))
        send(self, data)

    monkeypatch.setattr(Connection, "_send_bytes", count)
    large = np.zeros(10_000)
    list(compute_locally(lambda job: computed(job, size=np.array(large.size)), JOBS, 2))
    assert len(sizes) == len(JOBS)
    assert sum(size > large.nbytes for size in sizes) == 2


@pytest.mark.slow
def test_last_jobs_are_not_sent_in_advance(tmp_path):
    """A long job at the end must not wait behind another one while a worker is idle."""
    list(compute_locally(computed, JOBS, 2))  # starts both workers
    jobs = [(0, 0), (0, 1), (1, 0), (1, 1)]

    def compute(job):
        if job[0]:  # a long one: it takes until the other one has started
            (tmp_path / str(job[1])).touch()
            wait_until(lambda: len(os.listdir(tmp_path)) == 2, seconds=100)
        return computed(job)

    long = [result for result in compute_locally(compute, jobs, 2) if result.job[0]]
    assert len(pids_of(long)) == 2


def test_threads_of_libraries_are_limited_in_workers(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    results = compute_locally(
        lambda job: computed(job, threads=np.array(int(os.environ["OMP_NUM_THREADS"]))), JOBS, 2
    )
    expected = max(1, processes.processors() // 2)
    assert {int(result.results["threads"]) for result in results} == {expected}


FORKED = """
import os, sys
from heirloom.runs.workers import process
from heirloom.runs.workers.processes import compute_locally
from tests.runs.test_processes import JOBS, computed, is_running, pids_of
pids = pids_of(compute_locally(computed, JOBS, 2))
child = os.fork()
if child == 0:
    sys.exit(len(process._idle))  # runs the exit functions of Python
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
running = all(map(is_running, pids))
print(status, running, pids_of(compute_locally(computed, JOBS, 2)) <= pids)
"""


@pytest.mark.slow
def test_forked_process_neither_uses_nor_stops_the_workers_of_its_parent():
    ended = subprocess.run([sys.executable, "-c", FORKED], cwd=ROOT, capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("0 True True\n", "")


def compute_in_a_pool(_):
    return pids_of(compute_locally(computed, JOBS, 2)) == {os.getpid()}


def test_daemonic_process_computes_jobs_itself():
    """It may not start processes: a worker of a Pool, of Dask, or of Heirloom."""
    with Pool(1) as pool:
        assert pool.map(compute_in_a_pool, [0]) == [True]


def test_deleted_folder_is_an_error_that_says_what_to_do(tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(hl.errors.InvalidArgument, match="the current folder was deleted"):
        list(compute_locally(computed, JOBS, 2))


SCRIPT = """
import heirloom as hl

task = hl.garnet(5, 2, branching=2, gamma=0.9, seed=0)

def make(rng):
    print("made")
    return hl.RMax(n_states=5, n_actions=2, gamma=0.9, n_known=1, seed=rng)

results = hl.compare(
    {"RMax": make}, lambda rng: task, tasks=2, episodes=3, max_steps=4, repetitions=4, jobs=2
)
print("compared", results.sizes["repetition"])
"""


def run_script(folder, script):
    (folder / "script.py").write_text(script)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    return subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_script_without_a_main_guard_compares_in_parallel(tmp_path):
    """Workers do not import the main module, which would start the comparison again."""
    ended = run_script(tmp_path, SCRIPT)
    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stdout.split("\n")) == [
        "",
        "compared 4",
        *["made"] * 5,
    ]  # one is made to check it


@pytest.mark.slow
def test_python_ends_although_workers_ignore_sigterm(tmp_path):
    ignore = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    assert run_script(tmp_path, ignore + SCRIPT).returncode == 0


KILLED = """
import time
from heirloom.runs.workers.processes import compute_locally
from tests.runs.test_processes import JOBS, sleep
list(compute_locally(sleep, JOBS, 2))
"""


def sleep(job):
    sys.stdout.write(f"{os.getpid()}\n")
    sys.stdout.flush()
    time.sleep(10 * LONGEST)


def test_workers_end_when_their_parent_is_killed_while_they_compute():
    parent = subprocess.Popen(
        [sys.executable, "-c", KILLED], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    workers = [parent.stdout.readline().strip() for _ in range(2)]
    parent.kill()
    parent.communicate()
    assert len(set(workers)) == 2
    wait_until(lambda: not any(map(is_running, workers)))


def test_worker_that_this_process_did_not_start_is_not_killed(monkeypatch):
    worker = Worker(setting_now(2, own_code=True))
    process._started.discard(worker)
    killed = []
    monkeypatch.setattr(os, "killpg", lambda *at: killed.append(at))
    worker.stop()  # closes the connection, so that the worker ends by itself
    worker.process.wait()
    assert killed == []


def _compare(n_known, jobs):
    task = hl.garnet(6, 2, branching=3, gamma=0.9, seed=n_known)
    options = {"n_states": 6, "n_actions": 2, "gamma": 0.9, "n_known": n_known}
    return hl.compare(
        {"RMax": lambda rng: hl.RMax(seed=rng, **options)},
        lambda rng: task,
        tasks=2,
        episodes=20,
        max_steps=10,
        repetitions=2,
        jobs=jobs,
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # threads share the filters that libraries set
def test_comparisons_in_several_threads_do_not_disturb_each_other():
    expected = [_compare(n, 1) for n in range(1, 5)]
    found = [None] * 4

    def compare(i):
        found[i] = _compare(i + 1, 1)

    threads = [threading.Thread(target=compare, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(a.identical(b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_agent_may_make_a_comparison_of_its_own(jobs):
    task = hl.garnet(6, 2, branching=3, gamma=0.9, seed=0)

    def make(rng):
        n_known = int(_compare(3, 1).updates.max() > 0) + 1
        return hl.RMax(seed=rng, n_states=6, n_actions=2, gamma=0.9, n_known=n_known)

    results = hl.compare(
        {"RMax": make}, lambda rng: task, tasks=1, episodes=5, max_steps=5, repetitions=2, jobs=jobs
    )
    assert np.isfinite(results.returns).all()


@pytest.mark.slow
def test_entry_of_the_path_that_python_ignores_is_ignored(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [tmp_path, *sys.path])
    assert jobs_of(compute_locally(computed, JOBS, 2)) == JOBS


def say_in_a_forked_process(job):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            kernels.say(f"a notice of {job}")
            status = 0
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return computed(job, status=np.array(status))


@pytest.mark.slow
def test_process_that_a_job_forked_can_give_notices():
    results = compute_locally(say_in_a_forked_process, JOBS[:2], 2)
    assert [int(result.results["status"]) for result in results] == [0, 0]


LEFT = """
import os, subprocess
from heirloom.runs.workers.processes import compute_locally
from tests.runs.test_processes import JOBS, leave_a_child, pids_of
print(*pids_of(compute_locally(leave_a_child, JOBS[:2], 2)), flush=True)
os.kill(os.getpid(), 9)
"""


def leave_a_child(job):
    """Return the process that this job started, in place of its own."""
    return computed(job, pid=np.array(subprocess.Popen(["sleep", "100"]).pid))


@pytest.mark.slow
def test_processes_of_jobs_end_when_the_parent_is_killed_while_workers_are_idle(tmp_path):
    with (tmp_path / "pids").open("w") as file:  # a pipe would be open until they have ended
        subprocess.run([sys.executable, "-c", LEFT], cwd=ROOT, stdout=file)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    wait_until(lambda: not any(map(is_running, pids)))


EARLY = """
import sys
from heirloom.runs.workers import process, processes
processes.start_early(2)
assert not {"numba", "pydantic", "scipy", "xarray"} & sys.modules.keys()
early = {worker.process.pid for worker in process._idle}
import heirloom as hl
from tests.small_run import FAST
hl.run(FAST, sys.argv[1], jobs=2)
assert len(early) == 2 and {worker.process.pid for worker in process._idle} == early
"""


@pytest.mark.slow
def test_workers_that_were_started_early_compute_the_jobs(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    environment.pop("PYGAME_HIDE_SUPPORT_PROMPT", None)  # set in this process, by Gymnasium
    command = [sys.executable, "-c", EARLY, str(tmp_path / "run")]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
