"""The settings of `knowledge`: its task families, and its agents, who know more or less of them.

The paper's families have the sizes of the paper's experiments, the others those of `examples/`.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from heirloom.envs.family import TaskFamily
from heirloom.errors import InvalidArgument
from heirloom.experiments.registry import make_family
from heirloom.experiments.spec import ExperimentSpec
from heirloom.metrics.pseudometrics import family_distance
from heirloom.paper import corridor, maze, tight
from heirloom.paper.settings import FROZEN, SEED

REPETITIONS = 10
EXACT_MODELS = {"epsilon": 0.0}  # of deterministic tasks, where one visit is enough

RMAX, VALID = "RMax", "LRMax (valid prior)"
"""RMAX is that of the paper, which estimates a known pair once; so do all agents but NearRMax."""
BEST = "RMax (best n_known)"
"""The best of RMAX and TUNED in a family, chosen by the returns that are shown."""
TUNED = {f"RMax (n_known={n}, keeps learning)": n for n in (1, 2, 5, 10, 20)}
KEEPS_LEARNING = {"refresh": 1.5}
NUMBERS, SUCCESSORS, ARRAYS = (
    f"NearRMax ({known})" for known in ("two numbers", "numbers, successors", "arrays")
)
TRUE = (NUMBERS, SUCCESSORS, ARRAYS)

HALF, TENTH = (f"NearRMax ({factor} of the arrays)" for factor in ("half", "a tenth"))
EQUAL = "NearRMax (all tasks equal)"
SCALES = {HALF: 0.5, TENTH: 0.1, EQUAL: 0.0}
FALSE = tuple(SCALES)

TENTH_WIDENING, EQUAL_WIDENING = (
    f"NearRMax ({claim}, widening)" for claim in ("a tenth", "all tasks equal")
)
UNCHECKED = {TENTH_WIDENING: TENTH, EQUAL_WIDENING: EQUAL}
"""The agent with the same false knowledge and without checks, by the agent that widens it."""
CHECKED = tuple(UNCHECKED)

LEARNED, MAX_Q, ENVELOPE = "NearRMax (learned)", "MaxQInit", "EnvelopeRMax"
LEARNING = (LEARNED, MAX_Q, ENVELOPE)
ALPHA = 0.2  # of the envelope; 0.05 needs more tasks than most families of the study have

NAMED = (RMAX, *TUNED, BEST, VALID, *TRUE, *FALSE, *CHECKED, *LEARNING)
"""All agents but that with a guessed prior, whose name contains the guess."""


class FamilySetting(NamedTuple):
    """The settings of a family: all that a spec has except for its agents and repetitions."""

    title: str
    """The family in tables and figures."""
    family: dict[str, Any]
    sizes: dict[str, Any]
    """Tasks, distinct tasks, episodes and steps."""
    options: dict[str, Any]
    """The options of all agents."""
    discounted: bool = False
    """Whether returns are discounted, as in the paper."""
    guess: float | None = None
    """A prior d_max that the paper uses although it is not valid."""
    lrmax_options: Mapping[str, Any] = MappingProxyType({})
    """Further options of LRMax only."""
    deterministic: bool = False
    """Whether all tasks are deterministic, so that one visit gives an exact model of a pair."""

    @property
    def task_family(self) -> TaskFamily:
        """The family itself."""
        options = {key: value for key, value in self.family.items() if key != "name"}
        return make_family(self.family["name"], options)


def _of_paper(
    title: str, spec: ExperimentSpec, guess: float | None = None, **options: float
) -> FamilySetting:
    """Return the settings of an experiment of the paper; agents keep all sources."""
    keys = ("tasks", "distinct_tasks", "episodes", "steps")
    (given,) = (agent.options for agent in spec.agents if agent.name == "MaxQInit")
    kept = {key: value for key, value in given.items() if key not in ("capacity", "keep")}
    return FamilySetting(
        title,
        spec.family.model_dump(),
        {key: getattr(spec, key) for key in keys if getattr(spec, key) is not None},
        {**kept, **options},
        discounted=True,
        guess=guess,
    )


def _of_example(
    title: str, family: str, *, tasks: int, episodes: int, steps: int, n_known: int
) -> FamilySetting:
    """Return the settings of a file in `examples/`."""
    sizes = {"tasks": tasks, "episodes": episodes, "steps": steps}
    return FamilySetting(title, {"name": family}, sizes, {"n_known": n_known, **FROZEN})


FAMILIES: dict[str, Callable[[], FamilySetting]] = {
    "tight-released": lambda: _of_paper("tight (released)", tight.settings("released"), 0.1),
    "tight-text": lambda: _of_paper("tight (text)", tight.settings("text"), 0.1),
    "corridor": lambda: _of_paper(
        "corridor", corridor.settings("released"), **EXACT_MODELS
    )._replace(deterministic=True),
    "maze": lambda: _of_paper("maze", maze.settings("text"), **EXACT_MODELS)._replace(
        deterministic=True
    ),
    "frozen-lakes": lambda: _of_example(
        "FrozenLake", "frozen-lakes", tasks=15, episodes=2000, steps=100, n_known=10
    ),
    "cliffs": lambda: _of_example(
        "CliffWalking", "cliffs", tasks=14, episodes=200, steps=50, n_known=5
    ),
    "taxis": lambda: _of_example(
        "Taxi", "taxis", tasks=14, episodes=300, steps=100, n_known=1
    )._replace(
        lrmax_options={"capacity": 2, "keep": "most_used"},  # which saves time
        deterministic=True,
    ),
    "prices": lambda: _of_example(
        "inventory, prices", "prices", tasks=15, episodes=50, steps=50, n_known=20
    ),
    "seasons": lambda: _of_example(
        "inventory, customers", "seasons", tasks=15, episodes=50, steps=50, n_known=20
    ),
}
"""Functions that return the settings of each family, by its name in folders and results."""


def setting_of(name: str) -> FamilySetting:
    """Return the settings of a family."""
    if name not in FAMILIES:
        raise InvalidArgument(f"family is {name!r}: expected one of {', '.join(FAMILIES)}")
    return FAMILIES[name]()


def valid_prior(family: TaskFamily) -> float | str:
    """Return a valid `d_max` for a spec: "family" if the family has one, or else a number.

    The number is the largest distance between corners of the family. It is valid for the paper's
    families: the tasks of the corridor differ only in a reward, the two tasks of the maze are its
    corners, and in the main experiment this distance is the supremum of erratum 3.
    """
    if family.d_max is not None:
        return "family"
    corners = family.corners
    if corners is None:
        raise InvalidArgument(f"{family!r} has neither d_max nor corners: a valid prior is unknown")
    return float(family_distance(corners).max())


def two_numbers(family: TaskFamily) -> dict[str, float]:
    """Return the nearness of a family as one number for rewards and one for transitions."""
    nearness = family.nearness
    if nearness is None:
        raise InvalidArgument(f"{family!r} does not know its nearness: choose another family")
    return {
        "rewards": float(nearness.rewards.max()),
        "transitions": float(nearness.transitions.max()),
    }


def base_spec(name: str, agents: list[dict[str, Any]]) -> ExperimentSpec:
    """Return the spec of a family with these agents."""
    setting = setting_of(name)
    return ExperimentSpec.read(
        {
            "name": f"knowledge, {setting.title}",
            "family": setting.family,
            "defaults": setting.options,
            "agents": agents,
            **setting.sizes,
            "repetitions": REPETITIONS,
            "seed": SEED,
        }
    )


def agents_of(setting: FamilySetting) -> list[dict[str, Any]]:
    """Return the agents of a family, as tables of a spec."""
    numbers = two_numbers(setting.task_family)
    lrmax = {"algorithm": "LRMax", **setting.lrmax_options}
    tuned = {} if setting.deterministic else TUNED  # one visit is best if it shows all
    agents: list[dict[str, Any]] = [
        {"name": RMAX, "algorithm": "RMax"},
        *(
            {"name": name, "algorithm": "RMax", "n_known": n_known, **KEEPS_LEARNING}
            for name, n_known in tuned.items()
        ),
        {"name": VALID, **lrmax, "d_max": valid_prior(setting.task_family)},
    ]
    if setting.guess is not None:
        agents.append({**lrmax, "d_max": setting.guess})
    near: dict[str, dict[str, Any]] = {
        NUMBERS: {"nearness": numbers},
        SUCCESSORS: {"nearness": {**numbers, "successors": "family"}},
        ARRAYS: {"nearness": "family"},
        **{name: {**_false(name), "on_refutation": "ignore"} for name in FALSE},
        **{
            name: {**_false(unchecked), "on_refutation": "widen"}
            for name, unchecked in UNCHECKED.items()
        },
        LEARNED: {"nearness": "learned"},
    }
    shared: dict[str, Any] = {"algorithm": "NearRMax", "exact": True}
    if not setting.deterministic:  # the defaults of the algorithm
        shared = {"algorithm": "NearRMax", "n_known": 2, "epsilon": 0.0, **KEEPS_LEARNING}
    agents += [{"name": name, **shared, **known} for name, known in near.items()]
    agents += [
        {"name": MAX_Q, "algorithm": "MaxQInit"},
        {"name": ENVELOPE, "algorithm": "EnvelopeRMax", "alpha": ALPHA},
    ]
    return agents


def _false(name: str) -> dict[str, Any]:
    """Return the nearness of the family multiplied by a number below 1."""
    return {"nearness": "family", "nearness_scale": SCALES[name]}
