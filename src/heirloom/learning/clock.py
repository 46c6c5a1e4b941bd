"""The processor time of a job, without the time in which kernels are compiled."""

import threading
from time import thread_time

from numba.core import event


class CompileClock(event.Listener, threading.local):
    """Counts the processor seconds in which each thread compiles kernels."""

    depth, begun, seconds = 0, 0.0, 0.0

    def on_start(self, event: event.Event) -> None:
        """Begin to count; a kernel that is compiled within another one counts once."""
        self.begun = self.begun if self.depth else thread_time()
        self.depth += 1

    def on_end(self, event: event.Event) -> None:
        """Stop counting, unless this was within the compilation of another kernel."""
        self.depth -= 1
        self.seconds += 0.0 if self.depth else thread_time() - self.begun


_compile_clock = CompileClock()
event.register("numba:compile", _compile_clock)  # type: ignore[no-untyped-call]


def learning_time() -> float:
    """Return the processor seconds of this thread, without those in which it compiles kernels."""
    return thread_time() - _compile_clock.seconds
