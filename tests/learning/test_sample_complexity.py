"""The number of pairs to learn, and the other calculators of `heirloom theory`."""

import numpy as np
import pytest
from typer.testing import CliRunner

import heirloom as hl
from heirloom.cli.app import app
from tests.domains import stay_or_go


def test_pairs_to_learn_are_those_with_u_above_v_star_minus_epsilon():
    """By hand: with γ = 0.9, Q* = [[8.1, 9], [10, 9.1]], so V* = [9, 10]."""
    m = stay_or_go(0.9).task
    Q = [[8.1, 9.0], [10.0, 9.1]]
    for epsilon, expected in (
        (1e-6, [[False, True], [True, False]]),
        (0.89, [[False, True], [True, False]]),
        (0.91, [[True, True], [True, True]]),
    ):
        assert hl.pairs_to_learn(Q, m, epsilon=epsilon).tolist() == expected
    assert hl.pairs_to_learn(np.full((2, 2), 10.0), m, epsilon=0.0).all()
    assert not hl.pairs_to_learn(np.zeros((2, 2)), m, epsilon=0.1).any()
    with pytest.raises(hl.InvalidArgument, match=r"U has shape \(2,\)"):
        hl.pairs_to_learn([1.0, 2.0], m, epsilon=0.1)


def test_valid_bound_never_has_more_pairs_to_learn_than_v_max():
    """A smaller upper bound has fewer pairs to learn, or as many: no worse than RMax (Prop. 5)."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        m = hl.garnet(5, 2, branching=2, gamma=0.9, seed=rng)
        U = hl.solve(m).Q + rng.uniform(0, 3, m.R.shape)
        lower = np.minimum(U, m.v_max)
        count = hl.pairs_to_learn(lower, m, epsilon=0.1).sum()
        assert count <= hl.pairs_to_learn(np.full(m.R.shape, m.v_max), m, epsilon=0.1).sum()


def test_number_of_dynamic_programs_is_one_per_pair_plus_two_per_pair_and_source():
    assert hl.dynamic_programs(121, 4, 14) == 14_036
    assert hl.dynamic_programs(2, 1, 0) == 2
    with pytest.raises(hl.InvalidArgument, match="n_states is 0"):
        hl.dynamic_programs(0, 1, 1)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9, 0.99])
def test_value_iterations_reach_their_precision(gamma):
    """n sweeps reduce an initial error of 1 / (1-γ) to γ^n / (1-γ) <= ε_Q."""
    for precision in (1.0, 0.01, 1e-6):
        assert gamma ** hl.value_iterations(gamma, precision) / (1 - gamma) <= precision


def test_value_iterations_by_hand():
    """ln(1 / (0.01 * 0.1)) / 0.1 = 10 ln(1000) = 69.08, rounded up."""
    assert hl.value_iterations(0.9, 0.01) == 70
    assert hl.value_iterations(0.0, 5.0) == 0
    with pytest.raises(hl.InvalidArgument, match="precision is 0"):
        hl.value_iterations(0.9, 0)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["n-known", "--states", 121, "--actions", 4, "--epsilon", 0.01], "n_known = "),
        (["tasks", "--p-min", 0.2], "MaxQInit needs 14 tasks and is used from task 15 on"),
        (["tasks", "--p-min", 0.2, "--delta", 0.1], "needs 11 tasks"),
        (["computations", "--states", 121, "--actions", 4, "--sources", 14], "14,036 dynamic"),
        (["pairs-to-learn", "tight", "--d-max", 0.1, "--episodes", 500], "RMax: 484 of 484 pairs"),
    ],
)
def test_theory_command_prints_the_number(arguments, expected):
    result = CliRunner().invoke(app, ["theory", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    assert expected in result.output


def test_prior_leaves_fewer_pairs_to_learn():
    output = CliRunner().invoke(app, ["theory", "pairs-to-learn", "--d-max", "0"]).output
    rmax, lrmax = (int(line.split(": ")[1].split(" of ")[0]) for line in output.splitlines())
    assert lrmax < rmax == 484


def test_theory_command_rejects_invalid_values():
    result = CliRunner().invoke(app, ["theory", "tasks", "--p-min", "2"])
    assert result.exit_code == 1
    assert "error: p_min is 2.0" in result.output
    result = CliRunner().invoke(app, ["theory", "pairs-to-learn", "nothing"])
    assert "expected one of" in result.output
