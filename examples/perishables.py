"""Perishable stock: every week, demand, shelf life and prices change.

A chain has 200 shops. Each evening, a shop orders crates for the next morning. Pieces that are too
old are thrown away, and customers who find the shelf empty cost goodwill. The week is a task, and
the week of one shop is an episode. Demand, shelf life and prices change from week to week, within
known ranges.
NearRMax uses these ranges. MaxQInit assumes that there are only five kinds of weeks, which is
wrong. "same weeks" is NearRMax with another wrong assumption, that all weeks are equal.
"""

import heirloom as hl
from heirloom.envs.perishables import Perishables
from heirloom.stats import student_interval

N_SHOPS, N_DAYS, N_WEEKS, LAST = 200, 7, 12, 6

family = Perishables()
nearness = family.nearness
options = {"n_known": 10, "refresh": None, **family.options}
results = hl.compare(
    {
        "RMax": lambda rng: hl.RMax(seed=rng, **options),
        "LRMax": lambda rng: hl.LRMax(d_max=family.d_max, seed=rng, **options),
        "MaxQInit": lambda rng: hl.MaxQInit(p_min=0.2, seed=rng, **options),
        "NearRMax": lambda rng: hl.NearRMax(nearness=nearness, seed=rng, **options),
        "same weeks": lambda rng: hl.NearRMax(
            nearness=hl.Nearness(rewards=0.0, transitions=0.0), seed=rng, **options
        ),
    },
    family.draw,
    tasks=N_WEEKS,
    episodes=N_SHOPS,
    max_steps=N_DAYS,
    repetitions=10,
)

print(f"Rewards differ by up to {nearness.rewards.max():.2f} euros between weeks, transitions by")
print(f"up to {nearness.transitions.max():.0%}.\n")
last = min(LAST, results.sizes["task"])
print(hl.comparison_table(results, last=last), "\n")

weeks = results.isel(task=slice(-LAST, None)).mean("task")
earned = weeks.returns.sum("episode")
best = N_SHOPS * weeks.optimal
print(f"Money that all {N_SHOPS} shops earn per week, in the last {last} weeks:")
for agent in results.agent.values:
    own = earned.sel(agent=agent).values
    (mean, half), (lost, half_lost) = student_interval(own), student_interval(best.values - own)
    first = hl.helps_from(results, agent)
    note = f"better than RMax from week {first} on" if first else "not shown to be better"
    print(f"{agent:<10}  {mean:,.0f} ± {half:,.0f} euros,", end=" ")
    print(f"{lost:>5,.0f} ± {half_lost:,.0f} less than the best policy", end="")
    print("" if agent == "RMax" else f"; {note}")
print("What a wrong assumption costs, in euros per week less than with the true ranges (NearRMax):")
wrong = {"MaxQInit": "there are five kinds of weeks", "same weeks": "all weeks are equal"}
for agent, assumption in wrong.items():
    cost = earned.sel(agent="NearRMax") - earned.sel(agent=agent)
    mean, half = student_interval(cost.values)
    print(f"{assumption} ({agent}): {mean:,.0f} ± {half:,.0f}")
figure = hl.plot.draw_lifelong(
    results,
    title="Perishable stock: what learning costs",
    loss=True,
    xlabel="week",
    ylabel="euros per shop less than the best policy",
)
hl.plot.save_figure(figure, "perishables.png")
