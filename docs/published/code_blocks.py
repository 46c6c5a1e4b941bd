"""The code blocks of README and docs, and the output of those in Python.

A block is a program of its own, except in tutorials, where each block continues those before it.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from published.results import PROJECT

DOCS = PROJECT / "docs"
TUTORIALS = DOCS / "tutorials"
BLOCK = re.compile(
    r"^```(?P<language>[^\n`]*)\n(?P<code>.*?)^```$(?:\nprints\n```text\n(?P<printed>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)
PYTHON_BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```$(?:(?P<between>\nprints\n```text\n)(?P<printed>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)
PICTURE = re.compile(r"!\[[^\]]*\]\((?P<path>[^)]+\.png)\)")
SEPARATOR = "\x1e"  # printed after each block
ONE_BY_ONE = """
import os, runpy
for i in range({n}):
    os.chdir(os.path.join({folder!r}, str(i)))
    runpy.run_path("block.py", run_name="__main__")
"""


class Block(NamedTuple):
    """A code block, and the output shown below it."""

    location: str
    language: str
    code: str
    printed: str


class Executed(NamedTuple):
    """What the Python blocks of a page printed, in order, and the pictures they saved."""

    printed: list[str]
    pictures: Mapping[str, bytes]


def name_of(path: Path) -> str:
    """Return the path of a page within docs, or the name of a document outside."""
    return path.relative_to(DOCS).as_posix() if path.is_relative_to(DOCS) else path.name


def is_tutorial(path: Path) -> bool:
    """Whether the Python blocks of a page form one program."""
    return path.is_relative_to(TUTORIALS)


def blocks(path: Path) -> Iterator[Block]:
    """Iterate over the code blocks of a document."""
    text = path.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        location = f"{name_of(path)}:{line}"
        yield Block(location, match["language"], match["code"], match["printed"] or "")


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


def execute(codes: Sequence[str], *, continued: bool, **environment: str) -> Executed:
    """Run Python blocks in empty folders; raise `RuntimeError` if one fails.

    With `continued` they are one program, otherwise each is its own, and one process runs them one
    after the other, so that it loads the libraries once.
    """
    # Workers of a cluster import the program as well, and must not print.
    end = '\nif __name__ == "__main__":\n    print("\\x1e", end="", flush=True)\n'
    separated = [code + end for code in codes]
    with TemporaryDirectory() as name:
        folder = Path(name)
        if continued:
            done = run("".join(separated), folder, **environment)
        else:
            for i, program in enumerate(separated):
                (folder / str(i)).mkdir()
                (folder / str(i) / "block.py").write_text(program, encoding="utf-8")
            done = run(ONE_BY_ONE.format(n=len(codes), folder=name), folder, **environment)
        printed = done.stdout.split(SEPARATOR)[:-1]
        if done.returncode:
            failed = "".join(codes) if continued else codes[len(printed)]
            raise RuntimeError(f"a code block fails:\n{failed}\n{done.stderr}")
        pictures = {path.name: path.read_bytes() for path in folder.rglob("*.png")}
    return Executed(printed, pictures)


def executed_blocks(path: Path) -> list[re.Match[str]]:
    """Return the Python blocks that are run for their output: in a tutorial, all of them."""
    found = PYTHON_BLOCK.finditer(path.read_text(encoding="utf-8"))
    return [match for match in found if match["between"] or is_tutorial(path)]


def execute_page(path: Path, **environment: str) -> Executed:
    """Run the Python blocks of a page that print something, or all blocks of a tutorial."""
    codes = [match["code"] for match in executed_blocks(path)]
    return execute(codes, continued=is_tutorial(path), **environment)


def with_outputs(path: Path, printed: Sequence[str]) -> str:
    """Return the text of a page with these outputs below the blocks that were run."""
    text, parts, end = path.read_text(encoding="utf-8"), [], 0
    for match, output in zip(executed_blocks(path), printed, strict=True):
        shown = f"\nprints\n```text\n{output}```" if output else ""
        parts += [text[end : match.start()], f"```python\n{match['code']}```{shown}"]
        end = match.end()
    return "".join([*parts, text[end:]])


def shown_pictures(path: Path) -> dict[str, Path]:
    """Return the paths of the pictures that a page shows, by name."""
    found = PICTURE.finditer(path.read_text(encoding="utf-8"))
    return {Path(match["path"]).name: (path.parent / match["path"]).resolve() for match in found}
