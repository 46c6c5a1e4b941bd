"""Inventory control: a shop orders every evening, and each season is a new task.

First only prices and storage costs change between seasons, then the mean number of customers too.
In both cases the prior of LRMax is the exact distance between the models, so it is valid. A change
of prices by a few percent makes this distance small, a change of demand makes it large. NearRMax
uses the largest differences of mean rewards and of transitions instead, also from the exact models.
"""

import heirloom as hl
from heirloom.envs.inventory import prices, seasons


def compare_agents(family):
    """Compare the agents over 15 seasons, each of 50 episodes of 50 days."""
    options = {"n_known": 20, "refresh": None, **family.options}
    nearness = family.nearness
    return hl.compare(
        {
            "RMax": lambda rng: hl.RMax(seed=rng, **options),
            "LRMax": lambda rng: hl.LRMax(d_max=family.d_max, seed=rng, **options),
            "MaxQInit": lambda rng: hl.MaxQInit(p_min=family.p_min, seed=rng, **options),
            "NearRMax": lambda rng: hl.NearRMax(nearness=nearness, seed=rng, **options),
        },
        family.draw,
        tasks=15,
        episodes=50,
        max_steps=50,
        repetitions=10,
    )


for name, family in {"prices": prices(), "customers and prices": seasons()}.items():
    results = compare_agents(family)
    print(f"Changing {name}: the prior is up to {family.d_max.max():.2f}, rewards are costs.")
    print(hl.comparison_table(results, last=4), "\n")
    title = f"Inventory control, changing {name}"
    figure = hl.plot.draw_lifelong(results, title=title, baseline="RMax")
    hl.plot.save_figure(figure, f"inventory_{name.split()[0]}.png")
print(f"MaxQInit starts after {hl.theory.tasks_for_max_q(prices().p_min, 0.05)} seasons.")
