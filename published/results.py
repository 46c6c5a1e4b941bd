"""Results that are kept in the repository, each with what it was measured with."""

import json
import os
import platform
import re
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from heirloom.runs.versions import versions

PROJECT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).parent / "results"
DIGITS = 6
NUMBERS = re.compile(r"\[\s+((?:(?:-?[\d.]+(?:e[+-]?\d+)?|null),?\s+)+)\]")


def load(name: str) -> dict[str, Any]:
    """What was measured under this name."""
    return _read(name)["measured"]


def seconds(name: str) -> dict[str, float]:
    """How long it took when it was last measured, by part."""
    return _read(name).get("seconds", {})


def made_by(name: str) -> dict[str, Any]:
    """What it was measured with."""
    return _read(name)["made_by"]


def keep(name: str, measured: dict[str, Any], seconds: dict[str, float] | None = None) -> bool:
    """Keep a result; returns whether it differs from what was kept.

    If it does not, the file stays as it is: it still says when the result was first measured.
    """
    measured = rounded(measured)
    path = RESULTS / f"{name}.json"
    if path.exists() and load(name) == measured:
        return False
    content = {"made_by": _surroundings(), "measured": measured}
    if seconds is not None:
        content["seconds"] = {part: round(taken, 1) for part, taken in seconds.items()}
    RESULTS.mkdir(exist_ok=True)
    path.write_text(_as_text(content), encoding="utf-8")
    return True


def rounded(value: Any) -> Any:
    """The same with numbers of six significant digits, which is more than any table shows."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    if isinstance(value, float):
        return None if value != value else float(f"{value:.{DIGITS}g}")
    return value


def source_tree() -> str:
    """The git tree of `src` as it is now, committed or not; compare `git rev-parse COMMIT:src`."""
    with TemporaryDirectory() as folder:
        env = {**os.environ, "GIT_INDEX_FILE": str(Path(folder) / "index")}
        _git("add", "src", env=env)
        return _git("write-tree", "--prefix=src/", env=env)


def _surroundings() -> dict[str, Any]:
    """What a result depends on."""
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
    """JSON with one line for each list of numbers."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    return NUMBERS.sub(lambda found: "[" + " ".join(found[1].split()) + "]", text) + "\n"
