"""`plan_learning` says what a number of steps is enough for."""

import numpy as np
import pytest

import heirloom as hl


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (100, "Most pairs cannot be tried"),
        (400, "Too few for n_known=2"),
        (1260, "Keep n_known=2"),
        (20_000, "Enough for n_known=2"),
    ],
)
def test_budget_in_words(steps, words):
    plan = hl.plan_learning(312, steps, n_outcomes=4)
    assert words in str(plan)
    assert f"takes about {plan.steps_needed:,} steps" in str(plan)
    assert plan.visits == steps / 312


def test_steps_that_are_needed_are_enough():
    plan = hl.plan_learning(20, 100, n_outcomes=3)
    enough = hl.plan_learning(20, plan.steps_needed, n_outcomes=3)
    assert (
        enough.accuracy <= 0.1 < hl.plan_learning(20, plan.steps_needed - 20, n_outcomes=3).accuracy
    )
    assert "try a certificate" in str(enough)


def test_accuracy_holds_at_all_pairs_with_its_probability():
    """With δ = 0.5, so that an accuracy that is too small would show."""
    rng, fails, n = np.random.default_rng(0), 0, 300
    plan = hl.plan_learning(10, 10 * 50, n_outcomes=2, delta=0.5)
    for _ in range(n):
        fails += (np.abs(rng.binomial(50, 0.5, 10) / 50 - 0.5) > plan.accuracy).any()
    assert fails <= 0.5 * n


def test_one_outcome_is_known_at_once():
    assert hl.plan_learning(10, 10, n_outcomes=1).accuracy == 0


@pytest.mark.parametrize("options", [{"n_pairs": 0}, {"steps": -1}, {"n_outcomes": 0.5}])
def test_wrong_numbers_are_refused(options):
    with pytest.raises(hl.errors.InvalidArgument, match=next(iter(options))):
        hl.plan_learning(**{"n_pairs": 10, "steps": 10, **options})
