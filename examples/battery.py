"""Batteries that trade electricity: every week has other prices, and last season left a log.

A utility has 30 batteries of one kind. Every four hours, each one buys a megawatt-hour, waits or
sells one, and a week has 42 such blocks. The week is a task, and the week of one battery is an
episode. Prices have four levels, which change at random. The price of gas scales all of them,
sunny weeks have lower prices at noon, and calm weeks have fewer changes: each within a known range.
Last season, 200 batteries followed a simple rule, and wrote down what they did. The example asks
what this log says about how weeks differ, and what each claim is worth in euros: less than the rule
earns, in a season of eight weeks, of which learners need the first ones to learn.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

import heirloom as hl
from heirloom.envs.box import Interval
from heirloom.stats import student_interval

N_BLOCKS, N_LEVELS, N_CHARGES = 6, 4, 5
N_STATES, N_STEPS, N_WEEKS, N_BATTERIES = N_BLOCKS * N_LEVELS * N_CHARGES, 42, 8, 30
BUY, WAIT, SELL = range(3)
PRICES = np.array([20.0, 55.0, 100.0, 170.0])  # euros per megawatt-hour
USUAL = np.array(  # of each block: how often prices have each level
    [
        [0.5, 0.4, 0.1, 0.0],
        [0.4, 0.4, 0.2, 0.0],
        [0.1, 0.3, 0.4, 0.2],
        [0.2, 0.4, 0.3, 0.1],
        [0.0, 0.2, 0.4, 0.4],
        [0.2, 0.4, 0.3, 0.1],
    ]
)
SUNNY = USUAL.copy()
SUNNY[3] = [0.8, 0.2, 0.0, 0.0]


def number(block, charge, level):
    """Return the number of a state."""
    return (block * N_CHARGES + charge) * N_LEVELS + level


@dataclass
class Weeks(hl.BoxFamily):
    """The weeks of a season."""

    gas: Interval = (0.8, 1.2)
    sun: Interval = (0.0, 1.0)
    calm: Interval = (0.3, 0.7)
    gamma: float = 0.95

    def build(self, *, reward_range, gas, sun, calm):
        """Build a week."""
        T, R = np.zeros((N_STATES, 3, N_STATES)), np.zeros((N_STATES, 3))
        available = np.ones((N_STATES, 3), dtype=bool)
        for block, charge, level in np.ndindex(N_BLOCKS, N_CHARGES, N_LEVELS):
            s, after = number(block, charge, level), (block + 1) % N_BLOCKS
            p = (1 - calm) * ((1 - sun) * USUAL[after] + sun * SUNNY[after])
            p[level] += calm
            for a, change in enumerate((1, 0, -1)):
                available[s, a] = 0 <= charge + change < N_CHARGES
                if available[s, a]:
                    first = number(after, charge + change, 0)
                    T[s, a, first : first + N_LEVELS] = p
            R[s, BUY], R[s, SELL] = -gas * PRICES[level] - 2, 0.85 * gas * PRICES[level] - 2
        R[~available] = 0.0
        names = [f"block {s // 20}, charge {s // 4 % 5}, price {s % 4}" for s in range(N_STATES)]
        return hl.TabularMDP(
            R,
            T,
            gamma=self.gamma,
            start=number(0, 0, 0),
            available=available,
            reward_range=reward_range,
            state_names=names,
            action_names=["buy", "wait", "sell"],
        )


def rule(m):
    """Buy at low prices, and sell at high ones."""
    wanted = np.where(np.arange(N_STATES) % N_LEVELS < 2, BUY, SELL)
    return np.where(m.available[np.arange(N_STATES), wanted], wanted, WAIT)


def log_of(week, m, rng, n_batteries):
    """Return what batteries did in a week, one row for each step."""
    env, policy, rows = m.to_gymnasium(), rule(m), []
    for battery in range(n_batteries):
        s, _ = env.reset(seed=int(rng.integers(2**31)))
        for _ in range(N_STEPS):
            s_next, r, *_ = env.step(policy[s])
            rows.append((week, battery, m.state_names[s], m.action_names[policy[s]], r))
            s = s_next
    return pd.DataFrame(rows, columns=["week", "battery", "state", "action", "euros"])


family, rng = Weeks(), np.random.default_rng(0)
last_season = [family.draw(rng) for _ in range(12)]
log = pd.concat([log_of(i + 1, m, rng, 200) for i, m in enumerate(last_season)])
log.to_csv("last-season.csv", index=False)

options = {"n_known": 2, **family.options}
m = last_season[0]
manager = hl.RMax(seed=0, **options)
manager.memory.set_names(state_names=m.state_names, action_names=m.action_names)
columns = {"reward": "euros", "next_state": None, "terminated": None, "episode": "battery"}
print(hl.learn_from_log(manager, "last-season.csv", **columns, task="week", available=m.available))
manager.memory.save("last-season.heirloom")


state, actions = np.arange(N_STATES)[:, None], np.arange(3)
block, level = state // (N_CHARGES * N_LEVELS), state % N_LEVELS
market = np.broadcast_to(block * N_LEVELS + level, (N_STATES, 3))  # which ignores batteries
price = np.array([1.0, 0.0, 0.85]) * PRICES[level]  # gas scales them
rule_tries = actions == rule(m)[:, None]
print("\nWhat the log says, if nothing is declared:")
print(hl.estimate_nearness(manager.memory))
print("\nIf the market is the same for all batteries, and prices are paid as posted:")
estimate = hl.estimate_nearness(
    manager.memory,
    parts=["rewards"],
    shape=hl.Nearness(rewards=price, transitions=0.0, successors=family.nearness.successors),
    pairs=rule_tries | (actions == WAIT),
    rewards_alike=level * 3 + actions,
    transitions_alike=market,
    kind=lambda s, a, s_next: s_next % N_LEVELS,
    exact={"rewards": True},
)
print(estimate)
print("\nThe known ranges:")
audit = hl.audit(manager.memory, family.nearness, exact={"rewards": True})
print(audit)

ranges = family.nearness
estimated = hl.Nearness(  # gas scales all prices alike; of transitions, the ranges are known
    rewards=estimate.scale * price,
    transitions=ranges.transitions,
    successors=ranges.successors,
    terminates=False,
)
rounded = hl.Nearness(
    rewards=1.2 * audit.parts["rewards"].seen.max(),
    transitions=min(1.0, 1.2 * audit.parts["transitions"].seen.max()),
)


def season():
    """Return the memory of last season."""
    return hl.TaskMemory.load("last-season.heirloom")


results = hl.compare(
    {
        "RMax": lambda rng: hl.RMax(seed=rng, **options),
        "LRMax": lambda rng: hl.LRMax(d_max=family.d_max, seed=rng, **options),
        "MaxQInit": lambda rng: hl.MaxQInit(p_min=0.2, seed=rng, **options),
        "NearRMax": lambda rng: hl.NearRMax(nearness=ranges, seed=rng, **options),
        "pooled": lambda rng: hl.RMax(pool=100, seed=rng, **options),
        "pooled + log": lambda rng: hl.RMax(pool=100, memory=season(), seed=rng, **options),
        "NearRMax + log": lambda rng: hl.NearRMax(
            nearness=ranges, memory=season(), seed=rng, **options
        ),
        "estimated + log": lambda rng: hl.NearRMax(
            nearness=estimated, memory=season(), seed=rng, **options
        ),
        "rounded + log": lambda rng: hl.NearRMax(
            nearness=rounded, memory=season(), seed=rng, **options
        ),
    },
    family.draw,
    tasks=N_WEEKS,
    episodes=N_BATTERIES,
    max_steps=N_STEPS,
    repetitions=10,
)

print("\nEuros that all batteries earn per week:")
earned = results.returns.sum("episode")
followed = [
    hl.expected_return(family.draw(rng), rule(m), horizon=N_STEPS, discounted=False)
    for _ in range(200)
]
means = {
    "the best policy of each week": N_BATTERIES * float(results.optimal.mean()),
    "the rule of last season": N_BATTERIES * np.mean(followed),
    "RMax": float(earned.sel(agent="RMax").mean()),
}
for title, euros in means.items():
    print(f"{title:<30} {euros:>8,.0f}")
print("\nMore than RMax in the first week, in the last one, and per week in all:")
for agent in results.agent.values[1:]:
    more = earned.sel(agent=agent) - earned.sel(agent="RMax")
    parts = (more.isel(task=0), more.isel(task=-1), more.mean("task"))
    cells = ("{:+,.0f} ± {:,.0f}".format(*student_interval(part.values)) for part in parts)
    print(f"{agent:<16}", *(f"{cell:>18}" for cell in cells))
above = means["the rule of last season"] - means["RMax"]
print(f"{'the rule':<54} {above:>+18,.0f}")
print("\nWhat the log changes in the first week, and per week in all:")
for agent in ("pooled", "NearRMax"):
    more = earned.sel(agent=f"{agent} + log") - earned.sel(agent=agent)
    cells = (student_interval(part.values) for part in (more.isel(task=0), more.mean("task")))
    print(f"{agent:<16}", *(f"{'{:+,.0f} ± {:,.0f}'.format(*cell):>18}" for cell in cells))
figure = hl.plot.draw_lifelong(
    results,
    title="Batteries: what learning costs",
    loss=True,
    xlabel="week",
    ylabel="euros per battery less than the best policy",
)
hl.plot.save_figure(figure, "battery.png")
