"""A small experiment, and commands that run it in other processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from heirloom.experiments.spec import ExperimentSpec

SPEC = ExperimentSpec.read(
    {
        "name": "small",
        "family": {"name": "corridor", "variant": "text"},
        "defaults": {"n_known": 1},
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
"""Without Q-learning, which is not compiled."""
LONG = FAST.with_changes(repetitions=200, episodes=10_000)
"""Long enough to be stopped in its midst."""


class Command:
    """`heirloom run` in a process, with its own group as in a terminal."""

    started: ClassVar[list["Command"]] = []
    """Those of a test, which end with it."""

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

    def wait_for(self, jobs: int, seconds: float = 90) -> None:
        """Until so many units are done."""
        wait_until(
            lambda: jobs_done(self.folder) >= jobs or self.process.poll() is not None, seconds
        )

    def kill(self) -> None:
        """All its processes."""
        os.killpg(self.process.pid, signal.SIGKILL)

    def stop(self, what: int = signal.SIGINT) -> None:
        """Ctrl-C goes to all its processes, as from a terminal; being told to end, to the first."""
        if what == signal.SIGINT:
            os.killpg(self.process.pid, what)
        else:
            self.process.send_signal(what)

    def others(self) -> list[int]:
        """The processes that it started and that are still there."""
        return [pid for pid in self.named(b"") if pid != self.process.pid]

    def named(self, part: bytes) -> list[int]:
        """Its processes with this in their command."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                stat, command = (folder / "stat").read_text(), (folder / "cmdline").read_bytes()
            except OSError:  # it has ended
                continue
            state, _, _, session = stat.rsplit(")", 1)[1].split()[:4]
            if part in command and int(session) == self.process.pid and state != "Z":
                found.append(int(folder.name))
        return found

    def end(self, seconds: float = 120) -> tuple[int, str]:
        """Its exit status, and what it said."""
        _, said = self.process.communicate(timeout=seconds)
        return self.process.returncode, said


def jobs_done(folder: Path) -> int:
    chunks = folder / "done" / "c"
    return sum(path.is_file() for path in chunks.rglob("*")) if chunks.exists() else 0


def wait_until(happens: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
