"""User-defined algorithms and a user-defined family, for the tests."""

import functools

import numpy as np
from pydantic import BaseModel

import heirloom as hl
from heirloom.envs.grid import grid_world


class Lazy:
    """An algorithm that always takes the same action and learns nothing."""

    def __init__(self, *, n_states, n_actions, gamma, seed, action=0):
        self.n_states, self.n_actions, self.gamma, self.action = n_states, n_actions, gamma, action

    def begin_task(self):
        pass

    def act(self, s):
        return self.action

    def observe(self, s, a, r, s_next, *, terminated):
        return False

    def end_task(self):
        pass


class FourVerbs:
    """An algorithm whose agents have the four methods, and nothing else."""

    def __init__(self, *, n_states, n_actions, gamma, seed):
        pass

    def begin_task(self):
        pass

    def act(self, s):
        return 3

    def observe(self, s, a, r, s_next, *, terminated):
        pass

    def end_task(self):
        pass


class Diary(FourVerbs):
    """An agent that reports an update at the first step of an episode and when it is truncated."""

    def begin_episode(self):
        self.is_new = True

    def observe(self, s, a, r, s_next, *, terminated, truncated):
        updated, self.is_new = self.is_new or truncated, False
        return updated


class Careful(Lazy):
    """`Lazy` with a pydantic model of its options, and with `reward_range` as a parameter."""

    class Options(BaseModel):
        action: int = 1

    def __init__(self, *, reward_range, **options):
        super().__init__(**options)
        assert reward_range == (0.0, 1.0)


class Rooms:
    """A family of rows of cells that differ in the reward of the goal."""

    gamma = 0.9

    def __init__(self, *, length=4):
        self.length = length

    def draw(self, rng: np.random.Generator) -> hl.TabularMDP:
        cells = ["S" + "." * self.length + "G"]
        return grid_world(cells, gamma=0.9, goal_rewards=rng.uniform(0.5, 1.0))


class GrowingRooms(Rooms):
    """A family whose rewards rise from task to task; `wrong` makes its `sequence` return that."""

    def __init__(self, *, wrong=None):
        super().__init__()
        self.wrong = wrong

    def sequence(self, rng, n_tasks):
        if self.wrong is not None:
            return {"nothing": None, "too few": [self.draw(rng)], "no task": [3] * n_tasks}[
                self.wrong
            ]
        return sorted((self.draw(rng) for _ in range(n_tasks)), key=lambda m: m.R.max())


class Declared(Rooms):
    """A family that declares a nearness of its own."""

    nearness = hl.Nearness(rewards=0.5, transitions=0.0)


NOT_CALLABLE = 3


class Broken:
    """An algorithm whose constructor fails."""

    def __init__(self, **options):
        raise RuntimeError("no")


Partial = functools.partial(Lazy, action=2)
