"""README and docs, and the generated tables in them."""

import re
from collections.abc import Iterator
from pathlib import Path

from published.code_blocks import with_outputs
from published.results import PROJECT
from published.tables import BLOCKS

DOCUMENTS = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]
BLOCK = re.compile(r"<!-- numbers: (.+?) -->\n(.*?)<!-- /numbers -->", re.DOTALL)


def with_tables(text: str) -> str:
    """Return a document with all its tables generated from the stored results."""
    return BLOCK.sub(
        lambda match: f"<!-- numbers: {match[1]} -->\n{BLOCKS[match[1]]()}\n<!-- /numbers -->", text
    )


def write(*, outputs: bool) -> list[Path]:
    """Write the tables into all documents; return the documents that changed.

    With `outputs`, also run the code blocks, and write their outputs below them.
    """
    changed = []
    for path in DOCUMENTS:
        before = path.read_text(encoding="utf-8")
        after = with_tables(with_outputs(before) if outputs else before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            changed.append(path)
    return changed


def hand_typed_rows(text: str) -> Iterator[str]:
    """Iterate over the rows of hand-written tables that hold a measured number: 1.5, 3 %, or ±."""
    for line in BLOCK.sub("", text).splitlines():
        if line.startswith("|") and re.search(r"\d\.\d|\d ?%|±", line):
            yield line
