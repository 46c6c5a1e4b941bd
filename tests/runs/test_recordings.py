"""Recordings in a stored run: they are results like all others."""

import csv
import shutil
import sqlite3

import numpy as np
import pandas as pd
import pytest

import heirloom as hl
from heirloom.learning.recording import decode
from heirloom.runs.export import export
from heirloom.runs.store import RunStore
from heirloom.runs.stored_run import StoredRun
from tests.small_run import FAST, commit

SPEC = FAST.with_changes(record={"first": 2, "every": 7, "tasks": [1, 3], "repetitions": [1, 3]})


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded") / "run"
    hl.run(SPEC, folder, jobs=1)
    return folder


@pytest.fixture
def folder(recorded, tmp_path):
    shutil.copytree(recorded, tmp_path / "run")
    return tmp_path / "run"


def recordings(folder):
    stored = StoredRun(folder)
    return {job: bytes(stored.read_job(job)["recording"]) for job in stored.jobs}


def test_run_has_the_same_results_with_and_without_recordings(recorded, tmp_path):
    without = hl.run(FAST, tmp_path / "run", jobs=1)
    results = StoredRun(recorded).results()
    for name in ("returns", "discounted_returns", "updates", "late_update", "optimal"):
        assert np.array_equal(without[name], results[name], equal_nan=True)


def test_run_stores_the_recordings_of_the_chosen_jobs(recorded):
    for (agent, repetition), data in recordings(recorded).items():
        found = decode(data, "x")
        assert [each.task for each in found] == ([] if repetition == 1 else [1, 3])
        for each in found:
            assert each.agent == SPEC.agents[agent].name
            assert each.repetition == repetition + 1


def test_interrupted_run_resumes_with_its_recordings(recorded, tmp_path):
    store = RunStore(tmp_path / "run", SPEC)
    commit(store, store.remaining_jobs()[:4])
    hl.run(SPEC, tmp_path / "run", jobs=1)
    assert recordings(tmp_path / "run") == recordings(recorded)


def test_tables_are_exported_from_a_run_with_recordings(recorded, tmp_path):
    tables = export(StoredRun(recorded), "csv", tmp_path / "tables")
    assert {file.name for file in tables.files} >= {"episodes.csv", "tasks.csv", "steps.csv"}
    with open(tmp_path / "tables" / "steps.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    returns = StoredRun(recorded).results().returns
    for data in recordings(recorded).values():
        for r in decode(data, "x"):
            for episode in r.episodes:
                key = {"agent": r.agent, "repetition": r.repetition, "task": r.task}
                key |= {"episode": int(episode)}
                chosen = [row for row in rows if all(row[k] == str(v) for k, v in key.items())]
                assert [int(row["step"]) for row in chosen] == [*range(1, len(chosen) + 1)]
                total = sum(float(row["reward"]) for row in chosen)
                assert total == pytest.approx(float(returns.sel(key)), abs=1e-12)


def test_recordings_of_a_run_are_opened_by_one_call(recorded):
    (found,) = hl.recordings(recorded, agents=[SPEC.agents[1].name], repetition=3, task=1)
    assert (found.agent, found.repetition, found.task) == (SPEC.agents[1].name, 3, 1)
    assert found.layer("Q", 0).shape == (found.n_states, found.n_actions)
    assert len(hl.recordings(recorded)) == 2 * 2 * len(SPEC.agents)
    with pytest.raises(
        hl.errors.InvalidArgument, match=r"no recording for this choice.*tasks 1, 3"
    ):
        hl.recordings(recorded, task=2)


@pytest.mark.parametrize("to", ["csv", "parquet"])
def test_snapshots_are_exported_as_a_table_of_pairs(recorded, tmp_path, to):
    pytest.importorskip("pyarrow")
    export(StoredRun(recorded), to, tmp_path / "tables", snapshots=True)
    read = pd.read_csv if to == "csv" else pd.read_parquet
    table = read(tmp_path / "tables" / f"snapshots.{to}")
    found = hl.recordings(recorded)
    pairs = [r.snapshot_steps.size * r.n_states * r.n_actions for r in found]
    assert len(table) == sum(pairs)
    for r in found:
        chosen = table[
            (table.agent == r.agent) & (table.repetition == r.repetition) & (table.task == r.task)
        ]
        for i, steps in enumerate(r.snapshot_steps):
            rows = chosen[chosen.snapshot == i + 1].sort_values(["state", "action"])
            assert (rows.time_step == steps).all()
            for name in ("Q", "U", "known"):
                np.testing.assert_array_equal(rows[name], r.layer(name, i).ravel())


def test_snapshots_are_refused_where_there_are_none(recorded, tmp_path):
    hl.run(FAST.with_changes(repetitions=1), tmp_path / "run", jobs=1)
    with pytest.raises(hl.errors.InvalidArgument, match="has no snapshots: add `record = true`"):
        export(StoredRun(tmp_path / "run"), "csv", tmp_path / "tables", snapshots=True)
    with pytest.raises(hl.errors.InvalidArgument, match="choose parquet or csv"):
        export(StoredRun(recorded), "netcdf", tmp_path / "x.nc", snapshots=True)


def test_job_whose_recording_was_changed_is_computed_again(folder):
    before = recordings(folder)
    connection = sqlite3.connect(folder / "run.sqlite")
    connection.execute("UPDATE job SET recording = x'00' WHERE job = 4")
    connection.commit()
    connection.close()
    assert StoredRun(folder).status().damaged == [(1, 1)]
    hl.run(SPEC, folder, jobs=1)
    assert recordings(folder) == before
