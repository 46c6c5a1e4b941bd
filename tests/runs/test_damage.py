"""Damage to a run is noticed; what can be read is kept, and the rest is computed again."""

import os
import shutil
import sqlite3

import pytest
from typer.testing import CliRunner

import heirloom as hl
from heirloom.cli.app import app
from heirloom.runs import store as stores
from heirloom.runs.run import run
from heirloom.runs.store import RunStore
from heirloom.runs.stored_run import StoredRun
from heirloom.runs.workers import compute
from tests.small_run import SPEC, commit

KEPT = "run.damaged-1.sqlite"


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    folder = tmp_path_factory.mktemp("complete") / "run"
    run(SPEC, folder, jobs=1)
    return folder


@pytest.fixture(scope="module")
def expected(complete):
    return hl.results(complete)


@pytest.fixture
def folder(complete, tmp_path):
    """A copy of a complete run, which a test may damage."""
    return shutil.copytree(complete, tmp_path / "run")


@pytest.fixture
def computed(monkeypatch):
    """The jobs that are computed."""
    jobs, run_job = [], compute.run_job
    monkeypatch.setattr(compute, "run_job", lambda *a: jobs.append(a[1:3]) or run_job(*a))
    return jobs


def change(folder, statement, *values):
    """Change the database as another program would, with all of SQLite's own checksums intact."""
    connection = sqlite3.connect(folder / "run.sqlite")
    connection.execute(statement, values)
    connection.commit()
    connection.close()


def test_changed_result_is_noticed_and_computed_again(folder, expected, computed, caplog):
    change(folder, "UPDATE job SET returns = replace(returns, x'00', x'01') WHERE job = 9")
    damaged = (folder / "run.sqlite").read_bytes()
    status = StoredRun(folder).status()
    assert status.damaged == [(1, 2)]
    assert status.problem is None
    assert not status.is_complete
    ended = CliRunner().invoke(app, ["status", str(folder)])
    text = " ".join(ended.stdout.split())
    assert ended.exit_code == 1
    assert "11 of 12 jobs are complete and their checksums match; 0 are missing and 1 is" in text
    assert "Damaged: LRMax(0.1), repetition 3." in text
    assert "The damaged file is kept under another name." in text
    assert hl.results(folder).returns.isel(agent=1, repetition=2).isnull().all()
    assert run(SPEC, folder, jobs=1).identical(expected)
    assert computed == [(1, 2)]
    assert (folder / KEPT).read_bytes() == damaged
    assert sorted(os.listdir(folder)) == [KEPT, "run.sqlite"]
    assert f"run.sqlite was damaged: it is kept as {KEPT}" in caplog.text
    assert "11 of 12 jobs" in caplog.text


@pytest.mark.parametrize(
    "column", ["agent", "repetition", "seconds", "worker", "versions", "checksum", "updates"]
)
def test_change_of_any_column_is_noticed(folder, column):
    change(folder, f"UPDATE job SET {column} = 7 WHERE job = 4")
    assert StoredRun(folder).status().damaged == [(0, 1)]


def test_job_that_was_deleted_or_moved_to_another_place_is_noticed(folder, expected):
    change(folder, "DELETE FROM job WHERE job = 0")
    change(folder, "UPDATE job SET job = 0 WHERE job = 5")
    status = StoredRun(folder).status()
    assert (status.damaged, status.missing) == ([(0, 0)], [(1, 1)])
    assert run(SPEC, folder, jobs=1).identical(expected)


def test_damage_to_the_first_page_loses_no_job(folder, expected, computed):
    """The header and the tables follow from the spec."""
    good = (folder / "run.sqlite").read_bytes()
    for position in (*range(0, 100, 7), 105, 4000, 4090):
        data = bytearray(good)
        data[position] ^= 255
        (folder / "run.sqlite").write_bytes(data)
        assert run(SPEC, folder, jobs=1).identical(expected), position
    (folder / "run.sqlite").write_bytes(os.urandom(4096) + good[4096:])
    with pytest.raises(hl.errors.InvalidFile, match="is not a run of Heirloom"):
        StoredRun(folder)
    assert run(SPEC, folder, jobs=1).identical(expected)
    assert computed == []


def test_damage_to_a_page_loses_the_jobs_on_it_alone(folder, expected, computed):
    n_pages = (folder / "run.sqlite").stat().st_size // 4096
    good = (folder / "run.sqlite").read_bytes()
    for page in range(3, n_pages):
        computed.clear()
        data = bytearray(good)
        data[4096 * page : 4096 * (page + 1)] = os.urandom(4096)
        (folder / "run.sqlite").write_bytes(data)
        status = StoredRun(folder).status()
        assert status.problem
        assert run(SPEC, folder, jobs=1).identical(expected)
        assert len(computed) <= 3


@pytest.mark.parametrize("share", [0.5, 0.7, 0.95])
def test_truncated_file_is_noticed_and_what_is_left_is_kept(folder, expected, computed, share):
    data = (folder / "run.sqlite").read_bytes()
    (folder / "run.sqlite").write_bytes(data[: int(share * len(data))])
    assert CliRunner().invoke(app, ["status", str(folder)]).exit_code == 1
    assert run(SPEC, folder, jobs=1).identical(expected)
    assert 0 < len(computed) < 12
    assert StoredRun(folder).status().is_complete


@pytest.mark.parametrize("column", ["spec", "versions", "checksum"])
def test_damaged_spec_is_restored_by_the_command(folder, expected, computed, column):
    change(folder, f"UPDATE run SET {column} = '{{}}'")
    ended = CliRunner().invoke(app, ["status", str(folder)])
    assert ended.exit_code == 1
    assert "is damaged: repeat the command that started the run, which restores it" in ended.stderr
    before = (folder / "run.sqlite").read_bytes()
    with pytest.raises(hl.errors.InvalidFile, match=r"the spec in .* is damaged"):
        run(SPEC.with_changes(seed=8), folder, jobs=1)  # nothing shows that it is that experiment
    assert (folder / "run.sqlite").read_bytes() == before
    assert run(SPEC, folder, jobs=1).identical(expected)
    assert computed == []


@pytest.mark.parametrize("n_pages", [3, 8])
def test_file_without_readable_jobs_is_replaced_if_its_spec_is_intact(folder, expected, n_pages):
    """Also if the rows that are left are out of order, so that a search of them might not end."""
    data = (folder / "run.sqlite").read_bytes()
    (folder / "run.sqlite").write_bytes(data[: n_pages * 4096 + 500])
    assert run(SPEC, folder, jobs=1).identical(expected)
    assert (folder / KEPT).read_bytes() == data[: n_pages * 4096 + 500]


def test_file_with_nothing_readable_is_refused_and_kept(folder):
    (folder / "run.sqlite").write_bytes(os.urandom(40_000))
    before = (folder / "run.sqlite").read_bytes()
    with pytest.raises(hl.errors.InvalidFile, match="is damaged, or is not a run of Heirloom"):
        run(SPEC, folder, jobs=1)
    assert os.listdir(folder) == ["run.sqlite"]
    assert (folder / "run.sqlite").read_bytes() == before


def test_damaged_file_never_replaces_an_earlier_one(folder, expected):
    for n in range(1, 4):
        (folder / f"run.damaged-{n}.sqlite{'-journal' if n == 3 else ''}").write_text(f"mine {n}")
    change(folder, "UPDATE job SET returns = x'00' WHERE job = 9")
    assert run(SPEC, folder, jobs=1).identical(expected)
    for n in range(1, 4):
        ending = "-journal" if n == 3 else ""
        assert (folder / f"run.damaged-{n}.sqlite{ending}").read_text() == f"mine {n}"
    assert (folder / "run.damaged-4.sqlite").exists()


@pytest.mark.parametrize("step", [1, 2])
def test_process_that_is_killed_while_it_keeps_a_damaged_file_loses_nothing(
    folder, expected, computed, monkeypatch, step
):
    change(folder, "UPDATE job SET returns = x'00' WHERE job = 9")
    rename, n = os.rename, []

    def killed(*paths):
        n.append(paths)
        if len(n) == step:
            raise KeyboardInterrupt
        rename(*paths)

    with monkeypatch.context() as patched:
        patched.setattr(stores.os, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            run(SPEC, folder, jobs=1)
    assert run(SPEC, folder, jobs=1).identical(expected)
    assert len(computed) <= 3
    assert sorted(os.listdir(folder)) == [KEPT, "run.sqlite"]


def test_status_changes_no_file(folder):
    change(folder, "UPDATE job SET returns = x'00' WHERE job = 9")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    StoredRun(folder).status()
    CliRunner().invoke(app, ["status", str(folder)])
    hl.results(folder)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_jobs_of_another_experiment_are_not_taken_for_those_of_the_run(tmp_path, expected):
    """Checksums are bound to the spec."""
    folder, other = tmp_path / "run", tmp_path / "other"
    run(SPEC, folder, jobs=1)
    run(SPEC.with_changes(seed=8), other, jobs=1)
    change(folder, "DELETE FROM job")
    connection = sqlite3.connect(folder / "run.sqlite")
    connection.execute("ATTACH ? AS other", (str(other / "run.sqlite"),))
    connection.execute("INSERT INTO job SELECT * FROM other.job")
    connection.commit()
    connection.close()
    status = StoredRun(folder).status()
    assert not status.done
    assert len(status.damaged) == 12
    assert run(SPEC, folder, jobs=1).identical(expected)


def test_interrupted_run_is_read_and_resumed(tmp_path, expected, computed):
    store = RunStore(tmp_path / "run", SPEC)
    commit(store, [(0, 0), (3, 2)])
    status = StoredRun(tmp_path / "run").status()
    assert (len(status.done), len(status.missing), status.damaged) == (2, 10, [])
    computed.clear()
    assert run(SPEC, tmp_path / "run", jobs=1).identical(expected)
    assert len(computed) == 10


def test_run_that_was_killed_during_its_first_commit_can_be_resumed(folder, expected):
    """SQLite has written the file, and its journal, which leads back to an empty file, is left."""
    start = b"\xd9\xd5\x05\xf9 \xa1c\xd7" + bytes(12) + (512).to_bytes(4) + (4096).to_bytes(4)
    (folder / "run.sqlite-journal").write_bytes(start.ljust(512, b"\0"))
    with pytest.raises(hl.errors.InvalidFile, match="there is no run in"):
        StoredRun(folder)
    assert run(SPEC, folder, jobs=1).identical(expected)
    assert sorted(os.listdir(folder)) == ["run.sqlite"]


def test_database_in_another_journal_mode_is_kept_and_computed_into_a_new_one(folder, expected):
    change(folder, "PRAGMA journal_mode = WAL")
    with pytest.raises(hl.errors.InvalidFile, match="not in the journal mode of a run"):
        StoredRun(folder)
    assert sorted(os.listdir(folder)) == ["run.sqlite"]
    assert run(SPEC, folder, jobs=1).identical(expected)
    assert sorted(os.listdir(folder)) == [KEPT, "run.sqlite"]


@pytest.mark.parametrize("has_run", [True, False])
def test_file_of_a_user_with_the_name_of_a_new_database_is_kept(folder, has_run):
    new = folder / stores.NEW
    new.write_text("mine")
    if has_run:
        change(folder, "UPDATE job SET seconds = 0 WHERE job = 0")
        with pytest.raises(
            hl.errors.CannotWrite, match="was not written by Heirloom: move it away"
        ):
            RunStore(folder, SPEC)
    else:
        (folder / "run.sqlite").unlink()
        assert len(RunStore(folder, SPEC).remaining_jobs()) == len(SPEC.agents) * SPEC.repetitions
    assert new.read_text() == "mine"


def test_damage_to_the_first_page_keeps_the_stored_spec_and_versions(folder):
    """Another version of Heirloom may have written the spec with other keys."""
    before = StoredRun(folder)
    stored = {**before.layout.stored, "seed": before.spec.seed}
    assert list(stored) == list(before.layout.stored)
    reordered = dict(reversed(stored.items()))
    layout = stores.Layout(SPEC, reordered)
    rows = [
        layout.row(job, dict(before.read_job(job)), stores.Origin(1.0, "worker", {"numpy": "1.0"}))
        for job in before.jobs
        if not job[0]
    ]
    change(
        folder, "UPDATE run SET spec = ?, versions = ?, checksum = ?", *layout.run_row({"a": "1"})
    )
    change(folder, "DELETE FROM job")
    places = ", ".join("?" * len(rows[0]))
    for row in rows:
        change(folder, f"INSERT INTO job VALUES ({places})", *row)
    with open(folder / "run.sqlite", "r+b") as file:
        file.seek(60)
        file.write(b"\xff\xff")  # the format and the application
    RunStore(folder, SPEC)
    after = StoredRun(folder)
    assert len(after.status().done) == len(rows)
    assert after.versions == {"a": "1"}
    assert after.layout.stored == reordered
