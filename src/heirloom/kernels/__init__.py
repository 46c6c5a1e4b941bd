"""Compiled inner loops: they take plain arrays and write their results in place.

A model is passed as compressed sparse rows. Row `k = s * A + a` holds the successors of the pair
(s, a): `successors[indptr[k]:indptr[k + 1]]`, with probabilities `p`. A row may sum to less than 1;
the remainder is the probability of termination, which leads to the absorbing terminal state ⊥
(value 0).

Numba caches compiled code on disk. The first compilation takes up to half a minute and is announced
once, through the logger `heirloom` (on the standard error if logging is not configured).
"""

import logging
from multiprocessing import current_process

from numba.core import event


class CompilationNotice(event.Listener):
    """Log one message when the first kernel is compiled; worker processes log nothing."""

    announced = False

    def on_start(self, event: event.Event) -> None:
        """Log the message, unless it was logged before or the function is not one of ours."""
        function = event.data["dispatcher"].py_func
        if self.announced or not function.__module__.startswith(__name__ + "."):
            return
        self.announced = True
        if current_process().name == "MainProcess":
            # Python shows warnings even if logging is not configured, but no lower levels.
            logging.getLogger("heirloom").warning(
                "heirloom: compiling numerical code, which takes up to half a minute; "
                "the result is cached on disk"
            )

    def on_end(self, event: event.Event) -> None:
        """Do nothing."""


event.register("numba:compile", CompilationNotice())  # type: ignore[no-untyped-call]
