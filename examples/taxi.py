"""Taxi: tasks differ in the fare, and in whether a road is closed.

The prior of LRMax is computed from the exact models, so it is valid. It is small where only the
fare differs, and large at the closed road: rewards may be as low as -10, so values may be as low as
-200, and the distance weighs transitions by how far values are above that.

LRMax keeps only the two sources that were used most, which saves time. The nearness of NearRMax is
computed from the exact models too: transitions can differ at the closed road only, and rewards by
the difference of the fares.
"""

import heirloom as hl
from heirloom.envs.toy_text import taxis

family = taxis()
nearness = family.nearness
options = {
    "n_known": 1,
    "refresh": None,
    **family.options,
}  # transitions and rewards are deterministic
results = hl.compare(
    {
        "RMax": lambda rng: hl.RMax(seed=rng, **options),
        "LRMax": lambda rng: hl.LRMax(
            d_max=family.d_max,
            memory=hl.TaskMemory(500, 6, capacity=2, keep="most_used"),
            seed=rng,
            **options,
        ),
        "MaxQInit": lambda rng: hl.MaxQInit(p_min=family.p_min, seed=rng, **options),
        "NearRMax": lambda rng: hl.NearRMax(nearness=nearness, seed=rng, **options),
    },
    family.draw,
    tasks=14,
    episodes=300,
    max_steps=100,
    repetitions=3,
)

print(f"The prior is 0 at {(family.d_max == 0).mean():.1%} of pairs, and up to", end=" ")
print(f"{family.d_max.max():.0f} at the others.")
print(f"MaxQInit starts after {hl.theory.tasks_for_max_q(family.p_min, 0.05)} tasks.\n")
print(hl.comparison_table(results, last=3))
hl.plot.save_figure(hl.plot.draw_lifelong(results, title="Taxi, four tasks"), "taxi.png")
