"""Compiled inner loops: plain arrays in, results written in place, no objects.

A model is passed as its rows in compressed form: row `k = s * A + a` holds the transitions of the
pair (s, a) that go on, `indptr[k]:indptr[k + 1]` of `successors` and `p`. What is missing to one
ends the episode and is worth nothing.

Compiled code is kept on disk. Where it is not there yet, compiling takes up to half a minute, and
that is said, once, in the log of `heirloom`: on the standard error, unless logging is set up.
"""

import logging
from multiprocessing import current_process

from numba.core import event


class Announcement(event.Listener):
    """Says that a kernel is being compiled, once, and not in workers too."""

    told = False

    def on_start(self, event: event.Event) -> None:
        """A function that is not on disk is about to be compiled."""
        function = event.data["dispatcher"].py_func
        if self.told or not function.__module__.startswith(__name__ + "."):
            return
        self.told = True
        if current_process().name == "MainProcess":
            # A warning, for that is the least that Python shows by itself.
            logging.getLogger("heirloom").warning(
                "heirloom: compiling, which takes up to half a minute; the result is kept on disk"
            )

    def on_end(self, event: event.Event) -> None:
        """Nothing is said."""


event.register("numba:compile", Announcement())  # type: ignore[no-untyped-call]
