"""A folder that is moved or deleted during a run stops the run, and nothing is left behind."""

import shutil

import pytest

import heirloom as hl
from heirloom.runs import store as stores
from heirloom.runs.run import run
from heirloom.runs.stored_run import StoredRun
from heirloom.runs.workers import compute
from tests.small_run import SPEC


@pytest.mark.parametrize(
    "what", ["renamed", "deleted", "replaced", "database deleted", "database replaced"]
)
@pytest.mark.parametrize("after", [1, 6])
def test_run_stops_if_its_folder_disappears(tmp_path, monkeypatch, what, after):
    folder, moved = tmp_path / "there" / "run", tmp_path / "moved"
    run_job, n_computed = compute.run_job, []

    def disturbed(*arguments):
        n_computed.append(arguments)
        if len(n_computed) == after + 1:
            if what in ("renamed", "replaced"):
                folder.rename(moved)
            if what == "deleted":
                shutil.rmtree(folder)
            if what == "replaced":
                folder.mkdir()
            if what.startswith("database"):
                (folder / "run.sqlite").rename(tmp_path / "run.sqlite")
            if what == "database replaced":
                shutil.copy(tmp_path / "run.sqlite", folder / "run.sqlite")
        return run_job(*arguments)

    monkeypatch.setattr(compute, "run_job", disturbed)
    monkeypatch.setattr(stores, "MOST_BYTES", 1)  # every job is committed at once
    with pytest.raises(hl.errors.CannotWrite, match="was moved or deleted"):
        run(SPEC, folder, jobs=1)
    if what.startswith("database"):
        assert folder.exists() == (what == "database replaced")
        return
    if what == "replaced":
        assert list(folder.iterdir()) == []
    else:
        assert list(tmp_path.rglob("run")) == []
    if what != "deleted":
        assert len(StoredRun(moved).status().done) == after
        run(SPEC, moved, jobs=1)
        assert StoredRun(moved).status().is_complete
        assert [path.name for path in moved.iterdir()] == ["run.sqlite"]
