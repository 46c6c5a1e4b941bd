"""Claims are supported or contradicted by numbers that say so, and otherwise stay undecided."""

import re

import numpy as np
import pytest

from heirloom.envs.paper_families import Corridor, Tight
from heirloom.paper import bounds, corridor, maze, negative_transfer, tight
from heirloom.paper.claims import (
    MARGIN,
    OPPOSITE,
    OURS,
    all_above,
    all_within_margin,
    format_interval,
    max_q_start_claims,
    nearly_always,
    never_below_rmax,
)
from heirloom.paper.returns import is_near, near_names, near_return_claims, of_the_paper, used_from
from heirloom.stats import student_interval

REPETITIONS, TASKS, EPISODES = 10, 15, 2000
STARTS = {"text": 15, "released": 12}
VARIANTS = tuple(STARTS)


def noise(rng, *shape):
    return rng.normal(0, 0.02, shape)


def claimed_numbers(variant="released"):
    """Synthetic numbers with the pattern that the paper reports."""
    rng = np.random.default_rng(0)
    start = STARTS[variant]
    levels = {name: np.ones(TASKS) for name in ("RMax", "LRMax", "MaxQInit", "LRMaxQInit")}
    levels |= {"LRMax(0.2)": np.full(TASKS, 1.4), "LRMax(0.1)": np.full(TASKS, 2.0)}
    levels["MaxQInit"][start - 1 :] = 2.4
    levels["LRMaxQInit"][start - 1 :] = 2.4
    levels["LRMaxQInit(0.1)"] = np.maximum(levels["LRMax(0.1)"], levels["MaxQInit"])
    for name in ("LRMax(0.2)", "LRMax(0.1)", "LRMaxQInit(0.1)"):
        levels[name][0] = 1.0
    ratios = {
        agent.name: levels[agent.name]
        + (0 if agent.name == "RMax" else noise(rng, REPETITIONS, TASKS))
        + np.zeros((REPETITIONS, TASKS))
        for agent in tight.settings(variant).agents
        if not is_near(agent.name)
    }
    stages = np.repeat([0.5, 0.1, 0.6], [50, 500, EPISODES - 550])
    episodes = {
        "RMax": np.zeros((REPETITIONS, EPISODES)),
        "LRMax(0.1)": stages + noise(rng, REPETITIONS, EPISODES),
    }
    return ratios, episodes


def verdicts(ratios, episodes, variant="released"):
    claims = tight.claims(ratios, episodes, STARTS[variant])
    return {claim.statement: claim.verdict for claim in claims}


def test_all_claims_but_one_are_supported_by_the_reported_numbers():
    """The exception is the combination, which performs as well as MaxQInit there, not better."""
    found = {c: v for c, v in verdicts(*claimed_numbers()).items() if v != "supported"}
    assert found == {"LRMaxQInit(0.1) outperforms all other methods": "undecided"}


def test_max_q_init_starts_at_task_15_with_the_delta_of_the_text():
    """Erratum 4: the paper reports task 12."""
    assert STARTS == {v: used_from(tight.settings(v), "MaxQInit") for v in VARIANTS}
    found = {
        int(re.search(r"task (\d+)", statement)[1]): verdict
        for statement, verdict in verdicts(*claimed_numbers("text"), "text").items()
        if statement.startswith("MaxQInit benefits")
    }
    assert found == {12: "undecided", 15: "supported"}
    early = claimed_numbers("text")[0]["MaxQInit"].copy()
    early[:, 11:] -= 0.2
    claim, _ = max_q_start_claims(early, 15)
    assert claim.verdict == "contradicted"


@pytest.mark.parametrize("repetitions", [1, 2])
def test_claims_stay_undecided_with_fewer_than_three_repetitions(repetitions):
    ratios, episodes = claimed_numbers()
    first = {name: r[:repetitions] for name, r in ratios.items()}
    few = {name: e[:repetitions] for name, e in episodes.items()}
    for claim in tight.claims(first, few, STARTS["released"]):
        assert claim.verdict == "undecided"
        assert "nan" not in claim.measured
        assert "±" not in claim.measured


class TestVerdicts:
    """The three values, and how often each is wrong."""

    def test_each_verdict_follows_from_the_intervals(self):
        x = np.array([-0.02, 0.0, 0.02])[:, None]
        for mean, least, verdict in (
            (0.2, 0.0, "supported"),
            (0.03, 0.0, "undecided"),
            (-0.2, 0.0, "contradicted"),
            (0.01, -MARGIN, "supported"),
            (-0.02, -MARGIN, "undecided"),
            (-0.2, -MARGIN, "contradicted"),
        ):
            assert all_above(mean + x, least) == verdict
        assert all_within_margin(x) == "supported" == all_within_margin(x * 0.1 - 0.03)
        assert all_within_margin(x + 0.03) == "undecided"
        assert all_within_margin(x - 0.2) == all_within_margin(x + 0.2) == "contradicted"

    def test_one_of_several_means_decides(self):
        x = np.array([-0.02, 0.0, 0.02])[:, None]
        means = np.array([0.2, 0.2, 0.2])
        assert all_above(x + means) == "supported"
        assert all_above(x + np.array([0.2, 0.03, 0.2])) == "undecided"
        assert all_above(x + np.array([0.2, -0.2, 0.2])) == "contradicted"
        # Its own interval is below 0, and the one that is corrected for three means is not.
        assert all_above(x[:, :1] - 0.06) == "contradicted"
        assert all_above(x + np.array([0.2, -0.06, 0.2])) == "undecided"

    def test_equal_repetitions_and_fewer_than_three_decide_nothing(self):
        assert all_above(np.full((10, 2), 0.3)) == "undecided"
        assert all_above(np.array([0.2, 0.3])) == "undecided"
        assert all_above(np.column_stack([np.full(9, 0.3), -1 + np.arange(9) / 90])) == (
            "contradicted"
        )

    @pytest.mark.parametrize("n_means", [1, 5])
    def test_false_claim_is_supported_in_at_most_5_percent_of_experiments(self, n_means):
        """For every number of repetitions from 3 to 40; one mean is just beyond the margin.

        The tolerance is three standard errors of the share that is allowed.
        """
        rng, n, wrong = np.random.default_rng([1, n_means]), 300, []
        means = np.full(n_means, 0.5)
        means[0] = -MARGIN
        for repetitions in range(3, 41):
            x = means + rng.normal(0, 0.1, (n, repetitions, n_means))
            wrong.append(np.mean([all_above(each, -MARGIN) == "supported" for each in x]))
        assert max(wrong) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n)
        assert np.mean(wrong) <= 0.025 + 3 * np.sqrt(0.025 * 0.975 / (n * len(wrong)))
        assert np.mean(wrong) > 0.01  # the test can see wrong verdicts

    @pytest.mark.parametrize("n_means", [1, 5])
    def test_true_claim_is_contradicted_in_at_most_5_percent_of_experiments(self, n_means):
        rng, n = np.random.default_rng([2, n_means]), 300
        for repetitions in (3, 5, 10, 40):
            x = -MARGIN + rng.normal(0, 0.1, (n, repetitions, n_means))
            wrong = np.mean([all_above(each, -MARGIN) == "contradicted" for each in x])
            assert wrong <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n)

    def test_true_claim_is_supported_more_often_with_more_repetitions(self):
        """Every agent equals RMax in 15 tasks: the claim has room, as large as the margin."""
        rng, n, shares = np.random.default_rng(3), 100, []
        for repetitions in (3, 5, 10, 20, 40):
            x = 1 + rng.normal(0, 0.06, (n, repetitions, 15))
            claims = [never_below_rmax("LRMax", each) for each in x]
            shares.append(np.mean([claim.verdict == "supported" for claim in claims]))
        assert shares == sorted(shares)
        assert shares[0] < 0.05
        assert shares[-1] > 0.95

    def test_weak_data_support_no_claim_that_an_agent_is_never_worse(self):
        """Three repetitions of an agent that is 10 % worse, with wide intervals."""
        rng, n = np.random.default_rng(4), 100
        x = 0.9 + rng.normal(0, 0.3, (n, 3, 15))
        found = [never_below_rmax("LRMax", each).verdict for each in x]
        assert found.count("supported") == 0
        assert found.count("undecided") > 0.9 * n

    def test_choice_by_the_data_is_corrected_for(self):
        """Of 20 means that are all 0, the largest is seldom said to be above 0."""
        rng, n = np.random.default_rng(5), 300
        wrong = 0
        for x in rng.normal(size=(n, 8, 20)):
            best = x[:, x.mean(axis=0).argmax()]
            wrong += all_above(best, chosen_from=20) == "supported"
        assert wrong <= n * (0.05 + 3 * np.sqrt(0.05 * 0.95 / n))

    def test_claim_about_single_repetitions_needs_72_of_them(self):
        assert nearly_always(np.ones(72, dtype=bool)) == "supported"
        assert nearly_always(np.ones(71, dtype=bool)) == "undecided"
        assert nearly_always(np.arange(100) > 0) == "undecided"
        assert nearly_always(np.arange(100) > 20) == "contradicted"
        assert nearly_always(np.arange(1000) > 20) == "supported"

    def test_claim_about_single_repetitions_is_wrong_in_at_most_5_percent_of_experiments(self):
        rng, n = np.random.default_rng(6), 500
        for repetitions in (3, 10, 40, 72, 100, 300):
            happened = rng.random((n, repetitions)) < 1 - MARGIN
            found = [nearly_always(each) for each in happened]
            most = n * (0.05 + 3 * np.sqrt(0.05 * 0.95 / n))
            assert found.count("supported") <= most
            assert found.count("contradicted") <= most

    def test_opposite_of_a_claim_has_the_opposite_verdict(self):
        assert OPPOSITE["supported"] == "contradicted"
        assert {OPPOSITE[OPPOSITE[verdict]] for verdict in OPPOSITE} == set(OPPOSITE)

    def test_interval_that_does_not_exist_is_not_shown(self):
        assert format_interval(student_interval(np.array([1.0, 2.0, 3.0]))) == "2.00 ± 2.48"
        assert format_interval(student_interval(np.ones(5))) == "1.00"


@pytest.mark.parametrize(
    ("agent", "change", "statement"),
    [
        ("LRMax(0.1)", lambda x: x - 1.2, "LRMax(0.1) benefits from transfer as early as"),
        ("LRMax(0.2)", lambda x: x + 1, "a smaller prior increases transfer"),
        ("MaxQInit", lambda x: x - 1.5, "MaxQInit benefits from transfer only from task 12"),
        ("MaxQInit", lambda x: x + 1, "MaxQInit benefits from transfer only from task 12"),
        ("LRMaxQInit(0.1)", lambda x: x - 0.5, "LRMaxQInit(0.1) performs at least as well"),
        ("LRMax", lambda x: x - 0.3, "LRMax never performs worse than RMax"),
        ("LRMax", lambda x: x + 0.3, "LRMax without a prior performs like RMax"),
    ],
)
def test_numbers_contradict_a_claim(agent, change, statement):
    ratios, episodes = claimed_numbers()
    ratios[agent] = change(ratios[agent])
    found = verdicts(ratios, episodes)
    assert {v for claim, v in found.items() if claim.startswith(statement)} == {"contradicted"}


@pytest.mark.parametrize(
    ("stages", "verdict"), [((0.5, 0.5, 0.5), "undecided"), ((0.1, 0.5, 0.6), "contradicted")]
)
def test_other_returns_do_not_show_three_stages_of_learning(stages, verdict):
    ratios, episodes = claimed_numbers()
    curve = np.repeat(stages, [50, 500, EPISODES - 550])
    curve = curve + noise(np.random.default_rng(1), REPETITIONS, EPISODES)
    found = verdicts(ratios, {**episodes, "LRMax(0.1)": curve})
    assert {v for claim, v in found.items() if "three stages" in claim} == {verdict}


def test_claim_about_the_start_of_max_q_init_is_undecided_with_too_few_tasks():
    ratios, episodes = claimed_numbers()
    short = {name: r[:, :10] for name, r in ratios.items()}
    claims = tight.claims(short, episodes, STARTS["released"])
    (claim,) = (claim for claim in claims if claim.statement.startswith("MaxQInit benefits"))
    assert claim.whose == "paper"
    assert claim.verdict == "undecided"
    assert claim.measured == "there are only 10 tasks"


def test_ratio_increases_as_d_max_decreases_only_if_the_numbers_do():
    rng = np.random.default_rng(0)
    d_max = [0.0, 0.2, 0.5]
    increasing = np.array([0.9, 0.5, 0.0]) + noise(rng, 100, 3)
    dip = np.array([2.4, 0.6, 0.7]) + noise(rng, 100, 3) * 20
    measures = {"up": increasing, "dip": dip, "flat": noise(rng, 100, 3), "down": -increasing}
    claims = bounds.claims(d_max, measures)
    verdicts = [claim.verdict for claim in claims]
    assert verdicts == ["supported", "undecided", "undecided", "contradicted"]
    assert claims[0].statement == "up increases as D_max decreases"
    assert "for D_max = 0.5, 0.2, 0" in claims[0].measured


class TestNearRMax:
    """NearRMax stands beside the paper's agents, and is left out of the paper's claims."""

    @pytest.mark.parametrize(
        "spec",
        [
            *(module.settings(v) for module in (tight, bounds, corridor, maze) for v in VARIANTS),
            negative_transfer.settings(),
        ],
        ids=lambda spec: spec.name,
    )
    def test_agents_of_the_paper_come_first(self, spec):
        names = [agent.name for agent in spec.agents]
        near = near_names(names)
        assert near
        assert names == [*of_the_paper(dict.fromkeys(names)), *near]
        assert "NearRMax(family)" in near

    @pytest.mark.parametrize("variant", VARIANTS)
    def test_numbers_are_the_largest_differences_of_the_family(self, variant):
        for module, family in ((tight, Tight), (corridor, Corridor)):
            nearness = family(variant).nearness
            given = module.NEARNESS[variant]
            assert given[0] == pytest.approx(np.max(nearness.rewards), abs=1e-9)
            assert given[1] == pytest.approx(np.max(nearness.transitions), abs=1e-9)

    def test_claimed_returns_are_decided_by_the_interval_from_the_second_task_on(self):
        rng = np.random.default_rng(0)
        vs_rmax = 2.3 + noise(rng, REPETITIONS, TASKS)
        vs_rmax[:, 0] = 1.0
        vs_rmax[:, 0] += noise(rng, REPETITIONS)
        found = [
            [claim.verdict for claim in near_return_claims({"NearRMax": x}, [least])]
            for x, least in ((vs_rmax, 2.2), (vs_rmax, 2.4), (vs_rmax - 1.5, 2.2))
        ]
        assert found == [
            ["supported", "supported"],
            ["contradicted", "supported"],
            ["contradicted", "contradicted"],
        ]

    def test_claims_are_marked_as_ours_and_name_the_agent(self):
        rng = np.random.default_rng(0)
        spec = tight.settings("released")
        ratios = {agent.name: 2.6 + noise(rng, REPETITIONS, TASKS) for agent in spec.agents}
        corridor_spec = corridor.settings("text")
        in_corridor = {
            agent.name: 1.9 + noise(rng, REPETITIONS, TASKS) for agent in corridor_spec.agents
        }
        episodes = {"NearRMax(family)": 2 + noise(rng, REPETITIONS, 2)}
        relative = {"RMax": noise(rng, 5, 30), "NearRMax(family)": 0.9 + noise(rng, 5, 30)}
        claims = [
            *near_return_claims(ratios, tight.LEAST_RATIOS["released"]),
            *corridor.near_claims(in_corridor, "text"),
            *negative_transfer.near_claims(episodes),
            *maze.near_claims(relative),
            *bounds.near_claims(["NearRMax(family)"], 1 + noise(rng, 10, 1)),
        ]
        assert len(claims) == 13
        for claim in claims:
            assert claim.whose == OURS
            assert is_near(claim.statement)
            assert claim.verdict == "supported", claim

    def test_maze_claim_is_not_supported_if_an_agent_of_the_paper_is_as_good(self):
        rng = np.random.default_rng(0)
        relative = {"RMax": 0.9 + noise(rng, 5, 30), "NearRMax(family)": 0.9 + noise(rng, 5, 30)}
        (claim,) = maze.near_claims(relative)
        assert claim.verdict == "undecided"
        assert "the difference to RMax" in claim.measured
