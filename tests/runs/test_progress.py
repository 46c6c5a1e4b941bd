"""The progress of a run on a terminal, and in a log."""

import io

import pytest

from heirloom.runs import progress as module
from heirloom.runs.progress import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("width", [60, 120])
def test_terminal_shows_how_many_jobs_are_complete(width, monkeypatch):
    """A wide terminal also shows the rate and the time left."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    with progress("title", 10, 4, terminal) as advance:
        for i in range(6):
            advance(f"job {i}")
    shown = terminal.getvalue().split("title")[-1]
    assert "10/10" in shown
    assert ("jobs/s" in shown) == (width == 120)
    assert ("left" in shown) == (width == 120)


def test_log_has_a_line_per_interval_and_predicts_the_time_left_after_a_few_jobs(monkeypatch):
    """Each job takes 4 seconds, and a line is printed after 10 or more."""
    seconds = iter(range(0, 1000, 4))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(seconds))
    log = io.StringIO()
    with progress("title", 9, 0, log) as advance:
        for i in range(9):
            advance(f"job {i}")
    lines = log.getvalue().splitlines()
    assert [line.split(" jobs done")[0] for line in lines] == [
        f"title: {n} of 9" for n in (3, 6, 9)
    ]
    assert [line.split(", ")[-1] for line in lines] == [
        "? s left (last: job 2)",
        "12 s left (last: job 5)",
        "0 s left (last: job 8)",
    ]
