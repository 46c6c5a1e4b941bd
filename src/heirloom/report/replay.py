"""`replay`: one HTML file in which recorded learning is played."""

import os
from collections.abc import Sequence
from html import escape
from pathlib import Path

from heirloom.errors import InvalidArgument
from heirloom.escaping import printable
from heirloom.learning.recording import Recording
from heirloom.report.player import checked_recordings, replay_section
from heirloom.report.stored import chosen_recordings
from heirloom.storage.atomic import file_path, write_file
from heirloom.validation import shown, whole_number

POLICY = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    "script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:\">"
)
"""What a page of a replay or a report may load: nothing that is not in it."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
{policy}
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
body {{ margin: 0 auto; max-width: 1080px; padding: 1rem; background: #fff; }}
body {{ font-family: system-ui, sans-serif; }}
h1 {{ font-size: 1.25rem; margin: 0 0 0.8rem; color: #1c2430; overflow-wrap: anywhere; }}
@media (prefers-color-scheme: dark) {{
  :root:not([data-theme="light"]) body {{ background: #0f1318; }}
  :root:not([data-theme="light"]) h1 {{ color: #e6eaf0; }}
}}
:root[data-theme="dark"] body {{ background: #0f1318; }}
:root[data-theme="dark"] h1 {{ color: #e6eaf0; }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
{section}</main>
</body>
</html>
"""


def replay(
    source: "str | os.PathLike[str] | Recording | Sequence[Recording]",
    path: str | os.PathLike[str] = "replay.html",
    *,
    agents: str | Sequence[str] | None = None,
    repetition: int | None = None,
    task: int | None = None,
) -> Path:
    """Write one HTML file in which recorded learning is played; return its path.

    The file opens from disk in a browser, without a network. It shows the agent on the map of its
    task step by step, its values, bounds and known pairs, and which earlier task each bound came
    from; two agents on the same task can be shown side by side.

    Args:
        source: the folder of a run whose spec has a `record`, or recordings:
            `heirloom.learn(..., record=True).recording`, or a list of such recordings.
        path: the file to write; without an extension, `.html` is appended.
        agents: the name of an agent, or a list of names; by default all that were recorded.
        repetition: the number of a repetition; by default all that were recorded.
        task: the number of a task; by default all that were recorded.
    """
    file = file_path(path, ".html")
    names = None if agents is None else _names(agents)
    repetition = None if repetition is None else whole_number("repetition", repetition)
    task = None if task is None else whole_number("task", task)
    if isinstance(source, str | os.PathLike) and source != "":
        found = chosen_recordings(source, agents=names, repetition=repetition, task=task)
    else:
        found = [
            each
            for each in checked_recordings(source, "source")
            if (names is None or each.agent in names)
            and repetition in (None, each.repetition)
            and task in (None, each.task)
        ]
        if not found:
            raise InvalidArgument(
                "there is no recording of these agents, this repetition and this task among those "
                "given: choose others, or give the recordings of that task"
            )
    title = f"How {_listed([each.agent for each in found])} learned"
    section = replay_section(found, keys="page")
    page = PAGE.format(policy=POLICY, title=escape(printable(title)), section=section)
    return write_file(file, page.encode())


def _names(agents: object) -> list[str]:
    """Return the names of agents as a list; raise `InvalidArgument` unless they are strings."""
    given = [agents] if isinstance(agents, str) else agents
    if not isinstance(given, list | tuple) or not all(isinstance(name, str) for name in given):
        raise InvalidArgument(
            f"agents is {shown(agents)}: expected the name of an agent, or a list of names"
        )
    return list(given)


def _listed(names: list[str]) -> str:
    distinct = list(dict.fromkeys(names))
    return distinct[0] if len(distinct) == 1 else f"{', '.join(distinct[:-1])} and {distinct[-1]}"
