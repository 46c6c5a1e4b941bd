"""The settings of `rivals`: all algorithms that apply, each with four settings, in many families.

An *entrant* is an algorithm with what it is told, and up to four settings of its options. All are
run on a few lives that only serve to choose a setting, in a run of their own. The best setting then
enters the comparison, on other lives.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from heirloom.envs.family import TaskFamily
from heirloom.errors import InvalidArgument
from heirloom.experiments.registry import make_family
from heirloom.experiments.spec import ExperimentSpec
from heirloom.paper import corridor, maze, tight
from heirloom.paper.knowledge_settings import two_numbers, valid_prior
from heirloom.paper.settings import FROZEN, SEED
from heirloom.planning.solve import solve

REPETITIONS, TUNING_REPETITIONS = 10, 2
LIMIT = 8.0  # processor seconds of a job

Kind = Literal["no transfer", "naive transfer", "assumptions", "nearness", "false nearness"]
KINDS: tuple[Kind, ...] = (
    "no transfer",
    "naive transfer",
    "assumptions",
    "nearness",
    "false nearness",
)
"""What entrants use: nothing of earlier tasks; their data or values without any condition; an
assumption on how tasks are drawn or how values differ; a true nearness; and a false one."""

FamilyName = str
Settings = Sequence[Mapping[str, Any]]


class FamilySetting(NamedTuple):
    """A family, and how long its tasks are."""

    title: str
    family: Mapping[str, Any]
    sizes: Mapping[str, int]
    """Tasks, distinct tasks, episodes and steps."""
    unit: str = "reward"
    discounted: bool = False
    """Whether returns are discounted, as in the paper."""

    @property
    def task_family(self) -> TaskFamily:
        """The family itself."""
        options = {key: value for key, value in self.family.items() if key != "name"}
        return make_family(self.family["name"], options)

    @property
    def p_min(self) -> float | None:
        """The smallest probability of a task, if tasks come back."""
        distinct = self.sizes.get("distinct_tasks")
        return self.task_family.p_min if distinct is None else 1 / distinct


def _of_paper(title: str, spec: ExperimentSpec) -> FamilySetting:
    keys = ("tasks", "distinct_tasks", "episodes", "steps")
    sizes = {key: getattr(spec, key) for key in keys if getattr(spec, key) is not None}
    return FamilySetting(title, spec.family.model_dump(), sizes, discounted=True)


def _other(
    title: str,
    name: str,
    *,
    tasks: int,
    episodes: int,
    steps: int,
    unit: str = "reward",
    **options: Any,
) -> FamilySetting:
    sizes = {"tasks": tasks, "episodes": episodes, "steps": steps}
    return FamilySetting(title, {"name": name, **options}, sizes, unit)


FAMILIES: dict[FamilyName, Callable[[], FamilySetting]] = {
    "tight-released": lambda: _of_paper("tight (released)", tight.settings("released")),
    "tight-text": lambda: _of_paper("tight (text)", tight.settings("text")),
    "corridor": lambda: _of_paper("corridor", corridor.settings("released")),
    "maze": lambda: _of_paper("maze", maze.settings("text")),
    "frozen-lakes": lambda: _other("FrozenLake", "frozen-lakes", tasks=10, episodes=500, steps=100),
    "cliffs": lambda: _other("CliffWalking", "cliffs", tasks=10, episodes=200, steps=50),
    "taxis": lambda: _other("Taxi", "taxis", tasks=5, episodes=300, steps=100),
    "prices": lambda: _other(
        "inventory, prices", "prices", tasks=15, episodes=50, steps=50, unit="money"
    ),
    "seasons": lambda: _other(
        "inventory, customers", "seasons", tasks=15, episodes=50, steps=50, unit="money"
    ),
    "machines": lambda: _other(
        "machines", "machines", tasks=15, episodes=50, steps=50, unit="money"
    ),
    "queues": lambda: _other("queues", "queues", tasks=15, episodes=50, steps=50, unit="money"),
    "perishables": lambda: _other(
        "perishables", "perishables", tasks=10, episodes=50, steps=50, unit="money"
    ),
    "trap": lambda: _other("trap", "trap", tasks=10, episodes=200, steps=40),
    "shortcut": lambda: _other("shortcut", "shortcut", tasks=10, episodes=200, steps=40),
    "drift": lambda: _other(
        "drift of machines", "drift", tasks=15, episodes=50, steps=50, unit="money", of="machines"
    ),
}
"""Functions that return the settings of each family, by its name in folders and results."""


def setting_of(name: FamilyName) -> FamilySetting:
    """Return the settings of a family."""
    if name not in FAMILIES:
        raise InvalidArgument(f"family is {name!r}: expected one of {', '.join(FAMILIES)}")
    return FAMILIES[name]()


class Entrant(NamedTuple):
    """An algorithm, what it is told, and the settings to choose from."""

    kind: Kind
    algorithm: str
    settings: Settings = ({},)
    told: Callable[[FamilySetting], Mapping[str, Any]] = lambda setting: MappingProxyType({})
    """The options that do not depend on a setting; raises `InvalidArgument` where the algorithm
    does not apply."""
    like: str | None = None
    """The entrant whose setting is taken, instead of one that is chosen for this entrant."""


def _values(option: str, *values: float) -> Settings:
    return [{option: value} for value in values]


def _pairs(first: str, second: str, *values: tuple[Any, Any]) -> Settings:
    return [{first: x, second: y} for x, y in values]


def _p_min(setting: FamilySetting) -> Mapping[str, Any]:
    if setting.p_min is None:
        raise InvalidArgument(f"tasks of {setting.title} do not come back")
    return {}  # a spec knows it


def _d_max(setting: FamilySetting) -> Mapping[str, Any]:
    return {"d_max": valid_prior(setting.task_family)}


def _arrays(setting: FamilySetting) -> Mapping[str, Any]:
    return {"nearness": "family"}


def _numbers(setting: FamilySetting) -> Mapping[str, Any]:
    return {"nearness": two_numbers(setting.task_family)}


def _beta(setting: FamilySetting) -> Mapping[str, Any]:
    """Return how much optimal values differ, between the corners of a family or all its tasks."""
    family = setting.task_family
    tasks = family.all_tasks or family.corners
    if not tasks:
        raise InvalidArgument(f"the corners of {setting.title} are not known")
    values = np.stack([solve(m).Q for m in tasks])
    return {"beta": float(np.max(np.ptp(values, axis=0), where=np.isfinite(values[0]), initial=0))}


BASELINE, RMAX = "RMax(10), frozen", "RMax"
NEAR, NEAR_PSRL = "NearRMax (arrays)", "NearPSRL (arrays)"
POOLED = ("RMax (pooled)", "UCBVI (pooled)", "PSRL (pooled)")
N_KNOWN = _values("n_known", 1, 2, 5, 10)
SCALES = _values("scale", 0.001, 0.005, 0.02, 0.1)
VISITS = {"sample": "visits"}  # models are drawn less often, which saves time
FACTORS = {"half": 0.5, "a fifth": 0.2, "0": 0.0}
"""A nearness is false if it is multiplied by one of these, by their names."""


def _false(factor: float, reaction: str) -> Entrant:
    told = {"nearness": "family", "nearness_scale": factor, "on_refutation": reaction}
    return Entrant("false nearness", "NearRMax", N_KNOWN, lambda setting: told, like=NEAR)


ENTRANTS: dict[str, Entrant] = {
    BASELINE: Entrant("no transfer", "RMax", ({"n_known": 10, **FROZEN},)),
    RMAX: Entrant("no transfer", "RMax", N_KNOWN),
    "VMax": Entrant("no transfer", "VMax", _values("m", 2, 5, 10, 20)),
    "UCBVI": Entrant("no transfer", "UCBVI", SCALES),
    "MBIE": Entrant("no transfer", "MBIE", _values("scale", 0.001, 0.005, 0.02, 0.1)),
    "PSRL": Entrant(
        "no transfer", "PSRL", _values("prior", 0.03, 0.1, 0.3, 1.0), lambda setting: VISITS
    ),
    "QLearning": Entrant(
        "no transfer",
        "QLearning",
        [
            {"learning_rate": 0.1, "exploration": 0.1},
            {"learning_rate": 0.3, "exploration": 0.03},
            {"learning_rate": 0.3, "exploration": 0.0, "start": "v_max"},
            {"learning_rate": 0.8, "exploration": 0.0, "start": "v_max"},
        ],
    ),
    "QUCB": Entrant("no transfer", "QUCB", _values("bonus", 0.01, 0.03, 0.1, 0.4)),
    "DelayedQ": Entrant("no transfer", "DelayedQ", _values("m", 1, 2, 5, 20)),
    "RMax (pooled)": Entrant(
        "naive transfer",
        "RMax",
        _pairs("n_known", "pool", (1, 1.0), (2, 2.0), (2, 10.0), (10, 10.0)),
    ),
    "UCBVI (pooled)": Entrant(
        "naive transfer",
        "UCBVI",
        _pairs("scale", "pool", (0.005, 2.0), (0.005, 10.0), (0.02, 2.0), (0.02, 10.0)),
    ),
    "PSRL (pooled)": Entrant(
        "naive transfer", "PSRL", _values("pool", 2.0, 5.0, 10.0, 30.0), lambda setting: VISITS
    ),
    "QLearning (earlier Q)": Entrant(
        "naive transfer",
        "QLearning",
        [
            {"learning_rate": 0.1, "exploration": 0.03, "start": "last"},
            {"learning_rate": 0.3, "exploration": 0.1, "start": "last"},
            {"learning_rate": 0.1, "exploration": 0.03, "start": "mean"},
            {"learning_rate": 0.3, "exploration": 0.0, "start": "max"},
        ],
    ),
    "PolicyReuse": Entrant(
        "naive transfer",
        "PolicyReuse",
        _pairs("heat", "decay", (0.05, 0.95), (0.05, 1.0), (1.0, 0.95), (1.0, 1.0)),
    ),
    "ShapedLifelong": Entrant(
        "naive transfer", "ShapedLifelong", _values("shaping", 0.001, 0.01, 0.1, 1.0)
    ),
    "BisimulationTransfer": Entrant(
        "naive transfer", "BisimulationTransfer", _values("learning_rate", 0.03, 0.1, 0.3, 1.0)
    ),
    "TempLe": Entrant(
        "assumptions",
        "TempLe",
        [
            {"distance": 0.2, "n_matched": 2, "m": 5},
            {"distance": 0.2, "n_matched": 5, "m": 10},
            {"distance": 0.4, "n_matched": 5, "m": 10},
            {"distance": 0.2, "n_matched": 20, "m": 40},
        ],
    ),
    "FMRL": Entrant(
        "assumptions", "FMRL", _pairs("gap", "n_known", (0.3, 2), (0.3, 5), (0.6, 2), (0.6, 5))
    ),
    "EnvelopeRMax": Entrant("assumptions", "EnvelopeRMax", N_KNOWN, lambda setting: {"alpha": 0.2}),
    "MaxQInit": Entrant("assumptions", "MaxQInit", N_KNOWN, _p_min),
    "NearRMax (learned)": Entrant(
        "assumptions",
        "NearRMax",
        N_KNOWN,
        lambda setting: {**_p_min(setting), "nearness": "learned"},
    ),
    "LRMax (valid prior)": Entrant("assumptions", "LRMax", N_KNOWN, _d_max),
    "LRMaxQInit (valid prior)": Entrant(
        "assumptions", "LRMaxQInit", N_KNOWN, lambda setting: {**_p_min(setting), **_d_max(setting)}
    ),
    "MFRL (true β)": Entrant("assumptions", "MFRL", N_KNOWN, _beta),
    "BUMEX (arrays)": Entrant(
        "nearness", "BUMEX", _values("exploration", 0.0, 0.03, 0.1, 0.3), _arrays
    ),
    "UCBVI (arrays)": Entrant("nearness", "UCBVI", SCALES, _arrays),
    "NearRMax (two numbers)": Entrant("nearness", "NearRMax", N_KNOWN, _numbers),
    NEAR: Entrant("nearness", "NearRMax", N_KNOWN, _arrays),
    "NearRMaxQInit (arrays)": Entrant(
        "nearness",
        "NearRMaxQInit",
        N_KNOWN,
        lambda setting: {**_p_min(setting), **_arrays(setting)},
    ),
    NEAR_PSRL: Entrant("nearness", "NearPSRL", ({},), _arrays),
    "CertifiedRMax (arrays)": Entrant(
        "nearness",
        "CertifiedRMax",
        ({},),
        lambda setting: {**_arrays(setting), "successors": "family", "rewards": "per transition"},
    ),
    **{
        f"NearRMax ({name} of the arrays{', widening' if reaction == 'widen' else ''})": _false(
            factor, reaction
        )
        for name, factor in FACTORS.items()
        for reaction in ("ignore", "widen")
    },
}
"""The entrants by their names in tables and figures."""


def tuning_spec(family: FamilyName) -> ExperimentSpec:
    """Return the spec of the run in which settings are chosen: all settings of all entrants."""
    setting = setting_of(family)
    agents = []
    for name, entrant in ENTRANTS.items():
        if entrant.like is not None:
            continue
        try:
            told = entrant.told(setting)
        except InvalidArgument:
            continue
        agents += [
            {"name": tuned_name(name, i), "algorithm": entrant.algorithm, **told, **chosen}
            for i, chosen in enumerate(entrant.settings)
        ]
    return _spec(setting, "tuning", agents, TUNING_REPETITIONS, SEED + 1)


def final_spec(family: FamilyName, chosen: Mapping[str, int]) -> ExperimentSpec:
    """Return the spec of the comparison, with the chosen setting of each entrant that enters."""
    setting = setting_of(family)
    agents = [
        {
            "name": name,
            "algorithm": ENTRANTS[name].algorithm,
            **ENTRANTS[name].told(setting),
            **ENTRANTS[name].settings[i],
        }
        for name, i in chosen.items()
    ]
    return _spec(setting, "rivals", agents, REPETITIONS, SEED)


def tuned_name(entrant: str, i: int) -> str:
    """Return the name of the i-th setting of an entrant in the tuning run."""
    return f"{entrant} [{i + 1}]"


def _spec(
    setting: FamilySetting, what: str, agents: list[dict[str, Any]], repetitions: int, seed: int
) -> ExperimentSpec:
    return ExperimentSpec.read(
        {
            "name": f"{what}, {setting.title}",
            "family": dict(setting.family),
            "agents": agents,
            **setting.sizes,
            "repetitions": repetitions,
            "seed": seed,
            "limit": LIMIT,
        }
    )
