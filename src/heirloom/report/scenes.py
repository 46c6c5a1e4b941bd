"""What the player draws for a task: a map with the cells of its states, or a table of states."""

import base64
import io
import os
from contextlib import suppress
from typing import Any

import numpy as np

from heirloom.learning.recording import Recording
from heirloom.mdp.scene import Scene

ACTIONS = {
    "grid": ("up", "right", "down", "left"),
    "FrozenLake": ("left", "down", "right", "up"),
    "CliffWalking": ("up", "right", "down", "left"),
    "Taxi": ("down", "up", "right", "left", "pick up", "drop off"),
}
"""The names of actions where a task has none; the player draws the four directions as arrows."""
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
    if recording.action_names is not None:
        return list(recording.action_names)
    names = ACTIONS.get("" if recording.scene is None else recording.scene.style, ())
    if len(names) == recording.n_actions:
        return list(names)
    return [str(a) for a in range(recording.n_actions)]


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
