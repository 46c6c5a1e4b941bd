"""Kill runs at random moments with SIGKILL, resume them, and compare the results.

Every third run is also damaged between the kill and the resumption. A job that the manifest listed
when the run was killed must still be complete, unless both copies of it were damaged.
"""

import os
import random
import signal
import time
from pathlib import Path

from heirloom.errors import HeirloomError
from heirloom.runs.run import run
from heirloom.runs.stored_run import StoredRun
from tests.attack.damage import damage_one_file
from tests.attack.outcome import Outcome, run_command
from tests.small_run import FAST, jobs_done

SPEC = FAST.with_changes(repetitions=60, episodes=400)
KILLS_PER_RUN = 10


def attack(folder: Path, count: int, seed: int) -> Outcome:
    """Kill `count` times; a run is killed ten times, and then completed."""
    rng, outcome = random.Random(seed), Outcome()
    expected = run(SPEC, folder / "expected", jobs=1)
    while outcome.attempts < count:
        where = folder / f"run{outcome.attempts}"
        for _ in range(min(KILLS_PER_RUN, count - outcome.attempts)):
            _kill_once(where, rng, outcome)
        try:
            if not run(SPEC, where, jobs=1).identical(expected):
                outcome.wrong += 1
            outcome.unnoticed += not StoredRun(where).status().is_complete
            outcome.foreign += [str(path) for path in where.rglob(".*")]  # temporary files
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
        for path in sorted(where.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    outcome.attempts += 1
    listed = jobs_done(where)
    if not listed:
        return
    try:
        found = StoredRun(where).status()
        outcome.lost += max(0, listed - len(found.done)) + len(found.damaged)
        if outcome.attempts % 3 == 0:
            damage_one_file(where, rng)
            outcome.unnoticed += StoredRun(where).status().is_complete
    except HeirloomError as error:
        outcome.foreign.append(repr(error))


def main(argv):
    """Run the attack and print what happened."""
    return run_command("kills", attack, 100, argv)
