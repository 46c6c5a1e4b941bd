"""Damage one file of a run at random; it must be noticed, and repaired by the same command.

Half of the runs are complete, and half were stopped before their end. One lost file must not lose a
job of a complete run; of a run that was stopped it may lose the jobs of one batch, which are
computed again.
"""

import random
import shutil
from pathlib import Path

from heirloom.errors import HeirloomError
from heirloom.runs.run import repair, run
from heirloom.runs.store import RunStore
from heirloom.runs.stored_run import StoredRun
from tests.attack.outcome import Outcome, run_command
from tests.small_run import FAST, commit

SPEC = FAST.with_changes(repetitions=4)


def attack(folder: Path, count: int, seed: int) -> Outcome:
    """Damage `count` copies of runs."""
    rng, outcome = random.Random(seed), Outcome()
    expected = run(SPEC, folder / "complete", jobs=1)
    store = RunStore(folder / "stopped", SPEC)
    for repetition in range(3):
        commit(store, [(i, repetition) for i in range(3)])
    while outcome.attempts < count:
        is_complete = outcome.attempts % 2 == 0
        source = folder / ("complete" if is_complete else "stopped")
        where = Path(shutil.copytree(source, folder / f"copy{outcome.attempts}"))
        outcome.attempts += 1
        try:
            what = damage_one_file(where, rng)
            status = StoredRun(where).status()
            outcome.unnoticed += not (status.repairable or status.damaged)
            outcome.lost += 12 - len(status.done) if is_complete else len(status.done) < 6
            if rng.random() < 0.5:
                repair(where)
                outcome.unnoticed += bool(StoredRun(where).status().repairable)
            if not run(SPEC, where, jobs=1).identical(expected):
                outcome.wrong += 1
            outcome.unnoticed += not StoredRun(where).status().is_complete
        except Exception as error:  # any exception is a failure of the attack
            kind = "" if isinstance(error, HeirloomError) else "foreign "
            outcome.foreign.append(f"{kind}{what}: {error!r}")
        shutil.rmtree(where)
    return outcome


def damage_one_file(folder: Path, rng: random.Random) -> str:
    """Delete, truncate, overwrite or extend a file of a run, or flip one bit; say what was done."""
    file = rng.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    data = bytearray(file.read_bytes())
    kind = rng.choice(["deleted", "truncated", "overwritten", "extended", *["flipped"] * 4])
    if kind == "deleted" or not data:
        file.unlink()
    elif kind == "truncated":
        file.write_bytes(data[: rng.randrange(len(data))])
    elif kind == "overwritten":
        start = rng.randrange(len(data))
        data[start : start + 100] = rng.randbytes(len(data[start : start + 100]))
        file.write_bytes(data + b"x")
    elif kind == "extended":
        file.write_bytes(data + rng.randbytes(rng.randint(1, 100)))
    else:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        file.write_bytes(data)
    return f"{kind} {file.relative_to(folder)}"


def main(argv):
    """Run the attack and print what happened."""
    return run_command("damage", attack, 300, argv)
