"""CliffWalking: tasks differ in the wind and in the cost of falling off the cliff.

The prior of LRMax is computed from the exact models, so it is valid. Here it is too large to be
useful: a fall costs up to 100, so values may be as low as -2000, and the distance weighs a change
of the wind by the range of values. LRMax therefore behaves like RMax. MaxQInit, which does not use
distances, gains. NearRMax gains most: it uses how much the wind and the cost of a fall can change,
and not how much that could change values in the worst case.
"""

import heirloom as hl
from heirloom.envs.toy_text import cliffs

family = cliffs()
nearness = family.nearness
options = {"n_known": 5, "refresh": None, **family.options}
results = hl.compare(
    {
        "RMax": lambda rng: hl.RMax(seed=rng, **options),
        "LRMax": lambda rng: hl.LRMax(d_max=family.d_max, seed=rng, **options),
        "MaxQInit": lambda rng: hl.MaxQInit(p_min=family.p_min, seed=rng, **options),
        "NearRMax": lambda rng: hl.NearRMax(nearness=nearness, seed=rng, **options),
    },
    family.draw,
    tasks=14,
    episodes=200,
    max_steps=50,
    repetitions=8,
)

print(f"The prior is between {family.d_max.min():.0f} and {family.d_max.max():.0f}.")
print(f"MaxQInit starts after {hl.theory.tasks_for_max_q(family.p_min, 0.05)} tasks.\n")
print(hl.comparison_table(results, last=3))
hl.plot.save_figure(
    hl.plot.draw_lifelong(results, title="CliffWalking, four tasks"), "cliff_walking.png"
)
