"""The lock keeps a second run out of a folder, and names the process that has it."""

import os

import pytest

import heirloom as hl
from heirloom.runs.lock import LOCK, lock


def test_lock_names_its_process_and_is_deleted_at_the_end(tmp_path):
    with lock(tmp_path):
        assert f"process {os.getpid()} on " in (tmp_path / LOCK).read_text()
        with (
            pytest.raises(
                hl.errors.InvalidArgument, match=rf"in progress .*process {os.getpid()} on "
            ),
            lock(tmp_path),
        ):
            pass
    assert os.listdir(tmp_path) == []


def test_lock_of_a_killed_process_is_taken_over(tmp_path):
    with lock(tmp_path):
        left = (tmp_path / LOCK).read_bytes()
    (tmp_path / LOCK).write_bytes(left.replace(b" on ", b"999 on "))
    with lock(tmp_path):
        assert f"process {os.getpid()} on " in (tmp_path / LOCK).read_text()


def test_file_of_a_user_in_place_of_the_lock_is_kept(tmp_path):
    (tmp_path / LOCK).write_text("my notes, which are longer than a lock file\n" * 10)
    before = (tmp_path / LOCK).read_bytes()
    with pytest.raises(hl.errors.CannotWrite, match="was not written by Heirloom"), lock(tmp_path):
        pass
    assert (tmp_path / LOCK).read_bytes() == before


def test_file_system_without_locks_is_refused(tmp_path, monkeypatch):
    import fcntl

    def no_locks(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(hl.errors.CannotWrite, match="Function not implemented"), lock(tmp_path):
        pass


def test_folder_below_a_file_cannot_be_locked(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(hl.errors.CannotWrite, match=r"could not be created.*Not a directory"),
        lock(tmp_path / "file" / "run"),
    ):
        pass


@pytest.mark.parametrize("replaced", [True, False])
def test_lock_of_a_file_that_another_run_deletes_is_taken_again(tmp_path, monkeypatch, replaced):
    """The other run deletes it between the opening and the lock; it may create a new one."""
    deleted = []
    samestat, file = os.path.samestat, tmp_path / LOCK

    def delete_first(*stats):
        if len(deleted) < 2:
            deleted.append(file)
            file.unlink()
            if replaced:
                file.write_text("Heirloom runs in process 1")
                return samestat(stats[0], os.stat(file))
            raise FileNotFoundError
        return samestat(*stats)

    monkeypatch.setattr(os.path, "samestat", delete_first)
    with lock(tmp_path):
        assert len(deleted) == 2
        with pytest.raises(hl.errors.InvalidArgument, match="another run is in progress"):
            lock(tmp_path).__enter__()
    assert not file.exists()


def test_lock_is_given_up_if_other_programs_delete_its_file_again_and_again(tmp_path, monkeypatch):
    monkeypatch.setattr(os.path, "samestat", lambda *_: False)
    with pytest.raises(hl.errors.CannotWrite, match="deleted again and again"), lock(tmp_path):
        pass


def test_folders_created_for_the_lock_are_removed_unless_they_are_used(tmp_path):
    with lock(tmp_path / "a" / "b" / "run"):
        assert (tmp_path / "a" / "b" / "run").is_dir()
    assert list(tmp_path.iterdir()) == []
    with lock(tmp_path / "a" / "b" / "run"):
        (tmp_path / "a" / "kept").write_text("")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["kept"]
