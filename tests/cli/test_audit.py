"""`heirloom audit` prints the audit of a saved memory or agent."""

import numpy as np
import pytest
from typer.testing import CliRunner

import heirloom as hl
from heirloom.cli.app import app


@pytest.fixture
def agent():
    agent = hl.RMax(n_states=3, n_actions=4, gamma=0.9, n_known=1, refresh=None, seed=0)
    for reward in (1.0, 0.4):
        task = hl.grid_world(["S.G"], gamma=0.9, goal_rewards=reward)
        hl.learn(agent, task, episodes=30, max_steps=10, seed=0)
    return agent


def run(*arguments):
    return CliRunner().invoke(app, ["audit", *map(str, arguments)])


def test_contradiction_has_its_own_exit_status(agent, tmp_path):
    path = tmp_path / "tasks.heirloom"
    agent.memory.save(path)
    result = run(path, "--rewards", 0.1, "--transitions", 0, "--exact")
    assert result.exit_code == 3
    assert "is contradicted: the mean rewards of tasks" in " ".join(result.output.split())
    assert run(path, "--rewards", 0.7, "--transitions", 0, "--exact").exit_code == 0
    assert run(path, "--rewards", 0.1, "--transitions", 0).exit_code == 0  # one visit: no proof
    assert run(path, "--p-min", 1.0, "--exact").exit_code == 3
    assert run(path, "--d-max", 0.1, "--exact").exit_code == 3
    assert run(path).exit_code == 0


def test_arrays_of_a_nearness_are_read_from_a_file(agent, tmp_path):
    path, file = tmp_path / "tasks.heirloom", tmp_path / "near.npz"
    agent.memory.save(path)
    for claim, status in ((0.1, 3), (0.7, 0)):
        np.savez(file, rewards=np.full((3, 4), claim), transitions=0.0)
        assert run(path, "--nearness", file, "--exact").exit_code == status
    np.savez(file, rewards=0.1)
    half = run(path, "--nearness", file)
    assert half.exit_code == 1
    assert "has the arrays rewards: expected rewards and transitions" in half.output
    for content in (b"", b"no arrays", b"\x80\x04N."):  # the last one is a pickle
        file.write_bytes(content)
        bad = run(path, "--nearness", file)
        assert bad.exit_code == 1
        assert "is no file of arrays" in " ".join(bad.output.split())
    two = run(path, "--nearness", file, "--p-min", 0.5)
    assert "--nearness and --p-min were given" in two.output


def test_file_of_an_agent_is_audited_and_drawn(agent, tmp_path):
    path, figure = tmp_path / "agent.heirloom", tmp_path / "audit.png"
    agent.save(path)
    before = path.read_bytes()
    assert run(path, "--d-max", 50, "--figure", figure).exit_code == 0
    assert figure.stat().st_size > 1000
    assert path.read_bytes() == before


def test_missing_file_is_an_error(tmp_path):
    result = run(tmp_path / "nothing", "--d-max", 1)
    assert result.exit_code == 1
    assert "error:" in result.output


def test_half_a_nearness_and_two_claims_are_refused(agent, tmp_path):
    path = tmp_path / "tasks.heirloom"
    agent.memory.save(path)
    half = run(path, "--rewards", 0.1)
    assert half.exit_code == 1
    assert "error: --transitions is missing: a nearness has both" in half.output
    two = run(path, "--rewards", 0.1, "--transitions", 0.1, "--p-min", 0.5)
    assert "--rewards and --transitions and --p-min were given: test one claim" in two.output


def test_audit_of_one_task_says_that_nothing_was_compared(tmp_path):
    agent = hl.RMax(n_states=3, n_actions=4, gamma=0.9, n_known=1, refresh=None, seed=0)
    task = hl.grid_world(["S.G"], gamma=0.9)
    hl.learn(agent, task, episodes=30, max_steps=10, seed=0)
    agent.memory.save(tmp_path / "tasks.heirloom")
    output = run(tmp_path / "tasks.heirloom").output
    assert "Nothing was compared: no pair is known in two tasks." in output
    assert output.splitlines()[2].split()[-3:] == ["-", "-", "-"]
