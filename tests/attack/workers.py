"""Kill single workers of runs at random moments, also while they write results.

The run must go on and complete, with the results of a run that was never disturbed.
"""

import os
import random
import signal
import threading
from pathlib import Path

from heirloom.errors import WorkerLost
from heirloom.runs.run import run
from heirloom.runs.stored_run import StoredRun
from tests.attack.outcome import Outcome, run_command
from tests.small_run import FAST

SPEC = FAST.with_changes(repetitions=60, episodes=4000)


def attack(folder: Path, count: int, seed: int) -> Outcome:
    """Run experiments until `count` workers were killed."""
    rng, outcome = random.Random(seed), Outcome()
    expected = run(SPEC, folder / "expected", jobs=1)
    while outcome.attempts < count:
        where, complete = folder / f"run{outcome.attempts}", threading.Event()
        killer = threading.Thread(target=_kill, args=(complete, rng, outcome))
        killer.start()
        try:
            if not _completed(where).identical(expected):
                outcome.wrong += 1
            outcome.unnoticed += not StoredRun(where).status().is_complete
        except Exception as error:  # any exception is a failure of the attack
            outcome.foreign.append(repr(error))
        finally:
            complete.set()
            killer.join()
    return outcome


def _completed(where: Path):
    while True:
        try:
            return run(SPEC, where, jobs=2)
        except WorkerLost:  # four workers were killed while they computed the same job
            continue


def _kill(complete: threading.Event, rng: random.Random, outcome: Outcome) -> None:
    while not complete.wait(rng.uniform(0, 3.0)):
        workers = _workers()
        if workers:
            os.kill(rng.choice(workers), signal.SIGKILL)
            outcome.attempts += 1


def _workers() -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat, command = (folder / "stat").read_text(), (folder / "cmdline").read_bytes()
        except OSError:  # the process has ended
            continue
        state, parent = stat.rsplit(")", 1)[1].split()[:2]
        if int(parent) == os.getpid() and b"LokyProcess" in command and state != "Z":
            found.append(int(folder.name))
    return found


def main(argv):
    """Run the attack and print what happened."""
    return run_command("workers", attack, 100, argv)
