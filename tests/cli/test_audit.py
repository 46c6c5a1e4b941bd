"""`heirloom audit` prints the audit of a saved memory or agent."""

import pytest
from typer.testing import CliRunner

import heirloom as hl
from heirloom.cli.app import app


@pytest.fixture
def agent():
    agent = hl.RMax(n_states=3, n_actions=4, gamma=0.9, n_known=1, seed=0)
    for reward in (1.0, 0.4):
        task = hl.grid_world(["S.G"], gamma=0.9, goal_rewards=reward)
        hl.learn(agent, task, episodes=30, max_steps=10, seed=0)
    return agent


def run(*arguments):
    return CliRunner().invoke(app, ["audit", *map(str, arguments)])


def test_contradiction_has_its_own_exit_status(agent, tmp_path):
    path = tmp_path / "tasks.heirloom"
    agent.memory.save(path)
    result = run(path, "--rewards", 0.1, "--exact")
    assert result.exit_code == 3
    assert "is contradicted: the mean rewards of tasks" in " ".join(result.output.split())
    assert run(path, "--rewards", 0.7, "--exact").exit_code == 0
    assert run(path, "--rewards", 0.1).exit_code == 0  # one visit proves nothing
    assert run(path, "--p-min", 1.0, "--exact").exit_code == 3
    assert run(path, "--d-max", 0.1, "--exact").exit_code == 3
    assert run(path).exit_code == 0


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
