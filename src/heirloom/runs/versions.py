"""Versions of Python and of libraries: results are identical to the bit only if they are equal."""

from functools import cache
from importlib.metadata import version
from platform import python_version

COMPUTING = ("heirloom-rl", "numpy", "scipy", "numba", "llvmlite", "gymnasium")
STORING = ("zarr", "xarray")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that compute and store a run."""
    return dict(_versions())


@cache
def _versions() -> dict[str, str]:
    return {name: version(name) for name in (*COMPUTING, *STORING)} | {"python": python_version()}


def differences(here: dict[str, str], there: dict[str, str]) -> list[str]:
    """Describe each difference between two sets of versions that may change results."""
    return [
        f"{name} {here.get(name, 'missing')} here and {there.get(name, 'missing')} there"
        for name in (*COMPUTING, "python")
        if here.get(name) != there.get(name)
    ]
