"""Run random lifetimes in which `np.empty` returns arrays that are full of invalid entries.

Nothing may depend on entries that were never written. So each lifetime runs several times, in which
the arrays that Heirloom allocates by `np.empty` are filled with different entries, none of which is
a valid index, number or probability; all runs must compute the same bits. Compiled code
allocates its own arrays, so NUMBA_DISABLE_JIT=1 must be set for those of kernels, too.
`test_filled_memory.py` runs it.
"""

import os
import sys
from contextlib import contextmanager
from unittest import mock

import numpy as np

from tests.kernels.random_lifetimes import lifetime

LARGE = 2**40  # larger than any array
# What arrays are filled with, by the kind of their type. A comparison with NaN is false, so that a
# maximum or minimum may hide it; huge numbers are visible there.
FILLINGS = (
    {"i": 0, "u": 0, "f": 0.0, "b": False},
    {"i": LARGE, "u": LARGE, "f": np.nan, "b": True},
    {"i": -LARGE, "u": LARGE, "f": -1e300, "b": False},
    {"i": LARGE, "u": LARGE, "f": 1e300, "b": True},
)


@contextmanager
def filled_memory(filling, reached=None):
    """Fill the arrays that Heirloom allocates; add their places (file, line) to `reached`."""

    def replacing(allocate):
        def allocated(*args, **kwargs):
            array, caller = allocate(*args, **kwargs), sys._getframe(1)
            if caller.f_globals.get("__name__", "").startswith("heirloom."):
                fill(array, filling)
                if reached is not None:
                    reached.add((caller.f_code.co_filename, caller.f_lineno))
            return array

        return allocated

    with (
        mock.patch.object(np, "empty", replacing(np.empty)),
        mock.patch.object(np, "empty_like", replacing(np.empty_like)),
    ):
        yield


def fill(array, filling):
    value = filling.get(array.dtype.kind)
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        value = min(max(value, limits.min), limits.max)
    if value is not None:  # objects cannot be read before they are written
        array.fill(value)


def differences(seed, reached=None):
    """Return how the results of a lifetime depend on entries that were never written, or None."""
    results = []
    for filling in FILLINGS:
        with filled_memory(filling, reached):
            try:
                results.append(lifetime(seed))
            except Exception as error:
                return f"lifetime {seed}, with {filling}: {error!r}"
    for filling, found in zip(FILLINGS, results, strict=True):
        if found != results[0]:
            return f"lifetime {seed}: {FILLINGS[0]} and {filling} give different results"
    return None


def main(first, last):
    if os.environ.get("NUMBA_DISABLE_JIT") != "1":
        return "kernels are compiled: set NUMBA_DISABLE_JIT=1"
    found = [message for seed in range(int(first), int(last)) if (message := differences(seed))]
    return "\n".join(found) if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
