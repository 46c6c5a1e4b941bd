"""`replay_section`: the replay of recordings as a part of a page."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from heirloom.errors import InvalidArgument
from heirloom.learning.recording import Recording
from heirloom.report.player_data import encoded
from heirloom.validation import shown


def replay_section(recordings: Sequence[Recording], *, keys: str = "section") -> str:
    """Return a part of an HTML page in which recordings are played.

    It contains its style, data and script, and loads nothing. Colours follow the attribute
    `data-theme` ("light" or "dark") of the page, or else the preference of the user.

    Args:
        recordings: what is played; those of the same task can be shown side by side.
        keys: "page" if keys are handled wherever the focus is, "section" if only within the part.
    """
    checked = checked_recordings(recordings)
    resources = files("heirloom.report")
    style, script = (
        resources.joinpath(f"player.{kind}").read_text("utf-8") for kind in ("css", "js")
    )
    return (
        f'<section class="hlr" data-keys="{"page" if keys == "page" else "section"}" '
        'aria-label="Replay of recorded learning">\n'
        f"<style>\n{style}</style>\n"
        f'<script type="text/plain" class="hlr-data">{encoded(checked)}</script>\n'
        f"<script>\n{script}</script>\n</section>\n"
    )


def checked_recordings(recordings: Any, name: str = "recordings") -> list[Recording]:
    """Return recordings as a list; raise `InvalidArgument` unless there is one that has steps."""
    given = [recordings] if isinstance(recordings, Recording) else recordings
    remedy = "expected recordings, such as hl.learn(..., record=True).recording"
    is_list = isinstance(given, list | tuple)
    if not is_list or not given or not all(isinstance(each, Recording) for each in given):
        raise InvalidArgument(f"{name} is {shown(recordings)}: {remedy}")
    found = [each for each in given if each.episodes.size]
    if not found:
        raise InvalidArgument(
            "no episode was recorded: record some with record={'first': 3, 'every': 100}"
        )
    return found
