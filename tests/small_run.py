"""Small experiments, and a class that runs them with the `heirloom` command in a subprocess."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, NamedTuple

import psutil

from heirloom.experiments.job import Job
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.store import RunStore
from heirloom.runs.workers.compute import compute_job, packed

SPEC = ExperimentSpec.read(
    {
        "name": "small",
        "family": {"name": "corridor", "variant": "text"},
        "defaults": {"n_known": 1, "refresh": "none"},
        "agents": [
            {"algorithm": "RMax"},
            {"algorithm": "LRMax", "d_max": [0.1, 0.2]},
            {"algorithm": "QLearning"},
        ],
        "tasks": 3,
        "distinct_tasks": 2,
        "episodes": 20,
        "steps": 11,
        "repetitions": 3,
        "seed": 7,
    }
)
FAST = ExperimentSpec.read({**SPEC.as_json(), "agents": SPEC.as_json()["agents"][:3]})
"""`SPEC` without Q-learning, which is slow because it is not compiled."""
LONG = FAST.with_changes(repetitions=200, episodes=10_000)
"""Takes long enough that a test can stop it while it runs."""
LONGEST = 600.0
"""Seconds that a test waits; far more than needed, also on a machine that is busy."""


class Command:
    """`heirloom run` in a subprocess with its own process group, as a terminal would start it."""

    started: ClassVar[list["Command"]] = []
    """All commands of the current test; a fixture kills them when the test ends."""

    def __init__(self, spec: ExperimentSpec, folder: Path, *options: str) -> None:
        self.folder = folder
        file = folder.with_suffix(".toml")
        file.write_text(spec.to_toml())
        self.process = subprocess.Popen(
            [sys.executable, "-m", "heirloom", "run", str(file), "--out", str(folder), *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(self)

    def wait_for(self, jobs: int, seconds: float = LONGEST) -> None:
        """Wait until this number of jobs is complete, or the command has ended."""
        wait_until(
            lambda: jobs_done(self.folder) >= jobs or self.process.poll() is not None, seconds
        )

    def kill(self) -> None:
        """Kill all processes of the command."""
        os.killpg(self.process.pid, signal.SIGKILL)

    def stop(self, signal_number: int = signal.SIGINT) -> None:
        """Send SIGINT to all processes, as a terminal does, or another signal to the first one."""
        if signal_number == signal.SIGINT:
            os.killpg(self.process.pid, signal_number)
        else:
            self.process.send_signal(signal_number)

    def children(self) -> list[int]:
        """Ids of the running processes that the command started."""
        return [pid for pid in self.processes(b"") if pid != self.process.pid]

    def processes(self, part: bytes) -> list[int]:
        """Ids of the processes of the command whose command line contains `part`."""
        return [each.pid for each in processes(part) if each.session == self.process.pid]

    def wait(self, seconds: float = LONGEST) -> tuple[int, str]:
        """Wait until the command ends; return its exit status and its standard error."""
        _, stderr = self.process.communicate(timeout=seconds)
        return self.process.returncode, stderr


class Process(NamedTuple):
    """A running process."""

    pid: int
    parent: int
    session: int


def processes(part: bytes = b"") -> list[Process]:
    """Return the running processes whose command line contains `part`."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # the process has ended, or belongs to another user
            command = " ".join(process.cmdline()).encode()
            if part in command and process.status() != psutil.STATUS_ZOMBIE:
                found.append(Process(process.pid, process.ppid(), os.getsid(process.pid)))
    return found


def jobs_done(folder: Path) -> int:
    """Return the number of jobs that a run has committed; 0 if there is none yet."""
    file = folder / "run.sqlite"
    if not file.exists() or not file.stat().st_size:
        return 0
    connection = sqlite3.connect(f"file:{file}?mode=rw", uri=True, timeout=60)
    try:
        return connection.execute("SELECT count(*) FROM job").fetchone()[0]
    except sqlite3.OperationalError:  # the tables are not committed yet
        return 0
    finally:
        connection.close()


def wait_until(condition: Callable[[], object], seconds: float = LONGEST) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"the condition was not met within {seconds} s"
        time.sleep(0.01)


def commit(store: RunStore, jobs: Iterable[Job]) -> None:
    """Compute jobs, and commit them together."""
    store.location.mkdir(parents=True, exist_ok=True)
    for job in jobs:
        store.add(*compute_job(packed(store.spec), job))
    store.commit()


def flip(file: Path, position: float) -> None:
    """Flip a bit of a file; `position` is from 0, the first byte, to 1, the last."""
    data = bytearray(file.read_bytes())
    data[int(position * (len(data) - 1))] ^= 1
    file.write_bytes(data)
