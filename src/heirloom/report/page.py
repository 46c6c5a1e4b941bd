"""`write_report`: write the HTML page of one or several runs."""

import os
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from heirloom.errors import CannotWrite, is_installed, missing
from heirloom.report import sections
from heirloom.report.between_runs import differences_section
from heirloom.report.charts import all_curves, bokeh_script, chart_data, chart_item
from heirloom.report.markup import script_data, whole_page, write_page
from heirloom.report.sections import TITLES, replays, transfer_data
from heirloom.report.sources import Sources, read_sources
from heirloom.report.tables import certificates
from heirloom.storage.files import file_path, folder_path, regular_file
from heirloom.validation import one_of

PAGE = "report.html"


def write_report(
    runs: Any,
    path: str | os.PathLike[str] = "report.html",
    *,
    title: str | None = None,
    baseline: str | None = None,
) -> Path:
    """Write an HTML page about one or several runs, and return its path.

    The page is one file that opens from disk without a network. It shows what was run, interactive
    curves of returns, a table of agents, certificates if the run has measured them, where transfer
    came from, and the verdicts of claims. With several runs it also shows their differences with
    intervals.

    Args:
        runs: the results of `run` or `compare`; or the folder of a run, or a folder that
            contains runs, such as one of `heirloom reproduce`; or a list of these, or a dictionary
            of these by labels.
        path: the file to write; without an extension, `.html` is appended.
        title: the title of the page; by default the name of the experiment.
        baseline: the agent that others are compared with; by default the first agent of a
            comparison made by `compare`; of other runs RMax, or else the first agent.
    """
    if not is_installed("bokeh"):
        raise missing("a report has charts of Bokeh", "report")
    file = file_path(path, ".html")
    sources = read_sources(runs)
    if baseline is not None:
        names = dict.fromkeys(name for run in sources.runs for name in run.agents)
        one_of("baseline", baseline, names)
    return write_page(file, render(sources, title=title, baseline=baseline))


def default_page(runs: Sequence[str | os.PathLike[str]]) -> Path:
    """Return the file to write if none is given: in the folder, or in the current for several.

    Raises `CannotWrite` if a link is in its place.
    """
    file = Path(PAGE) if len(runs) > 1 else folder_path(runs[0]) / PAGE
    regular_file(file, CannotWrite)
    return file


def render(sources: Sources, *, title: str | None = None, baseline: str | None = None) -> str:
    """Return the page as HTML."""
    runs = sources.runs
    curves, left_out = all_curves(runs)
    recorded = transfer_data(runs, curves)
    data = chart_data(runs, curves, baseline)
    data |= {"transfer": recorded, "kinds": list(TITLES.values())}
    body = [
        sections.header(sources, title or sources.title),
        sections.problems(sources),
        sections.claims(sources.claims),
        sections.reference(sources.reference),
        sections.charts(runs, curves, left_out),
        sections.agents(runs, baseline),
        certificates(runs),
        differences_section(runs),
        sections.transfer(recorded, [curves[entry["curve"]].label for entry in recorded]),
        replays(runs),
        sections.what_was_run(runs),
    ]
    charts = {view: chart_item(view, curves) for view in ("tasks", "episodes")}
    head = f"<style>{_asset('page.css')}</style>\n<script>{bokeh_script()}</script>"
    body += [
        f'<script type="application/json" id="data">{script_data(data)}</script>',
        f'<script type="application/json" id="charts">{script_data(charts)}</script>',
        f"<script>{_asset('page.js')}</script>",
    ]
    return whole_page(title or sources.title, head, "\n".join(body))


def _asset(name: str) -> str:
    return (files("heirloom.report") / name).read_text(encoding="utf-8")
