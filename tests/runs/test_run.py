"""A run gives identical results in one or several processes, and after interruptions and damage."""

import os
from time import thread_time

import numpy as np
import pytest
from numba import njit

import heirloom as hl
from heirloom.cli.output import print_results
from heirloom.envs.paper_families import Corridor
from heirloom.experiments.job import run_job
from heirloom.experiments.spec import ExperimentSpec
from heirloom.learning.clock import learning_time
from heirloom.progress import progress
from heirloom.runs.lock import lock
from heirloom.runs.run import run
from heirloom.runs.store import RunStore
from heirloom.runs.stored_run import StoredRun
from heirloom.runs.workers.compute import compute_job, packed
from tests.small_run import FAST, SPEC


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The results of a run that was never stopped."""
    return run(SPEC, tmp_path_factory.mktemp("expected") / "run", jobs=1)


def test_results_are_labelled_and_loaded_again(tmp_path, expected):
    run(SPEC, tmp_path / "run", jobs=1)
    loaded = hl.results(tmp_path / "run")
    assert dict(loaded.sizes) == {"agent": 4, "repetition": 3, "task": 3, "episode": 20}
    assert loaded.agent.values.tolist() == ["RMax", "LRMax(0.1)", "LRMax(0.2)", "QLearning"]
    assert loaded.attrs["spec"] == SPEC.as_json()
    assert loaded.attrs["seed"] == 7
    assert loaded.attrs["versions"]["numpy"] == np.__version__
    assert loaded.returns.attrs["units"] == "reward"
    assert loaded.identical(expected)
    assert (expected.returns >= 0).all()


def test_one_and_two_workers_give_identical_results(tmp_path, expected):
    assert run(SPEC, tmp_path / "run", jobs=2).identical(expected)


def test_job_results_depend_only_on_spec_and_indices(expected):
    for job in ((3, 2), (0, 0), (1, 1)):
        results = run_job(SPEC, *job)
        for name, array in results.items():
            stored = (
                expected[name].isel(agent=job[0], repetition=job[1], missing_dims="ignore").values
            )
            assert np.array_equal(array, stored, equal_nan=True)


@pytest.mark.parametrize("agent", [0, 1])
def test_job_draws_each_of_its_tasks_once(agent, monkeypatch):
    drawn = []
    compute_job(packed(SPEC), (agent, 0))  # a family may draw a task when it is made
    draw = Corridor.draw
    monkeypatch.setattr(Corridor, "draw", lambda *given: drawn.append(1) or draw(*given))
    compute_job(packed(SPEC), (agent, 0))
    assert len(drawn) == SPEC.distinct_tasks


def test_adding_an_agent_leaves_the_others_unchanged(tmp_path, expected):
    extended = SPEC.as_json()
    extended["agents"].insert(0, {"algorithm": "MaxQInit", "name": "first", "n_known": 1})
    results = run(ExperimentSpec.read(extended), tmp_path / "run", jobs=1)
    assert results.returns.sel(agent=expected.agent).equals(expected.returns)


def test_resumed_run_computes_no_job_twice(tmp_path, expected, monkeypatch):
    """The run is interrupted again and again, and its results are those of a run without stops."""
    computed = []

    def interrupted_run_job(spec, agent, repetition, functions):
        if len(computed) == len(set(computed)) and len(computed) % 2 == 1 and not allowed:
            raise KeyboardInterrupt
        allowed.clear()
        computed.append((agent, repetition))
        return run_job(spec, agent, repetition)

    allowed = []
    monkeypatch.setattr("heirloom.runs.workers.compute.run_job", interrupted_run_job)
    stops = 0
    while True:
        try:
            results = run(SPEC, tmp_path / "run", jobs=1)
            break
        except KeyboardInterrupt:
            stops += 1
            allowed.append(True)
    assert stops >= 5
    assert len(computed) == len(set(computed)) == 12
    assert results.identical(expected)


def test_folder_with_another_experiment_is_refused(tmp_path):
    run(SPEC, tmp_path / "run", jobs=1)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(
        hl.errors.InvalidArgument, match=r"contains another experiment \(seed is 8 "
    ):
        run(SPEC.with_changes(seed=8), tmp_path / "run")
    assert sorted(tmp_path.rglob("*")) == before


def test_file_in_place_of_the_folder_is_refused_before_anything_is_computed(tmp_path, monkeypatch):
    (tmp_path / "run").write_text("mine")
    monkeypatch.setattr("heirloom.runs.workers.compute.run_job", lambda *_: pytest.fail("computed"))
    with pytest.raises(hl.errors.CannotWrite, match="is a file: choose a folder"):
        run(SPEC, tmp_path / "run", jobs=1)
    assert (tmp_path / "run").read_text() == "mine"
    assert os.listdir(tmp_path) == ["run"]


def test_run_accepts_the_current_folder(tmp_path, expected, monkeypatch):
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    assert run(SPEC, ".", jobs=1).identical(expected)


def test_symbolic_link_leads_to_the_samelock(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "run")
    with (
        lock(tmp_path / "run"),
        pytest.raises(hl.errors.InvalidArgument, match="another run is in progress in"),
    ):
        run(SPEC, tmp_path / "link", jobs=1)


def test_progress_in_a_log_shows_rate_and_last_job(capsys):
    with progress("title", 10, 4) as advance:
        for i in range(6):
            advance(f"job {i}")
    error = capsys.readouterr().err
    assert error.startswith("title: 10 of 10 jobs done, ")
    assert "jobs/s, 0 s left (last: job 5)" in error
    assert error.count("\n") == 1


def test_files_that_are_not_of_the_run_are_never_changed(tmp_path):
    """A run may be stored beside them, and they are never taken for its own."""
    names = ("thesis.txt", "manifest.json", "returns/notebook.ipynb", "run.sqlite.backup", ".lock")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    for _ in range(2):
        run(FAST, tmp_path, jobs=1)
    assert {(tmp_path / name).read_text() for name in names} == {"mine"}
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == len(names) + 1


def test_complete_run_is_neither_computed_nor_written(tmp_path, monkeypatch):
    run(FAST, tmp_path / "run", jobs=1)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "run").iterdir()}
    monkeypatch.setattr("heirloom.runs.workers.compute.run_job", lambda *_: pytest.fail("computed"))
    run(FAST, tmp_path / "run", jobs=1)
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "run").iterdir()} == before


def test_jobs_within_their_limit_have_the_same_results_as_without_one(tmp_path, expected):
    limited = run(SPEC.with_changes(limit=1e6), tmp_path / "run", jobs=1)
    for name in expected.data_vars:
        assert limited[name].equals(expected[name])


def test_jobs_that_did_not_finish_are_results_and_are_not_repeated(tmp_path, capsys):
    spec = SPEC.with_changes(limit=1e-9)
    results = run(spec, tmp_path / "run", jobs=1)
    assert np.isnan(results.returns).all()
    assert (results.updates == -1).all()
    assert np.isfinite(results.optimal).all()
    assert RunStore(tmp_path / "run", spec).remaining_jobs() == []
    assert (StoredRun(tmp_path / "run").seconds() > 0).all()
    print_results({"run": results}, "limited")
    assert "did not finish" in " ".join(capsys.readouterr().out.split())


def test_limit_is_not_for_runs_with_a_measure():
    with pytest.raises(hl.errors.InvalidArgument, match="limit and measure are given"):
        SPEC.with_changes(limit=1.0, measure="transfer")


def test_compiling_kernels_does_not_count_for_the_limit():
    @njit
    def inner(x):
        return x + 1

    @njit
    def outer(x):
        return inner(x) * 2

    before, learned = thread_time(), learning_time()
    outer(1.0)
    compiled = thread_time() - before
    assert learning_time() - learned < 0.5 * compiled
