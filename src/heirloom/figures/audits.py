"""The differences between tasks that an audit found, as a map of states and actions."""

from typing import TYPE_CHECKING

import numpy as np

from heirloom.transfer.refutation.audit_result import TITLES, Audit
from heirloom.validation import instance, text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_audit(audit: Audit, *, title: str = "") -> "Figure":
    """Draw lower bounds on the largest differences between two tasks, by state and action.

    There is one map for rewards, one for transitions and one for the distance D. Pairs that no two
    tasks know are white. Crosses mark pairs that contradict the knowledge.
    """
    from matplotlib.figure import Figure

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
        ax.set_yticks(np.arange(n_actions) if n_actions <= 6 else [0, n_actions - 1])
        ax.set_xlim(-0.5, n_states - 0.5)
    axes[-1].set_xlabel("state")
    if title:
        figure.suptitle(title, fontsize="medium")
    return figure
