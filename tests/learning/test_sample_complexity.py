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
    with pytest.raises(hl.errors.InvalidArgument, match=r"U has shape \(2,\)"):
        hl.pairs_to_learn([1.0, 2.0], m, epsilon=0.1)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["n-known", "--states", 121, "--actions", 4, "--epsilon", 0.01], "n_known = "),
        (["tasks", "--p-min", 0.2], "need 14 tasks and are used from task 15 on"),
        (["tasks", "--p-min", 0.2, "--delta", 0.1], "need 11 tasks"),
        (["computations", "--states", 121, "--actions", 4, "--sources", 14], "14,036 dynamic"),
        (["pairs-to-learn", "tight", "--d-max", 0.1, "--episodes", 500], "RMax: 484 of 484 pairs"),
    ],
)
def test_theory_command_prints_the_value_of_its_function(arguments, expected):
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
