"""README and docs, and the places in them where numbers stand."""

import re
from collections.abc import Iterator
from pathlib import Path

from published.code_blocks import with_outputs
from published.results import PROJECT
from published.tables import BLOCKS

DOCUMENTS = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]
BLOCK = re.compile(r"<!-- numbers: (.+?) -->\n(.*?)<!-- /numbers -->", re.DOTALL)


def filled(text: str) -> str:
    """A document with all its numbers as they are in the results."""
    return BLOCK.sub(
        lambda found: f"<!-- numbers: {found[1]} -->\n{BLOCKS[found[1]]()}\n<!-- /numbers -->", text
    )


def write(*, outputs: bool) -> list[Path]:
    """Write the numbers into all documents; returns those that changed.

    With `outputs`, code blocks are run, and what they print is written below them.
    """
    changed = []
    for path in DOCUMENTS:
        before = path.read_text(encoding="utf-8")
        after = filled(with_outputs(before) if outputs else before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            changed.append(path)
    return changed


def typed_numbers(text: str) -> Iterator[str]:
    """Rows of tables outside of all blocks that hold a measured number: 1.5, 3 %, or ±."""
    for line in BLOCK.sub("", text).splitlines():
        if line.startswith("|") and re.search(r"\d\.\d|\d ?%|±", line):
            yield line
