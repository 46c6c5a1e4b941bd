"""How often bounds of a true nearness are too small, because models are estimated.

NearRMax learns tasks one after the other with the nearness of the family, which is true. Before the
first step of each task but the first, the script counts the pairs whose bound is below the optimal
value by more than 1 % of the span of Q*. It prints the mean share of these pairs in per cent, and
the mean share of pairs whose bound is below `v_max`, for

- single: minima over all sources, as if their models were exact (`exact=True`),
- pooled: one row per pair from all visits of all earlier tasks (the default),
- 0.95: the same with `confidence=0.95`.

    python benchmarks/validity.py [REPETITIONS]
"""

import sys
from typing import Any, NamedTuple

import numpy as np

import heirloom as hl
from heirloom.experiments.registry import make_family


class Setup(NamedTuple):
    """A family, and how long each of its tasks is learned."""

    tasks: int
    episodes: int
    steps: int
    options: dict[str, Any]


SETUPS = {
    "tight": Setup(10, 2000, 10, {}),
    "frozen-lakes": Setup(10, 1000, 100, {}),
    "cliffs": Setup(10, 200, 50, {}),
    "machines": Setup(
        10, 40, 21, {"wear": [0.15, 0.25], "failure": [0.1, 0.25], "parts": [250.0, 350.0]}
    ),
    "queues": Setup(10, 30, 60, {"arrival": [0.35, 0.5], "service": [0.3, 0.36]}),
    "trap": Setup(10, 200, 40, {}),
}
EVIDENCE: dict[str, dict[str, Any]] = {
    "single": {"exact": True},
    "pooled": {},
    "0.95": {"confidence": 0.95},
}
LEARNING: tuple[tuple[int, float | None], ...] = ((3, None), (10, None), (2, 1.5), (10, 1.5))
TOO_SMALL = 0.01  # of the span of Q*


def measure(
    name: str, n_known: int, refresh: float | None, given: dict[str, Any], seed: int
) -> Any:
    """Return the two shares of pairs, [task, share], in one life."""
    setup = SETUPS[name]
    family = make_family(name, setup.options)
    drawn = family.sequence(np.random.default_rng([seed, 0]), setup.tasks)
    agent = hl.NearRMax(
        nearness=family.nearness,
        n_known=n_known,
        refresh=refresh,
        on_refutation="ignore",
        seed=seed,
        **family.options,
        **given,
    )
    shares = []
    for i, task in enumerate(drawn):
        if i:
            Q = hl.solve(task).Q
            agent.begin_task(available=task.available)
            exists = task.available
            too_small = agent.U < Q - TOO_SMALL * np.ptp(Q[exists])
            shares.append(
                [too_small[exists].mean(), (agent.U[exists] < agent.setting.v_max).mean()]
            )
            agent.drop_task()
        hl.learn(agent, task, episodes=setup.episodes, max_steps=setup.steps, seed=1000 * seed + i)
    return np.array(shares)


def main(repetitions: int) -> None:
    """Print the shares for all families, ways of learning and kinds of evidence."""
    _print("family", "n_known", "refresh", *EVIDENCE)
    for name in SETUPS:
        for n_known, refresh in LEARNING:
            texts = []
            for given in EVIDENCE.values():
                lives = [
                    measure(name, n_known, refresh, given, seed) for seed in range(repetitions)
                ]
                invalid, helped = 100 * np.mean(lives, axis=(0, 1))
                texts.append(f"{invalid:.1f} ({helped:.0f})")
            _print(name, n_known, refresh, *texts)


def _print(*cells: object) -> None:
    name, *others = map(str, cells)
    sys.stdout.write(f"{name:<13}" + "".join(f"{cell:>11}" for cell in others) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
