"""`agent.explain()` is correct: each of its numbers is compared with the bounds themselves."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.transfer.bound import Constant, MaxQ
from heirloom.transfer.lipschitz.bound import Lipschitz
from tests.agents.test_agents import COMMON, tight_tasks
from tests.agents.test_soundness import draw_family, largest_distances, make_agent
from tests.reference.learned_models import KeepAll


class HalfOfVMax(Constant):
    """A user-defined bound, below v_max at every pair."""

    def begin_task(self, setting, model, memory):
        self.U = np.full(setting.n_pairs, setting.v_max / 2)
        return False


def learned(agent, tasks, episodes=60):
    for i, m in enumerate(tasks):
        hl.learn(agent, m, episodes=episodes, max_steps=10, seed=i)
    return agent


def flat(explanation):
    """The printed text without line breaks."""
    return " ".join(repr(explanation).split())


def test_values_of_rmax_come_from_v_max_and_its_model_only():
    agent = learned(hl.RMax(**COMMON, seed=0), tight_tasks(1), episodes=300)
    explanation = agent.explain()
    assert explanation.names == ("v_max", "learned model")
    n_model = int((agent.Q < agent.setting.v_max).sum())
    assert explanation.n_decided == {"v_max": 484 - n_model, "learned model": n_model}
    assert n_model > 0
    assert explanation.prior_use == {}
    assert explanation.dropped == ()


def test_bound_named_at_a_pair_is_equal_to_u_there():
    """On random families, for v_max, each source of a Lipschitz bound, and MaxQ."""
    rng = np.random.default_rng(0)
    n_transferred = 0
    for _ in range(60):
        tasks = draw_family(rng)
        prior = largest_distances(tasks)
        bounds = [Lipschitz(d_max=prior), MaxQ(p_min=1 / len(tasks), delta=0.9)]
        agent = make_agent(bounds, tasks, rng)
        for i in rng.integers(len(tasks), size=3):
            hl.learn(agent, tasks[i], episodes=4, max_steps=4, seed=0)
        agent.begin_task()
        explanation = agent.explain()
        assert explanation.names[:4] == ("v_max", *(f"Lipschitz, task {i}" for i in (1, 2, 3)))
        bound_by_name = {
            "v_max": np.full(agent.setting.n_pairs, agent.setting.v_max),
            **{f"Lipschitz, task {t.source.task}": t.U for t in bounds[0].transfers},
            "MaxQ": bounds[1].U,
        }
        for name, U in bound_by_name.items():
            pairs = explanation.bound == explanation.names.index(name)
            assert np.array_equal(agent.U[pairs], U.reshape(agent.U.shape)[pairs]), name
            n_transferred += int(pairs.sum()) if name != "v_max" else 0
        assert sum(explanation.n_decided.values()) == agent.setting.n_pairs
        agent.drop_task()
    assert n_transferred > 100


def test_bound_keeps_its_name_after_a_pair_becomes_known():
    """A known pair is still attributed to the source of its bound, even if that was dropped."""
    tasks = tight_tasks(3)
    agent = learned(hl.LRMax(d_max=0.1, **COMMON, seed=0), tasks, episodes=400)
    explanation = agent.explain()
    known = explanation.known
    transferred = known & (explanation.U < agent.setting.v_max)
    assert transferred.any()
    assert (explanation.bound[transferred] > 0).all()
    assert (explanation.bound[explanation.U == agent.setting.v_max] == 0).all()


def test_source_that_cannot_lower_a_bound_is_listed_as_dropped():
    m = hl.TabularMDP([[0.5], [0.5]], [[[0.0, 1.0]], [[1.0, 0.0]]], gamma=0.9)
    agent = hl.LRMax(d_max=0.0, n_states=2, n_actions=1, gamma=0.9, n_known=1, seed=0)
    learned(agent, [m, m])
    explanation = agent.explain()
    assert [tuple(dropped) for dropped in explanation.dropped] == [(1, 1)]
    assert "Source task 1 was dropped when 1 of 2 pairs was known" in repr(explanation)
    assert explanation.n_decided["Lipschitz, task 1"] + explanation.n_decided["learned model"] == 2


def test_d_max_is_used_where_it_is_below_the_distance_of_the_models():
    """At every pair for d_max = 0 and inaccurate models; nowhere for the largest possible distance.

    With rewards in [0, 1] and γ = 0.9, that distance is 1 + 0.9 (10 + 10) = 19.
    """
    for d_max, share in ((0.0, 1.0), (19.0, 0.0)):
        agent = hl.OptimisticAgent(bounds=[KeepAll(d_max=d_max)], **COMMON, seed=0)
        learned(agent, tight_tasks(1), episodes=50)
        agent.begin_task()
        assert agent.explain().prior_use == {"KeepAll, task 1": share}
        assert f"KeepAll, task 1: the prior was used at {share:.1%} of pairs" in repr(
            agent.explain()
        )
    agent = hl.OptimisticAgent(bounds=[KeepAll(d_max=12.0)], **COMMON, seed=0)
    learned(agent, tight_tasks(2), episodes=400)
    explanation = agent.explain()
    assert 0 < explanation.prior_use["KeepAll, task 1"] < 1
    used = explanation.prior_used["KeepAll, task 1"]
    assert np.array_equal(used, agent.bounds[0].transfers[0].to_source.D.reshape(121, 4) == 12.0)


def test_explanation_names_the_sources_that_the_prior_makes_useless():
    agent = hl.LRMax(d_max=19.0, **COMMON, seed=0)
    learned(agent, tight_tasks(1), episodes=50)
    agent.begin_task()
    explanation = agent.explain()
    assert explanation.dropped == ((1, 0),)
    assert "Source task 1 is not used, because with this prior it cannot lower a bound." in repr(
        explanation
    )


def test_pairs_to_explore_are_unknown_and_greedy_in_reached_states():
    m = tight_tasks(1)[0]
    agent = hl.RMax(**COMMON, seed=0)
    agent.begin_task()
    assert not agent.explain().to_explore.any()
    assert "not counted, because the agent has not taken a step in this task" in flat(
        agent.explain()
    )
    agent.observe(60, 0, 0.0, 49, terminated=False)
    explanation = agent.explain()
    assert np.array_equal(np.flatnonzero(explanation.to_explore.any(axis=1)), [49, 60])
    agent.drop_task()
    learned(agent, [m], episodes=3000)
    explanation = agent.explain()
    assert not (explanation.to_explore & explanation.known).any()
    s, a = np.argwhere(explanation.to_explore)[0]
    assert agent.Q[s, a] == agent.Q[s].max()
    n = int(explanation.to_explore.sum())
    assert f"Unknown pairs the agent would still choose: {n:,}." in flat(explanation)


def test_text_of_an_agent_that_stopped_exploring_does_not_call_its_policy_good():
    """It says that near-optimality depends on valid bounds and on accurate models."""
    m = hl.TabularMDP([[0.5, 0.1]], [[[1.0], [1.0]]], gamma=0.9)
    agent = hl.RMax(n_states=1, n_actions=2, gamma=0.9, n_known=1, seed=0)
    text = flat(learned(agent, [m]).explain())
    assert "Unknown pairs the agent would still choose: 0. It has stopped exploring" in text
    assert "near-optimal only if the bounds are valid and n_known visits gave accurate" in text


def test_table_counts_every_pair_once():
    agent = learned(hl.LRMax(d_max=0.1, **COMMON, seed=0), tight_tasks(2))
    header, *rows = repr(agent.explain()).split("\n- ")[0].splitlines()
    assert header.split("  ")[0] == "Q(s, a) comes from"
    counts = {row[:18].strip(): [int(n) for n in row[18:].split()] for row in rows}
    total = counts.pop("total")
    n_known = int(agent.known.sum())
    assert total == [484, n_known, 484 - n_known] == np.sum(list(counts.values()), axis=0).tolist()


def test_text_says_how_the_agent_treats_unknown_pairs():
    """It counts the pairs at v_max, which the agent prefers, and those with a smaller bound."""
    agent = learned(hl.LRMax(d_max=0.1, **COMMON, seed=0), tight_tasks(2))
    text, U = flat(agent.explain()), agent.U[~agent.known]
    n_v_max = int((U == agent.setting.v_max).sum())
    assert 0 < n_v_max < U.size
    assert f"Unknown pairs with Q = v_max, the largest possible value: {n_v_max}." in text
    assert f"Unknown pairs with an upper bound below v_max: {U.size - n_v_max}." in text


def test_why_names_the_origin_of_a_value():
    agent = learned(hl.LRMax(d_max=0.1, **COMMON, seed=0), tight_tasks(2), episodes=400)
    explanation = agent.explain()
    for name, sentence in {
        "v_max": "is v_max, because the pair is unknown (visits: ",
        "Lipschitz, task 1": "is the upper bound from 'Lipschitz, task 1', because the pair is",
        "learned model": "follows from the learned model; ",
    }.items():
        pairs = explanation.decider == explanation.names.index(name)
        s, a = np.argwhere(pairs & (explanation.known == (name == "learned model")))[0]
        assert sentence in explanation.why(s, a)
        assert f"{agent.Q[s, a]:.6g}" in explanation.why(s, a)
    with pytest.raises(hl.errors.InvalidArgument, match="s is 121"):
        explanation.why(121, 0)


def test_bounds_of_the_same_class_have_different_names():
    bounds = [HalfOfVMax(), MaxQ(p_min=0.9), MaxQ(p_min=0.5)]
    agent = learned(hl.OptimisticAgent(bounds=bounds, **COMMON, seed=0), tight_tasks(1))
    explanation = agent.explain()
    assert explanation.names == ("v_max", "HalfOfVMax", "MaxQ 2", "MaxQ 3", "learned model")
    n_decided = explanation.n_decided
    assert n_decided["HalfOfVMax"] + n_decided["learned model"] == 484


def test_dataset_has_the_arrays_of_the_explanation():
    agent = learned(hl.LRMax(d_max=0.1, **COMMON, seed=0), tight_tasks(2))
    data = agent.explain().to_xarray()
    assert dict(data.sizes) == {"state": 121, "action": 4, "source": 1}
    assert np.array_equal(data.Q, agent.Q)
    for name, n in agent.explain().n_decided.items():
        assert int((data.decider == name).sum()) == n
    assert data.prior_used.sel(source="Lipschitz, task 1").dtype == bool


def test_explanation_does_not_change_when_the_agent_learns():
    agent = hl.RMax(**COMMON, seed=0)
    agent.begin_task()
    explanation = agent.explain()
    for _ in range(3):
        agent.observe(60, 0, 0.0, 49, terminated=False)
    assert not explanation.known.any()
    assert agent.known.any()
    with pytest.raises(ValueError, match="read-only"):
        explanation.Q[0, 0] = 1.0


def test_agent_that_has_not_begun_a_task_cannot_be_explained():
    with pytest.raises(
        hl.errors.WrongOrder, match="has not begun a task since it was created or loaded"
    ):
        hl.RMax(**COMMON).explain()


@pytest.mark.parametrize(
    ("bound", "before", "after"),
    [
        (
            MaxQ(p_min=0.5, delta=0.3),
            "MaxQ: when this task began, 1 of 2 tasks had been seen; the bound is used after 2.",
            "MaxQ: valid with probability 0.7 for each task, if tasks are drawn independently and "
            "each has a probability of at least p_min = 0.5.",
        ),
        (
            Lipschitz(p_min=0.5, delta=0.5, scope="lifetime"),
            "Lipschitz: when this task began, 1 of 2 tasks had been compared; a learned prior is "
            "used after 2.",
            "Lipschitz: the learned prior is valid with probability 0.5 for all tasks together",
        ),
        (
            Lipschitz(),
            "Lipschitz: v_max, because there is no prior: give d_max, or p_min to learn it.",
            "Lipschitz: v_max, because there is no prior",
        ),
    ],
    ids=["MaxQ", "learned prior", "no prior"],
)
def test_text_says_when_a_bound_is_used_and_when_it_is_valid(bound, before, after):
    tasks = tight_tasks(3)
    agent = learned(hl.OptimisticAgent(bounds=[bound], **COMMON, seed=0), tasks[:2], episodes=5)
    assert before in flat(agent.explain())
    learned(agent, tasks[2:], episodes=5)
    assert after in flat(agent.explain())


@pytest.mark.parametrize("n_tasks", [1, 2])
def test_notes_are_those_that_are_printed(n_tasks):
    explained = learned(hl.LRMax(d_max=0.1, **COMMON, seed=0), tight_tasks(n_tasks)).explain()
    printed = repr(explained).split("\n- ")[1:]
    assert [" ".join(note.split()) for note in printed] == list(explained.notes)
    assert explained.notes


def test_text_of_a_valid_given_prior_has_no_note_on_learning():
    agent = learned(hl.LRMax(d_max=0.1, **COMMON, seed=0), tight_tasks(2), episodes=20)
    assert agent.explain().bound_notes == ()


def declared_agent(make=hl.CertifiedRMax, **options):
    """Return an agent that knows the successors of the tasks, and two tasks."""
    tasks = tight_tasks(2)
    near = hl.family_nearness(tasks)
    options = {"successors": near.successors, "rewards": "per transition"} | options
    return make(n_states=121, n_actions=4, gamma=0.9, seed=0, **options), tasks


def test_explanation_contains_the_certificate_if_successors_are_known():
    agent, tasks = declared_agent()
    explanation = learned(agent, tasks).explain()
    assert explanation.certificate == str(agent.certificate())
    for line in explanation.certificate.splitlines():
        assert line[1:] in flat(explanation)
    near = hl.family_nearness(tasks)
    agent = hl.NearRMax(n_states=121, n_actions=4, gamma=0.9, nearness=near, seed=0)
    assert learned(agent, tasks).explain().certificate == str(agent.certificate())


def test_explanation_without_declared_successors_computes_no_certificate(monkeypatch):
    agent = learned(hl.RMax(**COMMON, seed=0), tight_tasks(1))
    monkeypatch.delattr(hl.OptimisticAgent, "certificate")
    text = flat(agent.explain())
    assert "No certificate: agent.certificate() needs declared successors." in text


@pytest.mark.parametrize("floor", [None, 0.5])
def test_explaining_does_not_change_what_an_agent_does_that_acts_on_certified_values(floor):
    returns, values = [], []
    for looks in (False, True):
        agent, tasks = declared_agent(floor=floor)
        look = (lambda *_: agent.explain()) if looks else None  # noqa: B023 -- called at once
        records = [
            hl.learn(agent, m, episodes=40, max_steps=10, seed=0, callback=look, every=7)
            for m in tasks
        ]
        returns.append([record.returns for record in records])
        values.append(agent.Q)
    assert np.array_equal(*returns)
    assert np.array_equal(*values)


def test_explanation_says_why_a_false_declaration_gives_no_certificate():
    agent, tasks = declared_agent(
        hl.RMax, successors=np.ones((121, 4, 121), dtype=bool) & (np.arange(121) < 60)
    )
    text = learned(agent, tasks).explain().certificate
    assert text.startswith("no certificate: state ")
    assert "a successor that was declared impossible" in text


def test_explaining_a_false_nearness_does_not_refute_it():
    """The agent reacts if it is asked for a certificate, and not if it explains."""
    tasks = [hl.TabularMDP([[r]], [[[1.0]]], gamma=0.5) for r in (0.0, 1.0)]
    near = hl.Nearness(rewards=0.0, transitions=0.0, successors=np.ones((1, 1, 1), dtype=bool))
    agent = hl.NearRMax(
        nearness=near, n_states=1, n_actions=1, gamma=0.5, on_refutation="ignore", seed=0
    )
    text = learned(agent, tasks).explain().certificate
    assert not agent.refutation.is_refuted
    assert str(agent.certificate()) == text
    assert agent.refutation.is_refuted
