"""The comparison with rivals: specs, choices, claims on made-up returns, and a quick run."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from heirloom.agents.algorithms import ALGORITHMS
from heirloom.cli import app as cli
from heirloom.errors import InvalidArgument
from heirloom.experiments.spec import ExperimentSpec
from heirloom.paper import rivals
from heirloom.paper.experiment import Options
from heirloom.paper.rivals import Comparison, Found, chosen_settings, with_likes
from heirloom.paper.rivals_settings import (
    BASELINE,
    ENTRANTS,
    FAMILIES,
    NEAR,
    RMAX,
    final_spec,
    setting_of,
    tuned_name,
    tuning_spec,
)

N, TASKS = 10, 4


class TestSpecs:
    @pytest.mark.parametrize("family", FAMILIES)
    def test_tuning_and_comparison_have_the_same_sizes_and_other_seeds(self, family):
        tuning = tuning_spec(family)
        assert ExperimentSpec.read(tuning.as_json()) == tuning
        names = {agent.name for agent in tuning.agents}
        first = {name: 0 for name in ENTRANTS if tuned_name(name, 0) in names}
        final = final_spec(family, with_likes(first))
        assert {NEAR, RMAX, BASELINE} <= {agent.name for agent in final.agents}
        assert (tuning.tasks, tuning.episodes) == (final.tasks, final.episodes)
        assert tuning.seed != final.seed
        assert tuning.limit == final.limit is not None

    def test_every_entrant_with_options_has_four_settings_that_differ(self):
        for name, entrant in ENTRANTS.items():
            texts = {json.dumps(dict(each), sort_keys=True) for each in entrant.settings}
            assert len(texts) == len(entrant.settings), name
            assert len(texts) in (1, 4), name

    def test_all_algorithms_enter(self):
        assert {entrant.algorithm for entrant in ENTRANTS.values()} == set(ALGORITHMS)

    def test_unknown_family_is_an_error_that_lists_the_families(self):
        with pytest.raises(InvalidArgument, match="family is 'lake': expected one of tight-rel"):
            setting_of("lake")

    def test_a_seed_of_the_user_leaves_tuning_its_own(self, tmp_path):
        options = Options("released", tmp_path, seed=7, quick=True)
        specs = rivals.runs(options)
        assert specs["tune-trap"].seed == 8
        assert specs["run-trap"].seed == 7


class TestChoice:
    def test_best_setting_is_chosen_and_settings_that_did_not_finish_are_not(self):
        tuned = {"A": [1.0, 3.0, 2.0], "B": [np.nan, -1.0], "C": [np.nan, np.nan]}
        assert chosen_settings(tuned) == {"A": 1, "B": 1}

    def test_agents_with_a_false_nearness_have_the_setting_of_the_true_one(self):
        chosen = with_likes({NEAR: 2})
        assert len(chosen) == 7
        assert set(chosen.values()) == {2}


def made_up(family="trap", **means):
    """Return returns with these means and little noise; a number, or one per task."""
    rng = np.random.default_rng(0)
    tasks = {
        name: np.broadcast_to(mean, (N, TASKS)) + rng.normal(scale=0.001, size=(N, TASKS))
        for name, mean in ({BASELINE: 0.0, RMAX: 0.5} | means).items()
    }
    first = {name: x[:, 0] for name, x in tasks.items()}
    tuned = {name: [float(x.mean())] for name, x in tasks.items()}
    seconds = dict.fromkeys(tasks, 1.0)
    one = np.ones(N)
    chosen = {name: {} for name in tasks}
    return Found(setting_of(family), tasks, first, one, one, {}, seconds, tuned, chosen)


class TestFound:
    def test_shares_of_the_gap_and_the_worst_task(self):
        pooled = "RMax (pooled)"
        found = made_up(**{NEAR: 0.9, pooled: [1.0, 1.0, 1.0, -3.5]})
        assert found.share(NEAR).mean() == pytest.approx(0.9, abs=0.01)
        assert found.worst(NEAR).mean() == pytest.approx(0.4, abs=0.01)
        assert found.worst(pooled).mean() == pytest.approx(-4, abs=0.01)

    def test_shares_are_not_shown_where_the_baseline_is_nearly_optimal(self):
        assert made_up().has_shares
        assert not made_up(**{BASELINE: 0.96}).has_shares

    def test_best_of_a_kind_is_chosen_by_tuning_and_not_by_the_results(self):
        found = made_up(UCBVI=0.9)
        assert found.best("no transfer") == "UCBVI"
        found.tuned["UCBVI"] = [0.1]
        assert found.best("no transfer") == RMAX
        assert found.best("naive transfer") is None

    def test_comparison_finds_who_is_better(self):
        compared = Comparison.of(made_up(**{NEAR: 0.9, "UCBVI": 0.9}))
        assert set(compared.unbeaten) == {NEAR, "UCBVI"}
        assert rivals.wins({"trap": compared, "maze": compared})[NEAR] == {BASELINE: 2, RMAX: 2}


class TestClaims:
    def verdicts(self, **means):
        found = {"trap": made_up(**means), "shortcut": made_up("shortcut", **means)}
        return [claim.verdict for claim in rivals.claims(found)]

    def test_all_are_supported_where_nearness_wins_and_pooling_is_trapped(self):
        pooled = {"RMax (pooled)": [0.8, 0.8, 0.8, -2]}
        assert self.verdicts(**{NEAR: 0.9, **pooled}) == ["supported"] * 7

    def test_all_but_one_are_contradicted_where_pooling_wins(self):
        found = self.verdicts(**{NEAR: 0.3, "RMax (pooled)": 0.9})
        assert found == ["supported", *["contradicted"] * 6]


@pytest.mark.slow
def test_quick_run_has_tables_figures_and_what_did_not_finish(tmp_path):
    result = CliRunner().invoke(
        cli.app, ["reproduce", "rivals", "--quick", "--out", str(tmp_path), "--jobs", "2"]
    )
    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert set(summary["families"]) == set(rivals.QUICK_FAMILIES)
    for each in summary["families"].values():
        assert set(each["entrants"]) | set(each["did_not_finish"]) >= {NEAR, RMAX, BASELINE}
        assert each["ceiling"] <= each["optimal"] + 1e-9
        for name, row in each["entrants"].items():
            assert len(row["settings"]) in (0, len(ENTRANTS[name].settings))
    for name in ("rivals", "rivals-worst", "rivals-profiles"):
        assert (tmp_path / "figures" / f"{name}.png").stat().st_size > 10_000
