"""README and docs, and the generated tables in them."""

import re
from collections.abc import Iterator
from pathlib import Path

from published.code_blocks import execute_page, shown_pictures, with_outputs
from published.results import PROJECT
from published.tables import BLOCKS

DOCUMENTS = [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"<!-- numbers: (.+?) -->\n(.*?)<!-- /numbers -->", re.DOTALL)


def with_tables(text: str) -> str:
    """Return a document with all its tables generated from the stored results."""
    return BLOCK.sub(
        lambda match: f"<!-- numbers: {match[1]} -->\n{BLOCKS[match[1]]()}\n<!-- /numbers -->", text
    )


def write(*, outputs: bool) -> list[Path]:
    """Write the tables into all documents; return the documents that changed.

    With `outputs`, also run the code blocks, and write their outputs and pictures.
    """
    changed = []
    for path in DOCUMENTS:
        before = path.read_text(encoding="utf-8")
        after = with_tables(_with_current_outputs(path) if outputs else before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            changed.append(path)
    return changed


def _with_current_outputs(path: Path) -> str:
    """Run the blocks of a document, write the pictures it shows, and return it with outputs."""
    executed = execute_page(path)
    for name, target in shown_pictures(path).items():
        if name in executed.pictures:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(executed.pictures[name])
    return with_outputs(path, executed.printed)


def hand_typed_rows(text: str) -> Iterator[str]:
    """Iterate over the rows of hand-written tables that hold a measured number: 1.5, 3 %, or ±."""
    for line in BLOCK.sub("", text).splitlines():
        if line.startswith("|") and re.search(r"\d\.\d|\d ?%|±", line):
            yield line
