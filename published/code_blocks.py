"""The code blocks of README and docs, and the output of those in Python."""

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
BLOCK_WITH_OUTPUT = re.compile(
    r"(?P<before>^```python\n(?P<code>(?:(?!^```$).)*?)^```\nprints\n```text\n).*?(?=^```$)",
    re.DOTALL | re.MULTILINE,
)


class Block(NamedTuple):
    """A code block, and the output shown below it."""

    location: str
    language: str
    code: str
    printed: str


def blocks(path: Path) -> Iterator[Block]:
    """Iterate over the code blocks of a document."""
    text = path.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield Block(f"{path.name}:{line}", match["language"], match["code"], match["printed"] or "")


def run(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a block of Python as a separate program in a folder, with warnings as errors."""
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
    """Return a document with all shown outputs replaced by the current output of their blocks."""

    def current_output(match: re.Match[str]) -> str:
        with TemporaryDirectory() as folder:
            done = run(match["code"], Path(folder))
        if done.returncode:
            raise RuntimeError(f"a code block fails:\n{match['code']}\n{done.stderr}")
        return match["before"] + done.stdout

    return BLOCK_WITH_OUTPUT.sub(current_output, text)
