"""The calculators of the theory."""

import math

import numpy as np
import pytest
from typer.testing import CliRunner

import heirloom as hl
from heirloom.cli.app import app
from tests.domains import stay_or_go


def test_pairs_that_an_agent_must_learn():
    domain = stay_or_go(0.9)
    Q = domain.Q
    wanted = hl.pairs_to_learn(Q, domain.task, epsilon=0.0 + 1e-6)
    assert np.array_equal(wanted, Q >= Q.max(axis=1, keepdims=True) - 1e-6)
    assert hl.pairs_to_learn(np.full((2, 2), 10.0), domain.task, epsilon=0.0).all()
    assert not hl.pairs_to_learn(np.zeros((2, 2)), domain.task, epsilon=0.1).any()
    with pytest.raises(hl.InvalidArgument, match=r"U has shape \(2,\)"):
        hl.pairs_to_learn([1.0, 2.0], domain.task, epsilon=0.1)


def test_transfer_never_adds_pairs():
    """A bound that is lower has fewer pairs: no worse than RMax (Proposition 5)."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        m = hl.garnet(5, 2, branching=2, gamma=0.9, seed=rng)
        U = hl.solve(m).Q + rng.uniform(0, 3, m.R.shape)
        lower = np.minimum(U, m.v_max)
        count = hl.pairs_to_learn(lower, m, epsilon=0.1).sum()
        assert count <= hl.pairs_to_learn(np.full(m.R.shape, m.v_max), m, epsilon=0.1).sum()


def test_computations():
    assert hl.dynamic_programs(121, 4, 14) == 484 * 29
    assert hl.dynamic_programs(2, 1, 0) == 2
    assert hl.value_iterations(0.9, 0.01) == math.ceil(10 * math.log(1 / (0.01 * 0.1)))
    assert hl.value_iterations(0.0, 5.0) == 0
    for bad in (lambda: hl.dynamic_programs(0, 1, 1), lambda: hl.value_iterations(0.9, 0)):
        with pytest.raises(hl.InvalidArgument):
            bad()


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


def test_a_prior_leaves_fewer_pairs_to_learn():
    output = CliRunner().invoke(app, ["theory", "pairs-to-learn", "--d-max", "0"]).output
    rmax, lrmax = (int(line.split(": ")[1].split(" of ")[0]) for line in output.splitlines())
    assert lrmax < rmax == 484


def test_theory_command_rejects_invalid_values():
    result = CliRunner().invoke(app, ["theory", "tasks", "--p-min", "2"])
    assert result.exit_code == 1
    assert "error: p_min is 2.0" in result.output
    result = CliRunner().invoke(app, ["theory", "pairs-to-learn", "nothing"])
    assert "expected one of" in result.output
