"""Recordings as the data of the player: JSON, compressed and encoded as text for a page."""

import base64
import json
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from heirloom.escaping import printable
from heirloom.learning.recording import Changes, Recording
from heirloom.naming import with_name
from heirloom.report.scenes import action_names, as_scene, directions

DIGITS = 6  # of a value on the page


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
