"""Versions of Python and of libraries: results are identical to the bit only if they are equal."""

from importlib.metadata import version
from platform import python_version

COMPUTING = ("heirloom-rl", "numpy", "scipy", "numba", "gymnasium")
STORING = ("zarr", "xarray", "joblib")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that compute and store a run."""
    return {name: version(name) for name in (*COMPUTING, *STORING)} | {"python": python_version()}


def differences(here: dict[str, str], there: dict[str, str]) -> list[str]:
    """Describe each difference between two sets of versions that may change results."""
    return [
        f"{name} {here.get(name, 'missing')} here and {there.get(name, 'missing')} there"
        for name in (*COMPUTING, "python")
        if here.get(name) != there.get(name)
    ]
