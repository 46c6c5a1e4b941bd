"""An algorithm and a family of one's own, as a user writes them."""

import functools

import numpy as np
from pydantic import BaseModel

import heirloom as hl
from heirloom.envs.grid import grid_world


class Lazy:
    """Always takes one action, and learns nothing."""

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


class Careful(Lazy):
    """The same with a model of its options, and with the range of rewards."""

    class Options(BaseModel):
        action: int = 1

    def __init__(self, *, reward_range, **options):
        super().__init__(**options)
        assert reward_range == (0.0, 1.0)


class Rooms:
    """A row of cells, whose goal pays more or less."""

    gamma = 0.9

    def __init__(self, *, length=4):
        self.length = length

    def draw(self, rng: np.random.Generator) -> hl.TabularMDP:
        cells = ["S" + "." * self.length + "G"]
        return grid_world(cells, gamma=0.9, goal_rewards=rng.uniform(0.5, 1.0))


NOT_CALLABLE = 3


class Broken:
    """Fails to be made."""

    def __init__(self, **options):
        raise RuntimeError("no")


Partial = functools.partial(Lazy, action=2)
