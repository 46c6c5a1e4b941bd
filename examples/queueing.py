"""A service desk: every hour, customers arrive at another rate, and requests take another time.

An authority has 30 desks of one kind. Each minute, a desk has its gate open or closed, and one or
two clerks. The hour is a task, and the hour of one desk is an episode. The costs are minutes of
waiting: those of the customers, 15 for each customer who is sent away, and 2 for each minute of a
second clerk. Rates change from hour to hour, within known ranges.
NearRMax uses these ranges. MaxQInit assumes that there are only five kinds of hours, which is
wrong. "same hours" is NearRMax with another wrong assumption, that all hours are equal.
"""

import heirloom as hl
from heirloom.envs.queueing import Queues
from heirloom.stats import student_interval

N_DESKS, N_MINUTES, N_HOURS, LAST = 30, 60, 12, 6

family = Queues()
nearness = family.nearness
options = {"n_known": 20, "refresh": None, **family.options}
results = hl.compare(
    {
        "RMax": lambda rng: hl.RMax(seed=rng, **options),
        "LRMax": lambda rng: hl.LRMax(d_max=family.d_max, seed=rng, **options),
        "MaxQInit": lambda rng: hl.MaxQInit(p_min=0.2, seed=rng, **options),
        "NearRMax": lambda rng: hl.NearRMax(nearness=nearness, seed=rng, **options),
        "same hours": lambda rng: hl.NearRMax(
            nearness=hl.Nearness(rewards=0.0, transitions=0.0), seed=rng, **options
        ),
    },
    family.draw,
    tasks=N_HOURS,
    episodes=N_DESKS,
    max_steps=N_MINUTES,
    repetitions=12,
)

print(f"Costs of a minute differ by up to {nearness.rewards.max():.2f} minutes between hours,")
print(f"transitions by up to {nearness.transitions.max():.0%}.\n")
last = min(LAST, results.sizes["task"])
print(hl.comparison_table(results, last=last), "\n")

hours = results.isel(task=slice(-LAST, None)).mean("task")
waited, best = -hours.returns.mean("episode"), hours.optimal.values
print(f"Minutes of waiting per desk and hour, in the last {last} hours:")
for agent in results.agent.values:
    own = waited.sel(agent=agent).values
    (mean, half), (more, half_more) = student_interval(own), student_interval(own + best)
    first = hl.helps_from(results, agent)
    note = f"shorter than with RMax from hour {first} on" if first else "not shown to be shorter"
    print(f"{agent:<10}  {mean:.0f} ± {half:.0f} minutes,", end=" ")
    print(f"{more:.0f} ± {half_more:.0f} more than the best policy", end="")
    print("" if agent == "RMax" else f"; {note}")
print("What a wrong assumption costs, in minutes more than with the true ranges (NearRMax):")
wrong = {"MaxQInit": "there are five kinds of hours", "same hours": "all hours are equal"}
for agent, assumption in wrong.items():
    cost = waited.sel(agent=agent) - waited.sel(agent="NearRMax")
    mean, half = student_interval(cost.values)
    print(f"{assumption} ({agent}): {mean:.0f} ± {half:.0f}")
figure = hl.plot.draw_lifelong(
    results,
    title="Service desks: what learning costs in waiting",
    loss=True,
    xlabel="hour",
    ylabel="minutes more than the best policy",
)
hl.plot.save_figure(figure, "queueing.png")
