"""D̂ between learned models, beyond Propositions 3 and 4, which have files of their own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import heirloom as hl
from heirloom.transfer.lipschitz.distance import measure, weigh
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source
from tests.partly_known import learned_exactly
from tests.reference import learned_models

seeds = st.integers(0, 2**32 - 1)


@given(seeds)
def test_distance_needs_only_the_heaviest_states(seed):
    """With more heaviest states than a row has successors, D̂ is the same as with all states."""
    rng = np.random.default_rng(seed)
    n = 40
    tasks = [hl.garnet(n, 2, branching=3, gamma=0.9, seed=rng) for _ in range(2)]
    rows = [learned_exactly(task, rng.random((n, 2)) < 0.7).rows for task in tasks]
    setting = Setting(n_states=n, n_actions=2, gamma=0.9, terminating=False)
    V, pairs = np.round(10 * rng.random(n), 1), np.arange(2 * n)
    few_ranked, all_ranked = weigh(V, 3, setting), weigh(V, n, setting)
    assert few_ranked.heaviest.size < n == all_ranked.heaviest.size
    D = measure(*rows, few_ranked, pairs, setting)
    assert (D == measure(*rows, all_ranked, pairs, setting)).all()


def test_source_keeps_exactly_the_known_pairs():
    m = hl.garnet(5, 2, branching=2, gamma=0.9, seed=0, terminating=0.3)
    known = np.random.default_rng(1).random((5, 2)) < 0.5
    model = learned_exactly(m, known)
    source = Source.of(model, np.arange(10.0))
    kept, expected = (learned_models.as_dense(rows, 5) for rows in (source.rows, model.rows))
    for array, expected_array in zip(kept, expected, strict=True):
        assert np.array_equal(array, expected_array)
    assert source.rows.p.size == sum(len(model.successors(*pair)) for pair in np.argwhere(known))
    assert source.V.tolist() == [1, 3, 5, 7, 9]
    with pytest.raises(ValueError, match="read-only"):
        source.rows.p[:] = 0


def test_task_that_was_not_stored_does_not_count_as_compared(monkeypatch):
    """If storing a task is interrupted and it is dropped, the next task is compared instead."""
    options = {"n_states": 1, "n_actions": 2, "gamma": 0.0, "n_known": 1, "seed": 0}
    agent = hl.LRMax(p_min=0.5, delta=0.25, **options)
    first, lost, other = (
        hl.TabularMDP([[0.0, r]], np.ones((1, 2, 1)), gamma=0.0) for r in (0.0, 0.0, 1.0)
    )
    hl.learn(agent, first, episodes=4, max_steps=4, seed=0)
    with monkeypatch.context() as patched:
        patched.setattr(agent.memory, "_add", interrupt)
        with pytest.raises(KeyboardInterrupt):
            hl.learn(agent, lost, episodes=4, max_steps=4, seed=0)
    agent.drop_task()
    hl.learn(agent, other, episodes=4, max_steps=4, seed=0)
    (largest, n_compared), *_ = agent.memory.learned.values()
    assert n_compared == agent.memory.n_tasks == 2
    assert largest[1] >= 1.0


def interrupt(*_):
    raise KeyboardInterrupt
