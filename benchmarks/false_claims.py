"""What a false nearness costs NearPSRL and NearRMax, in tasks whose tenth one hides a trap.

Each agent is given the true nearness of the family, or the claim that all tasks are alike. Printed
are mean returns per episode in task 10, where the trap appears, and in all later tasks.

    python benchmarks/false_claims.py --repetitions 6
"""

import argparse

import numpy as np

import heirloom as hl
from heirloom.envs.ordered import Trap

TASKS, EPISODES, STEPS, TRAP = 20, 100, 50, 9


def agents(family: Trap, seed: int) -> dict[str, hl.Agent]:
    """Return the agents by name."""
    true = family.nearness
    possible = {"successors": true.successors, "terminates": true.terminates}
    alike = hl.Nearness(rewards=0.0, transitions=0.0, **possible)
    options = {**family.options, "seed": seed}
    unchecked = {**options, "on_refutation": "ignore"}
    return {
        "RMax": hl.RMax(**options),
        "RMax, all visits pooled": hl.RMax(pool=np.inf, **options),
        "NearRMax, true": hl.NearRMax(nearness=true, **options),
        "NearRMax, false": hl.NearRMax(nearness=alike, **unchecked),
        "NearRMax, false and widened": hl.NearRMax(
            nearness=alike, on_refutation="widen", **options
        ),
        "NearPSRL, true": hl.NearPSRL(nearness=true, **options),
        "NearPSRL, false": hl.NearPSRL(nearness=alike, **unchecked),
    }


def main() -> None:
    """Print the mean returns of each agent."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=6)
    repetitions = parser.parse_args().repetitions
    family, returns, optimal = Trap(), {}, []
    for repetition in range(repetitions):
        tasks = family.sequence(np.random.default_rng([repetition, 1]), TASKS)
        optimal.append([hl.optimal_return(m, horizon=STEPS, discounted=False) for m in tasks])
        for name, agent in agents(family, repetition).items():
            records = [
                hl.learn(agent, m, episodes=EPISODES, max_steps=STEPS, seed=TASKS * repetition + i)
                for i, m in enumerate(tasks)
            ]
            returns.setdefault(name, []).append([record.returns.mean() for record in records])
    for name, found in {"optimum": optimal, **returns}.items():
        at, after = np.array(found)[:, TRAP], np.array(found)[:, TRAP + 1 :]
        print(f"{name:28} trap {at.mean():7.3f}   later {after.mean():7.3f}")


if __name__ == "__main__":
    main()
