"""Hostile databases are refused, or read in memory in proportion to their size."""

import os
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

import heirloom as hl
from heirloom.runs.layout import APPLICATION, FORMAT, RUN_TABLE, Layout, Origin, checksum_of_run
from heirloom.runs.run import run
from heirloom.runs.stored_run import StoredRun
from tests.attack import links
from tests.small_run import FAST


def forged(folder, spec, *statements, rows=0):
    """Write a run with valid checksums whose database also executes these statements."""
    folder.mkdir(parents=True, exist_ok=True)
    layout = Layout(FAST, spec)
    connection = sqlite3.connect(folder / "run.sqlite")
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute(RUN_TABLE)
    connection.execute(layout.job_table)
    connection.execute("INSERT INTO run VALUES (?, ?, ?)", layout.run_row({}))
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return folder


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW mine AS SELECT load_extension('x')",
        "CREATE TRIGGER mine AFTER INSERT ON job BEGIN DELETE FROM job; END",
        "CREATE INDEX mine ON job (agent)",
        "CREATE TABLE mine (x)",
        "CREATE VIRTUAL TABLE mine USING fts5 (x)",
    ],
)
def test_database_that_defines_anything_else_is_refused(tmp_path, statement):
    folder = forged(tmp_path / "run", FAST.as_json(), statement)
    with pytest.raises(hl.errors.InvalidFile, match="has other tables than a run of Heirloom"):
        StoredRun(folder).status()


def test_view_in_place_of_a_table_is_refused(tmp_path):
    folder = forged(
        tmp_path / "run",
        FAST.as_json(),
        "DROP TABLE run",
        "CREATE VIEW run AS SELECT '{}' AS spec, '{}' AS versions, x'00' AS checksum",
    )
    with pytest.raises(hl.errors.InvalidFile, match="has other tables"):
        StoredRun(folder)


def test_trigger_of_a_hostile_file_is_not_executed_when_the_run_is_resumed(tmp_path):
    """The file is kept, and its jobs are copied to a new one."""
    run(FAST, tmp_path / "run", jobs=1)
    connection = sqlite3.connect(tmp_path / "run" / "run.sqlite")
    connection.execute("DELETE FROM job WHERE job > 5")
    connection.execute("CREATE TRIGGER t AFTER INSERT ON job BEGIN DELETE FROM job; END")
    connection.commit()
    connection.close()
    results = run(FAST, tmp_path / "run", jobs=1)
    assert results.identical(run(FAST, tmp_path / "expected", jobs=1))
    assert (tmp_path / "run" / "run.damaged-1.sqlite").exists()


@pytest.mark.parametrize(
    "spec", ["[]", "3", "{", "{}", '{"name": 3}', "[" * 100_000, '{"a":' * 100_000]
)
def test_text_that_is_no_spec_is_refused(tmp_path, spec):
    folder = forged(tmp_path / "run", FAST.as_json(), "DELETE FROM run")
    connection = sqlite3.connect(folder / "run.sqlite")
    connection.execute(
        "INSERT INTO run VALUES (?, ?, ?)", (spec, "{}", checksum_of_run(spec, "{}"))
    )
    connection.commit()
    connection.close()
    with pytest.raises(hl.errors.InvalidFile, match=r"spec"):
        StoredRun(folder)


def test_spec_with_too_many_jobs_is_refused(tmp_path):
    folder = forged(tmp_path / "run", {**FAST.as_json(), "repetitions": 2**31 - 1})
    with pytest.raises(hl.errors.InvalidFile, match=r"6,442,450,941 jobs: at most 1,000,000"):
        StoredRun(folder)


def test_spec_that_claims_much_more_than_the_file_contains_takes_no_memory(tmp_path):
    folder = forged(tmp_path / "run", {**FAST.as_json(), "repetitions": 10**5, "episodes": 10**6})
    stored = StoredRun(folder)
    assert len(stored.status().missing) == 3 * 10**5
    with pytest.raises(
        hl.errors.InvalidFile, match=r"would take .* GB of memory, and few of its jobs"
    ):
        stored.results()


ARRAYS = {
    "pickle": b"\x80\x04cposix\nsystem\n",
    "object": np.lib.format.MAGIC_PREFIX + b"\x01\x00",
    "too short": b"\x93NUMPY\x01\x00\xff\xff",
}


def npy(header, data=b""):
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


HEADERS = [
    b"",
    b"{",
    b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 10**9), }",
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 20), }",
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (-3, 20), }",
    b"{'descr': '<f8', 'fortran_order': True, 'shape': (3, 20), }",
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (9999999999999, 20), }",
    b"{'descr': '<i8', 'fortran_order': False, 'shape': (3, 20), }",
    b"{'descr': '<c16', 'fortran_order': False, 'shape': (3, 20), }",
    b"(" * 9000,
    b"[" * 60_000,
]


@pytest.mark.parametrize("header", HEADERS, ids=range(len(HEADERS)))
def test_array_that_claims_another_type_or_size_is_refused(header):
    layout = Layout(FAST, FAST.as_json())
    with pytest.raises(hl.errors.InvalidFile):
        layout.array("returns", npy(header, bytes(100)))
    for value in (None, 3, b"", "x", b"\x93NUMPY"):
        with pytest.raises(hl.errors.InvalidFile, match=r"is not an \.npy file"):
            layout.array("returns", value)


def test_reading_a_run_unpickles_nothing(tmp_path):
    """An array of objects, with a valid checksum, is refused."""
    layout = Layout(FAST, FAST.as_json())
    folder = forged(tmp_path / "run", FAST.as_json())
    results = {name: np.zeros(layout.shape(name, {})[2:]) for name in layout.names}
    row = layout.row((1, 0), results, Origin(1.0, "w", {}))
    file = tmp_path / "objects.npy"
    np.save(file, np.array([Explosive()], dtype=object), allow_pickle=True)
    values = [file.read_bytes(), *row[8:]]
    about = (*row[:6], None)
    row = (*row[:6], layout._checksum((*about, *values)), *values)
    connection = sqlite3.connect(folder / "run.sqlite")
    connection.execute(f"INSERT INTO job VALUES ({', '.join('?' * len(row))})", row)
    connection.commit()
    connection.close()
    assert len(StoredRun(folder).status().done) == 1
    with pytest.raises(hl.errors.InvalidFile, match="returns of a job"):
        StoredRun(folder).results()


class Explosive:
    """An object that fails the test when it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("an object was unpickled",)


def test_run_of_a_newer_format_is_refused(tmp_path):
    folder = forged(
        tmp_path / "run",
        FAST.as_json(),
        f"PRAGMA user_version = {FORMAT + 1}",
        "ALTER TABLE job ADD COLUMN new BLOB",
        "UPDATE run SET checksum = x'00'",
    )
    before = (folder / "run.sqlite").read_bytes()
    for attempt in (lambda: StoredRun(folder), lambda: run(FAST, folder, jobs=1)):
        with pytest.raises(hl.errors.InvalidFile, match="newer version of Heirloom"):
            attempt()
    assert (folder / "run.sqlite").read_bytes() == before
    assert os.listdir(folder) == ["run.sqlite"]


def test_database_of_another_program_is_refused(tmp_path):
    connection = sqlite3.connect(tmp_path / "run.sqlite")
    connection.execute("CREATE TABLE notes (x)")
    connection.commit()
    connection.close()
    before = (tmp_path / "run.sqlite").read_bytes()
    for attempt in (lambda: StoredRun(tmp_path), lambda: run(FAST, tmp_path, jobs=1)):
        with pytest.raises(hl.errors.InvalidFile, match="is not a run of Heirloom"):
            attempt()
    assert (tmp_path / "run.sqlite").read_bytes() == before
    assert os.listdir(tmp_path) == ["run.sqlite"]


MEMORY = """
import resource, sys
from heirloom.runs.stored_run import StoredRun
from heirloom.errors import HeirloomError
import xarray
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for act in ("status", "results"):
    try:
        getattr(StoredRun(sys.argv[1]), act)()
    except HeirloomError as error:
        print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_reading_takes_memory_in_proportion_to_the_file(tmp_path):
    """Rows claim sizes of gigabytes, and overflow pages that they share."""
    run(FAST.with_changes(episodes=4000), tmp_path / "run", jobs=1)
    file = tmp_path / "run" / "run.sqlite"
    data = bytearray(file.read_bytes())
    rng = np.random.default_rng(0)
    for at in rng.integers(4096, len(data), 300):
        data[at : at + 8] = b"\xff\xff\xff\xff\xff\xff\xff\x7f"
    file.write_bytes(data)
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "run")]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    unit = 1 if sys.platform == "darwin" else 1024  # bytes
    assert int(ended.stdout.splitlines()[-1]) * unit < 20 * len(data) + 100e6


@pytest.mark.parametrize("name", links.ATTACKS)
def test_link_or_special_file_in_a_run_folder_is_refused_and_kept(tmp_path, name):
    assert links.failures_of(name, tmp_path) == []


def test_no_task_of_a_stored_spec_is_drawn(tmp_path, monkeypatch):
    """The family in a forged file may be huge."""
    from heirloom.envs.paper_families import Garnet

    huge = {
        **FAST.as_json(),
        "family": {"name": "garnet", "n_states": 10**9, "n_actions": 2, "branching": 2},
    }
    folder = forged(tmp_path / "run", huge)
    monkeypatch.setattr(Garnet, "draw", lambda self, rng: pytest.fail("a task was drawn"))
    assert StoredRun(folder).spec.family.name == "garnet"
