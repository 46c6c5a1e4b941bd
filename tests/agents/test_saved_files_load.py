"""Whatever Heirloom saves, it loads: over random settings, rewards and bounds."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import heirloom as hl
from heirloom.transfer.source import Source
from heirloom.wrappers import Numbered

SIZES = st.floats(-1e12, 1e12, allow_subnormal=False)


@st.composite
def learned_agents(draw):
    """Draw an agent that has learned tasks whose rewards are often at the ends of their range."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    lo, hi = sorted((draw(SIZES), draw(st.sampled_from([0.0, 0.1, 99999.9, 1e12]) | SIZES)))
    terminating = draw(st.booleans())
    options = {
        "n_states": draw(st.integers(1, 3)),
        "n_actions": draw(st.integers(1, 2)),
        "gamma": draw(st.sampled_from([0.0, 0.5, 0.9, 0.99, 0.9999])),
        "n_known": draw(st.sampled_from([1, 2, 3, 7, 10, 33])),
        "reward_range": (lo, hi),
        "terminating": terminating,
        "seed": 0,
    }
    priors = {"d_max": draw(st.none() | st.floats(0, 1e12)), "p_min": 0.5, "delta": 0.5}
    agent = hl.RMax(**options) if draw(st.booleans()) else hl.LRMaxQInit(**priors, **options)
    ends = draw(st.sampled_from([(lo,), (hi,), (lo, hi), (lo, hi, float(rng.uniform(lo, hi)))]))
    for _ in range(draw(st.integers(0, 3))):
        agent.begin_task()
        for k in range(agent.setting.n_pairs):
            for _ in range(agent.n_known - int(rng.random() < 0.2)):
                s, a = divmod(k, agent.n_actions)
                s_next = int(rng.integers(agent.n_states))
                over = terminating and rng.random() < 0.1
                agent.observe(s, a, min(max(rng.choice(ends), lo), hi), s_next, terminated=over)
        agent.end_task()
    return agent


@settings(max_examples=60, deadline=None)
@given(agent=learned_agents())
def test_saved_agent_and_memory_can_be_loaded(tmp_path_factory, agent):
    path = tmp_path_factory.mktemp("saved") / "file"
    agent.save(path)
    assert hl.OptimisticAgent.load(path).setting == agent.setting
    agent.memory.save(path)
    assert hl.TaskMemory.load(path).n_tasks == agent.memory.n_tasks


def test_mean_of_a_thousand_rewards_at_the_end_of_their_range_can_be_loaded(tmp_path):
    agent = hl.RMax(
        n_states=1, n_actions=1, gamma=0.9, n_known=1000, reward_range=(0, 99999.9), seed=0
    )
    agent.begin_task()
    for _ in range(1000):
        agent.observe(0, 0, 99999.9, 0, terminated=False)
    agent.end_task()
    assert agent.memory.sources[0].rows.R[0] <= 99999.9
    agent.save(tmp_path / "agent")
    assert hl.OptimisticAgent.load(tmp_path / "agent").memory.n_tasks == 1


def test_agent_that_needs_more_tasks_than_64_bits_count_can_be_loaded(tmp_path):
    options = {"n_states": 1, "n_actions": 1, "gamma": 0.9, "n_known": 1}
    agent = hl.LRMax(p_min=1e-30, **options, seed=0)
    agent.begin_task()
    agent.end_task()
    agent.save(tmp_path / "agent")
    n_first = hl.OptimisticAgent.load(tmp_path / "agent").memory.n_first
    assert n_first == agent.memory.n_first > 2**63


class Below(hl.Bound):
    """A bound that is not an upper bound: it is below every value."""

    def begin_task(self, setting, model, memory):
        self.U = np.full(setting.n_pairs, -5.0)
        return False


def test_bound_below_all_values_is_refused_before_anything_is_learned():
    agent = hl.OptimisticAgent(bounds=[Below()], n_states=2, n_actions=1, gamma=0.9, n_known=1)
    with pytest.raises(hl.errors.InvalidArgument, match="below 0, the smallest possible value"):
        agent.begin_task()


def test_values_of_forgotten_tasks_are_compared_with_the_setting_of_an_agent(tmp_path):
    """Their maximum is stored, and a file with a value out of range could not be loaded."""
    memory = hl.TaskMemory(1, 1, capacity=1)
    model = hl.RMax(n_states=1, n_actions=1, gamma=0.9, n_known=1)
    model.begin_task()
    for value in (1e6, 1.0):
        memory.add(Source.of(model.model, np.array([value])))
    with pytest.raises(hl.errors.InvalidArgument, match=r"Q contains .*, outside"):
        hl.RMax(n_states=1, n_actions=1, gamma=0.9, n_known=1, memory=memory)
    memory.save(tmp_path / "memory")
    assert hl.TaskMemory.load(tmp_path / "memory").max_Q[0] == 1e6


def test_rewards_of_a_small_range_are_compared_relative_to_it():
    options = {"n_states": 1, "n_actions": 1, "gamma": 0.9, "n_known": 1}
    agent = hl.RMax(**options, reward_range=(0.0, 1e-12))
    learned = hl.RMax(**options)
    learned.begin_task()
    learned.observe(0, 0, 0.0, 0, terminated=False)
    with pytest.raises(hl.errors.InvalidArgument, match=r"Q contains .*, outside"):
        agent.memory.add(Source.of(learned.model, np.array([1e-10])))


class ForgetsItsOption(hl.Bound):
    """Its `options` do not make the same bound again."""

    def __init__(self, *, ceiling=9.0):
        self.ceiling = ceiling

    def begin_task(self, setting, model, memory):
        self.U = np.full(setting.n_pairs, self.ceiling)
        return False

    def options(self):
        return {"height": self.ceiling}


def test_agent_whose_bound_could_not_be_rebuilt_is_not_saved(tmp_path):
    bounds = [ForgetsItsOption()]
    agent = hl.OptimisticAgent(bounds=bounds, n_states=2, n_actions=1, gamma=0.9, n_known=1)
    with pytest.raises(hl.errors.InvalidArgument, match=r"could not be loaded again \(.*height"):
        agent.save(tmp_path / "agent")
    assert not list(tmp_path.iterdir())


def test_numbers_of_observations_that_are_not_literals_are_not_saved(tmp_path):
    import gymnasium as gym

    env = Numbered(gym.make("FrozenLake-v1"), n_states=9, key=lambda seen: Fraction(seen))
    env.reset(seed=0)
    with pytest.raises(hl.errors.InvalidArgument, match="could not be loaded again"):
        env.save_numbers(tmp_path / "numbers")
    assert not list(tmp_path.iterdir())
