"""How often checks refute true knowledge, how often they detect false knowledge, and their cost.

Size: agents learn lifetimes of small tasks under a claim that is true and attained, so that the
tasks differ by exactly what is claimed. Power: memories with tasks that differ by a multiple of
what is claimed, at all pairs, are audited.
"""

from typing import Any

import numpy as np

import heirloom as hl
from heirloom.envs.paper_families import Tight
from heirloom.mdp.rows import Rows
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source

SEED = 18
N_STATES = N_ACTIONS = 2
GAMMA = 0.5
CLAIM = 0.1
VISITS = (1, 5, 10, 50, 500)  # with one visit, models are exact and declared so
DELTAS = (0.05, 0.5)
LIFETIMES, FIRST_LIFETIMES, TASKS = 200, 10, 6
RATIOS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
POWER_TASKS, POWER_LIFETIMES = 8, 40
PARTS = ("rewards", "transitions")
EXPLORE = (0.0, 0.01, 0.05)


def small_task(p: float, *, exact: bool) -> hl.TabularMDP:
    """Return a task in which each action pays 1 and leads to state 1 with probability p.

    An exact task pays p and stays where it is.
    """
    T, start = np.empty((N_STATES, N_ACTIONS, N_STATES)), np.full(N_STATES, 1 / N_STATES)
    T[:] = np.array([1 - p, p])
    if exact:
        T[:] = np.eye(N_STATES)[:, None, :]
        return hl.TabularMDP(np.full((N_STATES, N_ACTIONS), p), T, gamma=GAMMA, start=start)
    R = np.zeros((N_STATES, N_ACTIONS, N_STATES))
    R[:, :, 1] = 1.0
    return hl.TabularMDP(R, T, gamma=GAMMA, start=start)


def is_refuted(
    n_known: int,
    delta: float,
    seed: int,
    *,
    difference: float = CLAIM,
    refresh: float | None = None,
) -> bool:
    """Return whether the agent of one lifetime refutes the claim.

    Tasks differ by `difference`; by default the claim is true and attained.
    """
    exact, rng = n_known == 1, np.random.default_rng([SEED, n_known, seed])
    agent = hl.NearRMax(
        nearness=hl.Nearness(rewards=CLAIM, transitions=0.0 if exact else CLAIM),
        n_states=N_STATES,
        n_actions=N_ACTIONS,
        gamma=GAMMA,
        n_known=n_known,
        refresh=refresh,
        seed=rng,
        terminating=False,
        exact=exact,
        refutation_delta=delta,
        on_refutation="raise",
        explore=0.3,
    )
    middle = rng.uniform(difference / 2, 1 - difference / 2)
    try:
        for i in range(TASKS):
            task = small_task(middle + difference * (i % 2 - 0.5), exact=exact)
            learn_seed = int(rng.integers(2**31))
            hl.learn(agent, task, episodes=16 * n_known, max_steps=1, seed=learn_seed)
    except hl.errors.RefutedKnowledge:
        return True
    return False


def measure_size() -> list[dict[str, Any]]:
    """Return how many lifetimes have a false alarm, for each number of visits and each δ."""
    rows = []
    for n in VISITS:
        for delta in DELTAS:
            alarms = [is_refuted(n, delta, seed) for seed in range(LIFETIMES)]
            first = sum(alarms[:FIRST_LIFETIMES])
            rows.append({"n": n, "delta": delta, "alarms": sum(alarms), "first": first})
    return rows


def memory_of(part: str, difference: float, n_known: int, rng: np.random.Generator) -> Any:
    """Return a memory of estimated tasks; every second differs by `difference` at all pairs."""
    setting = Setting(n_states=N_STATES, n_actions=N_ACTIONS, gamma=GAMMA)
    memory = hl.TaskMemory(N_STATES, N_ACTIONS)
    memory.bind(setting)
    n_pairs = N_STATES * N_ACTIONS
    rows, states = np.arange(n_pairs), np.tile(np.arange(N_STATES, dtype=np.int32), n_pairs)
    for i in range(POWER_TASKS):
        p = 0.5 + difference * (i % 2 - 0.5)
        mean = rng.binomial(n_known, p, n_pairs) / n_known
        other = rng.binomial(n_known, 0.5, n_pairs) / n_known
        R, share = (mean, other) if part == "rewards" else (other, mean)
        learned = Rows(
            known=np.ones(n_pairs, dtype=bool),
            counts=np.full(n_pairs, n_known),
            R=R,
            ends=np.zeros(n_pairs),
            first=rows * N_STATES,
            last=(rows + 1) * N_STATES,
            successors=states,
            p=np.stack([1 - share, share], axis=1).ravel(),
        )
        v_max = 1 / (1 - GAMMA)
        memory.add(
            Source(learned, np.full(n_pairs, v_max), np.full(N_STATES, v_max), n_known=n_known)
        )
    return memory


def detections(part: str, ratio: float, n_known: int, lifetimes: int) -> tuple[int, int]:
    """Return in how many lifetimes single pairs, and all together, refute the claim."""
    claims = {name: CLAIM if name == part else 1.0 for name in PARTS}
    single = pooled = 0
    for seed in range(lifetimes):
        rng = np.random.default_rng([SEED, PARTS.index(part), int(10 * ratio), n_known, seed])
        found = hl.audit(memory_of(part, CLAIM * ratio, n_known, rng), hl.Nearness(**claims))
        single += bool(found.contradictions)
        pooled += found.pooled_refutes
    return single, pooled


def predicted(part: str, n_known: int) -> tuple[float | None, float | None]:
    """Return the true / claimed difference that an audit expects to find with probability 0.8.

    The numbers are those of single pairs and of all together; None if it finds none.
    """
    rng = np.random.default_rng([SEED, PARTS.index(part), n_known])
    claims = {name: CLAIM if name == part else 1.0 for name in PARTS}
    power = hl.audit(memory_of(part, 0.0, n_known, rng), hl.Nearness(**claims)).power[part]
    single, pooled = (1 + x / CLAIM for x in (float(power.one_pair.min()), power.all_pairs))
    return single if single < np.inf else None, pooled if pooled < np.inf else None


def measure_power() -> list[dict[str, Any]]:
    """Return the share of lifetimes in which the claim is refuted, over true / claimed."""
    rows = []
    for part in PARTS:
        for n in VISITS[1:]:
            found = np.array([detections(part, ratio, n, POWER_LIFETIMES) for ratio in RATIOS])
            tests = zip(("single pairs", "pooled"), found.T, predicted(part, n), strict=True)
            for test, counts, says in tests:
                shares = (counts / POWER_LIFETIMES).tolist()
                rows.append({"part": part, "n": n, "test": test, "shares": shares, "says": says})
    return rows


def measure_explore() -> list[dict[str, float]]:
    """Return the mean return of NearRMax in the main experiment, for each `explore`."""
    family = Tight()
    rows = []
    for explore in EXPLORE:
        returns = []
        for repetition in range(3):
            rng = np.random.default_rng([SEED, repetition])
            agent = hl.NearRMax(
                nearness=family.nearness,
                n_known=10,
                refresh=None,
                seed=repetition,
                explore=explore,
                **family.options,
            )
            for i in range(8):
                task = family.draw(rng)
                record = hl.learn(agent, task, episodes=500, max_steps=10, seed=i)
                returns.append(record.returns.mean())
        rows.append({"explore": explore, "return": float(np.mean(returns))})
    return rows


def measure() -> dict[str, Any]:
    """Measure size, power and the cost of exploration."""
    return {"size": measure_size(), "power": measure_power(), "explore": measure_explore()}
