"""Show the progress of a long call, on a terminal or in a log."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, TextIO

from heirloom.wording import counted_of, printable

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

LOG_INTERVAL = 10.0  # seconds between two lines in a log
PATIENCE = 2.0  # seconds of a call that shows no progress bar
WIDE = 80  # columns of a terminal that has room for the rate and the time left

Advance = Callable[[str], None]
"""Report that a job is complete; the argument describes the job."""
Show = Callable[[int], None]
"""Report how many are done."""
_n_bars = 0  # that are shown


def silent(done: int) -> None:
    """Show nothing."""


@contextmanager
def progress(
    title: str, total: int, done: int, file: TextIO | None = None, *, logs: bool = True
) -> Iterator[Advance]:
    """Show how many jobs of a run are complete, how many per second, and the time left.

    A terminal shows a progress bar. Any other file gets a line every `LOG_INTERVAL` seconds or so,
    and one at the end, unless `logs` is False.
    """
    file = sys.stderr if file is None else file
    if logs and not file.isatty():
        yield _log(printable(title), total, done, file)
        return
    with bar(title, total, done, unit="jobs", file=file) as show:
        n = done

        def advance(job: str) -> None:
            nonlocal n
            n += 1
            show(n)

        yield advance


@contextmanager
def bar(
    title: str, total: int, done: int = 0, *, unit: str, file: TextIO | None = None
) -> Iterator[Show]:
    """Show a progress bar on a terminal, after `PATIENCE` seconds, and nothing elsewhere.

    A bar within another one is not shown: the outer one says how far the whole is.
    """
    global _n_bars
    file = sys.stderr if file is None else file
    if _n_bars or not file.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import Progress

    console = Console(file=file)
    shown = Progress(*_columns(console.width), console=console)
    task = shown.add_task(printable(title), total=total, completed=done, rate="")
    timer = Timer(PATIENCE, shown.start)
    timer.daemon = True
    timer.start()
    started = time.monotonic()
    _n_bars += 1
    try:

        def show(now: int) -> None:
            rate = f"{(now - done) / max(time.monotonic() - started, 1e-9):.1f} {unit}/s"
            shown.update(task, completed=now, rate=rate)

        yield show
    finally:
        _n_bars -= 1
        timer.cancel()
        timer.join()
        shown.stop()


def _columns(width: int) -> "list[ProgressColumn]":
    """Return the columns of a progress bar for which a terminal has room."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    # A long name is shortened, so that the numbers stay readable.
    name = Column(no_wrap=True, overflow="ellipsis", max_width=max(8, width // 3))
    columns = [
        TextColumn("{task.description}", markup=False, table_column=name),
        BarColumn(),
        MofNCompleteColumn(),
    ]
    if width < WIDE:
        return [columns[0], columns[2], TimeElapsedColumn()]
    rest = [TextColumn("{task.fields[rate]}"), TimeElapsedColumn()]
    return [*columns, *rest, TextColumn("left"), TimeRemainingColumn()]


def _log(title: str, total: int, done: int, file: TextIO) -> Advance:
    """Return a function that writes a line every `LOG_INTERVAL` seconds, and one at the end."""
    n, started = 0, time.monotonic()
    printed = started

    def advance(job: str) -> None:
        nonlocal n, printed
        n += 1
        now, left = time.monotonic(), total - done - n
        if now - printed < LOG_INTERVAL and left > 0:
            return
        printed = now
        rate = n / max(now - started, 1e-9)
        # The first jobs include the compilation of kernels, so their rate predicts little.
        seconds = "?" if n < 5 and left > 0 else f"{left / rate:.0f}"
        print(
            f"{title}: {counted_of(done + n, total, 'job')} done, {rate:.1f} jobs/s, "
            f"{seconds} s left (last: {printable(job)})",
            file=file,
            flush=True,
        )

    return advance
