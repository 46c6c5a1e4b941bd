"""Agents learn from a table of recorded steps as from steps of their own."""

import inspect

import numpy as np
import pandas as pd
import pytest

import heirloom as hl
from heirloom.agents.algorithms import ALGORITHMS
from heirloom.learning.log import learn_from_log

SIZES = {"n_states": 5, "n_actions": 2, "gamma": 0.9}
M = hl.garnet(5, 2, branching=3, gamma=0.9, seed=0)


def recorded(n_steps, *, seed=0, m=M, last=20):
    """A log of a random policy, in episodes of `last` steps."""
    rng, env = np.random.default_rng(seed), m.to_gymnasium()
    rows, s = [], 0
    for i in range(n_steps):
        if i % last == 0:
            s, _ = env.reset(seed=int(rng.integers(2**31)))
        a = int(rng.integers(m.n_actions))
        s_next, r, terminated, _, _ = env.step(a)
        rows.append((s, a, r, s_next, terminated, i // last))
        s = s_next
    names = ["state", "action", "reward", "next_state", "terminated", "episode"]
    return pd.DataFrame(rows, columns=names)


def by_hand(agent, table, **options):
    agent.begin_task(**options)
    for row in table.itertuples():
        agent.observe(row.state, row.action, row.reward, row.next_state, terminated=row.terminated)
    agent.end_task()


def test_agent_learns_the_same_as_from_its_own_steps():
    log, agent, other = recorded(500), hl.RMax(**SIZES, seed=0), hl.RMax(**SIZES, seed=0)
    report = hl.learn_from_log(agent, log, episode="episode")
    by_hand(other, log)
    assert np.array_equal(agent.Q, other.Q)
    assert np.array_equal(agent.memory.visits.counts, other.memory.visits.counts)
    assert (report.n_rows, report.n_used, report.problems) == (500, 500, ())
    assert report.n_visited == report.n_pairs == 10
    assert str(report) == (
        "500 of 500 rows of the log were observed, in 1 task; 10 of 10 pairs were visited."
    )
    assert agent.task.starts.sum() == 25


def options_for(algorithm):
    options = {"nearness": hl.Nearness(rewards=1.0, transitions=1.0)}
    given = {"p_min": 0.5, "beta": 1.0, "d_max": 1.0, **options}
    return {
        name: given[name]
        for name, parameter in inspect.signature(algorithm).parameters.items()
        if name in given and (parameter.default is inspect.Parameter.empty or name == "nearness")
    }


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - {"BisimulationTransfer"}))
def test_every_algorithm_learns_from_a_log_and_then_from_the_task(name):
    algorithm = getattr(hl, name)
    agent = algorithm(**SIZES, seed=0, **options_for(algorithm))
    report = hl.learn_from_log(agent, recorded(100), episode="episode")
    assert report.n_used == 100
    hl.learn(agent, M, episodes=5, max_steps=10, seed=0)


def test_tasks_are_learned_in_the_order_of_their_first_rows():
    log = pd.concat([recorded(60, seed=k).assign(week=f"week {k}") for k in (3, 1)])
    log = log.iloc[np.argsort(np.arange(120) % 60, kind="stable")]  # both weeks in turn
    agent, other = hl.RMax(**SIZES, seed=0), hl.RMax(**SIZES, seed=0)
    report = hl.learn_from_log(agent, log, task="week", episode="episode")
    assert report.tasks == {"week 3": 60, "week 1": 60}
    assert [source.label for source in agent.memory.sources] == ["week 3", "week 1"]
    for k in (3, 1):
        by_hand(other, recorded(60, seed=k))
    for one, two in zip(agent.memory.sources, other.memory.sources, strict=True):
        assert np.array_equal(one.Q, two.Q)


def named_agent():
    agent = hl.RMax(n_states=3, n_actions=2, gamma=0.9, seed=0)
    agent.memory.set_names(state_names=["empty", "half", "full"], action_names=["buy", "sell"])
    return agent


def test_names_are_read_and_problems_are_counted_with_their_first_rows():
    log = pd.DataFrame(
        {
            "state": ["empty", "half", None, "broken", "full", 2, "half", "half"],
            "action": ["buy", "buy", "buy", "buy", "wait", 1, "sell", "sell"],
            "reward": [0.0, 0.5, 0.0, 0.0, 0.0, "n/a", 7.0, 1.0],
            "next_state": ["half", "full", "half", "half", "half", 0, "half", None],
            "terminated": [False, False, False, False, False, False, 0, "True"],
        }
    )
    agent = named_agent()
    report = hl.learn_from_log(agent, log)
    assert report.n_used == 3
    found = [(problem.what.split(" ")[0], problem.n, problem.rows) for problem in report.problems]
    assert found == [
        ("state", 1, (2,)),
        ("state", 1, (3,)),
        ("action", 1, (4,)),
        ("reward", 1, (5,)),
        ("reward", 1, (6,)),
    ]
    assert "outside the reward_range (0, 1): from 7 to 7: 1 (row 6), left out" in str(report)
    counts = agent.memory.visits.counts.reshape(3, 2)
    assert counts[0, 0] == counts[1, 0] == counts[1, 1] == 1
    assert counts.sum() == 3


def test_next_states_that_do_not_follow_are_counted_and_kept():
    log = recorded(100)
    log.loc[[7, 30], "next_state"] = (log.next_state[[7, 30]] + 1) % 5
    report = hl.learn_from_log(hl.RMax(**SIZES, seed=0), log, episode="episode")
    (problem,) = report.problems
    assert (problem.n, problem.rows, problem.left_out) == (2, (7, 30), False)
    assert report.n_used == 100
    cut = hl.learn_from_log(hl.RMax(**SIZES, seed=0), recorded(100))  # episodes were cut
    assert "give episode if a time limit ends episodes" in str(cut)


def test_next_states_can_be_those_of_the_next_rows():
    log, agent, other = recorded(100), hl.RMax(**SIZES, seed=0), hl.RMax(**SIZES, seed=0)
    without = log.drop(columns=["next_state", "terminated"])
    options = {"next_state": None, "terminated": None, "episode": "episode"}
    report = hl.learn_from_log(agent, without, **options)
    assert (report.n_used, report.problems[0].rows) == (95, (19, 39, 59, 79, 99))
    by_hand(other, log[log.index % 20 != 19])
    assert np.array_equal(agent.Q, other.Q)


def test_missing_numbers_in_columns_of_integers_are_left_out():
    log = recorded(40)
    log.loc[3, "state"] = np.nan  # pandas then has floats
    log["terminated"] = log.terminated.astype(object)
    log.loc[5, "terminated"] = None
    report = hl.learn_from_log(hl.RMax(**SIZES, seed=0), log, episode="episode")
    assert {problem.rows for problem in report.problems} == {(3,), (5,)}
    assert report.n_used == 38


def changed(log, **types):
    return log.assign(**{name: log[name].astype(kind) for name, kind in types.items()})


@pytest.mark.parametrize(
    "types",
    [
        {"state": "category", "next_state": "category", "action": "category"},
        {"state": "Int64", "next_state": "Int32", "action": "uint8", "reward": "Float64"},
        {"state": "string", "action": "string", "reward": "string", "next_state": object},
        {"state": float, "reward": "float32", "terminated": "boolean"},
        {"reward": "category", "terminated": "category"},
        {"terminated": str},
        {"terminated": float},
    ],
)
def test_columns_of_every_type_are_read(types):
    log = recorded(100)
    log.loc[[19, 59], "terminated"] = True
    agents = [hl.RMax(**SIZES, seed=0) for _ in range(2)]
    hl.learn_from_log(agents[0], log, episode="episode")
    report = hl.learn_from_log(agents[1], changed(log, **types), episode="episode")
    assert (report.n_used, report.problems) == (100, ())
    assert np.allclose(agents[0].Q, agents[1].Q, rtol=1e-6)


@pytest.mark.parametrize(("yes", "no"), [("TRUE", "FALSE"), ("yes", "no"), (" T", "f "), (1.0, 0)])
def test_flags_are_read(yes, no):
    log = recorded(20).assign(terminated=[no] * 19 + [yes])
    agent = hl.RMax(**SIZES, seed=0)
    report = hl.learn_from_log(agent, log)
    assert report.n_used == 20
    assert agent.memory.visits.rows.ends.sum() > 0
    log["terminated"] = log.terminated.astype(object)
    log.loc[3, "terminated"] = "perhaps"
    report = hl.learn_from_log(hl.RMax(**SIZES, seed=0), log)
    assert "terminated is neither true nor false (but 'perhaps'): 1 (row 3), left out" in str(
        report
    )


def test_labels_of_whole_numbers_have_no_digits_after_the_point():
    log = recorded(60).assign(week=[1.0] * 20 + [np.nan] * 20 + [2.5] * 20)
    agent = hl.RMax(**SIZES, seed=0)
    assert list(hl.learn_from_log(agent, log, task="week").tasks) == ["1", "2.5"]


def test_rows_without_an_episode_or_a_task_belong_to_no_other_one():
    log = pd.DataFrame({"state": [0, 1, 2, 3, 4], "action": 0, "reward": 0.0})
    log["episode"], log["week"] = [1, 1, 2, 2, None], ["a", "a", None, "a", "a"]
    agent = hl.RMax(**SIZES, seed=0)
    options = {"next_state": None, "terminated": None}
    report = hl.learn_from_log(agent, log, episode="episode", **options)
    assert report.n_used == 2  # from 0 to 1, and from 2 to 3
    agent = hl.RMax(**SIZES, seed=0)
    hl.learn_from_log(agent, log, task="week", **options)
    rows = agent.memory.visits.rows
    assert rows.successors.tolist() == [1, 4]  # from 1 to 2 or 3: the week of 2 is not known
    assert np.flatnonzero(rows.counts).tolist() == [0, 6]
    given = log.assign(next_state=[1, 2, 3, 4, 0])
    report = hl.learn_from_log(hl.RMax(**SIZES, seed=0), given, terminated=None, task="week")
    assert report.n_used == 4
    assert [problem.what for problem in report.problems] == ["task is missing"]


def test_one_text_does_not_make_a_whole_column_unreadable(tmp_path):
    log = recorded(100)
    for column in ("state", "action", "next_state"):
        log[column] = log[column].astype(str)
    log.loc[3, "state"], log.loc[5, "action"] = "?", "none"
    log.to_csv(tmp_path / "log.csv", index=False)
    for table in (log, tmp_path / "log.csv"):
        report = hl.learn_from_log(hl.RMax(**SIZES, seed=0), table, episode="episode")
        assert report.n_used == 98


def test_task_without_a_usable_row_is_named():
    log = recorded(80).assign(week=np.repeat([1, 2, 3, 4], 20))
    log.loc[log.week == 2, "reward"] = 1.5
    agent = hl.RMax(**SIZES, seed=0)
    report = hl.learn_from_log(agent, log, task="week")
    assert report.lost == ("2",)
    assert hl.estimate_nearness(agent.memory).probability() == 0  # the other tasks are a selection
    assert "tasks without a usable row: 1 (2), left out; the others are a selection" in str(report)


def test_start_of_an_episode_counts_also_if_its_row_is_left_out():
    log = recorded(100)
    first = log.groupby("episode").head(1).index
    log.loc[first, "reward"] = 7.0
    agent = hl.RMax(**SIZES, seed=0)
    hl.learn_from_log(agent, log, episode="episode")
    expected = np.bincount(log.state[first], minlength=5)
    assert agent.task.starts.tolist() == expected.tolist()


def test_rewards_of_32_bits_at_the_end_of_the_range_are_used():
    log = recorded(40).assign(reward=np.float32(0.3))
    agent = hl.RMax(**SIZES, reward_range=(0.0, 0.3), seed=0)
    report = hl.learn_from_log(agent, log, episode="episode")
    assert (report.n_used, report.problems) == (40, ())


def test_tasks_with_equal_texts_are_counted_apart():
    log = recorded(40).assign(week=[1] * 20 + ["1"] * 20)
    report = hl.learn_from_log(hl.RMax(**SIZES, seed=0), log, task="week")
    assert report.tasks == {"1": 20, "1 [2]": 20}


def test_columns_that_are_there_twice_and_lists_are_refused():
    log, agent = recorded(20), hl.RMax(**SIZES, seed=0)
    with pytest.raises(
        hl.errors.InvalidArgument, match="state is 'state', the name of two columns"
    ):
        hl.learn_from_log(agent, pd.concat([log, log[["state"]]], axis=1))
    with pytest.raises(hl.errors.InvalidArgument, match="the column 'state' has values such as"):
        hl.learn_from_log(agent, log.assign(state=[[0]] * 20))


def test_files_are_read(tmp_path):
    log = recorded(100)
    log.to_csv(tmp_path / "log.csv", index=False)
    agents = [hl.RMax(**SIZES, seed=0) for _ in range(3)]
    hl.learn_from_log(agents[0], log)
    hl.learn_from_log(agents[1], tmp_path / "log.csv")
    assert np.array_equal(agents[0].Q, agents[1].Q)
    pytest.importorskip("pyarrow")
    log.to_parquet(tmp_path / "log.parquet")
    hl.learn_from_log(agents[2], str(tmp_path / "log.parquet"))
    assert np.array_equal(agents[0].Q, agents[2].Q)


def test_actions_that_do_not_exist_are_left_out():
    available = np.ones((5, 2), dtype=bool)
    available[2, 1] = False
    agent, log = hl.RMax(**SIZES, seed=0), recorded(200)
    report = hl.learn_from_log(agent, log, episode="episode", available=available)
    excluded = (log.state == 2) & (log.action == 1)
    assert report.n_used == 200 - excluded.sum()
    assert report.n_pairs == 9
    assert np.isneginf(agent.Q[2, 1])
    with pytest.raises(hl.errors.InvalidArgument, match="available is"):
        hl.learn_from_log(agent, log, available=np.ones((5, 3), dtype=bool))


def test_termination_is_learned():
    sizes = {"n_states": 3, "n_actions": 1, "gamma": 0.9, "seed": 0}
    log = pd.DataFrame(
        {
            "state": [0, 1, 0, 1],
            "action": 0,
            "reward": 0.5,
            "next_state": [1, np.nan, 1, 2],
            "terminated": [0, 1, 0, 1],
        }
    )
    agent = hl.RMax(**sizes)
    report = hl.learn_from_log(agent, log)  # the state after an end is not needed
    assert (report.n_used, report.problems) == (4, ())
    assert agent.memory.visits.rows.ends.tolist() == [0.0, 1.0, 0.0]
    report = hl.learn_from_log(hl.RMax(**sizes, terminating=False), log)
    assert "terminated, although the agent has terminating=False: 2 (rows 1, 3)" in str(report)


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, {"state": "stat"}, "state is 'stat', which is no column .* did you mean state"),
        ({}, {"next_state": "x"}, "next_state is 'x', which is no column .*, or None"),
        ({"state": "empty"}, {}, "no row of the log can be used: state is no number .*set_names"),
        ({"reward": 5.0}, {}, "outside the reward_range"),
        ({"reward": np.nan}, {}, "reward is missing"),
        ({"reward": "2,5"}, {}, "reward is no finite number .but '2,5'"),
        ({}, {"task": "week"}, "task is 'week', which is no column .* table.reset_index.. has it"),
    ],
)
def test_log_without_a_usable_row_is_refused_before_the_task_begins(changes, options, message):
    agent = hl.RMax(**SIZES, seed=0)
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        hl.learn_from_log(agent, recorded(20).assign(**changes).rename_axis("week"), **options)
    assert not agent.in_task
    assert agent.memory.n_tasks == 0


def test_name_that_is_the_index_of_another_state_is_refused():
    agent = hl.RMax(n_states=3, n_actions=2, gamma=0.9, seed=0)
    agent.memory.set_names(state_names=["2", "1", "0"])
    with pytest.raises(hl.errors.InvalidArgument, match=r"read the column as text"):
        hl.learn_from_log(agent, recorded(20).query("state < 3 and next_state < 3"))


def test_tables_of_another_kind_are_refused():
    with pytest.raises(hl.errors.InvalidArgument, match="table is"):
        learn_from_log(hl.RMax(**SIZES, seed=0), [1, 2])
    with pytest.raises(hl.errors.InvalidArgument, match="it has no rows"):
        learn_from_log(hl.RMax(**SIZES, seed=0), recorded(20).iloc[:0])
