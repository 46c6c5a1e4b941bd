"""The progress of a run on a terminal, and in a log."""

import io
import sys

import pytest

import heirloom as hl
from heirloom import progress as module
from heirloom.progress import progress
from tests.small_run import wait_until


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("width", [60, 120])
def test_terminal_shows_how_many_jobs_are_complete(width, monkeypatch):
    """A wide terminal also shows the rate and the time left."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    terminal = Terminal()
    with progress("title", 10, 4, terminal) as advance:
        wait_until(terminal.getvalue)
        for i in range(6):
            advance(f"job {i}")
    shown = terminal.getvalue().split("title")[-1]
    assert "10/10" in shown
    assert ("jobs/s" in shown) == (width == 120)
    assert ("left" in shown) == (width == 120)


def test_short_call_shows_no_bar_and_a_quiet_one_writes_no_log():
    for file, options in ((Terminal(), {}), (io.StringIO(), {"logs": False})):
        with progress("title", 2, 0, file, **options) as advance:
            advance("job 0")
            advance("job 1")
        assert file.getvalue() == ""


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


def test_learning_and_rollouts_show_one_bar_each_on_a_terminal_and_learn_the_same(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    m = hl.garnet(3, 2, branching=2, gamma=0.9, seed=0)
    shown, returns = {}, []
    for file in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", file)
        agent = hl.RMax(n_states=3, n_actions=2, gamma=0.9, seed=0)

        def wait(done, episodes, file=file):
            wait_until(lambda: file.getvalue() or not file.isatty())

        record = hl.learn(agent, m, episodes=200, max_steps=5, seed=0, callback=wait)
        without = hl.learn(agent, m, episodes=200, max_steps=5, seed=1)
        with progress("a run", 1, 0, file, logs=False):
            hl.certify(agent, m, episodes=3, max_steps=5, seed=0)
        returns.append((record.returns.tolist(), without.returns.tolist()))
        shown[file.isatty()] = file.getvalue()
    assert returns[0] == returns[1]
    assert "learning" in shown[True]
    assert "200/200" in shown[True]
    assert "rolling out" not in shown[True]  # within the bar of the run
    assert shown[False] == ""
