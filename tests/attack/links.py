"""Put links and special files into the folder of a run: nothing foreign may change, or be awaited.

Each attack prepares a folder, and then the run is read, resumed, reported and replaced. Every
command must end within seconds, with a result or an error of Heirloom, and every file that is not
Heirloom's must be as before.
"""

import os
import signal
import socket
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from heirloom.errors import HeirloomError
from heirloom.runs.run import run
from heirloom.runs.store import RunStore
from heirloom.runs.stored_run import StoredRun
from tests.attack.outcome import Outcome, run_command
from tests.small_run import FAST, commit

SPEC = FAST.with_changes(repetitions=2)
MOST_SECONDS = 600  # of a command, also on a machine that is busy
MOST_MEMORY = 2**32  # bytes of addresses; a device never ends


def _replaced(name: str, make: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
    def prepare(folder: Path, mine: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).parent.mkdir(exist_ok=True)
        make(folder / name, mine)

    return prepare


def _link(path: Path, mine: Path) -> None:
    path.symlink_to(mine / "thesis.txt")


def _link_to_folder(path: Path, mine: Path) -> None:
    path.symlink_to(mine)


def _link_to_device(path: Path, mine: Path) -> None:
    path.symlink_to("/dev/zero")


def _broken_link(path: Path, mine: Path) -> None:
    path.symlink_to(mine / "missing")


def _hard_link(path: Path, mine: Path) -> None:
    os.link(mine / "thesis.txt", path)


def _link_to_database(path: Path, mine: Path) -> None:
    path.symlink_to(mine / "other.sqlite")


def _pipe(path: Path, mine: Path) -> None:
    os.mkfifo(path)


def _folder(path: Path, mine: Path) -> None:
    path.mkdir()
    (path / "notebook.ipynb").write_text("mine")


def _socket(path: Path, mine: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(path.parent)  # the name of a socket has at most 107 bytes
        server.bind(path.name)
        os.chdir(here)


def _foreign(path: Path, mine: Path) -> None:
    path.write_text("my notes")


def _super_journal(path: Path, mine: Path) -> None:
    """Write a journal that makes SQLite delete a file, after a run that was killed."""
    name, magic = os.fsencode(mine / "thesis.txt"), bytes.fromhex("d9d505f920a163d7")
    head = magic + b"\xff\xff\xff\xff" + bytes(4) + (1).to_bytes(4) + (512).to_bytes(4)
    body = (head + (4096).to_bytes(4)).ljust(512, b"\0")
    named = name + len(name).to_bytes(4) + sum(name).to_bytes(4) + magic
    path.write_bytes(body + (2**30 // 4096 + 1).to_bytes(4) + named)


DATABASE, JOURNAL, LOCK = "run.sqlite", "run.sqlite-journal", "run.lock"
ATTACKS: dict[str, Callable[[Path, Path], None]] = {
    "database is a link to a file": _replaced(DATABASE, _link),
    "database is a link to a database": _replaced(DATABASE, _link_to_database),
    "database is a broken link": _replaced(DATABASE, _broken_link),
    "database is a hard link": _replaced(DATABASE, _hard_link),
    "database is a link to a device": _replaced(DATABASE, _link_to_device),
    "database is a pipe": _replaced(DATABASE, _pipe),
    "database is a folder": _replaced(DATABASE, _folder),
    "database is a socket": _replaced(DATABASE, _socket),
    "journal is a link": _replaced(JOURNAL, _link),
    "journal is a hard link": _replaced(JOURNAL, _hard_link),
    "journal is a pipe": _replaced(JOURNAL, _pipe),
    "journal is a link to a device": _replaced(JOURNAL, _link_to_device),
    "journal is a folder": _replaced(JOURNAL, _folder),
    "journal is a user's file": _replaced(JOURNAL, _foreign),
    "journal names a file to delete": _replaced(JOURNAL, _super_journal),
    "log is a link": _replaced(f"{DATABASE}-wal", _link),
    "log is a user's file": _replaced(f"{DATABASE}-wal", _foreign),
    "index of a log is a pipe": _replaced(f"{DATABASE}-shm", _pipe),
    "lock is a link": _replaced(LOCK, _link),
    "lock is a broken link": _replaced(LOCK, _broken_link),
    "lock is a hard link": _replaced(LOCK, _hard_link),
    "lock is a pipe": _replaced(LOCK, _pipe),
    "lock is a link to a device": _replaced(LOCK, _link_to_device),
    "lock is a user's file": _replaced(LOCK, _foreign),
    "new database is a link": _replaced("run.sqlite.new", _link),
    "new database is a pipe": _replaced("run.sqlite.new", _pipe),
    "folder has a user's files": _replaced("returns/notebook.ipynb", _foreign),
    "folder has a link to a folder": _replaced("batches", _link_to_folder),
    "figures are a link": _replaced("figures", _link_to_folder),
    "a figure is a link": _replaced("figures/tasks.png", _link),
    "report is a link": _replaced("report.html", _link),
    "report is a pipe": _replaced("report.html", _pipe),
    "summary is a link": _replaced("summary.json", _link),
    "summary is a pipe": _replaced("summary.json", _pipe),
}


def failures_of(name: str, where: Path) -> list[str]:
    """Prepare a folder, use it with every command, and return what went wrong."""
    folder, mine = where / "run", where / "mine"
    mine.mkdir(parents=True)
    (mine / "thesis.txt").write_text("all of it")
    connection = sqlite3.connect(mine / "other.sqlite")
    connection.execute("CREATE TABLE notes (text)")
    connection.commit()
    connection.close()
    commit(RunStore(folder, SPEC), [(0, 0), (1, 0)])
    if name.startswith("new database"):  # which is made only from a damaged one
        data = bytearray((folder / DATABASE).read_bytes())
        data[-2000] ^= 1
        (folder / DATABASE).write_bytes(data)
    ATTACKS[name](folder, mine)
    before = _foreign_files(where)
    failures = []
    for command in (_status, _results, _report, _resume, _write_outputs, _status):
        child = os.fork()
        if child == 0:
            os._exit(_exit_status(command, folder))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            failures.append(f"{name}: {command.__name__} ended with {status}")
    after = _foreign_files(where)
    failures += [f"{name}: {path} changed" for path in before if before[path] != after.get(path)]
    return failures


def _exit_status(command: Callable[[Path], object], folder: Path) -> int:
    """Return 0 if a command succeeds or is refused in Heirloom's own words."""
    import resource

    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    signal.alarm(MOST_SECONDS)
    with suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    try:
        command(folder)
    except HeirloomError:
        return 0
    except BaseException:
        return 1
    return 0


def _status(folder: Path) -> None:
    StoredRun(folder).status()


def _results(folder: Path) -> None:
    StoredRun(folder).results()


def _resume(folder: Path) -> None:
    run(SPEC, folder, jobs=1)


def _report(folder: Path) -> None:
    from heirloom.report.sources import read_sources

    read_sources(folder)


def _write_outputs(folder: Path) -> None:
    from heirloom.storage.files import write_output

    failed = None
    for name in ("figures/tasks.png", "report.html", "summary.json"):
        try:
            write_output(folder, name, b"ours")
        except HeirloomError as error:
            failed = error
    if failed is not None:
        raise failed


def _foreign_files(where: Path) -> dict[Path, object]:
    """Describe everything that Heirloom did not write: kinds, targets and contents."""
    found: dict[Path, object] = {}
    for path in sorted(where.rglob("*")):
        regular = path.is_file() and not path.is_symlink()
        is_ours = regular and path.stat().st_nlink == 1 and path.parent == where / "run"
        if is_ours and path.read_bytes() != b"my notes":
            continue  # a file that Heirloom may replace
        content = path.read_bytes() if regular else os.readlink(path) if path.is_symlink() else None
        found[path] = (os.lstat(path).st_mode, content)
    return found


def attack(folder: Path, count: int, seed: int) -> Outcome:
    """Carry out all attacks, and the first of them again until there were `count`."""
    outcome, names = Outcome(), list(ATTACKS)
    while outcome.attempts < max(count, len(names)):
        name = names[outcome.attempts % len(names)]
        outcome.foreign += failures_of(name, folder / str(outcome.attempts))
        outcome.attempts += 1
    return outcome


def main(argv):
    """Run the attack and print what happened."""
    return run_command("links", attack, len(ATTACKS), argv)
