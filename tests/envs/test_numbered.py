"""`Numbered`: composite observations and actions as whole numbers."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

import heirloom as hl
from heirloom.envs.spaces import names_of_values
from heirloom.wrappers import Numbered

SPACES = [
    spaces.Discrete(5),
    spaces.Discrete(3, start=-1),
    spaces.MultiDiscrete([3, 2, 4]),
    spaces.MultiDiscrete([[2, 3], [1, 2]], start=[[1, 0], [0, -2]]),
    spaces.MultiBinary(4),
    spaces.MultiBinary([2, 2]),
    spaces.Tuple((spaces.Discrete(3), spaces.MultiBinary(2), spaces.Discrete(2, start=7))),
    spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Tuple((spaces.Discrete(3),))}),
]


class Samples(gym.Env):
    """Returns random observations of its space, and checks that actions are in their space."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, observations, actions):
        self.observation_space, self.action_space = observations, actions

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        return self.observation_space.sample(), 1.0, False, False, {}


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_numbers_and_values_of_a_space_correspond_one_to_one(space):
    env = Numbered(Samples(space, space))
    n = int(env.observation_space.n)
    values = [env.observation_of(i) for i in range(n)]
    assert all(space.contains(value) for value in values)
    assert [env.state_of(value) for value in values] == list(range(n))
    assert len({str(value) for value in values}) == n
    env.reset(seed=0)
    for a in range(int(env.action_space.n)):
        s, r, *_ = env.step(a)
        assert 0 <= s < n
        assert r == 1.0


def test_last_component_varies_fastest():
    env = Numbered(gym.make("Blackjack-v1"))
    assert env.observation_space == spaces.Discrete(32 * 11 * 2)
    assert env.state_of((12, 10, 0)) == (12 * 11 + 10) * 2
    assert env.observation_of(284) == (12, 10, 0)


@pytest.mark.filterwarnings("ignore:.*most likely has a wrapper applied")
def test_numbered_environment_passes_gymnasiums_check():
    check_env(Numbered(gym.make("Blackjack-v1").unwrapped), skip_render_check=True)


def test_agent_learns_in_a_numbered_environment():
    agent = hl.RMax(
        n_states=704, n_actions=2, gamma=0.99, n_known=2, reward_range=(-1, 1), v_max=1, seed=0
    )
    record = hl.learn(agent, Numbered(gym.make("Blackjack-v1")), episodes=300, max_steps=30, seed=0)
    assert record.update_steps.size > 20
    assert agent.Q.max() <= 1


def test_observations_are_numbered_in_order_of_appearance_and_share_numbers():
    box = spaces.Dict({"image": spaces.Box(0, 1, (2,), np.uint8), "text": spaces.Text(3)})
    first = Numbered(Samples(box, spaces.Discrete(2)), n_states=3)
    second = Numbered(Samples(box, spaces.Discrete(2)), n_states=3, numbers=first.numbers)
    dark, light = ({"image": np.full(2, i, np.uint8), "text": "x"} for i in (0, 1))
    assert [first.state_of(seen) for seen in (light, dark, dict(light))] == [0, 1, 0]
    assert second.state_of(dark) == 1
    assert second.state_of({"image": light["image"], "text": "y"}) == 2
    with pytest.raises(
        hl.errors.UnsupportedEnvironment, match="more than 3 different observations"
    ):
        first.state_of({"image": light["image"], "text": "z"})
    assert first.state_of(light) == 0
    with pytest.raises(hl.errors.InvalidArgument, match="look them up in `numbers`"):
        first.observation_of(0)


def test_saved_numbers_are_loaded_unchanged_and_a_damaged_file_is_rejected(tmp_path):
    box = spaces.Dict({"image": spaces.Box(0, 1, (2,), np.uint8), "text": spaces.Text(3)})
    first = Numbered(Samples(box, spaces.Discrete(2)), n_states=50)
    seen = [
        {"image": np.array([i, j], np.uint8), "text": t}
        for i in (0, 1)
        for j in (0, 1)
        for t in "ab"
    ]
    states = [first.state_of(observation) for observation in seen]
    first.save_numbers(tmp_path / "numbers.heirloom")
    numbers = Numbered.load_numbers(tmp_path / "numbers.heirloom")
    later = Numbered(Samples(box, spaces.Discrete(2)), n_states=50, numbers=numbers)
    assert [later.state_of(observation) for observation in reversed(seen)] == states[::-1]
    data = (tmp_path / "numbers.heirloom").read_bytes()
    (tmp_path / "numbers.heirloom").write_bytes(data[:-1])
    with pytest.raises(hl.errors.InvalidFile, match=r"numbers\.heirloom"):
        Numbered.load_numbers(tmp_path / "numbers.heirloom")


def test_equal_observations_have_one_number():
    env = Numbered(Samples(spaces.Box(-1, 1, (2,)), spaces.Discrete(2)), n_states=5)
    zero = env.state_of(np.array([0.0, 1.0]))
    assert env.state_of(np.array([-0.0, 1.0])) == zero
    assert env.state_of(np.array([0.0, 1.0], dtype=np.float32)) == zero
    for incomparable in (np.array([np.nan, 1.0]), np.array([{}, 1], dtype=object), {1, 2}):
        with pytest.raises(
            hl.errors.UnsupportedEnvironment, match="cannot be compared with others"
        ):
            env.state_of(incomparable)


def test_shared_numbers_beyond_n_states_are_rejected():
    space, few = spaces.Box(0, 1, (1,)), spaces.Discrete(2)
    large = Numbered(Samples(space, few), n_states=5)
    small = Numbered(Samples(space, few), n_states=2, numbers=large.numbers)
    for i in range(4):
        large.state_of(np.array([i / 4]))
    with pytest.raises(hl.errors.UnsupportedEnvironment, match="more than 2 different"):
        small.state_of(np.array([0.75]))
    with pytest.raises(hl.errors.InvalidArgument, match="4 states are numbered already"):
        Numbered(Samples(space, few), n_states=2, numbers=large.numbers)
    with pytest.raises(hl.errors.InvalidArgument, match="numbers is a list"):
        Numbered(Samples(space, few), n_states=2, numbers=[1])


def test_key_decides_which_observations_are_the_same_state():
    env = Numbered(
        Samples(spaces.Box(0, 1, (2,)), spaces.Discrete(2)), n_states=2, key=lambda o: o[0] > 0.5
    )
    states = {env.reset(seed=0)[0], *(env.step(0)[0] for _ in range(50))}
    assert states == {0, 1}


def test_unsupported_space_or_value_is_reported():
    box, few = spaces.Box(0, 1, (2,)), spaces.Discrete(2)
    with pytest.raises(
        hl.errors.UnsupportedEnvironment, match=r"observation space of .* n_states="
    ):
        Numbered(Samples(box, few))
    with pytest.raises(hl.errors.UnsupportedEnvironment, match="action space"):
        Numbered(Samples(few, spaces.Tuple((few, box))))
    with pytest.raises(hl.errors.UnsupportedEnvironment, match="has 1,099,511,627,776 values"):
        Numbered(Samples(spaces.MultiDiscrete([2] * 40), few))
    with pytest.raises(hl.errors.UnsupportedEnvironment, match="is not a Gymnasium environment"):
        Numbered("Blackjack-v1")
    with pytest.raises(hl.errors.InvalidArgument, match="give n_states too"):
        Numbered(Samples(few, few), key=str)
    env = Numbered(Samples(few, few))
    with pytest.raises(hl.errors.UnsupportedEnvironment, match="5 is not in"):
        env.state_of(5)
    with pytest.raises(hl.errors.InvalidArgument, match="action is 2"):
        env.step(2)
    with pytest.raises(hl.errors.InvalidArgument, match="state is 2"):
        env.observation_of(2)


def test_states_of_composite_spaces_have_readable_names():
    space = spaces.Dict({"block": spaces.Discrete(2), "charge": spaces.Discrete(3)})
    assert names_of_values(space, 6)[:2] == ("block 0, charge 0", "block 0, charge 1")
    pair = spaces.Tuple([spaces.MultiDiscrete([2, 2]), spaces.Discrete(2)])
    assert names_of_values(pair, 8)[:2] == ("([0 0], 0)", "([0 0], 1)")


def test_message_on_a_mixed_space_has_a_key_that_works():
    space = spaces.Dict({"charge": spaces.Discrete(3), "price": spaces.Box(0, 100, (1,))})
    with pytest.raises(hl.errors.UnsupportedEnvironment, match="key that rounds") as error:
        Numbered(Samples(space, spaces.Discrete(2)))
    key = eval(str(error.value).split("key=")[1])
    env = Numbered(Samples(space, spaces.Discrete(2)), n_states=10, key=key)
    first, same = ({"charge": 1, "price": np.array([x], np.float32)} for x in (2.01, 2.04))
    assert env.state_of(first) == env.state_of(same) == 0
    assert env.state_of({**first, "charge": 2}) == 1


class Cut(Exception):
    pass


def cut(done, episodes):
    if done == 4:
        raise Cut


class Walk(gym.Env):
    """A walk on a ring, whose observations are a dictionary with a real number."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Dict(
        {"place": spaces.Discrete(6), "heat": spaces.Box(0, 9, (1,), np.float32)}
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = int(self.np_random.integers(6))
        return self.seen(), {}

    def step(self, action):
        self.place = (self.place + (1 if action else -1)) % 6
        return self.seen(), float(self.place == 0), False, False, {}

    def seen(self):
        heat = np.array([self.place + 0.1 * self.np_random.random()], dtype=np.float32)
        return {"place": self.place, "heat": heat}


def numbered_walk(numbers=None):
    def key(seen):
        return {"place": seen["place"], "heat": np.round(seen["heat"])}

    return Numbered(Walk(), n_states=8, key=key, numbers=numbers)


def test_numbers_by_appearance_are_in_the_file_of_an_agent_that_is_killed(tmp_path):
    options = {"n_states": 8, "n_actions": 2, "gamma": 0.9, "terminating": False}
    length = {"max_steps": 5, "every": 2, "seed": 1}
    pages = []
    for is_killed in (False, True):
        path = tmp_path / f"{is_killed}"
        agent = hl.RMax(**options, seed=0)
        if is_killed:
            env = numbered_walk()
            with pytest.raises(Cut):
                hl.learn(agent, env, episodes=9, **length, checkpoint=path, callback=cut)
            agent = hl.RMax.load(path)
            assert agent.memory.state_names[0].startswith("heat ")
            with pytest.raises(hl.errors.IncompatibleTasks, match=r"numbers=agent\.memory\.numb"):
                hl.learn(agent, numbered_walk(), episodes=5, resume=True, **length)
        rest = {"episodes": 9 - agent.n_episodes, "resume": agent.in_task}
        hl.learn(agent, numbered_walk(agent.memory.numbers), **rest, **length, checkpoint=path)
        pages.append(path.read_bytes())
    assert pages[0] == pages[1]


def test_agent_that_is_saved_in_its_first_task_has_the_numbers_so_far(tmp_path):
    agent, env, found = hl.RMax(n_states=8, n_actions=2, gamma=0.9, seed=0), numbered_walk(), []

    def save(done, episodes):
        agent.save(tmp_path / "agent")
        found.append(hl.RMax.load(tmp_path / "agent").memory.numbers == env.numbers)

    hl.learn(agent, env, episodes=3, max_steps=4, seed=0, callback=save)
    assert found == [True] * 3


def test_memories_with_other_numbers_are_not_merged():
    options = {"n_states": 8, "n_actions": 2, "gamma": 0.9, "terminating": False}
    first, more, other = (hl.RMax(**options, seed=0) for _ in range(3))
    hl.learn(first, numbered_walk(), episodes=1, max_steps=2, seed=0)
    hl.learn(more, numbered_walk(dict(first.memory.numbers)), episodes=9, max_steps=9, seed=1)
    turned = {seen: 5 - i for seen, i in more.memory.numbers.items()}
    hl.learn(other, numbered_walk(turned), episodes=9, max_steps=9, seed=2)
    assert len(more.memory.numbers) > len(first.memory.numbers)
    for memory in (first.memory.merge(more.memory), more.memory.merge(first.memory)):
        assert memory.numbers == more.memory.numbers
        assert memory.state_names == more.memory.state_names
    with pytest.raises(hl.errors.IncompatibleTasks, match="number observations differently"):
        first.memory.merge(other.memory)


def test_comparison_refuses_environments_that_number_states_differently():
    agents = {
        "RMax": lambda rng: hl.RMax(n_states=8, n_actions=2, gamma=0.9, terminating=False, seed=rng)
    }
    sizes = {"tasks": 3, "episodes": 2, "max_steps": 4, "repetitions": 1}
    with pytest.raises(hl.errors.IncompatibleTasks, match="let all environments share their num"):
        hl.compare(agents, lambda rng: numbered_walk(), **sizes)
    numbers = {}
    assert hl.compare(agents, lambda rng: numbered_walk(numbers), **sizes).sizes["task"] == 3
