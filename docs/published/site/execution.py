"""Execute the tutorials while the site is built."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sphinx.util import logging

from published import code_blocks

PROGRAMS = 2  # that run at the same time
log = logging.getLogger(__name__)


def executed_pages() -> list[Path]:
    """Return the pages that are executed in every build; tests execute the others."""
    return [code_blocks.DOCS / "get-started.md", *sorted(code_blocks.TUTORIALS.glob("*.md"))]


def execute(paths: Sequence[Path]) -> dict[str, bytes]:
    """Execute pages, warn of outputs that differ from the shown ones; return their pictures."""
    with ThreadPoolExecutor(PROGRAMS) as pool:
        pages = list(pool.map(_execute_one, paths))
    return {name: data for pictures in pages for name, data in pictures.items()}


def _execute_one(path: Path) -> dict[str, bytes]:
    name = code_blocks.name_of(path)
    try:
        executed = code_blocks.execute_page(path)
    except RuntimeError as error:
        log.warning("%s: %s", name, error)
        return {}
    if code_blocks.with_outputs(path, executed.printed) != path.read_text(encoding="utf-8"):
        log.warning("%s: outputs differ from those shown; run `make numbers`", name)
    missing = [each for each, at in code_blocks.shown_pictures(path).items() if not at.exists()]
    if missing:
        log.warning("%s: no such pictures: %s", name, ", ".join(missing))
    log.info("executed %s", name)
    return dict(executed.pictures)
