"""MiniGrid: two rooms that differ in the position of a wall and of its opening.

An observation shows the whole room. The position and the direction of the agent mean the same in
both rooms, so they are the state here, and have the same number in both. The models are not
available, so LRMax must learn its prior. NearRMax uses what is true in every such room: a turn
keeps the position, a move leads one cell ahead or nowhere, and rewards are equal in all rooms. The
rooms are deterministic, so one visit makes a pair known.

Needs MiniGrid: `pip install minigrid`, or `make examples`, which installs it.
"""

from itertools import product

import gymnasium as gym
import minigrid  # noqa: F401 -- registers its environments
import numpy as np
from gymnasium.wrappers import TransformAction, TransformReward
from minigrid.wrappers import FullyObsWrapper

import heirloom as hl
from heirloom.wrappers import Numbered

AGENT = 10  # MiniGrid's code for the cell with the agent in it
LEFT, RIGHT, MOVE = range(3)  # actions
AHEAD = (1, 0), (0, 1), (-1, 0), (0, -1)  # the step of a move in each direction


def position_and_direction(observation):
    """Return the position (two coordinates) and the direction of the agent."""
    return *np.argwhere(observation["image"][..., 0] == AGENT)[0], observation["direction"]


class SameLayout(gym.Wrapper):
    """Wrapper that keeps the room: MiniGrid draws a new one for every episode from the seed."""

    def __init__(self, env, layout):
        super().__init__(env)
        self.layout = layout

    def reset(self, *, seed=None, options=None):
        """Begin an episode in the same room, whatever the seed."""
        return self.env.reset(seed=self.layout, options=options)


def room(layout, numbers):
    """Make a room with three actions (turn left or right, move) and reward 1 at the goal."""
    env = FullyObsWrapper(SameLayout(gym.make("MiniGrid-SimpleCrossingS9N1-v0"), layout))
    env = TransformAction(env, lambda action: action, gym.spaces.Discrete(3))
    env = TransformReward(env, lambda reward: float(reward > 0))
    return Numbered(env, n_states=7 * 7 * 4, key=position_and_direction, numbers=numbers)


def possible_successors(numbers):
    """Return which states can follow in any room, [s, a, s']."""
    possible = np.zeros((len(numbers), 3, len(numbers)), dtype=bool)
    for (x, y, direction), s in numbers.items():
        possible[s, LEFT, numbers[x, y, (direction - 1) % 4]] = True
        possible[s, RIGHT, numbers[x, y, (direction + 1) % 4]] = True
        dx, dy = AHEAD[direction]
        ahead = numbers.get((x + dx, y + dy, direction), s)  # none beyond the outer walls
        possible[s, MOVE, [s, ahead]] = True
    return possible


numbers = {state: s for s, state in enumerate(product(range(1, 8), range(1, 8), range(4)))}
rooms = [room(layout, numbers) for layout in (3, 5)]
p_min = 1 / len(rooms)
# The goal is terminal and pays 1, so no value exceeds 1.
options = {
    "n_states": 196,
    "n_actions": 3,
    "gamma": 0.95,
    "n_known": 1,
    "refresh": None,
    "v_max": 1.0,
}
# The goal is in the same corner of all rooms, so every pair has the same reward wherever it exists.
# A wall may be anywhere, so nothing is claimed about how often a move succeeds: transitions=1.
nearness = hl.Nearness(rewards=0.0, transitions=1.0, successors=possible_successors(numbers))
results = hl.compare(
    {
        "RMax": lambda rng: hl.RMax(seed=rng, **options),
        "LRMax": lambda rng: hl.LRMax(p_min=p_min, seed=rng, **options),
        "MaxQInit": lambda rng: hl.MaxQInit(p_min=p_min, seed=rng, **options),
        "NearRMax": lambda rng: hl.NearRMax(nearness=nearness, seed=rng, **options),
    },
    lambda rng: rooms[rng.integers(len(rooms))],
    tasks=8,
    episodes=40,
    max_steps=60,
    repetitions=3,
)

print(f"MaxQInit starts after {hl.theory.tasks_for_max_q(p_min, 0.05)} tasks,")
print(f"LRMax has learned its prior after {hl.theory.tasks_for_distance(p_min, 0.05)}.\n")
print(hl.comparison_table(results, last=2))
hl.plot.save_figure(
    hl.plot.draw_lifelong(results, title="MiniGrid with two openings"), "mini_grid.png"
)
