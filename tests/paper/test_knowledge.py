"""The study of knowledge: its specs, its claims on made-up returns, and a quick run."""

import json

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

from heirloom.cli import app as cli
from heirloom.errors import InvalidArgument
from heirloom.experiments.job import draw_tasks
from heirloom.experiments.spec import ExperimentSpec
from heirloom.metrics.pseudometrics import family_distance
from heirloom.paper import knowledge
from heirloom.paper.catalogue import reproduce
from heirloom.paper.experiment import Options
from heirloom.paper.knowledge import (
    ARRAYS,
    BEST,
    CHECKED,
    DETERMINISTIC,
    ENVELOPE,
    EQUAL,
    EQUAL_WIDENING,
    FALSE,
    FAMILIES,
    HALF,
    LEARNED,
    LEARNING,
    MAX_Q,
    NUMBERS,
    RMAX,
    SUCCESSORS,
    TENTH,
    TENTH_WIDENING,
    TRUE,
    TUNED,
    VALID,
    FamilyReturns,
    LaterReturns,
    later_returns,
    measure,
    setting_of,
)

REPETITIONS = 10
GUESS = "LRMax(0.1)"


@pytest.mark.parametrize("family", FAMILIES)
class TestSpecOfFamily:
    def test_spec_is_unchanged_by_writing_and_reading(self, family):
        spec = knowledge.settings(family=family)
        assert ExperimentSpec.read(spec.as_json()) == spec
        assert spec.repetitions == REPETITIONS

    def test_spec_has_agents_from_no_knowledge_to_learned_knowledge(self, family):
        names = [agent.name for agent in knowledge.settings(family=family).agents]
        guess = [GUESS] if family.startswith("tight") else []
        tuned = [] if family in DETERMINISTIC else list(TUNED)
        assert names == [RMAX, *tuned, VALID, *guess, *TRUE, *FALSE, *CHECKED, *LEARNING]

    def test_false_knowledge_is_compared_with_exact_models_only_in_deterministic_families(
        self, family
    ):
        spec = knowledge.settings(family=family).with_changes(tasks=4)
        deterministic = all(np.isin(task.T.toarray(), (0, 1)).all() for task in draw_tasks(spec, 0))
        by_name = {agent.name: agent.options for agent in spec.agents}
        for name in CHECKED:
            assert by_name[name]["on_refutation"] == "widen"
            assert by_name[name].get("exact", False) == deterministic
        for name in FALSE:
            assert by_name[name]["on_refutation"] == "ignore"

    def test_two_numbers_are_true_for_the_drawn_tasks(self, family):
        spec = knowledge.settings(family=family).with_changes(tasks=4)
        (agent,) = (agent for agent in spec.agents if agent.name == NUMBERS)
        numbers = agent.options["nearness"]
        tasks = draw_tasks(spec, 0)
        for m in tasks:
            for m_bar in tasks:
                assert np.abs(m.R - m_bar.R).max() <= numbers["rewards"]
                variation = abs(m.T - m_bar.T).sum(axis=1).max() / 2
                assert variation <= numbers["transitions"] + 1e-12

    def test_valid_prior_is_an_upper_bound_on_distances_of_drawn_tasks(self, family):
        spec = knowledge.settings(family=family).with_changes(tasks=4)
        (agent,) = (agent for agent in spec.agents if agent.name == VALID)
        d_max = agent.options["d_max"]
        if d_max == "family":
            d_max = setting_of(family).task_family.d_max
        assert (family_distance(draw_tasks(spec, 0)) <= d_max + 1e-9).all()


def test_unknown_family_is_an_error_that_lists_the_families():
    with pytest.raises(InvalidArgument, match="family is 'lake': expected one of tight-released"):
        knowledge.settings(family="lake")


def made_up(family, **changes):
    """Returns in which more knowledge gives more, and a tenth of it is harmful."""
    rng = np.random.default_rng(list(FAMILIES).index(family))
    levels = {
        RMAX: 1.0,
        BEST: 1.5,
        VALID: 1.0,
        NUMBERS: 2.0,
        SUCCESSORS: 2.5,
        ARRAYS: 2.8,
        HALF: 2.7,
        TENTH: 0.5,
        EQUAL: 0.4,
        TENTH_WIDENING: 2.0,
        EQUAL_WIDENING: 1.9,
        LEARNED: 2.0,
        MAX_Q: 1.8,
        ENVELOPE: 1.7,
    }
    if family.startswith("tight"):
        levels[GUESS] = 1.8
    levels.update(changes.get(family, {}))
    noise = rng.normal(0, 0.02, (len(levels), REPETITIONS))
    returns = {name: level + e for (name, level), e in zip(levels.items(), noise, strict=True)}
    later = LaterReturns(returns, np.full(REPETITIONS, 3.0), 2)
    return FamilyReturns(later, 12, later, {LEARNED: 12, MAX_Q: 13, ENVELOPE: None})


def verdicts(**changes):
    changes = {family.replace("_", "-"): levels for family, levels in changes.items()}
    returns = {family: made_up(family, **changes) for family in FAMILIES}
    return {claim.statement: claim.verdict for claim in knowledge.claims(returns)}


def contradicted(**changes):
    """The claims that made-up returns with these changes contradict."""
    found = verdicts(**changes)
    return [statement for statement in found if found[statement] == "contradicted"]


class TestClaims:
    def test_all_claims_are_supported_by_the_expected_returns(self):
        assert set(verdicts().values()) == {"supported"}

    @pytest.mark.parametrize("name", [VALID, *TRUE])
    def test_agent_below_rmax_in_one_family_contradicts_its_claim(self, name):
        failed = contradicted(maze={name: 0.8})
        assert f"{name} never performs worse than RMax (margin 5 %)" in failed

    def test_less_return_with_more_knowledge_contradicts_that_more_gives_as_much(self):
        (failed,) = contradicted(taxis={ARRAYS: 2.2})
        assert failed.startswith("more knowledge gives at least as much")

    def test_lrmax_above_nearrmax_in_one_family_contradicts_that_it_is_outperformed(self):
        (failed,) = contradicted(prices={VALID: 2.9})
        assert failed == f"{ARRAYS} outperforms {VALID} in every family"

    def test_guess_that_is_better_than_two_numbers_contradicts_its_claim(self):
        (failed,) = contradicted(tight_text={GUESS: 2.4})
        assert failed.startswith(f"{NUMBERS} performs at least as well as {GUESS}")

    def test_false_knowledge_above_rmax_contradicts_only_that_it_can_be_below_rmax(self):
        levels = {TENTH: 2.0, EQUAL: 2.0, TENTH_WIDENING: 2.1, EQUAL_WIDENING: 2.1}
        (failed,) = contradicted(**{family.replace("-", "_"): levels for family in FAMILIES})
        assert failed == f"false knowledge can lower returns below those of {RMAX}"

    def test_false_knowledge_better_than_the_truth_contradicts_that_it_can_be_worse(self):
        levels = dict.fromkeys([*FALSE, *CHECKED], 2.9)
        failed = contradicted(**{family.replace("-", "_"): levels for family in FAMILIES})
        assert failed[:2] == [
            f"false knowledge can lower returns below those of {other}" for other in (ARRAYS, RMAX)
        ]

    def test_widening_without_effect_leaves_open_whether_it_can_raise_returns(self):
        levels = {TENTH_WIDENING: 0.5, EQUAL_WIDENING: 0.4}
        found = verdicts(**{family.replace("-", "_"): levels for family in FAMILIES})
        assert [claim for claim, verdict in found.items() if verdict == "undecided"] == [
            "widening false knowledge can raise returns"
        ]

    def test_widening_that_lowers_returns_in_one_family_contradicts_its_claim(self):
        (failed,) = contradicted(maze={TENTH_WIDENING: 0.2})
        assert failed == "widening false knowledge never lowers returns (margin 5 %)"

    @pytest.mark.parametrize("name", LEARNING)
    def test_learned_knowledge_below_rmax_in_one_family_contradicts_its_claim(self, name):
        (failed,) = contradicted(cliffs={name: 0.8})
        assert failed.startswith("learned knowledge, once it is used, never gives less than RMax")

    def test_families_in_which_an_agent_is_below_rmax_are_named(self):
        returns = {family: made_up(family, maze={VALID: 0.5}) for family in FAMILIES}
        claim = knowledge.claims(returns)[0]
        assert claim.whose == "paper"
        assert claim.measured.endswith(
            "in 8 of 9 cases the interval is above -0.05, and below it in maze"
        )

    def test_all_claims_but_that_of_lrmax_are_marked_as_ours(self):
        returns = {family: made_up(family) for family in FAMILIES}
        assert [claim.whose for claim in knowledge.claims(returns)[1:]] == ["ours"] * 13


def test_later_returns_leave_out_the_first_task_and_discount_only_in_families_of_the_paper():
    rng = np.random.default_rng(0)
    dimensions = ("agent", "repetition", "task", "episode")
    shape = (2, 3, 4, 5)
    results = xr.Dataset(
        {
            "returns": (dimensions, rng.random(shape)),
            "discounted_returns": (dimensions, rng.random(shape)),
            "optimal": (dimensions[1:3], rng.random(shape[1:3])),
            "optimal_discounted": (dimensions[1:3], rng.random(shape[1:3])),
        },
        coords={"agent": [RMAX, VALID]},
    )
    for family, kind, optimal in (
        ("tight-text", "discounted_returns", "optimal_discounted"),
        ("taxis", "returns", "optimal"),
    ):
        later = later_returns(family, setting_of(family).as_shown(results))
        expected = results[kind].values[1, :, 1:].mean(axis=(1, 2))
        assert later.agents[VALID] == pytest.approx(expected)
        assert later.optimal == pytest.approx(results[optimal].values[:, 1:].mean(axis=1))


def test_best_rmax_is_that_with_the_highest_mean_return_of_later_tasks():
    results = results_of([RMAX, *TUNED], tasks=3)
    returns = results.returns.copy()
    returns[:, :, 0] = 100 * np.arange(6)[:, None, None]  # the first task does not count
    returns[2] += 1.0
    later = later_returns("cliffs", results.assign(returns=returns))
    assert later.best_n_known == list(TUNED.values())[1]
    assert later.agents[BEST].tolist() == [1.0] * 5


def results_of(agents, *, tasks, from_task=None):
    """Made-up results of the corridor: agents other than RMax are better only from a task on."""
    rng = np.random.default_rng(0)
    dimensions = ("agent", "repetition", "task", "episode")
    shape = (len(agents), 5, tasks, 3)
    returns = rng.normal(0, 0.01, shape)
    if from_task is not None:
        returns[1:] -= 1
        returns[1:, :, from_task - 1 :] += 2
    optimal = (dimensions[1:3], np.full(shape[1:3], 1.0))
    return xr.Dataset(
        {
            "returns": (dimensions, np.zeros(shape)),
            "discounted_returns": (dimensions, returns),
            "optimal": optimal,
            "optimal_discounted": optimal,
        },
        coords={"agent": agents, "repetition": np.arange(5), "task": np.arange(1, tasks + 1)},
    )


class TestLearnedKnowledge:
    def test_it_is_measured_in_the_tasks_after_those_it_is_learned_from(self):
        spec = knowledge.settings(family="corridor")
        results = results_of([RMAX, *LEARNING], tasks=spec.tasks, from_task=12)
        measured = measure("corridor", spec, results)
        assert measured.used_from == 12  # the smallest m + 1 with 0.8^m <= 0.1
        assert measured.used.agents[LEARNED] == pytest.approx(np.ones(5), abs=0.05)
        assert measured.later.agents[LEARNED] == pytest.approx(np.full(5, -1 / 19), abs=0.05)

    def test_task_from_which_on_it_helps_is_that_of_higher_discounted_returns(self):
        spec = knowledge.settings(family="corridor")
        results = results_of([RMAX, *LEARNING], tasks=spec.tasks, from_task=14)
        helps_from = measure("corridor", spec, results).helps_from
        assert helps_from == dict.fromkeys(LEARNING, 14)

    def test_run_that_ends_before_it_is_used_shows_the_last_task(self):
        spec = knowledge.settings(family="corridor").with_changes(tasks=4)
        results = results_of([RMAX, *LEARNING], tasks=4, from_task=4)
        used = measure("corridor", spec, results).used
        assert used.agents[MAX_Q] == pytest.approx(np.ones(5), abs=0.05)

    def test_table_shows_from_which_task_on_it_is_used_and_helps(self):
        returns = {"corridor": made_up("corridor")}
        report = knowledge.report({"corridor": knowledge.settings(family="corridor")}, returns)
        table = report.tables[-1]
        row = dict(zip(table.header, table.rows[0], strict=True))
        assert row["from task"] == "12"
        assert row[f"{MAX_Q} helps from task"] == "13"
        assert row[f"{ENVELOPE} helps from task"] == "-"
        learned = report.summary["families"]["corridor"]["learned"]
        assert learned["helps_from"] == {LEARNED: 12, MAX_Q: 13, ENVELOPE: None}


def test_share_of_the_gap_is_0_for_rmax_and_1_for_the_optimum():
    returns = LaterReturns(
        {RMAX: np.array([-20.0, -30.0]), ARRAYS: np.array([5.0, 5.0])}, np.array([5.0, 5.0]), 10
    )
    assert returns.closed(RMAX).tolist() == [0, 0]
    assert returns.closed(ARRAYS).mean() == pytest.approx(1)


def test_report_shows_each_family_in_table_figure_and_summary():
    returns = {family: made_up(family) for family in FAMILIES}
    specs = {family: knowledge.settings(family=family) for family in FAMILIES}
    report = knowledge.report(specs, returns)
    titles = [setting_of(family).title for family in FAMILIES]
    for table in report.tables:
        assert [row[0] for row in table.rows] == titles
        assert {len(row) for row in table.rows} == {len(table.header)}
    (ax,) = report.figures["knowledge"].axes
    assert [label.get_text() for label in ax.get_yticklabels()] == titles
    assert report.specs == tuple(specs.values())
    assert list(report.summary["families"]) == list(FAMILIES)
    numbers = report.summary["families"]["taxis"]["agents"][ARRAYS]
    assert numbers["return"] == pytest.approx(returns["taxis"].later.agents[ARRAYS].mean())
    assert numbers["share_of_gap"] == pytest.approx(0.9, abs=0.02)
    json.dumps(report.summary, allow_nan=False)


def only(monkeypatch, *families):
    """Let the study consist of these families."""
    monkeypatch.setattr(knowledge, "FAMILIES", families)


def test_stopped_run_resumes_with_the_families_that_are_missing(tmp_path, monkeypatch):
    options = Options("released", tmp_path, quick=True, repetitions=1)
    only(monkeypatch, "corridor")
    reproduce("knowledge", options)
    stored = {path: path.stat().st_mtime_ns for path in tmp_path.glob("run-corridor/**/*")}
    assert stored
    only(monkeypatch, "corridor", "prices")
    summary = reproduce("knowledge", options).summary
    assert list(summary["families"]) == ["corridor", "prices"]
    assert {path: path.stat().st_mtime_ns for path in stored} == stored


def test_command_prints_claims_and_returns_of_a_quick_run(tmp_path, monkeypatch):
    only(monkeypatch, "corridor")
    command = ["reproduce", "knowledge", "--quick", "--jobs", "1", "--out", str(tmp_path)]
    result = CliRunner().invoke(cli.app, command)
    assert result.exit_code == 0, result.output
    printed = " ".join(result.output.split())
    assert "mean return of later tasks" in printed
    assert "mean return with false knowledge" in printed
    assert "mean return with checked knowledge" in printed
    assert "mean return once learned knowledge is used" in printed
    assert "RefutedKnowledgeWarning" not in printed
    assert "knowledge, quick" in printed
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["repetitions"] == 2
    assert (tmp_path / "figures" / "knowledge.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.slow
def test_quick_run_of_all_families_has_numbers_for_each(tmp_path):
    options = Options("released", tmp_path, quick=True)
    summary = reproduce("knowledge", options).summary
    for numbers in summary["families"].values():
        for agent in numbers["agents"].values():
            assert np.isfinite(agent["return"])
