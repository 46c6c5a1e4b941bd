"""MountainCar: observations are real numbers, which `Binned` cuts into 100 bins.

Each task is a car whose engine has another force. The agent decides once in ten time steps:
a single step rarely leaves a bin, and what is learned of the bin would say that the car stays
there. An episode is cut after 300 time steps; the time to the top is the negative return.

Binning voids the guarantees of all agents: what follows depends on where in its bin the car is, so
bins are not the states of an MDP, and a bound on their values bounds nothing in MountainCar. The
nearness, the prior and p_min are guesses. What can be said instead is what was measured: the mean
time to the top over repetitions, with 95 % intervals.
"""

import gymnasium as gym
import numpy as np

import heirloom as hl
from heirloom.stats import student_interval

N_REPEATED, N_DECISIONS, LAST = 10, 30, 2


class Repeated(gym.Wrapper):
    """Repeat each action, and return the sum of the rewards."""

    def step(self, action):
        """Take the action ten times, or until the episode ends."""
        total = 0.0
        for _ in range(N_REPEATED):
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += reward
            if terminated or truncated:
                break
        return observation, total, terminated, truncated, info


def car(rng):
    """Make a car with a random force, at least Gymnasium's 0.001."""
    env = gym.make("MountainCar-v0", max_episode_steps=N_REPEATED * N_DECISIONS)
    env.unwrapped.force = float(rng.uniform(0.001, 0.0012))
    positions, velocities = np.linspace(-1.1, 0.5, 9), np.linspace(-0.04, 0.04, 9)
    return hl.wrappers.Binned(Repeated(env), edges=[positions, velocities])


options = {
    "n_states": 100,
    "n_actions": 3,
    "gamma": 0.99,
    "n_known": 6,
    "refresh": None,
    "reward_range": (-10.0, 0.0),
}
nearness = hl.Nearness(rewards=3.0, transitions=0.2)  # a guess
results = hl.compare(
    {
        "RMax": lambda rng: hl.RMax(seed=rng, **options),
        "LRMax": lambda rng: hl.LRMax(d_max=10.0, seed=rng, **options),
        "MaxQInit": lambda rng: hl.MaxQInit(p_min=0.6, seed=rng, **options),
        "NearRMax": lambda rng: hl.NearRMax(nearness=nearness, seed=rng, **options),
    },
    car,
    tasks=6,
    episodes=80,
    max_steps=N_DECISIONS,
    repetitions=5,
)
print("The guarantees do not hold: bins are not the states of an MDP.\n")
print(hl.comparison_table(results, last=LAST), "\n")
print(f"Measured time to the top in the last {LAST} tasks, cut after 300 time steps:")
later = -results.returns.isel(task=slice(-LAST, None)).mean(("task", "episode"))
for agent in results.agent.values:
    mean, half = student_interval(later.sel(agent=agent).values)
    first = hl.helps_from(results, agent)
    note = "" if first is None else f"; shorter than with RMax from task {first} on"
    print(f"{agent:<8}  {mean:.0f} ± {half:.0f} time steps{note}")
hl.plot.save_figure(
    hl.plot.draw_lifelong(results, title="MountainCar: minus the time"), "mountain_car.png"
)
