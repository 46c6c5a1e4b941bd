"""How often tests of knowledge detect that it is false, over the true difference."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from heirloom.plot.style import hide_frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "black")
STYLES = ("--", "-")
Curves = Mapping[str, Mapping[int, Sequence[float]]]


def draw_power(ratios: Sequence[float], parts: Mapping[str, Curves], *, title: str) -> "Figure":
    """The share of lifetimes with an alarm, over the true difference divided by the claimed one.

    Args:
        ratios: true difference / claim.
        parts: for each part of the models, a panel: the shares by test and `n_known`.
        title: the title of the figure.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    axes = figure.subplots(1, len(parts), sharey=True, squeeze=False)[0]
    for ax, (part, curves) in zip(axes, parts.items(), strict=True):
        for (test, by_visits), style in zip(curves.items(), STYLES, strict=False):
            for (n, shares), colour in zip(by_visits.items(), COLOURS, strict=False):
                never = "" if any(shares) else " (never)"
                label = f"{test}, n = {n}{never}"
                ax.plot(ratios, shares, style, color=colour, marker=".", label=label)
        ax.set_title(part, fontsize="medium")
        ax.set_xlabel("true difference / claim")
        hide_frame(ax)
    axes[0].set_ylabel("share of lifetimes with an alarm")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize="small"
    )
    figure.suptitle(title)
    return figure
