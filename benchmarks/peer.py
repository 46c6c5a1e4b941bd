"""Other libraries, run in an environment of their own that `make bench` makes.

A program of `benchmarks/peers` gets its work ready, prints `ready` and the seconds of the processor
that this took, does the work and prints one line of JSON, which holds at least `seconds` and
`version`. Whatever goes wrong is an answer too.
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
    """What a peer did: either `problem` says why it did nothing, or there are `seconds`.

    If it was stopped before it had finished, `seconds` is how long it had been given, or what it
    had got of the processors if that is less.
    """

    seconds: float | None = None
    stopped: bool = False
    problem: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def version(self) -> str | None:
        """The peer's version, if it said so."""
        return self.details.get("version")


def processor_seconds_of_children() -> float:
    """What programs that this one started and saw end took of the processors."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def ask(program: str, *arguments: str, limit: float = 600, python: Path = PYTHON) -> Answer:
    """Run one of `benchmarks/peers`; it is ended `limit` seconds after it was ready to work."""
    if not python.exists():
        return Answer(problem="no environment of peers: `make bench` makes it")
    before = processor_seconds_of_children()
    command = [str(python), str(HERE / "peers" / program), *arguments]
    lines, ready, too_long = [], None, threading.Event()
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        clock = threading.Timer(limit, lambda: (too_long.set(), process.kill()))
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if ready is None and line.startswith("ready "):
                ready = float(line.split()[1])
                clock.start()
        clock.cancel()
        code = process.wait()
        errors.seek(0)
        said = errors.read().strip().splitlines()
    if ready is not None and too_long.is_set():
        used = processor_seconds_of_children() - before - ready
        return Answer(seconds=min(limit, used), stopped=True)
    if code or ready is None:
        return Answer(problem=said[-1] if said else f"it ended with code {code}")
    details = json.loads(lines[-1])
    return Answer(seconds=details["seconds"], details=details)
