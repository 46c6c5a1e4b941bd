"""The experiment on certificates: its specs, its measures, its claims, and a tiny run."""

import json

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

from heirloom.cli import app as cli
from heirloom.errors import InvalidArgument
from heirloom.experiments.job import run_job
from heirloom.experiments.spec import ExperimentSpec
from heirloom.paper import certificates
from heirloom.paper.certificates import (
    COUNTING,
    FROZEN_COUNTS,
    RMAX,
    STUDIES,
    TIGHT,
    Row,
    measured_rows,
    settings,
)
from heirloom.paper.certificates_measures import (
    ARRAYS,
    GAPS,
    MEASURED,
    NOTHING,
    POOLED,
    REWARDS,
    UntilCertified,
    named,
)
from heirloom.paper.claims import all_of, median_above, median_interval

N, MOST = 20, 4000


class TestSpecs:
    @pytest.mark.parametrize("study", [*STUDIES, RMAX])
    def test_spec_is_unchanged_by_writing_and_reading(self, study):
        spec = settings(study=study)
        assert ExperimentSpec.read(spec.as_json()) == spec
        assert spec.episodes * spec.steps == 1_000_000

    def test_unknown_study_is_an_error_that_lists_the_studies(self):
        with pytest.raises(InvalidArgument, match="study is 'lake': expected one of tight, "):
            settings(study="lake")


@pytest.fixture(scope="module")
def in_corridor():
    """What is measured in a corridor, whose agents have up to 100 episodes."""
    return run_job(settings(study="corridor").with_changes(episodes=500, repetitions=1), 0, 0)


class TestMeasures:
    def test_measuring_does_not_change_what_the_agent_learns(self):
        spec = settings(study="corridor").with_changes(episodes=25, tasks=3, repetitions=1)
        plain = ExperimentSpec.read({**spec.as_json(), "measure": None, "measured": None})
        measured = run_job(spec, 0, 0)
        for name, values in run_job(plain, 0, 0).items():
            np.testing.assert_array_equal(measured[name], values)

    def test_bounds_hold_and_tasks_without_a_measurement_are_nan(self, in_corridor):
        kinds, found = STUDIES["corridor"].measure.kinds, in_corridor
        for i, kind in enumerate(kinds):
            is_measured = np.isin(np.arange(1, 6), MEASURED[kind])
            for name in ("first_gap", "gap_20", "lower_10", "optimal_value"):
                np.testing.assert_array_equal(np.isfinite(found[name][:, i]), is_measured)
        for gap in GAPS:
            lower, optimum = found[named("lower", gap)], found["optimal_value"]
            assert not (lower > optimum + 1e-9).any()
            reached = np.isfinite(found[named("episodes", gap)])
            assert reached.any()
            assert (found[named("gap", gap)][reached] <= gap).all()

    def test_more_knowledge_gives_a_smaller_gap_before_the_first_step(self, in_corridor):
        kinds = STUDIES["corridor"].measure.kinds
        last = dict(zip(kinds, in_corridor["first_gap"][4], strict=True))
        assert last[REWARDS] == 1.0
        assert last[ARRAYS] < last["two numbers"] < last[REWARDS]

    def test_price_list_is_certified_before_the_first_step_with_visits_of_earlier_tasks(self):
        spec = settings(study="prices").with_changes(episodes=500, tasks=2, repetitions=1)
        found = run_job(spec, 0, 0)
        pooled = STUDIES["prices"].measure.kinds.index(POOLED)
        assert np.isfinite(found["last_gap"][:, pooled]).all()
        assert found["first_gap"][1, pooled] < 0.2
        assert found["episodes_20"][1, pooled] == 0
        assert np.isnan(found["returns_20"][1, pooled])


class TestMedians:
    def test_interval_contains_the_median_with_the_stated_probability(self):
        rng = np.random.default_rng(0)
        found = [median_interval(rng.exponential(size=N)) for _ in range(2000)]
        inside = [low <= np.log(2) <= high for _, low, high in found]
        assert np.mean(inside) >= 0.95

    def test_fewer_than_six_repetitions_have_no_interval(self):
        assert np.isfinite(median_interval(np.arange(6.0))).all()
        median, low, high = median_interval(np.arange(5.0))
        assert median == 2
        assert np.isnan([low, high]).all()

    def test_median_of_repetitions_that_mostly_fail_is_infinite(self):
        median, low, high = median_interval(np.array([1.0] * 8 + [np.inf] * 12))
        assert (median, low, high) == (np.inf, 1.0, np.inf)

    def test_sign_test_has_three_verdicts(self):
        assert median_above(np.full(6, np.inf), MOST) == "supported"
        assert median_above(-np.ones(6)) == "contradicted"
        assert median_above(np.ones(5)) == "undecided"
        assert median_above(np.array([1.0, -1.0] * 10)) == "undecided"
        assert median_above(np.full(N, np.nan)) == "undecided"

    def test_several_claims_are_true_together_if_each_one_is(self):
        assert all_of(["supported", "supported"]) == "supported"
        assert all_of(["supported", "undecided"]) == "undecided"
        assert all_of(["undecided", "contradicted"]) == "contradicted"


def made_up_row(study, kind, task, **changes):
    rng = np.random.default_rng(0)
    levels = {
        **dict.fromkeys(UntilCertified.variables, 0.3),
        "episodes_20": 1000.0 if kind == REWARDS else 50.0,
        "episodes_10": 2000.0 if kind == REWARDS else 200.0,
        "returns_20": 0.98,
        "optimal": 1.0,
        "gap_ratio": 1.0,
        **changes,
    }
    if kind == NOTHING:
        levels |= {"episodes_20": np.nan}
    x = {name: level * (1 + rng.normal(0, 0.001, N)) for name, level in levels.items()}
    return Row(study, kind, task, MOST, x)


def decided(*, arrays=None, prices=None, lower=0.98):
    """The verdicts on made-up rows, in the order of the claims."""
    rows = [
        made_up_row(TIGHT, REWARDS, 5),
        made_up_row(TIGHT, ARRAYS, 5, **(arrays or {})),
        *(
            made_up_row(study, POOLED, task, **(prices or {}))
            for study in ("prices", "grid-prices")
            for task in (2, 5)
        ),
        *(made_up_row(study, NOTHING, 1) for study in certificates.UNDECLARED),
    ]
    rmax = {COUNTING: lower + np.linspace(0, 0.01, N), FROZEN_COUNTS: np.zeros(N)}
    return [claim.verdict for claim in certificates.claims(rows, rmax)]


class TestClaims:
    def test_all_claims_are_supported_by_numbers_that_meet_all_targets(self):
        assert decided() == ["supported"] * 7

    def test_claim_on_episodes_is_contradicted_by_too_many(self):
        assert decided(arrays={"episodes_20": 200.0})[0] == "contradicted"
        assert decided(arrays={"episodes_10": np.nan})[2] == "contradicted"

    def test_claim_on_returns_is_contradicted_by_low_ones_and_left_open_without_episodes(self):
        assert decided(arrays={"returns_20": 0.5})[1] == "contradicted"
        assert decided(arrays={"returns_20": np.nan})[1] == "undecided"

    def test_claims_on_prices_are_contradicted_by_wider_gaps(self):
        assert decided(prices={"gap_ratio": 1.3})[3:5] == ["contradicted"] * 2

    def test_claim_on_rmax_is_contradicted_by_a_lower_value(self):
        assert decided(lower=0.5)[5] == "contradicted"


def test_gap_ratio_compares_with_the_end_of_the_task_before():
    shape, kinds = (1, 2, 5, 2), STUDIES["prices"].measure.kinds
    dimensions = ("agent", "repetition", "task", "knowledge")
    numbers = {name: (dimensions, np.full(shape, np.nan)) for name in UntilCertified.variables}
    last = np.broadcast_to(np.arange(1.0, 6.0)[:, None], shape)
    numbers |= {"last_gap": (dimensions, last), "first_gap": (dimensions, np.full(shape, 8.0))}
    results = xr.Dataset({**numbers, "optimal": (dimensions[1:3], np.ones(shape[1:3]))})
    rows = list(measured_rows("prices", results, most=MOST))
    assert [(row.kind, row.task) for row in rows] == [(kinds[0], 1), (POOLED, 2), (POOLED, 5)]
    assert [row.x["gap_ratio"].tolist() for row in rows[1:]] == [[8.0] * 2, [2.0] * 2]


def test_quick_run_has_all_rows_and_three_valued_claims(tmp_path):
    options = ["--quick", "--repetitions", "1", "--jobs", "1", "--out", str(tmp_path)]
    result = CliRunner().invoke(cli.app, ["reproduce", "certificates", *options])
    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "summary.json").read_text())
    rows = [(row["family"], row["knowledge"], row["task"]) for row in summary["rows"]]
    assert rows == [
        (study.title, kind, task)
        for study in STUDIES.values()
        for kind in study.measure.kinds
        for task in MEASURED[kind]
        if task <= study.tasks
    ]
    assert {claim["verdict"] for claim in summary["claims"]} == {"undecided"}  # one repetition
    assert {claim["whose"] for claim in summary["claims"]} == {"ours"}
    for figure in ("certificates_20", "certificates_10", "certificates-returns"):
        assert (tmp_path / "figures" / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
