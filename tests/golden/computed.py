"""The arrays of the golden run, computed by the current code."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import heirloom as hl
from heirloom.envs.inventory import prices
from heirloom.envs.paper_families import Corridor, Garnet
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.run import run

Arrays = dict[str, np.ndarray]

SPECS = Path(__file__).parent / "specs"
VALUES = "values"
NAMES = (*sorted(path.stem for path in SPECS.glob("*.toml")), VALUES)


def compute(name: str) -> Arrays:
    """Compute the arrays of one experiment of the golden run."""
    return values() if name == VALUES else results_of(name)


def results_of(name: str) -> Arrays:
    """Run an experiment, and return all variables of its results."""
    spec = ExperimentSpec.load(SPECS / f"{name}.toml")
    with TemporaryDirectory() as folder:
        results = run(spec, Path(folder) / "run", jobs=1).load()
    measured = sorted(results.data_vars)
    return {variable: results[variable].values for variable in measured}


def values() -> Arrays:
    """Compute solutions, metrics and bounds, none of which depends on the actions of an agent."""
    rng = np.random.default_rng(9)
    garnet = Garnet(n_states=8, n_actions=2, branching=3, gamma=0.95, terminating=0.1)
    families = {"garnet": garnet, "corridor": Corridor(variant="text"), "prices": prices()}
    arrays: Arrays = {}
    for name, family in families.items():
        m, m_bar, last = (family.draw(rng) for _ in range(3))
        arrays |= {
            f"{name}: Q*": hl.solve(m).Q,
            f"{name}: d(M || M_bar)": hl.dissimilarity(m, m_bar),
            f"{name}: local pseudometric": hl.local_pseudometric(m, m_bar),
            f"{name}: Lipschitz bound": hl.lipschitz_bound(m, m_bar),
        }
        d_max = hl.metrics.family_distance([m, m_bar, last])
        for agent_name, make in agents(d_max).items():
            arrays |= {
                f"{name}: {agent_name}: {symbol}": array
                for symbol, array in learned_values(make, [m, m_bar, last], rng).items()
            }
    return arrays


def agents(d_max: np.ndarray) -> dict[str, Callable[..., hl.OptimisticAgent]]:
    """Return constructors of agents by name; they take the options common to all tasks."""
    return {
        "RMax": hl.RMax,
        "LRMax": lambda **options: hl.LRMax(d_max=d_max, **options),
        "LRMax, a guess": lambda **options: hl.LRMax(d_max=float(d_max.mean()) / 4, **options),
        "LRMaxQInit": lambda **options: hl.LRMaxQInit(p_min=0.5, delta=0.5, **options),
    }


def learned_values(
    make: Callable[..., hl.OptimisticAgent], tasks: list[hl.TabularMDP], rng: np.random.Generator
) -> Arrays:
    """Return U and Q at the end of each task, after random steps not chosen by the agent."""
    m = tasks[0]
    agent = make(
        n_states=m.n_states,
        n_actions=m.n_actions,
        gamma=m.gamma,
        reward_range=m.reward_range,
        n_known=2,
        refresh=None,
        epsilon=1e-3,
        seed=0,
    )
    U, Q = [], []
    for m in tasks:
        agent.begin_task()
        env = m.to_gymnasium()
        s, _ = env.reset(seed=int(rng.integers(2**31)))
        for _ in range(4 * m.n_states):
            a = int(rng.integers(m.n_actions))
            s_next, r, terminated, *_ = env.step(a)
            agent.observe(int(s), a, float(r), int(s_next), terminated=terminated)
            s = env.reset()[0] if terminated else s_next
        U.append(agent.U.copy())
        Q.append(agent.Q.copy())
        agent.end_task()
    return {"U": np.array(U), "Q": np.array(Q)}
