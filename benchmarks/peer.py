"""Run other libraries in the separate environment that `make bench` creates.

A program of `benchmarks/peers` prepares its work, prints `ready` and the processor time that the
preparation took, does the work, and prints one line of JSON with at least `seconds` and `version`.
If it fails, the answer contains the reason.
"""

import json
import resource
import subprocess
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PYTHON = HERE.parent / ".venv-peers" / "bin" / "python"


@dataclass(frozen=True)
class Answer:
    """The answer of a peer: the `seconds` that it took, or the `problem` if it failed.

    If it was stopped before it finished, `seconds` is the time limit, or the processor time that it
    used if that is less.
    """

    seconds: float | None = None
    stopped: bool = False
    problem: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def version(self) -> str | None:
        """The version of the peer, if it reported one."""
        return self.details.get("version")


def processor_seconds_of_children() -> float:
    """Return the processor time of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def ask(program: str, *arguments: str, limit: float = 600, python: Path = PYTHON) -> Answer:
    """Run a program of `benchmarks/peers`; kill it `limit` seconds after it is ready."""
    if not python.exists():
        return Answer(problem="there is no environment for peers; `make bench` creates it")
    before = processor_seconds_of_children()
    command = [str(python), str(HERE / "peers" / program), *arguments]
    lines, ready, timed_out = [], None, threading.Event()
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        timer = threading.Timer(limit, lambda: (timed_out.set(), process.kill()))
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if ready is None and line.startswith("ready "):
                ready = float(line.split()[1])
                timer.start()
        timer.cancel()
        code = process.wait()
        errors.seek(0)
        error_lines = errors.read().strip().splitlines()
    if ready is not None and timed_out.is_set():
        used = processor_seconds_of_children() - before - ready
        return Answer(seconds=min(limit, used), stopped=True)
    if code or ready is None:
        return Answer(problem=error_lines[-1] if error_lines else f"it exited with code {code}")
    details = json.loads(lines[-1])
    return Answer(seconds=details["seconds"], details=details)
