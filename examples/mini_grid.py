"""MiniGrid: the same room, with the opening in the wall in one place or the other.

An observation shows the whole room. What is the same in both rooms is where the agent is and where
it looks, so that is what a state is here: `Numbered` numbers states as they are seen. No model is
at hand, so LRMax must learn its prior; the rooms are deterministic: one visit makes a pair known.

Needs MiniGrid: `pip install minigrid`, or `make examples`, which installs it.
"""

import gymnasium as gym
import minigrid  # noqa: F401 -- registers its environments
import numpy as np
from gymnasium.wrappers import TransformAction, TransformReward
from minigrid.wrappers import FullyObsWrapper

import heirloom as hl
from heirloom.envs.numbered import Numbered

AGENT = 10  # MiniGrid's code for the cell with the agent in it


def where(observation):
    """Row, column and direction of the agent."""
    return *np.argwhere(observation["image"][..., 0] == AGENT)[0], observation["direction"]


class SameLayout(gym.Wrapper):
    """MiniGrid draws a new room for every episode, unless its seed is the same."""

    def __init__(self, env, layout):
        super().__init__(env)
        self.layout = layout

    def reset(self, *, seed=None, options=None):
        """Begin an episode in the same room, whatever the seed."""
        return self.env.reset(seed=self.layout, options=options)


def room(layout, numbers):
    """One layout, with the actions that turn and move, paid 1 at the goal whenever that is."""
    env = FullyObsWrapper(SameLayout(gym.make("MiniGrid-SimpleCrossingS9N1-v0"), layout))
    env = TransformAction(env, lambda action: action, gym.spaces.Discrete(3))
    env = TransformReward(env, lambda reward: float(reward > 0))
    return Numbered(env, n_states=7 * 7 * 4, key=where, numbers=numbers)


numbers = {}
rooms = [room(layout, numbers) for layout in (3, 5)]
p_min = 1 / len(rooms)
# The goal ends the episode, so no value is above 1.
options = {"n_states": 196, "n_actions": 3, "gamma": 0.95, "n_known": 1, "v_max": 1.0}
results = hl.compare(
    {
        "RMax": lambda rng: hl.RMax(seed=rng, **options),
        "LRMax": lambda rng: hl.LRMax(p_min=p_min, seed=rng, **options),
        "MaxQInit": lambda rng: hl.MaxQInit(p_min=p_min, seed=rng, **options),
    },
    lambda rng: rooms[rng.integers(len(rooms))],
    tasks=8,
    episodes=40,
    max_steps=60,
    repetitions=3,
)

print(f"MaxQInit starts after {hl.tasks_for_max_q(p_min, 0.05)} tasks,")
print(f"LRMax has learned its prior after {hl.tasks_for_distance(p_min, 0.05)}.\n")
print(hl.comparison_table(results, last=2))
hl.save_figure(hl.draw_lifelong(results, title="MiniGrid with two openings"), "mini_grid.png")
