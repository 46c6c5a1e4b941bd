"""FrozenLake 8x8: the ice melts in one place, and is more slippery on some days.

All models are at hand, so the prior of LRMax is computed: the largest distance of any two of the
four tasks, pair by pair. It holds for sure. What does not is that ten visits make a pair known
exactly; the paper's own experiments make do with as many.
"""

import heirloom as hl
from heirloom.envs.toy_text import frozen_lakes

family = frozen_lakes()
options = {"n_known": 10, **family.options}
results = hl.compare(
    {
        "RMax": lambda rng: hl.RMax(seed=rng, **options),
        "LRMax": lambda rng: hl.LRMax(d_max=family.d_max, seed=rng, **options),
        "MaxQInit": lambda rng: hl.MaxQInit(p_min=family.p_min, seed=rng, **options),
    },
    family.draw,
    tasks=15,
    episodes=2000,
    max_steps=100,
    repetitions=10,
)

print(f"The prior is up to {family.d_max.max():.2f}, and {family.d_max.mean():.2f} on average.")
print(f"MaxQInit starts after {hl.tasks_for_max_q(family.p_min, 0.05)} tasks.\n")
print(hl.comparison_table(results, last=4))
hl.save_figure(hl.draw_lifelong(results, title="FrozenLake 8x8, four tasks"), "frozen_lake.png")
