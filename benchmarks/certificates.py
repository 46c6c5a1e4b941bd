"""What certified learning costs: CertifiedRMax against RMax, in the paper's main family.

Both take a thousand episodes of 50 steps in compiled code. CertifiedRMax computes its values anew
after 1 % more steps.
"""

from collections.abc import Callable

import numpy as np
from agents import best_times
from rows import Measured, Row

import heirloom as hl
from heirloom.envs.paper_families import Tight

EPISODES, STEPS, N_SOURCES = 1000, 50, 4


def measure() -> Measured:
    """Measure the time of a step, in that of RMax; notes have microseconds."""
    family, rng = Tight(), np.random.default_rng(0)
    tasks = [family.draw(rng) for _ in range(N_SOURCES + 1)]
    near = family.nearness
    declared = {"successors": near.successors, "terminates": near.terminates}
    options = {"rewards": "per transition", "seed": 0, **family.options}

    def run(agent: hl.OptimisticAgent) -> Callable[[], object]:
        def learn() -> object:
            agent.begin_task()
            limits = {"episodes": EPISODES, "max_steps": STEPS, "seed": 0}
            result = hl.learn(agent, tasks[-1], **limits, resume=True)
            agent.memory._sources[N_SOURCES:] = []
            return result

        return learn

    experienced = hl.CertifiedRMax(nearness=near, **options)
    for i, m in enumerate(tasks[:-1]):
        hl.learn(experienced, m, episodes=20 * EPISODES, max_steps=STEPS, seed=i)
    times = best_times(
        {
            "RMax": run(hl.RMax(n_known=10, **options)),
            "CertifiedRMax": run(hl.CertifiedRMax(**declared, **options)),
            f"CertifiedRMax, nearness, {N_SOURCES} sources": run(experienced),
        }
    )
    rows = []
    for name, taken in times.items():
        note = f"{1e6 * taken / EPISODES / STEPS:.2f} µs per step"
        rows.append(Row(f"{name} / RMax", taken / times["RMax"], at_most=40, note=note))
    return Measured(rows, times)
