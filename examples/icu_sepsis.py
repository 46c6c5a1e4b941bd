"""ICU-Sepsis: what one hospital learned about treating sepsis, used in the next hospital.

The tables of the package icu-sepsis describe 716 states of a patient in intensive care and 25
treatments, combinations of fluids and vasopressors. They were estimated from clinical records. Here
a hospital is a task and a patient is an episode. Hospitals differ in how the strongest dose of
vasopressors acts: by a total variation of at most 0.03. All other treatments act alike everywhere.
In the first comparison, each hospital also lacks two of the 25 treatments, which no agent can
choose there.

NearRMax uses these bounds. LRMax has no prior, so it acts as RMax does. The prior that follows from
the bounds, 0.06, would not help: LRMax would add up to 0.06 / (1-γ) = 60 to the values of earlier
hospitals, and no value exceeds 1. MaxQInit assumes that almost every hospital is equal to the first
one, which is wrong. "all equal" is NearRMax with another wrong assumption, that hospitals do not
differ at all.

In the first comparison, a treatment counts as known in a state after 10 patients, so that 25,000
patients are enough to try most treatments. The best of 25 such estimates is often best by chance:
all agents have far more deaths than the optimum, and come closer to it with more visits and more
patients. The second comparison has 25 visits and 100,000 patients, and asks whether NearRMax needs
only a fifth of them in a second hospital to be as good as RMax after all of them. It compares
learned policies by their exact survival, so that only learning is random. The answer holds for
hospitals that differ as little as here: trials with differences of 0.1 and 0.3 did not show it.
Values are computed to 0.001, one death in 1,000 patients.
"""

import sys
from dataclasses import replace

import numpy as np
import xarray as xr

import heirloom as hl
from heirloom.envs import icu_sepsis as icu
from heirloom.stats import student_interval

LONGEST_STAY = 200  # steps of four hours
N_PAIRS, N_VISITS, N_PATIENTS, N_POINTS = 8, 25, 100_000, 20  # of the second comparison

if icu.tables_path() is None:
    sys.exit("This example reads the tables of a package: pip install --no-deps icu-sepsis")

family = icu.Hospitals(difference=0.03, level=4, elsewhere=0.0, dropped=2)
nearness, equal = family.nearness, hl.Nearness(rewards=0.0, transitions=0.0)
options = {"n_known": 10, "refresh": None, "tol": 1e-3, **family.options}
results = hl.compare(
    {
        "RMax": lambda rng: hl.RMax(seed=rng, **options),
        "LRMax": lambda rng: hl.LRMax(seed=rng, **options),
        "MaxQInit": lambda rng: hl.MaxQInit(p_min=0.96, seed=rng, **options),
        "NearRMax": lambda rng: hl.NearRMax(nearness=nearness, seed=rng, **options),
        "all equal": lambda rng: hl.NearRMax(nearness=equal, seed=rng, **options),
    },
    family.draw,
    tasks=3,
    episodes=25_000,
    max_steps=LONGEST_STAY,
    repetitions=6,
)


def deaths(survival):
    """Return the mean number of deaths per 1,000 patients, with its 95 % interval, as text."""
    mean, half = student_interval(1000 * (1 - np.asarray(survival)))
    return f"{mean:.1f} ± {half:.1f}"


def more_deaths(survival, other):
    """Return by how much the deaths per 1,000 patients exceed those with another survival."""
    mean, half = student_interval(1000 * (np.asarray(other) - np.asarray(survival)))
    return f"{mean:+.1f} ± {half:.1f}"


def survival_while_learning(agent, m, seed):
    """Let an agent learn a hospital; return the exact survival under its policy at some points."""
    survival = []

    def measure(done, total):
        policy = agent.greedy / agent.greedy.sum(axis=1, keepdims=True)
        survival.append(hl.expected_return(m, policy, horizon=LONGEST_STAY, discounted=False))

    limits = {"episodes": N_PATIENTS, "max_steps": LONGEST_STAY, "seed": seed}
    hl.learn(agent, m, callback=measure, every=N_PATIENTS // N_POINTS, **limits)
    return survival


m = icu.icu_sepsis()
policies = {
    "random treatment": np.full(m.R.shape, 1 / m.n_actions),
    "clinicians": icu.expert_policy(),
    "optimum": hl.solve(m).policy,
}
print("Deaths per 1,000 patients in the published task, from its tables:")
for name, policy in policies.items():
    published = hl.expected_return(m, policy, horizon=LONGEST_STAY, discounted=False)
    print(f"  {name:<16}  {1000 * (1 - published):.0f}")

n_hospitals, means = results.sizes["task"], results.returns.mean("episode")
rmax = means.sel(agent="RMax").values
print(
    "\n1. Deaths per 1,000 patients in hospitals that agents learn one after the other; for agents"
)
print("other than RMax, the difference to RMax in the same hospital (negative: fewer deaths):")
print(" " * 10 + "".join(f"{f'hospital {i + 1}':>16}" for i in range(n_hospitals)))
print(f"{'optimum':<10}" + "".join(f"{deaths(best):>16}" for best in results.optimal.values.T))
print(f"{'RMax':<10}" + "".join(f"{deaths(survival):>16}" for survival in rmax.T))
for agent in results.agent.values[1:]:
    pairs = zip(means.sel(agent=agent).values.T, rmax.T, strict=True)
    first = hl.helps_from(results, agent)
    note = f"fewer from hospital {first} on" if first else "not shown to be fewer"
    print(f"{agent:<10}" + "".join(f"{more_deaths(*pair):>16}" for pair in pairs) + f"  {note}")
print("What a wrong assumption costs in the last hospital, in deaths per 1,000 patients more than")
print("with the true bounds (NearRMax):")
wrong = {"MaxQInit": "almost every hospital is the first", "all equal": "all hospitals are equal"}
true = means.sel(agent="NearRMax").values[:, -1]
for agent, assumption in wrong.items():
    print(f"{assumption} ({agent}): {more_deaths(means.sel(agent=agent).values[:, -1], true)}")

family = replace(family, dropped=0)
nearness, options = family.nearness, {**options, "n_known": N_VISITS}
survival, best = [], []
for i in range(N_PAIRS):
    first, second = family.hospital(2 * i), family.hospital(2 * i + 1)
    agents = hl.RMax(seed=i, **options), hl.NearRMax(nearness=nearness, seed=i, **options)
    hl.learn(agents[1], first, episodes=N_PATIENTS, max_steps=LONGEST_STAY, seed=2 * i)
    survival.append([survival_while_learning(agent, second, 2 * i + 1) for agent in agents])
    best.append(hl.optimal_return(second, horizon=LONGEST_STAY, discounted=False))
survival, best = np.array(survival), np.array(best)
rmax = survival[:, 0, -1]
near = {N_PATIENTS // 5: survival[:, 1, N_POINTS // 5 - 1], N_PATIENTS: survival[:, 1, -1]}
print(
    "\n2. Deaths per 1,000 patients under the policy that is learned in a second hospital, exactly;"
)
print(f"survival (the optimum of the published task is {published:.3f}); difference to RMax:")
print(f"{'optimum':<28}{deaths(best):>14}{best.mean():>8.3f}")
print(f"{f'RMax, {N_PATIENTS:,} patients':<28}{deaths(rmax):>14}{rmax.mean():>8.3f}")
for number, rate in near.items():
    row = f"{f'NearRMax, {number:,} patients':<28}{deaths(rate):>14}{rate.mean():>8.3f}"
    print(f"{row}{more_deaths(rate, rmax):>14}")

excess = 1000 * (best[:, None, None] - survival).transpose(1, 0, 2)
curves = xr.Dataset(
    {"returns": (("agent", "repetition", "task", "episode"), excess[:, :, None])},
    coords={
        "agent": ["RMax", "NearRMax"],
        "task": [2],
        "episode": np.linspace(0, N_PATIENTS / 1000, N_POINTS + 1)[1:],
    },
)
figure = hl.plot.draw_episodes(
    curves,
    title="ICU-Sepsis: a second hospital, compared with its best policy",
    xlabel="thousands of patients",
    ylabel="excess deaths per 1,000 patients",
)
hl.plot.save_figure(figure, "icu_sepsis.png")
