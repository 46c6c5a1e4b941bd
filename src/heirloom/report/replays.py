"""The recorded learning of runs, as a section of their report."""

from heirloom.errors import HeirloomError
from heirloom.report.markup import text
from heirloom.report.player import replay_section
from heirloom.report.sources import ShownRun
from heirloom.report.stored import recordings_of
from heirloom.wording import are, counted_of

LARGEST = 1_000_000  # characters of the section; a report of the main experiment has 3 MB at most


def replays(runs: list[ShownRun]) -> str:
    """Return the section that replays the recorded learning of runs; empty if none was recorded.

    If all recordings together are too large for the page, it has the first ones only.
    """
    try:
        recordings = [
            recording
            for run in runs
            if run.stored is not None
            for recording in recordings_of(run.stored)
            if recording.episodes.size
        ]
    except HeirloomError as error:
        return _section(f"<p>The recordings cannot be read: {text(str(error))}</p>")
    if not recordings:
        return ""
    kept, player = recordings, replay_section(recordings)
    while len(player) > LARGEST and len(kept) > 1:
        kept = kept[: len(kept) // 2]
        player = replay_section(kept)
    note = (
        "<p>Recorded episodes, step by step: the agent on the map of its task, its values and "
        "bounds, the pairs that it knows, and the earlier task that each bound came from.</p>"
    )
    if len(kept) < len(recordings):
        note += (
            f"<p>Shown {are(len(kept))} {counted_of(len(kept), len(recordings), 'recording')}; "
            "<code>heirloom replay</code> plays the others.</p>"
        )
    return _section(note + player)


def _section(content: str) -> str:
    return f'<section id="replay"><h2>Replay</h2>{content}</section>'
