"""The lock keeps two runs out of one folder, where the system has locks."""

import os
import sys

import pytest

import heirloom as hl
from heirloom.runs import lock as module
from heirloom.runs.lock import lock
from heirloom.storage.location import Location


def test_system_without_locks_gives_no_exclusive_access(tmp_path, monkeypatch):
    """There is no module fcntl on Windows."""
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with lock(Location(tmp_path / "run")) as exclusive:
        assert not exclusive


def test_folder_below_a_file_cannot_be_locked(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(hl.CannotWrite, match=r"could not be created \(Not a directory\)"),
        lock(Location(tmp_path / "file" / "run")),
    ):
        pass


def test_folder_beside_which_no_file_can_be_created_is_used_without_a_lock(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()

    def refused(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(module, "_acquire", refused)
    with lock(Location(tmp_path / "run")) as exclusive:
        assert not exclusive


@pytest.mark.parametrize("replaced", [True, False])
def test_lock_of_a_file_that_another_run_deletes_is_taken_again(tmp_path, monkeypatch, replaced):
    """The other run deletes it between the opening and the lock; it may create a new one."""
    deleted = []
    samestat, file = os.path.samestat, tmp_path / ".run.lock"

    def delete_first(*stats):
        if len(deleted) < 2:
            deleted.append(file)
            file.unlink()
            if replaced:
                file.write_text("of another run")
                return samestat(stats[0], os.stat(file))
            raise FileNotFoundError
        return samestat(*stats)

    monkeypatch.setattr(os.path, "samestat", delete_first)
    with lock(Location(tmp_path / "run")) as exclusive:
        assert exclusive
        assert len(deleted) == 2
        with pytest.raises(hl.InvalidArgument, match="another run is in progress"):
            lock(Location(tmp_path / "run")).__enter__()
    assert not file.exists()


def test_lock_is_given_up_if_other_runs_delete_its_file_again_and_again(tmp_path, monkeypatch):
    monkeypatch.setattr(os.path, "samestat", lambda *_: False)
    with lock(Location(tmp_path / "run")) as exclusive:
        assert not exclusive


def test_folders_created_for_the_lock_are_removed_unless_they_are_used(tmp_path):
    with lock(Location(tmp_path / "a" / "b" / "run")):
        assert (tmp_path / "a" / "b").is_dir()
    assert list(tmp_path.iterdir()) == []
    with lock(Location(tmp_path / "a" / "b" / "run")):
        (tmp_path / "a" / "kept").write_text("")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["kept"]
