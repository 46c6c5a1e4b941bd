"""Outcomes of all visits: learned models count them, sources keep them."""

from collections import defaultdict
from fractions import Fraction

import gymnasium as gym
import numpy as np
import pytest

import heirloom as hl
from heirloom.bounds import Source
from heirloom.mdp.rows import Outcomes
from tests.strategies import draw_task, seeds

S, A = 5, 2
SIZES = {"n_states": S, "n_actions": A, "gamma": 0.9}
AGENTS = {
    "RMax": hl.RMax,
    "frozen RMax": lambda **o: hl.RMax(n_known=3, refresh=None, **o),
    "NearRMax": lambda **o: hl.NearRMax(nearness=hl.Nearness(rewards=1, transitions=0.5), **o),
    "PSRL": hl.PSRL,
    "RMax with pooled visits": lambda **o: hl.RMax(pool=4, **o),
    "frozen RMax with pooled visits": lambda **o: hl.RMax(n_known=3, refresh=None, pool=4, **o),
}


class Observed(gym.Wrapper):
    """An environment that notes all its steps."""

    def __init__(self, env):
        super().__init__(env)
        self.rewards = defaultdict(list)

    def reset(self, **options):
        self.s, info = self.env.reset(**options)
        return self.s, info

    def step(self, a):
        s_next, r, terminated, truncated, info = self.env.step(a)
        outcome = -1 - s_next if terminated else s_next
        self.rewards[int(self.s * A + a), int(outcome)].append(float(r))
        self.s = s_next
        return s_next, r, terminated, truncated, info


def as_dict(outcomes):
    """Return times, mean reward and whether rewards vary, of each pair and outcome."""
    columns = (outcomes.pairs, outcomes.states, outcomes.times, outcomes.R, outcomes.varies)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return {(k, outcome): values for k, outcome, *values in rows}


def assert_identical(one, other):
    for left, right in zip(one, other, strict=True):
        assert left.dtype == right.dtype
        assert left.tobytes() == right.tobytes()
        assert not right.flags.writeable


@pytest.mark.parametrize("seed", range(20))
def test_outcomes_of_a_model_are_those_that_it_observed(seed):
    """Differences from the first reward may cancel: 0, 0.1, -0.1, and again."""
    rng = np.random.default_rng(seed)
    model = hl.LearnedModel(S, A, n_known=int(rng.integers(1, 9)), refresh=(None, 1.5)[seed % 2])
    seen = defaultdict(list)
    for _ in range(400):
        k, s_next, ended = int(rng.integers(S * A)), int(rng.integers(S)), rng.random() < 0.3
        rewards = seen[k, -1 - s_next if ended else s_next]
        r = (k / 7, (0.0, 0.1, -0.1)[len(rewards) % 3], rng.normal())[k % 3]
        model.observe(*divmod(k, A), r, s_next, terminated=ended)
        rewards.append(r)
    found = as_dict(model.outcomes)
    assert list(found) == sorted(seen)
    cancelled = 0
    for outcome, rewards in seen.items():
        times, R, varies = found[outcome]
        assert times == len(rewards)
        assert varies == (len(set(rewards)) > 1)
        mean = sum(map(Fraction, rewards)) / times
        assert R == rewards[0] if not varies else abs(Fraction(R) - mean) <= Fraction(2) ** -50
        cancelled += varies and mean == Fraction(rewards[0])
    assert cancelled > 0


def test_a_new_model_has_no_outcomes():
    outcomes = hl.LearnedModel(S, A, n_known=1).outcomes
    assert outcomes.first.tolist() == [0] * (S * A + 1)
    assert outcomes.states.size == 0


@pytest.mark.parametrize("name", AGENTS)
def test_sources_of_compiled_and_step_by_step_learning_have_the_outcomes_observed(name):
    compiled, stepped = (AGENTS[name](**SIZES, seed=0) for _ in range(2))
    for i in range(4):
        m = hl.garnet(S, A, branching=2, gamma=0.9, terminating=0.3, seed=i % 2)
        env = Observed(m.to_gymnasium())
        hl.learn(compiled, m, episodes=40, max_steps=10, seed=i)
        hl.learn(stepped, env, episodes=40, max_steps=10, seed=i)
        source, twin = (agent.memory.sources[-1] for agent in (compiled, stepped))
        assert_identical(source.outcomes, twin.outcomes)
        found = as_dict(source.outcomes)
        assert list(found) == sorted(env.rewards)
        for outcome, rewards in env.rewards.items():
            times, R, varies = found[outcome]
            assert times == len(rewards)
            assert R == pytest.approx(rewards[0], abs=1e-12)
            assert R == rewards[0] or varies
        assert "pooled" in name or not source.outcomes.varies.any()
        visits = np.bincount(source.outcomes.pairs, source.outcomes.times, minlength=S * A)
        if name == "frozen RMax":  # rows of known pairs are estimated once
            assert np.array_equal(source.rows.counts, np.minimum(visits, 3))
        else:
            assert np.array_equal(source.rows.counts, visits)
    assert source.outcomes.varies.any() == ("pooled" in name)


@pytest.mark.parametrize("seed", seeds(100))
def test_source_of_a_random_task_is_valid(seed):
    """The constructor of sources checks what `Source.of` does not."""
    rng = np.random.default_rng(seed)
    m = draw_task(rng)
    options = {"n_known": int(rng.integers(1, 5)), "refresh": (None, 1.5)[rng.integers(2)]}
    sizes = {"n_states": m.n_states, "n_actions": m.n_actions, "gamma": m.gamma}
    agent = hl.RMax(**sizes, **options, reward_range=m.reward_range, pool=int(rng.integers(5)))
    for i in range(3):
        hl.learn(agent, m, episodes=int(rng.integers(1, 30)), max_steps=8, seed=i)
        source = agent.memory.sources[-1]
        again = Source(
            source.rows,
            source.Q,
            source.V,
            available=source.available,
            outcomes=source.outcomes,
        )
        assert_identical(source.outcomes, again.outcomes)
        agent.memory._check_fit(again)


# Sources that are given


def small_source():
    """Return a source with two outcomes of the first pair, and none of the second."""
    model = hl.LearnedModel(2, 1, n_known=5)
    for s_next, terminated in ((1, False), (1, False), (0, True)):
        model.observe(0, 0, 0.5, s_next, terminated=terminated)
    return Source.of(model, np.ones(2))


def changed(**arrays):
    return small_source().outcomes._replace(**arrays)


@pytest.mark.parametrize(
    ("outcomes", "message"),
    [
        (changed(first=np.array([0, 2])), "first has 2 entries, not 3"),
        (changed(first=np.array([0, 3, 2])), "first does not increase from 0 to 2"),
        (changed(first=np.array([-1, 2, 2])), "first does not increase from 0 to 2"),
        (changed(first=np.array([0, 2, 1])), "first does not increase from 0 to 2"),
        (changed(first=np.array([0.0, 2.0, 2.0])), "first is .* expected an array of int64"),
        (changed(states=np.array([-3, 1])), "a state is not from -2 to 1"),
        (changed(states=np.array([-1, 2])), "a state is not from -2 to 1"),
        (changed(states=np.array([-1, 2**32])), "beyond the range of int32"),
        (changed(states=np.array([1, -1])), "not in increasing order"),
        (changed(states=np.array([1, 1])), "not in increasing order"),
        (changed(times=np.array([1, 0])), "an entry of times is not from 1 to"),
        (changed(times=np.array([1, 2**41])), "an entry of times is not from 1 to"),
        (changed(times=np.array([2**40, 2**40])), "a pair has more than"),
        (changed(times=np.array([1, 1])), "a pair has fewer visits than its row"),
        (changed(times=np.array([1])), "its arrays have different lengths"),
        (changed(R=np.array([np.nan, 0.5])), "R has an entry that is not finite"),
        (changed(R=np.array([1e301, 0.5])), "R has an entry that is not finite"),
        (changed(R=[0.5, 0.5]), "R is .* expected an array of float64"),
        (changed(varies=np.array([0, 1])), "varies is .* expected an array of bool"),
        (changed(first=np.array([0, 1, 2])), "a pair has fewer visits than its row"),
        (
            changed(first=np.array([0, 1, 2]), times=np.array([3, 3])),
            "a pair without a row has visits",
        ),
        ((1, 2), "outcomes is .* such as model.outcomes"),
    ],
)
def test_source_with_invalid_outcomes_is_refused(outcomes, message):
    """Compiled code would read beyond its arrays."""
    source = small_source()
    Source(source.rows, source.Q, source.V, outcomes=source.outcomes)
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        Source(source.rows, source.Q, source.V, outcomes=outcomes)


def test_source_can_have_more_visits_than_its_rows_but_rewards_of_the_setting_only():
    source = small_source()
    more = changed(times=np.array([3, 4]), R=np.array([0.5, 2.0]))
    source = Source(source.rows, source.Q, source.V, outcomes=more)
    memory = hl.TaskMemory(2, 1)
    memory.add(source)
    setting = hl.bounds.Setting(n_states=2, n_actions=1, gamma=0.9)
    with pytest.raises(
        hl.errors.InvalidArgument, match=r"mean reward of .* is 2, outside \(0, 1\)"
    ):
        memory.bind(setting)
    memory = hl.TaskMemory(2, 1)
    memory.bind(setting)
    with pytest.raises(
        hl.errors.InvalidArgument, match=r"mean reward of .* is 2, outside \(0, 1\)"
    ):
        memory.add(source)


def test_source_does_not_change_with_the_outcomes_that_it_was_made_from():
    source = small_source()
    given = Outcomes(*(array.copy() for array in source.outcomes))
    made = Source(source.rows, source.Q, source.V, outcomes=given)
    for array in given:
        array[:] = 0
    assert_identical(source.outcomes, made.outcomes)
    assert Source(source.rows, source.Q, source.V).outcomes is None
