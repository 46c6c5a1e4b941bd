"""NearRMax as an agent: saving and loading, explanations, specs, and combinations."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.envs.paper_families import Corridor, Tight
from heirloom.experiments.job import make_agent, run_job
from heirloom.experiments.spec import ExperimentSpec
from heirloom.transfer.nearness.rows import _GATHERED

OPTIONS = {"n_states": 121, "n_actions": 4, "gamma": 0.9, "n_known": 10, "epsilon": 0.01}
FAMILY = Tight()


def tasks(n, seed=0):
    rng = np.random.default_rng(seed)
    return [FAMILY.draw(rng) for _ in range(n)]


def learn_all(agent, drawn, episodes=300):
    return [
        hl.learn(agent, m, episodes=episodes, max_steps=10, seed=i) for i, m in enumerate(drawn)
    ]


@pytest.mark.parametrize(
    "nearness",
    [
        FAMILY.nearness,
        hl.Nearness(rewards=0.19, transitions=0.1),
        hl.Nearness(rewards=0.19, transitions=0.1, highest_rewards=1.0, terminates=False),
    ],
    ids=["arrays", "numbers", "absolute"],
)
def test_saved_agent_continues_with_identical_results(tmp_path, nearness):
    drawn = tasks(4)
    agent = hl.NearRMax(nearness=nearness, **OPTIONS, seed=0)
    learn_all(agent, drawn[:2])
    agent.save(tmp_path / "agent.heirloom")
    loaded = hl.NearRMax.load(tmp_path / "agent.heirloom")
    for one, other in zip(learn_all(agent, drawn[2:]), learn_all(loaded, drawn[2:]), strict=True):
        assert np.array_equal(one.returns, other.returns)
    assert repr(loaded.bounds[0].nearness) == repr(nearness)


@pytest.mark.parametrize(("epsilon", "source"), [(0.01, "task 1"), (0.0, "all earlier tasks")])
def test_explanation_names_the_sources_and_the_parts_of_the_knowledge(epsilon, source):
    agent = hl.NearRMax(nearness=FAMILY.nearness, **OPTIONS | {"epsilon": epsilon}, seed=0)
    learn_all(agent, tasks(3), episodes=1000)
    explanation = agent.explain()
    assert sum(explanation.n_decided.values()) == 484
    assert explanation.n_decided[f"NearModels, {source}"] > 0
    assert set(explanation.knowledge_used) <= {
        f"NearModels, {part}" for part in ("rewards", "transitions", "successors")
    }
    assert "valid only if the nearness is true" in " ".join(repr(explanation).split())
    s, a = np.argwhere(explanation.knowledge_used["NearModels, transitions"] & ~agent.known)[0]
    assert "NearModels" in explanation.why(s, a)
    assert "transitions" in explanation.why(s, a)


def test_nearness_in_a_spec_is_numbers_or_computed_by_the_family():
    spec = ExperimentSpec.read(
        {
            "name": "near",
            "tasks": 2,
            "episodes": 20,
            "steps": 10,
            "repetitions": 1,
            "family": {"name": "tight"},
            "defaults": {"n_known": 10},
            "agents": [
                {
                    "algorithm": "NearRMax",
                    "nearness": [
                        {"rewards": 0.19, "transitions": 0.1},
                        {"rewards": 0.19, "transitions": 0.1, "successors": "family"},
                        "family",
                    ],
                },
                {"algorithm": "NearRMax", "name": "false", "nearness_scale": 0.5},
                {"algorithm": "NearRMaxQInit", "p_min": 0.5},
            ],
        }
    )
    names = [agent.name for agent in spec.agents]
    assert names[:2] == ["NearRMax(0.19, 0.1)", "NearRMax(0.19, 0.1, family)"]
    assert names[2:] == ["NearRMax(family)", "false", "NearRMaxQInit"]
    assert ExperimentSpec.read(spec.as_json()) == spec
    drawn = tasks(1)
    near = [
        make_agent(agent, spec, drawn, np.random.default_rng(0)).bounds[0].nearness
        for agent in spec.agents
    ]
    assert near[0].rewards == 0.19
    assert near[0].successors is None
    assert near[1].successors is not None
    assert near[2].rewards.shape == (121, 4)
    assert np.array_equal(near[3].rewards, 0.5 * near[2].rewards)
    for i in range(len(spec.agents)):
        assert np.isfinite(run_job(spec, i, 0)["returns"]).all()


def test_family_without_a_nearness_is_refused_in_a_spec():
    spec = ExperimentSpec.read(
        {
            "name": "near",
            "tasks": 2,
            "episodes": 2,
            "steps": 2,
            "family": {"name": "garnet", "n_states": 3, "n_actions": 2, "branching": 2},
            "agents": [{"algorithm": "NearRMax", "n_known": 1}],
        }
    )
    with pytest.raises(hl.errors.InvalidArgument, match="the family does not know its nearness"):
        make_agent(spec.agents[0], spec, [], np.random.default_rng(0))


def test_combination_with_max_q_is_at_most_each_part():
    drawn = tasks(4)
    near, max_q = hl.NearModels(FAMILY.nearness), hl.MaxQ(p_min=0.5, delta=0.5)
    both = hl.OptimisticAgent(bounds=[near, max_q], **OPTIONS, seed=0)
    learn_all(both, drawn[:-1])
    both.begin_task()
    for bound in (hl.NearModels(FAMILY.nearness), hl.MaxQ(p_min=0.5, delta=0.5)):
        alone = hl.OptimisticAgent(bounds=[bound], **OPTIONS, memory=both.memory)
        alone.begin_task()
        assert (both.U <= alone.U + 1e-9).all()
    assert (both.U >= hl.solve(drawn[-1]).Q - 1.0).all()


def test_agent_has_at_most_one_nearness():
    bounds = [hl.NearModels(FAMILY.nearness) for _ in range(2)]
    with pytest.raises(hl.errors.InvalidArgument, match="combine them with &"):
        hl.OptimisticAgent(bounds=bounds, **OPTIONS)


def test_useless_nearness_gives_the_actions_of_rmax():
    """Rewards and transitions may differ by anything: the agent takes the actions of RMax."""
    drawn = tasks(3)
    near = hl.NearRMax(nearness=hl.Nearness(rewards=1.0, transitions=1.0), **OPTIONS, seed=0)
    rmax = hl.RMax(**OPTIONS, seed=0)
    for one, other in zip(learn_all(near, drawn), learn_all(rmax, drawn), strict=True):
        assert np.array_equal(one.returns, other.returns)
    assert near.task._near is None
    # The sources are not looked at, so that the agent takes no longer than RMax.
    assert not any(source in _GATHERED for source in near.memory.sources)


def test_near_rmax_transfers_in_the_corridor_from_the_second_task_on():
    """One number for rewards, and transitions that do not change, give transfer from task 2."""
    family, rng = Corridor(), np.random.default_rng(0)
    options = {"n_states": 20, "n_actions": 2, "gamma": 0.9, "n_known": 1}
    near = hl.Nearness(rewards=0.1, transitions=0.0)
    returns = {}
    for name in ("RMax", "NearRMax"):
        agent = (
            hl.RMax(**options, seed=0)
            if name == "RMax"
            else hl.NearRMax(nearness=near, **options, seed=0)
        )
        records = [
            hl.learn(agent, family.draw(rng), episodes=20, max_steps=11, seed=i) for i in range(5)
        ]
        returns[name] = np.mean([record.returns.mean() for record in records[1:]])
    assert returns["NearRMax"] > 1.3 * returns["RMax"]


@pytest.mark.parametrize(
    ("exact", "number", "source"), [(True, 1, "task 1"), (False, -1, "all earlier tasks")]
)
def test_source_whose_rewards_alone_are_used_is_named(exact, number, source):
    """Transitions may differ by anything: only the reward of the source bounds the value."""
    agent = hl.NearRMax(
        nearness=hl.Nearness(rewards=[[0.1], [0.1]], transitions=1, highest_rewards=[[1], [0.3]]),
        **{"n_states": 2, "n_actions": 1, "gamma": 0.5, "n_known": 1, "seed": 0, "exact": exact},
    )
    agent.begin_task()
    for s in range(2):
        agent.observe(s, 0, 0.25, s, terminated=False)
    agent.end_task()
    agent.begin_task()
    assert agent.bounds[0].sources_used().tolist() == [number, 0]
    explanation = agent.explain()
    assert f"from 'NearModels, {source}' (by its rewards)" in explanation.why(0, 0)
    assert "from 'NearModels' (by its highest_rewards)" in explanation.why(1, 0)


def test_explanation_names_parts_of_the_nearness_only_for_its_own_bound():
    class Half(hl.Bound):
        def begin_task(self, setting, model, memory):
            self.U = np.full(setting.n_pairs, setting.v_max)
            return True

        def refine(self, change):
            self.U[1] = 0.1
            return np.array([1])

    near = hl.NearModels(hl.Nearness(rewards=0, transitions=1, highest_rewards=0.5))
    options = {"n_states": 2, "n_actions": 1, "gamma": 0.5, "n_known": 1, "seed": 0}
    agent = hl.OptimisticAgent(bounds=[near, Half()], **options)
    agent.begin_task()
    assert "NearModels' (by its highest_rewards)" in agent.explain().why(1, 0)
    agent.observe(0, 0, 0.0, 1, terminated=False)
    assert "the upper bound from 'Half', because" in agent.explain().why(1, 0)
