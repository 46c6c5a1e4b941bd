"""The code blocks of README and docs: what they are, and what those in Python print."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

BLOCK = re.compile(
    r"^```(?P<language>\w*)\n(?P<code>.*?)^```$(?:\nprints\n```text\n(?P<printed>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)
SHOWN = re.compile(
    r"(?P<before>^```python\n(?P<code>(?:(?!^```$).)*?)^```\nprints\n```text\n).*?(?=^```$)",
    re.DOTALL | re.MULTILINE,
)


class Block(NamedTuple):
    """A code block, and what stands below it as its output."""

    place: str
    language: str
    code: str
    printed: str


def blocks(path: Path) -> Iterator[Block]:
    """The code blocks of a document."""
    text = path.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(f"{path.name}:{line}", found["language"], found["code"], found["printed"] or "")


def run(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a block of Python as a program of its own, in a folder; warnings are errors."""
    program = folder / "block.py"
    program.write_text(code, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-W", "error", program.name],
        cwd=folder,
        env=environment or None,
        capture_output=True,
        text=True,
        check=False,
    )


def with_outputs(text: str) -> str:
    """A document in which each block that shows its output shows what it prints now."""

    def shown(found: re.Match[str]) -> str:
        with TemporaryDirectory() as folder:
            done = run(found["code"], Path(folder))
        if done.returncode:
            raise RuntimeError(f"a code block fails:\n{found['code']}\n{done.stderr}")
        return found["before"] + done.stdout

    return SHOWN.sub(shown, text)
