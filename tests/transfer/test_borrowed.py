"""Borrowed visits: pooled ones, those of a group of tasks, and those of pairs that behave alike."""

import math

import numpy as np
import pytest

import heirloom as hl
from heirloom.bounds import Groups
from heirloom.transfer.borrowed import lend
from tests.strategies import draw_task, restricted, seeds

S, A = 6, 2
SIZES = {"n_states": S, "n_actions": A, "gamma": 0.9}
LENGTH = {"episodes": 40, "max_steps": 10}


def draw(seed, **options):
    return hl.garnet(S, A, branching=2, gamma=0.9, seed=seed, terminating=0.2, **options)


AGENTS = {
    "RMax with 3 pooled visits": lambda **o: hl.RMax(pool=3, **o),
    "RMax with all visits pooled": lambda **o: hl.RMax(pool=np.inf, **o),
    "frozen RMax with pooled visits": lambda **o: hl.RMax(pool=np.inf, refresh=None, **o),
    "UCBVI with pooled visits": lambda **o: hl.UCBVI(pool=20, **o),
    "UCBVI with a nearness": lambda **o: hl.UCBVI(
        nearness=hl.Nearness(rewards=1, transitions=0.5), **o
    ),
    "FMRL": lambda **o: hl.FMRL(first=1, gap=0.3, **o),
    "TempLe": lambda **o: hl.TempLe(n_matched=3, m=6, **o),
}


@pytest.mark.parametrize("name", AGENTS)
def test_a_source_contains_the_visits_of_its_own_task_only(name):
    agent = AGENTS[name](**SIZES, seed=0)
    for i in range(4):
        record = hl.learn(agent, draw(i % 2), **LENGTH, seed=i)
        source = agent.memory.sources[-1]
        assert source.rows.counts.sum() <= record.n_steps
        assert agent.model.own_counts.sum() == record.n_steps
        visited = source.rows.counts > 0
        assert np.array_equal(
            source.rows.counts[visited], agent.model.own_counts.reshape(-1)[visited]
        )
    assert agent.memory.pooled.counts.sum() == sum(
        s.rows.counts.sum() for s in agent.memory.sources
    )


@pytest.mark.parametrize("name", AGENTS)
def test_compiled_and_step_by_step_learning_are_identical(name):
    compiled, stepped = (AGENTS[name](**SIZES, seed=0) for _ in range(2))
    for i in range(5):
        m = draw(i % 2)
        hl.learn(compiled, m, **LENGTH, seed=i)
        hl.learn(stepped, m.to_gymnasium(), **LENGTH, seed=i)
        assert np.array_equal(compiled.model.counts, stepped.model.counts)
        assert np.array_equal(compiled.Q, stepped.Q)
        own, other = (agent.memory.sources[-1].rows for agent in (compiled, stepped))
        assert all(np.array_equal(x, y) for x, y in zip(own, other, strict=True))


@pytest.mark.parametrize("name", AGENTS)
def test_a_loaded_agent_continues_as_if_it_had_not_been_saved(name, tmp_path):
    agent = AGENTS[name](**SIZES, seed=0)
    for i in range(2):
        hl.learn(agent, draw(i), **LENGTH, seed=i)
    agent.save(tmp_path / "agent")
    loaded = hl.OptimisticAgent.load(tmp_path / "agent")
    for one in (agent, loaded):
        hl.learn(one, draw(0), **LENGTH, seed=2)
    assert np.array_equal(agent.Q, loaded.Q)
    assert np.array_equal(agent.model.counts, loaded.model.counts)


@pytest.mark.parametrize("seed", seeds(20))
def test_a_model_that_borrows_equals_one_that_saw_everything(seed):
    rng = np.random.default_rng(seed)
    m = draw_task(rng)
    first, second, both = (
        hl.LearnedModel(m.n_states, m.n_actions, n_known=2, refresh=1.5) for _ in range(3)
    )
    env = m.to_gymnasium()
    s, _ = env.reset(seed=seed)
    steps = []
    for _ in range(300):
        a = int(rng.choice(np.flatnonzero(m.available[s])))
        s_next, r, terminated, _, _ = env.step(a)
        steps.append((s, a, r, s_next, terminated))
        s = env.reset()[0] if terminated else s_next
    for i, (*step, terminated) in enumerate(steps):
        (first if i < 200 else second).observe(*step, terminated=terminated)
        both.observe(*step, terminated=terminated)
    alone = second.all_visits
    lend(second, first.all_visits)
    assert np.array_equal(second.counts, both.counts)
    after = second.all_visits
    assert np.array_equal(after.counts, alone.counts)
    assert np.array_equal(after.p, alone.p)
    assert np.allclose(after.R, alone.R, atol=1e-12)
    for model in (second, both):
        for k in np.flatnonzero(model.known.reshape(-1)):
            model._look(int(k))
    known = both.known.reshape(-1)
    assert np.array_equal(second.known, both.known)
    assert np.allclose(second.R.reshape(-1)[known], both.R.reshape(-1)[known], atol=1e-12)
    assert np.allclose(second.ends, both.ends)
    for k in np.flatnonzero(known).tolist():
        one, other = (model.successors(*divmod(k, m.n_actions)) for model in (second, both))
        assert one.keys() == other.keys()
        assert all(math.isclose(one[s], other[s]) for s in one)


@pytest.mark.parametrize("most", [1, 2, 7, 30, 10.5])
def test_pooled_visits_add_up_to_the_number_that_was_asked_for(most):
    first = hl.RMax(**SIZES, seed=0)
    hl.learn(first, draw(0), episodes=200, max_steps=10, seed=0)
    rows = first.model.all_visits
    model = hl.LearnedModel(S, A, n_known=2)
    lend(model, rows, most)
    expected = np.minimum(rows.counts, math.floor(most))
    assert np.array_equal(model.counts.reshape(-1), expected)
    assert not model.own_counts.any()
    assert not model.all_visits.counts.any()


def test_pooling_all_visits_of_equal_tasks_gives_the_values_of_all_visits():
    agent = hl.RMax(**SIZES, pool=np.inf, seed=0)
    for i in range(3):
        hl.learn(agent, draw(0), **LENGTH, seed=i)
    pooled = agent.memory.pooled
    agent.begin_task()
    assert np.array_equal(agent.model.counts.reshape(-1), pooled.counts)
    known = agent.known.reshape(-1)
    assert np.array_equal(known, pooled.counts >= agent.n_known)
    assert np.allclose(agent.model.R.reshape(-1)[known], pooled.R[known])
    m = agent.model.to_mdp(gamma=0.9, unknown="optimistic")
    assert np.allclose(agent.Q, hl.solve(m).Q, atol=2e-3 * 10)


def test_a_mask_that_excludes_a_pooled_action_is_accepted():
    agent = hl.RMax(**SIZES, pool=np.inf, seed=0)
    hl.learn(agent, draw(0), **LENGTH, seed=0)
    agent.begin_task()
    agent.observe_mask(0, [1, 0])
    assert agent.act(0) == 0
    assert np.isneginf(agent.Q[0, 1])
    agent.drop_task()
    available = np.ones((S, A), dtype=bool)
    available[0, 1] = False
    agent.begin_task(available=available)
    assert agent.model.counts[0, 1] == 0


def test_pool_of_a_negative_number_of_visits_is_refused():
    with pytest.raises(hl.errors.InvalidArgument, match="pool is -1: expected a number of visits"):
        hl.RMax(**SIZES, pool=-1)


@pytest.mark.parametrize(
    ("name", "value"), [("pairs", S * A), ("pairs", -1), ("states", S + 1), ("times", 0)]
)
def test_indices_that_compiled_code_cannot_use_are_refused(name, value):
    model = hl.LearnedModel(S, A, n_known=2)
    given = {"pairs": np.array([0]), "states": np.array([1]), "times": np.array([1])}
    with pytest.raises(hl.errors.InvalidArgument, match=f"{name} is .*: expected whole numbers"):
        model.borrow(**{**given, name: np.array([value])}, R=np.array([0.5]))
    with pytest.raises(hl.errors.InvalidArgument, match="as many as mean rewards"):
        model.borrow(**given, R=np.array([0.5, 0.5]))


def test_wide_rows_and_many_entries_have_room():
    """One doubling of the arrays is not enough."""
    n = 3000
    model = hl.LearnedModel(n, 1, n_known=1)
    zeros, ones = np.zeros(n, dtype=np.int64), np.ones(n, dtype=np.int64)
    model.borrow(zeros, np.arange(n), ones, np.zeros(n))
    assert model._arrays.p.size >= n
    assert len(model.successors(0, 0)) == n
    model = hl.LearnedModel(1000, 2, n_known=200)
    pairs = np.repeat([0, 1], [199, 57])
    states = np.concatenate([np.arange(199), np.arange(57)])
    model.borrow(pairs, states, np.ones(256, dtype=np.int64), np.zeros(256))
    model.observe(1, 0, 0.0, 5, terminated=False)
    assert model._arrays.outcomes.size > 256
    assert model.own_counts.sum() == 1


@pytest.mark.parametrize("kind", [hl.TempLe, hl.FMRL])
def test_rewards_that_are_all_equal_are_no_problem(kind):
    m = hl.TabularMDP(
        np.full((3, 2), 0.5), np.full((3, 2, 3), 1 / 3), gamma=0.9, reward_range=(0.5, 0.5)
    )
    agent = kind(n_states=3, n_actions=2, gamma=0.9, reward_range=(0.5, 0.5), seed=0)
    for i in range(5):
        hl.learn(agent, m, episodes=30, max_steps=10, seed=i)
    assert np.allclose(agent.Q, 5.0)


def test_borrowed_visits_cannot_hide_that_a_nearness_is_false():
    near = hl.Nearness(rewards=0.1, transitions=0.1)
    with pytest.raises(hl.errors.InvalidArgument, match="give one of the two"):
        hl.UCBVI(**SIZES, pool=3, nearness=near)
    bounds = [hl.bounds.PooledVisits(most=3), hl.NearModels(near)]
    with pytest.raises(hl.errors.InvalidArgument, match="could not be refuted"):
        hl.OptimisticAgent(bounds=bounds, **SIZES).begin_task()


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (hl.bounds.Bonuses, {"kind": "bernstien"}, "bonus is 'bernstien'"),
        (hl.bounds.Bonuses, {"scale": np.nan}, "scale is nan"),
        (hl.bounds.ConfidenceSets, {"sets": "L1"}, "sets is 'L1'"),
        (hl.bounds.ConfidenceSets, {"delta": 0.0}, "delta is 0"),
        (hl.bounds.GrowingShare, {"m": 0}, "m is 0"),
        (hl.bounds.Templates, {"distance": 0.1, "m": 0}, "m is 0"),
        (hl.bounds.PooledVisits, {"most": -1.0}, "pool is -1"),
    ],
)
def test_evidence_refuses_wrong_arguments(kind, options, message):
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        kind(**options)


def plain_evidence(agent, history, groups):
    """c and Δ of FMRL, by a loop over all steps, for two groups given as dense models."""
    c, delta = np.zeros((2, 2)), np.zeros((2, 2))
    log = math.log(2 / 0.01) + 2
    for s, a, r, s_next, terminated in history:
        z = np.zeros(S + 2)
        z[S if terminated else s_next], z[-1] = 1, r
        for i in range(2):
            for j in range(2):
                theta = [groups[g][0][s * A + a] for g in (i, j)]
                visits = min(groups[g][1][s * A + a] for g in (i, j))
                apart = np.linalg.norm(theta[0] - theta[1])
                if visits and apart >= math.sqrt(2 / visits * log):
                    c[i, j] += apart**2 / 4
                    delta[i, j] += ((theta[0] - z) ** 2).sum() - ((theta[1] - z) ** 2).sum()
    return c, delta


def test_evidence_of_fmrl_is_the_sum_over_all_steps():
    agent = hl.FMRL(first=2, gap=0.3, evidence=1e9, n_known=1, refresh=1.0001, **SIZES, seed=0)
    for i in range(2):
        hl.learn(agent, draw(i), episodes=300, max_steps=10, seed=i)
    groups = []
    for source in agent.memory.sources:
        rows, theta = source.rows, np.zeros((S * A, S + 2))
        for k in range(S * A):
            theta[k, rows.successors[rows.first[k] : rows.last[k]]] = rows.p[
                rows.first[k] : rows.last[k]
            ]
            theta[k, S], theta[k, -1] = rows.ends[k], rows.R[k]
        groups.append((theta, rows.counts))
    agent.begin_task()
    (found,) = agent.bounds
    assert isinstance(found, Groups)
    assert found.candidates == [0, 1]
    env, history = draw(1).to_gymnasium(), []
    s, _ = env.reset(seed=0)
    for _ in range(100):
        a = agent.act(s)
        s_next, r, terminated, _, _ = env.step(a)
        agent.observe(s, a, r, s_next, terminated=terminated)
        history.append((s, a, r, s_next, terminated))
        s = env.reset()[0] if terminated else s_next
    c, delta = plain_evidence(agent, history, groups)
    assert np.allclose(found._c, c)
    assert np.allclose(found._delta, delta)


def test_fmrl_recognises_a_task_that_it_has_seen():
    for seed in range(5):
        agent = hl.FMRL(first=2, gap=0.3, **SIZES, seed=seed)
        for i in range(2):
            hl.learn(agent, draw(i), episodes=300, max_steps=10, seed=i)
        for i in (0, 1, 1, 0):
            hl.learn(agent, draw(i), episodes=100, max_steps=10, seed=i)
            assert agent.bounds[0].candidates == [i]
            assert agent.model.counts.sum() > agent.model.own_counts.sum()
        assert len(agent.bounds[0]._groups) == 2


def test_pairs_of_one_template_lend_each_other_their_visits():
    """All actions have the same row up to the names of successors: one template."""
    T = np.zeros((S, A, S))
    for s in range(S):
        for a in range(A):
            T[s, a, (s + 1 + a) % S], T[s, a, (s + 3) % S] = 0.9, 0.1
    m = hl.TabularMDP(np.full((S, A), 0.5), T, gamma=0.9)
    agent = hl.TempLe(n_matched=20, m=200, distance=0.25, **SIZES, seed=0)
    hl.learn(agent, m, episodes=150, max_steps=10, seed=0)
    own, all_visits = agent.model.own_counts, agent.model.counts
    assert ((all_visits >= 200) & (own < 200)).any()
    for s, a in np.argwhere(all_visits >= 200):
        likely = max(agent.model.successors(s, a).items(), key=lambda item: item[1])
        assert likely[0] == (s + 1 + a) % S
        assert abs(likely[1] - 0.9) < 0.1


@pytest.mark.parametrize("name", AGENTS)
def test_actions_that_are_missing_in_a_later_task_are_never_taken(name):
    agent, m = AGENTS[name](**SIZES, seed=0), draw(0)
    hl.learn(agent, m, **LENGTH, seed=0)
    available = np.ones((S, A), dtype=bool)
    available[np.arange(S), agent.policy] = False  # the actions that it would like to take
    masked = restricted(m, available)
    hl.learn(agent, masked, **LENGTH, seed=1)
    assert not agent.model.counts[~masked.available].any()
    assert agent.model.own_counts.sum() > 0
