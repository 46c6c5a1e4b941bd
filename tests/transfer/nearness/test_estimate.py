"""`estimate_nearness`: its limits contain the truth, and so does its claim for the next task."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.transfer.nearness.limits import CLOSE
from heirloom.transfer.radii import Accuracy, all_outcomes, radii_for
from tests.strategies import draw_shape, draw_task, mixed, seeds

ROUNDING = 1e-9


def memory_for(tasks, **options):
    m = tasks[0]
    memory = hl.TaskMemory(m.n_states, m.n_actions, **options)
    memory.bind(
        hl.bounds.Setting(
            n_states=m.n_states,
            n_actions=m.n_actions,
            gamma=m.gamma,
            reward_range=m.reward_range,
            terminating=any(task.terminating for task in tasks),
        )
    )
    return memory


def visited(tasks, rng, visits, **options):
    """A memory of tasks that were visited `visits[i, s, a]` times, with rewards at the ends."""
    memory = memory_for(tasks, **options)
    lo, hi = tasks[0].reward_range
    for m, n in zip(tasks, visits, strict=True):
        model = hl.LearnedModel(m.n_states, m.n_actions, n_known=2, refresh=1.5)
        t = m.transitions
        for k in np.repeat(np.arange(m.R.size), n.ravel()):
            row = slice(t.indptr[k], t.indptr[k + 1])
            j = row.start + rng.choice(row.stop - row.start, p=t.p[row] / t.p[row].sum())
            high = (m.R.flat[k] - lo) / (hi - lo) if hi > lo else 0.0
            r = hi if rng.random() < high else lo
            ends = t.ends is not None and bool(t.ends[j])
            model.observe(*divmod(int(k), m.n_actions), r, int(t.successors[j]), terminated=ends)
        memory.add(hl.bounds.Source.of(model, np.full(m.R.size, memory.setting.v_max)))
    return memory


def family(rng, n=3, share=0.4):
    shape = draw_shape(rng)
    first = draw_task(rng, shape)
    others = [draw_task(rng, shape) for _ in range(n - 1)]
    return [first, *(mixed(first, m, rewards=share, transitions=share) for m in others)]


def all_sets_hold(memory, tasks, delta):
    """Whether every estimate is within its radii of the truth."""
    setting, accuracy = memory.setting, Accuracy(exact=False, delta=delta)
    for source, m in zip(memory.sources, tasks, strict=True):
        seen, t = source.outcomes, m.transitions
        n = np.bincount(seen.pairs, seen.times, minlength=m.R.size).astype(np.int64)
        radii = accuracy.of_task(source.task, setting, all_outcomes(setting)).at(n)
        T = np.zeros((m.R.size, m.n_states + 1))
        ends = np.zeros(t.p.size, dtype=bool) if t.ends is None else t.ends
        np.add.at(T, (t.pairs, np.where(ends, m.n_states, t.successors)), t.p)
        T_seen, R = np.zeros_like(T), np.zeros(m.R.size)
        np.add.at(T_seen, (seen.pairs, np.where(seen.states < 0, -1, seen.states)), seen.times)
        np.add.at(R, seen.pairs, seen.times * seen.R)
        some = n > 0
        tv = np.abs(T_seen[some] / n[some, None] - T[some]).sum(axis=1) / 2
        if (tv > radii.transitions[some]).any():
            return False
        if (np.abs(R[some] / n[some] - m.R.ravel()[some]) > radii.rewards[some]).any():
            return False
    return True


def contains(limits, truth):
    return bool(
        (limits.lower <= truth + ROUNDING).all() and (truth <= limits.upper + ROUNDING).all()
    )


@pytest.mark.parametrize("seed", seeds(150))
def test_no_limit_fails_while_every_set_holds(seed):
    """Also with a large δ, where limits are narrow; coverage alone would hide a wrong program."""
    rng = np.random.default_rng(seed)
    tasks = family(rng)
    visits = rng.choice([0, 1, 7, 60, 300], size=(len(tasks), *tasks[0].R.shape))
    memory, near = visited(tasks, rng, visits), hl.family_nearness(tasks)
    for confidence in (0.05, 0.95):
        if not all_sets_hold(memory, tasks, 1 - confidence):
            continue
        found = hl.estimate_nearness(memory, confidence=confidence)
        assert contains(found.rewards, near.rewards)
        assert contains(found.transitions, near.transitions)
        unvisited = (visits == 0).sum(axis=0)
        assert (found.rewards.upper[unvisited > 1] == found.rewards.widest).all()
        assert (found.rewards.upper[unvisited > 0] >= found.rewards.widest / 2).all()
        assert (found.transitions.upper[unvisited > 0] == 1).all()
        for part in (found.rewards, found.transitions):
            seen = ~np.isnan(part.estimate)
            assert (part.lower <= part.upper).all()
            assert (part.lower[seen] <= part.estimate[seen] + ROUNDING).all()
            assert (part.estimate[seen] <= part.upper[seen] + ROUNDING).all()


def test_limits_fail_with_probability_delta_at_most():
    """Two tasks are equal, so that lower limits fail if radii are too small. δ is 0.5."""
    fails, n = 0, 300
    m = hl.TabularMDP(np.full((2, 1), 0.5), np.full((2, 1, 2), 0.5), gamma=0.9)
    for seed in range(n):
        rng = np.random.default_rng(seed)
        found = hl.estimate_nearness(visited([m, m], rng, np.full((2, 2, 1), 40)), confidence=0.5)
        fails += not (contains(found.rewards, 0.0) and contains(found.transitions, 0.0))
    assert fails <= 0.5 * n + 3 * np.sqrt(n / 4)


@pytest.mark.parametrize("seed", seeds(30))
def test_limits_of_exact_models_are_the_differences(seed):
    rng = np.random.default_rng(seed)
    tasks = family(rng)
    visits = np.full((len(tasks), *tasks[0].R.shape), 3)
    memory = visited(tasks, rng, visits)
    seen = [source.to_mdp(gamma=m.gamma, unknown="optimistic", reward_range=m.reward_range)
            for source, m in zip(memory.sources, tasks, strict=True)]  # fmt: skip
    near = hl.family_nearness(seen)
    found = hl.estimate_nearness(memory, exact=True)
    width = max(1.0, np.ptp(tasks[0].reward_range))
    for part, truth in ((found.rewards, near.rewards), (found.transitions, near.transitions)):
        assert np.allclose(part.upper, truth, atol=1e-7 * width)
        assert np.allclose(part.lower, truth, atol=1e-7 * width)
    only = hl.estimate_nearness(memory, exact={"rewards": True})
    assert np.array_equal(only.rewards.upper, found.rewards.upper)
    assert (only.transitions.upper == 1).all() or memory.n_states == 1


def slipping(p, n_states=6):
    """A ring on which every step slips back with probability p, and pays p."""
    T = np.zeros((n_states, 1, n_states))
    for s in range(n_states):
        T[s, 0, (s + 1) % n_states] = 1 - p
        T[s, 0, (s - 1) % n_states] = p
    return hl.TabularMDP(np.full((n_states, 1), p), T, gamma=0.9)


def forward(s, a, s_next):
    return (s_next - s) % 6


ALIKE = np.zeros((6, 1), dtype=int)


def test_pairs_that_are_alike_have_narrower_limits_that_hold():
    rng, visits = np.random.default_rng(0), np.full((2, 6, 1), 200)
    fails = 0
    for _ in range(50):
        memory = visited([slipping(0.1), slipping(0.3)], rng, visits)
        alone = hl.estimate_nearness(memory, confidence=0.5)
        options = {"rewards_alike": ALIKE, "transitions_alike": ALIKE, "kind": forward}
        found = hl.estimate_nearness(memory, confidence=0.5, **options)
        assert not found.contradictions
        for part, single in (
            (found.rewards, alone.rewards),
            (found.transitions, alone.transitions),
        ):
            assert part.upper.mean() < single.upper.mean() - 0.05
            assert part.visits.min() == 1200
            fails += not contains(part, 0.2)
    assert fails <= 50 + 3 * np.sqrt(50 / 4)


def all_group_sets_hold(memory, slips, delta):
    """Whether the estimates of all pairs and of the group are within their radii of the truth."""
    setting, accuracy = memory.setting, Accuracy(exact=False, delta=delta)
    outcomes = np.append(all_outcomes(setting), setting.n_states)
    for source, p in zip(memory.sources, slips, strict=True):
        seen = source.outcomes
        n = np.bincount(seen.pairs, seen.times, minlength=6)
        R = np.bincount(seen.pairs, seen.times * seen.R, minlength=6)
        is_back = (seen.states - seen.pairs) % 6 == 5
        back = np.bincount(seen.pairs, seen.times * is_back, minlength=6)
        n, R, back = (np.append(x, x.sum()) for x in (n, R, back))
        radii = radii_for(accuracy.share(source.task), setting, outcomes).at(n.astype(np.int64))
        some = n > 0
        if (np.abs(R[some] / n[some] - p) > radii.rewards[some]).any():
            return False
        if (np.abs(back[some] / n[some] - p) > radii.transitions[some]).any():
            return False
    return True


def test_no_limit_of_a_group_fails_while_every_set_holds():
    """With a large δ, so that limits are narrow; half of the radii of groups would fail."""
    rng, held, options = np.random.default_rng(0), 0, {"rewards_alike": ALIKE, "kind": forward}
    for _ in range(150):
        slips = rng.uniform(0.2, 0.8, 3)
        visits = rng.choice([0, 3, 40], size=(3, 6, 1))
        memory = visited([slipping(p) for p in slips], rng, visits)
        if not all_group_sets_hold(memory, slips, 0.99):
            continue
        found = hl.estimate_nearness(memory, confidence=0.01, transitions_alike=ALIKE, **options)
        assert not found.contradictions
        assert contains(found.rewards, np.ptp(slips))
        assert contains(found.transitions, np.ptp(slips))
        held += 1
    assert held > 50


def test_radii_of_a_group_are_those_of_its_visits():
    memory = visited([slipping(0.5)] * 2, np.random.default_rng(0), np.full((2, 6, 1), 100))
    found = hl.estimate_nearness(memory, transitions_alike=ALIKE, kind=forward).transitions
    accuracy, outcomes = Accuracy(exact=False, delta=0.05), np.full(7, 6 + 1)
    sums = sum(
        radii_for(accuracy.share(j), memory.setting, outcomes).at(np.full(7, 600)).transitions[0]
        for j in (1, 2)
    )
    assert np.allclose(found.upper, found.estimate + sums, atol=0.02)
    assert (found.upper <= found.estimate + sums + 1e-12).all()


def test_group_with_a_missing_pair_has_the_radii_of_the_others():
    """A pair that does not exist has no possible successor, which must not count for its group."""
    rng, visits = np.random.default_rng(0), np.full((2, 6, 1), 50)
    memory = visited([slipping(0.1), slipping(0.3)], rng, visits)
    possible = slipping(0.1).T.toarray().reshape(6, 1, 6) > 0
    fewer = possible.copy()
    fewer[0] = False
    options = {"transitions_alike": ALIKE, "kind": forward}
    for successors in (possible, fewer):
        shape = hl.Nearness(rewards=1.0, transitions=1.0, successors=successors)
        found = hl.estimate_nearness(memory, shape=shape, **options).transitions
        assert (found.upper[1:] > found.estimate[1:] + 0.1).all()


def test_pairs_that_are_not_alike_contradict_it():
    rng, visits = np.random.default_rng(0), np.full((2, 6, 1), 3000)
    R = np.linspace(0.1, 0.9, 6)[:, None]
    tasks = [hl.TabularMDP(R * x, slipping(0.2).T.toarray().reshape(6, 1, 6), gamma=0.9)
             for x in (1.0, 0.9)]  # fmt: skip
    memory = visited(tasks, rng, visits)
    found = hl.estimate_nearness(memory, rewards_alike=ALIKE)
    assert found.contradictions
    assert found.probability() == 0
    assert "what was declared is contradicted" in str(found)
    same = hl.estimate_nearness(memory, transitions_alike=ALIKE, kind=forward)
    assert not same.contradictions
    with pytest.raises(hl.errors.InvalidArgument, match="kind returned 'x' for two outcomes"):
        hl.estimate_nearness(memory, transitions_alike=ALIKE, kind=lambda s, a, s_next: "x")


def test_transitions_that_are_not_alike_within_a_task_contradict_it():
    """The tasks are all equal, so that differences between tasks say nothing."""
    T = np.zeros((6, 1, 6))
    T[0, 0, 1] = 1.0
    T[np.arange(1, 6), 0, np.arange(1, 6)] = 1.0
    m = hl.TabularMDP(np.zeros((6, 1)), T, gamma=0.9)
    memory = visited([m] * 3, np.random.default_rng(0), np.full((3, 6, 1), 2000))
    found = hl.estimate_nearness(memory, transitions_alike=ALIKE, kind=forward)
    (text,) = found.contradictions
    assert "and their groups differ in a task, state 0, action 0 by at least" in text
    assert found.probability() == 0


def test_audit_finds_a_false_claim_by_the_visits_of_alike_pairs_together():
    """The visits of one pair are too few, and those of all pairs of the ring are enough."""
    alike = {"rewards_alike": ALIKE, "transitions_alike": ALIKE, "kind": forward}
    rng, found = np.random.default_rng(0), []
    for _ in range(50):
        memory = visited([slipping(0.3), slipping(0.5), slipping(0.7)], rng, np.full((3, 6, 1), 60))
        claim = hl.Nearness(rewards=0.1, transitions=0.1)
        alone, audit = hl.audit(memory, claim), hl.audit(memory, claim, **alike)
        assert not alone.contradictions
        for one in audit.contradictions:
            assert one.tasks in ((1, 3), (3, 1))
            assert one.difference <= 0.4
            assert one.pairs.all()
        found.append({one.part for one in audit.contradictions})
        power = hl.audit(memory, hl.Nearness(rewards=0.9, transitions=0.9), **alike).power
        assert all(np.isinf(x.one_pair).all() for x in power.values())
        power = hl.audit(memory, hl.Nearness(rewards=0.4, transitions=0.4), **alike).power
        assert all(0.2 < x.one_pair.min() < 0.35 for x in power.values())
    assert np.mean([part == {"rewards", "transitions"} for part in found]) > 0.5


def test_audit_of_alike_pairs_uses_half_of_delta_for_each_of_two_kinds_of_limits():
    """Both are tested not to fail while their sets hold."""
    alike = {"rewards_alike": ALIKE, "transitions_alike": ALIKE, "kind": forward}
    rng, better = np.random.default_rng(0), 0
    for _ in range(40):
        slips = rng.uniform(0.1, 0.9, 3)
        memory = visited([slipping(p) for p in slips], rng, rng.choice([5, 60, 400], (3, 6, 1)))
        near = hl.Nearness(rewards=np.ptp(slips), transitions=np.ptp(slips))
        found = hl.audit(memory, near, delta=0.4, **alike)
        alone = hl.audit(memory, near, delta=0.2)
        groups = hl.estimate_nearness(memory, confidence=0.9, **alike)
        for part in ("rewards", "transitions"):
            limits = getattr(groups, part)
            expected = np.maximum(alone.parts[part].sure, limits.lower)
            assert np.allclose(found.parts[part].sure, expected, rtol=1e-9)
            assert np.allclose(found.parts[part].upper, limits.upper, rtol=1e-9)
            better += int((limits.lower > alone.parts[part].sure).sum())
        for one in found.contradictions:
            i, j = (task - 1 for task in one.tasks)
            assert one.difference <= abs(slips[i] - slips[j])
    assert better > 100


def test_true_claim_about_alike_pairs_is_contradicted_with_probability_delta_at_most():
    rng, n, fails = np.random.default_rng(0), 200, 0
    alike = {"rewards_alike": ALIKE, "transitions_alike": ALIKE, "kind": forward}
    for _ in range(n):
        memory = visited([slipping(0.4), slipping(0.6)], rng, np.full((2, 6, 1), 30))
        claim = hl.Nearness(rewards=0.2, transitions=0.2)
        fails += hl.audit(memory, claim, delta=0.5, **alike).contradicted
    assert fails <= 0.5 * n + 3 * np.sqrt(n / 4)


def test_pairs_that_are_not_alike_end_an_audit():
    R = np.linspace(0.1, 0.9, 6)[:, None]
    T = slipping(0.2).T.toarray().reshape(6, 1, 6)
    tasks = [hl.TabularMDP(R * x, T, gamma=0.9) for x in (1.0, 0.9)]
    memory = visited(tasks, np.random.default_rng(0), np.full((2, 6, 1), 3000))
    with pytest.raises(hl.errors.InvalidArgument, match="leave such pairs out of the group"):
        hl.audit(memory, rewards_alike=ALIKE)
    with pytest.raises(hl.errors.InvalidArgument, match="rewards_alike is"):
        hl.audit(memory, rewards_alike=[1, 2])
    assert hl.audit(memory, transitions_alike=ALIKE, kind=forward).compared.all()


def test_kinds_are_compared_over_all_tasks():
    T = np.zeros((2, 3, 1, 3))
    T[0, :, 0, 1] = T[1, :, 0, 2] = 1.0
    tasks = [hl.TabularMDP(np.zeros((3, 1)), each, gamma=0.9) for each in T]
    memory = visited(tasks, np.random.default_rng(0), np.full((2, 3, 1), 10))
    alike = np.zeros((3, 1), dtype=int)
    with pytest.raises(hl.errors.InvalidArgument, match="for two outcomes of state 0"):
        hl.estimate_nearness(memory, transitions_alike=alike, kind=lambda s, a, s_next: 0)
    with pytest.raises(hl.errors.InvalidArgument, match="kind returned"):
        hl.estimate_nearness(memory, transitions_alike=alike, kind=lambda s, a, s_next: [s_next])


def test_outcomes_that_the_shape_excludes_contradict_it():
    memory = visited([slipping(0.5)] * 4, np.random.default_rng(0), np.full((4, 6, 1), 30))
    possible = np.zeros((6, 1, 6), dtype=bool)
    possible[:, :, 0] = True
    shape = hl.Nearness(rewards=1.0, transitions=1.0, successors=possible)
    found = hl.estimate_nearness(memory, shape=shape)
    assert "that the shape excludes were seen, such as state" in found.contradictions[0]
    assert found.probability() == 0


def test_rewards_above_the_highest_of_the_shape_contradict_it():
    memory = exact_memory([[0.1, 0.1], [0.1, 0.2], [0.1, 0.3]])
    for highest, n in ((0.3, 0), (0.25, 1)):
        shape = hl.Nearness(rewards=1.0, transitions=1.0, highest_rewards=highest)
        found = hl.estimate_nearness(memory, shape=shape, exact=True)
        assert len(found.contradictions) == n
    assert "state 0, action 1 exceeds highest_rewards of the shape" in found.contradictions[0]


def test_forgotten_tasks_count_for_the_next_one():
    memory = hl.TaskMemory(6, 1, capacity=4, keep="latest")
    agent = hl.RMax(n_states=6, n_actions=1, gamma=0.9, seed=0, memory=memory)
    for seed in range(8):
        hl.learn(agent, slipping(0.5), episodes=1, max_steps=5, seed=seed)
    found = hl.estimate_nearness(memory, exact=True, parts=["rewards"])
    assert (found.n_tasks, found.n_seen) == (4, 8)
    assert found.probability() == pytest.approx(4 * 3 / (9 * 8))
    few = exact_memory([[0.1, 0.1], [0.1, 0.2]])
    assert "2 tasks of 2 are too few" in str(hl.estimate_nearness(few, exact=True))


def test_rewards_that_cannot_vary_contradict_nothing():
    m = hl.TabularMDP(np.full((2, 1), 0.1), np.ones((2, 1, 2)) / 2, gamma=0.9,
                      reward_range=(0.1, 0.1))  # fmt: skip
    memory = visited([m] * 2, np.random.default_rng(0), np.full((2, 2, 1), 3))
    found = hl.estimate_nearness(memory)
    assert not found.contradictions
    assert (found.rewards.upper == 0).all()


def drawn_tasks(rng, m):
    """Tasks with two pairs, whose rewards are exchangeable, and the second differs ten times more.

    The models are known exactly.
    """
    theta = rng.random(m) * rng.choice([1.0, 0.2])
    return np.stack([0.05 * theta, 0.5 * theta], axis=1)


def exact_memory(rewards):
    tasks = [hl.TabularMDP(R[None], np.ones((1, 2, 1)), gamma=0.9) for R in np.array(rewards)]
    memory = memory_for(tasks)
    for m in tasks:
        model = hl.LearnedModel(1, 2, n_known=1)
        for a in range(2):
            model.observe(0, a, float(m.R[0, a]), 0, terminated=False)
        memory.add(hl.bounds.Source.of(model, np.full(2, memory.setting.v_max)))
    return memory


@pytest.mark.parametrize(
    ("m", "n_next"),
    [(3, 1), *(pytest.param(6, n, marks=pytest.mark.slow) for n in (1, 3))],
)
def test_claim_holds_for_the_next_tasks_with_its_probability(m, n_next):
    """With one parameter, the largest difference is a range, and the probability is exact."""
    shape = hl.Nearness(rewards=np.array([[0.1, 1.0]]), transitions=0.0)
    rng, holds, n = np.random.default_rng(m), 0, 1500
    for _ in range(n):
        R = drawn_tasks(rng, m + n_next)
        found = hl.estimate_nearness(exact_memory(R[:m]), shape=shape, exact=True)
        claim = found.nearness.rewards[0] + 1e-7
        holds += (np.abs(R[:, None] - R[None, m:]) <= claim).all()
    expected = m * (m - 1) / ((m + n_next) * (m + n_next - 1))
    assert found.probability(n_next) == pytest.approx(expected)  # models are exact
    assert abs(holds / n - expected) <= 4 * np.sqrt(expected * (1 - expected) / n)


@pytest.mark.parametrize("seed", seeds(100))
def test_claim_fails_only_if_a_set_fails_or_the_next_task_differs_most(seed):
    """With a large δ, so that limits are narrow; coverage alone would hide a wrong program."""
    rng = np.random.default_rng(seed)
    tasks = family(rng, n=4)
    size = tasks[0].R.shape
    visits = rng.choice([0, 3, 40, 300], size=(3, *size), p=[0.05, 0.05, 0.3, 0.6])
    memory, pairs = visited(tasks[:3], rng, visits), rng.random(size) < 0.6
    pairs.flat[rng.integers(pairs.size)] = True
    units = (
        rng.uniform(0.1, 1, (2, *size))
        * np.array([np.ptp(tasks[0].reward_range), 1])[:, None, None]
    )
    shape = hl.Nearness(rewards=units[0], transitions=units[1])
    seen, both = (
        np.array([near.rewards, near.transitions])[:, pairs]
        for near in map(hl.family_nearness, (tasks[:3], tasks))
    )
    for confidence in (0.05, 0.95):
        if not all_sets_hold(memory, tasks[:3], 1 - confidence):
            continue
        for given, unit in ((None, 1.0), (shape, units[:, pairs])):
            found = hl.estimate_nearness(memory, confidence=confidence, shape=given, pairs=pairs)
            claim = np.array([found.nearness.rewards, found.nearness.transitions])[:, pairs]
            most = [np.nanmax(x / unit, axis=1) for x in (seen, both)]
            if given is not None:
                most = [x.max() for x in most]
            is_usual = np.broadcast_to(most[1] <= most[0] + ROUNDING, 2)
            assert (both <= claim + ROUNDING)[is_usual].all()


@pytest.mark.parametrize("odd", [0.9, 0.1])
def test_pair_does_not_differ_from_a_task_that_does_not_have_it(odd):
    """Another pair of its group does."""
    rng, agent = np.random.default_rng(0), hl.RMax(n_states=2, n_actions=2, gamma=0.9, seed=0)
    for i, p in enumerate([1 - odd, 1 - odd, odd]):
        agent.begin_task(available=np.array([[True, i < 2], [True, True]]))
        for a in range(1 + (i < 2)):
            for x in (rng.random(3000) < p).tolist():
                agent.observe(0, a, float(x), int(x), terminated=False)
        agent.end_task()
    alike = np.array([[0, 0], [-1, -1]])
    found = hl.estimate_nearness(agent.memory, rewards_alike=alike, transitions_alike=alike)
    assert not found.contradictions
    for part in (found.rewards, found.transitions):
        assert part.lower[0, 0] > 0.6
        assert part.lower[0, 1] == 0
        assert part.estimate[0, 1] < 0.1


def test_probability_counts_every_number_and_the_doubt_of_its_limits():
    tasks = [slipping(p) for p in np.linspace(0.1, 0.2, 9)]
    memory = visited(tasks, np.random.default_rng(0), np.full((9, 6, 1), 3))
    shape = hl.Nearness(rewards=1.0, transitions=1.0)
    for options, expected in (
        ({}, 1 - 0.05 - 2 * 0.2),
        ({"parts": ["transitions"]}, 1 - 0.05 - 0.2),
        ({"shape": shape}, 1 - 0.05 - 0.2),
        ({"exact": {"rewards": True}}, 1 - 0.05 - 2 * 0.2),
        ({"exact": {"rewards": True}, "parts": ["rewards"]}, 1 - 0.2),
    ):
        found = hl.estimate_nearness(memory, **options)
        assert found.probability() == pytest.approx(expected)
    assert found.probability(2) == pytest.approx(9 * 8 / (11 * 10))
    with pytest.raises(hl.errors.InvalidArgument, match="n_next is 0"):
        found.probability(0)


def test_shape_that_says_no_difference_is_contradicted_by_one():
    memory = exact_memory([[0.1, 0.1], [0.1, 0.2], [0.1, 0.3]])
    zero = hl.Nearness(rewards=np.array([[1.0, 0.0]]), transitions=0.0)
    found = hl.estimate_nearness(memory, shape=zero, exact=True)
    (text,) = found.contradictions
    assert "tasks do not differ in rewards at state 0, action 1" in text
    assert found.probability() == 0
    fine = hl.Nearness(rewards=np.array([[0.0, 1.0]]), transitions=0.0)
    found = hl.estimate_nearness(memory, shape=fine, exact=True)
    assert np.allclose(found.nearness.rewards, [[0.0, 0.2]])
    assert "The next task: Nearness(rewards=0 to 0.2" in str(found)


def test_pairs_outside_of_the_set_are_not_claimed():
    memory = exact_memory([[0.1, 0.1], [0.1, 0.2], [0.1, 0.3]])
    found = hl.estimate_nearness(memory, pairs=np.array([[True, False]]), exact=True)
    assert np.allclose(found.nearness.rewards, [[0.0, 1.0]], atol=1e-8)
    assert found.nearness.transitions[0, 1] == 1


def test_visits_needed_are_those_of_alike_pairs_together():
    memory = visited([slipping(0.1)] * 2, np.random.default_rng(0), np.full((2, 6, 1), 2))
    alike = {"rewards_alike": ALIKE, "transitions_alike": ALIKE, "kind": forward}
    found = hl.estimate_nearness(memory, **alike)
    accuracy, outcomes = Accuracy(exact=False, delta=0.05), np.full(7, 6)  # pairs and their group
    radii = radii_for(accuracy.share(2), memory.setting, outcomes)
    for name, n in found.visits_needed.items():
        enough, too_few = (getattr(radii.at(np.full(7, x)), name)[6] for x in (n, n - 1))
        assert 2 * enough <= CLOSE < 2 * too_few


def test_shape_of_a_tiny_number_claims_nothing():
    memory = exact_memory([[0.1, 0.1], [0.2, 0.2], [0.1, 0.3]])
    shape = hl.Nearness(rewards=np.array([[1e-320, 1.0]]), transitions=0.0)
    found = hl.estimate_nearness(memory, shape=shape, exact=True)
    assert found.nearness.rewards[0, 1] == 1


def test_estimate_without_enough_visits_says_how_many_are_needed():
    rng = np.random.default_rng(0)
    few = visited([slipping(0.1), slipping(0.2)], rng, np.full((2, 6, 1), 5))
    found = hl.estimate_nearness(few)
    assert found.is_vacuous
    text = str(found)
    assert "Nothing is known about the next task: the limits exclude nothing." in text
    n = found.visits_needed["transitions"]
    assert f"need {n:,} visits in every task of each pair" in text
    enough = visited([slipping(0.1), slipping(0.2)], rng, np.full((2, 6, 1), n))
    part = hl.estimate_nearness(enough).transitions
    assert (part.upper - part.estimate <= CLOSE).all()


def test_one_pair_with_wide_limits_widens_the_claim_at_all_pairs():
    visits = np.full((2, 6, 1), 3000)
    visits[:, 0] = 30
    memory = visited([slipping(0.5)] * 2, np.random.default_rng(0), visits)
    shape = hl.Nearness(rewards=0.1, transitions=0.0)
    found = hl.estimate_nearness(memory, parts=["rewards"], shape=shape)
    assert found.rewards.upper[0] > 4 * found.rewards.upper[1:].max()
    assert np.allclose(found.nearness.rewards, found.rewards.upper[0])


def test_shape_that_says_no_difference_tells_nothing_by_itself():
    """Zeros of a shape are claims of the user, and no result."""
    memory = visited([slipping(0.1)] * 50, np.random.default_rng(0), np.full((50, 6, 1), 1))
    shape = hl.Nearness(rewards=np.array([[0.0], *[[1.0]] * 5]), transitions=0.0)
    found = hl.estimate_nearness(memory, parts=["rewards"], shape=shape)
    assert found.nearness.rewards[0, 0] == 0
    assert found.is_vacuous
    assert "the limits exclude nothing" in str(found)


def test_selected_tasks_say_nothing_about_the_next_one():
    m = slipping(0.1)
    agent = hl.RMax(n_states=6, n_actions=1, gamma=0.9, seed=0)
    for seed in range(3):
        hl.learn(agent, m, episodes=2, max_steps=5, seed=seed)
    assert hl.estimate_nearness(agent.memory).obstacle == ""
    agent.begin_task()
    agent.observe(0, 0, 0.1, 1, terminated=False)
    agent.drop_task()
    found = hl.estimate_nearness(agent.memory)
    assert "1 task was dropped" in str(found)
    assert found.probability() == 0
    few = hl.TaskMemory(6, 1, capacity=2, keep="most_used")
    kept = hl.RMax(n_states=6, n_actions=1, gamma=0.9, seed=0, memory=few)
    for seed in range(3):
        hl.learn(kept, m, episodes=2, max_steps=5, seed=seed)
    assert "most_used" in hl.estimate_nearness(kept.memory).obstacle
    merged = hl.TaskMemory(6, 1).merge(kept.memory)
    assert hl.estimate_nearness(merged).probability() == 0


def test_missing_actions_are_not_compared():
    available = np.array([[True, True], [True, False]])
    agent = hl.RMax(n_states=2, n_actions=2, gamma=0.9, seed=0)
    for _ in range(2):
        agent.begin_task(available=available)
        for s, a in np.argwhere(available).tolist():
            for _ in range(2000):
                agent.observe(s, a, 0.5, 0, terminated=False)
        agent.end_task()
    found = hl.estimate_nearness(agent.memory)
    assert found.pairs.tolist() == available.tolist()
    assert found.rewards.upper[1, 1] == 0
    assert found.rewards.upper[available].max() < 0.5


def test_task_without_an_action_does_not_count_for_its_limits():
    tasks, rng = [0.1, 0.9, 0.4], np.random.default_rng(0)
    agent = hl.RMax(n_states=1, n_actions=2, gamma=0.9, seed=0)
    for i, r in enumerate(tasks):
        agent.begin_task(available=np.array([[True, i < 2]]))
        for a in range(1 + (i < 2)):
            for _ in range(3000):
                agent.observe(0, a, float(rng.random() < r), 0, terminated=False)
        agent.end_task()
    found = hl.estimate_nearness(agent.memory).rewards
    assert (0.6 < found.lower).all()
    assert (found.lower <= 0.8).all()
    assert (0.8 <= found.upper).all()
    assert (found.upper < 0.9).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence": 1.0}, "confidence is"),
        ({"rewards_alike": np.zeros((6, 1))}, "rewards_alike is"),
        ({"pairs": np.zeros((6, 1), dtype=bool)}, "pairs is"),
        ({"shape": hl.Nearness(rewards=np.zeros((2, 2)), transitions=0.0)}, "has shape"),
        ({"exact": {"reward": True}}, "exact has the key 'reward'"),
        ({"exact": {"rewards": 1}}, "exact has 1 for rewards"),
        ({"exact": "yes"}, "exact is 'yes'"),
    ],
)
def test_wrong_arguments_are_refused(options, message):
    rng = np.random.default_rng(0)
    memory = visited([slipping(0.1)] * 2, rng, np.full((2, 6, 1), 2))
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        hl.estimate_nearness(memory, **options)


def test_one_task_is_not_enough():
    memory = visited([slipping(0.1)], np.random.default_rng(0), np.full((1, 6, 1), 2))
    with pytest.raises(hl.errors.InvalidArgument, match="the memory has 1 task"):
        hl.estimate_nearness(memory)
