"""Reference results: they belong to the current settings, and differences from them are noticed."""

import copy

import numpy as np
import pytest

from heirloom.paper import reference
from heirloom.paper.catalogue import experiment, reproduce
from heirloom.paper.experiment import Options
from published.references import REFERENCES


@pytest.mark.parametrize(("name", "variant"), REFERENCES)
def test_references_are_those_of_the_current_settings(name, variant):
    stored = reference.read_reference(f"{name}-{variant}")
    spec = experiment(name).settings(variant)
    assert stored["runs"]["run"]["spec"] == reference._spec_checksum(spec)
    assert list(stored["runs"]["run"]["agents"]) == [agent.name for agent in spec.agents]
    for of_agent in stored["runs"]["run"]["agents"].values():
        assert len(of_agent["means"]) == len(of_agent["checksums"]) == spec.repetitions


@pytest.fixture(scope="module")
def corridor(tmp_path_factory):
    """The first repetition of the corridor, and its report."""
    location = tmp_path_factory.mktemp("corridor")
    return location, reproduce("corridor", Options("text", location, repetitions=1))


def test_first_repetition_agrees_with_the_reference(corridor):
    """To the bit with the same versions and processor, and within the tolerance otherwise."""
    _, report = corridor
    verdicts = {row["verdict"] for row in report.reference["rows"]}
    stored = reference.read_reference("corridor-text")["environment"]
    if stored == reference.environment():
        assert verdicts == {"identical to the bit"}
    else:
        assert "differs" not in verdicts


@pytest.mark.parametrize(
    ("factor", "verdict", "said"),
    [(1.001, "within 1%", "within 1% of the reference"), (1.1, "differs", "more than 1%")],
)
def test_differences_from_the_reference_are_noticed(corridor, monkeypatch, factor, verdict, said):
    location, _ = corridor
    changed = copy.deepcopy(reference.read_reference("corridor-text"))
    of_agent = changed["runs"]["run"]["agents"]["RMax"]
    of_agent["checksums"][0] = "0" * 16
    of_agent["means"][0] *= factor
    monkeypatch.setattr(reference, "read_reference", lambda name: changed)
    found = reference.compare(location, "corridor-text")
    assert found["rows"][0]["verdict"] == verdict
    assert said in found["conclusion"]
    changed["environment"]["numpy"] = "0.1"
    assert "numpy is" in reference.compare(location, "corridor-text")["conclusion"]


def test_other_settings_and_experiments_are_not_compared(corridor, monkeypatch):
    location, _ = corridor
    assert reference.compare(location, "bounds-text") is None
    changed = copy.deepcopy(reference.read_reference("corridor-text"))
    changed["runs"]["run"]["spec"] = "another"
    monkeypatch.setattr(reference, "read_reference", lambda name: changed)
    assert reference.compare(location, "corridor-text") is None


def test_environment_is_known_where_numpy_has_no_optional_instructions(monkeypatch):
    """Numpy leaves empty entries out."""
    monkeypatch.setattr(np, "show_config", lambda mode: {"SIMD Extensions": {"baseline": ["NEON"]}})
    assert reference.environment()["numpy uses"] == "NEON"
    monkeypatch.setattr(np, "show_config", lambda mode: {})
    assert reference.environment()["numpy uses"] == ""
