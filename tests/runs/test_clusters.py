"""The same bits on processes, Dask and Ray, also when workers die."""

import os
import signal
import subprocess
import sys

import joblib
import pytest
from joblib.parallel import ThreadingBackend

import heirloom as hl
from heirloom.runs.run import run
from heirloom.runs.stored_run import read_results
from heirloom.runs.versions import versions
from heirloom.runs.workers import workers
from heirloom.runs.workers.compute import compute_elsewhere, error_of_worker
from tests.small_run import LONG, SPEC, Command, wait_until

MIDDLE = LONG.with_changes(repetitions=40)
ANY_PORT = ":0"  # of Dask's own, two tests at once would want the same


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run(SPEC, tmp_path_factory.mktemp("whole") / "run", jobs=1)


@pytest.fixture(scope="module")
def long_whole(tmp_path_factory):
    return run(MIDDLE, tmp_path_factory.mktemp("whole") / "run", jobs=1)


@pytest.fixture
def scheduler_file(tmp_path):
    return tmp_path / "scheduler.json"


@pytest.fixture
def dask(scheduler_file):
    """Starts a Dask scheduler, or a worker of it, in a process that ends with the test."""
    started = []
    options = {
        "scheduler": ["--port", "0"],
        "worker": ["--nthreads", "1", "--no-nanny"],
    }
    shared = ["--no-dashboard", "--dashboard-address", ANY_PORT, "--scheduler-file", scheduler_file]

    def start(what, **environment):
        command = [sys.executable, "-m", "dask", what, *options[what], *shared]
        environment = {**os.environ, **environment}
        started.append(subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def dask_cluster(dask, scheduler_file):
    """A scheduler and two workers in other processes, and the file with its address."""
    return scheduler_file, [dask("scheduler"), dask("worker"), dask("worker")]


@pytest.mark.cluster
def test_dask_gives_the_same_bits_also_when_a_worker_is_killed(tmp_path, dask_cluster, long_whole):
    file, (_, worker, _) = dask_cluster
    command = Command(MIDDLE, tmp_path / "run", "--backend", "dask", "--address", str(file))
    command.wait_for(5)
    worker.send_signal(signal.SIGKILL)
    status, said = command.end()
    assert status == 0, said
    assert read_results(tmp_path / "run").identical(long_whole)


@pytest.mark.cluster
def test_ctrl_c_on_dask(tmp_path, dask_cluster):
    """The cluster goes on, and takes the rest of the run."""
    file, processes = dask_cluster
    options = "--backend", "dask", "--address", str(file)
    command = Command(MIDDLE, tmp_path / "run", *options)
    command.wait_for(3)
    command.stop()
    status, said = command.end()
    assert status == 130
    assert "Traceback" not in said
    assert all(process.poll() is None for process in processes)
    status, said = Command(MIDDLE, tmp_path / "run", *options).end()
    assert status == 0, said


@pytest.mark.cluster
def test_a_dask_scheduler_that_dies(tmp_path, dask_cluster):
    file, (scheduler, *_) = dask_cluster
    command = Command(LONG, tmp_path / "run", "--backend", "dask", "--address", str(file))
    command.wait_for(3)
    scheduler.kill()
    status, said = command.end()
    assert status == 1
    assert "error: the Dask scheduler is gone" in said


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("backend", "after", "what"),
    [
        ("dask", 0, signal.SIGINT),
        ("dask", 0, signal.SIGTERM),
        ("dask", 3, signal.SIGINT),
        ("dask", 3, signal.SIGTERM),
        ("ray", 0, signal.SIGINT),  # Ray ends itself by the other one while it starts
        ("ray", 3, signal.SIGINT),
        ("ray", 3, signal.SIGTERM),
    ],
)
def test_clusters_of_this_machine_are_stopped(tmp_path, backend, after, what):
    """While they start, and in the midst of the run: it says how to go on."""
    command = Command(LONG, tmp_path / "run", "--backend", backend, "--jobs", "2")
    if after:
        command.wait_for(after)
    else:
        started = b"gcs_server" if backend == "ray" else b"spawn_main"
        wait_until(lambda: command.named(started))
    command.stop(what)
    status, said = command.end()
    assert status == 130, said
    assert "Traceback" not in said
    assert "stopped; run the same command again to resume" in said
    wait_until(lambda: not command.others())


@pytest.mark.cluster
def test_ray_gives_the_same_bits_also_when_a_worker_is_killed(tmp_path, long_whole):
    command = Command(MIDDLE, tmp_path / "run", "--backend", "ray", "--jobs", "2")
    command.wait_for(5)
    at_work = []
    wait_until(lambda: at_work.extend(command.named(b"ray::compute")) or at_work)
    os.kill(at_work[0], signal.SIGKILL)
    status, said = command.end()
    assert status == 0, said
    assert read_results(tmp_path / "run").identical(long_whole)


@pytest.mark.cluster
def test_a_dask_client_in_use_is_taken(tmp_path, whole):
    from distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ANY_PORT}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        assert run(SPEC, tmp_path / "run", backend="dask").identical(whole)
        assert run(SPEC, tmp_path / "one", backend="dask", jobs=1).identical(whole)
        with joblib.parallel_config("dask"):
            assert run(SPEC, tmp_path / "joblib").identical(whole)
        assert client.status == "running"


@pytest.mark.cluster
def test_a_ray_cluster_in_use_is_taken(tmp_path, whole):
    import ray
    from ray.util.joblib import register_ray

    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        assert run(SPEC, tmp_path / "run", backend="ray").identical(whole)
        assert ray.is_initialized()
        register_ray()
        with joblib.parallel_config("ray", n_jobs=2):
            assert run(SPEC, tmp_path / "joblib").identical(whole)
    finally:
        ray.shutdown()


HIDE = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "heirloom":
            raise ModuleNotFoundError("No module named 'heirloom'", name="heirloom")

sys.meta_path.insert(0, Hidden())
"""


@pytest.mark.cluster
def test_a_dask_worker_without_heirloom(tmp_path, dask, scheduler_file):
    """Also that there is none yet is said."""
    (tmp_path / "sitecustomize.py").write_text(HIDE)
    dask("scheduler")
    command = Command(SPEC, tmp_path / "run", "--backend", "dask", "--address", str(scheduler_file))
    lines = iter(command.process.stderr.readline, "")
    assert any("no Dask worker is there yet" in line for line in lines)
    dask("worker", PYTHONPATH=str(tmp_path))
    status, said = command.end()
    assert status == 1
    assert "error: a worker has no heirloom: install heirloom-rl[dask]" in said


def test_a_scheduler_file_that_is_none(tmp_path):
    for text in ("{}", "[1]", "{"):
        (tmp_path / "scheduler.json").write_text(text)
        with (
            pytest.raises(hl.InvalidArgument, match="no Dask scheduler answers there"),
            workers("dask", address=str(tmp_path / "scheduler.json")),
        ):
            pass


@pytest.mark.parametrize(
    ("error", "becomes", "message"),
    [
        (OSError(28, "No space left"), hl.WorkerLost, "could not compute a unit .*No space left"),
        (ModuleNotFoundError("x", name="y"), hl.InvalidArgument, "a worker has no y"),
        (hl.InvalidArgument("z"), hl.InvalidArgument, "z"),
        (ZeroDivisionError("w"), ZeroDivisionError, "w"),
    ],
)
def test_errors_of_workers_become_ours(error, becomes, message):
    with pytest.raises(becomes, match=message):
        raise error_of_worker(error, "dask")


def test_a_joblib_context_is_followed(tmp_path, whole):
    with joblib.parallel_config(n_jobs=1):
        assert run(SPEC, tmp_path / "one").identical(whole)
    with joblib.parallel_config("threading", n_jobs=2):
        assert run(SPEC, tmp_path / "threads").identical(whole)


def test_joblib_workers_without_a_generator_stay(tmp_path, whole):
    """Ray's, say: the units come some at a time, the workers are started once."""
    started = []

    class AllAtOnce(ThreadingBackend):
        supports_return_generator = False

        def configure(self, *arguments, **options):
            started.append(self)
            return super().configure(*arguments, **options)

    with joblib.parallel_config(AllAtOnce(), n_jobs=2):
        assert run(SPEC, tmp_path / "run").identical(whole)
    assert len(started) == 1


def test_errors_of_units_come_through(tmp_path):
    """A worker with other versions refuses, and says which."""
    with pytest.raises(hl.InvalidArgument, match=r"same bits \(numpy .* and 1.0 there\): install"):
        compute_elsewhere(SPEC.as_json(), (0, 0), {**versions(), "numpy": "1.0"})


@pytest.mark.cluster
@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_errors_of_workers_come_through(tmp_path, backend, monkeypatch):
    module = f"heirloom.runs.workers.{backend}"
    monkeypatch.setattr(f"{module}.versions", lambda: {**versions(), "numpy": "1.0"})
    with pytest.raises(hl.InvalidArgument, match="would not give the same bits"):
        run(SPEC, tmp_path / "run", backend=backend, jobs=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "slurm"}, r"backend is 'slurm': it is one of local, dask, ray"),
        ({"address": "tcp://here:1"}, r"the backend is not a cluster: add backend dask or ray"),
        ({"jobs": 0}, "jobs is 0"),
    ],
)
def test_bad_arguments(tmp_path, options, message):
    with pytest.raises(hl.InvalidArgument, match=message):
        run(SPEC, tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_no_scheduler_there(tmp_path, monkeypatch):
    monkeypatch.setattr("heirloom.runs.workers.dask.PATIENCE", 1.0)
    with (
        pytest.raises(hl.InvalidArgument, match="no Dask scheduler answers there"),
        workers("dask", address="tcp://127.0.0.1:9"),
    ):
        pass
    with (
        pytest.raises(hl.InvalidArgument, match="no Dask scheduler answers there"),
        workers("dask", address=str(tmp_path / "missing.json")),
    ):
        pass
    with (
        pytest.raises(hl.InvalidArgument, match="no Ray cluster answers there"),
        workers("ray", address="127.0.0.1:9"),
    ):
        pass


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_a_backend_that_is_not_installed(monkeypatch, backend):
    for name in ("distributed", "ray"):
        monkeypatch.setitem(sys.modules, name, None)
    with (
        pytest.raises(hl.InvalidArgument, match=rf"pip install 'heirloom-rl\[{backend}\]'"),
        workers(backend),
    ):
        pass
