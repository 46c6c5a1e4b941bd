"""Run random lifetimes in which `np.empty` returns arrays that are full of invalid entries.

Nothing may depend on entries that were never written. So each lifetime runs several times, and each
time Heirloom's calls of `np.empty` return other entries, most of which are no valid index, number
or probability. All runs must compute the same bits. NUMBA_DISABLE_JIT=1 must be set, because
compiled code allocates its own arrays. `test_filled_memory.py` runs it.
"""

import ast
import sys
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from unittest import mock

import numpy as np
from numba import config

import heirloom
from tests.kernels.random_lifetimes import lifetime

PACKAGES = ("agents", "kernels", "learning", "mdp", "metrics", "planning", "transfer")
LARGE = 2**40  # larger than any array
# What arrays are filled with, by the kind of their type. A comparison with NaN is false, so that a
# maximum or a minimum may hide it; huge numbers are visible there.
FILLINGS = (
    {"i": 0, "u": 0, "f": 0.0, "b": False},
    {"i": LARGE, "u": LARGE, "f": np.nan, "b": True},
    {"i": -LARGE, "u": LARGE, "f": -1e300, "b": False},
    {"i": LARGE, "u": LARGE, "f": 1e300, "b": True},
)


@contextmanager
def filled_memory(filling, reached=None):
    """Fill the arrays that the modules of `PACKAGES` allocate, unless these are compiled.

    Adds the places (file, line) that allocate to `reached`.
    """

    def replacing(allocate):
        def allocated(*args, **kwargs):
            array, caller = allocate(*args, **kwargs), sys._getframe(1)
            fill(array, filling)
            if reached is not None:
                reached.add((caller.f_code.co_filename, caller.f_lineno))
            return array

        return allocated

    numpy = ModuleType("numpy")
    numpy.__dict__.update(np.__dict__)
    numpy.empty, numpy.empty_like = replacing(np.empty), replacing(np.empty_like)
    patches = [mock.patch.object(module, "np", numpy) for module in modules()]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


def modules():
    """Return the modules of `PACKAGES` that use numpy and are not compiled."""
    names = [
        found.name
        for package in PACKAGES
        if config.DISABLE_JIT or package != "kernels"
        for found in walk_packages([str(root() / package)], f"heirloom.{package}.")
    ]
    return [module for name in names if getattr(module := import_module(name), "np", None) is np]


def root():
    return Path(heirloom.__file__).parent


def fill(array, filling):
    value = filling.get(array.dtype.kind)
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        value = min(max(value, limits.min), limits.max)
    if value is not None:  # objects are None before they are written
        array.fill(value)


def difference(seed, reached=None):
    """Return how a lifetime depends on entries that were never written, or None."""
    results = []
    for filling in FILLINGS:
        with filled_memory(filling, reached):
            try:
                results.append(lifetime(seed))
            except Exception as error:
                return f"lifetime {seed}, with {filling}: {error!r}"
        if results[-1] != results[0]:
            return f"lifetime {seed}: {FILLINGS[0]} and {filling} give different results"
    return None


def allocations(packages):
    """Return the places (file, line) of `packages` that call `np.empty`, except for no entries."""
    return {
        (str(file), node.lineno)
        for package in packages
        for file in (root() / package).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("np.empty", "np.empty_like")
        and not ast.unparse(node.args[0]).startswith(("0", "(0,"))
    }


def not_reached(packages, reached):
    """Return one message for each place of `packages` that allocated no array."""
    return [
        f"no array was allocated in line {line} of {file}"
        for file, line in sorted(allocations(packages) - reached)
    ]


def main(first, last, *packages):
    """Run the lifetimes from `first` to `last` - 1, which must reach all places of `packages`."""
    if not config.DISABLE_JIT:
        return "kernels are compiled: set NUMBA_DISABLE_JIT=1"
    reached = set()
    seeds = range(int(first), int(last))
    found = [message for seed in seeds if (message := difference(seed, reached))]
    found += not_reached(packages, reached)
    return "\n".join(found) if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
