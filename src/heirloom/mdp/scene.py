"""`Scene`: the map on which the states of a task lie, for pictures of the task."""

from typing import Any, NamedTuple

STYLES = ("grid", "FrozenLake", "CliffWalking", "Taxi")
CLOSED = "X"
"""A cell of a grid that is a state, but that cannot be entered."""


class Scene(NamedTuple):
    """The map of a task.

    Args:
        style: "grid" for a grid world, or the name of one of Gymnasium's toy-text environments.
        cells: the map, one string per row. The states of a grid are its cells other than `#`, in
            reading order; those of a toy-text environment are numbered as Gymnasium does.
    """

    style: str
    cells: tuple[str, ...] = ()


def scene_of(env: object) -> Scene | None:
    """Return the map of a Gymnasium environment; None if it has none that is known here."""
    unwrapped: Any = getattr(env, "unwrapped", env)
    scene = getattr(getattr(unwrapped, "task", None), "scene", None)
    if isinstance(scene, Scene):
        return scene
    if not type(unwrapped).__module__.startswith("gymnasium.envs.toy_text."):
        return None
    name = type(unwrapped).__name__.removesuffix("Env")
    if name == "FrozenLake":
        return Scene(name, tuple("".join(c.decode() for c in row) for row in unwrapped.desc))
    return Scene(name) if name in STYLES else None
