"""`write_report`: write the HTML page of one or several runs."""

import os
from importlib.resources import files
from pathlib import Path
from typing import Any

from heirloom.errors import InvalidArgument
from heirloom.extras import is_installed, missing
from heirloom.report import sections
from heirloom.report.agents_table import baseline_of
from heirloom.report.charts import bokeh_script, chart_item
from heirloom.report.curves import all_curves, chart_data
from heirloom.report.differences import differences_section
from heirloom.report.markup import script_data, text
from heirloom.report.replay import POLICY
from heirloom.report.replays import replays
from heirloom.report.sources import Sources, read_sources
from heirloom.report.transfer import TITLES, transfer_data
from heirloom.storage.atomic import file_path, write_file
from heirloom.validation import shown


def write_report(
    runs: Any,
    path: str | os.PathLike[str] = "report.html",
    *,
    title: str | None = None,
    baseline: str | None = None,
) -> Path:
    """Write an HTML page about one or several runs, and return its path.

    The page is one file that opens from disk without a network. It shows what was run, interactive
    curves of returns, a table of agents, where transfer came from, and the verdicts of claims. With
    several runs it also shows their differences with intervals.

    Args:
        runs: the results of `run` or `compare`; or the folder of a run, or a folder that
            contains runs, such as one of `heirloom reproduce`; or a list of these, or a dictionary
            of these by labels.
        path: the file to write; without an extension, `.html` is appended.
        title: the title of the page; by default the name of the experiment.
        baseline: the agent that others are compared with; by default RMax if the run has it, and
            otherwise the first agent.
    """
    if not is_installed("bokeh"):
        raise missing("a report has charts of Bokeh", "report")
    file = file_path(path, ".html")
    for name, value in (("title", title), ("baseline", baseline)):
        if value is not None and (not isinstance(value, str) or not value):
            raise InvalidArgument(f"{name} is {shown(value)}: expected a text, or None")
    sources = read_sources(runs)
    names = dict.fromkeys(name for run in sources.runs for name in run.agents)
    if baseline is not None and baseline not in names:
        raise InvalidArgument(
            f"baseline is {shown(baseline)}: expected the name of an agent, one of "
            f"{', '.join(names)}"
        )
    page = render(sources, title=title, baseline=baseline)
    return write_file(file, page.encode("utf-8", errors="replace"))


def render(sources: Sources, *, title: str | None = None, baseline: str | None = None) -> str:
    """Return the page as HTML."""
    runs = sources.runs
    curves, left_out = all_curves(runs)
    recorded = transfer_data(runs, curves)
    data = chart_data(runs, curves) | {"transfer": recorded, "kinds": list(TITLES.values())}
    data["baseline"] = baseline_of(runs, runs[0], baseline).name
    body = [
        sections.header(sources, title or sources.title),
        sections.problems(sources),
        sections.claims(sources.claims),
        sections.reference(sources.reference),
        sections.charts(runs, curves, left_out),
        sections.agents(runs, baseline),
        differences_section(runs),
        sections.transfer(recorded, [curves[entry["curve"]].label for entry in recorded], runs),
        replays(runs),
        sections.what_was_run(runs),
    ]
    charts = {view: chart_item(view, curves) for view in ("tasks", "episodes")}
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            POLICY,
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{text(title or sources.title)}</title>",
            f"<style>{_asset('page.css')}</style>",
            f"<script>{bokeh_script()}</script></head><body>",
            *body,
            f'<script type="application/json" id="data">{script_data(data)}</script>',
            f'<script type="application/json" id="charts">{script_data(charts)}</script>',
            f"<script>{_asset('page.js')}</script>",
            "</body></html>\n",
        ]
    )


def _asset(name: str) -> str:
    return (files("heirloom.report") / name).read_text(encoding="utf-8")
