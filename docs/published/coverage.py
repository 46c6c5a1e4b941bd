"""How often bounds that are learned from earlier tasks are valid, over many sequences of tasks.

Each sequence has first tasks, which fill the memory of an agent, and then `LATER` tasks, which the
agent learns. The bound of a task is violated if `U` is below Q* at a pair at the end of the task;
`U` never increases within a task. Tasks are deterministic, and one visit makes a pair known
exactly. The first tasks are known completely, which makes learned bounds the tightest.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import heirloom as hl
from heirloom.transfer.nearness.exact import _source
from heirloom.transfer.nearness.learned import REWARDS, TRANSITIONS, model_differences
from heirloom.transfer.nearness.rows import rows_of_sources
from heirloom.transfer.source import Source

SEED = 18
SEQUENCES, SEQUENCES_WITHOUT_PROMISE = 500, 200
FIRST_SEQUENCES = 20
"""Sequences whose violations are stored one by one, for the test of the stored result."""
LATER = 5
DELTA = 0.05
N_ARMS, N_TASKS, N_FAMILIES = 6, 4, 40
FIRST = 5  # tasks before the calibration of an envelope
ROUNDING = 1e-9


class Task(NamedTuple):
    """A task, its optimal values, and what an agent stores of it if it knows all pairs."""

    m: hl.TabularMDP
    Q: np.ndarray
    source: Source

    @classmethod
    def of(cls, R: np.ndarray, T: np.ndarray, gamma: float) -> "Task":
        """Make a task from arrays."""
        m = hl.TabularMDP(R, T, gamma=gamma)
        Q = hl.solve(m, tol=1e-12).Q if gamma else m.R.copy()
        rows = _source(m).rows
        return cls(m, Q, Source(rows, Q.ravel().copy(), Q.max(axis=1), n_known=1))


def arms(n: int, special: float) -> list[Task]:
    """One state and n arms; task i pays `special` for arm i and 1 - special for the others."""
    R = np.where(np.eye(n, dtype=bool), special, 1 - special)
    return [Task.of(R[i : i + 1], np.ones((1, n, 1)), 0.0) for i in range(n)]


def random_family(seed: int) -> list[Task]:
    """Draw tasks of 3 states and 2 actions; each pays 0.4 more at a pair of its own."""
    rng = np.random.default_rng([SEED, seed])
    T = np.zeros((3, 2, 3))
    np.put_along_axis(T, rng.integers(3, size=(3, 2, 1)), 1.0, axis=2)
    base, pairs = rng.uniform(0.0, 0.6, 6), rng.permutation(6)
    extra = 0.4 * np.eye(6)[pairs[:N_TASKS]]
    return [Task.of((base + extra[i]).reshape(3, 2), T, 0.5) for i in range(N_TASKS)]


def draw_continuous(rng: np.random.Generator) -> Task:
    """Draw a task of a family with infinitely many: one state, rewards drawn for each arm."""
    return Task.of(rng.beta(2, 5, (1, 4)), np.ones((1, 4, 1)), 0.0)


def is_violated(agent: hl.OptimisticAgent, task: Task, rng: np.random.Generator) -> bool:
    """Learn and store a task; return whether its bound was ever below Q*."""
    seed = int(rng.integers(2**31))
    hl.learn(agent, task.m, episodes=1, max_steps=task.m.R.size, seed=seed)
    return bool((agent.U < task.Q - ROUNDING).any())


Run = Callable[[np.random.Generator], list[bool]]


class Case(NamedTuple):
    """A bound and a family: what is promised, and a function that runs one sequence."""

    bound: str
    family: str
    promise: str
    """For "each task", "all tasks" of a sequence together, or "nothing"."""
    probability: float | None
    run: Run


def agent_for(bound: hl.Bound, m: hl.TabularMDP, rng: np.random.Generator) -> hl.OptimisticAgent:
    """Make an agent with one bound for tasks like `m`."""
    sizes = {"n_states": m.n_states, "n_actions": m.n_actions, "gamma": m.gamma}
    known = {"n_known": 1, "refresh": None, "terminating": False}
    return hl.OptimisticAgent(bounds=[bound], **sizes, **known, seed=rng)


def of_finite_family(
    make: Callable[[int], hl.Bound], families: list[list[Task]], *, all_later: bool = False
) -> Run:
    """Return a function that runs one sequence of tasks drawn from one of the families.

    Args:
        make: makes the bound, for a number of equally likely tasks.
        families: the families, one of which is drawn for each sequence.
        all_later: whether every task of the family has become a source after the first ones.
    """
    compared = [_compared(family) for family in families]

    def run(rng: np.random.Generator) -> list[bool]:
        i = int(rng.integers(len(families)))
        family, n = families[i], len(families[i])
        bound = make(n)
        agent = agent_for(bound, family[0].m, rng)
        first = rng.integers(n, size=bound.n_tasks)
        for task in first:
            agent.memory.add(family[task].source)
        seen = np.unique(first)
        for name, differences in compared[i].items():
            largest = differences[np.ix_(seen, seen)].max(axis=(0, 1))
            agent.memory.learned[name] = largest, first.size
        if all_later:
            for task in family:
                agent.memory.add(task.source)
        return [is_violated(agent, family[task], rng) for task in rng.integers(n, size=LATER)]

    return run


def _compared(family: list[Task]) -> dict[str, np.ndarray]:
    """Return what agents learn from two tasks, [task, task, pair], by its name in a memory."""
    bound = hl.Lipschitz(p_min=0.5)
    agent = agent_for(bound, family[0].m, np.random.default_rng(0))
    agent.begin_task()

    def of_all(compare: Callable[[Source, Source], Any]) -> np.ndarray:
        return np.array([[compare(a.source, b.source) for b in family] for a in family])

    def differs(a: Source, b: Source) -> Any:
        setting = agent.setting
        lo, hi = setting.reward_range
        gone = a.missing | b.missing
        return model_differences(a.rows, b.rows, gone, hi - lo, setting.n_states)

    differences = of_all(differs)
    return {
        "WeightedL1": of_all(lambda a, b: bound._largest_distance(a, [b])),
        REWARDS: differences[:, :, 0],
        TRANSITIONS: differences[:, :, 1],
    }


class _FrozenDistance(hl.Lipschitz):
    """The learned prior of the paper: its number of tasks, and every task becomes a source."""

    def __init__(self, n: int) -> None:
        super().__init__(p_min=1 / n, delta=DELTA, scope="lifetime")
        self.n_tasks = hl.theory.tasks_for_distance(1 / n, DELTA)


class _FrozenNearness(hl.NearModels):
    """A nearness learned from the first tasks, and used for all tasks that became sources."""

    def __init__(self, n: int) -> None:
        super().__init__(p_min=1 / n, delta=DELTA)

    def begin_task(self, setting: Any, model: Any, memory: Any) -> bool:
        is_refined = super().begin_task(setting, model, memory)
        near = self.nearness
        self.nearness = hl.Nearness(rewards=near.rewards, transitions=near.transitions)
        self._sources = rows_of_sources(list(memory.sources), setting)
        return is_refined


class _Largest(hl.MaxQ):
    """The largest Q of as many tasks as an envelope is calibrated on, without any score."""

    def __init__(self) -> None:
        super().__init__(p_min=1e-6)
        self.n_tasks = FIRST + 19


def of_continuous_family(make: Callable[[], hl.Bound]) -> Run:
    """Return a function that runs one sequence of tasks of an infinite family."""

    def run(rng: np.random.Generator) -> list[bool]:
        first = [draw_continuous(rng) for _ in range(FIRST)]
        agent = agent_for(make(), first[0].m, rng)
        for task in first:
            agent.memory.add(task.source)
        for _ in range(19):
            is_violated(agent, draw_continuous(rng), rng)
        return [is_violated(agent, draw_continuous(rng), rng) for _ in range(LATER)]

    return run


def cases() -> Iterator[Case]:
    """Iterate over all cases: those with a guarantee, then variants without one."""
    families = {
        f"{N_ARMS} arms, task i pays 1 for arm i": [arms(N_ARMS, 1.0)],
        f"{N_FAMILIES} random families": [random_family(i) for i in range(N_FAMILIES)],
    }
    kinds = {"learned prior": hl.Lipschitz, "learned nearness": hl.NearModels, "MaxQ": hl.MaxQ}
    promises = {"task": "each task", "lifetime": "all tasks"}
    for bound, kind in kinds.items():
        for name, family in families.items():
            for scope, promise in promises.items():

                def make(n: int, kind: Any = kind, scope: str = scope) -> hl.Bound:
                    return kind(p_min=1 / n, delta=DELTA, scope=scope)

                yield Case(bound, name, promise, 1 - DELTA, of_finite_family(make, family))
    rewards = "4 arms, continuous rewards"
    envelope = of_continuous_family(lambda: hl.Envelope(alpha=DELTA, first=FIRST))
    yield Case("Envelope", rewards, "each task", 1 - DELTA, envelope)
    frozen = {
        "d_max by Proposition 7, later tasks are sources": _FrozenDistance,
        "learned nearness, later tasks are sources": _FrozenNearness,
    }
    for bound, kind in frozen.items():
        for n in (10, 20):
            run = of_finite_family(kind, [arms(n, 0.0)], all_later=True)
            yield Case(bound, f"{n} arms, task i pays 0 for arm i", "nothing", None, run)
    largest = of_continuous_family(_Largest)
    yield Case("largest Q of 24 tasks, not calibrated", rewards, "nothing", None, largest)


def violations(case: Case, number: int, sequences: int, *, seed: int = SEED) -> np.ndarray:
    """Return which bounds were violated, [sequence, later task]; `number` is that of the case."""
    runs = (case.run(np.random.default_rng([seed, number, i])) for i in range(sequences))
    return np.array(list(runs))


def measure() -> list[dict[str, Any]]:
    """Return the share of valid bounds, per task and per sequence, of every case."""
    return [measure_case(case, number) for number, case in enumerate(cases())]


def measure_case(case: Case, number: int) -> dict[str, Any]:
    """Return the share of valid bounds of one case, and what is promised."""
    sequences = SEQUENCES_WITHOUT_PROMISE if case.probability is None else SEQUENCES
    violated = violations(case, number, sequences)
    return {
        "bound": case.bound,
        "family": case.family,
        "promise": case.promise,
        "probability": case.probability,
        "sequences": sequences,
        "each_task": float(1 - violated.mean()),
        "all_tasks": float(1 - violated.any(axis=1).mean()),
        "first_sequences": violated[:FIRST_SEQUENCES].sum(axis=1).tolist(),
    }
