"""The lists of pages on the front page of the site."""

import re

from published.code_blocks import DOCS


def other_guides() -> str:
    """Return the pages of docs that the front page does not list, one per line."""
    listed = set(re.findall(r"^([\w/-]+)$", (DOCS / "index.md").read_text("utf-8"), re.MULTILINE))
    found = {path.stem for path in DOCS.glob("*.md")} - {"index"}
    return "\n".join(sorted(found - listed))
