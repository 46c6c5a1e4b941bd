"""`replay`: recorded learning that is played in an HTML page, or in a section of one.

The player draws a task as a map with the cells of its states, or as a table of states.
"""

import base64
import io
import json
import os
import zlib
from collections.abc import Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from heirloom.errors import InvalidArgument
from heirloom.learning.recording import Changes, Recording
from heirloom.mdp.scene import Scene
from heirloom.naming import with_name
from heirloom.report.markup import text, whole_page, write_page
from heirloom.runs.recordings import recordings as recordings_in_run
from heirloom.storage.files import file_path
from heirloom.validation import shown
from heirloom.wording import printable

STYLE = """<style>
body { margin: 0 auto; max-width: 1080px; padding: 1rem; background: #fff; }
body { font-family: system-ui, sans-serif; }
h1 { font-size: 1.25rem; margin: 0 0 0.8rem; color: #1c2430; overflow-wrap: anywhere; }
@media (prefers-color-scheme: dark) {
  :root:not([data-theme="light"]) body { background: #0f1318; }
  :root:not([data-theme="light"]) h1 { color: #e6eaf0; }
}
:root[data-theme="dark"] body { background: #0f1318; }
:root[data-theme="dark"] h1 { color: #e6eaf0; }
</style>"""

DIGITS = 6  # of a value on the page


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
    if isinstance(source, str | os.PathLike) and source != "":
        found = recordings_in_run(source, agents=agents, repetition=repetition, task=task)
    else:
        names = [agents] if isinstance(agents, str) else agents
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
    body = f"<main>\n<h1>{text(title)}</h1>\n{section}</main>"
    return write_page(file, whole_page(title, STYLE, body))


def _listed(names: list[str]) -> str:
    distinct = list(dict.fromkeys(names))
    return distinct[0] if len(distinct) == 1 else f"{', '.join(distinct[:-1])} and {distinct[-1]}"


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


def encoded(recordings: Sequence[Recording]) -> str:
    """Return recordings as text of letters, digits and +/=, which cannot contain markup."""
    text = json.dumps(as_data(recordings), separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def as_data(recordings: Sequence[Recording]) -> dict[str, Any]:
    """Return recordings, and the distinct scenes that they refer to, as data for JSON."""
    scenes: list[dict[str, Any]] = []
    by_scene: dict[Any, int] = {}
    entries = []
    for recording in recordings:
        key = (recording.scene, recording.n_states)
        if key not in by_scene:
            by_scene[key] = len(scenes)
            scenes.append(as_scene(recording))
        entries.append(_entry(recording, by_scene[key]))
    return {"scenes": scenes, "recordings": entries}


def _entry(r: Recording, scene: int) -> dict[str, Any]:
    names = None if r.state_names is None else [printable(name) for name in r.state_names]
    return {
        "agent": printable(r.agent),
        "repetition": r.repetition,
        "task": r.task,
        "taskName": with_name(r.task, r.label),
        "certificate": [printable(line) for line in r.certificate.splitlines()],
        "S": r.n_states,
        "A": r.n_actions,
        "nEpisodes": r.n_episodes,
        "scene": scene,
        "stateNames": names,
        "actions": [printable(name) for name in action_names(r)],
        "turns": directions(r),
        "deciders": [printable(name) for name in r.deciders],
        "episodes": r.episodes.tolist(),
        "terminated": r.terminated.tolist(),
        "firstSteps": r.first_steps.tolist(),
        "starts": r.starts.tolist(),
        "states": r.states.tolist(),
        "chosen": r.actions.tolist(),
        "rewards": _numbers(r.rewards),
        "snapshots": r.snapshots.tolist(),
        "snapshotSteps": r.snapshot_steps.tolist(),
        "updateSteps": r.update_steps.tolist(),
        "changes": {name: _changes(changes) for name, changes in r.layers.items()},
    }


def _changes(changes: Changes) -> dict[str, Any]:
    values = changes.values
    return {
        "ends": changes.ends.tolist(),
        "pairs": changes.pairs.tolist(),
        "values": _numbers(values) if values.dtype.kind == "f" else values.astype(int).tolist(),
    }


def _numbers(values: np.ndarray) -> list[float | None]:
    """Return numbers with a few digits: False for minus infinity, None for others not finite."""
    return [_number(x) if np.isfinite(x) else (False if x < 0 else None) for x in values.tolist()]


def _number(x: float) -> float:
    rounded = float(f"{x:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e9 else rounded


ACTIONS = {
    "grid": ("up", "right", "down", "left"),
    "FrozenLake": ("left", "down", "right", "up"),
    "CliffWalking": ("up", "right", "down", "left"),
    "Taxi": ("down", "up", "right", "left", "pick up", "drop off"),
}
"""The directions of actions by their numbers, which the player draws as arrows."""
CLIFF = ("." * 12, "." * 12, "." * 12, "S" + "C" * 10 + "G")
TAXI = ("R...G", ".....", ".....", ".....", "Y..B.")
TAXI_STANDS = ((0, 0), (0, 4), (4, 0), (4, 3))
TAXI_WALLS = ((0, 1), (1, 1), (3, 0), (3, 2), (4, 0), (4, 2))
"""Cells with a wall on their right side."""
N_PLACES, N_DESTINATIONS = 5, 4  # places of the passenger; the last is the taxi
PICTURE_WIDTH = 640  # pixels


def as_scene(recording: Recording) -> dict[str, Any]:
    """Return what the player draws, as data for JSON."""
    scene = recording.scene
    if scene is None:
        return {"kind": "table"}
    cells = {"CliffWalking": CLIFF, "Taxi": TAXI}.get(scene.style, scene.cells)
    positions = _positions(scene, cells)
    if len(positions) != recording.n_states:  # a task with other states than its map
        return {"kind": "table"}
    drawn = {
        "kind": "grid",
        "rows": len(cells),
        "columns": len(cells[0]),
        "cells": list(cells),
        "positions": positions,
    }
    if scene.style == "Taxi":
        drawn |= _taxi(recording.n_states)
    picture = _picture(scene)
    return drawn if picture is None else drawn | {"picture": picture}


def directions(recording: Recording) -> list[int | None]:
    """Return the direction of each action in quarter turns from upwards; None if it has none."""
    style = "" if recording.scene is None else recording.scene.style
    names = action_names(recording) if style == "grid" else list(ACTIONS.get(style, ()))
    if len(names) != recording.n_actions:
        return [None] * recording.n_actions
    return [ACTIONS["grid"].index(name) if name in ACTIONS["grid"] else None for name in names]


def action_names(recording: Recording) -> list[str]:
    """Return the names of the actions; numbers if they have none."""
    return list(recording.action_names or map(str, range(recording.n_actions)))


def _positions(scene: Scene, cells: tuple[str, ...]) -> list[list[int]]:
    """Return the row and the column of each state."""
    if scene.style == "grid":
        return np.argwhere(np.array([list(row) for row in cells]) != "#").tolist()
    places = [[i, j] for i in range(len(cells)) for j in range(len(cells[0]))]
    if scene.style != "Taxi":
        return places
    return [place for place in places for _ in range(N_PLACES * N_DESTINATIONS)]


def _taxi(n_states: int) -> dict[str, Any]:
    """Return the walls, and for each state its slice and where passenger and destination are."""
    letters = [TAXI[row][column] for row, column in TAXI_STANDS]
    slices = [s % (N_PLACES * N_DESTINATIONS) for s in range(n_states)]
    guests = []
    for slice_ in slices:
        place, destination = divmod(slice_, N_DESTINATIONS)
        waiting = [["P", *TAXI_STANDS[place]]] if place < len(TAXI_STANDS) else []
        guests.append([*waiting, ["D", *TAXI_STANDS[destination]]])
    names = [
        f"passenger {'in the taxi' if place == len(letters) else f'at {letters[place]}'}, to {end}"
        for place in range(N_PLACES)
        for end in letters
    ]
    walls = [list(wall) for wall in TAXI_WALLS]
    return {"slices": slices, "sliceNames": names, "guests": guests, "walls": walls}


def _picture(scene: Scene) -> str | None:
    """Return Gymnasium's own picture of the map without the agent, as a data URL.

    None for other maps, and if Gymnasium cannot draw because pygame is not installed.
    """
    if scene.style not in ("FrozenLake", "CliffWalking"):
        return None
    with suppress(Exception):  # the picture is an ornament: a map without it is complete
        return _encoded(_without_agent(scene))
    return None


def _without_agent(scene: Scene) -> np.ndarray:
    """Return the median of pictures with the agent at different places, [row, column, RGB]."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    import gymnasium as gym

    options: dict[str, Any] = {"desc": list(scene.cells)} if scene.style == "FrozenLake" else {}
    env: Any = gym.make(f"{scene.style}-v1", render_mode="rgb_array", **options)
    try:
        env.reset(seed=0)
        frames = []
        for s in range(3):
            env.unwrapped.s = s
            frames.append(env.unwrapped.render())
        return np.median(np.array(frames), axis=0).astype(np.uint8)
    finally:
        env.close()


def _encoded(pixels: np.ndarray) -> str:
    from PIL import Image

    image = Image.fromarray(pixels)
    if image.width > PICTURE_WIDTH:
        height = round(image.height * PICTURE_WIDTH / image.width)
        image = image.resize((PICTURE_WIDTH, height))
    file = io.BytesIO()
    image.quantize(64).save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
