"""A SQLite file is opened safely, and what is committed to it is on the disk."""

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest

import heirloom as hl
from heirloom.storage import database
from heirloom.storage.database import Damaged, create, reading, writing


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.sqlite"
    create(path)
    with writing(path) as connection:
        connection.execute("CREATE TABLE numbers (n)")
        connection.execute("INSERT INTO numbers VALUES (1)")
    return path


def numbers(path):
    with reading(path) as connection:
        return [n for (n,) in connection.execute("SELECT n FROM numbers ORDER BY n")]


def test_settings_that_durability_needs_are_in_force_while_writing(file):
    """SQLite then syncs the journal, the file, and the folder after the journal is deleted."""
    with writing(file) as connection:
        found = {
            name: connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "fullfsync", "locking_mode")
        }
    assert found == {
        "journal_mode": "delete",
        "synchronous": 3,  # EXTRA
        "fullfsync": 1,
        "locking_mode": "normal",
    }


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace shows what is synced")
def test_commit_syncs_the_journal_the_file_and_the_folder(file, tmp_path):
    program = (
        "import sys; from pathlib import Path; from heirloom.storage.database import writing\n"
        "with writing(Path(sys.argv[1])) as connection:\n"
        "    connection.execute('INSERT INTO numbers VALUES (2)')"
    )
    trace = tmp_path / "trace"
    options = ["-f", "-y", "-e", "trace=fsync,fdatasync,unlink", "-o", str(trace)]
    subprocess.run(["strace", *options, sys.executable, "-c", program, str(file)], check=True)
    calls = [line.split(maxsplit=1)[1] for line in trace.read_text().splitlines()]
    of_file = [call for call in calls if str(tmp_path) in call]
    kinds = ["unlink" if c.startswith("unlink") else "sync" for c in of_file]
    assert kinds[-2:] == ["unlink", "sync"]  # the journal is deleted, then the folder is synced
    assert f"<{tmp_path}>" in of_file[-1]
    assert any("-journal>" in call for call in of_file)
    assert any(f"<{file}>" in call for call in of_file)


def test_connection_executes_nothing_of_the_file_and_attaches_nothing(file, tmp_path):
    with reading(file) as connection:
        settings = [
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("trusted_schema", "cell_size_check")
        ]
        assert settings == [0, 1]
        with pytest.raises(sqlite3.OperationalError, match="too many attached databases"):
            connection.execute(f"ATTACH '{tmp_path / 'other'}' AS other")
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("INSERT INTO numbers VALUES (2)")
        limit = connection.getlimit(sqlite3.SQLITE_LIMIT_LENGTH)
        assert limit == max(file.stat().st_size, 10**6)
        with pytest.raises(sqlite3.DataError, match="too big"):
            connection.execute("SELECT zeroblob(10000000)").fetchone()


def test_block_that_fails_commits_nothing(file):
    def fail():
        with writing(file) as connection:
            connection.execute("INSERT INTO numbers VALUES (2)")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert numbers(file) == [1]
    assert os.listdir(file.parent) == [file.name]


def hot(file):
    """Kill a process in the middle of a commit, so that it leaves a hot journal."""
    program = """
import os, sqlite3, sys
c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.execute("PRAGMA cache_size = 1")
c.execute("BEGIN IMMEDIATE")
c.execute("UPDATE numbers SET n = 7")
c.executemany("INSERT INTO numbers VALUES (?)", ((bytes(5000),) for _ in range(50)))
os._exit(9)
"""
    assert subprocess.run([sys.executable, "-c", program, str(file)]).returncode == 9
    journal = file.with_name(file.name + "-journal")
    assert journal.read_bytes().startswith(database.JOURNAL_START)
    return journal


@pytest.mark.parametrize("read_only", [False, True])
def test_reader_sees_the_last_commit_after_a_kill_and_changes_nothing(file, read_only):
    hot(file)
    before = {path: path.read_bytes() for path in file.parent.iterdir()}
    if read_only:
        file.parent.chmod(0o500)
    try:
        assert numbers(file) == [1]
    finally:
        file.parent.chmod(0o700)
    assert {path: path.read_bytes() for path in file.parent.iterdir()} == before
    with writing(file) as connection:
        connection.execute("INSERT INTO numbers VALUES (2)")
    assert numbers(file) == [1, 2]
    assert os.listdir(file.parent) == [file.name]


def test_journal_that_names_a_second_one_is_refused(file, tmp_path):
    """SQLite would delete the file that it names."""
    journal, victim = hot(file), tmp_path / "victim"
    victim.write_bytes(b"a thesis")
    name = os.fsencode(victim)
    lock_page = (2**30 // 4096 + 1).to_bytes(4)
    end = lock_page + name + len(name).to_bytes(4) + sum(name).to_bytes(4) + database.JOURNAL_START
    journal.write_bytes(journal.read_bytes() + end)
    for opened in (reading, writing):
        with pytest.raises(hl.errors.InvalidFile, match="was not written by Heirloom"):
            opened(file).__enter__()
    assert victim.exists()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("SELECT * FROM numbers")  # what SQLite itself does
    assert not victim.exists()


def test_journal_that_would_extend_the_file_is_refused(file):
    journal = hot(file)
    data = bytearray(journal.read_bytes())
    data[16:20] = (2**31).to_bytes(4)
    journal.write_bytes(data)
    with pytest.raises(hl.errors.InvalidFile, match="does not belong to the run"):
        reading(file).__enter__()


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
def test_foreign_side_file_is_refused_and_kept(file, ending):
    side = file.with_name(file.name + ending)
    side.write_bytes(b"my notes")
    for opened in (reading, writing):
        with pytest.raises(hl.errors.InvalidFile, match="was not written by Heirloom"):
            opened(file).__enter__()
    assert side.read_bytes() == b"my notes"


def test_reader_waits_for_a_commit(file):
    started = threading.Event()

    def commit_slowly():
        connection = sqlite3.connect(file, isolation_level=None)
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("INSERT INTO numbers VALUES (2)")
        started.set()
        time.sleep(0.5)
        connection.execute("COMMIT")
        connection.close()

    thread = threading.Thread(target=commit_slowly)
    thread.start()
    started.wait()
    assert numbers(file) == [1, 2]
    thread.join()


@pytest.mark.parametrize(
    ("kind", "waits", "error"),
    [
        ("read", "READER_WAITS", hl.errors.InvalidFile),
        ("write", "WRITER_WAITS", hl.errors.CannotWrite),
    ],
)
def test_file_that_another_program_holds_is_reported(file, monkeypatch, kind, waits, error):
    monkeypatch.setattr(database, waits, 0.1)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    opened = reading(file) if kind == "read" else writing(file)
    with pytest.raises(error, match="is in use by another program"):
        opened.__enter__()
    other.close()


def test_file_that_is_no_database_is_damaged(tmp_path):
    (tmp_path / "a").write_bytes(b"no database" * 1000)
    with pytest.raises(Damaged, match=r"is damaged, or is not a run .*file is not a database"):
        reading(tmp_path / "a").__enter__()


def test_missing_file_and_existing_file_are_reported(file):
    with pytest.raises(hl.errors.InvalidFile, match="does not exist"):
        reading(file.with_name("missing")).__enter__()
    with pytest.raises(hl.errors.CannotWrite, match=r"could not be created \(File exists\)"):
        create(file)
