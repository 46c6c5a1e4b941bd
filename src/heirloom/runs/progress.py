"""How far a run is, on a terminal and in a log."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

EVERY = 10.0  # seconds between two lines in a log

Advance = Callable[[str], None]
"""Called with the name of a unit that is done."""


@contextmanager
def progress(title: str, total: int, done: int, file: TextIO | None = None) -> Iterator[Advance]:
    """Show units as they are done, with their rate and the time left.

    On a terminal there is a bar; in a log there is a line now and then, and one at the end.
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
            rate = f"{n / max(time.monotonic() - started, 1e-9):.1f} units/s"
            bar.update(task, advance=1, rate=rate)

        yield advance


class _Log:
    def __init__(self, title: str, total: int, done: int, file: TextIO) -> None:
        self.title, self.total, self.done, self.file = title, total, done, file
        self.before, self.started = done, time.monotonic()
        self.told = self.started

    def advance(self, job: str) -> None:
        self.done += 1
        now = time.monotonic()
        if now - self.told < EVERY and self.done < self.total:
            return
        self.told = now
        rate = (self.done - self.before) / max(now - self.started, 1e-9)
        few = self.done - self.before < 5 and self.done < self.total  # compiled only just now
        left = "?" if few else f"{(self.total - self.done) / rate:.0f}"
        print(
            f"{self.title}: {self.done} of {self.total} units done, {rate:.1f} units/s, "
            f"{left} s left (last: {job})",
            file=self.file,
            flush=True,
        )
