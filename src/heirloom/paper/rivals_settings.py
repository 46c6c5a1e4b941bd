"""The settings of `rivals`: all algorithms that apply, each with four settings, in many families.

An *entrant* is an algorithm with what it is told, and up to four settings of its options. All are
run on a few lives that only serve to choose a setting, in a run of their own. The best setting then
enters the comparison, on other lives.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from heirloom.errors import InvalidArgument
from heirloom.experiments.spec import ExperimentSpec
from heirloom.paper import families
from heirloom.paper.catalogue import SEED
from heirloom.paper.experiment import FROZEN
from heirloom.paper.families import FamilySetting
from heirloom.planning.solve import solve

REPETITIONS, TUNING_REPETITIONS = 10, 2
LIMIT = 8.0  # processor seconds of a job
SIZES = {
    "frozen-lakes": (10, 500, 100),
    "cliffs": (10, 200, 50),
    "taxis": (5, 300, 100),
    "prices": (15, 50, 50),
    "seasons": (15, 50, 50),
    "machines": (15, 50, 50),
    "queues": (15, 50, 50),
    "perishables": (10, 50, 50),
    "trap": (10, 200, 40),
    "shortcut": (10, 200, 40),
    "drift": (15, 50, 50),
}
"""Tasks, episodes and steps of the families that are not the paper's."""
FAMILIES = (*families.PAPER, *SIZES)

Kind = Literal["no transfer", "naive transfer", "assumptions", "nearness", "false nearness"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""What entrants use: nothing of earlier tasks; their data or values without any condition; an
assumption on how tasks are drawn or how values differ; a true nearness; and a false one."""

Settings = Sequence[Mapping[str, Any]]
Told = Callable[[FamilySetting], Mapping[str, Any]]


def setting_of(family: str) -> FamilySetting:
    """Return the settings of a family of the comparison."""
    return families.setting_of(family, SIZES)


class Entrant(NamedTuple):
    """An algorithm, what it is told, and the settings to choose from."""

    kind: Kind
    algorithm: str
    settings: Settings
    told: Told = lambda setting: {}
    """The options that do not depend on a setting; raises `InvalidArgument` where the algorithm
    does not apply."""
    like: str | None = None
    """The entrant whose setting is taken, instead of one that is chosen for this entrant."""


def _tried(options: str, *values: Any) -> Settings:
    """Return settings: for each, the value of one option, or a tuple for several, by name."""
    names = options.split()
    tuples = [value if isinstance(value, tuple) else (value,) for value in values]
    return [dict(zip(names, each, strict=True)) for each in tuples]


def _always(**told: Any) -> Told:
    return lambda setting: told


def _both(one: Told, other: Told) -> Told:
    return lambda setting: {**one(setting), **other(setting)}


def _p_min(setting: FamilySetting) -> Mapping[str, Any]:
    if setting.p_min is None:
        raise InvalidArgument(f"tasks of {setting.title} do not come back")
    return {}  # a spec knows it


def _d_max(setting: FamilySetting) -> Mapping[str, Any]:
    return {"d_max": families.valid_prior(setting.task_family)}


def _numbers(setting: FamilySetting) -> Mapping[str, Any]:
    return {"nearness": families.two_numbers(setting.task_family)}


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
N_KNOWN = _tried("n_known", 1, 2, 5, 10)
SCALES = _tried("scale", 0.001, 0.005, 0.02, 0.1)
ARRAYS = _always(nearness="family")
VISITS = _always(sample="visits")  # models are drawn less often, which saves time
EXACT = _always(successors="family", rewards="per transition")
FACTORS = {"half": 0.5, "a fifth": 0.2, "0": 0.0}
"""A nearness is false if it is multiplied by one of these, by their names."""
Q = "learning_rate exploration start"
FALSE = {
    f"NearRMax ({name} of the arrays{', widening' if reaction == 'widen' else ''})": (
        "NearRMax",
        N_KNOWN,
        _always(nearness="family", nearness_scale=factor, on_refutation=reaction),
        NEAR,
    )
    for name, factor in FACTORS.items()
    for reaction in ("ignore", "widen")
}
BY_KIND: dict[Kind, dict[str, tuple[Any, ...]]] = {
    "no transfer": {
        BASELINE: ("RMax", [{"n_known": 10, **FROZEN}]),
        RMAX: ("RMax", N_KNOWN),
        "VMax": ("VMax", _tried("m", 2, 5, 10, 20)),
        "UCBVI": ("UCBVI", SCALES),
        "MBIE": ("MBIE", SCALES),
        "PSRL": ("PSRL", _tried("prior", 0.03, 0.1, 0.3, 1.0), VISITS),
        "QLearning": (
            "QLearning",
            [
                *_tried("learning_rate exploration", (0.1, 0.1), (0.3, 0.03)),
                *_tried(Q, (0.3, 0.0, "v_max"), (0.8, 0.0, "v_max")),
            ],
        ),
        "QUCB": ("QUCB", _tried("bonus", 0.01, 0.03, 0.1, 0.4)),
        "DelayedQ": ("DelayedQ", _tried("m", 1, 2, 5, 20)),
    },
    "naive transfer": {
        "RMax (pooled)": (
            "RMax",
            _tried("n_known pool", (1, 1.0), (2, 2.0), (2, 10.0), (10, 10.0)),
        ),
        "UCBVI (pooled)": (
            "UCBVI",
            _tried("scale pool", (0.005, 2.0), (0.005, 10.0), (0.02, 2.0), (0.02, 10.0)),
        ),
        "PSRL (pooled)": ("PSRL", _tried("pool", 2.0, 5.0, 10.0, 30.0), VISITS),
        "QLearning (earlier Q)": (
            "QLearning",
            _tried(
                Q, (0.1, 0.03, "last"), (0.3, 0.1, "last"), (0.1, 0.03, "mean"), (0.3, 0.0, "max")
            ),
        ),
        "PolicyReuse": (
            "PolicyReuse",
            _tried("heat decay", (0.05, 0.95), (0.05, 1.0), (1.0, 0.95), (1.0, 1.0)),
        ),
        "ShapedLifelong": ("ShapedLifelong", _tried("shaping", 0.001, 0.01, 0.1, 1.0)),
        "BisimulationTransfer": (
            "BisimulationTransfer",
            _tried("learning_rate", 0.03, 0.1, 0.3, 1.0),
        ),
    },
    "assumptions": {
        "TempLe": (
            "TempLe",
            _tried("distance n_matched m", (0.2, 2, 5), (0.2, 5, 10), (0.4, 5, 10), (0.2, 20, 40)),
        ),
        "FMRL": ("FMRL", _tried("gap n_known", (0.3, 2), (0.3, 5), (0.6, 2), (0.6, 5))),
        "EnvelopeRMax": ("EnvelopeRMax", N_KNOWN, _always(alpha=0.2)),
        "MaxQInit": ("MaxQInit", N_KNOWN, _p_min),
        "NearRMax (learned)": ("NearRMax", N_KNOWN, _both(_p_min, _always(nearness="learned"))),
        "LRMax (valid prior)": ("LRMax", N_KNOWN, _d_max),
        "LRMaxQInit (valid prior)": ("LRMaxQInit", N_KNOWN, _both(_p_min, _d_max)),
        "MFRL (true β)": ("MFRL", N_KNOWN, _beta),
    },
    "nearness": {
        "BUMEX (arrays)": ("BUMEX", _tried("exploration", 0.0, 0.03, 0.1, 0.3), ARRAYS),
        "UCBVI (arrays)": ("UCBVI", SCALES, ARRAYS),
        "NearRMax (two numbers)": ("NearRMax", N_KNOWN, _numbers),
        NEAR: ("NearRMax", N_KNOWN, ARRAYS),
        "NearRMaxQInit (arrays)": ("NearRMaxQInit", N_KNOWN, _both(_p_min, ARRAYS)),
        NEAR_PSRL: ("NearPSRL", [{}], ARRAYS),
        "CertifiedRMax (arrays)": ("CertifiedRMax", [{}], _both(ARRAYS, EXACT)),
    },
    "false nearness": FALSE,
}
"""For each entrant, its algorithm, settings, and perhaps what it is told and whom it is like."""


ENTRANTS = {
    name: Entrant(kind, *entry)
    for kind, entries in BY_KIND.items()
    for name, entry in entries.items()
}
"""The entrants by their names in tables and figures."""


def tuning_spec(family: str) -> ExperimentSpec:
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


def final_spec(family: str, chosen: Mapping[str, int]) -> ExperimentSpec:
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
