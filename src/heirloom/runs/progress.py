"""Show the progress of a run, on a terminal or in a log."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

LOG_INTERVAL = 10.0  # seconds between two lines in a log

Advance = Callable[[str], None]
"""Report that a job is complete; the argument describes the job."""


@contextmanager
def progress(title: str, total: int, done: int, file: TextIO | None = None) -> Iterator[Advance]:
    """Show how many jobs are complete, how many are computed per second, and the time left.

    A terminal shows a progress bar. Any other file gets a line every `LOG_INTERVAL` seconds or so,
    and one at the end.

    Args:
        title: name of the run.
        total: number of jobs of the run.
        done: number of jobs that are already complete.
        file: where progress is shown; standard error by default.
    """
    file = sys.stderr if file is None else file
    if not file.isatty():
        log = _Log(title, total, done, file)
        yield log.advance
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(file=file)) as bar:
        task = bar.add_task(title, total=total, completed=done, rate="")
        started, n = time.monotonic(), 0

        def advance(job: str) -> None:
            nonlocal n
            n += 1
            rate = f"{n / max(time.monotonic() - started, 1e-9):.1f} jobs/s"
            bar.update(task, advance=1, rate=rate)

        yield advance


class _Log:
    def __init__(self, title: str, total: int, done: int, file: TextIO) -> None:
        self.title, self.total, self.done, self.file = title, total, done, file
        self.done_before, self.started = done, time.monotonic()
        self.last_printed = self.started

    def advance(self, job: str) -> None:
        self.done += 1
        now = time.monotonic()
        if now - self.last_printed < LOG_INTERVAL and self.done < self.total:
            return
        self.last_printed = now
        rate = (self.done - self.done_before) / max(now - self.started, 1e-9)
        # The first jobs include the compilation of kernels, so their rate predicts little.
        too_early = self.done - self.done_before < 5 and self.done < self.total
        left = "?" if too_early else f"{(self.total - self.done) / rate:.0f}"
        print(
            f"{self.title}: {self.done} of {self.total} jobs done, {rate:.1f} jobs/s, "
            f"{left} s left (last: {job})",
            file=self.file,
            flush=True,
        )
