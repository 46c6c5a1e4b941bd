"""Names from specs and files are shown with control characters escaped, wherever they appear."""

import io

import numpy as np
import pytest

import heirloom as hl
from heirloom.experiments.spec import ExperimentSpec
from heirloom.plot.curves import draw_episodes, draw_lifelong
from heirloom.plot.style import render
from heirloom.progress import _columns, progress
from heirloom.runs.compare import comparison_table
from heirloom.wording import for_spreadsheet, printable
from tests.experiments.test_spec import SMALL

HOSTILE = "\x1b[31m$\\frac$[bold]\r\n\u202e\x9b"


def test_control_characters_are_escaped():
    assert printable("ε-greedy agent") == "ε-greedy agent"
    assert printable(HOSTILE) == "\\x1b[31m$\\frac$[bold]\\r\\n\\u202e\\x9b"
    assert printable("\udc80").isprintable()


def test_cells_that_begin_like_a_formula_are_quoted():
    for formula in ("=1+1", "+1", "-1", "@x", "'x"):
        assert for_spreadsheet(formula) == f"'{formula}"
    assert for_spreadsheet("RMax") == "RMax"


def test_errors_escape_control_characters():
    assert str(hl.errors.InvalidArgument(HOSTILE)).isprintable()
    assert str(hl.errors.InvalidArgument("a\nb", "c")) == "a\\nb\nc"


def results(names, returns):
    import xarray as xr

    returns = np.asarray(returns, dtype=float)
    return xr.Dataset(
        {
            "returns": (("agent", "repetition", "task", "episode"), returns),
            "updates": (("agent", "repetition", "task"), returns[..., 0].astype(int)),
            "optimal": (("repetition", "task"), returns[0, ..., 0]),
        },
        coords={
            "agent": names,
            **{
                name: np.arange(1, n + 1)
                for name, n in zip(
                    ("repetition", "task", "episode"), returns.shape[1:], strict=True
                )
            },
        },
    )


@pytest.mark.parametrize("width", [20, 40, 200])
def test_tables_show_names_literally_on_terminals_of_any_width(width, capsys, monkeypatch):
    from heirloom.cli.output import print_results

    monkeypatch.setenv("COLUMNS", str(width))
    print_results({"": results([HOSTILE, "RMax"], np.ones((2, 3, 2, 2)))}, HOSTILE)
    printed = capsys.readouterr().out
    assert all(line.isprintable() for line in printed.split("\n"))
    assert all(len(line) <= width for line in printed.split("\n"))
    assert "[bold]" in printed.replace("\n", "") or width < 100


@pytest.mark.parametrize("width", [20, 40, 79, 80, 200])
def test_progress_fits_terminals_of_any_width(width):
    from rich.console import Console
    from rich.progress import Progress

    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=True)
    with Progress(*_columns(width), console=console) as bar:
        bar.update(bar.add_task("a rather long name of a run " * 3, total=20, rate=""), advance=7)
    assert " 7/20" in file.getvalue()


def test_progress_in_a_log_escapes_names():
    file = io.StringIO()
    with progress(HOSTILE, 1, 0, file) as advance:
        advance(HOSTILE)
    assert file.getvalue().rstrip("\n").isprintable()


def test_figures_draw_names_literally():
    for draw in (draw_lifelong, draw_episodes):
        data = results([HOSTILE, "_hidden"], np.ones((2, 3, 2, 2)))
        assert render(draw(data, title=HOSTILE), "png")


def test_tables_of_differences_print_names_literally():
    data = results(["RMax", HOSTILE], np.ones((2, 3, 1, 1)))
    for shown in (comparison_table(data, last=1), str(hl.worth(data, unit="EUR"))):
        assert all(line.isprintable() for line in shown.split("\n"))


def test_messages_about_a_spec_escape_names():
    hostile = {**SMALL, HOSTILE: 1, "measure": HOSTILE, "family": {"name": HOSTILE, HOSTILE: 2}}
    with pytest.raises(hl.errors.InvalidArgument) as raised:
        ExperimentSpec.read(hostile)
    assert all(line.isprintable() for line in str(raised.value).split("\n"))
