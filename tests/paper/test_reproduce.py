"""The paper's experiments, reported: small ones, for their form."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from heirloom.cli import app as cli
from heirloom.cli.output import folder_name
from heirloom.paper import bounds, tight
from heirloom.runs.run import run

SMALL = {"repetitions": 3, "seed": 1}


@pytest.fixture
def quick(monkeypatch):
    """The same experiments with fewer episodes."""
    for module in (tight, bounds):
        make = module.settings

        def fewer(*args, make=make, **options):
            return make(*args, **options).with_changes(episodes=1500)

        monkeypatch.setattr(module, "settings", fewer)


def heirloom(*arguments):
    return CliRunner().invoke(cli.app, [str(a) for a in arguments])


@pytest.mark.parametrize("variant", ["text", "released"])
def test_tight_writes_what_it_promises(quick, tmp_path, variant):
    out = tmp_path / "out"
    command = ["reproduce", "tight", "--variant", variant, "--repetitions", 2, "--jobs", 1]
    result = heirloom(*command, "--out", out)
    assert result.exit_code == 0, result.output
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["experiment"], summary["variant"]) == ("tight", variant)
    assert summary["repetitions"] == 2
    names = [agent.name for agent in tight.settings(variant).agents]
    assert list(summary["agents"]) == names
    for numbers in summary["agents"].values():
        assert {len(numbers[k]) for k in ("return_vs_rmax", "return_vs_optimal", "ci95")} == {15}
    assert summary["agents"]["RMax"]["return_vs_rmax"] == [1.0] * 15
    assert ("every_source_kept" in summary) == (variant == "released")
    for figure in ("3a", "3b", "3c", "environment"):
        assert (out / "figures" / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
        assert (out / "figures" / f"{figure}.pdf").read_bytes().startswith(b"%PDF")
    assert "erratum 7" in " ".join(result.output.split())
    before = (out / "summary.json").read_bytes()
    assert heirloom(*command, "--out", out).exit_code == 0  # all is there
    assert (out / "summary.json").read_bytes() == before


def test_bounds_writes_what_it_promises(quick, tmp_path):
    out = tmp_path / "out"
    result = heirloom("reproduce", "bounds", "--repetitions", 2, "--jobs", 1, "--out", out)
    assert result.exit_code == 0, result.output
    summary = json.loads((out / "summary.json").read_text())
    assert summary["d_max"] == [0.0, 0.2, 0.5, 0.8, 1.0]
    for name in ("rho_lip", "rho_speedup", "rho_return"):
        assert len(summary[name]) == 5
    assert summary["rho_lip"][0] == 1.0
    assert (out / "figures" / "3d.png").exists()


def test_numbers_are_those_of_the_results(quick, tmp_path):
    spec = tight.settings("released").with_changes(**SMALL)
    results = run(spec, tmp_path / "run", jobs=1)
    report = tight.report(spec, results)
    mean = results.discounted_returns.mean("episode")
    for name, numbers in report.summary["agents"].items():
        ratio = mean.sel(agent=name) / mean.sel(agent="RMax")
        assert numbers["return_vs_rmax"] == pytest.approx(ratio.mean("repetition").values)
        optimal = (mean.sel(agent=name) / results.optimal_discounted).mean("repetition")
        assert numbers["return_vs_optimal"] == pytest.approx(optimal.values)


def test_the_three_ratios_are_those_of_the_design(quick, tmp_path):
    spec = bounds.settings("text").with_changes(**SMALL)
    results = run(spec, tmp_path / "run", jobs=1)
    summary = bounds.report(spec, results).summary
    second = results.sel(task=2)
    for i, d_max in enumerate(summary["d_max"]):
        one, rmax = second.sel(agent=f"LRMax({d_max})"), second.sel(agent="RMax")
        assert summary["rho_lip"][i] == pytest.approx(float(one.lipschitz_use.mean()))
        speedup = (rmax.late_update - one.late_update) / rmax.late_update
        assert summary["rho_speedup"][i] == pytest.approx(float(speedup.mean()))
        total = one.returns.sum("episode") / rmax.returns.sum("episode") - 1
        assert summary["rho_return"][i] == pytest.approx(float(total.mean()))


def test_one_repetition_has_no_intervals(quick, tmp_path):
    spec = tight.settings("text").with_changes(repetitions=1)
    summary = tight.report(spec, run(spec, tmp_path / "run", jobs=1)).summary
    assert summary["agents"]["LRMax"]["ci95"] == [None] * 15
    json.dumps(summary, allow_nan=False)


def test_list_names_all_kinds_and_show_prints_the_settings_of_a_variant():
    listed = heirloom("list").output
    for name in ("tight", "bounds", "frozen-lakes", "LRMaxQInit"):
        assert name in listed
    shown = heirloom("show", "tight", "--variant", "text").output
    assert 'variant = "text"' in shown
    assert "delta = 0.1" in heirloom("show", "tight").output


def test_run_accepts_the_output_of_show(tmp_path):
    text = heirloom("show", "bounds").output
    text = text.replace("episodes = 2000", "episodes = 20").replace("= 100", "= 2")
    (tmp_path / "mine.toml").write_text(text)
    result = heirloom("run", tmp_path / "mine.toml", "--out", tmp_path / "out", "--jobs", 1)
    assert result.exit_code == 0, result.output
    assert "LRMax(0.2)" in result.output
    refused = heirloom("run", tmp_path / "nowhere.toml")
    assert refused.exit_code == 1
    assert "error: " in refused.output
    assert "cannot be read" in refused.output


def test_folder_name_contains_every_option():
    assert folder_name("tight", "released", None, None, quick=False) == "tight-released"
    assert folder_name("tight", "released", 3, 1, quick=True) == (
        "tight-released-quick-3-repetitions-seed-1"
    )


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["text", "released"])
def test_the_main_experiment_in_full(tmp_path, variant):
    """Transfer from the second task on with a prior, none without, and the level of RMax before."""
    spec = tight.settings(variant)
    report = tight.report(spec, run(spec, tmp_path / "run"))
    held = {claim.statement: claim.holds for claim in report.claims}
    for statement in (
        "LRMax(0.1) transfers as early as task 2",
        "LRMax(0.2) transfers as early as task 2",
        "LRMax(0.1) is never below RMax",
    ):
        assert held[statement], (variant, statement)
    relative = np.array(report.summary["agents"]["LRMax"]["return_vs_rmax"])
    assert relative[:14].mean() == pytest.approx(1.0, abs=0.05)
    optimal = report.summary["agents"]["RMax"]["return_vs_optimal"]
    assert 0 < min(optimal) <= max(optimal) <= 1
