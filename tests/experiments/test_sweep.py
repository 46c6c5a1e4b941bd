"""A table [sweep] makes one experiment for each combination of its values."""

import csv

import numpy as np
import pytest

import heirloom as hl
from heirloom.experiments.spec import ExperimentSpec
from heirloom.experiments.sweep import expanded, load_sweep
from heirloom.runs.results import summaries
from heirloom.stats import student_interval
from tests.experiments.test_spec import SMALL

TOML = """
name = "small"
tasks = 2
episodes = 3
steps = 11
repetitions = 1

[family]
name = "corridor"

[[agents]]
algorithm = "RMax"
n_known = 1
"""


def test_each_combination_is_an_experiment_with_a_label(tmp_path):
    path = tmp_path / "x.toml"
    path.write_text(TOML + '[sweep]\ntasks = [1, 2]\nfamily.variant = ["text", "released"]\n')
    specs = load_sweep(path)
    assert list(specs) == [
        *("tasks=1,variant=text", "tasks=1,variant=released"),
        *("tasks=2,variant=text", "tasks=2,variant=released"),
    ]
    spec = specs["tasks=2,variant=text"]
    assert (spec.tasks, spec.family.options["variant"]) == (2, "text")
    assert spec.name == "small (tasks=2,variant=text)"
    with pytest.raises(hl.errors.InvalidArgument, match=r"has a table \[sweep\]"):
        ExperimentSpec.load(path)
    path.write_text(TOML, encoding="utf-8-sig")  # with a byte order mark
    assert load_sweep(path) == {"": ExperimentSpec.load(path)}


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        ({}, "sweep is {}: expected a table"),
        ({"tasks": 3}, "sweep.tasks is 3: expected a list"),
        ({"tasks": []}, r"sweep.tasks is \[\]: expected a list"),
        ({"tasks": [1, 1]}, "sweep.tasks contains 1 twice"),
        ({"taks": [1]}, "sweep.taks cannot be swept.*did you mean tasks"),
        ({"family": {"variant": "text"}}, "sweep.family.variant is 'text': expected a list"),
        ({"tasks": [0]}, "tasks is 0"),
        ({"tasks": list(range(1, 200)), "seed": list(range(10))}, "1990 combinations"),
    ],
)
def test_invalid_sweep_is_refused(sweep, message):
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        expanded({**SMALL, "sweep": sweep})


def test_labels_differ_on_file_systems_that_ignore_the_case_of_letters():
    sweep = {"family": {"cells": [["S.G"], ["s.G"]]}}
    specs = expanded({**SMALL, "family": {"name": "grid"}, "sweep": sweep})
    assert list(specs) == ["cells=1", "cells=2"]


def test_command_runs_each_experiment_in_its_folder_and_draws_figures(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from heirloom.cli.app import app

    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.toml").write_text(TOML + "[sweep]\nepisodes = [2, 3]\n")
    outcome = CliRunner().invoke(app, ["run", "x.toml", "--jobs", "1"])
    assert outcome.exit_code == 0, outcome.output
    for n in (2, 3):
        assert f"small (episodes={n})" in outcome.output
        assert (tmp_path / f"results/x/episodes={n}").is_dir()
        for name in ("tasks.png", "tasks.pdf", "episodes.png", "episodes.pdf"):
            assert (tmp_path / f"results/x/episodes={n}/figures" / name).stat().st_size > 1000
    assert CliRunner().invoke(app, ["status", "results/x"]).exit_code == 0
    rows = list(csv.DictReader((tmp_path / "results/x/sweep.csv").read_text().splitlines()))
    assert [(row["episodes"], row["agent"]) for row in rows] == [("2", "RMax"), ("3", "RMax")]
    dataset = hl.results("results/x")
    assert dataset.sizes["run"] == 2
    for row, label in zip(rows, dataset.run.values, strict=True):
        assert row["run"] == label
        of_run = dataset.sel(run=label)
        assert int(of_run.episodes) == int(row["episodes"])
        alone = hl.results(f"results/x/{label}")
        n = alone.sizes["episode"]
        np.testing.assert_array_equal(of_run.returns.isel(episode=slice(n)), alone.returns)
        assert np.isnan(of_run.returns.isel(episode=slice(n, None))).all()
        assert float(row["mean_return"]) == pytest.approx(float(alone.returns.mean()))


def test_label_has_readable_values_or_else_their_numbers():
    maps = [["S" + "." * 50 + "G"], ["S" + "." * 60 + "G"]]
    grid = {**SMALL, "family": {"name": "grid"}, "sweep": {"family": {"cells": maps}}}
    assert list(expanded(grid)) == ["cells=1", "cells=2"]
    swept = {**SMALL, "family": {"name": "tight"}, "sweep": {"family": {"slips": [[0, 0.1]]}}}
    assert list(expanded(swept)) == ["slips=0-0.1"]


def test_table_of_a_run_has_paired_differences_with_intervals(tmp_path):
    agents = [{"algorithm": name, "n_known": 1} for name in ("RMax", "LRMax")]
    agents[1] |= {"name": "LRMax", "d_max": 0.2}
    spec = {**SMALL, "agents": agents, "episodes": 8, "tasks": 6, "repetitions": 4}
    results = hl.run(ExperimentSpec.read(spec), tmp_path / "run", jobs=1)
    mean = results.returns.mean(("task", "episode"))
    expected = student_interval((mean.sel(agent="LRMax") - mean.sel(agent="RMax")).values)
    rmax, other = summaries(results)
    assert rmax.difference is None
    assert (other.baseline, other.difference) == ("RMax", expected)


def test_table_of_a_sweep_replaces_its_own_file_and_no_other(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from heirloom.cli.app import app

    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.toml").write_text(TOML + "[sweep]\nepisodes = [2, 3]\n")
    command = ["run", "x.toml", "--out", "mine", "--jobs", "1"]
    table = tmp_path / "mine/sweep.csv"
    table.parent.mkdir()
    table.write_text("run,notes\n1,my own table\n")
    outcome = CliRunner().invoke(app, command)
    assert outcome.exit_code == 1
    assert "is not a table of a sweep" in " ".join(outcome.output.split())
    assert table.read_text() == "run,notes\n1,my own table\n"
    table.unlink()
    for _ in range(2):
        assert CliRunner().invoke(app, command).exit_code == 0
        assert len(table.read_text().splitlines()) == 3
