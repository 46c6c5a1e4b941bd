"""CertifiedRMax: exploration for certificates, safe episodes, and what refutes knowledge."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.agents.candidates import Candidate
from heirloom.envs.paper_families import Tight
from heirloom.errors import (
    InvalidArgument,
    RefutedKnowledge,
    RefutedKnowledgeWarning,
    WrongOrder,
)
from heirloom.mdp.transitions import Entries, collect
from tests.agents.test_certificate import family, options_of
from tests.strategies import seeds

FAMILY = Tight()
TASKS = [FAMILY.draw(np.random.default_rng(i)) for i in range(2)]
START = int(TASKS[0].start.argmax())


def certified(**options):
    known = {"nearness": FAMILY.nearness, "rewards": "per transition", "seed": 0}
    return hl.CertifiedRMax(**FAMILY.options, **{**known, **options})


@pytest.fixture(scope="module")
def experienced():
    """An agent that has learned a task."""
    agent = certified()
    hl.learn(agent, TASKS[0], episodes=4000, max_steps=50, seed=0)
    return agent


@pytest.mark.parametrize("options", [{}, {"floor": 0.8, "start": START}])
def test_compiled_code_and_single_steps_give_the_same_bits(options):
    compiled, stepwise = certified(**options), certified(**options)
    for m in TASKS:
        results = [
            hl.learn(agent, env, episodes=20, max_steps=20, seed=1)
            for agent, env in ((compiled, m), (stepwise, m.to_gymnasium()))
        ]
        assert np.array_equal(results[0].returns, results[1].returns)
        assert np.array_equal(compiled.Q, stepwise.Q)
        assert np.array_equal(compiled.task.starts, stepwise.task.starts)
        assert compiled.task.starts.sum() == 20
    assert str(compiled.certificate()) == str(stepwise.certificate())


def test_saved_agent_goes_on_as_before(tmp_path):
    prices = np.full(TASKS[0].R.shape, 0.5)
    agent = certified(floor=0.5, start=START, rewards=prices, terminates=False)
    hl.learn(agent, TASKS[0], episodes=5, max_steps=20, seed=0)
    agent.save(tmp_path / "agent.heirloom")
    loaded = hl.CertifiedRMax.load(tmp_path / "agent.heirloom")
    assert np.array_equal(loaded.declared.rewards, prices.reshape(-1))
    assert np.array_equal(loaded.declared.start, agent.declared.start)
    assert not loaded.declared.terminates.any()
    results = [hl.learn(one, TASKS[1], episodes=5, max_steps=20, seed=1) for one in (agent, loaded)]
    assert np.array_equal(results[0].returns, results[1].returns)


def test_declared_successors_are_saved(tmp_path):
    near = FAMILY.nearness
    agent = hl.RMax(successors=near.successors, rewards="per transition", **FAMILY.options)
    agent.save(tmp_path / "agent.heirloom")
    declared = hl.RMax.load(tmp_path / "agent.heirloom").declared
    assert declared.rewards == "per transition"
    assert np.array_equal(declared.successors.states, near.successors.states)


def test_upper_values_fall_within_a_task_and_bound_the_optimum():
    agent, m = certified(), TASKS[0]
    agent.begin_task()
    before = agent.Q.copy()
    for i in range(3):
        hl.learn(agent, m, episodes=30, max_steps=50, seed=i, resume=True)
        agent.in_task = True  # go on with the task that ended
        assert (agent.Q <= before + 1e-9).all()
        assert (agent.Q >= hl.solve(m).Q - 1e-9).all()
        before = agent.Q.copy()
    agent.in_task = False


def test_learning_stops_when_a_policy_is_certified(experienced, tmp_path):
    experienced.save(tmp_path / "agent.heirloom")
    m = TASKS[1]
    V = float(hl.solve(m).V @ m.start)
    agent = hl.CertifiedRMax.load(tmp_path / "agent.heirloom")
    result = hl.learn(agent, m, episodes=1500, max_steps=50, seed=3, until=0.25, delta=0.1)
    found = result.certificate
    assert result.is_certified
    assert found.relative_gap <= 0.25
    assert found.lower_from == "rollouts"
    assert found.lower <= hl.evaluate(m, found.policy).V @ m.start <= V <= found.optimum_at_most
    assert result.returns.size == result.discounted_returns.size < 1500
    assert "certified: a gap of" in repr(result)


def test_learning_until_a_certificate_gives_the_same_bits_in_compiled_code_and_single_steps():
    results = []
    for env in (TASKS[0], TASKS[0].to_gymnasium()):
        agent = certified(start=START)
        results.append(hl.learn(agent, env, episodes=60, max_steps=20, seed=2, until=0.9))
    first, second = results
    assert np.array_equal(first.returns, second.returns)
    assert first.n_steps == second.n_steps
    assert np.array_equal(first.update_steps, second.update_steps)
    assert str(first.certificate) == str(second.certificate)


def test_learning_says_that_all_episodes_are_used_up():
    calls = []
    agent = certified(start=START)
    result = hl.learn(
        agent,
        TASKS[0],
        episodes=5,
        max_steps=20,
        seed=0,
        until=0.01,
        callback=lambda done, n: calls.append((done, n)),
    )
    assert result.returns.size == 5
    assert not result.is_certified
    assert "not certified, all episodes are used up: a gap of 100" in repr(result)
    assert calls[-1] == (5, 5)


@pytest.mark.parametrize(
    ("agent", "options", "message"),
    [
        (certified, {"until": 0}, "until is 0: expected a number above 0"),
        (certified, {"until": 0.1, "record": True}, "record and until are given"),
        (lambda: hl.QLearning(**FAMILY.options), {"until": 0.1}, "QLearning has no certificates"),
    ],
)
def test_invalid_stopping_rules_are_refused(agent, options, message):
    with pytest.raises(InvalidArgument, match=message):
        hl.learn(agent(), TASKS[0], episodes=2, max_steps=2, **options)


def test_floor_and_exploratory_steps_exclude_each_other():
    with pytest.raises(InvalidArgument, match=r"floor is 0.5 and explore is 0.1"):
        certified(floor=0.5, explore=0.1)


@pytest.mark.parametrize("floor", [0.5, 0.9, 1.0])
@pytest.mark.parametrize("seed", seeds(20))
def test_safe_episodes_keep_their_promise(floor, seed):
    """Σ (V^π - v_min) >= floor Σ (b - v_min) after every episode, with exact values of policies."""
    rng = np.random.default_rng(seed)
    tasks, nearness = family(rng, "per transition")
    m = tasks[0]
    known = {"nearness": nearness, "rewards": "per transition", "seed": seed, "start": m.start}
    agent = hl.CertifiedRMax(**options_of(m), **known, floor=floor)
    for m in tasks[:2]:
        kept = guaranteed = 0.0
        agent.begin_task()
        env, sets = m.to_gymnasium(), agent.bounds[0]
        s, _ = env.reset(seed=seed)
        for _ in range(60):
            before = sets.guaranteed
            agent.begin_episode()
            b, policy = sets.guaranteed - before, agent.policy
            v_min = agent.certificate().v_min
            kept += float(hl.evaluate(m, policy).V @ m.start) - v_min
            guaranteed += b
            assert sets.guaranteed == pytest.approx(guaranteed, abs=1e-12)
            assert sets.promised >= floor * sets.guaranteed * (1 - 1e-12)
            assert kept >= floor * guaranteed - 1e-9 * max(1.0, guaranteed)
            for _ in range(30):
                a = agent.act(s)
                assert a == policy[s]
                s_next, r, terminated, _, _ = env.step(a)
                agent.observe(s, a, r, s_next, terminated=terminated)
                s = s_next
                if terminated:
                    break
            s, _ = env.reset()
        agent.end_task()


@pytest.mark.slow
def test_safe_agent_earns_what_is_guaranteed_while_it_explores(experienced):
    safe = certified(floor=0.9, start=START, memory=experienced.memory)
    m = TASKS[1]
    result = hl.learn(safe, m, episodes=300, max_steps=50, seed=0)
    sets = safe.bounds[0]
    assert sets.guaranteed > 0
    assert sets.promised >= 0.9 * sets.guaranteed
    # The expected returns of cut episodes are below values, by the last 50 steps at most.
    mean = sets.guaranteed / 300
    assert result.discounted_returns.mean() >= 0.9 * mean - 0.9**50 * 10 - 0.2


def test_certificate_before_the_first_step_follows_from_earlier_tasks(experienced):
    agent, m = certified(memory=experienced.memory), TASKS[1]
    agent.begin_task()
    found = agent.certificate(start=m.start)
    V = float(hl.solve(m).V @ m.start)
    assert found.v_min < found.lower <= hl.evaluate(m, found.policy).V @ m.start
    assert V <= found.optimum_at_most < agent.setting.v_max
    assert "the policy is worth at least" in str(found)
    assert found.n_visited == 0


def with_prices(m, prices):
    """Return a task with the transitions of another one, and these mean rewards."""
    t = m.transitions
    ends = np.zeros(t.p.size, dtype=bool) if t.ends is None else t.ends
    outcomes = Entries(t.pairs, t.successors, t.p, prices.reshape(-1)[t.pairs], ends)
    rows = collect(outcomes, m.n_states, m.n_actions)
    return hl.TabularMDP.from_transitions(rows, gamma=m.gamma, start=m.start)


def test_new_price_list_comes_with_a_certificate_before_the_first_step():
    """All tasks have the same transitions: their visits are pooled, whatever the prices are."""
    rng, base = np.random.default_rng(0), TASKS[0]
    near = hl.Nearness(rewards=1.0, transitions=0.0, successors=FAMILY.nearness.successors)
    agent = hl.CertifiedRMax(nearness=near, **FAMILY.options, rewards="per transition", seed=0)
    gap = None
    for i in range(3):
        prices = base.R * rng.uniform(0.9, 1.0)
        m = with_prices(base, prices)
        agent.begin_task()
        found = agent.certificate(start=m.start, rewards=prices)
        assert gap is None or found.relative_gap <= 1.1 * gap
        agent.drop_task()
        hl.learn(agent, m, episodes=3000, max_steps=50, seed=i)
        found = agent.certificate(start=m.start, rewards=prices)
        gap = found.relative_gap
        assert found.lower <= hl.evaluate(m, found.policy).V @ m.start
        assert found.optimum_at_most >= hl.solve(m).V @ m.start
    assert gap < 0.5


def test_rollouts_after_a_task_count_once_for_pooled_visits():
    """Visits of a task that has ended are in the memory, and those of later rollouts, too."""
    base = TASKS[0]
    near = hl.Nearness(rewards=1.0, transitions=0.0, successors=FAMILY.nearness.successors)
    agent = hl.CertifiedRMax(nearness=near, **FAMILY.options, rewards="per transition", seed=0)
    hl.learn(agent, base, episodes=50, max_steps=50, seed=0)
    hl.certify(agent, base, episodes=10, max_steps=20, seed=0, rewards=base.R.copy())
    n = agent.model.own_counts.sum()
    assert agent.memory.visits.counts.sum() == n == 50 * 50 + 10 * 20
    agent.begin_task()
    agent.certificate(rewards=base.R.copy())
    (values,) = agent.task.certified
    assert values._known.base_times.sum() == n
    agent.drop_task()


def bandit(reward):
    """Return a task with one state, and two actions that pay 0.5 or `reward`."""
    return hl.TabularMDP(
        R=np.array([[0.5, reward]]), T=np.ones((1, 2, 1)), gamma=0.5, reward_range=(0.0, 1.0)
    )


SIZES = {"n_states": 1, "n_actions": 2, "gamma": 0.5}
FALSE = hl.Nearness(rewards=0.0, transitions=0.0)


def refuted(**options):
    """Return an agent whose second task contradicts the claim that all tasks are equal."""
    agent = hl.RMax(explore=0.5, seed=0, **SIZES, **options)
    for reward in (0.0, 1.0):
        hl.learn(agent, bandit(reward), episodes=2, max_steps=2000, seed=0)
    return agent


def test_certificate_that_contradicts_a_nearness_refutes_it_and_uses_own_visits():
    agent = refuted()
    with pytest.warns(RefutedKnowledgeWarning, match=r"the nearness is refuted: the value of"):
        found = agent.certificate(nearness=FALSE, rewards="per transition")
    own = agent.certificate(rewards="per transition")
    assert found.lower == own.lower > 1.5
    assert found.optimum_at_most == own.optimum_at_most
    assert not agent.refutation.is_refuted  # it is not the agent's own


def test_agent_gives_up_its_own_nearness_if_a_certificate_refutes_it():
    agent = hl.CertifiedRMax(nearness=FALSE, explore=0.5, seed=0, **SIZES)
    hl.learn(agent, bandit(0.0), episodes=2, max_steps=2000, seed=0)
    agent.begin_task()
    for _ in range(200):
        agent.task.model._count(1, 1.0, 0)  # without a plan
    with pytest.warns(RefutedKnowledgeWarning, match="the nearness is refuted"):
        found = agent.certificate(start=0)
    assert agent.refutation.is_refuted
    assert agent.bounds[0].nearness is None
    assert found.lower == agent.certificate(start=0).lower > 1.0
    agent.drop_task()


def test_nearness_can_be_refuted_after_the_end_of_a_task_and_never_by_an_explanation():
    agent = hl.CertifiedRMax(
        nearness=FALSE, rewards="per transition", explore=0.5, seed=0, **SIZES, start=0
    )
    hl.learn(agent, bandit(0.0), episodes=2, max_steps=2000, seed=0)
    agent.begin_task()
    for _ in range(200):
        agent.task.model._count(1, 1.0, 0)  # without a plan
    agent.task.planner._check_at = np.inf
    agent.end_task()
    agent.explain()
    assert agent.bounds[0].nearness is FALSE
    with pytest.warns(RefutedKnowledgeWarning, match="the nearness is refuted"):
        found = agent.certificate()
    assert agent.bounds[0].nearness is None
    assert found.lower > 1.0


def test_agent_gives_up_its_nearness_within_a_task():
    agent = hl.CertifiedRMax(
        nearness=FALSE, rewards="per transition", explore=0.5, on_refutation="widen", **SIZES
    )
    hl.learn(agent, bandit(0.0), episodes=1, max_steps=2000, seed=0)
    agent.begin_task()
    hl.learn(agent, bandit(1.0), episodes=1, max_steps=600, seed=1, resume=True)
    assert agent.refutation.n_widened == 1
    assert agent.Q.max() >= 2.0 - 1e-9


@pytest.mark.parametrize("reaction", ["widen", "ignore", "warn"])
@pytest.mark.filterwarnings("ignore::heirloom.errors.RefutedKnowledgeWarning")
def test_successor_that_only_the_nearness_excludes_refutes_it(reaction):
    stays = np.zeros((2, 1, 2), dtype=bool)
    stays[0, 0, 0] = stays[1, 0, 1] = True
    near = hl.Nearness(rewards=1.0, transitions=1.0, successors=stays)
    agent = hl.CertifiedRMax(
        nearness=near, on_refutation=reaction, n_states=2, n_actions=1, gamma=0.5
    )
    agent.begin_task()
    for s_next in (0, 0, 1):
        agent.observe(0, 0, 0.5, s_next, terminated=False)
    assert agent.bounds[0].nearness is None
    assert np.isfinite(agent.certificate(start=0).optimum_at_most)
    agent.end_task()


def test_rollouts_above_the_optimum_of_a_false_nearness_refute_it():
    near = hl.Nearness(rewards=0.05, transitions=0.0)
    agent = hl.RMax(n_states=1, n_actions=2, gamma=0.9, seed=0, start=0)
    m = hl.TabularMDP(R=np.zeros((1, 2)), T=np.ones((1, 2, 1)), gamma=0.9)
    hl.learn(agent, m, episodes=200, max_steps=50, seed=0)
    agent.begin_task()
    policy, start = np.zeros(1, dtype=np.int64), agent.declared.start
    agent.task.candidates.append(Candidate(1, policy, start, 0.0, 10.0, [9.0] * 20))
    with pytest.warns(RefutedKnowledgeWarning, match="the value of a policy is at least"):
        found = agent.certificate(nearness=near)
    assert 5 < found.lower <= found.optimum_at_most
    agent.drop_task()


def test_refutation_by_a_certificate_can_raise():
    agent = refuted(on_refutation="raise")
    with pytest.raises(RefutedKnowledge, match="the nearness is refuted"):
        agent.certificate(nearness=FALSE, rewards="per transition")


def test_refuted_knowledge_is_remembered_in_files(tmp_path):
    agent = hl.NearRMax(nearness=FALSE, explore=0.5, on_refutation="ignore", seed=0, **SIZES)
    for reward in (0.0, 1.0):
        hl.learn(agent, bandit(reward), episodes=2, max_steps=2000, seed=0)
    agent.certificate(rewards="per transition")
    agent.save(tmp_path / "agent.heirloom")
    assert hl.NearRMax.load(tmp_path / "agent.heirloom").refutation.is_refuted


def test_bound_on_values_that_is_too_small_is_refuted():
    agent = hl.RMax(n_states=1, n_actions=2, gamma=0.5, explore=0.5, v_max=1.2, seed=0)
    hl.learn(agent, bandit(1.0), episodes=2, max_steps=2000, seed=0)
    with pytest.raises(
        RefutedKnowledge, match="Correct v_max, successors, terminates, rewards or start"
    ):
        agent.certificate(rewards="per transition")


def test_widened_knowledge_is_not_used():
    """It was chosen after the data. The sets of own visits are left."""
    agent = hl.CertifiedRMax(
        nearness=FALSE,
        rewards="per transition",
        on_refutation="widen",
        explore=0.5,
        seed=0,
        n_states=1,
        n_actions=2,
        gamma=0.5,
    )
    for reward in (0.0, 1.0):
        hl.learn(agent, bandit(reward), episodes=2, max_steps=2000, seed=0)
    assert agent.bounds[0].nearness is None
    found = agent.certificate(start=0)
    assert 1.5 < found.lower <= 2.0 <= found.optimum_at_most


@pytest.mark.parametrize("seed", seeds(20))
def test_true_knowledge_is_not_refuted_and_certificates_with_rollouts_are_true(seed):
    rng = np.random.default_rng(seed)
    tasks, nearness = family(rng, "per transition")
    m = tasks[0]
    known = {"nearness": nearness, "rewards": "per transition", "on_refutation": "raise"}
    agent = hl.CertifiedRMax(**options_of(m), **known, seed=seed, delta=0.001)
    for m in tasks:
        result = hl.learn(agent, m, episodes=100, max_steps=20, seed=seed, until=0.3, delta=0.001)
        found = hl.certify(
            agent, m, episodes=20, max_steps=20, seed=seed, start=m.start, delta=0.001
        )
        for one in (result.certificate, found):
            tol = 1e-9 * max(abs(one.v_min), abs(m.v_max), 1.0)
            assert one.lower <= hl.evaluate(m, one.policy).V @ m.start + tol
            assert one.optimum_at_most >= hl.solve(m).V @ m.start - tol


MASKED = {"n_states": 2, "n_actions": 2, "gamma": 0.9, "terminating": False, "start": 0}


def masked():
    """Return a task that lacks its best-paid action, as an environment, and its price list."""
    R = np.array([[0.1, 1.0], [0.2, 1.0]])
    T = np.zeros((2, 2, 2))
    T[0, :, 1] = T[1, :, 0] = 1.0
    available = np.array([[True, False], [True, False]])
    rewards = np.where(available, R, 0.0)
    return hl.TabularMDP(R=rewards, T=T, gamma=0.9, available=available, start=0), R


def test_action_that_may_not_exist_promises_nothing():
    m, prices = masked()
    agent = hl.CertifiedRMax(rewards=prices, **MASKED)
    result = hl.learn(
        agent, m.to_gymnasium(), episodes=20, max_steps=50, seed=0, masks=True, until=0.2
    )
    assert result.returns.size > 0
    assert result.certificate.lower <= hl.solve(m).V[0] + 1e-9


def test_lower_bounds_do_not_outlive_the_actions_they_rest_on():
    m, prices = masked()
    agent = hl.RMax(rewards=prices, **MASKED)
    agent.begin_task()
    assert agent.certificate().lower > hl.solve(m).V[0]  # no masks were announced
    hl.learn(agent, m.to_gymnasium(), episodes=5, max_steps=50, seed=0, masks=True, resume=True)
    found = agent.certificate()
    assert found.lower <= hl.solve(m).V[0] + 1e-9 <= found.optimum_at_most + 1e-8


def test_safe_agent_never_takes_a_missing_action():
    """A plan that is not due must not bring back actions that turned out to be missing."""
    agent = hl.CertifiedRMax(rewards=masked()[1], floor=0.5, **MASKED)
    agent.begin_task()
    for _ in range(300):
        agent.begin_episode()
        agent.observe_mask(0, [1, 0])
        assert agent.act(0) == 0
        agent.observe(0, 0, 0.1, 1, terminated=False)
    agent.observe_mask(1, [1, 0])
    agent.begin_episode()
    assert agent.act(1) == 0
    agent.drop_task()


def test_false_price_list_is_refuted():
    agent = hl.RMax(n_states=1, n_actions=2, gamma=0.5, explore=0.5, seed=0)
    hl.learn(agent, bandit(1.0), episodes=1, max_steps=2000, seed=0)
    prices = np.array([[0.5, 0.0]])
    with pytest.raises(RefutedKnowledge, match="rewards is 0 at state 0, action 1, where"):
        agent.certificate(rewards=prices)


def test_earlier_visits_that_are_pooled_must_be_possible():
    near = hl.Nearness(rewards=1.0, transitions=0.0)
    m = with_prices(TASKS[0], TASKS[0].R)
    agent = hl.RMax(**FAMILY.options, seed=0)
    hl.learn(agent, m, episodes=5, max_steps=20, seed=0)
    agent.begin_task()
    nowhere = np.zeros((m.n_states, m.n_actions, m.n_states), dtype=bool)
    nowhere[:, :, 0] = True
    with pytest.raises(InvalidArgument, match="impossible in an earlier task"):
        agent.certificate(nearness=near, rewards=m.R.copy(), successors=nowhere)
    agent.drop_task()


def test_memory_that_another_agent_has_used_meanwhile_is_refused():
    first, second = (hl.RMax(**SIZES, seed=0) for _ in range(2))
    second.memory = first.memory
    first.begin_task()
    hl.learn(second, bandit(0.5), episodes=1, max_steps=5, seed=0)
    with pytest.raises(InvalidArgument, match="another agent has used the memory"):
        first.certificate()
    first.drop_task()


def test_dropped_task_is_not_rolled_out():
    agent = hl.RMax(**SIZES, seed=0)
    agent.begin_task()
    agent.drop_task()
    with pytest.raises(WrongOrder, match="the last task was dropped"):
        hl.certify(agent, bandit(0.5), episodes=1, max_steps=5)


def test_invalid_probability_is_refused_before_a_task_begins():
    agent = certified()
    with pytest.raises(InvalidArgument, match="delta is 5"):
        hl.learn(agent, TASKS[0], episodes=1, max_steps=5, until=0.5, delta=5)
    assert not agent.in_task
