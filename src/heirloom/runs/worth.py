"""`worth`: how much more an agent earns per task than another one, in the unit of rewards."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from heirloom.experiments.variables import check_results
from heirloom.stats import student_interval
from heirloom.validation import one_of
from heirloom.wording import counted, printable

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    import xarray as xr


@dataclass(frozen=True, repr=False)
class Worth:
    """What agents are worth, compared with a baseline; `print` shows a table."""

    table: "pd.DataFrame"
    """One row per agent: `per_task`, `first_task` and `last_task`, each with its `_ci95`."""
    baseline: str
    """The agent that others are compared with."""
    earned: float
    """What the baseline earns per task, on average."""
    unit: str

    def __repr__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        name = printable(self.baseline)
        n = int(self.table.attrs["repetitions"])
        digits = decimals(float(np.nanmax(np.abs([self.earned, *self.table.to_numpy().flat]))))
        earned = f"{self.earned:,.{digits}f}{unit}"
        lines = [
            f"{name} earns {earned} per task. Differences from it, with 95 % intervals over "
            f"{counted(n, 'repetition')}:"
        ]
        labels = [printable(agent) for agent in self.table.index]
        width = max(map(len, ("agent", *labels)))
        columns = {"per task": "per_task", "first task": "first_task", "last task": "last_task"}
        lines.append(f"{'agent':<{width}}" + "".join(f"  {title:>22}" for title in columns))
        for label, (_, row) in zip(labels, self.table.iterrows(), strict=True):
            cells = (difference(row[key], row[f"{key}_ci95"], digits) for key in columns.values())
            lines.append(f"{label:<{width}}" + "".join(f"  {cell:>22}" for cell in cells))
        return "\n".join(lines)


def difference(mean: float, half: float, digits: int | None = None) -> str:
    """Return a difference with its sign, and with its interval if there is one."""
    if digits is None:
        digits = decimals(max(abs(mean), half if np.isfinite(half) else 0.0))
    interval = f" ± {half:,.{digits}f}" if np.isfinite(half) else ""
    return f"{mean:+,.{digits}f}{interval}"


def decimals(size: float) -> int:
    """Return how many decimals numbers of this size are shown with."""
    return 0 if size >= 1000 else 1 if size >= 100 else 3


def chosen_baseline(names: list[str], baseline: str | None) -> str:
    """Return the agent that others are compared with: the first one if none is given."""
    return names[0] if baseline is None else one_of("baseline", baseline, names)


def worth(results: "xr.Dataset", *, baseline: str | None = None, unit: str = "") -> Worth:
    """Return what each agent earns more per task than a baseline, in the unit of rewards.

    The returns of all episodes of a task are added up. Differences are paired: agents meet the same
    tasks in a repetition. Their 95 % Student intervals over repetitions assume that they are normal
    (none for fewer than 3 repetitions).

    Args:
        results: the results of `compare` or `run`.
        baseline: the name of the agent that others are compared with; by default the first one.
        unit: the unit of rewards, such as "EUR", for the printed table.
    """
    import pandas as pd

    names = check_results(results, ("returns",))
    reference = chosen_baseline(names, baseline)
    earned = results.returns.sum("episode", skipna=False).transpose("agent", "repetition", "task")
    rows = {}
    for name in names:
        if name == reference:
            continue
        more = earned.sel(agent=name).values - earned.sel(agent=reference).values
        row: dict[str, float] = {}
        parts = {"per_task": more.mean(axis=1), "first_task": more[:, 0], "last_task": more[:, -1]}
        for key, x in parts.items():
            row[key], row[f"{key}_ci95"] = (float(y) for y in student_interval(x))
        rows[name] = row
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index.name = "agent"
    table.attrs["repetitions"] = results.sizes["repetition"]
    mean = float(earned.sel(agent=reference).mean())
    return Worth(table, reference, mean, unit)
