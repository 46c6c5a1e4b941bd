"""ICU-Sepsis: what one hospital learned about treating sepsis, used in the next hospital.

The tables of the package icu-sepsis describe 716 states of a patient in intensive care and 25
treatments, combinations of fluids and vasopressors. They were estimated from clinical records. Here
a hospital is a task and a patient is an episode. Hospitals differ in how the strongest dose of
vasopressors acts: by a total variation of at most 0.3. All other treatments act alike everywhere.

NearRMax uses these bounds. LRMax has no prior, so it acts as RMax does. The prior that follows from
the bounds, 0.6, would not help: LRMax would add up to 1 / (1-γ) = 1,000 times as much to the values
of earlier hospitals, and no value exceeds 1. MaxQInit assumes that almost every hospital is equal
to the first one, which is wrong. "all equal" is NearRMax with another wrong assumption, that
hospitals do not differ at all.

A treatment counts as known in a state after 10 patients, so that 25,000 patients are enough to try
most treatments. The best of 25 such estimates is often best by chance: all agents have far more
deaths than the optimum, and come closer to it with more visits and more patients. Values are
computed to 0.001, one death in 1,000 patients.
"""

import sys

import numpy as np

import heirloom as hl
from heirloom.envs import icu_sepsis as icu
from heirloom.stats import student_interval

N_PATIENTS, LONGEST_STAY = 25_000, 200  # a step is four hours

if icu.tables_path() is None:
    sys.exit("This example reads the tables of a package: pip install --no-deps icu-sepsis")

family = icu.Hospitals(difference=0.3, level=4, elsewhere=0.0)
nearness, equal = family.nearness, hl.Nearness(rewards=0.0, transitions=0.0)
options = {"n_known": 10, "tol": 1e-3, **family.options}
results = hl.compare(
    {
        "RMax": lambda rng: hl.RMax(seed=rng, **options),
        "LRMax": lambda rng: hl.LRMax(seed=rng, **options),
        "MaxQInit": lambda rng: hl.MaxQInit(p_min=0.96, seed=rng, **options),
        "NearRMax": lambda rng: hl.NearRMax(nearness=nearness, seed=rng, **options),
        "all equal": lambda rng: hl.NearRMax(nearness=equal, seed=rng, **options),
    },
    family.draw,
    tasks=4,
    episodes=N_PATIENTS,
    max_steps=LONGEST_STAY,
    repetitions=4,
)


def deaths(survival):
    """Return the mean number of deaths per 1,000 patients, with its 95 % interval, as text."""
    mean, half = student_interval(1000 * (1 - survival))
    return f"{mean:.1f} ± {half:.1f}"


m = icu.icu_sepsis()
policies = {
    "random treatment": np.full(m.R.shape, 1 / m.n_actions),
    "clinicians": icu.expert_policy(),
    "optimum": hl.solve(m).policy,
}
print("Deaths per 1,000 patients in the published task, from its tables:")
for name, policy in policies.items():
    survival = hl.expected_return(m, policy, horizon=LONGEST_STAY, discounted=False)
    print(f"  {name:<16}  {1000 * (1 - survival):.0f}")

n_hospitals, means = results.sizes["task"], results.returns.mean("episode")
print(
    "\nDeaths per 1,000 patients in hospitals that the agents learn one after the other; for agents"
)
print("other than RMax, the difference to RMax in the same hospital (negative: fewer deaths):")
print(" " * 10 + "".join(f"{f'hospital {i + 1}':>16}" for i in range(n_hospitals)))
rmax = means.sel(agent="RMax").values
print(f"{'optimum':<10}" + "".join(f"{deaths(best):>16}" for best in results.optimal.values.T))
print(f"{'RMax':<10}" + "".join(f"{deaths(survival):>16}" for survival in rmax.T))
for agent in results.agent.values[1:]:
    more = 1 - (rmax - means.sel(agent=agent).values)
    first = hl.helps_from(results, agent)
    note = "" if first is None else f"  fewer from hospital {first} on"
    print(f"{agent:<10}" + "".join(f"{deaths(survival):>16}" for survival in more.T) + note)

later = results.returns.isel(task=slice(1, None)).mean("task")
fifths = later.values.reshape(*later.shape[:2], 5, N_PATIENTS // 5).mean(axis=3)
final = fifths[0, :, 4]
print("\nThe same in each fifth of the patients of hospitals 2 and later; for agents other than")
print("RMax, the difference to RMax in its last fifth:")
print(f"{'RMax':<10}" + "".join(f"{deaths(part):>16}" for part in fifths[0].T))
for agent, parts in zip(results.agent.values[1:], fifths[1:], strict=True):
    more = 1 - (final[:, None] - parts)
    print(f"{agent:<10}" + "".join(f"{deaths(part):>16}" for part in more.T))

title = "ICU-Sepsis: survival of patients, per hospital"
hl.save_figure(hl.draw_lifelong(results, title=title), "icu_sepsis.png")
