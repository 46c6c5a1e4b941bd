"""Tables show the stored results, and the stored results match the output of the code."""

import json
import subprocess

import pytest

from heirloom.envs import icu_sepsis
from published import documents, examples, experiments, results
from published.tables import BLOCKS

RELATIVE = 2e-5  # results are stored with six digits
LONG = {
    **dict.fromkeys(("battery", "blackjack", "cart_pole", "mini_grid"), pytest.mark.slow),
    **dict.fromkeys(("certificates", "maze-released", "maze-text", "rivals"), pytest.mark.slow),
    "mountain_car": pytest.mark.slow,
    "icu_sepsis": pytest.mark.full,
}
"""Examples and experiments that are not part of `make test`."""


@pytest.mark.parametrize("path", documents.DOCUMENTS, ids=lambda path: path.name)
def test_tables_of_a_document_match_the_stored_results(path):
    text = path.read_text(encoding="utf-8")
    assert documents.with_tables(text) == text, "run `make tables` to write the stored results"


def test_every_generated_table_is_in_a_document():
    text = "".join(path.read_text(encoding="utf-8") for path in documents.DOCUMENTS)
    assert {name for name, _ in documents.BLOCK.findall(text)} == set(BLOCKS)


@pytest.mark.parametrize("path", documents.DOCUMENTS, ids=lambda path: path.name)
def test_hand_written_tables_have_no_measured_numbers(path):
    assert list(documents.hand_typed_rows(path.read_text(encoding="utf-8"))) == []


def test_measured_numbers_in_hand_written_tables_are_detected():
    typed = "| RMax | 1.52 |\n| LRMax | +3 % |\n| `n_known` | 10 |\n"
    block = f"<!-- numbers: tight -->\n{typed}<!-- /numbers -->\n"
    assert list(documents.hand_typed_rows(block)) == []
    assert len(list(documents.hand_typed_rows(block + typed))) == 2


def assert_same(computed, stored):
    assert computed.keys() == stored.keys()
    for agent in computed:
        for measure in ("returns", "updates"):
            expected = pytest.approx(stored[agent][measure], rel=RELATIVE, nan_ok=True)
            assert computed[agent][measure] == expected


@pytest.mark.parametrize(
    "experiment",
    [
        pytest.param(each, id=each.key, marks=[LONG[each.key]] if each.key in LONG else [])
        for each in experiments.REPEATED
    ],
)
def test_first_repetition_of_an_experiment_matches_the_stored_one(experiment):
    stored = results.load(experiment.key)["first_repetition"]
    assert_same(experiments.run_first_repetition(experiment), stored)


@pytest.mark.parametrize(
    "name",
    [
        # The second comparison of icu_sepsis takes a minute, other long ones five seconds.
        pytest.param(name, marks=[LONG[name]] if name in LONG else [])
        for name in examples.EXAMPLES
    ],
)
def test_first_tasks_of_an_example_match_the_stored_ones_and_its_figure_is_saved(name, tmp_path):
    if name == "icu_sepsis" and icu_sepsis.tables_path() is None:
        pytest.skip("needs `pip install --no-deps icu-sepsis`")
    stored = results.load("examples")[name]["first_repetition"]
    _, compared = examples.run_example(name, repetitions=1, tasks=4, pictures=tmp_path)
    assert list(tmp_path.glob(f"{name}*.png"))
    assert len(compared) == len(stored)
    for dataset, stored_agents in zip(compared, stored, strict=True):
        first_tasks = {
            agent: {measure: by_task[:4] for measure, by_task in measures.items()}
            for agent, measures in stored_agents.items()
        }
        assert_same(experiments.summarise_first_repetition(dataset), first_tasks)


@pytest.mark.parametrize("path", sorted(results.RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_result_names_the_commit_machine_and_versions_that_produced_it(path):
    made_by = results.made_by(path.stem)
    assert set(made_by) == {"commit", "src", "machine", "versions"}
    assert {"numpy", "numba", "python"} <= set(made_by["versions"])


def test_every_stored_result_belongs_to_a_measurement():
    others = ("examples", "speed", "coverage", "checks", "intervals", "task-bounds")
    names = {*(experiment.key for experiment in experiments.EXPERIMENTS), *others}
    assert {path.stem for path in results.RESULTS.glob("*.json")} == names


def test_storing_an_unchanged_result_does_not_write_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    measured = {"mean": 1 / 3, "returns": [0.1, float("nan"), 1e-9], "agents": {"RMax": (1, 2)}}
    assert results.store("some", measured, {"all": 1.0})
    before = (tmp_path / "some.json").read_text(encoding="utf-8")
    assert json.loads(before)["measured"]["returns"] == [0.1, None, 1e-9]
    assert not results.store("some", {**measured, "mean": 1 / 3 + 1e-12}, {"all": 2.0})
    assert (tmp_path / "some.json").read_text(encoding="utf-8") == before
    assert results.store("some", {**measured, "mean": 1 / 3 + 1e-4}, {"all": 2.0})
    assert results.seconds("some") == {"all": 2.0}


def test_source_tree_equals_the_committed_one_only_if_src_is_clean():
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
def test_experiment_measured_in_full_matches_the_stored_result(key):
    (experiment,) = [e for e in experiments.EXPERIMENTS if e.key == key]
    measured, _ = experiments.measure(experiment)
    assert results.rounded(measured) == results.load(key)
