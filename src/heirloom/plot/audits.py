"""The differences between tasks that an audit found, as a map of states and actions."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from heirloom.naming import shortened
from heirloom.plot.style import literal
from heirloom.transfer.refutation.audit_result import TITLES, Audit
from heirloom.validation import instance, text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ACTIONS = 6  # that are all labelled; otherwise only the first and the last
MOST_STATES = 12  # that have their names
LONGEST = 18  # characters of a name


def draw_audit(audit: Audit, *, title: str = "") -> "Figure":
    """Draw lower bounds on the largest differences between two tasks, by state and action.

    There is one map for rewards, one for transitions and one for the distance D. Pairs that no two
    tasks know are white. Crosses mark pairs that contradict the knowledge. Actions have their
    names, if they have any, and so have up to 12 states.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    audit, title = instance("audit", audit, Audit, "such as hl.audit(memory)"), text("title", title)
    n_states, n_actions = audit.compared.shape
    figure = Figure(figsize=(6.5, 5.0), layout="constrained")
    axes = figure.subplots(3, 1)
    contradicted = {found.part: found.pairs for found in audit.contradictions}
    for ax, (name, part) in zip(axes, audit.parts.items(), strict=True):
        values = np.where(audit.compared, part.sure, np.nan).T
        image = ax.imshow(values, aspect="auto", cmap="cividis", vmin=0, interpolation="none")
        figure.colorbar(image, ax=ax)
        if name in contradicted:
            states, actions = np.nonzero(contradicted[name])
            ax.plot(states, actions, "x", color="#D55E00", markersize=4)
        ax.set_title(TITLES[name], fontsize="medium")
        ax.set_ylabel("action")
        shown = np.arange(n_actions) if n_actions <= MOST_ACTIONS else [0, n_actions - 1]
        ax.set_yticks(shown, _labels(audit.pair_names.actions, shown))
        ax.set_xlim(-0.5, n_states - 0.5)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[-1].set_xlabel("state")
    if audit.pair_names.states is not None and n_states <= MOST_STATES:
        for ax in axes[:-1]:
            ax.set_xticks(np.arange(n_states), [])
        labels = _labels(audit.pair_names.states, np.arange(n_states))
        axes[-1].set_xticks(np.arange(n_states), labels, rotation=30, ha="right")
    if title:
        figure.suptitle(title, fontsize="medium")
    return figure


def _labels(names: tuple[str, ...] | None, shown: Iterable[int]) -> list[str]:
    """Return the labels of some states or actions: their names, or their numbers if without."""
    return [str(i) if names is None else literal(shortened(names[i], LONGEST)) for i in shown]
