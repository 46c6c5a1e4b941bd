"""The place of recorded learning in a report."""

from dataclasses import replace

from heirloom.errors import HeirloomError
from heirloom.replay import recordings_of, replay_section
from heirloom.reporting.sources import ShownRun

MOST_BYTES = 3_000_000
"""Recordings that are larger together, in bytes in the run, are left to `heirloom replay`."""


def replay_fragment(runs: list[ShownRun]) -> str:
    """Return the HTML that replays the recorded learning of runs; empty if none was recorded."""
    found, size = [], 0
    for run in runs:
        if run.stored is None or run.spec is None or run.spec.record is None:
            continue
        size += int(run.arrays["recording"].size) if "recording" in run.arrays else 0
        try:
            recordings = recordings_of(run.stored)
        except HeirloomError:  # a damaged recording; the report says that the run is damaged
            continue
        found += [replace(each, agent=each.agent + run.suffix) for each in recordings]
    found = [each for each in found if each.episodes.size]
    if not found:
        return ""
    title = '<section id="replay"><h2>Replay</h2>'
    if size > MOST_BYTES:
        return (
            f"{title}<p>The recordings of this run are too large for a report: "
            "<code>heirloom replay</code> writes a page of chosen ones.</p></section>"
        )
    about = (
        "<p>Recorded episodes, step by step: the agent on its map, what it knew, and which earlier "
        "task each bound came from.</p>"
    )
    return f"{title}{about}{replay_section(found)}</section>"
