"""`FixedPolicy` follows its policy wherever an agent can be used."""

import numpy as np
import pandas as pd
import pytest

import heirloom as hl
from tests.domains import corridor

M = corridor(5, 0.9).task
NAMES = {"state_names": list("abcde"), "action_names": ["left", "right"]}


@pytest.mark.parametrize(
    ("policy", "names"),
    [
        ([1] * 5, {}),
        (np.ones(5, dtype=int), {}),
        (dict.fromkeys("abcde", "right"), NAMES),
        (pd.Series("right", index=list("abcde")), NAMES),
        (dict.fromkeys(range(5), 1), {}),
        (lambda s: 1, {}),
        (lambda s: "right", NAMES),
        (lambda s, mask: 1, {}),
        (lambda s, action=1: action, {}),
        ({s: 1 for s in range(5)}.get, {}),
        (pd.DataFrame({"state": range(5), "action": 1, "visits": 9}), {}),
    ],
)
@pytest.mark.parametrize("task", [M, M.to_gymnasium(max_episode_steps=30)], ids=["task", "env"])
def test_policy_is_followed_in_every_form(policy, names, task):
    agent = hl.FixedPolicy(policy, **names)
    record = hl.learn(agent, task, episodes=3, max_steps=30, seed=0, label="week 1")
    other = hl.learn(hl.FixedPolicy([1] * 5), task, episodes=3, max_steps=30, seed=0)
    assert np.array_equal(record.returns, other.returns)
    assert record.update_steps.size == 0


def test_names_are_those_of_the_task_if_none_are_given():
    task = hl.TabularMDP(M.R, M.T, gamma=0.9, start=0, **NAMES)
    wanted = hl.learn(hl.FixedPolicy([1] * 5), task, episodes=3, max_steps=9, seed=0).returns
    for policy in (dict.fromkeys("abcde", "right"), lambda s: "right"):
        for env in (task, task.to_gymnasium()):
            found = hl.learn(hl.FixedPolicy(policy), env, episodes=3, max_steps=9, seed=0)
            assert np.array_equal(found.returns, wanted)
        with pytest.raises(hl.errors.InvalidArgument, match="and the task has no names"):
            hl.learn(hl.FixedPolicy(policy), M, episodes=1, max_steps=9, seed=0)


def test_policy_table_of_an_agent_is_followed_also_from_a_file(tmp_path):
    task = hl.TabularMDP(M.R, M.T, gamma=0.9, start=0, **NAMES)
    agent = hl.RMax(n_states=5, n_actions=2, gamma=0.9, seed=0)
    hl.learn(agent, task, episodes=30, max_steps=20, seed=0)
    table = hl.policy_table(agent)
    table.to_csv(tmp_path / "policy.csv", index=False)
    for given in (table, pd.read_csv(tmp_path / "policy.csv")):
        rule = hl.FixedPolicy(given)
        hl.learn(rule, task, episodes=1, max_steps=20, seed=0)
        assert [rule.act(s) for s in range(5)] == list(agent.policy)


def test_return_is_that_of_the_policy():
    m, policy = hl.garnet(4, 3, branching=2, gamma=0.9, seed=0), [2, 0, 1, 1]
    record = hl.learn(hl.FixedPolicy(policy), m, episodes=4000, max_steps=20, seed=0)
    expected = hl.expected_return(m, policy, horizon=20, discounted=False)
    error = 4 * record.returns.std() / np.sqrt(record.returns.size)
    assert abs(record.returns.mean() - expected) <= error


def test_rule_is_compared_with_agents():
    results = hl.compare(
        {
            "rule": lambda rng: hl.FixedPolicy([1] * 5),
            "RMax": lambda rng: hl.RMax(n_states=5, n_actions=2, gamma=0.9, seed=rng),
        },
        lambda rng: M,
        tasks=2,
        episodes=5,
        max_steps=10,
        repetitions=3,
    )
    assert (results.returns.sel(agent="rule") == results.returns.sel(agent="rule")[0, 0, 0]).all()
    found = hl.worth(results, unit="EUR")
    assert found.baseline == "rule"
    assert (found.table.per_task <= 0).all()


def masked():
    available = np.array([[True, False], [True, True]])
    T = np.zeros((2, 2, 2))
    T[:, :, 1] = 1.0
    return hl.TabularMDP(np.zeros((2, 2)), T, gamma=0.9, start=0, available=available)


@pytest.mark.parametrize("task", [masked(), masked().to_gymnasium()], ids=["task", "env"])
def test_masks_are_respected(task):
    options = {"episodes": 2, "max_steps": 3, "seed": 0, "masks": True}
    hl.learn(hl.FixedPolicy([0, 1]), task, **options)
    hl.learn(hl.FixedPolicy(lambda s, mask: int(mask.argmax())), task, **options)
    with pytest.raises(hl.errors.InvalidArgument, match="policy chooses an action that does not"):
        hl.learn(hl.FixedPolicy([1, 1]), task, **options)


@pytest.mark.parametrize(
    ("policy", "names", "message"),
    [
        (3, {}, "policy is 3"),
        (pd.DataFrame({"state": [0]}), {}, "columns state and action"),
        ({"x": "right"}, NAMES, "a state of the policy is 'x': expected one of the names"),
        ([0.5], {}, "an action of the policy is 0.5"),
        ([-1], {}, "an action of the policy is -1"),
    ],
)
def test_wrong_policies_are_refused(policy, names, message):
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        hl.FixedPolicy(policy, **names)


def test_state_without_an_action_is_refused_when_it_is_reached():
    with pytest.raises(hl.errors.InvalidArgument, match="policy has no action for state 2"):
        hl.learn(hl.FixedPolicy({0: 1, 1: 1}), M, episodes=1, max_steps=10, seed=0)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ([1, 1], "the policy has 2 actions, one for each state, but the task has 5 states"),
        ([1, 1, 1, 1, 2], "takes action 2 in state 4, but the task has 5 states and 2 actions"),
        ({5: 0}, "takes action 0 in state 5, but the task has 5 states"),
    ],
)
def test_policy_that_does_not_fit_the_task_is_refused_before_any_step(policy, message):
    agents = {
        "RMax": lambda rng: hl.RMax(n_states=5, n_actions=2, gamma=0.9, seed=rng),
        "rule": lambda rng: hl.FixedPolicy(policy),
    }
    for task in (M, M.to_gymnasium()):
        with pytest.raises(hl.errors.IncompatibleTasks, match=message):
            hl.learn(hl.FixedPolicy(policy), task, episodes=1, max_steps=10, seed=0)
        with pytest.raises(hl.errors.IncompatibleTasks, match=f"agent 'rule'.*{message}"):
            hl.compare(agents, lambda rng, task=task: task, tasks=1, episodes=1, max_steps=9)


def test_function_that_returns_an_action_that_the_task_lacks_is_refused():
    with pytest.raises(hl.errors.InvalidArgument, match="policy chooses an action that does not"):
        hl.learn(hl.FixedPolicy(lambda s: 2), M, episodes=1, max_steps=10, seed=0)


def rule_of_a_spec(*, n_states, n_actions, gamma, seed, action=1):
    """Return a rule, for a spec that names this function."""
    return hl.FixedPolicy([action] * n_states)


def test_rule_is_an_agent_of_a_spec_with_recordings_and_a_report(tmp_path):
    name = f"{__name__}:rule_of_a_spec"
    spec = hl.ExperimentSpec.read(
        {
            **{"name": "rules", "tasks": 2, "episodes": 3, "steps": 5, "repetitions": 2},
            "family": {"name": "corridor"},
            "agents": [{"algorithm": "RMax"}, {"algorithm": name, "name": "rule", "action": 1}],
            "record": True,
            "measure": "certificate",
        }
    )
    results = hl.run(spec, tmp_path, jobs=1)
    rule = results.sel(agent="rule")
    assert np.isfinite(rule.returns).all()
    assert np.isnan(rule.certified_lower).all()
    assert "rule" in hl.write_report(tmp_path, tmp_path / "report.html").read_text()
    assert "rule" in hl.replay(tmp_path, tmp_path / "replay.html").read_text()
    wrong = spec.with_changes(agents=[{"algorithm": name, "name": "rule", "action": 7}])
    with pytest.raises(hl.errors.IncompatibleTasks, match="takes action 7 in state 0"):
        hl.run(wrong, tmp_path / "wrong", jobs=1)
    assert not (tmp_path / "wrong").exists()
