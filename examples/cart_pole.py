"""CartPole: observations are real numbers, which `Binned` cuts into 36 bins of angle and speed.

Each task is a cart whose motor has another force. An episode is cut after 200 steps of 0.02 s.

Binning voids the guarantees of all agents: where in its bin the pole is depends on the way there,
so the bins are not the states of an MDP, and a bound on their values bounds nothing in CartPole.
The nearness, the prior and p_min are therefore guesses. What can be said instead is what was
measured: the last lines fix the policy that was learned, and give the mean time that it balances
the pole in new episodes, with a 95 % interval. That statement needs no states.
"""

import gymnasium as gym
import numpy as np

import heirloom as hl
from heirloom.stats import student_interval

SECONDS, N_STEPS = 0.02, 200  # per step, per episode


def cart(rng):
    """Make a cart whose motor has a random force, 10 by default."""
    env = gym.make("CartPole-v1", max_episode_steps=N_STEPS)
    env.unwrapped.force_mag = float(rng.uniform(8.0, 12.0))
    # Position and velocity of the cart are ignored; the angle is in radians.
    angles, speeds = [-0.1, -0.04, 0.0, 0.04, 0.1], [-1.0, -0.5, 0.0, 0.5, 1.0]
    return hl.wrappers.Binned(env, edges=[[], [], angles, speeds])


options = {"n_states": 36, "n_actions": 2, "gamma": 0.99, "n_known": 20, "refresh": None}
nearness = hl.Nearness(rewards=0.0, transitions=0.1)  # a guess
results = hl.compare(
    {
        "RMax": lambda rng: hl.RMax(seed=rng, **options),
        "LRMax": lambda rng: hl.LRMax(d_max=1.0, seed=rng, **options),
        "MaxQInit": lambda rng: hl.MaxQInit(p_min=0.6, seed=rng, **options),
        "NearRMax": lambda rng: hl.NearRMax(nearness=nearness, seed=rng, **options),
    },
    cart,
    tasks=5,
    episodes=80,
    max_steps=N_STEPS,
    repetitions=4,
)
print("The guarantees do not hold: bins are not the states of an MDP.\n")
print(hl.comparison_table(results, last=2), "\n")
hl.plot.save_figure(
    hl.plot.draw_lifelong(results, title="CartPole: steps upright"), "cart_pole.png"
)

agent, rng = hl.NearRMax(nearness=nearness, seed=0, **options), np.random.default_rng(1)
carts = [cart(rng) for _ in range(3)]
for env in carts:
    hl.learn(agent, env, episodes=80, max_steps=N_STEPS, seed=2)
policy, seconds = agent.policy.copy(), []
for episode in range(100):
    state, _ = env.reset(seed=1000 + episode)
    upright, done = 0, False
    while not done:
        state, reward, terminated, truncated, _ = env.step(int(policy[state]))
        upright, done = upright + reward, terminated or truncated
    seconds.append(SECONDS * upright)
mean, half = student_interval(np.array(seconds))
print("Measured: the policy that NearRMax learned for the third cart balances its pole for")
print(
    f"{mean:.2f} ± {half:.2f} s in 100 new episodes, which are cut after {SECONDS * N_STEPS:g} s."
)
