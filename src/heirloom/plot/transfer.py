"""Where transfer came from: the pairs whose bound each kind of bound decided, task by task."""

from typing import TYPE_CHECKING

import numpy as np

from heirloom.errors import InvalidArgument
from heirloom.experiments.measured_transfer import KINDS
from heirloom.experiments.variables import check_results
from heirloom.plot.style import legend_below, literal, new_figure
from heirloom.validation import one_of, text

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

KIND_COLOURS = ("#AAB2BD", "#0072B2", "#E69F00", "#882255", "#009E73", "#CC79A7")
"""The colours of `KINDS`, which the HTML report uses too."""


def draw_transfer(results: "xr.Dataset", agent: str, *, title: str = "") -> "Figure":
    """Bars per task: the number of pairs whose bound each kind of bound decided.

    The numbers are means over repetitions. Pairs that keep the largest possible value are those of
    `v_max`.

    Args:
        results: the results of a run whose spec has `measure = "transfer"`.
        agent: the name of the agent.
        title: the title of the figure.
    """
    check_results(results, ("returns",))
    if "bound_pairs" not in results:
        raise InvalidArgument(
            "results has no variable bound_pairs: expected the results of a run whose spec has "
            'measure = "transfer"'
        )
    one_of("agent", agent, [str(name) for name in results.agent.values])
    title = text("title", title)
    pairs = results.bound_pairs.sel(agent=agent).transpose("repetition", "task", "kind").values
    if (pairs < 0).all():
        raise InvalidArgument(f"agent is {agent!r}: expected an agent that has bounds")
    mean = pairs[(pairs >= 0).all(axis=(1, 2))].mean(axis=0)
    figure, ax = new_figure()
    below = np.zeros(mean.shape[0])
    for kind, colour, of_kind in zip(KINDS, KIND_COLOURS, mean.T, strict=True):
        if of_kind.any():
            ax.bar(results.task.values, of_kind, bottom=below, color=colour, label=literal(kind))
            below += of_kind
    ax.locator_params(axis="x", integer=True)
    ax.set_xlabel("task")
    ax.set_ylabel("pairs")
    ax.set_title(literal(title))
    legend_below(figure)
    return figure
