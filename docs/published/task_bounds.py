"""How close the bounds from one source with a known model are to the optimal values of a new task.

The Lipschitz bound and the bound of the generalised bisimulation metric are given the exact models
of both tasks. The bound of a nearness is given the model of the source, and by how much the two
tasks differ: at each pair, or as two numbers for all pairs.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import heirloom as hl
from heirloom.envs.inventory import prices
from heirloom.envs.paper_families import Corridor
from heirloom.envs.toy_text import frozen_lake
from heirloom.metrics import gbsm_bound

SEED = 33
PAIRS = 10
STATES, ACTIONS, BRANCHING = 20, 5, 3
LAKE = ("SFFF", "FHFH", "FFFH", "HFFG")
BOUNDS = ("Lipschitz", "GBSM", "nearness, arrays", "nearness, two numbers")

Tasks = tuple[hl.TabularMDP, hl.TabularMDP]


def random_task(rng: np.random.Generator, gamma: float) -> hl.TabularMDP:
    """Draw a task with 20 states and 5 actions."""
    return hl.garnet(STATES, ACTIONS, branching=BRANCHING, gamma=gamma, seed=rng)


def dense(m: hl.TabularMDP) -> np.ndarray:
    """Return the transition probabilities, [s, a, s']."""
    return m.T.toarray().reshape(m.n_states, m.n_actions, m.n_states)


def independent(gamma: float) -> Callable[[np.random.Generator], Tasks]:
    """Two random tasks that have nothing in common."""
    return lambda rng: (random_task(rng, gamma), random_task(rng, gamma))


def other_rewards(rng: np.random.Generator) -> Tasks:
    """Two tasks with the same transitions, whose rewards differ by up to 0.1."""
    m = random_task(rng, 0.9)
    R = np.clip(m.R + rng.uniform(-0.1, 0.1, m.R.shape), 0, 1)
    return m, hl.TabularMDP(R, m.T, gamma=0.9)


def moved_mass(rng: np.random.Generator) -> Tasks:
    """Two tasks with the same rewards; a tenth of the mass of each pair moves elsewhere."""
    m, other = random_task(rng, 0.9), random_task(rng, 0.9)
    return m, hl.TabularMDP(m.R, 0.9 * dense(m) + 0.1 * dense(other), gamma=0.9)


def renumbered(rng: np.random.Generator) -> Tasks:
    """A task, and the same one with other numbers of its states."""
    m, order = random_task(rng, 0.9), rng.permutation(STATES)
    return m, hl.TabularMDP(m.R[order], dense(m)[order][:, :, order], gamma=0.9)


def lakes(rng: np.random.Generator) -> Tasks:
    """Two lakes of 4x4 cells whose ice is more or less slippery."""
    first, second = (frozen_lake(LAKE, slip=slip, gamma=0.95) for slip in rng.uniform(0.1, 0.3, 2))
    return first, second


def two_of(family: Any) -> Callable[[np.random.Generator], Tasks]:
    """Two tasks of a family."""
    return lambda rng: (family.draw(rng), family.draw(rng))


CASES: dict[str, Callable[[np.random.Generator], Tasks]] = {
    "random, independent, γ = 0.5": independent(0.5),
    "random, independent, γ = 0.8": independent(0.8),
    "random, rewards differ by up to 0.1, γ = 0.9": other_rewards,
    "random, a tenth of the mass moves, γ = 0.9": moved_mass,
    "random, states have other numbers, γ = 0.9": renumbered,
    "corridor of the paper": two_of(Corridor()),
    "prices of an inventory": two_of(prices()),
    "FrozenLake, 4x4, slip from 0.1 to 0.3": lakes,
}


def bounds(task: hl.TabularMDP, source: hl.TabularMDP) -> dict[str, np.ndarray]:
    """Return the bounds on the optimal values of `task`, [s, a], none above v_max."""
    near = hl.family_nearness([task, source])
    numbers = hl.Nearness(rewards=near.rewards.max(), transitions=near.transitions.max())
    found = (
        hl.lipschitz_bound(task, source),
        gbsm_bound(task, source),
        hl.near_bound(task, source, near),
        hl.near_bound(task, source, numbers),
    )
    return {name: np.minimum(U, task.v_max) for name, U in zip(BOUNDS, found, strict=True)}


def looseness(task: hl.TabularMDP, source: hl.TabularMDP) -> dict[str, float]:
    """Return the mean of (U - Q*) / (v_max - Q*) for each bound: 0 if exact, 1 if useless."""
    Q = hl.solve(task).Q
    gap = task.v_max - Q
    return {name: float((U - Q).sum() / gap.sum()) for name, U in bounds(task, source).items()}


def measure_case(name: str, pairs: int = PAIRS) -> dict[str, Any]:
    """Return the mean looseness of each bound over pairs of tasks."""
    rng = np.random.default_rng([SEED, list(CASES).index(name)])
    rows = [looseness(*CASES[name](rng)) for _ in range(pairs)]
    means = {bound: float(np.mean([row[bound] for row in rows])) for bound in BOUNDS}
    return {"tasks": name, "first": rows[0], "means": means}


def measure() -> list[dict[str, Any]]:
    """Measure all cases."""
    return [measure_case(name) for name in CASES]
