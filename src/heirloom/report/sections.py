"""The sections of the page, as HTML."""

import math
from typing import Any

import numpy as np

from heirloom.errors import HeirloomError
from heirloom.experiments.measures import KINDS
from heirloom.experiments.spec import ExperimentSpec
from heirloom.report.charts import Curve, CurveStyle
from heirloom.report.markup import table, text
from heirloom.report.replay import replay_section
from heirloom.report.sources import ShownRun, Sources
from heirloom.report.tables import agents_table, baseline_of
from heirloom.runs.compare import is_comparison
from heirloom.runs.recordings import recordings_in
from heirloom.stats import MIN_REPETITIONS
from heirloom.wording import are, counted, counted_of

VERDICTS = {"supported": "yes", "contradicted": "no", "undecided": "open"}
"""The style of each verdict on a claim."""
WHOSE = {"paper": "claim of the paper", "ours": "our claim"}
LINKS = {
    "claims": "Claims",
    "reference": "Reference",
    "returns": "Returns",
    "agents": "Agents",
    "certificates": "Certificates",
    "differences": "Differences",
    "transfer": "Transfer",
    "replay": "Replay",
    "run": "What was run",
}

LARGEST = 1_000_000  # characters of the section; a report of the main experiment has 3 MB at most
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


def header(sources: Sources, title: str) -> str:
    """Return the title, the size of the experiment, and links to all sections."""
    run = sources.runs[0]
    n_agents, repetitions, tasks, episodes = run.returns.shape
    size = [
        counted(n_agents, "agent"),
        counted(repetitions, "repetition"),
        counted(tasks, "task"),
        counted(episodes, "episode") + " per task",
    ]
    if run.spec is not None:
        size += [f"at most {counted(run.spec.steps, 'step')} per episode", f"seed {run.spec.seed}"]
    if len(sources.runs) > 1:
        size.insert(0, f"{len(sources.runs)} runs, the first with {size.pop(0)}")
    links = "".join(f'<a href="#{key}">{name}</a>' for key, name in LINKS.items())
    return (
        f'<header><div class="top"><h1>{text(title)}</h1><button type="button" id="appearance" '
        'aria-label="Switch between light and dark">Dark</button></div>'
        f'<p class="size">{text(" · ".join(size))}</p>'
        f'<nav aria-label="Sections">{links}</nav></header>'
    )


def problems(sources: Sources) -> str:
    """Say what is missing or damaged; empty if all is complete."""
    lines = [*sources.problems]
    for run in sources.runs:
        prefix = f"{run.label}: " if len(sources.runs) > 1 else ""
        lines += [prefix + problem for problem in run.problems]
    if not lines:
        return ""
    items = "".join(f"<li>{text(line)}</li>" for line in lines)
    return (
        '<section id="problems" class="warning" role="alert"><h2>This report is incomplete</h2>'
        f"<ul>{items}</ul></section>"
    )


def claims(found: list[dict[str, Any]]) -> str:
    """Return the claims with their verdicts and measurements; empty if there are none."""
    if not found:
        return ""
    verdicts = [claim["verdict"] for claim in found]
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in VERDICTS)
    items = ""
    for claim in found:
        verdict = claim["verdict"]
        items += (
            f'<li class="claim"><span class="verdict {VERDICTS[verdict]}">{verdict}</span><div>'
            f"<p>{text(claim['statement'][:1].upper() + claim['statement'][1:])} "
            f'<span class="whose">{WHOSE.get(claim["whose"], text(claim["whose"]))}</span></p>'
            f'<p class="measured">{text(claim["measured"])}</p></div></li>'
        )
    return (
        '<section id="claims"><h2>Claims</h2>'
        f"<p>Verdicts of this run: {counts}. Intervals are at 95 %, for normal differences. A "
        "claim is supported if all its intervals are on its side, contradicted if one of them, "
        "corrected for their number, is on the other side, and otherwise undecided.</p>"
        f'<ul class="claims">{items}</ul></section>'
    )


def reference(found: dict[str, Any] | None) -> str:
    """Return the comparison with the shipped reference results; empty if there was none."""
    if found is None:
        return ""
    rows = [
        [text(row.get(key, "")) for key in ("agent", "here", "reference", "difference", "verdict")]
        for row in found.get("rows", [])
        if isinstance(row, dict)
    ]
    header = ["Agent", "Mean return here", "Reference", "Difference", "Verdict"]
    shown = table(header, rows, caption="Mean returns here and in the reference results")
    return (
        '<section id="reference"><h2>Compared with the reference results</h2>'
        f"<p>{text(found.get('conclusion', ''))}</p>"
        f"<details><summary>Agent by agent</summary>{shown}</details></section>"
    )


def charts(runs: list[ShownRun], curves: list[Curve], left_out: int) -> str:
    """Return the controls of the curves, and the places of the charts."""
    fewest = min(run.returns.shape[1] for run in runs)
    buttons = "".join(
        f'<button type="button" class="curve" aria-pressed="true" data-curve="{i}" '
        f'style="--light:{curve.style.light};--dark:{curve.style.dark}">{swatch(curve.style)}'
        f"<span>{text(curve.label)}</span></button>"
        for i, curve in enumerate(curves)
    )
    note = (
        f"<p>{counted(left_out, 'more agent')} {are(left_out)} left out of the charts.</p>"
        if left_out
        else ""
    )
    figures = "".join(
        f'<figure><h3>{title}</h3><div id="chart-{view}" class="chart" role="img" '
        f'aria-label="{title}; the numbers are below"></div>'
        f'<details class="numbers" data-view="{view}"><summary>The numbers of this chart</summary>'
        "<div></div></details></figure>"
        for view, title in (("tasks", "Returns over tasks"), ("episodes", "Returns over episodes"))
    )
    return (
        '<section id="returns"><h2>Returns</h2><p>Means over repetitions; bands are 95 % intervals '
        "of the mean. Press an agent to hide or show it.</p>"
        f'{note}<div class="controls">{_controls(bands=fewest >= MIN_REPETITIONS)}</div>'
        f'<div class="curves" role="group" aria-label="Agents">{buttons}'
        '<button type="button" id="all">all</button><button type="button" id="none">none</button>'
        f'</div><p id="explanation" aria-live="polite"></p>{figures}</section>'
    )


def _controls(*, bands: bool) -> str:
    return (
        '<label>Show <select id="mode"><option value="absolute">the return</option>'
        '<option value="difference">the difference from</option>'
        '<option value="ratio">the ratio to</option></select></label>'
        '<label id="reference-label">of <select id="compared"></select></label>'
        '<label>Returns <select id="kind"><option value="returns">undiscounted</option>'
        '<option value="discounted_returns">discounted</option></select></label>'
        '<label><input type="checkbox" id="smooth"> smoothed</label>'
        f'<label><input type="checkbox" id="bands"{" checked" * bands}> intervals</label>'
    )


def agents(runs: list[ShownRun], baseline: str | None) -> str:
    """Return one table of agents for each run."""
    several = len(runs) > 1
    tables = "".join(
        agents_table(
            run, baseline_of(runs, run, baseline), of_run=f" of {run.label}" if several else ""
        )
        for run in runs
    )
    return (
        '<section id="agents"><h2>Agents</h2><p>Measures of lifelong learning, relative to a '
        f"baseline.</p>{tables}</section>"
    )


def transfer(recorded: list[dict[str, Any]], labels: list[str]) -> str:
    """Return the place where the script shows which bounds and sources decided pairs."""
    head = '<section id="transfer"><h2>Where transfer came from</h2>'
    if not recorded:
        return (
            f'{head}<p>Not recorded. To record it, add <code>measure = "transfer"</code> to the '
            'spec, or give <code>compare</code> the argument <code>measure="transfer"</code>, and '
            "choose another folder for the results; agents learn the same.</p></section>"
        )
    options = "".join(f'<option value="{i}">{text(name)}</option>' for i, name in enumerate(labels))
    return (
        f"{head}<p>For each task, the number of state-action pairs by what decided their upper "
        "bound U: no bound (the pair kept the largest possible value), or a bound from earlier "
        "tasks. The sources are the earlier tasks that decided most pairs.</p>"
        f'<div class="controls"><label>Agent <select id="transfer-agent">{options}</select></label>'
        '<label>Repetition <select id="transfer-repetition"></select></label></div>'
        '<div id="transfer-key" class="key"></div><div id="transfer-table"></div></section>'
    )


def what_was_run(runs: list[ShownRun]) -> str:
    """Return the spec, the seed, the versions and the time of each run."""
    parts = []
    for run in runs:
        heading = f"<h3>{text(run.label)}</h3>" if len(runs) > 1 else ""
        facts = [["Versions", text(", ".join(f"{k} {v}" for k, v in run.versions.items()) or "–")]]
        if run.spec is not None:
            facts.insert(0, ["Seed", text(run.spec.seed)])
        if run.seconds > 0:
            facts.append(["Time of computation", text(f"{_seconds(run.seconds)} in all jobs")])
        rows = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts)
        parts.append(f"{heading}<dl>{rows}</dl>{_spec(run.spec)}")
    return f'<section id="run"><h2>What was run</h2>{"".join(parts)}</section>'


def _spec(spec: ExperimentSpec | None) -> str:
    """Return the spec of a run, and say how to run it again."""
    if spec is None:
        return "<p>These results are in memory; their spec is not known.</p>"
    again = "The spec, which <code>heirloom run</code> runs again"
    if is_comparison(spec):
        again = "The spec of this comparison; its functions are not stored"
    shown = "\n".join(map(text, spec.to_toml().split("\n")))
    return f"<details><summary>{again}</summary><pre>{shown}</pre></details>"


def swatch(style: CurveStyle) -> str:
    """Return a picture of a line with its dashes and marker."""
    dash = ",".join(map(str, style.dash)) or "none"
    fill = "var(--card)" if style.hollow or style.marker.bokeh == "x" else "var(--own)"
    return (
        '<svg width="34" height="12" viewBox="-17 -6 34 12" aria-hidden="true">'
        f'<path d="M-17,0H17" stroke="var(--own)" stroke-width="2" stroke-dasharray="{dash}"/>'
        f'<path d="{style.marker.path}" fill="{fill}" stroke="var(--own)" stroke-width="1.4"/>'
        "</svg>"
    )


def _seconds(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{math.floor(seconds / 60)} min {seconds % 60:.0f} s"


def replays(runs: list[ShownRun]) -> str:
    """Return the section that replays the recorded learning of runs; empty if none was recorded.

    If all recordings together are too large for the page, it has the first ones only.
    """
    try:
        recordings = [
            recording
            for run in runs
            if run.stored is not None
            for recording in recordings_in(run.stored)
            if recording.episodes.size
        ]
    except HeirloomError as error:
        return _section(f"<p>The recordings cannot be read: {text(str(error))}</p>")
    if not recordings:
        return ""
    kept, player = recordings, replay_section(recordings)
    while len(player) > LARGEST and len(kept) > 1:
        kept = kept[: len(kept) // 2]
        player = replay_section(kept)
    note = (
        "<p>Recorded episodes, step by step: the agent on the map of its task, its values and "
        "bounds, the pairs that it knows, and the earlier task that each bound came from.</p>"
    )
    if len(kept) < len(recordings):
        note += (
            f"<p>Shown {are(len(kept))} {counted_of(len(kept), len(recordings), 'recording')}; "
            "<code>heirloom replay</code> plays the others.</p>"
        )
    return _section(note + player)


def _section(content: str) -> str:
    return f'<section id="replay"><h2>Replay</h2>{content}</section>'


def transfer_data(runs: list[ShownRun], curves: list[Curve]) -> list[dict[str, Any]]:
    """Return, for each curve whose run recorded it, what decided the bounds of each task.

    There is one entry for the mean over repetitions, and one for each repetition.
    """
    shown = [(i, c) for i, c in enumerate(curves) if runs[c.run].has_transfer]
    found = []
    for i, curve in shown:
        run = runs[curve.run]
        k = run.agents.index(curve.agent)
        of_agent = {name: run.arrays[name][k] for name in COUNTED}
        done = np.flatnonzero((of_agent["refutations"] >= 0).all(axis=1))
        if not done.size:
            continue  # an agent without bounds
        per_repetition = sum(values[0].size for values in of_agent.values())
        kept = done[: max(1, MOST_NUMBERS // (len(shown) * per_repetition))]
        choices = {"mean of all": done} | {str(j + 1): np.array([j]) for j in kept}
        found.append(
            {
                "curve": i,
                "choices": [
                    {"name": name, "tasks": _decided(of_agent, chosen)}
                    for name, chosen in choices.items()
                ],
            }
        )
    return found


def _decided(of_agent: dict[str, np.ndarray], chosen: np.ndarray) -> list[dict[str, Any]]:
    """Return, for each task, means over the chosen repetitions, and the five largest sources."""
    pairs, dropped, refuted = (
        of_agent[name][chosen].mean(axis=0)
        for name in ("bound_pairs", "dropped_sources", "refutations")
    )
    tasks = []
    for task in range(len(pairs)):
        sources = of_agent["source_task"][chosen, task].ravel()
        counts = of_agent["source_pairs"][chosen, task].ravel()
        sums = np.bincount(sources[sources > 0], weights=counts[sources > 0]) / len(chosen)
        largest = [int(s) for s in np.argsort(-sums, kind="stable")[:5] if sums[s] > 0]
        tasks.append(
            {
                "pairs": pairs[task].tolist(),
                "sources": [[s, float(sums[s])] for s in largest],
                "dropped": float(dropped[task]),
                "refuted": float(refuted[task]),
            }
        )
    return tasks
