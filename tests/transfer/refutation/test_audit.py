"""`audit` contradicts false knowledge, and true knowledge with probability δ at most."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.transfer.program import lower_values
from heirloom.transfer.radii import Accuracy, all_outcomes
from tests.partly_known import learned_exactly
from tests.stopped_tasks import looks_extreme, stopped_memory
from tests.strategies import draw_shape, draw_task, mixed, seeds

ROUNDING = 1e-7


def memory_of(tasks, rng, *, share=1.0, n_known=1):
    """A memory of exactly learned tasks, each with a random known set."""
    m = tasks[0]
    setting = hl.bounds.Setting(
        n_states=m.n_states,
        n_actions=m.n_actions,
        gamma=m.gamma,
        reward_range=m.reward_range,
        terminating=any(task.terminating for task in tasks),
    )
    memory = hl.TaskMemory(m.n_states, m.n_actions)
    memory.bind(setting)
    for task in tasks:
        known = rng.random((m.n_states, m.n_actions)) < share
        source = hl.bounds.Source.of(learned_exactly(task, known), np.full(m.R.size, setting.v_max))
        memory.add(hl.bounds.Source(source.rows, source.Q, source.V, n_known=n_known))
    return memory


def draw_tasks(rng, n=4):
    shape = draw_shape(rng)
    first = draw_task(rng, shape)
    others = [draw_task(rng, shape) for _ in range(n - 1)]
    return [first, *(mixed(first, m, rewards=0.5, transitions=0.5) for m in others)]


@pytest.mark.parametrize("seed", seeds(60))
def test_exact_audit_finds_the_nearness_of_the_tasks(seed):
    rng = np.random.default_rng(seed)
    tasks = draw_tasks(rng)
    near = hl.family_nearness(tasks)
    audit = hl.audit(memory_of(tasks, rng), near, exact=True)
    assert not audit.contradicted
    found = audit.smallest_nearness
    width = np.ptp(tasks[0].reward_range)
    assert np.allclose(found.rewards, near.rewards, atol=ROUNDING * width)
    assert np.allclose(found.transitions, near.transitions, atol=ROUNDING)
    assert np.allclose(audit.parts["rewards"].seen, near.rewards, atol=ROUNDING * width)
    assert np.allclose(audit.parts["rewards"].upper, near.rewards, atol=ROUNDING * width)
    assert np.allclose(audit.parts["transitions"].upper, near.transitions, atol=ROUNDING)


@pytest.mark.parametrize("seed", seeds(60))
def test_exact_audit_contradicts_half_of_the_true_differences(seed):
    """No contradiction of twice the claimed size is missed."""
    rng = np.random.default_rng(seed)
    tasks = draw_tasks(rng)
    near = hl.family_nearness(tasks)
    memory = memory_of(tasks, rng)
    width = np.ptp(tasks[0].reward_range)
    for part, scale in (("rewards", width), ("transitions", 1.0)):
        truth = getattr(near, part)
        claim = {"rewards": near.rewards, "transitions": near.transitions, part: truth / 2}
        audit = hl.audit(memory, hl.Nearness(**claim), exact=True)
        large = truth > 1e-6 * scale
        assert audit.contradicted == large.any()
        for found in audit.contradictions:
            assert found.part == part
            assert np.array_equal(found.pairs, large)
            i, j = (task - 1 for task in found.tasks)
            s, a = found.state, found.action
            if part == "rewards":
                gap = abs(tasks[i].R[s, a] - tasks[j].R[s, a])
                assert gap == pytest.approx(found.difference, abs=1e-7 * width)


@pytest.mark.parametrize("seed", seeds(100))
def test_lower_values_are_lower_bounds(seed):
    rng = np.random.default_rng(seed)
    m = draw_task(rng)
    source = memory_of([m], rng, share=rng.choice([0.3, 1.0]))
    setting, rows = source.setting, source.sources[0].rows
    own = Accuracy(exact=True, delta=0.05).of_task(1, setting, all_outcomes(setting))
    radii = own.at(np.ones(setting.n_pairs, dtype=np.int64))
    V = lower_values(rows, radii, setting)
    assert (V <= hl.solve(m).V + 1e-9 * max(1, np.abs(V).max())).all()
    if rows.known.all():
        scale = max(np.abs(m.reward_range)) / (1 - m.gamma) ** 2
        assert (V >= hl.solve(m).V - 1e-3 * scale).all()


@pytest.mark.parametrize("seed", seeds(100))
def test_smallest_d_max_is_a_lower_bound_on_the_distance_between_the_tasks(seed):
    rng = np.random.default_rng(seed)
    tasks = draw_tasks(rng, n=3)
    if tasks[0].reward_range[0] < 0 and tasks[0].terminating:
        tasks = tasks[:2]
    memory = memory_of(tasks, rng, share=rng.choice([0.5, 1.0]))
    truth = hl.metrics.family_distance(tasks)
    audit = hl.audit(memory, truth, exact=True)
    assert not audit.contradicted
    assert (audit.parts["d_max"].sure <= truth + 1e-9 * max(1, truth.max())).all()
    if truth.max() > 1e-3 and all(source.known.all() for source in memory.sources):
        assert hl.audit(memory, d_max=truth / 2, exact=True).contradicted


def test_audit_of_learned_d_max_says_when_it_cannot_help():
    m = hl.grid_world(["S..G"], gamma=0.9)
    agent = hl.RMax(n_states=4, n_actions=4, gamma=0.9, n_known=1, seed=0)
    for seed in range(2):
        hl.learn(agent, m, episodes=50, max_steps=20, seed=seed)
    audit = hl.audit(agent.memory, 20.0, exact=True)
    assert audit.helps is False
    limit = audit.largest_useful_d_max
    assert f"nly a prior below {limit:.4g} can lower a bound" in audit.verdict
    for d_max, lowers in ((limit * 1.0001, False), (limit * 0.01, True)):
        agent = hl.LRMax(
            **{"n_states": 4, "n_actions": 4, "gamma": 0.9, "n_known": 1, "seed": 0},
            d_max=d_max,
            memory=agent.memory,
        )
        agent.begin_task()
        assert (agent.U < agent.setting.v_max).any() == lowers
        agent.drop_task()


def sampled_memory(tasks, n_known, rng, *, pairs=None):
    """A memory of models estimated from `n_known` draws of each pair."""
    m = tasks[0]
    memory = hl.TaskMemory(m.n_states, m.n_actions)
    memory.bind(
        hl.bounds.Setting(
            n_states=m.n_states, n_actions=m.n_actions, gamma=m.gamma, terminating=m.terminating
        )
    )
    for task in tasks:
        model = hl.LearnedModel(m.n_states, m.n_actions, n_known=n_known)
        T = task.T.toarray().reshape(m.n_states, m.n_actions, m.n_states)
        for s, a in np.ndindex(m.n_states, m.n_actions):
            outcomes = rng.choice(m.n_states, n_known, p=T[s, a] / T[s, a].sum())
            rewards = (rng.random(n_known) < task.R[s, a]).astype(float)
            for r, s_next in zip(rewards, outcomes, strict=True):
                model.observe(s, a, float(r), int(s_next), terminated=False)
        memory.add(hl.bounds.Source.of(model, np.full(m.R.size, memory.setting.v_max)))
    return memory


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "n_known", [5, 50, pytest.param(10, marks=SLOW), pytest.param(500, marks=SLOW)]
)
def test_true_nearness_is_contradicted_with_probability_delta_at_most(n_known):
    """With δ = 0.5, so that a test that is too strict would show."""
    alarms, n = 0, 40 if n_known == 500 else 100
    for seed in range(n):
        rng = np.random.default_rng(seed)
        first = hl.garnet(2, 2, branching=2, gamma=0.9, seed=rng)
        other = hl.garnet(2, 2, branching=2, gamma=0.9, seed=rng)
        tasks = [first, mixed(first, other, rewards=0.2, transitions=0.2)]
        near = hl.family_nearness(tasks)
        memory = sampled_memory([tasks[i % 2] for i in range(4)], n_known, rng)
        alarms += hl.audit(memory, near, delta=0.5).contradicted
        assert not hl.audit(
            memory, d_max=hl.metrics.family_distance(tasks), delta=1e-6
        ).contradicted
    assert alarms <= 0.5 * n + 3 * np.sqrt(n / 4)


@pytest.mark.parametrize(
    "errors", [pytest.param(1.5, marks=SLOW), pytest.param(2.5, marks=SLOW), 3.0]
)
def test_true_claims_are_contradicted_with_probability_delta_at_most_if_tasks_end_when_extreme(
    errors,
):
    """The tasks are all equal, and the largest reward is claimed exactly."""
    alarms, n, p = 0, 100, 0.5
    near = hl.Nearness(rewards=0.0, transitions=0.0, highest_rewards=p)
    for seed in range(n):
        rng = np.random.default_rng(seed)
        memory = stopped_memory([p] * 3, rng, looks_extreme(errors), last=3000)
        alarms += hl.audit(memory, near, delta=0.5).contradicted
    assert alarms <= 0.5 * n + 3 * np.sqrt(n / 4)


def test_audit_without_power_says_that_nothing_is_tested():
    m = hl.garnet(2, 2, branching=2, gamma=0.9, seed=0)
    near = hl.Nearness(rewards=0.3, transitions=0.3)
    audit = hl.audit(sampled_memory([m, m], 2, np.random.default_rng(0)), near)
    assert not any(power.finds_something for power in audit.power.values())
    assert "is not tested: with so few visits, no false claim would have been" in audit.verdict
    assert "Nothing contradicts" not in str(audit)
    n = max(power.visits_needed for power in audit.power.values())
    audit = hl.audit(sampled_memory([m, m], n, np.random.default_rng(0)), near)
    assert all(power.finds_something for power in audit.power.values())
    assert "Nothing contradicts" in audit.verdict
    assert "at one of 4 pairs, between the two tasks that visited it most" in audit.verdict


def test_claims_of_the_whole_range_are_not_said_to_need_visits():
    m = hl.garnet(2, 2, branching=2, gamma=0.9, seed=0)
    memory = sampled_memory([m, m], 300, np.random.default_rng(0))
    audit = hl.audit(memory, hl.Nearness(rewards=0.1, transitions=1.0))
    assert list(audit.power) == ["rewards"]
    assert "transitions would have" not in audit.verdict
    everything = hl.audit(memory, hl.Nearness(rewards=1.0, transitions=1.0))
    assert everything.power == {}
    assert "it cannot help" in everything.verdict


def test_power_of_a_d_max_is_that_of_rewards_alone():
    m = hl.garnet(2, 2, branching=2, gamma=0.9, seed=0)
    memory = sampled_memory([m, m], 2000, np.random.default_rng(0))
    assert "through mean rewards alone" in hl.audit(memory, d_max=0.1).verdict
    assert "d_max = 2 is hardly tested" in hl.audit(memory, d_max=2.0).verdict


def test_power_differs_between_pairs_that_were_visited_more_or_less_often():
    memory = hl.TaskMemory(1, 2)
    memory.bind(hl.bounds.Setting(n_states=1, n_actions=2, gamma=0.9, terminating=False))
    rng = np.random.default_rng(0)
    for _ in range(2):
        model = hl.LearnedModel(1, 2, n_known=2, refresh=1.05)
        for a, n in enumerate((5000, 150)):
            for r in (rng.random(n) < 0.5).astype(float):
                model.observe(0, a, float(r), 0, terminated=False)
        memory.add(hl.bounds.Source.of(model, np.full(2, 10.0)))
    audit = hl.audit(memory, hl.Nearness(rewards=0.1, transitions=0.0))
    least, most = np.sort(audit.power["rewards"].one_pair.ravel())
    assert f"by {least:.3g} to {most:.3g} at one of 2 pairs" in audit.verdict.replace("\n", " ")


def test_part_of_a_claim_that_could_not_be_found_is_named():
    m = hl.garnet(2, 2, branching=2, gamma=0.9, seed=0)
    near = hl.Nearness(rewards=0.1, transitions=0.99)
    audit = hl.audit(sampled_memory([m, m], 300, np.random.default_rng(0)), near)
    assert audit.power["rewards"].finds_something
    assert not audit.power["transitions"].finds_something
    assert "No false claim about transitions would have been found" in audit.verdict


def bandits(means):
    return [hl.TabularMDP(np.full((1, 2), r), np.ones((1, 2, 1)), gamma=0.9) for r in means]


@pytest.mark.parametrize("n_visits", [100, pytest.param(1000, marks=SLOW)])
def test_difference_at_one_pair_is_found_with_its_probability(n_visits):
    near = hl.Nearness(rewards=0.1, transitions=0.0)
    equal = hl.audit(sampled_memory(bandits([0.5, 0.5]), n_visits, np.random.default_rng(0)), near)
    for factor, least, most in ((1.0, 0.8, 1.0), (0.85, 0.0, 0.8)):
        found, n, d = 0, 100, 0.1 + factor * equal.power["rewards"].one_pair.min()
        for seed in range(n):
            memory = sampled_memory(
                bandits([0.5 - d / 2, 0.5 + d / 2]), n_visits, np.random.default_rng(seed)
            )
            found += bool(hl.audit(memory, near).contradictions)
        assert n * least - 3 * np.sqrt(0.16 * n) <= found <= n * most


@pytest.mark.parametrize("n_visits", [10, pytest.param(50, marks=SLOW)])
def test_differences_at_all_pairs_are_found_with_about_their_probability(n_visits):
    near = hl.Nearness(rewards=0.1, transitions=0.0)
    means = np.tile([0.0, 1.0], 4)
    equal = sampled_memory(bandits(np.full(8, 0.5)), n_visits, np.random.default_rng(0))
    excess = hl.audit(equal, near).power["rewards"].all_pairs
    assert excess < 0.9
    for factor, least, most in ((1.0, 0.6, 1.0), (0.5, 0.0, 0.6)):
        found, n = 0, 60
        for seed in range(n):
            tasks = bandits(0.5 + (means - 0.5) * (0.1 + factor * excess))
            found += hl.audit(
                sampled_memory(tasks, n_visits, np.random.default_rng(seed)), near
            ).contradicted
        assert least * n <= found <= most * n


def test_models_are_exact_by_part_and_by_pair():
    tasks = bandits([0.0, 1.0])  # rewards do not vary, and the chain stays
    memory = sampled_memory(tasks, 2, np.random.default_rng(0))
    near = hl.Nearness(rewards=0.5, transitions=0.5)
    assert not hl.audit(memory, near).contradicted  # two visits prove nothing
    audit = hl.audit(memory, near, exact={"rewards": True})
    assert audit.contradicted
    assert "rewards declared exact" in str(audit)
    assert not hl.audit(memory, near, exact={"transitions": True}).contradicted
    first = hl.audit(memory, near, exact={"rewards": np.array([[True, False]])})
    assert first.contradictions[0].pairs.tolist() == [[True, False]]
    assert "rewards at 1 pair declared exact" in str(first)
    assert hl.audit(memory, near, exact=dict.fromkeys(("rewards", "transitions"), True)).exact


def uncommon(p):
    """Three states, of which the last one is rare."""
    row = [(1 - p) / 2, (1 - p) / 2, p]
    return hl.TabularMDP(np.zeros((3, 1)), np.tile(row, (3, 1, 1)), gamma=0.9)


COMMON = np.tile([True, True, False], (3, 1, 1))


@pytest.mark.parametrize("differences", [0.5, 1.0])
def test_excluded_successor_is_found_with_its_probability(differences):
    """Also with so few visits that no difference would have been found."""
    near = hl.Nearness(rewards=differences, transitions=differences, successors=COMMON)
    fine = hl.audit(sampled_memory([uncommon(0.0)] * 2, 5, np.random.default_rng(0)), near)
    said = "An excluded successor would have been found with a probability of about 0.8, if its"
    assert said in fine.verdict
    assert ("hardly tested" in fine.verdict) == (differences < 1)
    p, found, n = fine.power["successors"].one_pair[0, 0], 0, 300
    for seed in range(n):
        memory = sampled_memory([uncommon(0.0), uncommon(p)], 5, np.random.default_rng(seed))
        contradictions = {x.part: x.pairs for x in hl.audit(memory, near).contradictions}
        found += "successors" in contradictions and bool(contradictions["successors"][0, 0])
    assert abs(found - 0.8 * n) <= 4 * np.sqrt(0.16 * n)


def test_one_task_tests_what_is_claimed_of_each_single_task():
    memory = sampled_memory([uncommon(0.0)], 300, np.random.default_rng(0))
    every = {"rewards": 0.1, "transitions": 0.1}
    for claim in (
        hl.Nearness(successors=COMMON, **every),
        hl.Nearness(highest_rewards=0.5, **every),
    ):
        verdict = hl.audit(memory, claim).verdict
        assert "is hardly tested: no pair is known in two tasks. A" in verdict
        assert "in the task that visited it most" in verdict
    assert "is not tested: no pair" in hl.audit(memory, hl.Nearness(**every)).verdict


def test_tasks_without_a_common_pair_do_not_test_a_p_min():
    memory = hl.TaskMemory(1, 3)
    memory.bind(hl.bounds.Setting(n_states=1, n_actions=3, gamma=0.9))
    for a in range(3):
        model = hl.LearnedModel(1, 3, n_known=1)
        model.observe(0, a, 0.5, 0, terminated=False)
        memory.add(hl.bounds.Source.of(model, np.full(3, 10.0)))
    verdict = hl.audit(memory, p_min=0.5, exact=True).verdict
    assert verdict == "p_min = 0.5 is not tested: no pair is known in two tasks."


def test_large_differences_of_estimated_models_are_contradicted():
    good, bad = (
        hl.TabularMDP(np.full((1, 1), r), np.ones((1, 1, 1)), gamma=0.9) for r in (0.9, 0.1)
    )
    memory = sampled_memory([good, bad], 200, np.random.default_rng(0))
    audit = hl.audit(memory, hl.Nearness(rewards=0.1, transitions=0.0))
    assert audit.contradicted
    (found,) = audit.contradictions
    assert (found.part, found.tasks, found.state, found.action) == ("rewards", (2, 1), 0, 0)
    assert 0.1 < found.difference <= 0.8
    assert hl.audit(memory, d_max=0.1).contradicted


def test_excluded_successor_is_a_contradiction_at_once():
    m = hl.grid_world(["S..G"], gamma=0.9)
    memory = memory_of([m], np.random.default_rng(0), n_known=1)
    possible = np.zeros((4, 4, 4), dtype=bool)
    possible[:, :, 0] = True
    near = hl.Nearness(rewards=1.0, transitions=1.0, successors=possible)
    audit = hl.audit(memory, near)
    (found,) = audit.contradictions
    assert (found.part, found.tasks) == ("successors", (1,))
    never_ends = hl.Nearness(rewards=1.0, transitions=1.0, terminates=np.zeros((4, 4), bool))
    assert hl.audit(memory, never_ends).contradicted == bool(m.ends.any())


def test_too_many_different_tasks_contradict_p_min():
    rng = np.random.default_rng(0)
    tasks = [hl.garnet(3, 2, branching=2, gamma=0.9, seed=rng) for _ in range(4)]
    memory = memory_of([*tasks, *tasks], rng)
    assert not hl.audit(memory, p_min=0.25, exact=True).contradicted
    audit = hl.audit(memory, p_min=0.3, exact=True)
    assert audit.contradicted
    assert audit.different_tasks == (1, 2, 3, 4)
    assert audit.largest_p_min == 0.25
    assert not hl.audit(memory, p_min=1.0).contradicted  # one visit proves nothing


def test_tasks_without_recorded_visits_are_not_tested():
    rng = np.random.default_rng(0)
    tasks = [hl.garnet(3, 2, branching=2, gamma=0.9, seed=rng) for _ in range(2)]
    audit = hl.audit(memory_of(tasks, rng, n_known=0), hl.Nearness(rewards=0, transitions=0))
    assert not audit.contradicted
    assert audit.untested == (1, 2)


def test_numbers_of_an_audit_are_available_as_xarray():
    rng = np.random.default_rng(0)
    tasks = [hl.garnet(3, 2, branching=2, gamma=0.9, seed=rng) for _ in range(2)]
    dataset = hl.audit(memory_of(tasks, rng), 0.1, exact=True).to_xarray()
    assert dataset.sizes == {"state": 3, "action": 2}
    assert bool((dataset.d_max_sure > 0.1).any())
    assert dataset.attrs["contradicted"] == 1


def test_empty_memory_is_not_tested():
    memory = hl.TaskMemory(2, 1)
    memory.bind(hl.bounds.Setting(n_states=2, n_actions=1, gamma=0.9))
    assert "not tested" in str(hl.audit(memory, 0.1))
    assert hl.audit(memory).different_tasks == ()
    with pytest.raises(hl.errors.InvalidArgument, match="no setting"):
        hl.audit(hl.TaskMemory(2, 1), 0.1)


def test_two_claims_at_once_are_refused():
    memory = hl.TaskMemory(2, 1)
    memory.bind(hl.bounds.Setting(n_states=2, n_actions=1, gamma=0.9))
    with pytest.raises(hl.errors.InvalidArgument, match="audit each claim by itself"):
        hl.audit(memory, 0.1, p_min=0.5)


def test_number_that_is_due_to_rounding_is_printed_as_zero():
    memory = memory_of(draw_tasks(np.random.default_rng(0), 2), np.random.default_rng(1))
    shape = memory.n_states, memory.n_actions
    d_max = np.full(shape, 1e-300)
    d_max[0, 0] = 200.0
    assert hl.audit(memory, d_max=d_max).knowledge == "d_max = 0 to 200"


def test_audit_does_not_suggest_values_below_zero():
    memory = memory_of(draw_tasks(np.random.default_rng(0), 2), np.random.default_rng(1))
    audit = hl.audit(memory, exact=True)
    assert audit.largest_useful_d_max <= 0
    assert "No prior can lower a bound." in audit.verdict


def test_verdict_on_p_min_says_that_no_two_tasks_are_proved_to_differ():
    task = draw_tasks(np.random.default_rng(0), 1)[0]
    memory = memory_of([task] * 3, np.random.default_rng(1))
    verdict = hl.audit(memory, p_min=0.5, exact=True).verdict
    assert "no two of those seen are proved to be different" in verdict
    assert "it admits 3 tasks, and 3 were compared" in hl.audit(memory, p_min=0.3).verdict


@pytest.mark.parametrize(
    "claim",
    [
        {"p_min": 1.0},
        {"d_max": 0.1},
        {"d_max": 3.0},
        {"knowledge": hl.Nearness(rewards=0.1, transitions=0.1)},
        {"knowledge": hl.Nearness(rewards=1.0, transitions=1.0, highest_rewards=0.5)},
    ],
)
def test_verdict_without_power_is_not_that_nothing_contradicts(claim):
    m = hl.garnet(3, 2, branching=2, gamma=0.9, seed=0)
    few = sampled_memory([m, m], 3, np.random.default_rng(0))
    verdict = hl.audit(few, **claim).verdict
    assert "Nothing contradicts" not in verdict
    assert "tested: " in verdict


def test_power_of_a_p_min_and_of_highest_rewards_is_found():
    """Tasks that differ by as much as is said are proved to be different, and so on."""
    equal = sampled_memory(bandits([0.5, 0.5]), 300, np.random.default_rng(0))
    audit = hl.audit(equal, p_min=1.0)
    assert "Different rewards would have been found with a probability of about 0.8" in str(audit)
    d = audit.power["rewards"].one_pair.min()
    near = hl.Nearness(rewards=1.0, transitions=1.0, highest_rewards=0.5)
    excess = hl.audit(equal, near).power["highest_rewards"].one_pair.min()
    different, above, n = 0, 0, 60
    for seed in range(n):
        rng = np.random.default_rng(seed)
        tasks = sampled_memory(bandits([0.5 - d / 2, 0.5 + d / 2]), 300, rng)
        different += hl.audit(tasks, p_min=1.0).contradicted
        memory = sampled_memory(bandits([0.5 + excess, 0.0]), 300, rng)
        above += hl.audit(memory, near).contradicted
    for found in (different, above):
        assert found >= 0.8 * n - 3 * np.sqrt(0.16 * n)


def test_power_counts_the_share_of_a_part_that_says_nothing():
    """Evidence is the mean over both parts of a nearness, also if one of them can not be false."""
    memory = sampled_memory(bandits(np.full(8, 0.5)), 50, np.random.default_rng(0))
    one, two = (
        hl.audit(memory, hl.Nearness(rewards=0.1, transitions=t)).power["rewards"].all_pairs
        for t in (1.0, 0.9)
    )
    assert one == two


def test_tasks_that_differ_in_transitions_only_are_different():
    """Task 3 is a copy of task 1; tasks 2 and 4 lead to one state only."""
    rows = [[0.5, 0.5], [0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]
    tasks = [hl.TabularMDP([[0], [0]], [[row], [[0, 1]]], gamma=0.5) for row in rows]
    audit = hl.audit(memory_of(tasks, np.random.default_rng(0)), exact=True)
    assert audit.different_tasks == (1, 2, 4)


def test_reward_above_the_highest_claimed_one_is_a_contradiction():
    m = hl.TabularMDP([[0.2, 0.9]], np.ones((1, 2, 1)), gamma=0.5)
    memory = memory_of([m, m], np.random.default_rng(0))
    claim = hl.Nearness(rewards=1.0, transitions=1.0, highest_rewards=0.5)
    audit = hl.audit(memory, claim, exact=True)
    assert {(found.part, found.action) for found in audit.contradictions} == {
        ("highest_rewards", 1)
    }
    assert all(found.excess == pytest.approx(0.4) for found in audit.contradictions)
    assert "exceeds the claimed largest one by at least 0.4" in str(audit.contradictions[0])
    true = hl.Nearness(rewards=1.0, transitions=1.0, highest_rewards=0.9)
    assert not hl.audit(memory, true, exact=True).contradicted


def test_audit_of_an_empty_memory_counts_all_pairs():
    agent = hl.RMax(n_states=2, n_actions=2, gamma=0.9, n_known=1, seed=0)
    assert "0 tasks, 0 of 4 pairs known in at least two" in repr(hl.audit(agent.memory))
