"""The returns that `knowledge` compares: of later tasks, and once learned knowledge is used."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.compare import helps_from
from heirloom.stats import FloatArray
from heirloom.studies.agents import BEST, LEARNED, LEARNING, RMAX, TUNED
from heirloom.studies.families import Setting
from heirloom.theory import tasks_for_max_q

if TYPE_CHECKING:
    import xarray as xr


class LaterReturns(NamedTuple):
    """Mean returns of the tasks from some task on, in each repetition."""

    agents: dict[str, FloatArray]
    """The mean return of an agent, [repetition], by its name."""
    optimal: FloatArray
    """The optimal expected return, [repetition]."""
    best_n_known: int
    """The number of visits with which RMax has the highest mean return."""

    @property
    def gap(self) -> float:
        """By how much the optimal return exceeds that of RMax, in the mean."""
        return float((self.optimal - self.agents[RMAX]).mean())

    def closed(self, name: str, other: str = RMAX) -> FloatArray:
        """The return of an agent minus that of another one, as a share of the gap, [repetition].

        Compared with RMax, this is 0 for the return of RMax and 1 for the optimal return.
        """
        difference = self.agents[name] - self.agents[other]
        return difference / self.gap if self.gap else np.full_like(difference, np.nan)


class FamilyReturns(NamedTuple):
    """What is measured in one family."""

    later: LaterReturns
    """The returns of the tasks from the second on."""
    used_from: int
    """The first task in which a learned nearness and the bound of MaxQInit are used."""
    used: LaterReturns
    """The returns of the tasks from `used_from` on; of the last task if there are fewer tasks."""
    helps_from: dict[str, int | None]
    """The task from which on an agent that learns knowledge is better than RMax; None without."""


def measure(setting: Setting, spec: ExperimentSpec, results: "xr.Dataset") -> FamilyReturns:
    """Average the returns of a family."""
    used_from = first_task_with_learned_knowledge(setting, spec)
    kind = "discounted_returns" if setting.discounted else "returns"
    compared = results.assign(returns=results[kind])
    return FamilyReturns(
        later_returns(setting, results),
        used_from,
        later_returns(setting, results, first=min(used_from, spec.tasks)),
        {name: helps_from(compared, name) for name in LEARNING},
    )


def later_returns(setting: Setting, results: "xr.Dataset", *, first: int = 2) -> LaterReturns:
    """Average the returns over the episodes of the tasks from a task on, by default the second."""
    returns = results.discounted_returns if setting.discounted else results.returns
    optimal = results.optimal_discounted if setting.discounted else results.optimal
    later = slice(first - 1, None)
    mean = returns.isel(task=later).mean(("task", "episode"))
    agents = {str(name): mean.sel(agent=name).values for name in results.agent.values}
    tried = {name: n_known for name, n_known in TUNED.items() if name in agents}
    tried[RMAX] = setting.options["n_known"]
    best = max(tried, key=lambda name: float(agents[name].mean()))
    agents[BEST] = agents[best]
    return LaterReturns(agents, optimal.isel(task=later).mean("task").values, tried[best])


def first_task_with_learned_knowledge(setting: Setting, spec: ExperimentSpec) -> int:
    """Return the first task in which a learned nearness and the bound of MaxQInit are used."""
    p_min = setting.task_family.p_min if spec.distinct_tasks is None else 1 / spec.distinct_tasks
    assert p_min is not None, "all families of the study have finitely many tasks"
    (delta,) = (agent.all_options.delta for agent in spec.agents if agent.name == LEARNED)
    return tasks_for_max_q(p_min, delta) + 1
