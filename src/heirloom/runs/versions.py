"""The versions of what computes a run: others may give other bits."""

from importlib.metadata import version
from platform import python_version

COMPUTING = ("heirloom-rl", "numpy", "scipy", "numba", "gymnasium")
STORING = ("zarr", "xarray", "joblib")


def versions() -> dict[str, str]:
    """The versions of all that takes part, by name."""
    return {name: version(name) for name in (*COMPUTING, *STORING)} | {"python": python_version()}


def differences(mine: dict[str, str], theirs: dict[str, str]) -> list[str]:
    """What computes results and differs, in words."""
    return [
        f"{name} {mine.get(name, 'missing')} here and {theirs.get(name, 'missing')} there"
        for name in (*COMPUTING, "python")
        if mine.get(name) != theirs.get(name)
    ]
