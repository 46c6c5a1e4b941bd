"""Whatever happens to a run, nothing of it is lost, and the same command goes on."""

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import heirloom as hl
from heirloom.experiments.job import run_job
from heirloom.runs.run import _lock, run
from heirloom.runs.store import RunStore
from heirloom.runs.stored_run import StoredRun, read_results
from heirloom.storage.location import Location
from tests.small_run import FAST, LONG, SPEC, Command, jobs_done, wait_until

KILLED = FAST.with_changes(repetitions=10, episodes=400)
GOES_ON = "stopped; run the same command again to resume"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The results of a run that was never stopped."""
    return run(KILLED, tmp_path_factory.mktemp("whole") / "run", jobs=1)


def test_a_run_that_is_killed_three_times_gives_the_same(tmp_path, whole):
    """SIGKILL, to all its processes, then the same command again."""
    folder = tmp_path / "run"
    for jobs in (2, 9, 20):
        command = Command(KILLED, folder, "--jobs", "2")
        command.wait_for(jobs)
        command.kill()
        assert command.end()[0] == -signal.SIGKILL
    assert Command(KILLED, folder, "--jobs", "2").end()[0] == 0
    assert read_results(folder).identical(whole)


FORKS = """
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
    time.sleep(rng.uniform(0, 1.5))
    os.kill(child, signal.SIGKILL)
    killed += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_that_is_killed_at_fifty_random_instants_gives_the_same(tmp_path):
    """In five runs, ten times each: while it is made, between units and while one is written."""
    spec = KILLED.with_changes(repetitions=40)
    whole = run(spec, tmp_path / "whole", jobs=1)
    (tmp_path / "spec.toml").write_text(spec.to_toml())
    (tmp_path / "forks.py").write_text(FORKS)
    command = [sys.executable, "forks.py", "spec.toml", "run", "50", "3"]
    subprocess.run(command, cwd=tmp_path, check=True, stderr=subprocess.DEVNULL)
    for folder in ("run", "run1", "run2", "run3", "run4"):
        run(spec, tmp_path / folder, jobs=1)
        assert read_results(tmp_path / folder).identical(whole)
        assert not list((tmp_path / folder).rglob("*.partial"))


def test_ctrl_c_says_how_to_go_on(tmp_path):
    command = Command(LONG, tmp_path / "run", "--jobs", "2")
    command.wait_for(3)
    command.stop()
    status, said = command.end()
    assert status == 130
    assert GOES_ON in said
    assert "Traceback" not in said


LOST = """
import signal, sys, time, weakref
from heirloom.__main__ import main
from heirloom.runs import run as runner

class Thing:
    pass

def in_a_library():
    try:
        signal.raise_signal(signal.SIGINT)
    except:
        pass

def turned_into_another():
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise RuntimeError("something is wrong")

def cleaning_up(number=signal.SIGINT):
    thing = Thing()
    reference = weakref.ref(thing, lambda _: signal.raise_signal(number))
    del thing
    time.sleep(60)

def cleaning_up_in_the_background():
    cleaning_up(signal.SIGTERM)

lose = globals()[sys.argv.pop(1)]
if lose is cleaning_up_in_the_background:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a script has it there
runner.check_agents = lambda spec: lose()
main()
"""


@pytest.mark.parametrize(
    "where",
    ["in_a_library", "turned_into_another", "cleaning_up", "cleaning_up_in_the_background"],
)
def test_ctrl_c_that_is_dropped(tmp_path, where):
    """By a library, which may also change it, or by Python, where an object is cleaned up."""
    (tmp_path / "spec.toml").write_text(SPEC.to_toml())
    command = [sys.executable, "-c", LOST, where, "run", "spec.toml", "--out", "run", "--jobs", "1"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50)
    assert (ended.returncode, ended.stderr) == (130, GOES_ON + "\n")
    assert jobs_done(tmp_path / "run") == 0


@pytest.mark.slow
@pytest.mark.parametrize("what", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_at_any_time(tmp_path, what):
    """While libraries are loaded, processes are started, and units are computed and written."""
    rng = random.Random(0)
    folder, spec = tmp_path / "run", LONG.with_changes(repetitions=1000)
    for latest in [1.0, 2.0, 3.0, 4.0, 6.0] * 2:
        command = Command(spec, folder, "--jobs", "2")
        with pytest.raises(subprocess.TimeoutExpired):
            command.process.wait(rng.uniform(0.3, latest))
        command.stop(what)
        status, said = command.end(30)
        # Python ends itself so if it came while the text of a library was executed.
        assert status in (130, -signal.SIGINT), said
        assert "Traceback" not in said
        wait_until(lambda: not command.others())  # noqa: B023 -- called here
    if folder.exists():
        assert not StoredRun(folder).status().damaged


def test_a_worker_that_is_killed_is_said_to_be(tmp_path):
    command = Command(LONG, tmp_path / "run", "--jobs", "2")
    command.wait_for(2)
    os.kill(command.named(b"LokyProcess")[0], signal.SIGKILL)
    status, said = command.end()
    assert status == 1
    assert "error: a process of this run was killed" in said
    assert "Traceback" not in said


def test_two_runs_in_one_folder(tmp_path):
    with (
        _lock(Location(tmp_path / "run")),
        pytest.raises(hl.InvalidArgument, match="another run is working in"),
    ):
        run(SPEC, tmp_path / "run", jobs=1)


def test_two_commands_at_once(tmp_path, whole):
    """One is refused, the other one finishes."""
    commands = [Command(KILLED, tmp_path / "run", "--jobs", "1") for _ in range(2)]
    ended = sorted(command.end() for command in commands)
    if ended[1][0] == 0:  # on a slow machine one may begin when the other has ended
        assert read_results(tmp_path / "run").identical(whole)
        return
    assert [status for status, _ in ended] == [0, 1]
    assert "another run is working in" in ended[1][1]
    assert read_results(tmp_path / "run").identical(whole)


# Python's filters of warnings are not made for threads; runs are in processes otherwise.
@pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")
@pytest.mark.parametrize("location", ["memory://two/runs", "folder"])
def test_two_runs_where_there_are_no_locks(tmp_path, monkeypatch, whole, location):
    """Both finish, and both are right."""
    if location == "folder":
        location = str(tmp_path / "run")
        import fcntl

        def no_locks(*_):
            raise OSError(38, "Function not implemented")

        monkeypatch.setattr(fcntl, "flock", no_locks)
    results = {}

    def one(number):
        results[number] = run(KILLED, location, jobs=1)

    threads = [threading.Thread(target=one, args=(number,), daemon=True) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert set(results) == {0, 1}
    for result in results.values():
        assert result.identical(whole)


DISK = """
import subprocess, sys
from pathlib import Path
import heirloom as hl
from heirloom.runs.run import run
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.stored_run import StoredRun, read_results
spec, disk, whole = ExperimentSpec.load(sys.argv[1]), sys.argv[2], sys.argv[3]
mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk]
if subprocess.run(mount).returncode:
    sys.exit(77)
try:
    try:
        run(spec, disk + "/run", jobs=1)
        sys.exit("the disk was not full")
    except hl.CannotWrite as error:
        print(error)
    status = StoredRun(disk + "/run").status()
    print(len(status.done), len(status.missing), len(status.damaged))
    subprocess.run(["mount", "-o", "remount,size=50m", disk], check=True)
    assert run(spec, disk + "/run", jobs=1).identical(read_results(whole))
    assert not list(Path(disk).rglob("*.partial"))
finally:
    subprocess.run(["umount", disk])
"""


def test_a_disk_that_is_full(tmp_path):
    """A small file system that runs full, and is made larger."""
    run(LONG.with_changes(repetitions=5), tmp_path / "whole", jobs=1)
    (tmp_path / "spec.toml").write_text(LONG.with_changes(repetitions=5).to_toml())
    (tmp_path / "disk.py").write_text(DISK)
    (tmp_path / "disk").mkdir()
    command = [sys.executable, "disk.py", "spec.toml", str(tmp_path / "disk"), "whole"]
    if os.geteuid() != 0:
        command = ["unshare", "--map-root-user", "--mount", *command]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    if ended.returncode == 77:
        pytest.skip("no file system may be mounted here")
    assert ended.returncode == 0, ended.stderr
    message, counts = ended.stdout.splitlines()
    assert "could not be written (No space left on device): make room" in message
    done, missing, damaged = map(int, counts.split())
    assert done > 0
    assert missing > 0
    assert damaged == 0


def test_a_disk_that_is_full_while_a_unit_is_written(tmp_path, monkeypatch):
    """Whichever of its arrays does not fit, the unit is not taken for done."""
    folder = tmp_path / "run"
    store = RunStore(folder, SPEC)
    results = run_job(SPEC, 0, 0)
    array = type(store.group["returns"])
    write = array.__setitem__
    for fits in range(5):
        room = iter([True] * fits + [False])

        def full(self, *args, room=room):
            if not next(room):
                raise OSError(28, "No space left on device")
            write(self, *args)

        with monkeypatch.context() as patched:
            patched.setattr(array, "__setitem__", full)
            with pytest.raises(hl.CannotWrite, match=r"No space left on device\): make room"):
                store.write((0, 0), results)
        assert not RunStore(folder, SPEC).is_done((0, 0))
    store.write((0, 0), results)
    assert RunStore(folder, SPEC).is_done((0, 0))


def test_a_place_that_forgets_is_told(tmp_path, monkeypatch):
    """What was written is read again before a run says that it is done."""
    monkeypatch.setattr(RunStore, "write", lambda self, job, results: None)
    with pytest.raises(hl.CannotWrite, match=r"12 jobs written to .* could not be read back"):
        run(SPEC, tmp_path / "run", jobs=1)


def test_reading_a_run_unpickles_and_executes_nothing(tmp_path):
    """Arrays of objects, which only pickling could store, are refused."""
    folder = tmp_path / "run"
    run(SPEC, folder, jobs=1)
    for name in ("returns", "agent"):
        metadata = Path(folder, name, "zarr.json")
        metadata.write_text(metadata.read_text().replace("zstd", "pickle"))
    (folder / "zarr.json").write_text((folder / "zarr.json").read_text().replace("zstd", "pickle"))
    with pytest.raises(hl.InvalidFile):
        read_results(folder)
