"""Where transfer came from: the numbers of each task for the script of the page."""

from typing import Any

import numpy as np

from heirloom.experiments.measured_transfer import KINDS
from heirloom.report.curves import Curve
from heirloom.report.sources import ShownRun
from heirloom.runs.compare import is_comparison

MOST_NUMBERS = 150_000
COUNTED = ("bound_pairs", "source_task", "source_pairs", "dropped_sources", "refutations")
TITLES = {
    "v_max": "no bound (v_max)",
    "Lipschitz": "Lipschitz bound",
    "MaxQ": "largest Q of earlier tasks",
    "NearModels": "nearness of models",
    "Envelope": "envelope",
    "another bound": "another bound",
}
assert list(TITLES) == list(KINDS)


def not_recorded(runs: list[ShownRun]) -> str:
    """Say, as HTML, how to record where transfer came from in runs that did not."""
    compared = {run.spec is None or is_comparison(run.spec) for run in runs}
    of_spec = 'Add <code>measure = "transfer"</code> to its spec'
    of_compare = 'Give <code>compare</code> the argument <code>measure="transfer"</code>'
    remedy = of_compare if compared == {True} else of_spec
    if len(compared) > 1:
        remedy += f", or {of_compare[0].lower()}{of_compare[1:]},"
    which = "This run has" if len(runs) == 1 else "These runs have"
    return (
        f"{which} not recorded where transfer came from. {remedy} to record it; this does not "
        "change what the agents learn."
    )


def transfer_data(runs: list[ShownRun], curves: list[Curve]) -> list[dict[str, Any]]:
    """Return, for each curve whose run recorded it, the counts per repetition and task."""
    shown = [(i, c) for i, c in enumerate(curves) if runs[c.run].has_transfer]
    found = []
    for i, curve in shown:
        run = runs[curve.run]
        k = run.agents.index(curve.agent)
        of_agent = {name: run.arrays[name][k] for name in COUNTED}
        done = (of_agent["refutations"] >= 0).all(axis=1)
        if not done.any():
            continue  # an agent without bounds
        per_repetition = sum(values[0].size for values in of_agent.values())
        kept = max(1, MOST_NUMBERS // (len(shown) * per_repetition))
        repetitions = np.flatnonzero(done)[:kept]
        found.append(
            {
                "curve": i,
                "repetitions": (repetitions + 1).tolist(),
                "left_out": int(done.sum()) - repetitions.size,
                **{name: values[repetitions].tolist() for name, values in of_agent.items()},
            }
        )
    return found
