"""A first look: how far tasks of the paper are apart, some of its statements, and its agents.

Everything is computed, nothing is recorded; `heirloom demo` prints it.
"""

from typing import NamedTuple

import numpy as np

from heirloom.agents.catalogue import AgentOptions, LRMax, RMax
from heirloom.envs.families import Variant, tight
from heirloom.experiments.loop import learn
from heirloom.mdp.exact import TabularMDP
from heirloom.mdp.solving import optimal_return, solve
from heirloom.transfer.pseudometrics import (
    global_pseudometric,
    lipschitz_bound,
    local_pseudometric,
    model_pseudometric,
)

EPISODES, STEPS = 2000, 10


class Finding(NamedTuple):
    """A statement, what was computed for it, and whether it holds."""

    statement: str
    measured: str
    holds: bool


class Learned(NamedTuple):
    """An agent, and its mean return on each of a few tasks, as a part of the best there is."""

    agent: str
    parts: list[float]


def related_tasks(number: int, seed: int) -> list[TabularMDP]:
    """Tasks drawn from the family of the main experiment, as the authors released it."""
    rng = np.random.default_rng(seed)
    return [tight(rng.uniform(0.9, 1, 3), rng.uniform(0, 0.1)) for _ in range(number)]


def lifelong(tasks: list[TabularMDP], seed: int) -> list[Learned]:
    """RMax and LRMax on one task after the other, with the settings of the main experiment.

    Its priors are those of the paper, which are no upper bounds (erratum 3).
    """
    options: AgentOptions = {
        "n_states": 121,
        "n_actions": 4,
        "gamma": 0.9,
        "n_known": 10,
        "epsilon": 0.01,
        "seed": seed,
    }
    agents = {
        "RMax": RMax(**options),
        "LRMax, no prior": LRMax(**options),
        "LRMax(0.2)": LRMax(d_max=0.2, **options),
        "LRMax(0.1)": LRMax(d_max=0.1, **options),
    }
    best = [optimal_return(m, horizon=STEPS, discounted=False) for m in tasks]
    return [
        Learned(
            name,
            [
                learn(agent, m, episodes=EPISODES, max_steps=STEPS, seed=i).returns.mean() / best[i]
                for i, m in enumerate(tasks)
            ],
        )
        for name, agent in agents.items()
    ]


def propositions(m: TabularMDP, m_bar: TabularMDP) -> list[Finding]:
    """What the paper proves of two known tasks, on these two."""
    Q, Q_bar = solve(m), solve(m_bar)
    gap = np.abs(Q.Q - Q_bar.Q)
    error = Q.error + Q_bar.error
    local = local_pseudometric(m, m_bar)
    everywhere = global_pseudometric(m, m_bar)
    bound = lipschitz_bound(m, m_bar)
    return [
        Finding(
            "Proposition 1: |Q* - Q̄*| <= Δ_sa",
            f"gap up to {gap.max():.3f}, Δ_sa {local.min():.2f} to {local.max():.2f}",
            bool((gap <= local + error).all()),
        ),
        Finding(
            "Appendix: |Q* - Q̄*| <= Δ",
            f"Δ = {everywhere:.2f}",
            bool((gap <= everywhere + error).all()),
        ),
        Finding(
            "Definition 2: U = Q̄* + Δ_sa >= Q*",
            f"U is {(bound - Q.Q).min():.2f} to {(bound - Q.Q).max():.2f} above Q*",
            bool((bound >= Q.Q - Q.error).all()),
        ),
    ]


def errata() -> list[Finding]:
    """Two of the paper's statements that do not hold, with the numbers that show it."""
    identity, swap = np.eye(2)[:, None], np.eye(2)[::-1][:, None]
    stay = TabularMDP([[1.0], [1.0]], identity, gamma=0.9)
    swapping = TabularMDP([[1.0], [1.0]], swap, gamma=0.9)
    mediator = TabularMDP([[0.0], [0.0]], identity, gamma=0.9)
    direct = global_pseudometric(stay, swapping)
    legs = global_pseudometric(stay, mediator), global_pseudometric(mediator, swapping)
    findings = [
        Finding(
            "Erratum 2: Δ satisfies the triangle inequality",
            f"{direct:.0f} > {legs[0]:.0f} + {legs[1]:.0f}",
            direct <= sum(legs),
        )
    ]
    extremes: dict[Variant, float] = {"text": 0.8, "released": 0.9}
    for variant, least in extremes.items():
        D = largest_distance(variant, least)
        findings.append(
            Finding(
                f"Erratum 3: D_max = 0.1 holds in the `tight` family ({variant})",
                f"D reaches {D:.3f}",
                D <= 0.1,
            )
        )
    return findings


def largest_distance(variant: Variant, least_reward: float) -> float:
    """D_sa between the two extreme tasks of the `tight` family, at its largest."""
    m = tight(least_reward, 0.1, variant=variant)
    m_bar = tight(1.0, 0.0, variant=variant)
    return float(model_pseudometric(m, m_bar, m.gamma * solve(m_bar).V).max())
