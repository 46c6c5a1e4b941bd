"""Jobs are committed in time, each in one row that other programs read, and a run is one file."""

import io
import json
import os
import sqlite3
import time

import numpy as np
import pytest

import heirloom as hl
from heirloom.runs import store as stores
from heirloom.runs.layout import FORMAT, Layout, Origin
from heirloom.runs.run import run
from heirloom.runs.store import RunStore
from heirloom.runs.stored_run import StoredRun
from heirloom.storage import database, files
from tests.small_run import FAST, SPEC, commit, jobs_done, wait_until

TINY = FAST.with_changes(tasks=1, distinct_tasks=1, episodes=1, repetitions=100)


def results_of(layout, number):
    """Made-up results of a job, which differ from those of all others."""
    results = {name: np.full(layout.shape(name, {})[2:], number + 0.5) for name in layout.names}
    if number % layout.n_agents == 0:
        results |= {name: np.full(1, float(number)) for name in ("optimal", "optimal_discounted")}
    return results


def add(store, number, seconds=0.0):
    job = store.layout.job(number)
    origin = Origin(seconds, f"host:{number % 3}", {"numpy": str(number % 2)})
    return store.add(job, results_of(store.layout, number), origin)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def test_run_is_one_file_whose_rows_other_programs_read(folder):
    expected = run(SPEC, folder, jobs=1)
    assert os.listdir(folder) == ["run.sqlite"]
    connection = sqlite3.connect(folder / "run.sqlite")
    (spec,) = connection.execute("SELECT spec FROM run").fetchone()
    assert json.loads(spec) == SPEC.as_json()
    query = "SELECT agent, repetition, returns, seconds, worker, versions FROM job"
    rows = connection.execute(query).fetchall()
    connection.close()
    assert len(rows) == 12
    for agent, repetition, returns, seconds, worker, versions in rows:
        array = np.load(io.BytesIO(returns), allow_pickle=False)
        assert np.array_equal(array, expected.returns.sel(agent=agent, repetition=repetition))
        assert seconds > 0
        assert ":" in worker
        assert json.loads(versions)["numpy"] == np.__version__


def test_small_jobs_are_committed_together(folder, monkeypatch):
    monkeypatch.setattr(stores, "INTERVAL", 1e6)
    store = RunStore(folder, TINY)
    assert [add(store, n) for n in range(10)] == [[]] * 10
    assert not (folder / "run.sqlite").exists()
    assert store.commit() == [store.layout.job(n) for n in range(10)]


def test_small_jobs_are_committed_within_a_second_although_no_further_job_ends(folder, monkeypatch):
    assert stores.INTERVAL <= 1
    monkeypatch.setattr(stores, "INTERVAL", 0.1)
    store = RunStore(folder, TINY)
    early = [job for n in range(10) for job in add(store, n)]
    wait_until(lambda: jobs_done(folder) == 10)
    late = [*add(store, 10), *store.commit()]
    assert sorted(early + late) == sorted(store.layout.job(n) for n in range(11))


def test_many_bytes_are_committed_at_once(folder, monkeypatch):
    monkeypatch.setattr(stores, "INTERVAL", 1e9)
    monkeypatch.setattr(stores, "MOST_BYTES", 4 * 600)
    store = RunStore(folder, TINY)
    committed = [len(add(store, n)) for n in range(1, 31, 3)]
    assert sum(committed) > 0
    assert jobs_done(folder) == sum(committed)
    store.commit()
    assert jobs_done(folder) == 10


def test_error_of_a_timed_commit_is_raised_in_the_run(folder, monkeypatch):
    monkeypatch.setattr(stores, "INTERVAL", 0.01)
    store = RunStore(folder, TINY)
    commit_, failed = RunStore.commit, []

    def fails(self):
        failed.append(True)
        raise hl.errors.CannotWrite("no space")

    monkeypatch.setattr(RunStore, "commit", fails)
    add(store, 0)
    wait_until(lambda: store._failure is not None)
    with pytest.raises(hl.errors.CannotWrite, match="no space"):
        add(store, 1)
    monkeypatch.setattr(RunStore, "commit", commit_)
    store.commit()
    assert jobs_done(folder) == 2


def test_new_database_and_its_folder_are_synced(tmp_path, monkeypatch):
    synced = []
    for module in (stores, files, __import__("heirloom.runs.lock", fromlist=["lock"])):
        monkeypatch.setattr(module, "sync_folder", synced.append)
    run(FAST.with_changes(repetitions=1), tmp_path / "a" / "run", jobs=1)
    assert synced == [tmp_path, tmp_path / "a", tmp_path / "a" / "run"]


def test_database_has_the_settings_that_durability_needs(folder, monkeypatch):
    """Every commit of a run is made with them."""
    used, writing = [], database.writing

    def noted(path):
        context = writing(path)

        class Noted:
            def __enter__(self):
                connection = context.__enter__()
                names = ("journal_mode", "synchronous")
                used.append([connection.execute(f"PRAGMA {n}").fetchone()[0] for n in names])
                return connection

            def __exit__(self, *details):
                return context.__exit__(*details)

        return Noted()

    monkeypatch.setattr(database, "writing", noted)
    commit(RunStore(folder, SPEC), [(0, 0)])
    assert used == [["delete", 3]] * 2  # the tables, and the job


def test_stored_job_is_read_back(folder):
    store = RunStore(folder, TINY)
    for number in range(store.layout.n_jobs):
        add(store, number)
    store.commit()
    stored = StoredRun(folder)
    status = stored.status()
    assert status.is_complete
    assert status.workers == {"host:0", "host:1", "host:2"}
    results = stored.results()
    expected = np.arange(300).reshape(100, 3).T
    assert np.array_equal(results.returns[:, :, 0, 0], expected + 0.5)
    assert np.array_equal(results.updates[:, :, 0], expected)
    assert np.array_equal(results.optimal[:, 0], expected[0])
    assert (stored.read_job((2, 5))["returns"] == 17.5).all()


def test_results_of_some_variables_are_loaded(folder):
    every = run(SPEC, folder, jobs=1)
    some = hl.results(folder, ["returns", "optimal"])
    assert set(some.data_vars) == {"returns", "optimal"}
    assert some.returns.identical(every.returns)
    assert set(hl.results(folder, "updates").coords) == {"agent", "repetition", "task"}
    assert not {"checksum", "done"} & set(every.variables)
    for wrong in (["missing"], 3, {"returns": 1}, [3]):
        with pytest.raises(
            hl.errors.InvalidArgument, match=r"variables is .*: expected a list of some of"
        ):
            hl.results(folder, wrong)


def test_row_belongs_to_its_spec_and_its_job():
    layout, other = (Layout(spec, spec.as_json()) for spec in (TINY, TINY.with_changes(seed=8)))
    row = layout.row((0, 3), results_of(layout, 9), Origin(0.1, "host:1", {}))
    assert layout.is_intact(row)
    assert not other.is_intact(row)
    for column in range(len(row)):
        for value in (5, b"x", "x"):
            assert not layout.is_intact((*row[:column], value, *row[column + 1 :]))


def test_job_that_is_larger_than_a_row_can_be_is_refused(folder, monkeypatch):
    monkeypatch.setattr(stores, "LARGEST_VALUE", 2**20 + 100)
    with pytest.raises(hl.errors.InvalidArgument, match="bytes, more than a database can store"):
        add(RunStore(folder, TINY), 0)


@pytest.mark.parametrize("size", [0, None])
def test_run_that_was_killed_before_its_first_commit_is_resumed(folder, size):
    if size is not None:
        (folder / "run.sqlite").write_bytes(b"")
        with pytest.raises(hl.errors.InvalidFile, match="there is no run in"):
            StoredRun(folder)
    commit(RunStore(folder, SPEC), [(0, 0)])
    assert len(StoredRun(folder).status().done) == 1


def test_reader_lets_a_run_commit_between_rows(folder, monkeypatch):
    """A reader that is slow does not hold the lock of SQLite."""
    monkeypatch.setattr("heirloom.runs.stored_run.READ_AT_ONCE", 1)
    store = RunStore(folder, TINY)
    for number in range(5):
        add(store, number)
    store.commit()
    monkeypatch.setattr(database, "WRITER_WAITS", 0.5)
    from heirloom.runs import stored_run

    with database.reading(folder / "run.sqlite") as connection:
        found = []
        for number, _ in stored_run.rows(connection, store.layout):
            found.append(number)
            if number < 10:
                add(store, number + 5)
                store.commit()
    assert found == list(range(15))


def test_format_number_is_that_of_the_database(folder):
    commit(RunStore(folder, SPEC), [(0, 0)])
    connection = sqlite3.connect(folder / "run.sqlite")
    assert connection.execute("PRAGMA user_version").fetchone() == (FORMAT,)
    connection.close()


@pytest.mark.slow
def test_run_of_a_hundred_thousand_jobs_is_written_and_read_in_seconds(folder):
    """The results are made up, so that only storing and reading takes time."""
    store = RunStore(folder, TINY.with_changes(repetitions=33_334))
    started = time.process_time()
    for number in range(store.layout.n_jobs):
        add(store, number)
    store.commit()
    written = time.process_time()
    assert StoredRun(folder).status().is_complete
    assert written - started < 60
    assert time.process_time() - written < 10
    assert os.listdir(folder) == ["run.sqlite"]
