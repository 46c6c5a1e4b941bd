"""Proposition 6: at most S A (2N + 1) dynamic programs per task, each of few sweeps.

`dynamic_programs` counts the programs and `value_iterations` the sweeps of each.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import heirloom as hl
from tests.partly_known import draw_deterministic_family
from tests.reference import exact
from tests.reference.lipschitz import Distances, ReferenceLipschitz
from tests.strategies import seeds


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.5, 0.9, 0.95]), st.floats(1e-4, 1.0))
def test_value_iterations_are_enough_sweeps_for_any_task(seed, gamma, precision):
    """From v_max = 1 / (1-γ), with rewards in [0, 1], the error is at most the precision."""
    rng = np.random.default_rng(seed)
    m = hl.garnet(int(rng.integers(1, 6)), 2, branching=1, gamma=gamma, seed=rng)
    R, T, _ = exact.dense(m)
    Q = np.full(R.shape, m.v_max)
    for _ in range(hl.theory.value_iterations(gamma, precision)):
        Q = R + gamma * exact.after(T, Q.max(axis=1))
    assert np.abs(Q - exact.optimal_Q(m)).max() <= precision * (1 + 1e-9)


def test_fewer_sweeps_than_a_constant_fraction_do_not_suffice():
    """In a task without rewards, 60 % of the sweeps from V = 1 / (1-γ) leave V above ε_Q = 0.01."""
    for gamma in (0.5, 0.9, 0.99):
        V = 1 / (1 - gamma)
        for _ in range(int(0.6 * hl.theory.value_iterations(gamma, 0.01))):
            V = gamma * V
        assert V > 0.01


@pytest.mark.parametrize("seed", seeds(10))
def test_task_takes_at_most_the_dynamic_programs_of_the_proposition(monkeypatch, seed):
    """Counted in the reference implementation, which solves one program per source and direction.

    Programs solved at the beginning of a task, one per source, are not counted: the proposition
    counts those after updates.
    """
    solved = []
    lower = Distances.lower
    monkeypatch.setattr(Distances, "lower", lambda self, rows: solved.append(lower(self, rows)))
    rng = np.random.default_rng(seed)
    tasks = draw_deterministic_family(rng, n_tasks=4)
    m = tasks[0]
    agent = hl.OptimisticAgent(
        bounds=[ReferenceLipschitz(d_max=hl.metrics.family_distance(tasks))],
        n_states=m.n_states,
        n_actions=m.n_actions,
        gamma=m.gamma,
        n_known=1,
        refresh=None,
        seed=rng,
    )
    for n_sources, task in enumerate(tasks):
        solved.clear()
        agent.begin_task()
        beginning = len(solved)
        agent.drop_task()
        solved.clear()
        updates = hl.learn(agent, task, episodes=20, max_steps=10, seed=1).update_steps.size
        assert updates <= m.n_states * m.n_actions
        programs = len(solved) - beginning + updates  # one per update is that of Q itself
        assert programs <= hl.theory.dynamic_programs(m.n_states, m.n_actions, n_sources)


def test_dynamic_programs_equal_the_number_computed_by_hand():
    """121 states, 4 actions and 14 sources: 484 pairs, each with 2 · 14 + 1 programs."""
    assert hl.theory.dynamic_programs(121, 4, 14) == 14_036
    assert hl.theory.dynamic_programs(2, 1, 0) == 2


def test_value_iterations_equal_the_number_computed_by_hand():
    """ln(1 / (0.01 · 0.1)) / 0.1 = 10 ln(1000) = 69.08, rounded up."""
    assert hl.theory.value_iterations(0.9, 0.01) == 70
    assert hl.theory.value_iterations(0.0, 5.0) == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: hl.theory.dynamic_programs(0, 1, 1),
        lambda: hl.theory.dynamic_programs(1, 1, -1),
        lambda: hl.theory.value_iterations(0.9, 0),
        lambda: hl.theory.value_iterations(1.0, 0.1),
    ],
)
def test_values_outside_their_domain_are_refused(call):
    with pytest.raises(hl.errors.InvalidArgument):
        call()
