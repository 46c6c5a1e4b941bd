"""Algorithms and families of one's own in a spec: `package.module:Name`."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.run import run
from heirloom.runs.stored_run import StoredRun

HERE = "tests.experiments.own"
SPEC = {
    "name": "own",
    "family": {"name": f"{HERE}:Rooms", "length": 3},
    "agents": [
        {"algorithm": "RMax", "n_known": 1},
        {"algorithm": f"{HERE}:Lazy", "action": [2, 3]},
        {"algorithm": f"{HERE}:Careful", "name": "careful"},
    ],
    "tasks": 2,
    "episodes": 3,
    "steps": 6,
    "repetitions": 2,
}


@pytest.mark.parametrize("jobs", [1, 2])
def test_own_algorithms_and_families_run_sweep_and_resume(tmp_path, jobs):
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


def test_nothing_is_imported_before_an_experiment_is_run(tmp_path):
    spec = ExperimentSpec.read({**SPEC, "agents": [{"algorithm": "no.such:Agent", "x": 1}]})
    assert ExperimentSpec.read(spec.as_json()) == spec
    assert "no.such:Agent" in spec.to_toml()
    with pytest.raises(hl.InvalidArgument, match=r"'no\.such:Agent', which cannot be imported"):
        run(spec, tmp_path / "run", jobs=1)
    assert not (tmp_path / "run").exists()


def test_reading_a_run_imports_nothing(tmp_path, monkeypatch):
    run(ExperimentSpec.read(SPEC), tmp_path / "run", jobs=1)

    def refuse(*_):
        raise AssertionError("imported")

    monkeypatch.setattr("heirloom.experiments.registry.imported", refuse)
    stored = StoredRun(tmp_path / "run")
    assert stored.status().is_complete
    assert stored.results().sizes["agent"] == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"algorithm": f"{HERE}:Nobody"}, "Nobody.*cannot be imported"),
        ({"algorithm": f"{HERE}:NOT_CALLABLE"}, "which is 3: it must be callable"),
        ({"algorithm": f"{HERE}:Lazy", "speed": 3}, "speed is not an option of 'Lazy': it has"),
        ({"algorithm": f"{HERE}:Careful", "action": "up"}, "action is 'up'"),
    ],
)
def test_what_is_wrong_with_an_own_algorithm_is_named(change, message, tmp_path):
    spec = ExperimentSpec.read({**SPEC, "agents": [change]})
    with pytest.raises(hl.InvalidArgument, match=message):
        run(spec, tmp_path / "run", jobs=1)


@pytest.mark.parametrize(
    ("family", "message"),
    [
        ({"name": f"{HERE}:Rooms", "width": 3}, "family.width is not an option of 'Rooms'"),
        ({"name": f"{HERE}:Lazy"}, "family.n_states is missing"),
        ({"name": "builtins:dict"}, "has no 'gamma'"),
    ],
)
def test_what_is_wrong_with_an_own_family_is_named(family, message, tmp_path):
    spec = ExperimentSpec.read({**SPEC, "family": family})
    with pytest.raises(hl.InvalidArgument, match=message):
        run(spec, tmp_path / "run", jobs=1)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), None, [1, [None]]])
def test_options_that_cannot_be_written_are_refused(value):
    agent = {"algorithm": f"{HERE}:Lazy", "action": [value]}
    with pytest.raises(hl.InvalidArgument, match=r"action is .*numbers are finite"):
        ExperimentSpec.read({**SPEC, "agents": [agent]})


def test_specs_that_are_equal_have_the_same_hash():
    one = {"algorithm": f"{HERE}:Lazy", "action": 1, "label": "x"}
    other = {"algorithm": f"{HERE}:Lazy", "label": "x", "action": 1.0}
    a, b = (ExperimentSpec.read({**SPEC, "agents": [agent]}).agents[0] for agent in (one, other))
    assert a == b
    assert len({a, b}) == 1


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ({"algorithm": f"{HERE}:Lazy", "gamma": 0.5}, "gamma is given by the experiment"),
        ({"algorithm": f"{HERE}:Broken"}, r"could not be made \(RuntimeError: no\)"),
        ({"algorithm": f"{HERE}:Partial", "speed": 1}, "speed is not an option"),
    ],
)
def test_code_of_ones_own_that_fails_is_named(agent, message, tmp_path):
    spec = ExperimentSpec.read({**SPEC, "agents": [agent]})
    with pytest.raises(hl.InvalidArgument, match=message):
        run(spec, tmp_path / "run", jobs=1)
