"""Blackjack at two tables: one pays 3 to 2 for a natural, the other does not.

Blackjack has no transition table. LRMax must learn its prior from the first tasks, and MaxQInit
starts to transfer once it has seen enough of them; both use that there are two tasks. NearRMax uses
the rules: only the payment for a natural changes, by 0.5. Observations are tuples (sum, dealer's
card, usable ace); `Numbered` numbers them.
"""

import gymnasium as gym

import heirloom as hl
from heirloom.wrappers import Numbered

tables = [Numbered(gym.make("Blackjack-v1", natural=natural)) for natural in (False, True)]
p_min = 1 / len(tables)
# An episode is one hand, which pays at most 1.5 at its end: no value exceeds 1.5.
options = {
    "n_states": 704,
    "n_actions": 2,
    "gamma": 0.99,
    "n_known": 5,
    "refresh": None,
    "reward_range": (-1.0, 1.5),
    "v_max": 1.5,
}
# Cards are drawn in the same way at both tables, so transitions are equal. Mean rewards differ by
# 0.5 at most: only a hand that wins with a natural is paid differently, 1.5 instead of 1.
nearness = hl.Nearness(rewards=0.5, transitions=0.0)
results = hl.compare(
    {
        "RMax": lambda rng: hl.RMax(seed=rng, **options),
        "LRMax": lambda rng: hl.LRMax(p_min=p_min, seed=rng, **options),
        "MaxQInit": lambda rng: hl.MaxQInit(p_min=p_min, seed=rng, **options),
        "NearRMax": lambda rng: hl.NearRMax(nearness=nearness, seed=rng, **options),
    },
    lambda rng: tables[rng.integers(len(tables))],
    tasks=8,
    episodes=2500,
    max_steps=20,
    repetitions=3,
)

print(f"MaxQInit starts after {hl.theory.tasks_for_max_q(p_min, 0.05)} tasks,")
print(f"LRMax has learned its prior after {hl.theory.tasks_for_distance(p_min, 0.05)}.\n")
print(hl.comparison_table(results, last=2))
hl.plot.save_figure(
    hl.plot.draw_lifelong(results, title="Blackjack at two tables"), "blackjack.png"
)
