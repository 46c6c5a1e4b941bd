"""User-defined algorithms and families in a spec: `package.module:Name`."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.experiments.job import draw_tasks, make_agent
from heirloom.experiments.spec import ExperimentSpec
from heirloom.learning.streams import stream
from heirloom.runs.export import export
from heirloom.runs.run import run
from heirloom.runs.stored_run import StoredRun

MODULE = "tests.experiments.user_defined"
SPEC = {
    "name": "user-defined",
    "family": {"name": f"{MODULE}:Rooms", "length": 3},
    "agents": [
        {"algorithm": "RMax", "n_known": 1},
        {"algorithm": f"{MODULE}:Lazy", "action": [2, 3]},
        {"algorithm": f"{MODULE}:Careful", "name": "careful"},
    ],
    "tasks": 2,
    "episodes": 3,
    "steps": 6,
    "repetitions": 2,
}


@pytest.mark.parametrize("jobs", [1, 2])
def test_user_defined_algorithms_and_families_run_sweep_and_resume(tmp_path, jobs):
    spec = ExperimentSpec.read(SPEC)
    assert [agent.name for agent in spec.agents] == [
        "RMax",
        "Lazy(action=2)",
        "Lazy(action=3)",
        "careful",
    ]
    results = run(spec, tmp_path / "run", jobs=jobs)
    assert np.isfinite(results.returns).all()
    again = run(ExperimentSpec.read(spec.as_json()), tmp_path / "run", jobs=1)
    assert results.equals(again)


@pytest.mark.parametrize("jobs", [1, 2])
def test_agents_with_four_methods_run_and_are_told_of_episodes(tmp_path, jobs):
    """Of 6 steps that are truncated, the first and the last count as updates of `Diary`."""
    agents = [{"algorithm": f"{MODULE}:{name}"} for name in ("FourVerbs", "Diary")]
    results = run(ExperimentSpec.read({**SPEC, "agents": agents}), tmp_path / "run", jobs=jobs)
    assert (results.returns == 0).all()
    assert (results.updates.sel(agent="FourVerbs") == 0).all()
    assert (results.updates.sel(agent="Diary") == 2 * SPEC["episodes"]).all()


@pytest.mark.parametrize("jobs", [1, 2])
def test_tasks_come_in_the_order_of_a_user_defined_family(tmp_path, jobs):
    family = {"name": f"{MODULE}:GrowingRooms"}
    spec = ExperimentSpec.read({**SPEC, "family": family, "tasks": 6})
    optimal = run(spec, tmp_path / "run", jobs=jobs).optimal.transpose("repetition", "task").values
    assert (np.diff(optimal, axis=1) > 0).all()
    assert (optimal[0] != optimal[1]).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("nothing", "sequence of GrowingRooms returned None: expected a list of 2 tasks"),
        ("too few", "sequence of GrowingRooms returned 1 task: expected a list of 2 tasks"),
        ("no task", "the task is 3, a int, not a TabularMDP"),
    ],
)
def test_sequence_that_is_not_a_list_of_tasks_is_reported(wrong, message, tmp_path):
    family = {"name": f"{MODULE}:GrowingRooms", "wrong": wrong}
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        run(ExperimentSpec.read({**SPEC, "family": family}), tmp_path / "run", jobs=1)


def test_agents_receive_the_nearness_that_a_user_defined_family_declares():
    agents = [{"algorithm": "NearRMax", "n_known": 1, "nearness": "family"}]
    family = {"name": f"{MODULE}:Declared"}
    spec = ExperimentSpec.read({**SPEC, "family": family, "agents": agents})
    agent = make_agent(spec.agents[0], spec, draw_tasks(spec, 0), stream(0))
    assert agent.bounds[0].nearness.rewards == 0.5


def test_reading_a_spec_does_not_import_user_code(tmp_path):
    spec = ExperimentSpec.read({**SPEC, "agents": [{"algorithm": "no.such:Agent", "x": 1}]})
    assert ExperimentSpec.read(spec.as_json()) == spec
    assert "no.such:Agent" in spec.to_toml()
    with pytest.raises(
        hl.errors.InvalidArgument, match=r"'no\.such:Agent', which cannot be imported"
    ):
        run(spec, tmp_path / "run", jobs=1)
    assert not (tmp_path / "run").exists()


def test_reading_a_stored_run_does_not_import_user_code(tmp_path, monkeypatch):
    run(ExperimentSpec.read(SPEC), tmp_path / "run", jobs=1)

    def refuse(*_):
        raise AssertionError("imported")

    monkeypatch.setattr("heirloom.experiments.registry.import_callable", refuse)
    stored = StoredRun(tmp_path / "run")
    assert stored.status().is_complete
    assert stored.results().sizes["agent"] == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"algorithm": f"{MODULE}:Nobody"}, "Nobody.*cannot be imported"),
        ({"algorithm": f"{MODULE}:NOT_CALLABLE"}, "which is 3: expected a class or a function"),
        (
            {"algorithm": f"{MODULE}:Lazy", "speed": 3},
            "TypeError: .*unexpected keyword argument 'speed'",
        ),
        ({"algorithm": f"{MODULE}:Careful", "action": "up"}, "action is 'up'"),
    ],
)
def test_invalid_user_defined_algorithm_is_reported(change, message, tmp_path):
    spec = ExperimentSpec.read({**SPEC, "agents": [change]})
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        run(spec, tmp_path / "run", jobs=1)


@pytest.mark.parametrize(
    ("family", "message"),
    [
        (
            {"name": f"{MODULE}:Rooms", "width": 3},
            "unexpected keyword argument 'width'",
        ),
        ({"name": f"{MODULE}:Lazy"}, "TypeError: .*missing"),
        ({"name": "builtins:dict"}, "has no 'gamma'"),
    ],
)
def test_invalid_user_defined_family_is_reported(family, message, tmp_path):
    spec = ExperimentSpec.read({**SPEC, "family": family})
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        run(spec, tmp_path / "run", jobs=1)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), None, [1, [None]]])
def test_options_that_json_or_toml_cannot_represent_are_rejected(value):
    agent = {"algorithm": f"{MODULE}:Lazy", "action": [value]}
    with pytest.raises(hl.errors.InvalidArgument, match=r"action is .*expected finite numbers"):
        ExperimentSpec.read({**SPEC, "agents": [agent]})


def test_equal_agent_specs_have_equal_hashes():
    first = {"algorithm": f"{MODULE}:Lazy", "action": 1, "label": "x"}
    second = {"algorithm": f"{MODULE}:Lazy", "label": "x", "action": 1.0}
    a, b = (ExperimentSpec.read({**SPEC, "agents": [agent]}).agents[0] for agent in (first, second))
    assert a == b
    assert len({a, b}) == 1


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ({"algorithm": f"{MODULE}:Lazy", "gamma": 0.5}, "gamma is set by the experiment"),
        ({"algorithm": f"{MODULE}:Broken"}, r"could not be created \(RuntimeError: no\)"),
        ({"algorithm": f"{MODULE}:Partial", "speed": 1}, "unexpected keyword argument 'speed'"),
    ],
)
def test_user_code_that_fails_is_reported(agent, message, tmp_path):
    spec = ExperimentSpec.read({**SPEC, "agents": [agent]})
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        run(spec, tmp_path / "run", jobs=1)


MEASURED = {**SPEC, "agents": [{"algorithm": "RMax", "n_known": 1}], "measure": f"{MODULE}:Values"}


@pytest.mark.parametrize("jobs", [1, 2])
def test_user_defined_measure_is_recorded_resumed_exported_and_read_without_its_code(
    tmp_path, monkeypatch, jobs
):
    spec = ExperimentSpec.read(MEASURED)
    results = run(spec, tmp_path / "run", jobs=jobs)
    assert (results.n_seen == SPEC["episodes"]).all()
    assert results.largest.dims == ("agent", "repetition", "task", "moment")
    assert results.largest.sizes["moment"] == 2
    assert results.largest.attrs["long_name"] == "largest value after an episode"
    assert run(spec, tmp_path / "run", jobs=1).equals(results)

    def refuse(*_):
        raise AssertionError("imported")

    monkeypatch.setattr("heirloom.experiments.measures.import_callable", refuse)
    monkeypatch.setattr("heirloom.experiments.registry.import_callable", refuse)
    stored = StoredRun(tmp_path / "run")
    assert stored.status().is_complete
    assert stored.results().equals(results)
    files = export(stored, "csv", tmp_path / "tables").files
    assert "moments.csv" in [file.name for file in files]


@pytest.mark.parametrize(
    ("measure", "message"),
    [
        ("Incomplete", r"result\(\) of Incomplete returned .* with the keys n_seen, largest"),
        ("Taken", "records Returns, which every run has"),
        ("Rooms", "expected a class derived from heirloom.experiments.measures.Observer"),
        ("Absent", "which cannot be imported"),
    ],
)
def test_measure_that_cannot_be_recorded_is_refused_with_a_reason(tmp_path, measure, message):
    spec = ExperimentSpec.read({**MEASURED, "measure": f"{MODULE}:{measure}"})
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        run(spec, tmp_path / "run", jobs=1)
    assert not (tmp_path / "run").exists()


def test_spec_without_a_measure_of_ones_own_declares_no_variables():
    declared = {"x": {"units": "1", "meaning": "a number"}}
    with pytest.raises(hl.errors.InvalidArgument, match="measured is given without a measure"):
        ExperimentSpec.read({**MEASURED, "measure": "transfer", "measured": declared})
