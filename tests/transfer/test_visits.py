"""The sums of a memory over all visits of all tasks, forgotten and dropped ones too."""

from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np
import pytest

import heirloom as hl
from heirloom.mdp.rows import Rows, check_rows
from heirloom.transfer.visits import Visits

N_STATES, N_ACTIONS = 4, 3
SIZES = {"n_states": N_STATES, "n_actions": N_ACTIONS}


class Lived:
    """The visits that the models of an agent counted, as lists of (reward, outcome) per pair."""

    def __init__(self):
        self.visits = defaultdict(list)

    def task(self, agent, rng, *, dropped):
        """Let an agent live one random task, with missing actions and transitions that end."""
        T = rng.dirichlet(np.full(N_STATES, 0.5), size=(N_STATES, N_ACTIONS))
        available = rng.random((N_STATES, N_ACTIONS)) < 0.8
        available[:, rng.integers(N_ACTIONS)] = True
        agent.begin_task()
        steps, s = defaultdict(list), 0
        for _ in range(40):
            agent.observe_mask(s, available[s])
            a = agent.act(s)
            s_next, r = int(rng.choice(N_STATES, p=T[s, a])), float(rng.random())
            ends = bool(rng.random() < 0.2)
            agent.observe(s, a, r, s_next, terminated=ends)
            steps[s * N_ACTIONS + a].append((r, N_STATES if ends else s_next))
            s = 0 if ends else s_next
        most = agent.n_known if agent.options["refresh"] is None else None
        for k, seen in steps.items():
            self.visits[k] += seen[:most]
        if dropped:
            agent.drop_task()
        else:
            agent.end_task()

    def check(self, rows):
        """Compare rows with the visits: counts and frequencies to the bit, means to an error."""
        check_rows("rows", rows, N_STATES)
        for k in range(N_STATES * N_ACTIONS):
            visits, row = self.visits[k], slice(rows.first[k], rows.last[k])
            n = len(visits)
            assert rows.counts[k] == n
            assert rows.known[k] == (n > 0)
            times = Counter(outcome for _, outcome in visits)
            expected = {outcome: times[outcome] / n for outcome in sorted(times)}
            assert rows.ends[k] == expected.pop(N_STATES, 0.0)
            assert rows.successors[row].tolist() == list(expected)
            assert rows.p[row].tolist() == list(expected.values())
            mean = sum(Fraction(r) for r, _ in visits) / max(n, 1)
            # Of rounding twice: the mean of each task, and that of all tasks.
            assert abs(Fraction(float(rows.R[k])) - mean) <= Fraction(2) ** -52 * mean


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("capacity", "refresh"), [(None, None), (1, None), (None, 1.5), (1, 1.5)])
def test_pooled_rows_are_those_of_all_visits_of_all_tasks(capacity, refresh, seed):
    """Models that are estimated once have the visits until a pair became known."""
    rng = np.random.default_rng(seed)
    memory = hl.TaskMemory(N_STATES, N_ACTIONS, capacity=capacity)
    n_known = int(rng.integers(1, 7))
    options = {"n_known": n_known, "refresh": refresh, "memory": memory, "seed": seed}
    agent = hl.RMax(**SIZES, gamma=0.9, **options)
    lived = Lived()
    for i in range(12):
        lived.task(agent, rng, dropped=i % 4 == 1)
        if rng.random() < 0.5:
            lived.check(memory.pooled)
    lived.check(memory.pooled)
    assert memory.n_tasks == 9
    assert (memory.pooled.ends > 0).any()


def test_pooled_rows_of_a_saved_memory_have_the_same_bits_then_and_later(tmp_path):
    path, lives = tmp_path / "memory", []
    for is_saved in (False, True):
        rng = np.random.default_rng(5)
        memory = hl.TaskMemory(N_STATES, N_ACTIONS, capacity=2)
        for i in range(8):
            agent = hl.RMax(**SIZES, gamma=0.9, n_known=3, memory=memory, seed=i)
            Lived().task(agent, rng, dropped=i == 2)
            if is_saved:
                memory.save(path)
                loaded = hl.TaskMemory.load(path)
                for one, other in zip(memory.pooled, loaded.pooled, strict=True):
                    assert one.dtype == other.dtype
                    assert np.array_equal(one, other)
                memory = loaded
        memory.save(path)
        lives.append(path.read_bytes())
    assert lives[0] == lives[1]


def test_pooled_rows_cannot_be_written_to_and_do_not_change_when_tasks_are_added():
    memory = hl.TaskMemory(N_STATES, N_ACTIONS)
    agent = hl.RMax(**SIZES, gamma=0.9, n_known=2, memory=memory, seed=0)
    rng = np.random.default_rng(0)
    Lived().task(agent, rng, dropped=False)
    pooled = memory.pooled
    copies = [array.copy() for array in pooled]
    Lived().task(agent, rng, dropped=False)
    assert not any(array.flags.writeable for array in pooled)
    assert all(map(np.array_equal, pooled, copies))
    assert memory.pooled.counts.sum() > pooled.counts.sum()


def drawn_rows(rng, n_states, n_pairs, *, most_successors, n_visited):
    """Draw rows of few visited pairs, with 1 to 5 visits each."""
    model = hl.LearnedModel(n_states, n_pairs // n_states, n_known=3)
    for k in rng.choice(n_pairs, size=n_visited, replace=False):
        for _ in range(rng.integers(1, 6)):
            s_next, ends = int(rng.integers(most_successors)), bool(rng.random() < 0.1)
            s, a = divmod(int(k), n_pairs // n_states)
            model.observe(s, a, float(rng.normal()), s_next, terminated=ends)
    return model.visited_rows


def test_outcomes_stay_sorted_and_complete():
    rng = np.random.default_rng(1)
    visits, expected = Visits(60, 2), Counter()
    for i in range(300):
        rows = drawn_rows(rng, 60, 120, most_successors=60, n_visited=3)
        visits.add(rows)
        keys, p = rows.outcomes(60)
        for key, share in zip(keys.tolist(), p.tolist(), strict=True):
            expected[key] += round(share * int(rows.counts[key // 61]))
        if i % 50 == 49:
            keys, times = visits.outcomes
            assert (np.diff(keys) > 0).all()
            assert dict(zip(keys.tolist(), times.tolist(), strict=True)) == expected


def test_mean_of_equal_rewards_in_all_tasks_is_exact():
    memory = hl.TaskMemory(1, 1)
    for n in range(1, 200):
        model = hl.LearnedModel(1, 1, n_known=n)
        for _ in range(n):
            model.observe(0, 0, 0.1, 0, terminated=False)
        memory.add(hl.bounds.Source.of(model, np.ones(1)))
    assert memory.pooled.R.tolist() == [0.1]
    assert memory.pooled.counts.tolist() == [199 * 100]


def test_model_that_was_given_is_a_source_without_visits():
    given = Rows(
        known=np.array([True]),
        counts=np.array([0]),
        R=np.array([0.5]),
        ends=np.zeros(1),
        first=np.array([0]),
        last=np.array([1]),
        successors=np.array([0], dtype=np.int32),
        p=np.ones(1),
    )
    memory = hl.TaskMemory(1, 1)
    memory.add(hl.bounds.Source(given, np.ones(1), np.ones(1)))
    assert memory.n_tasks == 1
    assert not memory.pooled.known.any()
    assert memory.pooled.p.size == 0


def test_rewards_of_forgotten_tasks_are_compared_with_the_setting_of_an_agent():
    memory = hl.TaskMemory(1, 1, capacity=1)
    for r in (5.0, 0.5):
        model = hl.LearnedModel(1, 1, n_known=1)
        model.observe(0, 0, r, 0, terminated=False)
        memory.add(hl.bounds.Source.of(model, np.ones(1)))
    with pytest.raises(hl.errors.InvalidArgument, match=r"s=0, a=0 is 2\.75, outside"):
        hl.RMax(n_states=1, n_actions=1, gamma=0.9, n_known=1, memory=memory)
