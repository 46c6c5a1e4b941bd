"""Other libraries, run in an environment of their own that `make bench` makes.

A program of `benchmarks/peers` gets its work ready, prints `ready`, does the work and prints one
line of JSON, which holds at least `seconds` and `version`. Whatever goes wrong is an answer too.
"""

import json
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PYTHON = HERE.parent / ".venv-peers" / "bin" / "python"


@dataclass(frozen=True)
class Answer:
    """What a peer did: either `problem` says why it did nothing, or there are `seconds`.

    If it was stopped before it had finished, `seconds` is how long it had been given.
    """

    seconds: float | None = None
    stopped: bool = False
    problem: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def version(self) -> str | None:
        """The peer's version, if it said so."""
        return self.details.get("version")


def ask(program: str, *arguments: str, limit: float = 600, python: Path = PYTHON) -> Answer:
    """Run one of `benchmarks/peers`; it is ended `limit` seconds after it was ready to work."""
    if not python.exists():
        return Answer(problem="no environment of peers: `make bench` makes it")
    command = [str(python), str(HERE / "peers" / program), *arguments]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        ready = any(line == "ready\n" for line in process.stdout)
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()
            return Answer(seconds=limit, stopped=True)
        errors.seek(0)
        said = errors.read().strip().splitlines()
    if process.returncode or not ready:
        return Answer(problem=said[-1] if said else f"it ended with code {process.returncode}")
    details = json.loads(output.splitlines()[-1])
    return Answer(seconds=details["seconds"], details=details)
