"""Kill runs at random moments with SIGKILL, resume them, and compare the results.

A job that was committed when the run was killed must still be complete, whether or not a journal
was left behind.
"""

import os
import random
import signal
import time
from pathlib import Path

from heirloom.errors import HeirloomError
from heirloom.runs import store as stores
from heirloom.runs.run import run
from heirloom.runs.stored_run import StoredRun
from tests.attack.outcome import Outcome, run_command
from tests.small_run import FAST, jobs_done

SPEC = FAST.with_changes(repetitions=60, episodes=400)
stores.INTERVAL = 0.02  # seconds, so that many kills hit a commit
KILLS_PER_RUN = 10


def attack(folder: Path, count: int, seed: int) -> Outcome:
    """Kill `count` times; a run is killed ten times, and then completed."""
    rng, outcome = random.Random(seed), Outcome()
    expected = run(SPEC, folder / "expected", jobs=1)
    while outcome.attempts < count:
        where, outcome.before = folder / f"run{outcome.attempts}", 0
        for _ in range(min(KILLS_PER_RUN, count - outcome.attempts)):
            _kill_once(where, rng, outcome)
        try:
            if not run(SPEC, where, jobs=1).identical(expected):
                outcome.wrong += 1
            outcome.unnoticed += not StoredRun(where).status().is_complete
            outcome.foreign += [each for each in os.listdir(where) if each != "run.sqlite"]
        except Exception as error:  # any exception is a failure of the attack
            outcome.foreign.append(repr(error))
    return outcome


def _kill_once(where: Path, rng: random.Random, outcome: Outcome) -> None:
    while True:
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            run(SPEC, where, jobs=1)
            os._exit(0)
        time.sleep(rng.uniform(0, 1.0))
        os.kill(child, signal.SIGKILL)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL:
            break  # otherwise the run was complete before
        outcome.before = 0
        for path in where.iterdir():
            path.unlink()
    outcome.attempts += 1
    try:
        found = StoredRun(where).status()
    except HeirloomError as error:
        if "there is no run in" not in str(error):  # it was killed before its first commit
            outcome.foreign.append(repr(error))
        return
    committed = jobs_done(where)
    outcome.lost += max(0, committed - len(found.done)) + len(found.damaged)
    outcome.wrong += not found.is_intact or len(found.done) < outcome.before
    outcome.before = len(found.done)


def main(argv):
    """Run the attack and print what happened."""
    return run_command("kills", attack, 100, argv)
