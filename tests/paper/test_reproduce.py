"""Small versions of the paper's main experiments: the files and numbers of their reports."""

import html
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from heirloom.cli import app as cli
from heirloom.cli.output import folder_name
from heirloom.paper import bounds, tight
from heirloom.paper.returns import of_the_paper
from heirloom.runs.run import run

SMALL = {"repetitions": 3, "seed": 1}


@pytest.fixture
def fewer_episodes(monkeypatch):
    """Let the two experiments have 1500 episodes."""
    for module in (tight, bounds):
        make = module.settings

        def shorter(*args, make=make, **options):
            return make(*args, **options).with_changes(episodes=1500)

        monkeypatch.setattr(module, "settings", shorter)


def heirloom(*arguments):
    return CliRunner().invoke(cli.app, [str(a) for a in arguments])


@pytest.mark.parametrize("variant", [pytest.param("text", marks=pytest.mark.slow), "released"])
@pytest.mark.usefixtures("fewer_episodes")
def test_tight_writes_a_summary_and_figures_and_can_be_repeated(tmp_path, variant):
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
    for figure in ("3a", "3b", "3c", "3a-with-near", "3b-with-near", "environment"):
        assert (out / "figures" / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
        assert (out / "figures" / f"{figure}.pdf").read_bytes().startswith(b"%PDF")
    said = " ".join(result.output.split())
    assert "erratum 7" in said
    assert "report.html: open it in a browser." in said
    page = (out / "report.html").read_text()
    assert all(html.escape(claim["statement"][1:]) in page for claim in summary["claims"])
    before = (out / "summary.json").read_bytes()
    assert heirloom(*command, "--out", out).exit_code == 0  # resumes a complete run
    assert (out / "summary.json").read_bytes() == before


@pytest.mark.usefixtures("fewer_episodes")
def test_bounds_writes_three_ratios_per_prior(tmp_path):
    out = tmp_path / "out"
    result = heirloom("reproduce", "bounds", "--repetitions", 2, "--jobs", 1, "--out", out)
    assert result.exit_code == 0, result.output
    summary = json.loads((out / "summary.json").read_text())
    assert summary["d_max"] == [0.0, 0.2, 0.5, 0.8, 1.0]
    for name in ("rho_lip", "rho_speedup", "rho_return"):
        assert len(summary[name]) == 5
    assert summary["rho_lip"][0] == 1.0
    assert (out / "figures" / "3d.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("fewer_episodes")
@pytest.mark.slow
def test_one_command_draws_figures_3a_to_3d(tmp_path):
    options = ["--quick", "--repetitions", 2, "--jobs", 1, "--out", tmp_path]
    result = heirloom("reproduce", "figure-3", *options)
    assert result.exit_code == 0, result.output
    drawn = {path.stem for path in tmp_path.glob("*-released-quick-2-repetitions/figures/3?.pdf")}
    assert drawn == {"3a", "3b", "3c", "3d"}
    assert "| bounds | released |" in (tmp_path / "reproducibility.md").read_text()


@pytest.mark.usefixtures("fewer_episodes")
def test_summary_and_figure_3a_show_mean_ratios_of_the_results(tmp_path):
    spec = tight.settings("released").with_changes(**SMALL)
    results = run(spec, tmp_path / "run", jobs=1)
    report = tight.report(spec, results)
    mean = results.discounted_returns.mean("episode")
    for name, numbers in report.summary["agents"].items():
        ratio = mean.sel(agent=name) / mean.sel(agent="RMax")
        assert numbers["return_vs_rmax"] == pytest.approx(ratio.mean("repetition").values)
        optimal = (mean.sel(agent=name) / results.optimal_discounted).mean("repetition")
        assert numbers["return_vs_optimal"] == pytest.approx(optimal.values)
    everyone = report.summary["agents"]
    for figure, agents in (("3a", of_the_paper(everyone)), ("3a-with-near", everyone)):
        (ax,) = report.figures[figure].axes
        curves = {line.get_label(): line.get_ydata() for line in ax.get_lines()[: len(agents)]}
        assert list(curves) == list(agents)
        for name, numbers in agents.items():
            assert curves[name].tolist() == numbers["return_vs_rmax"]
        assert ax.get_ylabel() == "discounted return relative to RMax"


@pytest.mark.usefixtures("fewer_episodes")
def test_summary_and_figure_3d_show_the_three_ratios_of_the_second_task(tmp_path):
    spec = bounds.settings("text").with_changes(**SMALL)
    results = run(spec, tmp_path / "run", jobs=1)
    report = bounds.report(spec, results)
    summary = report.summary
    second = results.sel(task=2)
    for i, d_max in enumerate(summary["d_max"]):
        lrmax, rmax = second.sel(agent=f"LRMax({d_max})"), second.sel(agent="RMax")
        assert summary["rho_lip"][i] == pytest.approx(float(lrmax.lipschitz_use.mean()))
        speedup = (rmax.late_update - lrmax.late_update) / rmax.late_update
        assert summary["rho_speedup"][i] == pytest.approx(float(speedup.mean()))
        gain = lrmax.returns.sum("episode") / rmax.returns.sum("episode") - 1
        assert summary["rho_return"][i] == pytest.approx(float(gain.mean()))
    (ax,) = report.figures["3d"].axes
    curves = {line.get_label(): line for line in ax.get_lines()}
    for label, key in (
        ("ρ_Lip", "rho_lip"),
        ("ρ_Speed-up", "rho_speedup"),
        ("ρ_Return", "rho_return"),
    ):
        assert curves[label].get_xdata().tolist() == summary["d_max"]
        assert curves[label].get_ydata() / 100 == pytest.approx(summary[key])
    (ax,) = report.figures["3d-with-near"].axes
    curves = {line.get_label(): line.get_ydata() for line in ax.get_lines()}
    for name, numbers in summary["near"].items():
        gain = second.sel(agent=name).returns.sum("episode") / rmax.returns.sum("episode") - 1
        assert numbers["rho_return"] == pytest.approx(float(gain.mean()))
        assert curves[f"ρ_Return, {name}"] / 100 == pytest.approx(5 * [numbers["rho_return"]])


@pytest.mark.usefixtures("fewer_episodes")
def test_summary_of_one_repetition_has_no_intervals(tmp_path):
    spec = tight.settings("text").with_changes(repetitions=1)
    summary = tight.report(spec, run(spec, tmp_path / "run", jobs=1)).summary
    assert summary["agents"]["LRMax"]["ci95"] == [None] * 15
    json.dumps(summary, allow_nan=False)


def test_list_names_experiments_and_show_prints_a_variant():
    listed = heirloom("list").output
    for name in ("tight", "bounds", "frozen-lakes", "LRMaxQInit"):
        assert name in listed
    shown = heirloom("show", "tight", "--variant", "text").output
    assert 'variant = "text"' in shown
    assert "delta = 0.1" in heirloom("show", "tight").output


def test_run_accepts_the_spec_that_show_prints(tmp_path):
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


def test_folder_name_contains_the_options_that_change_results():
    assert folder_name("tight", "released", None, None, quick=False) == "tight-released"
    assert folder_name("tight", "released", 3, 1, quick=True) == (
        "tight-released-quick-3-repetitions-seed-1"
    )


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["text", "released"])
def test_main_experiment_in_full_shows_transfer_only_with_a_prior(tmp_path, variant):
    """LRMax with a prior transfers from task 2 on; without one it performs like RMax."""
    spec = tight.settings(variant)
    report = tight.report(spec, run(spec, tmp_path / "run"))
    verdicts = {claim.statement: claim.verdict for claim in report.claims}
    for name in ("LRMax(0.1)", "LRMax(0.2)"):
        assert verdicts[f"{name} benefits from transfer as early as task 2"] == "supported"
    assert verdicts["LRMax(0.1) never performs worse than RMax (margin 5 %)"] != "contradicted"
    relative = np.array(report.summary["agents"]["LRMax"]["return_vs_rmax"])
    assert relative[:14].mean() == pytest.approx(1.0, abs=0.05)
    optimal = report.summary["agents"]["RMax"]["return_vs_optimal"]
    assert 0 < min(optimal) <= max(optimal) <= 1
