"""Pooled evidence refutes false claims with few visits, and true ones at most with δ."""

import math

import numpy as np
import pytest

import heirloom as hl
from heirloom.kernels.pooling import pair_evidence
from heirloom.transfer.bound import Claims
from heirloom.transfer.refutation.pooled import RATES, is_due, pooled_evidence
from heirloom.transfer.refutation.watch import claims_of
from published.checks import memory_of, small_task
from tests.stopped_tasks import is_fixed, looks_extreme, stopped_memory, was_most_extreme
from tests.strategies import seeds

N = 5
OPTIONS = {"n_states": 2, "n_actions": 2, "gamma": 0.5, "n_known": N, "terminating": False}


def agent_with(claim, **options):
    near = hl.Nearness(rewards=claim, transitions=claim)
    return hl.NearRMax(nearness=near, seed=0, **OPTIONS, **options)


def evidence(agent, claim):
    near = hl.Nearness(rewards=claim, transitions=claim)
    return pooled_evidence(agent.memory, Claims(near, None), agent.setting)


@pytest.mark.parametrize("seed", seeds(20))
def test_evidence_of_a_pair_is_the_minimum_over_all_intervals_from_below(seed):
    rng = np.random.default_rng(seed)
    n, X = rng.integers(1, 50, 6), rng.uniform(0, 1, 6)
    r, left_out, log_E = np.array([0.1]), np.array([3]), np.empty((RATES.size, 1))
    above = np.empty_like(log_E)
    for from_above, result in ((False, log_E), (True, above)):
        pair_evidence(np.array([0, 6]), n, X, r, left_out, RATES, 1.0, from_above, result)
    assert (above >= log_E).all()
    b = np.linspace(0, 1, 20001)[:, None]
    for rate, found in zip(RATES, log_E[:, 0], strict=True):
        cost = (n.sum() + 3) * (rate * 0.1 / 2 + rate**2 / 8)
        least = np.log(np.cosh(rate * n * (X - b))).sum(axis=1).min() - cost
        assert found <= least + 1e-9
        if least > 0:
            assert found == pytest.approx(least, abs=1e-3)


def stop_if_unremarkable(k, total, visits):
    """Go on with a pair only while its outcomes are extreme."""
    return visits >= 2 and 0 < total < visits


@pytest.mark.parametrize("stops", [stop_if_unremarkable, lambda *_: False])
@pytest.mark.parametrize("drops", [True, False])
def test_mean_evidence_against_a_true_claim_is_at_most_1_whatever_the_agent_visits(stops, drops):
    """Tasks differ by exactly what is claimed; tasks without a known pair may be dropped."""
    claim, found = 0.2, []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        agent = agent_with(claim, on_refutation="ignore")
        for j in range(4):
            p = 0.4 + claim * (j % 2)
            agent.begin_task()
            for k in range(4):
                total = 0
                for visits in range(1, N + 1):
                    x = int(rng.uniform() < p)
                    agent.observe(*divmod(k, 2), float(x), x, terminated=False)
                    total += x
                    if stops(k, total, visits):
                        break
            if drops and not agent.known.any():
                agent.drop_task()
            else:
                agent.end_task()
        pooled = evidence(agent, claim)
        found.append(0.0 if pooled is None else pooled.e)
    error = np.std(found) / math.sqrt(len(found))
    assert np.mean(found) <= 1 + 3 * error


@pytest.mark.parametrize("ends_at", [looks_extreme(1.5), looks_extreme(2.5), is_fixed])
def test_mean_evidence_against_a_true_claim_is_at_most_1_when_tasks_end_as_they_look_extreme(
    ends_at,
):
    """Tasks differ by exactly what is claimed, and have up to 1000 visits of each pair."""
    claim, found = 0.1, []
    claims = Claims(hl.Nearness(rewards=claim, transitions=claim), None)
    for seed in range(400):
        rng = np.random.default_rng(seed)
        memory = stopped_memory([0.45, 0.55] * 2, rng, ends_at, last=1000)
        found.append(pooled_evidence(memory, claims, memory.setting).e)
    error = np.std(found) / math.sqrt(len(found))
    assert np.mean(found) <= 1 + 3 * error


def test_evidence_at_moments_that_are_chosen_in_hindsight_is_not_valid():
    """So that the test above has power, and the last of several looks would not do."""
    found, claims = [], Claims(hl.Nearness(rewards=0.0, transitions=0.0), None)
    for seed in range(200):
        rng = np.random.default_rng(seed)
        memory = stopped_memory([0.5] * 8, rng, was_most_extreme, last=200)
        found.append(min(pooled_evidence(memory, claims, memory.setting).e, 20.0))
    error = np.std(found) / math.sqrt(len(found))
    assert np.mean(found) > 1 + 3 * error


def test_small_difference_is_detected_after_many_visits():
    """A difference of 0.03 where 0.01 is claimed."""
    near = hl.Nearness(rewards=0.01, transitions=1.0)
    for n, is_found in ((100, False), (20_000, True)):
        memory = stopped_memory([0.485, 0.515] * 4, np.random.default_rng(0), is_fixed, last=n)
        pooled = pooled_evidence(memory, Claims(near, None), memory.setting)
        assert pooled.refutes(0.05) == is_found


def test_visits_of_pairs_that_are_not_known_weaken_the_evidence():
    values = []
    for visits in (0, N - 1):
        memory = memory_of("rewards", 0.9, N, np.random.default_rng(0))
        model = hl.LearnedModel(2, 2, n_known=N)
        for k in range(4 * visits):
            model.observe(k // 2 % 2, k % 2, 0.5, 0, terminated=False)
        assert not model.known.any()
        memory.add(hl.bounds.Source.of(model, np.full(4, 2.0)))
        near = hl.Nearness(rewards=0.1, transitions=1.0)
        values.append(pooled_evidence(memory, Claims(near, None), memory.setting).log_e)
    assert values[1] < values[0]


@pytest.mark.parametrize("seed", seeds(10))
def test_evidence_decreases_as_the_claim_grows(seed):
    memory = memory_of("transitions", 0.8, N, np.random.default_rng(seed))
    logs = []
    for t in (0.0, 0.1, 0.3, 0.8, 1.0):
        near = hl.Nearness(rewards=1.0, transitions=t)
        logs.append(pooled_evidence(memory, Claims(near, None), memory.setting).log_e)
    assert (np.diff(logs) <= 1e-12).all()


def learn(agent, probabilities):
    for seed, p in enumerate(probabilities):
        task = small_task(p, exact=False)
        hl.learn(agent, task, episodes=10, max_steps=20, seed=seed)


FALSE = [0.05, 0.95] * 4


def test_claim_that_no_single_pair_can_refute_is_refuted_by_all_together():
    agent = agent_with(0.1, refresh=None, on_refutation="raise", explore=0.5)
    with pytest.raises(hl.errors.RefutedKnowledge, match=r"tasks together \(pooled evidence e = "):
        learn(agent, FALSE)
    found = hl.audit(agent.memory, hl.Nearness(rewards=0.1, transitions=0.1))
    assert found.contradicted
    assert not found.contradictions
    assert "pooled evidence: e = " in str(found)
    assert "no single pair" in found.verdict
    agent = agent_with(0.1, refresh=None, explore=0.5)
    with pytest.warns(hl.errors.RefutedKnowledgeWarning, match="together") as warned:
        learn(agent, FALSE)
    assert len(warned) == 1


def test_widening_after_pooled_evidence_makes_the_evidence_vanish():
    agent = agent_with(0.1, on_refutation="widen", explore=0.5)
    learn(agent, FALSE)
    assert agent.refutation.n_widened == 1
    near = agent.bounds[0].nearness
    assert pooled_evidence(agent.memory, Claims(near, None), agent.setting).e < 1


@pytest.mark.parametrize("d_max", [0.1, np.full((2, 2), 0.1)])
def test_widened_d_max_is_no_longer_refuted(d_max):
    agent = hl.LRMax(d_max=d_max, seed=0, on_refutation="widen", explore=0.5, **OPTIONS)
    learn(agent, FALSE)
    assert agent.refutation.n_widened == 1
    claims = claims_of(agent.bounds)
    assert pooled_evidence(agent.memory, claims, agent.setting).e < 1


def test_saved_memory_keeps_the_number_of_visits(tmp_path):
    agent = agent_with(0.1, on_refutation="ignore")
    learn(agent, [0.2, 0.8])
    agent.memory.save(tmp_path / "memory")
    loaded = hl.TaskMemory.load(tmp_path / "memory")
    assert np.array_equal(loaded.visits.counts, agent.memory.visits.counts)
    assert (loaded.visits.counts > 0).any()


def test_evidence_is_unknown_if_visits_were_not_recorded():
    agent = agent_with(0.1, on_refutation="ignore")
    learn(agent, [0.2, 0.8])
    given = hl.TaskMemory(agent.n_states, agent.n_actions)
    given.bind(agent.setting)
    for source in agent.memory.sources:
        rows = source.rows
        is_given = {"counts": rows.counts * 0, "known": rows.exist}
        given.add(hl.bounds.Source(rows._replace(**is_given), source.Q, source.V))
    claims = Claims(hl.Nearness(rewards=0.1, transitions=0.1), None)
    assert pooled_evidence(given, claims, agent.setting) is None
    assert hl.audit(given, claims.nearness).pooled_e is None


def test_evidence_is_pooled_after_powers_of_two():
    assert [n for n in range(50) if is_due(n)] == [2, 4, 8, 16, 32]


@pytest.mark.parametrize("seed", range(5))
def test_agent_that_widens_ends_optimal_in_stochastic_tasks_that_contradict_its_claim(seed):
    """The contradiction shows at pairs that become known: each arm is tried by exploration."""
    rng = np.random.default_rng(seed)
    near = hl.Nearness(rewards=0.05, transitions=0.05)
    sizes = {"n_states": 2, "n_actions": 3, "gamma": 0.5, "terminating": False}
    agent = hl.NearRMax(
        nearness=near, n_known=200, seed=seed, on_refutation="widen", explore=0.1, **sizes
    )
    for j in range(4):
        p = np.roll([0.1, 0.4, 0.9], j) + rng.uniform(-0.05, 0.05, 3)
        T = np.broadcast_to(np.stack([1 - p, p], axis=1), (2, 3, 2))
        R = np.zeros((2, 3, 2))
        R[:, :, 1] = 1.0
        hl.learn(agent, hl.TabularMDP(R, T, gamma=0.5), episodes=40, max_steps=1000, seed=seed)
        assert (agent.policy == p.argmax()).all()
    assert agent.refutation.n_widened > 0
