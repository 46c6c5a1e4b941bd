"""Damage the file of a run at random; results must stay right, and no intact job be lost.

A third of the runs are complete, a third were stopped, and a third were killed during a commit, so
that a journal lies beside the file. A change of bytes that contain nothing need not be noticed; all
others must be, and the same command must complete the run with the same bits, and keep the damaged
file.
"""

import os
import random
import shutil
import sqlite3
from pathlib import Path

from heirloom.errors import HeirloomError
from heirloom.runs.run import run
from heirloom.runs.store import RunStore
from heirloom.runs.stored_run import StoredRun
from tests.attack.outcome import Outcome, run_command
from tests.small_run import FAST, commit

SPEC = FAST.with_changes(repetitions=4)


def attack(folder: Path, count: int, seed: int) -> Outcome:
    """Damage `count` copies of runs."""
    rng, outcome = random.Random(seed), Outcome()
    expected = run(SPEC, folder / "complete", jobs=1)
    commit(RunStore(folder / "stopped", SPEC), [(i, j) for i in range(3) for j in range(3)])
    shutil.copytree(folder / "stopped", folder / "killed")
    _kill_during_a_commit(folder / "killed" / "run.sqlite")
    while outcome.attempts < count:
        name = ("complete", "stopped", "killed")[outcome.attempts % 3]
        where = Path(shutil.copytree(folder / name, folder / f"copy{outcome.attempts}"))
        outcome.attempts += 1
        done = set(StoredRun(where).status().done)
        what = damage_one_file(where, rng)
        try:
            _check(where, what, done, expected, outcome)
        except Exception as error:  # any exception is a failure of the attack
            kind = "" if isinstance(error, HeirloomError) else "foreign "
            outcome.foreign.append(f"{kind}{name}, {what}: {error!r}")
        shutil.rmtree(where)
    return outcome


def _check(where: Path, what: str, done: set, expected, outcome: Outcome) -> None:
    journal = where / "run.sqlite-journal"
    damaged = (where / "run.sqlite").read_bytes()
    try:
        status = StoredRun(where).status()
        is_noticed = not status.is_intact or set(status.done) != done
        outcome.wrong += not set(status.done) <= done
    except HeirloomError:
        is_noticed = True
    results = None
    while results is None:
        try:
            results = run(SPEC, where, jobs=1)
        except HeirloomError as error:
            is_beyond_reading = len(damaged) < 3 * 4096 or (where / "journal").exists()
            if journal.name in str(error) and "move it away" in str(error):
                journal.rename(where / "journal")  # as the message asks for
            elif "damaged, or is not a run of Heirloom" in str(error) and is_beyond_reading:
                (where / "run.sqlite").rename(where / "kept")
            else:
                raise
    outcome.wrong += not results.identical(expected)
    outcome.unnoticed += not StoredRun(where).status().is_complete
    kept = [path.read_bytes() for path in where.glob("*") if path.name != "run.sqlite"]
    if is_noticed and what != "deleted" and not journal.exists() and what.endswith(".sqlite"):
        outcome.lost += damaged not in kept


def _kill_during_a_commit(file: Path) -> None:
    """Leave a journal that takes back half of a transaction."""
    child = os.fork()
    if child == 0:
        connection = sqlite3.connect(file, isolation_level=None)
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE job SET returns = zeroblob(9000)")
        os._exit(0)
    os.waitpid(child, 0)
    assert (file.parent / "run.sqlite-journal").stat().st_size > 512


def damage_one_file(folder: Path, rng: random.Random) -> str:
    """Truncate, overwrite or extend a file of a run, or flip one bit; say what was done."""
    file = rng.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    data = bytearray(file.read_bytes())
    kind = rng.choice(["truncated", "overwritten", "extended", *["flipped"] * 4])
    if kind == "truncated":
        file.write_bytes(data[: rng.randrange(1, len(data))])
    elif kind == "overwritten":
        start = rng.randrange(len(data))
        data[start : start + 100] = rng.randbytes(len(data[start : start + 100]))
        file.write_bytes(data)
    elif kind == "extended":
        file.write_bytes(data + rng.randbytes(rng.randint(1, 100)))
    else:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        file.write_bytes(data)
    return f"{kind} {file.relative_to(folder)}"


def main(argv):
    """Run the attack and print what happened."""
    return run_command("damage", attack, 300, argv)
