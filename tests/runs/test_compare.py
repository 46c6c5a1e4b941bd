"""Comparisons of agents on the same tasks."""

import os
import threading

import gymnasium as gym
import numpy as np
import pytest

import heirloom as hl
from heirloom.envs.grid import grid_world
from heirloom.envs.ordered import Trap
from heirloom.experiments.measures import OBSERVERS
from heirloom.learning.streams import stream
from heirloom.runs.compare import compare, comparison_table
from heirloom.stats import student_interval
from tests.experiments.user_defined import Diary, FourVerbs

OPTIONS = {"n_states": 9, "n_actions": 4, "gamma": 0.9, "n_known": 1}
AGENTS = {
    "RMax": lambda rng: hl.RMax(seed=rng, **OPTIONS),
    "LRMax": lambda rng: hl.LRMax(d_max=0.3, seed=rng, **OPTIONS),
}
SIZES = {"tasks": 3, "episodes": 12, "max_steps": 6, "repetitions": 4, "seed": 5}


def draw(rng):
    return grid_world("S..\n...\n..G", gamma=0.9, goal_rewards=rng.uniform(0.7, 1.0))


def test_comparison_returns_labelled_arrays():
    results = compare(AGENTS, draw, **SIZES)
    assert dict(results.sizes) == {"agent": 2, "repetition": 4, "task": 3, "episode": 12}
    assert results.returns.sel(agent="LRMax", task=3, repetition=1).shape == (12,)
    assert (results.returns.mean("episode") <= results.optimal + 1e-9).all()
    assert (results.updates > 0).all()


def test_adding_agents_or_repetitions_leaves_other_results_unchanged():
    both = compare(AGENTS, draw, **SIZES)
    alone = compare({"LRMax": AGENTS["LRMax"]}, draw, **{**SIZES, "repetitions": 2})
    assert both.sel(agent=["LRMax"], repetition=[1, 2]).equals(alone)


def test_environments_and_tabular_tasks_give_the_same_returns():
    tasks = compare(AGENTS, draw, **SIZES)
    environments = compare(AGENTS, lambda rng: draw(rng).to_gymnasium(), **SIZES)
    assert tasks.returns.equals(environments.returns)
    assert np.isnan(environments.optimal).all()


def test_table_shows_mean_returns_and_differences_from_the_first_agent():
    results = compare(AGENTS, draw, **SIZES)
    header, rmax, lrmax, best = comparison_table(results, last=2).splitlines()
    assert header.split() == "agent task 1 last 2 updates difference from RMax".split()
    later = results.returns.sel(task=[2, 3]).mean(("task", "episode"))
    mean, half = student_interval((later.sel(agent="LRMax") - later.sel(agent="RMax")).values)
    assert float(rmax.split()[2]) == pytest.approx(float(later.sel(agent="RMax").mean()), abs=1e-3)
    assert lrmax.endswith(f"{mean:+.3f} ± {half:.3f}")
    assert best.split()[0] == "best"


def test_streams_with_different_keys_differ():
    keys = [("tasks", 0), ("tasks", 1), ("agent", "RMax", 0), ("agent", "LRMax", 0), ("agent", 0)]
    first = [stream(0, *key).random() for key in keys] + [stream(1, "tasks", 0).random()]
    assert len(set(first)) == len(first)
    assert stream(0, "tasks", 0).random() == first[0]


@pytest.mark.parametrize("jobs", [None, 2])
def test_agents_of_ones_own_need_only_four_methods(jobs):
    """Each episode of two steps has two updates of `Diary`: its beginning and its truncation."""
    options = {"n_states": 0, "n_actions": 0, "gamma": 0.0, "seed": 0}
    agents = {kind.__name__: lambda rng, kind=kind: kind(**options) for kind in (FourVerbs, Diary)}
    results = compare(agents, draw, **{**SIZES, "max_steps": 2}, jobs=jobs)
    assert np.isfinite(results.returns).all()
    assert (results.updates.sel(agent="FourVerbs") == 0).all()
    assert (results.updates.sel(agent="Diary") == 2 * SIZES["episodes"]).all()


@pytest.mark.parametrize("jobs", [None, 1, 2])
def test_comparison_of_a_family_has_its_order_of_tasks(jobs):
    """The walk is worth less than the ferry, so optimal returns show in which tasks it sinks."""
    family = Trap()
    agents = {"RMax": lambda rng: hl.RMax(n_known=1, seed=rng, **family.options)}
    sizes = {"tasks": 11, "episodes": 2, "max_steps": 20, "repetitions": 2}
    results = compare(agents, family, **sizes, jobs=jobs)
    sinks = results.optimal.transpose("repetition", "task").values < 0.82
    assert (sinks == [[False] * 9 + [True, False]]).all()
    drawn = compare(agents, family.draw, **sizes, jobs=jobs)
    assert not np.array_equal(drawn.optimal, results.optimal)


def test_invalid_arguments_are_refused():
    for agents, draw_task, change, message in (
        ({"RMax": hl.RMax(**OPTIONS)}, draw, {}, r"agents\['RMax'\] is RMax.*lambda rng"),
        (AGENTS, [draw(np.random.default_rng(0))], {}, "draw_task is .*family.draw"),
        (AGENTS, draw, {"episodes": "5"}, "episodes is '5'"),
        (AGENTS, draw, {"seed": None}, "seed is None"),
        (AGENTS, lambda rng: 3, {}, "the task that draw_task returned is 3"),
        ({"RMax": lambda rng: 3}, draw, {}, "the agent 3 has no method 'begin_task'"),
    ):
        with pytest.raises(hl.errors.HeirloomError, match=message):
            compare(agents, draw_task, **{**SIZES, **change})
    results = compare({"LRMax": AGENTS["LRMax"]}, draw, **SIZES)
    with pytest.raises(hl.errors.InvalidArgument, match=r"baseline is 'RMax': expected .* LRMax"):
        comparison_table(results, last=1, baseline="RMax")
    assert "LRMax" in comparison_table(results, last=1, baseline="LRMax")
    for last in (0, -1, SIZES["tasks"] + 1):
        with pytest.raises(hl.errors.InvalidArgument, match="last is"):
            comparison_table(results, last=last, baseline="LRMax")
    with pytest.raises(
        hl.errors.InvalidArgument, match="results has the variable updates over None"
    ):
        comparison_table(results.drop_vars("updates"), last=1, baseline="LRMax")


def test_comparison_without_agents_is_refused():
    with pytest.raises(hl.errors.InvalidArgument, match=r"agents is \{\}: expected a dictionary"):
        compare({}, draw, **SIZES)


def drawn_task(rng):
    return hl.garnet(4, 2, branching=2, gamma=0.9, seed=rng)


def agents_to_compare():
    options = {"n_states": 4, "n_actions": 2, "gamma": 0.9, "n_known": 2}
    return {
        "RMax": lambda rng: hl.RMax(seed=rng, **options),
        "LRMax": lambda rng: hl.LRMax(d_max=0.5, seed=rng, **options),
    }


NUMBERS = {"tasks": 2, "episodes": 3, "max_steps": 4, "repetitions": 2}


@pytest.mark.parametrize("jobs", [1, 2])
def test_parallel_comparison_has_the_same_results(jobs, tmp_path):
    alone = compare(agents_to_compare(), drawn_task, **NUMBERS)
    for out in (None, tmp_path / "run"):
        parallel = compare(agents_to_compare(), drawn_task, **NUMBERS, jobs=jobs, out=out)
        for name in ("returns", "updates", "optimal"):
            assert np.array_equal(alone[name], parallel[name].transpose(*alone[name].dims))


def test_stored_comparison_is_resumed_and_others_are_refused(tmp_path):
    agents, made = agents_to_compare(), []
    compare(agents, drawn_task, **NUMBERS, jobs=1, out=tmp_path / "run")

    def counted(rng):
        made.append(1)
        return agents["RMax"](rng)

    compare({**agents, "RMax": counted}, drawn_task, **NUMBERS, jobs=1, out=tmp_path / "run")
    assert len(made) <= 1  # the agent is made for a check, and no job is computed
    for change, names in (({"episodes": 4}, agents), ({}, {"other": agents["RMax"]})):
        with pytest.raises(hl.errors.InvalidArgument, match="contains another experiment"):
            compare(names, drawn_task, **{**NUMBERS, **change}, jobs=1, out=tmp_path / "run")


def test_comparison_measures_transfer_and_records_episodes_with_the_same_results(tmp_path):
    alone = compare(agents_to_compare(), drawn_task, **NUMBERS)
    out = tmp_path / "run"
    extra = {"jobs": 1, "out": out, "measure": "transfer", "record": {"agents": ["LRMax"]}}
    measured = compare(agents_to_compare(), drawn_task, **NUMBERS, **extra)
    assert np.array_equal(alone.returns, measured.returns.transpose(*alone.returns.dims))
    assert (measured.bound_pairs.sel(agent="LRMax").sum("kind") == 8).all()  # each pair once
    assert "LRMax" in hl.replay(out, tmp_path / "replay.html").read_text()
    page = hl.write_report(measured, tmp_path / "report.html").read_text()
    assert "Not recorded" not in page
    assert "its functions are not stored" in page


def test_comparison_refuses_recordings_without_a_folder_and_unknown_measures():
    for wrong, message in (({"record": True}, "give out"), ({"measure": "transfr"}, "transfer")):
        with pytest.raises(hl.errors.InvalidArgument, match=message):
            compare(agents_to_compare(), drawn_task, **NUMBERS, **wrong)


class Hidden(gym.Wrapper):
    """An environment that does not give away its exact task."""

    @property
    def unwrapped(self):
        return self


def drawn_environment(rng):
    return Hidden(drawn_task(rng).to_gymnasium())


class Environments:
    """A family of environments, with an order."""

    def draw(self, rng):
        return drawn_environment(rng)

    def sequence(self, rng, n_tasks):
        return [self.draw(rng) for _ in range(n_tasks)][::-1]


@pytest.mark.parametrize("draw_task", [drawn_environment, Environments()])
def test_environments_are_compared_in_processes_stored_recorded_and_resumed(draw_task, tmp_path):
    out = tmp_path / "run"
    options = {**NUMBERS, "out": out, "measure": "transfer", "record": True}
    alone = compare(agents_to_compare(), draw_task, **NUMBERS)
    stored = compare(agents_to_compare(), draw_task, **options, jobs=2)
    assert np.array_equal(alone.returns, stored.returns)
    assert np.isnan(stored.optimal).all()
    assert (stored.bound_pairs.sel(agent="LRMax").sum("kind") == 8).all()  # each pair once
    assert compare(agents_to_compare(), draw_task, **options).returns.equals(stored.returns)
    assert stored.attrs["versions"].keys() >= {"gymnasium", "python"}
    assert "LRMax" in hl.replay(out, tmp_path / "replay.html").read_text()
    assert "LRMax" in hl.write_report(out, tmp_path / "report.html").read_text()
    if draw_task is drawn_environment:
        exact = compare(agents_to_compare(), drawn_task, **NUMBERS)
        assert np.array_equal(alone.returns, exact.returns)


@pytest.mark.parametrize("measure", ["lipschitz_use", "prior_use"])
def test_measures_of_agents_in_environments_are_those_in_exact_tasks(measure):
    runs = [
        compare(agents_to_compare(), draw_task, **NUMBERS, measure=measure)
        for draw_task in (drawn_task, drawn_environment)
    ]
    names = OBSERVERS[measure].variables
    assert all(runs[0][name].identical(runs[1][name]) for name in names)


def test_measure_of_optimal_policies_says_that_it_needs_exact_tasks():
    with pytest.raises(hl.errors.InvalidArgument, match="needs the optimal policy of an exact"):
        compare(agents_to_compare(), drawn_environment, **NUMBERS, measure="optimal_after")


@pytest.mark.parametrize("draw_task", [drawn_task, drawn_environment])
def test_functions_that_cannot_be_pickled_are_used_in_this_process(draw_task, tmp_path):
    lock, processes = threading.Lock(), set()

    def make(rng):
        with lock:
            processes.add(os.getpid())
        return agents_to_compare()["RMax"](rng)

    for options in ({}, {"out": tmp_path / "run"}, {"measure": "transfer"}):
        assert np.isfinite(compare({"RMax": make}, draw_task, **NUMBERS, **options).returns).all()
    assert processes == {os.getpid()}
    with pytest.raises(hl.errors.InvalidArgument, match="cannot be sent to other processes"):
        compare({"RMax": make}, draw_task, **NUMBERS, jobs=2)


def test_comparison_writes_nothing_where_output_is_no_terminal(capfd):
    compare(agents_to_compare(), drawn_task, **NUMBERS, jobs=1)
    assert capfd.readouterr() == ("", "")


def test_agents_share_exact_tasks_also_if_these_do_not_follow_from_the_generator():
    """In one process, tasks are drawn once per repetition: there are enough of them."""
    drawn = iter([hl.garnet(4, 2, branching=2, gamma=0.9, seed=i) for i in range(4)])
    agents = {f"RMax {i}": agents_to_compare()["RMax"] for i in range(3)}
    results = compare(agents, lambda rng: next(drawn), **NUMBERS)
    assert results.optimal.size == len(np.unique(results.optimal)) == 4


def with_returns(better_by_task):
    """Return results in which an agent is better than RMax by these means, with little noise."""
    results = compare(AGENTS, draw, **SIZES)
    noise = np.random.default_rng(0).normal(size=(4, 1, 1)) * 1e-3
    results.returns.loc[{"agent": "RMax"}] = 1.0
    results.returns.loc[{"agent": "LRMax"}] = 1.0 + noise + np.array(better_by_task)[:, None]
    return results


@pytest.mark.parametrize(
    ("better_by_task", "first"),
    [((1, 1, 1), 1), ((0, 1, 1), 2), ((1, 0, 1), 3), ((1, 1, 0), None), ((1, 1, -1), None)],
)
def test_agent_helps_from_the_task_after_the_last_one_where_it_is_not_better(better_by_task, first):
    assert hl.helps_from(with_returns(better_by_task), "LRMax") == first


def test_statement_about_all_later_tasks_is_false_in_at_most_5_percent_of_experiments():
    """The agent is better from task 5 on, with errors that the tasks of a repetition share.

    A wrong statement has probability 2.5 %, that of the test of task 4.
    """
    results = compare(AGENTS, draw, **{**SIZES, "tasks": 8, "episodes": 1, "repetitions": 6})
    rng, n, wrong, right = np.random.default_rng(1), 400, 0, 0
    truth = np.where(np.arange(1, 9) >= 5, 4.0, 0.0)
    for _ in range(n):
        noise = rng.normal(size=(6, 1)) + rng.normal(size=(6, 8))
        results.returns.loc[{"agent": "RMax"}] = 0.0
        results.returns.loc[{"agent": "LRMax"}] = (truth + noise)[:, :, None]
        first = hl.helps_from(results, "LRMax")
        wrong += first is not None and first < 5
        right += first == 5
    assert wrong <= 0.05 * n
    assert right >= 0.5 * n


@pytest.mark.parametrize("repetitions", [2, 3, 5, 10])
def test_equal_repetitions_do_not_show_that_an_agent_helps(repetitions):
    """It is better by 0.01 with probability 0.9, and worse by 1 otherwise: worse by 0.091."""
    sizes = {"tasks": 1, "episodes": 1, "repetitions": repetitions}
    results = compare(AGENTS, draw, **{**SIZES, **sizes})
    rng = np.random.default_rng(repetitions)
    results.returns.loc[{"agent": "RMax"}] = 0.0
    for _ in range(50):
        difference = np.where(rng.random((repetitions, 1, 1)) < 0.1, -1.0, 0.01)
        results.returns.loc[{"agent": "LRMax"}] = difference
        assert hl.helps_from(results, "LRMax") is None


def test_higher_confidence_states_less():
    results = with_returns((1, 1, 1))
    results.returns.loc[{"agent": "LRMax", "task": 1}] = [[1.01], [1.02], [1.0], [1.03]]
    assert hl.helps_from(results, "LRMax", confidence=0.8) == 1
    assert hl.helps_from(results, "LRMax", confidence=0.99) == 2
    for confidence in (0.0, 1.0, "x"):
        with pytest.raises(hl.errors.InvalidArgument, match=r"confidence is .*: expected a pro"):
            hl.helps_from(results, "LRMax", confidence=confidence)


def test_unknown_agent_is_reported():
    results = with_returns((1, 1, 1))
    with pytest.raises(
        hl.errors.InvalidArgument, match="agent is 'x': expected one of RMax, LRMax"
    ):
        hl.helps_from(results, "x")


class Corridor(gym.Env):
    """Two cells; action 1 exists only in the first, and raises an error in the second."""

    observation_space, action_space = gym.spaces.Discrete(2), gym.spaces.Discrete(2)
    spec = None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.s = 0
        return 0, {"action_mask": np.array([1, 1])}

    def step(self, action):
        if self.s == 1 and action == 1:
            raise RuntimeError("there is no action 1 here")
        self.s = 1
        return 1, float(action), False, False, {"action_mask": np.array([1, 0])}


def test_comparison_obeys_masks_of_environments_if_asked():
    agents = {"RMax": lambda rng: hl.RMax(n_states=2, n_actions=2, gamma=0.9, n_known=1, seed=rng)}
    options = {"tasks": 2, "episodes": 5, "max_steps": 4, "repetitions": 1}
    results = hl.compare(agents, lambda rng: Corridor(), masks=True, **options)
    assert results.returns.max() == 1
    parallel = hl.compare(agents, lambda rng: Corridor(), masks=True, **options, jobs=2)
    assert results.returns.equals(parallel.returns)
    with pytest.raises(hl.errors.UnsupportedEnvironment, match="learn or compare with masks=True"):
        hl.compare(agents, lambda rng: Corridor(), **options)


def _results(returns):
    """Return results with these returns [agent, repetition] in one task of one episode."""
    array = np.array(returns, dtype=float)[:, :, None, None]
    results = compare(
        {"RMax": AGENTS["RMax"], "other": AGENTS["LRMax"]},
        draw,
        **{**SIZES, "tasks": 1, "episodes": 1, "repetitions": array.shape[1]},
    )
    results["returns"] = results.returns.copy(data=array)
    return results


def test_smaller_losses_are_a_positive_difference_in_the_unit_of_rewards():
    table = comparison_table(_results([[-1.0, -3.0, -2.0], [-1.3, -2.6, -1.95]]), last=1)
    assert "+0.050 ±" in table.splitlines()[2]
    table = comparison_table(_results([[-1000.0, -3000.0], [-1300.0, -2690.0]]), last=1)
    assert table.splitlines()[2].split()[1:3] == ["-1995", "-1995"]
    assert table.splitlines()[2].endswith("+5.000")


@pytest.mark.parametrize("repetitions", [1, 2, 5])
def test_table_of_few_or_equal_repetitions_has_no_interval(repetitions):
    returns = [[2.0] * repetitions, [3.0] * repetitions]
    line = comparison_table(_results(returns), last=1).splitlines()[2]
    assert line.endswith("+1.000")


def test_function_that_returns_the_same_agent_again_is_refused():
    agent = hl.RMax(seed=0, **OPTIONS)
    with pytest.raises(
        hl.errors.InvalidArgument, match=r"agent 'shared': .* the same agent in two calls"
    ):
        compare({"shared": lambda rng: agent}, draw, **SIZES)


@pytest.mark.parametrize("jobs", [None, 1])
def test_error_of_an_agent_names_the_agent_and_the_repetition(jobs):
    agents = {"RMax": AGENTS["RMax"], "small": lambda rng: hl.RMax(**{**OPTIONS, "n_states": 4})}
    with pytest.raises(
        hl.errors.IncompatibleTasks, match=r"^agent 'small', repetition 1: the task"
    ):
        compare(agents, draw, **SIZES, jobs=jobs)


def test_interrupted_comparison_is_not_resumed_with_other_tasks(tmp_path):
    options = {**SIZES, "out": tmp_path / "run", "jobs": 1}
    calls = []

    def fail_in_the_third_repetition(rng):
        calls.append(rng)
        if len(calls) == 3:
            raise RuntimeError("stopped")
        return AGENTS["RMax"](rng)

    def draw_others(rng):
        return grid_world("S..\n...\n..G", gamma=0.9, goal_rewards=rng.uniform(0.1, 0.2))

    with pytest.raises(RuntimeError, match="stopped"):
        compare({"RMax": fail_in_the_third_repetition}, draw, **options)
    with pytest.raises(hl.errors.InvalidArgument, match="are not those of the jobs stored in"):
        compare({"RMax": AGENTS["RMax"]}, draw_others, **options)
    assert compare({"RMax": AGENTS["RMax"]}, draw, **options).sizes["repetition"] == 4
