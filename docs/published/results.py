"""Results stored in the repository, each with the versions and the commit that produced it."""

import json
import os
import platform
import re
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from heirloom.runs.versions import versions

PROJECT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).parent / "results"
DIGITS = 6
NUMBERS = re.compile(r"\[\s+((?:(?:-?[\d.]+(?:e[+-]?\d+)?|null),?\s+)+)\]")


def load(name: str) -> dict[str, Any]:
    """Return the stored result of this name."""
    return _read(name)["measured"]


def seconds(name: str) -> dict[str, float]:
    """Return how long the stored measurement took, by part."""
    return _read(name).get("seconds", {})


def made_by(name: str) -> dict[str, Any]:
    """Return the commit, source tree, machine and versions that produced a result."""
    return _read(name)["made_by"]


def store(name: str, measured: dict[str, Any], seconds: dict[str, float] | None = None) -> bool:
    """Store a result; return whether it differs from the one stored before.

    If it does not, the file is not written, and still names the commit that first produced it.
    """
    measured = rounded(measured)
    path = RESULTS / f"{name}.json"
    if path.exists() and load(name) == measured:
        return False
    content = {"made_by": _environment(), "measured": measured}
    if seconds is not None:
        content["seconds"] = {part: round(duration, 1) for part, duration in seconds.items()}
    RESULTS.mkdir(exist_ok=True)
    path.write_text(_as_text(content), encoding="utf-8")
    return True


def rounded(value: Any) -> Any:
    """Round all numbers to six significant digits, which is more than any table shows."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    if isinstance(value, float):
        return None if value != value else float(f"{value:.{DIGITS}g}")
    return value


def source_tree() -> str:
    """Return the git tree of `src` with uncommitted changes, as in `git rev-parse COMMIT:src`."""
    with TemporaryDirectory() as folder:
        env = {**os.environ, "GIT_INDEX_FILE": str(Path(folder) / "index")}
        _git("add", "src", env=env)
        return _git("write-tree", "--prefix=src/", env=env)


def _environment() -> dict[str, Any]:
    """Return the commit, source tree, machine and versions that a result depends on."""
    return {
        "commit": _git("describe", "--always", "--dirty", "--abbrev=12"),
        "src": source_tree(),
        "machine": f"{platform.system()} {platform.machine()}",
        "versions": versions(),
    }


def _git(*arguments: str, env: dict[str, str] | None = None) -> str:
    command = ["git", "-C", str(PROJECT), *arguments]
    out = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return out.stdout.strip()


def _read(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def _as_text(content: dict[str, Any]) -> str:
    """Format as JSON, with one line per list of numbers."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    return NUMBERS.sub(lambda match: "[" + " ".join(match[1].split()) + "]", text) + "\n"
