"""Recordings of small tasks for the tests of replays."""

from dataclasses import replace
from functools import cache

import numpy as np

import heirloom as hl
from heirloom.envs.paper_families import Maze

STATE = "<i>state</i> {} with a name that is wide, and wider than the cell of a table should become"
LABEL = "<i>Lyon</i>"
HOSTILE = '</script><b onclick=alert(1)>RMax & "co" \x1b[31m'


@cache
def maze_recordings():
    """Return recordings of RMax, under a hostile name, and of LRMax, on the same two tasks."""
    family, rng = Maze(), np.random.default_rng(3)
    tasks = [family.draw(rng) for _ in range(2)]
    options = {"n_states": tasks[0].n_states, "n_actions": 4, "gamma": 0.9, "seed": 5}
    possible = hl.family_nearness(tasks).successors
    agents = {
        HOSTILE: hl.RMax(n_known=1, **options),
        "LRMax": hl.LRMax(n_known=1, d_max=0.5, successors=possible, **options),
    }
    found = []
    for name, agent in agents.items():
        for i, m in enumerate(tasks):
            record = {"first": 3, "last": 1, "every": 20}
            result = hl.learn(agent, m, episodes=60, max_steps=15, seed=i, record=record)
            found.append(replace(result.recording, agent=name, task=i + 1))
    return tuple(found)


@cache
def table_recording():
    """Return a recording of a task without a map, whose states have names."""
    m = hl.garnet(6, 2, branching=2, gamma=0.9, seed=0)
    named = hl.TabularMDP(m.R, m.T, gamma=0.9, state_names=[STATE.format(s) for s in range(6)])
    agent = hl.RMax(n_states=6, n_actions=2, gamma=0.9, n_known=2, seed=0)
    options = {"episodes": 9, "max_steps": 8, "seed": 0, "record": True}
    return hl.learn(agent, named, **options, label=LABEL).recording
