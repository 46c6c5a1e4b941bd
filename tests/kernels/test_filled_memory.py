"""Results do not depend on entries of arrays that were never written."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import heirloom as hl
from heirloom.mdp import learned
from tests.kernels import with_filled_memory
from tests.kernels.random_lifetimes import draw_agent, draw_tasks, learn_task
from tests.kernels.with_filled_memory import FILLINGS, filled_memory

ROOT = Path(__file__).parents[2]


def run_lifetimes(*arguments):
    """Run lifetimes without the compiler, so that the arrays of kernels are filled, too."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    result = subprocess.run(
        [sys.executable, "-m", "tests.kernels.with_filled_memory", *arguments],
        cwd=ROOT,
        env={**inherited, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_lifetimes_do_not_depend_on_entries_that_were_never_written():
    """Lifetime 396 compares the task with a source that has no known pair."""
    run_lifetimes("395", "398", "agents", "kernels")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "n", [pytest.param(12, marks=pytest.mark.slow), pytest.param(400, marks=pytest.mark.full)]
)
def test_many_lifetimes_do_not_depend_on_entries_that_were_never_written(n):
    run_lifetimes("0", str(n), "agents", "kernels", "transfer")


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.uint64, np.float64, np.bool_])
def test_entry_that_is_read_before_it_is_written_is_found(dtype, monkeypatch):
    def read(seed):
        return [learned.np.empty(1, dtype).tobytes()]

    monkeypatch.setattr(with_filled_memory, "lifetime", read)
    assert "give different results" in with_filled_memory.difference(0)


def public_arrays(value, name, seen):
    """Yield the arrays that public attributes of an object lead to, with their names."""
    if id(value) in seen:
        return
    seen[id(value)] = value  # it is kept, because another object could have its id otherwise
    if isinstance(value, np.ndarray):
        yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from public_arrays(item, f"{name}[{key!r}]", seen)
    elif isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        for i, item in enumerate(value):
            yield from public_arrays(item, f"{name}[{i}]", seen)
    elif type(value).__module__.startswith("heirloom."):
        for attribute in dir(value):
            if not attribute.startswith("_"):
                found = getattr(value, attribute)
                yield from public_arrays(found, f"{name}.{attribute}", seen)


def uninitialised(value, name):
    """Return the names of public arrays that have an entry of `FILLINGS[-1]`."""
    return [
        where
        for where, array in public_arrays(value, name, {})
        if array.dtype.kind in "if" and (array[np.isfinite(array)] >= 2**31 - 1).any()
    ]


def test_new_model_shows_no_entry_that_was_never_written():
    with filled_memory(FILLINGS[-1]):
        model = hl.LearnedModel(3, 2, n_known=2)
        assert uninitialised(model, "model") == []
        model.observe(0, 0, 0.5, 1, terminated=False)
        model.observe(0, 0, 0.5, 2, terminated=False)
    assert uninitialised(model, "model") == []
    assert model.rows.successors.tolist() == [1, 2]
    assert model.rows.p.tolist() == [0.5, 0.5]


def test_public_arrays_hold_no_entry_that_was_never_written():
    """Arrays of agents and all that belongs to them, of tasks, solutions and recordings."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        with filled_memory(FILLINGS[-1]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # knowledge that is refuted
            tasks = draw_tasks(rng)
            agent = draw_agent(rng, tasks)
            assert uninitialised(tasks, "tasks") == []
            assert uninitialised(hl.solve(tasks[0]), "solution") == []
            for m in tasks:
                list(learn_task(agent, m, rng))
                assert uninitialised(agent, "agent") == []
            record = hl.learn(agent, tasks[0], episodes=3, max_steps=5, seed=0, record=True)
            assert uninitialised(record, "record") == []
            assert uninitialised(agent.explain(), "explanation") == []
            assert uninitialised(hl.audit(agent.memory), "audit") == []
