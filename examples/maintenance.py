"""Machine maintenance: every week a new order changes how fast machines wear and what parts cost.

A workshop has 40 machines of one kind. A shift with a machine can be used to run, inspect, repair
or replace it, and a week has 21 shifts. The week is a task, and the week of one machine is an
episode. Rates of wear and failure and prices change from week to week, within known ranges.
NearRMax uses these ranges. MaxQInit assumes that there are only five kinds of weeks, which is
wrong. "same weeks" is NearRMax with another wrong assumption, that all weeks are equal: it trusts
the weeks it has seen too much, and may keep to a policy that was best in another week.
"""

import heirloom as hl
from heirloom.envs.maintenance import Machines
from heirloom.stats import student_interval

N_MACHINES, N_SHIFTS, N_WEEKS, LAST = 40, 21, 20, 8

family = Machines()
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
    episodes=N_MACHINES,
    max_steps=N_SHIFTS,
    repetitions=10,
)

print(f"Rewards differ by up to {nearness.rewards.max():.0f} euros between weeks, transitions by")
print(f"up to {nearness.transitions.max():.0%}. The prior of LRMax that follows is up to", end=" ")
print(f"{family.d_max.max():.0f} euros.\n")
last = min(LAST, results.sizes["task"])
print(hl.comparison_table(results, last=last), "\n")

weeks = results.isel(task=slice(-LAST, None)).mean("task")
earned, best = weeks.returns.sum("episode"), N_MACHINES * weeks.optimal.values
print(f"Money that all {N_MACHINES} machines earn per week, in the last {last} weeks:")
for agent in results.agent.values:
    own = earned.sel(agent=agent).values
    (mean, half), (lost, half_lost) = student_interval(own), student_interval(best - own)
    first = hl.helps_from(results, agent)
    note = f"better than RMax from week {first} on" if first else "not shown to be better"
    print(f"{agent:<10}  {mean:>7,.0f} ± {half:,.0f} euros,", end=" ")
    print(f"{lost:>6,.0f} ± {half_lost:,.0f} less than the best policy", end="")
    print("" if agent == "RMax" else f"; {note}")
print("What a wrong assumption costs, in euros per week less than with the true ranges (NearRMax):")
wrong = {"MaxQInit": "there are five kinds of weeks", "same weeks": "all weeks are equal"}
for agent, assumption in wrong.items():
    cost = earned.sel(agent="NearRMax") - earned.sel(agent=agent)
    mean, half = student_interval(cost.values)
    print(f"{assumption} ({agent}): {mean:,.0f} ± {half:,.0f}")
figure = hl.plot.draw_lifelong(
    results,
    title="Maintenance: what learning costs",
    loss=True,
    xlabel="week",
    ylabel="euros per machine less than the best policy",
)
hl.plot.save_figure(figure, "maintenance.png")
