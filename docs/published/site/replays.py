"""The replay that the site shows: two agents on the second day of `docs/learn/nearness.md`."""

from sphinx.application import Sphinx

import heirloom as hl
from published import ideas

NAME = "two-agents.html"


def frame() -> str:
    """Return the part of a page that shows the replay."""
    return (
        f'<iframe class="replay" src="{NAME}" title="Replay of RMax and NearRMax"></iframe>\n\n'
        f'<a href="{NAME}">Open the replay alone.</a>\n'
    )


def write(app: Sphinx, failure: Exception | None) -> None:
    """Let the agents learn, and write the replay beside the pages."""
    if failure is None and app.builder.format == "html":
        hl.replay([recording for _, recording in ideas.second_day().values()], app.outdir / NAME)
