"""Runs that are too large are refused at once, and nothing is written before workers answer."""

import os
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

import heirloom as hl
from heirloom.cli.app import app
from heirloom.experiments.job import run_job
from heirloom.experiments.spec import ExperimentSpec
from heirloom.learning.clock import learning_time
from heirloom.paper import negative_transfer
from heirloom.runs import size as pilot
from heirloom.runs.run import run, run_on
from heirloom.runs.size import estimate_seconds, size_of
from tests.small_run import SPEC

EXAMPLES = Path(__file__).parents[2] / "examples" / "specs"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"repetitions": 10**6}, r"has 4,000,000 jobs \(4 agents times 1,000,000 repetitions\)"),
        ({"episodes": 2**31 - 1}, r"each job of the experiment has .* GB of results"),
        ({"episodes": 10**6, "repetitions": 10**5}, r"has .* TB of results, but .* has space for"),
    ],
)
def test_run_that_is_too_large_is_refused_before_anything_is_written(tmp_path, changes, message):
    started = time.process_time()
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        run(SPEC.with_changes(**changes), tmp_path / "there" / "run", jobs=1)
    assert time.process_time() - started < 20  # seconds; hours without the check
    assert os.listdir(tmp_path) == []
    assert run(SPEC, tmp_path / "there" / "run", jobs=1).returns.notnull().all()


def test_sweep_of_a_million_agents_is_refused_without_being_expanded():
    agent = {"algorithm": "LRMax", "n_known": list(range(1, 1001)), "d_max": [0.1] * 1000}
    started = time.process_time()
    with pytest.raises(
        hl.errors.InvalidArgument, match="describes 1,000,000 agents: expected at most"
    ):
        ExperimentSpec.read({**SPEC.as_json(), "agents": [agent]})
    assert time.process_time() - started < 20


def test_size_is_that_of_the_results_of_a_run(tmp_path):
    size = size_of(SPEC)
    run(SPEC, tmp_path / "run", jobs=1)
    file = tmp_path / "run" / "run.sqlite"
    assert size.bytes < file.stat().st_size < size.bytes + 12 * 1500 + 3 * 4096
    assert size.jobs == 12
    assert size.bytes == 12 * 8 * (2 * 60 + 2 * 3) + 3 * 8 * 2 * 3


@pytest.mark.parametrize(
    "arguments",
    [["run", "spec.toml"], ["reproduce", "corridor", "--quick"], ["reproduce", "bounds"]],
)
def test_dry_run_prints_the_size_and_writes_nothing(tmp_path, monkeypatch, arguments):
    (tmp_path / "spec.toml").write_text(SPEC.to_toml())
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(app, [*arguments, "--dry-run"])
    assert ended.exit_code == 0
    for part in (" jobs, ", "B of results", "Estimated time: ", "with "):
        assert part in ended.stdout
    assert os.listdir(tmp_path) == ["spec.toml"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["machines", "perishables", "queues"])
def test_estimate_is_within_a_factor_of_two_of_the_processor_time_of_a_run(name):
    """Of the examples with fewer repetitions; the time to load kernels counts for neither."""
    spec = ExperimentSpec.load(EXAMPLES / f"{name}.toml")
    spec = spec.with_changes(repetitions=1, tasks=min(spec.tasks, 6), episodes=30)
    estimated = estimate_seconds(spec)
    started = learning_time()
    for i in range(len(spec.agents)):
        run_job(spec, i, 0)
    assert 0.5 < estimated / (learning_time() - started) < 2


def test_agents_that_are_not_measured_take_as_long_as_others_of_their_algorithm(monkeypatch):
    seconds = {"RMax": 1.0, "LRMax": 3.0}
    agents = [{"algorithm": "RMax"}, *({"algorithm": "LRMax", "d_max": i / 20} for i in range(12))]
    spec = ExperimentSpec.read({**SPEC.as_json(), "agents": agents, "repetitions": 2})
    measured = []

    def per_job(spec, i):
        measured.append(i)
        return seconds[spec.agents[i].algorithm]

    monkeypatch.setattr("heirloom.runs.size._seconds_per_job", per_job)
    assert estimate_seconds(spec) == pytest.approx(2 * (1 + 12 * 3), abs=1)
    assert measured == list(range(8))


def test_dry_run_of_an_experiment_has_the_sizes_of_all_its_runs(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("heirloom.runs.size.estimate_seconds", lambda spec: 1.0)
    ended = CliRunner().invoke(app, ["reproduce", "negative-transfer", "--dry-run"])
    assert ended.stdout.count(" jobs, ") == len(negative_transfer.K)
    ended = CliRunner().invoke(app, ["reproduce", "tight", "--dry-run"])
    assert ended.stdout.count(" jobs, ") == 2  # one with the first source only, one with all


def test_dry_run_refuses_a_run_that_is_too_large(tmp_path):
    (tmp_path / "spec.toml").write_text(SPEC.with_changes(repetitions=10**6).to_toml())
    ended = CliRunner().invoke(app, ["run", str(tmp_path / "spec.toml"), "--dry-run"])
    assert ended.exit_code == 1
    assert "error: the experiment has 4,000,000 jobs" in ended.stderr


def test_nothing_is_written_if_workers_do_not_answer(tmp_path):
    @contextmanager
    def no_workers():
        raise hl.errors.InvalidArgument("no cluster answers")
        yield

    @contextmanager
    def failing_workers():
        def compute(spec, jobs):
            raise hl.errors.WorkerLost("the cluster died")
            yield

        yield compute

    for start, error in (
        (no_workers, hl.errors.InvalidArgument),
        (failing_workers, hl.errors.WorkerLost),
    ):
        with pytest.raises(error):
            run_on(start, SPEC, tmp_path / "there" / "run")
        assert os.listdir(tmp_path) == []


def test_dry_run_accepts_a_spec_that_records_later_tasks(tmp_path):
    """The time is estimated from the first task only."""
    spec = SPEC.with_changes(tasks=3, record={"tasks": [3]})
    (tmp_path / "spec.toml").write_text(spec.to_toml())
    ended = CliRunner().invoke(app, ["run", str(tmp_path / "spec.toml"), "--dry-run"])
    assert ended.exit_code == 0, ended.output


@pytest.mark.parametrize(
    ("build", "per_episode", "later", "tasks", "episodes"),
    [
        (0.0, 0.01, 1.0, 3, 5000),
        (2.0, 0.001, 1.0, 4, 25_000),  # building a task takes longer than many episodes
        (0.01, 0.001, 5.0, 20, 40),  # transfer makes later tasks slow
        (0.01, 0.01, 3.0, 10, 5000),
        (0.5, 0.2, 1.0, 1, 10),
    ],
)
def test_time_of_a_job_is_extrapolated(build, per_episode, later, tasks, episodes):
    """Exactly, if the time is affine in tasks and in episodes."""

    def seconds(n_tasks, n_episodes):
        of_task = build + per_episode * n_episodes
        return of_task * (1 + later * (n_tasks - 1))

    estimate = pilot.extrapolated(seconds, tasks, episodes)
    assert estimate == pytest.approx(seconds(tasks, episodes))
