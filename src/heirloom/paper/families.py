"""The task families of our studies `knowledge` and `rivals`: those of the paper, and others."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from heirloom.choices import Variant
from heirloom.envs.family import TaskFamily
from heirloom.errors import InvalidArgument
from heirloom.experiments.registry import family_of_table
from heirloom.experiments.spec import ExperimentSpec
from heirloom.metrics.pseudometrics import family_distance
from heirloom.paper import corridor, maze, tight
from heirloom.paper.returns import p_min_of

if TYPE_CHECKING:
    import xarray as xr

PAPER: dict[str, tuple[str, Callable[[Variant], ExperimentSpec], Variant]] = {
    "tight-released": ("tight (released)", tight.settings, "released"),
    "tight-text": ("tight (text)", tight.settings, "text"),
    "corridor": ("corridor", corridor.settings, "released"),
    "maze": ("maze", maze.settings, "text"),
}
"""The title of each family of the paper, and its experiment, whose sizes it has."""
OTHERS = {
    "frozen-lakes": ("FrozenLake", "reward"),
    "cliffs": ("CliffWalking", "reward"),
    "taxis": ("Taxi", "reward"),
    "prices": ("inventory, prices", "money"),
    "seasons": ("inventory, customers", "money"),
    "machines": ("machines", "money"),
    "queues": ("queues", "money"),
    "perishables": ("perishables", "money"),
    "trap": ("trap", "reward"),
    "shortcut": ("shortcut", "reward"),
    "drift": ("drift of machines", "money"),
}
"""The title of each other family, and the unit of its returns."""
Sizes = Mapping[str, tuple[int, int, int]]
"""Tasks, episodes and steps of other families, by name."""


class FamilySetting(NamedTuple):
    """A family, and how long its tasks are."""

    title: str
    """The family in tables and figures."""
    family: dict[str, Any]
    sizes: dict[str, int]
    """Tasks, distinct tasks, episodes and steps."""
    unit: str = "reward"
    spec: ExperimentSpec | None = None
    """The experiment, if the family is of the paper."""

    @property
    def discounted(self) -> bool:
        """Whether returns are discounted, as in the paper."""
        return self.spec is not None

    def as_shown(self, results: "xr.Dataset") -> "xr.Dataset":
        """Return results whose `returns` and `optimal` are discounted if the family's are."""
        if not self.discounted:
            return results
        return results.assign(
            returns=results.discounted_returns, optimal=results.optimal_discounted
        )

    @property
    def task_family(self) -> TaskFamily:
        """The family itself."""
        return family_of_table(self.family)

    @property
    def p_min(self) -> float | None:
        """The smallest probability of a task, if tasks come back."""
        return self.task_family.p_min if self.spec is None else p_min_of(self.spec)


def setting_of(name: str, sizes: Sizes) -> FamilySetting:
    """Return the settings of a family of the paper, or of one of those with the given sizes."""
    if name in PAPER:
        title, settings, variant = PAPER[name]
        spec = settings(variant)
        keys = ("tasks", "distinct_tasks", "episodes", "steps")
        given = {key: getattr(spec, key) for key in keys if getattr(spec, key) is not None}
        return FamilySetting(title, spec.family.model_dump(), given, spec=spec)
    if name not in sizes:
        raise InvalidArgument(f"family is {name!r}: expected one of {', '.join((*PAPER, *sizes))}")
    title, unit = OTHERS[name]
    options = {"of": "machines"} if name == "drift" else {}
    given = dict(zip(("tasks", "episodes", "steps"), sizes[name], strict=True))
    return FamilySetting(title, {"name": name, **options}, given, unit)


def valid_prior(family: TaskFamily) -> float | str:
    """Return a valid `d_max` for a spec: "family" if the family has one, or else a number.

    The number is the largest distance between corners of the family. It is valid for the paper's
    families: the tasks of the corridor differ only in a reward, the two tasks of the maze are its
    corners, and in the main experiment this distance is the supremum of erratum 3.
    """
    if family.d_max is not None:
        return "family"
    assert family.corners is not None, "the families of the paper have corners"
    return float(family_distance(family.corners).max())


def two_numbers(family: TaskFamily) -> dict[str, float]:
    """Return the nearness of a family as one number for rewards and one for transitions."""
    near = family.nearness
    assert near is not None, "all families of the studies know it"
    return {"rewards": float(near.rewards.max()), "transitions": float(near.transitions.max())}


def format_return(number: float, optimal: float) -> str:
    """Format a return with three decimals if the optimal return is below 2, otherwise with one."""
    return f"{number:.{3 if abs(optimal) < 2 else 1}f}"
