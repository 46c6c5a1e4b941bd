"""Folders that users choose, and the files that Heirloom replaces there."""

import os
from pathlib import Path

import pytest

import heirloom as hl
from heirloom.storage.files import folder_path, regular_file, write_output


def test_folder_is_given_by_a_path():
    assert folder_path("a/b") == folder_path(Path("a/b")) == Path("a/b")


@pytest.mark.parametrize("where", ["", None, 3, b"a", "a\0b", "s3://bucket/run", "file:///x"])
def test_what_is_not_a_folder_is_refused(where):
    with pytest.raises(
        hl.errors.InvalidArgument, match=r"out is .*: expected (the path of )?a folder"
    ):
        folder_path(where, "out")


def test_longest_name_can_be_written(tmp_path):
    """A name of 85 characters can have 255 bytes, the most that file systems allow."""
    assert write_output(tmp_path, 85 * "状", b"1").read_bytes() == b"1"


@pytest.mark.parametrize("name", ["summary.json", "figures/tasks.png"])
def test_output_replaces_a_regular_file(tmp_path, name):
    for data in (b"1", b"22"):
        assert write_output(tmp_path / "run", name, data).read_bytes() == data
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


@pytest.mark.parametrize("kind", ["link", "broken link", "pipe", "folder"])
def test_output_does_not_replace_what_is_not_a_regular_file(tmp_path, kind):
    (tmp_path / "mine").write_text("mine")
    file = tmp_path / "summary.json"
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        file.symlink_to(tmp_path / ("mine" if kind == "link" else "missing"))
    with pytest.raises(hl.errors.CannotWrite, match=f"is a {kind.split()[-1]}, not a regular file"):
        write_output(tmp_path, "summary.json", b"ours")
    assert (tmp_path / "mine").read_text() == "mine"
    assert not (tmp_path / "missing").exists()


def test_output_is_not_written_to_a_linked_subfolder(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "figures").symlink_to(tmp_path / "mine")
    with pytest.raises(hl.errors.CannotWrite, match="figures is a link"):
        write_output(tmp_path, "figures/tasks.png", b"ours")
    assert os.listdir(tmp_path / "mine") == []


def test_missing_file_is_not_an_error_and_a_second_name_is_one(tmp_path):
    assert regular_file(tmp_path / "missing") is None
    (tmp_path / "one").write_text("x")
    assert regular_file(tmp_path / "one", alone=True).st_size == 1
    os.link(tmp_path / "one", tmp_path / "two")
    with pytest.raises(hl.errors.InvalidFile, match=r"has another name \(a hard link\)"):
        regular_file(tmp_path / "one", alone=True)
