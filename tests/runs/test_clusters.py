"""Local processes and Dask give identical results, even if workers die."""

import io
import os
import pickle
import signal
import subprocess
import sys

import cloudpickle
import pytest

import heirloom as hl
from heirloom.runs.results import results as read_results
from heirloom.runs.run import run
from heirloom.runs.versions import versions
from heirloom.runs.workers import workers
from heirloom.runs.workers.compute import portable
from heirloom.runs.workers.dask import error_of_worker
from tests.small_run import LONG, SPEC, Command, wait_until

MEDIUM = LONG.with_changes(repetitions=40)
ANY_PORT = ":0"  # tests that run in parallel would compete for Dask's default port


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return run(SPEC, tmp_path_factory.mktemp("expected") / "run", jobs=1)


@pytest.fixture(scope="module")
def expected_medium(tmp_path_factory):
    return run(MEDIUM, tmp_path_factory.mktemp("expected") / "run", jobs=1)


@pytest.fixture
def scheduler_file(tmp_path):
    return tmp_path / "scheduler.json"


@pytest.fixture
def dask(scheduler_file):
    """Start a Dask scheduler or worker in a process that is killed at the end of the test."""
    started = []
    options = {
        "scheduler": ["--port", "0"],
        "worker": ["--nthreads", "1", "--no-nanny"],
    }
    shared = ["--no-dashboard", "--dashboard-address", ANY_PORT, "--scheduler-file", scheduler_file]

    def start(role, **environment):
        command = [sys.executable, "-m", "dask", role, *options[role], *shared]
        environment = {**os.environ, **environment}
        started.append(subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def dask_cluster(dask, scheduler_file):
    """The scheduler file of a cluster, and its processes: a scheduler and two workers."""
    return scheduler_file, [dask("scheduler"), dask("worker"), dask("worker")]


@pytest.mark.cluster
def test_dask_gives_identical_results_after_a_worker_was_killed(
    tmp_path, dask_cluster, expected_medium
):
    file, (_, worker, _) = dask_cluster
    command = Command(MEDIUM, tmp_path / "run", "--backend", "dask", "--address", str(file))
    command.wait_for(5)
    worker.send_signal(signal.SIGKILL)
    status, stderr = command.wait()
    assert status == 0, stderr
    assert read_results(tmp_path / "run").identical(expected_medium)


@pytest.mark.cluster
def test_ctrl_c_stops_the_run_but_not_the_dask_cluster(tmp_path, dask_cluster):
    """The same cluster computes the remaining jobs when the run is resumed."""
    file, processes = dask_cluster
    options = "--backend", "dask", "--address", str(file)
    command = Command(MEDIUM, tmp_path / "run", *options)
    command.wait_for(3)
    command.stop()
    status, stderr = command.wait()
    assert status == 130
    assert "Traceback" not in stderr
    assert all(process.poll() is None for process in processes)
    status, stderr = Command(MEDIUM, tmp_path / "run", *options).wait()
    assert status == 0, stderr


@pytest.mark.cluster
def test_run_reports_that_the_dask_scheduler_died(tmp_path, dask_cluster):
    file, (scheduler, *_) = dask_cluster
    command = Command(LONG, tmp_path / "run", "--backend", "dask", "--address", str(file))
    command.wait_for(3)
    scheduler.kill()
    status, stderr = command.wait()
    assert status == 1
    assert "error: the connection to the Dask scheduler was lost" in stderr


@pytest.mark.cluster
@pytest.mark.parametrize("after_jobs", [0, 3])
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_run_stops_the_cluster_it_started(tmp_path, after_jobs, signal_number):
    """While the cluster starts or computes jobs; the command shows how to resume."""
    command = Command(LONG, tmp_path / "run", "--backend", "dask", "--jobs", "2")
    if after_jobs:
        command.wait_for(after_jobs)
    else:
        wait_until(lambda: command.processes(b"spawn_main"))
    command.stop(signal_number)
    status, stderr = command.wait()
    assert status == 130, stderr
    assert "Traceback" not in stderr
    assert "stopped; run the same command again to resume" in stderr
    wait_until(lambda: not command.children())


@pytest.mark.cluster
def test_run_uses_the_current_dask_client(tmp_path, expected):
    from distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ANY_PORT}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        assert run(SPEC, tmp_path / "run", backend="dask").identical(expected)
        assert run(SPEC, tmp_path / "one", backend="dask", jobs=1).identical(expected)
        assert client.status == "running"


HIDE_HEIRLOOM = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "heirloom":
            raise ModuleNotFoundError("No module named 'heirloom'", name="heirloom")

sys.meta_path.insert(0, Hidden())
"""


@pytest.mark.cluster
def test_run_reports_a_dask_worker_without_heirloom(tmp_path, dask, scheduler_file):
    """Before any worker is started, the run reports that it waits for one."""
    (tmp_path / "sitecustomize.py").write_text(HIDE_HEIRLOOM)
    dask("scheduler")
    command = Command(SPEC, tmp_path / "run", "--backend", "dask", "--address", str(scheduler_file))
    lines = iter(command.process.stderr.readline, "")
    assert any("the run waits for a Dask worker" in line for line in lines)
    dask("worker", PYTHONPATH=str(tmp_path))
    status, stderr = command.wait()
    assert status == 1
    assert "error: a worker cannot import heirloom: install heirloom-rl[dask]" in stderr


def test_function_sent_to_a_cluster_refers_to_nothing_of_heirloom():
    """Otherwise Dask stops a worker without Heirloom, and the run waits for another one."""

    class WithoutHeirloom(pickle.Unpickler):
        def find_class(self, module, name):
            assert not module.startswith("heirloom"), (module, name)
            return super().find_class(module, name)

    WithoutHeirloom(io.BytesIO(cloudpickle.dumps(portable()))).load()


def test_invalid_scheduler_file_is_refused(tmp_path):
    for text in ("{}", "[1]", "{"):
        (tmp_path / "scheduler.json").write_text(text)
        with (
            pytest.raises(hl.errors.InvalidArgument, match="no Dask scheduler answers there"),
            workers("dask", address=str(tmp_path / "scheduler.json")),
        ):
            pass


@pytest.mark.parametrize(
    ("error", "expected_type", "message"),
    [
        (
            OSError(28, "No space left"),
            hl.errors.WorkerLost,
            "could not compute a job .*No space left",
        ),
        (ModuleNotFoundError("x", name="y"), hl.errors.InvalidArgument, "a worker cannot import y"),
        (hl.errors.InvalidArgument("z"), hl.errors.InvalidArgument, "z"),
        (ZeroDivisionError("w"), ZeroDivisionError, "w"),
    ],
)
def test_errors_of_workers_are_translated(error, expected_type, message):
    with pytest.raises(expected_type, match=message):
        raise error_of_worker(error)


def test_worker_with_other_versions_refuses_to_compute():
    """The error names a library, its version in the run (here) and in the worker (there)."""
    message = r"other versions \(numpy 1.0 here and .* there\): install"
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        portable()(SPEC.as_json(), [(0, 0)], {**versions(), "numpy": "1.0"})


@pytest.mark.cluster
def test_run_on_a_cluster_with_other_versions_is_refused(tmp_path, monkeypatch):
    other = {**versions(), "numpy": "1.0"}
    monkeypatch.setattr("heirloom.runs.workers.dask.versions", lambda: other)
    with pytest.raises(hl.errors.InvalidArgument, match="has other versions"):
        run(SPEC, tmp_path / "run", backend="dask", jobs=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "slurm"}, r"backend is 'slurm': expected one of local, dask"),
        ({"address": "tcp://here:1"}, r"the backend is not a cluster: choose backend dask"),
        ({"jobs": 0}, "jobs is 0"),
    ],
)
def test_invalid_arguments_are_refused_before_the_folder_is_created(tmp_path, options, message):
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        run(SPEC, tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_address_without_a_cluster_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("heirloom.runs.workers.dask.TIMEOUT", 1.0)
    with (
        pytest.raises(hl.errors.InvalidArgument, match="no Dask scheduler answers there"),
        workers("dask", address="tcp://127.0.0.1:9"),
    ):
        pass
    with (
        pytest.raises(hl.errors.InvalidArgument, match="no Dask scheduler answers there"),
        workers("dask", address=str(tmp_path / "missing.json")),
    ):
        pass


@pytest.mark.parametrize("module", ["distributed", "cryptography"])
def test_backend_that_is_not_installed_is_refused(monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    with (
        pytest.raises(hl.errors.InvalidArgument, match=r"pip install '\.\[dask\]' in the clone"),
        workers("dask", jobs=1),
    ):
        pass
