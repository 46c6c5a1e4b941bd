"""Conversion of tasks from and to Gymnasium environments."""

import logging

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings

import heirloom as hl
from heirloom.envs.toy_text import taxi
from heirloom.mdp.available import MaskNotice
from tests.domains import DOMAINS, coin, corridor
from tests.mdp.test_tabular import R_TRANSITION, T, assert_same_task
from tests.strategies import tasks

TOY_TEXT = {
    "FrozenLake-v1": {},
    "FrozenLake8x8-v1": {"is_slippery": False},
    "CliffWalking-v1": {},
    "CliffWalkingSlippery-v1": {},
    "Taxi-v4": {},
}


def merged(outcomes):
    """Merge a list of outcomes into {(successor, terminated): (probability, mean reward)}."""
    total = {}
    for p, s, r, terminated in outcomes:
        if p > 0:
            entry = total.setdefault((int(s), bool(terminated)), [0.0, 0.0])
            entry[0] += p
            entry[1] += p * r
    return {key: (p, reward_sum / p) for key, (p, reward_sum) in total.items()}


def env_with(n_states, **attributes):
    """Return an environment with one action that has these attributes and no dynamics."""
    spaces = {
        "observation_space": gym.spaces.Discrete(n_states),
        "action_space": gym.spaces.Discrete(1),
    }
    return type("Stub", (gym.Env,), {**spaces, **attributes})()


GOOD = {0: {0: [(1.0, 1, 0.0, False)]}, 1: {0: [(1.0, 1, 0.0, True)]}}


@pytest.fixture
def notices(caplog, monkeypatch):
    """Return a function that lists the messages about unused masks, as in a new process."""
    monkeypatch.setattr(MaskNotice, "announced", False)
    caplog.set_level(logging.WARNING, logger="heirloom")
    return lambda: [each.message for each in caplog.records if "masks=True" in each.message]


class TestMasks:
    def test_mask_that_is_not_asked_for_is_noted_once(self, notices):
        for _ in range(2):
            m = hl.TabularMDP.from_gymnasium(gym.make("Taxi-v4"), gamma=0.9)
        assert m.available.all()
        (message,) = notices()
        assert "from_gymnasium" in message
        hl.learn(
            hl.QLearning(n_states=500, n_actions=6, gamma=0.9), gym.make("Taxi-v4"), episodes=1
        )
        assert len(notices()) == 1

    def test_mask_of_a_method_is_noted_while_an_agent_learns(self, notices):
        env = corridor(3, 0.9).task.to_gymnasium(max_episode_steps=1)
        agent = hl.QLearning(n_states=env.observation_space.n, n_actions=2, gamma=0.9)
        for masks in (np.ones(2, dtype=bool), np.array([True, False])):
            env.unwrapped.action_masks = lambda masks=masks: masks
            hl.learn(agent, env, episodes=1)
            assert len(notices()) == (not masks.all())

    def test_masks_that_exclude_nothing_or_are_obeyed_are_not_noted(self, notices):
        for mask in (lambda s: [1], lambda s: [True], lambda: [0], lambda s: "none"):
            env = env_with(2, P=GOOD, action_mask=staticmethod(mask))
            hl.TabularMDP.from_gymnasium(env, gamma=0.9, start=0)
        masked = hl.TabularMDP.from_gymnasium(gym.make("Taxi-v4"), gamma=0.9, masks=True)
        hl.TabularMDP.from_gymnasium(masked.to_gymnasium(), gamma=0.9)
        taxi()  # Heirloom's own task ignores the masks of Taxi knowingly
        assert notices() == []
        assert not masked.available.all()

    @pytest.mark.parametrize(
        ("attributes", "message"),
        [
            ({}, r"has no method action_mask\(s\).*leave missing actions out"),
            ({"action_mask": lambda self: [1]}, r"action_mask\(0\) of .* raised TypeError"),
        ],
    )
    def test_masks_that_cannot_be_asked_for_are_an_error(self, attributes, message):
        env = env_with(2, P=GOOD, **attributes)
        with pytest.raises(hl.errors.UnsupportedEnvironment, match=message):
            hl.TabularMDP.from_gymnasium(env, gamma=0.9, start=0, masks=True)


class TestFromGymnasium:
    @pytest.mark.parametrize(("name", "options"), TOY_TEXT.items(), ids=TOY_TEXT)
    def test_every_entry_of_a_toy_text_table_is_read(self, name, options):
        env = gym.make(name, **options)
        m = hl.TabularMDP.from_gymnasium(env, gamma=0.95)
        table = m.to_gymnasium().unwrapped.P
        for s, actions in env.unwrapped.P.items():
            for a, outcomes in actions.items():
                ours, theirs = merged(table[s][a]), merged(outcomes)
                assert ours.keys() == theirs.keys()
                assert len(table[s][a]) == len(theirs)
                for key, (p, r) in theirs.items():
                    assert ours[key] == (pytest.approx(p), pytest.approx(r))
        assert np.allclose(m.start, env.unwrapped.initial_state_distrib)
        assert m.gamma == 0.95

    def test_reward_range_contains_the_rewards_of_the_table(self):
        taxi = hl.TabularMDP.from_gymnasium(gym.make("Taxi-v4"), gamma=0.95)
        assert taxi.reward_range == (-10, 20)
        lake = hl.TabularMDP.from_gymnasium(gym.make("FrozenLake-v1"), gamma=0.95)
        assert lake.reward_range == (0, 1)

    def test_frozen_lake_has_its_known_optimal_value(self):
        """Without slipping the goal is six steps away, and the last step has reward 1."""
        env = gym.make("FrozenLake-v1", is_slippery=False)
        m = hl.TabularMDP.from_gymnasium(env, gamma=0.9)
        sol = hl.solve(m)
        assert sol.V[0] == pytest.approx(0.9**5)
        assert sol.V[15] == 0
        assert hl.optimal_return(m, horizon=100, discounted=False) == 1

    def test_taxi_has_states_that_are_entered_with_and_without_termination(self):
        """In Taxi, dropping the passenger off terminates the episode only at the destination."""
        m = hl.TabularMDP.from_gymnasium(gym.make("Taxi-v4"), gamma=0.95)
        t = m.transitions
        assert set(t.successors[~t.ends]) & set(t.successors[t.ends])

    def test_outcomes_with_the_same_successor_are_merged_unless_one_terminates(self):
        outcomes = [(0.5, 0, 0.0, False), (0.25, 0, 1.0, False), (0.25, 0, 1.0, True)]
        lottery = env_with(1, P={0: {0: outcomes}}, initial_state_distrib=[1.0])
        m = hl.TabularMDP.from_gymnasium(lottery, gamma=0.9)
        assert m.transitions.p.tolist() == [0.75, 0.25]
        assert m.transitions.rewards.tolist() == pytest.approx([1 / 3, 1.0])
        assert m.ends.tolist() == [[0.25]]
        assert m.R.tolist() == [[0.5]]
        assert m.T.toarray().tolist() == [[1.0]]

    @pytest.mark.parametrize(
        ("env", "message"),
        [
            ("CartPole-v1", "observation space of .*CartPole.* is Box"),
            ("Blackjack-v1", "observation space of .*Blackjack.* is Tuple"),
        ],
    )
    def test_environments_that_are_not_discrete_are_rejected(self, env, message):
        with pytest.raises(hl.errors.UnsupportedEnvironment, match=message):
            hl.TabularMDP.from_gymnasium(gym.make(env), gamma=0.9)

    @pytest.mark.parametrize(
        ("attributes", "error", "message"),
        [
            ({}, hl.errors.UnsupportedEnvironment, "no transition table `P`"),
            ({"P": {0: GOOD[0]}}, hl.errors.InvalidTask, "state 1 has no available action"),
            (
                {"P": {**GOOD, 1: {0: [(1.0, 2, 0, False)]}}},
                hl.errors.InvalidTask,
                "the successor is 2",
            ),
            (
                {"P": {**GOOD, 1: {0: [(1.0, 0.7, 0, False)]}}},
                hl.errors.InvalidTask,
                "successor is 0.7",
            ),
            (
                {"P": {**GOOD, 1: {0: [(1.0, 1, 0, "False")]}}},
                hl.errors.InvalidTask,
                r"P\[1\]\[0\] contains",
            ),
            (
                {"P": {**GOOD, 1: {0: [("p", 1, 0, False)]}}},
                hl.errors.InvalidTask,
                r"P\[1\]\[0\] contains",
            ),
            (
                {"P": {**GOOD, 1: {0: (1.0, 1, 0, False)}}},
                hl.errors.InvalidTask,
                r"P\[1\]\[0\] contains 1.0",
            ),
            ({"P": 5}, hl.errors.InvalidTask, r"P\[0\]\[0\] cannot be read"),
            (
                {"P": GOOD, "initial_state_distrib": "first"},
                hl.errors.InvalidTask,
                "initial_state_distrib is not an array of real numbers",
            ),
            (
                {"P": {**GOOD, 1: {0: [(0.9, 1, 0, False)]}}},
                hl.errors.InvalidTask,
                r"s=1, a=0\] sums to",
            ),
            ({"P": {**GOOD, 1: {0: []}}}, hl.errors.InvalidTask, "state 1 has no available action"),
            (
                {"P": {**GOOD, 1: {0: [(1.0, 1, np.nan, False)]}}},
                hl.errors.InvalidTask,
                r"R\[s=1, a=0, s'=1\] is nan",
            ),
            (
                {"P": {**GOOD, 1: {0: [(1.0, 1)]}}},
                hl.errors.InvalidTask,
                r"P\[1\]\[0\] contains \(1.0, 1\)",
            ),
            (
                {"P": GOOD, "initial_state_distrib": None},
                hl.errors.UnsupportedEnvironment,
                "has no `initial_state_distrib`: give `start`",
            ),
            (
                {"P": GOOD, "observation_space": gym.spaces.Discrete(2, start=1)},
                hl.errors.UnsupportedEnvironment,
                "numbered from 0",
            ),
        ],
    )
    def test_invalid_tables_are_rejected(self, attributes, error, message):
        env = env_with(2, **{"initial_state_distrib": [1.0, 0.0], **attributes})
        with pytest.raises(error, match=message):
            hl.TabularMDP.from_gymnasium(env, gamma=0.9)

    def test_objects_that_are_not_environments_are_rejected(self):
        with pytest.raises(hl.errors.UnsupportedEnvironment, match="not a Gymnasium environment"):
            hl.TabularMDP.from_gymnasium(None, gamma=0.9)


class TestToGymnasium:
    @pytest.mark.parametrize("domain", DOMAINS[8:16], ids=repr)
    def test_environments_pass_check_env(self, domain):
        check_env(domain.task.to_gymnasium(), skip_render_check=True)

    def test_environment_with_transition_rewards_passes_check_env(self):
        m = hl.TabularMDP(R_TRANSITION, T, gamma=0.9, terminates=[1], start=[0.5, 0.5, 0])
        check_env(m.to_gymnasium(), skip_render_check=True)

    @given(tasks())
    @settings(max_examples=30)
    def test_task_is_the_same_after_a_round_trip(self, m):
        env = m.to_gymnasium()
        back = hl.TabularMDP.from_gymnasium(env, gamma=m.gamma, reward_range=m.reward_range)
        assert np.array_equal(back.transitions.successors, m.transitions.successors)
        np.testing.assert_allclose(back.transitions.p, m.transitions.p, rtol=1e-15)
        assert np.array_equal(back.R, m.R)
        np.testing.assert_allclose(back.start, m.start, rtol=1e-15)

    def test_task_with_transition_rewards_is_the_same_after_a_round_trip(self):
        m = hl.TabularMDP(R_TRANSITION, T, gamma=0.9, terminates=[1])
        assert_same_task(m, hl.TabularMDP.from_gymnasium(m.to_gymnasium(), gamma=0.9))

    def test_environment_draws_transitions_with_the_probabilities_of_the_task(self):
        """The frequencies of 20,000 steps are compared with the probabilities."""
        m = hl.TabularMDP(R_TRANSITION, T, gamma=0.9, terminates=[1], start=[0.5, 0.5, 0.0])
        env = m.to_gymnasium()
        rng = np.random.default_rng(0)
        visits, counts, starts = np.zeros((3, 2)), np.zeros((3, 2, 3)), np.zeros(3)
        s, _ = env.reset(seed=0)
        for _ in range(20_000):
            a = int(rng.integers(2))
            s_next, r, terminated, truncated, info = env.step(a)
            assert r == R_TRANSITION[s, a, s_next]
            assert terminated == (s_next == 1)
            assert not truncated
            assert info["prob"] == pytest.approx(T[s, a, s_next])
            visits[s, a] += 1
            counts[s, a, s_next] += 1
            if terminated:
                s_next, _ = env.reset()
                starts[s_next] += 1
            s = s_next
        np.testing.assert_allclose(counts / visits[:, :, None], T, atol=0.03)
        np.testing.assert_allclose(starts / starts.sum(), m.start, atol=0.03)

    def test_same_seed_gives_the_same_episode(self):
        m = hl.garnet(50, 2, branching=5, gamma=0.9, seed=0)

        def episode():
            env = m.to_gymnasium()
            states = [env.reset(seed=3)[0]]
            return states + [env.step(t % 2)[0] for t in range(100)]

        assert episode() == episode()

    def test_max_episode_steps_truncates_the_episode(self):
        env = corridor(9, 0.9).task.to_gymnasium(max_episode_steps=3)
        env.reset(seed=0)
        flags = [env.step(1)[2:4] for _ in range(3)]  # terminated, truncated
        assert flags == [(False, False), (False, False), (False, True)]
        assert isinstance(env, gym.wrappers.TimeLimit)

    def test_step_before_reset_is_rejected(self):
        with pytest.raises(gym.error.ResetNeeded):
            coin(0.9, 0.5, 1.0).task.to_gymnasium().step(0)

    def test_actions_outside_the_action_space_are_rejected(self):
        env = coin(0.9, 0.5, 1.0).task.to_gymnasium()
        env.reset(seed=0)
        for action in (1, -1, 0.5, None, "a", [0]):
            with pytest.raises(
                hl.errors.InvalidArgument,
                match=r"action is .*: expected a whole number from 0 to 0",
            ):
                env.step(action)
        assert env.step(np.int64(0))

    def test_max_episode_steps_must_be_a_whole_number(self):
        for steps in (0, 2.5, "a"):
            with pytest.raises(hl.errors.InvalidArgument, match="max_episode_steps is"):
                coin(0.9, 0.5, 1.0).task.to_gymnasium(max_episode_steps=steps)
        assert coin(0.9, 0.5, 1.0).task.to_gymnasium(max_episode_steps=np.int64(5))
