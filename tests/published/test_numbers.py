"""Tables show what is stored, and what is stored is what the code gives."""

import json
import subprocess

import pytest

from published import documents, examples, experiments, results
from published.tables import BLOCKS

RELATIVE = 2e-5  # results are kept with six digits


@pytest.mark.parametrize("path", documents.DOCUMENTS, ids=lambda path: path.name)
def test_a_document_shows_what_is_stored(path):
    text = path.read_text(encoding="utf-8")
    assert documents.filled(text) == text, "`make tables` writes the numbers that are stored"


def test_every_table_of_numbers_stands_in_a_document():
    text = "".join(path.read_text(encoding="utf-8") for path in documents.DOCUMENTS)
    assert {name for name, _ in documents.BLOCK.findall(text)} == set(BLOCKS)


@pytest.mark.parametrize("path", documents.DOCUMENTS, ids=lambda path: path.name)
def test_no_measured_number_is_typed_into_a_table(path):
    assert list(documents.typed_numbers(path.read_text(encoding="utf-8"))) == []


def test_typed_numbers_are_noticed():
    typed = "| RMax | 1.52 |\n| LRMax | +3 % |\n| `n_known` | 10 |\n"
    block = f"<!-- numbers: tight -->\n{typed}<!-- /numbers -->\n"
    assert list(documents.typed_numbers(block)) == []
    assert len(list(documents.typed_numbers(block + typed))) == 2


def same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        for what in ("returns", "updates"):
            assert one[name][what] == pytest.approx(other[name][what], rel=RELATIVE, nan_ok=True)


@pytest.mark.parametrize("experiment", experiments.CHECKED, ids=lambda one: one.key)
def test_the_first_repetition_of_an_experiment_is_what_is_stored(experiment):
    stored = results.load(experiment.key)["first_repetition"]
    same(experiments.first_repetition(experiment), stored)


@pytest.mark.parametrize("name", examples.EXAMPLES)
def test_the_first_tasks_of_an_example_are_what_is_stored(name):
    stored = results.load("examples")[name]["first_repetition"]
    _, compared = examples.run_example(name, repetitions=1, tasks=4)
    assert len(compared) == len(stored)
    for one, kept in zip(compared, stored, strict=True):
        now = experiments.of_first_repetition(one)
        first = {a: {what: row[:4] for what, row in of.items()} for a, of in kept.items()}
        same(now, first)


@pytest.mark.parametrize("path", sorted(results.RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_a_result_says_what_it_came_from(path):
    made_by = results.made_by(path.stem)
    assert set(made_by) == {"commit", "src", "machine", "versions"}
    assert {"numpy", "numba", "python"} <= set(made_by["versions"])


def test_every_result_belongs_to_something():
    names = {*(one.key for one in experiments.EXPERIMENTS), "examples", "speed"}
    assert {path.stem for path in results.RESULTS.glob("*.json")} == names


def test_a_result_that_did_not_move_stays_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    measured = {"mean": 1 / 3, "returns": [0.1, float("nan"), 1e-9], "agents": {"RMax": (1, 2)}}
    assert results.keep("some", measured, {"all": 1.0})
    before = (tmp_path / "some.json").read_text(encoding="utf-8")
    assert json.loads(before)["measured"]["returns"] == [0.1, None, 1e-9]
    assert not results.keep("some", {**measured, "mean": 1 / 3 + 1e-12}, {"all": 2.0})
    assert (tmp_path / "some.json").read_text(encoding="utf-8") == before
    assert results.keep("some", {**measured, "mean": 1 / 3 + 1e-4}, {"all": 2.0})
    assert results.seconds("some") == {"all": 2.0}


def test_the_source_of_a_result_is_named_as_git_names_it():
    git = ["git", "-C", str(results.PROJECT)]
    clean = not subprocess.run(
        [*git, "status", "--porcelain", "src"], capture_output=True, text=True, check=True
    ).stdout
    committed = subprocess.run(
        [*git, "rev-parse", "HEAD:src"], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert (results.source_tree() == committed) == clean


@pytest.mark.slow
@pytest.mark.parametrize("key", ["corridor-text", "prior-illustration"])
def test_an_experiment_measured_in_full_is_what_is_stored(key):
    (experiment,) = [one for one in experiments.EXPERIMENTS if one.key == key]
    measured, _ = experiments.measure(experiment)
    assert results.rounded(measured) == results.load(key)
