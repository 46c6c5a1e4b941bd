"""Kill single workers of runs at random moments, also while they write results.

The run must continue and complete, with the results of a run that was never disturbed. Results have
megabytes, more than the connection of a worker holds, so that some kills hit the middle of a
message; the attack fails if none does.
"""

import faulthandler
import os
import random
import signal
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from heirloom.errors import WorkerLost
from heirloom.runs.run import run
from heirloom.runs.stored_run import StoredRun
from tests.attack.outcome import Outcome, run_command
from tests.small_run import FAST, processes

SPEC = FAST.with_changes(repetitions=20, episodes=60_000)
MOST_SECONDS = 600  # of a run: afterwards it counts as hanging, and the attack stops
LONGEST_PAUSE = 1.5  # seconds between two kills; longer on a machine where workers start slowly
# After four workers were killed while they computed the same job. Each kill waits for a result, so
# that a run has at most a quarter as many resumptions as jobs, however slow the machine is.
MOST_RESUMPTIONS = SPEC.repetitions * len(SPEC.agents) // 4


def attack(folder: Path, count: int, seed: int) -> Outcome:
    """Run experiments until `count` workers were killed while they had a job."""
    rng, outcome = random.Random(seed), Outcome()
    expected = run(SPEC, folder / "expected", jobs=1)
    started = time.monotonic()
    run(SPEC.with_changes(repetitions=1), folder / "undisturbed", jobs=2)
    longest = max(LONGEST_PAUSE, (time.monotonic() - started) / 2)
    received, broken = _watch_messages()
    while outcome.attempts < count:
        where, complete = folder / f"run{outcome.attempts}", threading.Event()
        killer = threading.Thread(target=_kill, args=(complete, rng, longest, received))
        faulthandler.dump_traceback_later(MOST_SECONDS, exit=True)
        killer.start()
        before = len(broken)
        try:
            if not _completed(where).identical(expected):
                outcome.wrong += 1
            outcome.unnoticed += not StoredRun(where).status().is_complete
        except Exception as error:  # any exception is a failure of the attack
            outcome.foreign.append(repr(error))
        finally:
            complete.set()
            killer.join()
            faulthandler.cancel_dump_traceback_later()
        outcome.attempts += len(broken) - before
        if len(broken) == before:
            outcome.foreign.append("no worker was killed while it had a job")
            break
    if count >= 20 and not any("during message" in text for text in broken):
        outcome.foreign.append("no worker was killed while it wrote a result")
    return outcome


def _completed(where: Path):
    for _ in range(1 + MOST_RESUMPTIONS):
        with suppress(WorkerLost):  # four workers were killed while they computed the same job
            return run(SPEC, where, jobs=2)
    raise AssertionError(f"not complete after {MOST_RESUMPTIONS} resumptions")


def _watch_messages() -> tuple[threading.Event, list[str]]:
    """Return what each message sets, and a list of the failures to read from killed workers."""
    received, broken = threading.Event(), []
    recv_bytes = Connection.recv_bytes

    def watched(self, maxlength=None):
        try:
            message = recv_bytes(self, maxlength)
        except (EOFError, OSError) as error:
            broken.append(repr(error))
            raise
        received.set()
        return message

    Connection.recv_bytes = watched
    return received, broken


def _kill(
    complete: threading.Event, rng: random.Random, longest_pause: float, received: threading.Event
) -> None:
    """Kill workers one after the other, each some time after a result was received."""
    while not complete.wait(rng.uniform(0, longest_pause)):
        if not received.is_set():
            continue
        received.clear()
        workers = [each.pid for each in processes(b"workers.process") if each.parent == os.getpid()]
        if workers:
            with suppress(ProcessLookupError):
                os.kill(rng.choice(workers), signal.SIGKILL)


def main(argv):
    """Run the attack and print what happened."""
    return run_command("workers", attack, 100, argv)
