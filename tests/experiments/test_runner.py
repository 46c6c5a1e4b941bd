"""A run gives the same bits however it is run, and however often it is stopped."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

import heirloom as hl
from heirloom.experiments.progress import progress
from heirloom.experiments.runner import run
from heirloom.experiments.spec import ExperimentSpec
from heirloom.experiments.store import RunStore, open_run, read_results
from heirloom.experiments.units import run_unit

SPEC = ExperimentSpec.read(
    {
        "name": "small",
        "family": {"name": "corridor", "variant": "text"},
        "defaults": {"n_known": 1},
        "agents": [
            {"algorithm": "RMax"},
            {"algorithm": "LRMax", "d_max": [0.1, 0.2]},
            {"algorithm": "QLearning"},
        ],
        "tasks": 3,
        "distinct_tasks": 2,
        "episodes": 20,
        "steps": 11,
        "repetitions": 3,
        "seed": 7,
    }
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The results of a run that was never stopped."""
    return run(SPEC, tmp_path_factory.mktemp("whole") / "run", jobs=1)


def test_results_are_labelled_and_open_with_xarray(tmp_path, whole):
    run(SPEC, tmp_path / "run", jobs=1)
    with xr.open_zarr(tmp_path / "run", chunks=None) as opened:
        assert dict(opened.sizes) == {"agent": 4, "repetition": 3, "task": 3, "episode": 20}
        assert opened.agent.values.tolist() == ["RMax", "LRMax(0.1)", "LRMax(0.2)", "QLearning"]
        assert opened.attrs["spec"] == SPEC.as_json()
        assert opened.attrs["seed"] == 7
        assert opened.attrs["versions"]["numpy"] == np.__version__
        assert opened.load().identical(whole)
    assert bool(whole.done.all())
    assert (whole.returns >= 0).all()


def test_one_and_two_workers_give_the_same_bits(tmp_path, whole):
    assert run(SPEC, tmp_path / "run", jobs=2).identical(whole)


def test_units_depend_on_the_spec_and_their_numbers_only(whole):
    for unit in ((3, 2), (0, 0), (1, 1)):
        results = run_unit(SPEC, *unit)
        for name, array in results.items():
            stored = whole[name].isel(agent=unit[0], repetition=unit[1]).values
            assert np.array_equal(array, stored, equal_nan=True)


def test_an_agent_more_changes_no_other(tmp_path, whole):
    more = SPEC.as_json()
    more["agents"].insert(0, {"algorithm": "MaxQInit", "name": "first", "n_known": 1})
    results = run(ExperimentSpec.read(more), tmp_path / "run", jobs=1)
    assert results.returns.sel(agent=whole.agent).equals(whole.returns)


def test_a_run_goes_on_where_it_was(tmp_path, whole, monkeypatch):
    """Interrupted after each unit, one after the other; nothing is computed twice."""
    computed = []

    def interrupted(spec, agent, repetition):
        if len(computed) == len(set(computed)) and len(computed) % 2 == 1 and not allowed:
            raise KeyboardInterrupt
        allowed.clear()
        computed.append((agent, repetition))
        return run_unit(spec, agent, repetition)

    allowed = []
    monkeypatch.setattr("heirloom.experiments.runner.run_unit", interrupted)
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
    assert results.identical(whole)


def test_another_experiment_is_refused(tmp_path):
    run(SPEC, tmp_path / "run", jobs=1)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(hl.InvalidArgument, match=r"holds another experiment \(seed is 8 here"):
        run(SPEC.with_changes(seed=8), tmp_path / "run")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_with_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("all of it")
    with pytest.raises(hl.InvalidFile, match="is not a run of Heirloom's"):
        run(SPEC, tmp_path, jobs=1)
    assert os.listdir(tmp_path) == ["thesis.txt"]


def test_two_runs_in_one_folder(tmp_path):
    from heirloom.experiments.runner import _lock

    with (
        _lock(tmp_path / "run"),
        pytest.raises(hl.InvalidArgument, match="another run is working in"),
    ):
        run(SPEC, tmp_path / "run", jobs=1)


@pytest.mark.parametrize("harm", ["altered", "truncated", "deleted", "not done"])
def test_a_chunk_that_is_harmed_is_computed_anew(tmp_path, whole, harm):
    folder = tmp_path / "run"
    run(SPEC, folder, jobs=1)
    store = RunStore(folder, SPEC)
    if harm == "not done":
        store.group["done"][2, 1] = False
    else:
        chunk = folder / "returns" / "c" / "2" / "1" / "0" / "0"
        data = chunk.read_bytes()
        if harm == "altered":
            store.group["returns"][2, 1, 0, 0] = 0.5
        elif harm == "truncated":
            chunk.write_bytes(data[: len(data) // 2])
        else:
            chunk.unlink()
    assert not RunStore(folder, SPEC).is_done((2, 1))
    assert RunStore(folder, SPEC).is_done((2, 0))
    assert run(SPEC, folder, jobs=1).identical(whole)


def test_a_run_that_died_while_it_was_made(tmp_path, whole):
    """The metadata of all arrays is written last."""
    folder = tmp_path / "run"
    RunStore(folder, SPEC)
    metadata = json.loads((folder / "zarr.json").read_text())
    del metadata["consolidated_metadata"]
    (folder / "zarr.json").write_text(json.dumps(metadata))
    shutil.rmtree(folder / "returns")
    assert run(SPEC, folder, jobs=1).identical(whole)


@pytest.mark.parametrize("array", ["optimal", "optimal_discounted", "agent", "task"])
@pytest.mark.parametrize("harm", ["garbage", "deleted"])
def test_what_belongs_to_no_unit_is_repaired_too(tmp_path, whole, array, harm):
    folder = tmp_path / "run"
    run(SPEC, folder, jobs=1)
    for chunk in (path for path in (folder / array / "c").rglob("*") if path.is_file()):
        if harm == "garbage":
            chunk.write_bytes(b"garbage")
        else:
            chunk.unlink()
    if harm == "garbage":
        with pytest.raises(hl.InvalidFile, match="is damaged"):
            read_results(folder)
    assert run(SPEC, folder, jobs=1).identical(whole)


def test_a_run_that_died_while_it_wrote_its_first_file(tmp_path, whole):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "zarr.0f.partial").write_bytes(b"{")
    assert run(SPEC, folder, jobs=1).identical(whole)
    assert not list(folder.rglob("*.partial"))


def test_files_of_others_are_never_deleted(tmp_path):
    """Not in a folder that is refused, nor in one of a run that died while it was made."""
    other = tmp_path / "download.partial"
    other.write_bytes(b"half of it")
    with pytest.raises(hl.InvalidFile, match="is not a run of Heirloom's"):
        run(SPEC, tmp_path, jobs=1)
    assert other.read_bytes() == b"half of it"
    folder = tmp_path / "run"
    RunStore(folder, SPEC)
    (folder / "notes").mkdir()
    (folder / "notes" / "today.partial").write_text("mine")
    metadata = json.loads((folder / "zarr.json").read_text())
    del metadata["consolidated_metadata"]
    (folder / "zarr.json").write_text(json.dumps(metadata))
    run(SPEC, folder, jobs=1)
    assert (folder / "notes" / "today.partial").read_text() == "mine"


def test_here_is_a_folder_too(tmp_path, whole, monkeypatch):
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    assert run(SPEC, ".", jobs=1).identical(whole)


def test_a_link_leads_to_the_same_lock(tmp_path):
    from heirloom.experiments.runner import _lock

    (tmp_path / "link").symlink_to(tmp_path / "run")
    with (
        _lock(tmp_path / "run"),
        pytest.raises(hl.InvalidArgument, match="another run is working in"),
    ):
        run(SPEC, tmp_path / "link", jobs=1)


def test_a_damaged_or_newer_run(tmp_path):
    folder = tmp_path / "run"
    RunStore(folder, SPEC)
    group = zarr.open_group(folder, mode="r+")
    group.attrs["heirloom_run"] = 2
    with pytest.raises(hl.InvalidFile, match="newer Heirloom"):
        open_run(str(folder))
    group.attrs["heirloom_run"] = 1
    group.attrs["spec"] = {"name": "x"}
    with pytest.raises(hl.InvalidFile, match=r"the spec of the run in .* is damaged"):
        run(SPEC, folder, jobs=1)
    (folder / "zarr.json").write_text("{")
    with pytest.raises(hl.InvalidFile, match="is not a run of Heirloom's"):
        read_results(folder)


RUN = """
import sys
from heirloom.experiments.runner import run
from heirloom.experiments.spec import ExperimentSpec
if __name__ == "__main__":
    run(ExperimentSpec.load(sys.argv[1]), sys.argv[2], jobs=2)
"""


def test_a_run_that_is_killed_three_times_gives_the_same(tmp_path):
    """SIGKILL, at moments that differ, then the same command again."""
    spec = SPEC.with_changes(repetitions=8, episodes=400)
    whole = run(spec, tmp_path / "whole", jobs=1)
    (tmp_path / "spec.toml").write_text(spec.to_toml())
    (tmp_path / "run.py").write_text(RUN)
    command = [sys.executable, str(tmp_path / "run.py"), str(tmp_path / "spec.toml")]
    folder = tmp_path / "killed"
    kills = 0
    for target in (2, 9, 20):
        process = subprocess.Popen(
            [*command, str(folder)], stderr=subprocess.DEVNULL, start_new_session=True
        )
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            done = _done(folder)
            if done >= target:
                os.killpg(process.pid, signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.005)
        process.wait()
    assert kills == 3
    subprocess.run([*command, str(folder)], check=True, stderr=subprocess.DEVNULL)
    assert read_results(folder).identical(whole)


def _done(folder: Path) -> int:
    chunks = folder / "done" / "c"
    return sum(1 for _ in chunks.rglob("*") if _.is_file()) if chunks.exists() else 0


def test_ctrl_c_says_how_to_go_on(tmp_path):
    spec = SPEC.with_changes(repetitions=50, episodes=2000)
    (tmp_path / "spec.toml").write_text(spec.to_toml())
    command = ["-m", "heirloom", "run", str(tmp_path / "spec.toml"), "--out", str(tmp_path / "run")]
    process = subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while _done(tmp_path / "run") < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped; the same command goes on where this one was" in errors
    assert "Traceback" not in errors


def test_a_worker_that_is_killed_is_said_to_be(tmp_path):
    spec = SPEC.with_changes(repetitions=50, episodes=2000)
    (tmp_path / "spec.toml").write_text(spec.to_toml())
    command = ["-m", "heirloom", "run", str(tmp_path / "spec.toml"), "--out", str(tmp_path / "run")]
    process = subprocess.Popen(
        [sys.executable, *command, "--jobs", "2"], stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while _done(tmp_path / "run") < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(_workers(process.pid)[0], signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "error: a process of this run was killed" in errors
    assert "Traceback" not in errors


def _workers(parent: int) -> list[int]:
    """The processes that a run has started to work for it."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat, command = (folder / "stat").read_text(), (folder / "cmdline").read_bytes()
        except OSError:  # it has ended
            continue
        if int(stat.rsplit(")", 1)[1].split()[1]) == parent and b"LokyProcess" in command:
            found.append(int(folder.name))
    return found


def test_progress_in_a_log(capsys):
    with progress("title", 10, 4) as advance:
        for i in range(6):
            advance(f"unit {i}")
    error = capsys.readouterr().err
    assert error.startswith("title: 10 of 10 units done, ")
    assert "units/s, 0 s left (last: unit 5)" in error
    assert error.count("\n") == 1


def test_a_disk_that_is_full(tmp_path, monkeypatch):
    """The run stops with an error, and goes on once there is room."""
    folder = tmp_path / "run"
    store = RunStore(folder, SPEC)
    results = run_unit(SPEC, 0, 0)
    array = type(store.group["returns"])

    def full(self, *args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(array, "__setitem__", full)
        with pytest.raises(hl.CannotWrite, match=r"No space left on device\): make room"):
            store.write((0, 0), results)
    assert not RunStore(folder, SPEC).is_done((0, 0))
    store.write((0, 0), results)
    assert RunStore(folder, SPEC).is_done((0, 0))
