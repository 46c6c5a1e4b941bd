"""Batches: jobs are committed in time, small batches are merged, and runs have few files."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import heirloom as hl
from heirloom.runs import manifest
from heirloom.runs import store as stores
from heirloom.runs.batch import Origin, decode, encode, make_batch, merge, split
from heirloom.runs.layout import Layout
from heirloom.runs.numbers import from_ranges, job_of, number_of, ranges
from heirloom.runs.store import RunStore
from heirloom.runs.stored_run import StoredRun
from heirloom.storage import sealed_json
from tests.small_run import FAST

TINY = FAST.with_changes(tasks=1, distinct_tasks=1, episodes=1, repetitions=100)


def results_of(layout, number):
    """Made-up results of a job, which differ from those of all others."""
    job = job_of(number, layout.n_agents)
    return {
        name: np.full(layout.shape_per_job(name), number + 0.5 * (name == "returns"))
        for name in layout.names_of(job)
    }


def entry(layout, number, seconds=0.0):
    origin = Origin(seconds, f"host:{number % 3}", {"numpy": str(number % 2)})
    return number, results_of(layout, number), origin


@given(st.sets(st.integers(0, 300)))
def test_ranges_are_read_back(numbers):
    array = np.array(sorted(numbers), dtype=np.int64)
    assert np.array_equal(from_ranges(ranges(array), 301), array)


@pytest.mark.parametrize("text", ["1-", "a", "2,1", "0-9999999", "1,1", "5-3,4", None, "-1"])
def test_invalid_ranges_are_refused(text):
    with pytest.raises(ValueError, match=r"job"):
        from_ranges(text, 100)


@given(st.lists(st.sets(st.integers(0, 299), min_size=1), min_size=1, max_size=5))
def test_batches_are_merged_split_and_read_back(sets):
    layout = Layout(TINY, TINY.as_json())
    batches = [make_batch(layout, [entry(layout, n) for n in numbers]) for numbers in sets]
    merged = merge(layout, batches)
    for batch in (merged, merge(layout, list(split(layout, merged, 7, 10**6)))):
        read = decode(layout, bytes(encode(layout, batch)), "a file")
        assert read.jobs.tolist() == sorted(set().union(*sets))
        first = read.jobs[read.jobs % 3 == 0]
        assert (read.results["returns"][:, 0, 0] == read.jobs + 0.5).all()
        assert (read.results["optimal"][:, 0] == first).all()
        assert read.worker == [f"host:{n % 3}" for n in read.jobs]
        assert read.versions == [{"numpy": str(n % 2)} for n in read.jobs]


def test_batch_of_another_experiment_is_refused():
    layout = Layout(TINY, TINY.as_json())
    other = TINY.with_changes(seed=8)
    data = bytes(encode(layout, make_batch(layout, [entry(layout, 0)])))
    with pytest.raises(hl.InvalidFile, match="belongs to another experiment"):
        decode(Layout(other, other.as_json()), data, "a file")


@pytest.mark.parametrize("jobs", [[2, 1, 0], [0, 1, 1], [-1, 0, 1], [0, 1, 300], [1, -(2**63), -1]])
def test_batch_whose_jobs_do_not_increase_is_refused(jobs):
    """The differences of the last ones overflow, to positive numbers."""
    layout = Layout(TINY, TINY.as_json())
    batch = make_batch(layout, [entry(layout, n) for n in range(3)])
    data = encode(layout, batch._replace(jobs=np.array(jobs)))
    with pytest.raises(hl.InvalidFile, match="its jobs are not increasing numbers"):
        decode(layout, bytes(data), "a file")


def test_small_jobs_wait_for_others_and_large_jobs_are_committed_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(stores, "INTERVAL", 1e9)
    store = RunStore(tmp_path / "run", TINY)
    layout = store.layout

    def add(number, seconds):
        _, results, origin = entry(layout, number, seconds)
        return store.add(job_of(number, 3), results, origin)

    assert [add(n, 0.01) for n in range(10)] == [[]] * 10
    assert not (tmp_path / "run").exists()
    assert len(add(10, 5.0)) == 11
    assert len(add(11, 5.0)) == 1
    assert add(12, 0.01) == []
    monkeypatch.setattr(stores, "INTERVAL", 0.0)
    assert len(add(13, 0.01)) == 2
    monkeypatch.setattr(stores, "INTERVAL", 1e9)
    monkeypatch.setattr(stores, "MOST_JOBS", 5)
    assert [len(add(n, 0.01)) for n in range(14, 24)] == [0, 0, 0, 0, 5] * 2
    assert len(StoredRun(tmp_path / "run").status().done) == 24


def test_run_that_commits_each_job_has_few_files(tmp_path, monkeypatch):
    """Small batches are merged during the run, and at its end."""
    monkeypatch.setattr(stores, "INTERVAL", 0.0)
    store = RunStore(tmp_path / "run", TINY)
    most = 0
    for number in range(store.layout.n_jobs):
        _, results, origin = entry(store.layout, number)
        store.add(job_of(number, 3), results, origin)
        most = max(most, len(list((tmp_path / "run" / "batches").iterdir())))
    assert most <= stores.MANY_BATCHES
    store.finish()
    assert len(list((tmp_path / "run" / "batches").iterdir())) == 1
    stored = StoredRun(tmp_path / "run")
    assert stored.status().is_complete
    expected = np.arange(300).reshape(100, 3).T + 0.5
    assert np.array_equal(stored.results().returns[:, :, 0, 0], expected)
    assert number_of((2, 5), 3) == 17


def test_run_is_read_correctly_while_its_batches_are_merged(tmp_path, monkeypatch):
    """A reader that finds a listed batch deleted reads the manifest again."""
    monkeypatch.setattr(stores, "INTERVAL", 0.0)
    monkeypatch.setattr(stores, "MANY_BATCHES", 10**9)
    store = RunStore(tmp_path / "run", TINY)
    for number in range(20):
        _, results, origin = entry(store.layout, number)
        store.add(job_of(number, 3), results, origin)
    reader = StoredRun(tmp_path / "run")
    from heirloom.runs import stored_run

    batches, merged = stored_run.Batches, []

    def merge_before_reading(*arguments):
        if not merged:
            merged.append(True)
            store._merge_batches(2)
        return batches(*arguments)

    monkeypatch.setattr(stored_run, "Batches", merge_before_reading)
    status = reader.status()
    assert (len(status.done), status.damaged) == (20, [])


@pytest.mark.slow
def test_store_of_a_hundred_thousand_jobs_has_few_files_and_is_read_in_seconds(tmp_path):
    """The results are made up, so that only storing and reading takes time."""
    spec = TINY.with_changes(repetitions=33_334)
    store = RunStore(tmp_path / "run", spec)
    for number in range(store.layout.n_jobs):
        _, results, origin = entry(store.layout, number)
        store.add(job_of(number, 3), results, origin)
    store.finish()
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) < 300
    started = time.process_time()
    stored = StoredRun(tmp_path / "run")
    assert stored.status().is_complete
    assert time.process_time() - started < 10
    expected = np.arange(100_002).reshape(33_334, 3).T + 0.5
    assert np.array_equal(stored.results().returns[:, :, 0, 0], expected)


def test_manifest_that_is_damaged_or_of_another_experiment_is_not_used():
    """The run then reads its batches, or computes its jobs again."""
    layout, other = (Layout(spec, spec.as_json()) for spec in (TINY, TINY.with_changes(seed=8)))
    name, jobs = f"000001-{0:016x}.npz", np.array([0, 1])
    data = manifest.Manifest({name: jobs}).encode(layout)
    read = manifest.decode(data, layout, "a file")
    assert read.batches[name].tolist() == [0, 1]
    assert manifest.decode(None, layout, "a file") is None
    assert manifest.decode(data, other, "a file") is None
    contents = [
        {"spec": layout.digest},
        {"spec": layout.digest, "batches": [], "arrays": {"jobs": "", "files": {}}},
        {"spec": layout.digest, "batches": {"../x": "0"}, "arrays": {"jobs": "", "files": {}}},
    ]
    for content in contents:
        forged = sealed_json.encode(manifest.KIND, manifest.FORMAT, content)
        assert manifest.decode(forged, layout, "a file") is None
