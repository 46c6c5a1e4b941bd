"""Open a SQLite file that may be damaged or hostile, and that another process may be writing.

SQLite follows links, waits at pipes, and deletes or overwrites side files that it takes for its
own. The file and its side files are therefore checked before SQLite opens them. A connection
executes nothing that the file defines, attaches no other file, and, to read, allocates no
value that is larger than the file.

The journal is a rollback journal (`docs/files.md` says why). After a kill it may be the only way
back to the last commit. A reader, which may not be able to write, applies it to a copy.
"""

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from heirloom.errors import CannotWrite, HeirloomError, InvalidFile
from heirloom.storage.files import regular_file

JOURNAL = "-journal"
OF_OTHER_MODES = ("-wal", "-shm")
JOURNAL_START = bytes.fromhex("d9d505f920a163d7")
DATABASE_START = b"SQLite format 3\0"
MODES, OF_ROLLBACK = slice(18, 20), b"\1\1"  # bytes that say how a database is written and read
LARGEST_VALUE = 10**9  # bytes of a value or a row; a limit of SQLite
READER_WAITS, WRITER_WAITS = 60.0, 600.0  # seconds; a reader waits for one commit
NOT_NOW = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
ATTEMPTS = 10  # to copy a file that another process changes
CHECKS = ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0")
DURABLE = ("journal_mode = DELETE", "synchronous = EXTRA", "fullfsync = ON")
"""A commit is on the disk when it returns: SQLite syncs the journal, then the file, then deletes
the journal and syncs the folder (`EXTRA`)."""


class Damaged(InvalidFile):
    """A database is damaged, or is not what it should be."""


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Connect to a database in order to read it; none of its files is changed."""
    with ExitStack() as stack, _errors_of(path, InvalidFile):
        connection = stack.enter_context(_connected(path, "ro"))
        try:
            connection.execute("PRAGMA schema_version")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_READONLY_ROLLBACK:
                raise
            folder = Path(stack.enter_context(TemporaryDirectory()))
            connection = stack.enter_context(_connected(copied(path, folder), "rw"))
        limit_values(connection)
        yield connection


@contextmanager
def writing(path: Path) -> Iterator[sqlite3.Connection]:
    """Connect to an existing database; what the block executes is committed as a whole."""
    with _errors_of(path, CannotWrite), _connected(path, "rw") as connection:
        for setting in DURABLE:
            connection.execute(f"PRAGMA {setting}")
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("COMMIT")


def create(path: Path) -> None:
    """Create an empty file for a database; raise `CannotWrite` if there is something already."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except OSError as error:
        raise CannotWrite(
            f"{path} could not be created ({error.strerror}): choose a folder that you may write to"
        ) from error


def copied(path: Path, folder: Path, change: Callable[[Path], None] | None = None) -> Path:
    """Copy a database, and the journal that belongs to it, to a folder; return the copy.

    The copy may be changed before it is given its journal.
    """
    journal, copy = path.with_name(path.name + JOURNAL), folder / path.name
    for _ in range(ATTEMPTS):
        before = _identity(path), _identity(journal)
        shutil.copyfile(path, copy, follow_symlinks=False)
        if change is not None:
            change(copy)
        if before[1] is not None:
            _check_journal(path, journal)
            shutil.copyfile(journal, folder / journal.name, follow_symlinks=False)
        if before == (_identity(path), _identity(journal)):
            return copy
    raise InvalidFile(f"{path} changed while it was read: wait until the run has ended")


@contextmanager
def _connected(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    found = check_files(path, alone=mode == "rw")
    _check_mode(path)
    waits = READER_WAITS if mode == "ro" else WRITER_WAITS
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=waits, isolation_level=None)
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, 10**5)
        for setting in CHECKS:
            connection.execute(f"PRAGMA {setting}")
        if not os.path.samestat(found, os.lstat(path)):
            raise InvalidFile(f"{path} was replaced while it was opened: try again")
        yield connection
    finally:
        connection.close()


def check_files(path: Path, *, alone: bool = False) -> os.stat_result:
    """Return the status of a database; raise `InvalidFile` unless SQLite may open its files."""
    found = regular_file(path, alone=alone)
    if found is None:
        raise InvalidFile(f"{path} does not exist: check the path")
    for ending in OF_OTHER_MODES:
        if os.path.lexists(f"{path}{ending}"):
            raise InvalidFile(
                f"{path}{ending} was not written by Heirloom, and SQLite would take it for a part "
                "of the run: move it away"
            )
    journal = path.with_name(path.name + JOURNAL)
    if regular_file(journal, alone=alone) is not None:
        _check_journal(path, journal)
    return found


def _check_mode(path: Path) -> None:
    """Raise `Damaged` if SQLite would write side files in order to read a database."""
    start = _read(path)[0]
    if start.startswith(DATABASE_START) and start[MODES] != OF_ROLLBACK:
        raise Damaged(
            f"{path} is not in the journal mode of a run: repeat the command that started the run, "
            "which keeps this file and makes a new one"
        )


def was_never_committed(path: Path) -> bool:
    """Return whether the journal of a database leads back to an empty file."""
    journal = path.with_name(path.name + JOURNAL)
    start = b"" if regular_file(journal) is None else _read(journal)[0]
    return start.startswith(JOURNAL_START) and start[16:20] == bytes(4)


def _check_journal(path: Path, journal: Path) -> None:
    """Raise `InvalidFile` unless a journal is one that Heirloom left behind.

    A journal can name a second one, which SQLite would delete, and a size to which SQLite would
    extend the database.
    """
    start, end = _read(journal)
    size = path.lstat().st_size  # after the journal is read: a commit may end in between
    pages, page_size = int.from_bytes(start[16:20]), int.from_bytes(start[24:28])
    is_hot = start[:1] not in (b"", b"\0")  # otherwise SQLite ignores it
    if is_hot and (not start.startswith(JOURNAL_START) or end == JOURNAL_START):
        problem = "is damaged, or was not written by Heirloom"
    elif is_hot and pages * page_size > size:
        problem = "does not belong to the run"
    else:
        return
    raise InvalidFile(
        f"{journal} {problem}: move it away, then run the same command again, which computes the "
        "jobs again that are lost"
    )


def _read(path: Path) -> tuple[bytes, bytes]:
    """Return the first 28 and the last 8 bytes of a file; both are empty if it has just gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:  # another process has just committed
        return b"", b""
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read ({error.strerror}): check it") from error
    with open(descriptor, "rb") as file:
        start = file.read(28)
        file.seek(max(0, os.fstat(descriptor).st_size - 8))
        return start, file.read()


def _identity(path: Path) -> tuple[int, ...] | None:
    found = regular_file(path)
    return None if found is None else (found.st_ino, found.st_size, found.st_mtime_ns)


def limit_values(connection: sqlite3.Connection) -> None:
    """Let no value that is read be larger than the file, which may have grown."""
    file = connection.execute("PRAGMA database_list").fetchone()[2]
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(os.stat(file).st_size, 10**6))


def raise_unless_damage(error: sqlite3.Error) -> None:
    """Raise an error of SQLite again, unless it means that what was read is damaged."""
    if _code(error) in (*NOT_NOW, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT):
        raise error


def _code(error: sqlite3.Error) -> int:
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF


@contextmanager
def _errors_of(path: Path, error_type: type[HeirloomError]) -> Iterator[None]:
    """Re-raise errors of SQLite as `Damaged`, or as an error of this type."""
    try:
        yield
    except sqlite3.Error as error:
        code = _code(error)
        if code in NOT_NOW:
            problem, remedy = "is in use by another program", "end that program, and try again"
        elif code == sqlite3.SQLITE_FULL:
            problem = "could not be written (No space left on device)"
            remedy = "free some space, and repeat the command to resume"
        elif code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR):
            problem = f"could not be {'written' if error_type is CannotWrite else 'read'} ({error})"
            remedy = "check the disk and your permissions, and repeat the command"
        else:
            raise Damaged(
                f"{path} is damaged, or is not a run of Heirloom ({error}): if it is a run, repeat "
                "the command that started it, which keeps this file and computes what is lost"
            ) from error
        raise error_type(f"{path} {problem}: {remedy}") from error
    except OSError as error:
        if isinstance(error, HeirloomError):
            raise
        raise error_type(f"{path} could not be opened ({error.strerror}): check it") from error
