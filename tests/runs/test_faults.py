"""Runs that are killed, stopped or out of disk space lose no complete job and can be resumed."""

import os
import random
import signal
import subprocess
import sys

import pytest

import heirloom as hl
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.lock import lock
from heirloom.runs.results import results
from heirloom.runs.run import run
from heirloom.runs.store import RunStore
from heirloom.runs.stored_run import StoredRun
from tests.small_run import FAST, LONG, SPEC, Command, jobs_done, wait_until

MEDIUM = FAST.with_changes(repetitions=10, episodes=400)
HOW_TO_RESUME = "stopped; run the same command again to resume"


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The results of a run that was never stopped."""
    return run(MEDIUM, tmp_path_factory.mktemp("expected") / "run", jobs=1)


def test_run_killed_twice_gives_identical_results(tmp_path, expected):
    """SIGKILL is sent to all processes of the run, which is then resumed."""
    folder = tmp_path / "run"
    for jobs in (2, 15):
        command = Command(MEDIUM, folder, "--jobs", "2")
        command.wait_for(jobs)
        command.kill()
        assert command.wait()[0] == -signal.SIGKILL
    assert Command(MEDIUM, folder, "--jobs", "2").wait()[0] == 0
    assert results(folder).identical(expected)


KILL_REPEATEDLY = """
import os, random, signal, sys, time
from heirloom.runs.run import run
from heirloom.experiments.spec import ExperimentSpec
spec, folder, kills, seed = ExperimentSpec.load(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:])
rng, killed = random.Random(seed), 0
while killed < kills:
    child = os.fork()
    if child == 0:
        run(spec, folder + str(rounds) if (rounds := killed // 10) else folder, jobs=1)
        os._exit(0)
    time.sleep(rng.uniform(0, 0.75))
    os.kill(child, signal.SIGKILL)
    killed += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_run_killed_at_thirty_random_instants_gives_identical_results(tmp_path):
    """Three runs are killed ten times each: during creation, between jobs, or during a write."""
    spec = MEDIUM.with_changes(repetitions=20)
    expected = run(spec, tmp_path / "expected", jobs=1)
    (tmp_path / "spec.toml").write_text(spec.to_toml())
    (tmp_path / "kill_repeatedly.py").write_text(KILL_REPEATEDLY)
    command = [sys.executable, "kill_repeatedly.py", "spec.toml", "run", "30", "3"]
    subprocess.run(command, cwd=tmp_path, check=True, stderr=subprocess.DEVNULL)
    for folder in ("run", "run1", "run2"):
        run(spec, tmp_path / folder, jobs=1)
        assert results(tmp_path / folder).identical(expected)
        assert os.listdir(tmp_path / folder) == ["run.sqlite"]


def test_ctrl_c_shows_how_to_resume(tmp_path):
    command = Command(LONG, tmp_path / "run", "--jobs", "2")
    command.wait_for(3)
    command.stop()
    status, stderr = command.wait()
    assert status == 130
    assert HOW_TO_RESUME in stderr
    assert "Traceback" not in stderr


CTRL_C_LOST = """
import signal, sys, time, weakref
from heirloom.__main__ import main
from heirloom.runs import run as runner

class Thing:
    pass

def swallowed_by_a_library():
    try:
        signal.raise_signal(signal.SIGINT)
    except:
        pass

def replaced_by_another_exception():
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise RuntimeError("something is wrong")

def dropped_by_a_finaliser(number=signal.SIGINT):
    thing = Thing()
    reference = weakref.ref(thing, lambda _: signal.raise_signal(number))
    del thing
    time.sleep(6000)

def dropped_by_a_finaliser_in_the_background():
    dropped_by_a_finaliser(signal.SIGTERM)

lose_ctrl_c = globals()[sys.argv.pop(1)]
if lose_ctrl_c is dropped_by_a_finaliser_in_the_background:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a background job of a script
runner.check_agents = lambda *_: lose_ctrl_c()
main()
"""


@pytest.mark.parametrize(
    "loss",
    [
        "dropped_by_a_finaliser_in_the_background",
        pytest.param("swallowed_by_a_library", marks=pytest.mark.slow),
        pytest.param("replaced_by_another_exception", marks=pytest.mark.slow),
        pytest.param("dropped_by_a_finaliser", marks=pytest.mark.slow),
    ],
)
def test_ctrl_c_stops_the_command_even_if_the_exception_is_lost(tmp_path, loss):
    """A library may swallow or replace `KeyboardInterrupt`; Python drops it in a finaliser."""
    (tmp_path / "spec.toml").write_text(SPEC.to_toml())
    options = ["run", "spec.toml", "--out", "run", "--jobs", "1"]
    command = [sys.executable, "-c", CTRL_C_LOST, loss, *options]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (130, HOW_TO_RESUME + "\n")
    assert jobs_done(tmp_path / "run") == 0


@pytest.mark.parametrize(
    "rounds", [pytest.param(1, marks=pytest.mark.slow), pytest.param(5, marks=pytest.mark.full)]
)
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_run_can_be_stopped_at_any_time(tmp_path, signal_number, rounds):
    """While it imports libraries, starts processes, and computes and writes jobs."""
    rng = random.Random(0)
    folder, spec = tmp_path / "run", LONG.with_changes(repetitions=1000)
    for latest in [1.0, 2.0, 3.0, 4.0, 6.0] * rounds:
        command = Command(spec, folder, "--jobs", "2")
        with pytest.raises(subprocess.TimeoutExpired):
            command.process.wait(rng.uniform(0.3, latest))
        command.stop(signal_number)
        status, stderr = command.wait()
        # Python itself ends with -SIGINT if the signal arrives while a module is executed.
        assert status in (130, -signal.SIGINT), stderr
        assert "Traceback" not in stderr
        wait_until(lambda: not command.children())  # noqa: B023 -- called here
    if (folder / "run.sqlite").exists():
        assert StoredRun(folder).status().is_intact


KILLS_ITS_WORKER_ONCE = """
import os, signal
from pathlib import Path
import heirloom as hl
from heirloom.runs.workers import process

def agent(**options):
    killed = Path(__file__).with_name("killed")
    if process.is_worker and not killed.exists():
        killed.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return hl.RMax(n_known=1, **options)
"""


@pytest.mark.slow
def test_run_completes_although_a_worker_was_killed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "killing_agent.py").write_text(KILLS_ITS_WORKER_ONCE)
    agents = [{"algorithm": "RMax"}, {"algorithm": "killing_agent:agent"}]
    spec = ExperimentSpec.read({**SPEC.as_json(), "defaults": {}, "agents": agents})
    status, stderr = Command(spec, tmp_path / "run", "--jobs", "2").wait()
    assert status == 0, stderr
    assert (tmp_path / "killed").exists()
    assert "a worker process ended (exit status -9, " in stderr
    assert "Traceback" not in stderr
    assert results(tmp_path / "run").identical(run(spec, tmp_path / "expected", jobs=1))


def test_second_run_in_one_folder_is_refused(tmp_path):
    with (
        lock(tmp_path / "run"),
        pytest.raises(hl.errors.InvalidArgument, match="another run is in progress in"),
    ):
        run(SPEC, tmp_path / "run", jobs=1)


def test_one_of_two_simultaneous_commands_is_refused(tmp_path, expected):
    """The other one completes the run."""
    commands = [Command(MEDIUM, tmp_path / "run", "--jobs", "1") for _ in range(2)]
    ended = sorted(command.wait() for command in commands)
    if ended[1][0] == 0:  # on a slow machine one may start after the other has ended
        assert results(tmp_path / "run").identical(expected)
        return
    assert [status for status, _ in ended] == [0, 1]
    assert "another run is in progress in" in ended[1][1]
    assert results(tmp_path / "run").identical(expected)


FILL_DISK = """
import subprocess, sys
from pathlib import Path
import heirloom as hl
import heirloom.runs.run
from heirloom import runs
from heirloom.runs.run import run
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.results import results
from heirloom.runs.stored_run import StoredRun
spec, disk, expected = ExperimentSpec.load(sys.argv[1]), sys.argv[2], sys.argv[3]
runs.size.free_space = lambda location: None  # as if the disk ran full during the run
runs.store.INTERVAL = 0.01
mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", disk]
if subprocess.run(mount).returncode:
    sys.exit(77)
try:
    try:
        run(spec, disk + "/run", jobs=1)
        sys.exit("the disk was not full")
    except hl.errors.CannotWrite as error:
        print(error)
    status = StoredRun(disk + "/run").status()
    print(len(status.done), len(status.missing), len(status.damaged))
    subprocess.run(["mount", "-o", "remount,size=50m", disk], check=True)
    assert run(spec, disk + "/run", jobs=1).identical(results(expected))
    assert [path.name for path in Path(disk, "run").iterdir()] == ["run.sqlite"]
finally:
    subprocess.run(["umount", disk])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a file system as Linux does")
def test_run_on_a_full_disk_can_be_resumed_when_there_is_space(tmp_path):
    """A small file system runs full, and is then made larger."""
    run(LONG.with_changes(repetitions=5), tmp_path / "expected", jobs=1)
    (tmp_path / "spec.toml").write_text(LONG.with_changes(repetitions=5).to_toml())
    (tmp_path / "fill_disk.py").write_text(FILL_DISK)
    (tmp_path / "disk").mkdir()
    command = [sys.executable, "fill_disk.py", "spec.toml", str(tmp_path / "disk"), "expected"]
    if os.geteuid() != 0:
        command = ["unshare", "--map-root-user", "--mount", *command]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    if ended.returncode == 77:
        pytest.skip("this process may not mount a file system")
    assert ended.returncode == 0, ended.stderr
    message, counts = ended.stdout.splitlines()
    assert "could not be written (No space left on device)" in message
    done, missing, damaged = map(int, counts.split())
    assert done > 0
    assert missing > 0
    assert damaged == 0


def test_run_fails_if_jobs_cannot_be_read_back(tmp_path, monkeypatch):
    """A run reads back every job that it wrote before it reports success."""
    monkeypatch.setattr(RunStore, "_flush", lambda self, file: self._waiting.clear())
    with pytest.raises(
        hl.errors.CannotWrite, match=r"12 jobs written to .* could not be read back"
    ):
        run(SPEC, tmp_path / "run", jobs=1)
