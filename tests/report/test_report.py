"""Reports of runs on disk and in memory: what they contain, and what they say about damage."""

import base64
import json
import re
import shutil
import sqlite3
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import heirloom as hl
from heirloom.cli.app import app
from heirloom.report.between_runs import differences, welch_interval
from heirloom.report.charts import all_curves, chart_data, key
from heirloom.report.page import render
from heirloom.report.sections import reference, replays
from heirloom.report.sources import read_sources
from heirloom.report.tables import baseline_of, columns, over_repetitions
from heirloom.runs.recordings import recordings
from heirloom.runs.run import run
from heirloom.stats import student_interval
from tests.report.examples import HOSTILE, results
from tests.small_run import FAST, flip

SPEC = FAST.with_changes(measure="transfer", repetitions=3)
CLAIM = {
    "statement": "it <works>",
    "measured": "1.0 ± 0.1",
    "verdict": "supported",
    "whose": "paper",
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A folder as `heirloom reproduce` writes it, with two runs."""
    folder = tmp_path_factory.mktemp("experiment")
    run(SPEC, folder / "run", jobs=1)
    run(SPEC.with_changes(seed=8), folder / "run-other", jobs=1)
    return folder


@pytest.fixture
def folder(stored, tmp_path):
    return shutil.copytree(stored, tmp_path / "experiment")


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page)[1])


def test_report_of_a_run_says_what_was_run(folder):
    page = render(read_sources(folder / "run"))
    assert "seed 7" in page
    assert "measure = &quot;transfer&quot;" in page  # the spec
    assert "numba" in page  # versions
    assert "This report is incomplete" not in page
    assert [curve["label"] for curve in data_of(page)["curves"]] == [a.name for a in SPEC.agents]
    assert len(page) < 2_000_000


def test_same_run_gives_the_same_page(folder):
    def without_ids(page):
        return re.sub(r'"p\d+"', "", page)

    first, second = (render(read_sources(folder / "run")) for _ in range(2))
    assert without_ids(first) == without_ids(second)


def test_folder_of_an_experiment_is_reported_with_its_claims_and_all_runs(folder):
    claims = [CLAIM, {**CLAIM, "verdict": "undecided"}]
    (folder / "summary.json").write_text(json.dumps({"claims": claims}))
    page = render(read_sources(folder))
    assert "1 supported, 0 contradicted, 1 undecided" in page
    assert "It &lt;works&gt;" in page
    labels = [curve["label"] for curve in data_of(page)["curves"]]
    assert labels[0] == "RMax"
    assert "RMax · other" in labels
    for damaged in ({}, {**CLAIM, "verdict": "yes"}, {**CLAIM, "verdict": []}):
        (folder / "summary.json").write_text(json.dumps({"claims": [damaged]}))
        assert "summary.json is damaged" in render(read_sources(folder))


def test_report_of_an_incomplete_or_damaged_run_says_so(folder):
    connection = sqlite3.connect(folder / "run" / "run.sqlite")
    connection.execute("UPDATE job SET seconds = 1e9")
    connection.commit()
    connection.close()
    page = render(read_sources(folder / "run"))
    assert "This report is incomplete" in page
    assert "9 of 9 jobs are damaged" in page
    unfinished = folder / "unfinished"
    shutil.copytree(folder / "run-other", unfinished)
    flip(unfinished / "run.sqlite", 0)
    with pytest.raises(hl.errors.InvalidFile, match="is damaged, or is not a run"):
        render(read_sources(unfinished))


def test_numbers_of_an_incomplete_run_are_those_of_the_jobs_that_exist():
    full = results()
    partial = full.copy(deep=True)
    for name in ("returns", "discounted_returns"):
        partial[name][2, 3:] = np.nan
    partial["updates"][2, 3:] = -1
    sources = read_sources(partial)
    found = columns(sources.runs[0], 2, baseline_of(sources.runs, sources.runs[0]))
    mean, explored = (over_repetitions(found[k].values).mean for k in (0, -1))
    assert mean == pytest.approx(full.returns.values[2, :3].mean())
    assert explored == pytest.approx(full.updates.values[2, :3].mean())
    assert "NaN" not in json.dumps(data_of(render(sources)))


def test_intervals_of_curves_are_computed_before_the_page_is_opened():
    runs = read_sources(results()).runs
    curves, _ = all_curves(runs)
    data = chart_data(runs, curves)
    (run,), baseline = runs, data["baseline"]
    for i, curve in enumerate(data["curves"]):
        for mode, own in (
            ("absolute", run.returns[i]),
            ("difference", run.returns[i] - run.returns[run.agents.index(baseline)]),
        ):
            compared = "" if mode == "absolute" else baseline
            line = curve["lines"]["tasks"][key(mode, compared, "returns", smooth=False)]
            mean, half = np.frombuffer(base64.b64decode(line)).reshape(2, -1)
            expected = student_interval(own.mean(axis=2))
            np.testing.assert_allclose(mean, expected.mean, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(half, expected.half_width, rtol=1e-9)
    assert "Math.sqrt" not in render(read_sources(results())).rpartition("<script>")[2]


def test_runs_with_the_same_tasks_are_compared_repetition_by_repetition(folder):
    same = read_sources({"a": folder / "run", "b": folder / "run"})
    assert all(d.identical and d.paired and d.difference.mean == 0 for d in differences(same.runs))
    page = render(same)
    assert "identical to the bit" in page
    other = read_sources([folder / "run", folder / "run-other"])
    for d in differences(other.runs):
        assert not d.paired
        assert not d.identical
        one, two = (run.returns[run.agents.index(d.agent)] for run in other.runs)
        assert d.difference.mean == pytest.approx(two.mean() - one.mean())
    assert "seed is 7 in this spec and 8 in the other" in render(other)


def test_welch_interval_covers_the_difference_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        found = welch_interval(rng.normal(1.0, 2.0, 6), rng.normal(0.0, 0.5, 9))
        covered += abs(found.mean - 1.0) <= found.half_width
    assert 0.92 <= covered / 400 <= 0.98


def test_hostile_names_are_escaped_everywhere(tmp_path):
    page = hl.write_report(results(HOSTILE), tmp_path / "x", title="</title><x>").read_text()
    assert (tmp_path / "x.html").exists()
    outside = re.sub(r"<script[ >].*?</script>", "", page, flags=re.S)
    assert "<script>alert" not in page
    assert "<b>x" not in outside
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "</title><x>" not in page


def test_results_without_transfer_say_how_to_record_it():
    compared = results()[["returns", "updates", "optimal"]]
    page = render(read_sources(compared))
    assert "Not recorded. To record it, add" in page
    assert "spec, or give <code>compare</code> the argument" in page


def test_report_of_a_comparison_advises_what_compare_accepts_and_begins_with_its_first_agent():
    sizes = {"tasks": 2, "episodes": 2, "max_steps": 5}
    options = {"n_states": 4, "n_actions": 4, "gamma": 0.9}
    agents = {
        "rule": lambda rng: hl.FixedPolicy([1] * 4),
        "RMax": lambda rng: hl.RMax(seed=rng, **options),
    }
    m = hl.grid_world(["S..G"], gamma=0.9)
    for draw in (lambda rng: m, lambda rng: m.to_gymnasium()):
        compared = hl.compare(agents, draw, **sizes)
        page = render(read_sources(compared))
        assert "or give <code>compare</code> the argument" in page
        assert "minus that of rule" in page
        measured = hl.compare(agents, draw, **sizes, measure="transfer")  # as advised
        assert "Not recorded" not in render(read_sources(measured))


def test_baseline_may_be_an_agent_of_another_run_on_the_same_tasks(folder):
    runs = read_sources([folder / "run", folder / "run-other"]).runs
    without = replace(runs[0], agents=runs[0].agents[1:], arrays={"returns": runs[0].returns[1:]})
    assert np.array_equal(baseline_of([runs[0], without], without).returns, runs[0].returns[0])
    assert baseline_of([runs[1], without], without).name == without.agents[0]


def test_large_results_give_a_page_of_bounded_size():
    big = results([f"agent {i}" for i in range(20)], tasks=40, episodes=3000)
    assert len(render(read_sources(big))) < 3_500_000


def test_command_writes_beside_a_run_and_into_a_folder_of_runs(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for arguments, expected in (
        ([folder / "run"], folder / "run" / "report.html"),
        ([folder], folder / "report.html"),
        ([folder / "run", folder / "run-other"], tmp_path / "report.html"),
        ([folder / "run", "--out", tmp_path / "new" / "mine"], tmp_path / "new" / "mine.html"),
    ):
        result = CliRunner().invoke(app, ["report", *map(str, arguments)])
        assert result.exit_code == 0, result.output
        assert expected.read_text().startswith("<!doctype html>")
    assert "no run" in CliRunner().invoke(app, ["report", str(tmp_path / "none")]).output


def test_steps_until_near_optimal_are_called_an_upper_bound_and_never_a_lower_one(folder):
    run = read_sources(folder / "run").runs[0]
    run = replace(run, arrays={**run.arrays, "optimal": np.full_like(run.optimal, 1e6)})
    baseline = baseline_of([run], run)
    for agent in range(len(run.agents)):
        at_least = {column.title: column.at_least for column in columns(run, agent, baseline)}
        assert at_least["Episodes until near-optimal"]  # nothing reaches this optimum
        assert not at_least["Steps until near-optimal, at most"]


def test_baseline_must_be_an_agent(folder, tmp_path):
    with pytest.raises(hl.errors.InvalidArgument, match=r"baseline is 'x': expected one of RMax"):
        hl.write_report(folder / "run", tmp_path / "x.html", baseline="x")
    hl.write_report(folder / "run", tmp_path / "x.html", baseline="LRMax(0.1)")
    with pytest.raises(
        hl.errors.CannotWrite, match="choose another file, in a folder that you may write to"
    ):
        hl.write_report(folder / "run", tmp_path / "x.html" / "y.html")


def test_welch_interval_of_a_single_value_has_no_width():
    found = welch_interval(np.array([3.0]), np.array([1.0, 2.0, np.nan]))
    assert found.mean == 1.5
    assert np.isnan(found.half_width)
    assert np.isnan(welch_interval(np.array([np.nan]), np.array([1.0])).mean)


def test_comparison_with_reference_results_is_shown_and_escaped():
    row = {"agent": "<b>", "here": 1.5, "reference": 1.4, "difference": 0.1, "verdict": "same"}
    shown = reference({"rows": [row, "no row"], "conclusion": "they agree"})
    assert "they agree" in shown
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert "1.5" in shown
    assert reference(None) == ""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A run with a recording of each of its jobs."""
    folder = tmp_path_factory.mktemp("recorded") / "run"
    run(FAST.with_changes(repetitions=2, record={"first": 1}), folder, jobs=1)
    return folder


def test_report_shows_the_first_recordings_if_all_are_too_large(recorded, monkeypatch):
    whole = replays(read_sources(recorded).runs)
    assert "plays the others" not in whole
    monkeypatch.setattr("heirloom.report.sections.LARGEST", len(whole) // 2)
    shortened = replays(read_sources(recorded).runs)
    assert len(shortened) < len(whole)
    shown, all_recordings = map(
        int, re.search(r"Shown (?:is|are) (\d+) of (\d+)", shortened).groups()
    )
    assert shown < all_recordings == len(recordings(recorded))
    assert "<code>heirloom replay</code> plays the others" in shortened


def test_report_says_that_recordings_cannot_be_read(recorded, monkeypatch):
    def unreadable(run):
        raise hl.errors.InvalidFile("the map has the style <b>")

    monkeypatch.setattr("heirloom.report.sections.recordings_in", unreadable)
    section = replays(read_sources(recorded).runs)
    assert "The recordings cannot be read: the map has the style &lt;b&gt;" in section


def certificates_in(page):
    """Return the cells of the table of certificates, without intervals and pictures."""
    section = re.search('<section id="certificates">(.*?)</section>', page)[1]
    rows = re.findall("<tr>(.*?)</tr>", section)[1:]
    return [re.findall(r"<t[hd][^>]*>([^<]*)", row)[:5] for row in rows]


def test_certificates_are_shown_next_to_the_returns_of_the_last_episodes():
    given = results()
    rows = certificates_in(render(read_sources(given)))
    late = given.discounted_returns[..., -30:].mean("episode")
    columns = [x.mean("repetition") for x in (late, given.certified_lower, given.optimum_at_most)]
    agents = given.agent.values[:2]  # the last one has none
    expected = [[name, str(task)] for name in agents for task in given.task.values]
    assert [row[:2] for row in rows] == expected
    for agent, task, *numbers in rows:
        of_row = [float(x.sel(agent=agent, task=int(task))) for x in columns]
        assert [float(x) for x in numbers] == pytest.approx(of_row, abs=0.0051)


def test_report_without_certificates_has_no_section_on_them():
    given = results()
    without = [given.drop_vars("certified_lower"), given.isel(agent=[-1])]
    for each in without:
        assert 'id="certificates"' not in render(read_sources(each))


def test_certificates_of_some_tasks_are_shown_if_there_are_many():
    page = render(read_sources(results(("RMax", "Mine"), tasks=50, episodes=10)))
    tasks = [int(row[1]) for row in certificates_in(page)]
    assert len(tasks) == 20
    assert tasks == sorted(set(tasks))
    assert (tasks[0], tasks[-1]) == (1, 50)
    assert "Certificates in 20 of 50 tasks" in page


def test_certificates_of_missing_jobs_are_left_out():
    given = results()
    for name in ("returns", "discounted_returns", "certified_lower", "optimum_at_most"):
        given[name][0, 1:] = np.nan
    rows = certificates_in(render(read_sources(given)))
    assert float(rows[0][3]) == pytest.approx(float(given.certified_lower[0, 0, 0]), abs=0.0051)


def test_report_of_a_run_that_measures_certificates_shows_them(tmp_path):
    agent = {"algorithm": "RMax", "n_known": 1, "successors": "family"}
    spec = FAST.with_changes(measure="certificate", agents=[agent])
    found = run(spec, tmp_path / "run", jobs=1)
    rows = certificates_in(render(read_sources(tmp_path / "run")))
    assert [row[1] for row in rows] == ["1", "2", "3"]
    mean = found.optimum_at_most.mean("repetition").values[0]
    assert [float(row[4]) for row in rows] == pytest.approx(mean, abs=0.0051)
