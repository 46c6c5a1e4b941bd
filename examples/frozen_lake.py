"""FrozenLake 8x8: tasks differ in one hole and in how slippery the ice is.

All models are known, so the prior of LRMax is computed: for each pair, the largest distance between
any two of the four tasks. So is the nearness of NearRMax: for each pair, the largest differences of
mean rewards and of transitions between any two tasks, and the possible successors. Both are valid.
The learned models are not exact, however: a pair counts as known after ten visits, as in the
paper's main experiment.
"""

import heirloom as hl
from heirloom.envs.toy_text import frozen_lakes

family = frozen_lakes()
nearness = family.nearness
options = {"n_known": 10, "refresh": None, **family.options}
results = hl.compare(
    {
        "RMax": lambda rng: hl.RMax(seed=rng, **options),
        "LRMax": lambda rng: hl.LRMax(d_max=family.d_max, seed=rng, **options),
        "MaxQInit": lambda rng: hl.MaxQInit(p_min=family.p_min, seed=rng, **options),
        "NearRMax": lambda rng: hl.NearRMax(nearness=nearness, seed=rng, **options),
    },
    family.draw,
    tasks=15,
    episodes=2000,
    max_steps=100,
    repetitions=10,
)

print(f"The prior is up to {family.d_max.max():.2f}, and {family.d_max.mean():.2f} on average.")
print(f"MaxQInit starts after {hl.theory.tasks_for_max_q(family.p_min, 0.05)} tasks.\n")
print(hl.comparison_table(results, last=4))
hl.plot.save_figure(
    hl.plot.draw_lifelong(results, title="FrozenLake 8x8, four tasks"), "frozen_lake.png"
)
