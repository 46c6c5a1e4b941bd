"""Run the tests that reach the kernels, with a check of every index in compiled code.

The arrays that Python code allocates for the kernels are filled with invalid entries
(`with_filled_memory.py`), so that a kernel that reads an index that was never written is found. It
needs the environment variables NUMBA_BOUNDSCHECK=1 and NUMBA_CACHE_DIR, an empty folder, because
cached code has no checks. It fails if a test or a random lifetime fails, if indices were not
checked, or if a kernel or an allocation was not reached. `test_bounds.py` runs it.
"""

import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import numpy as np
import pytest
from numba import njit
from numba.core.dispatcher import Dispatcher

from heirloom import kernels
from tests.kernels.with_filled_memory import (
    FILLINGS,
    difference,
    filled_memory,
    not_reached,
)

TESTS = (
    "tests/kernels/test_betting.py",
    "tests/kernels/test_confidence.py",
    "tests/kernels/test_kernels_agree_with_reference.py",
    "tests/kernels/test_krylov.py",
    "tests/kernels/test_near_rows.py",
    "tests/agents/test_agents.py",
    "tests/agents/test_certificate.py",
    "tests/agents/test_certified_rmax.py",
    "tests/agents/test_psrl.py",
    "tests/agents/test_refresh.py",
    "tests/agents/test_refutation.py",
    "tests/agents/test_tables.py",
    "tests/evidence/test_evidence.py",
    "tests/learning/test_discount_factors_close_to_1.py",
    "tests/learning/test_learn.py",
    "tests/mdp/test_mean_rewards.py",
    "tests/planning/test_action_elimination.py",
    "tests/planning/test_long_horizons.py",
    "tests/planning/test_solve.py",
    "tests/transfer/nearness/test_near_rmax.py",
    "tests/transfer/refutation/test_audit.py",
    "tests/transfer/test_all_sources.py",
    "tests/transfer/test_borrowed.py",
    "tests/transfer/test_different_tasks.py",
    "tests/transfer/test_discount_factors_close_to_1.py",
    "tests/transfer/test_evidence.py",
    "tests/transfer/test_learned_distances.py",
    "tests/transfer/test_posterior.py",
)
N_LIFETIMES = 40


@njit
def read(array, i):
    return array[i]


def bounds_are_checked():
    try:
        read(np.zeros(1), 1)
    except IndexError:
        return True
    return False


def all_kernels():
    """Return all compiled functions of `heirloom.kernels`, by name."""
    modules = [
        import_module(f"{kernels.__name__}.{m.name}") for m in iter_modules(kernels.__path__)
    ]
    return {
        f"{module.__name__}.{name}": value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, Dispatcher)
    }


def main():
    if not bounds_are_checked():
        return "indices are not checked: set NUMBA_BOUNDSCHECK=1"
    options = [
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow and not cluster and not full",
        "-k",  # frequencies over many streams call the kernels that other tests call
        "not probability",
    ]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # the lifetimes are imported
    root = Path(__file__).parents[2]
    tests, reached = (str(root / test) for test in TESTS), set()
    with filled_memory(FILLINGS[1], reached):
        status = pytest.main([*options, "--rootdir", str(root), *tests])
    found = [message for seed in range(N_LIFETIMES) if (message := difference(seed, reached))]
    cached = [name for name, kernel in all_kernels().items() if kernel.stats.cache_hits]
    if cached:
        return f"cached code has no checks: {', '.join(cached)}; give an empty NUMBA_CACHE_DIR"
    missed = [name for name, kernel in all_kernels().items() if not kernel.signatures]
    if missed and status == 0:
        return f"these kernels were not called: {', '.join(missed)}"
    found += not_reached(["agents", "transfer"], reached)
    return "\n".join(found) if found else int(status)


if __name__ == "__main__":
    sys.exit(main())
