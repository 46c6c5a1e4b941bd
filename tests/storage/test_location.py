"""Folders and URLs alike."""

import pytest

import heirloom as hl
from heirloom.storage.location import Location


@pytest.mark.parametrize("kind", ["path", "file URL", "memory"])
def test_a_place_is_written_and_listed(tmp_path, kind):
    where = {
        "path": tmp_path / "a",
        "file URL": f"file://{tmp_path}/a",
        "memory": f"memory:/{tmp_path}/a/",
    }[kind]
    location = Location(where)
    assert location.names() == []
    location.write("one", b"1")
    location.write("deep/two", b"2")
    location.write("one", b"11")
    assert location.names() == ["deep", "one"]
    assert (location / "deep").names() == ["two"]
    assert Location(location).name == location.name


def test_a_file_url_is_a_path(tmp_path):
    location = Location(f"file://{tmp_path}/a")
    assert location.is_local
    assert location.path == tmp_path.resolve() / "a"
    assert str(location / "b") == f"{tmp_path}/a/b"


def test_urls_keep_their_slashes():
    assert str(Location("s3://bucket/run/") / "figures") == "s3://bucket/run/figures"


@pytest.mark.parametrize("where", ["memory://", "s3:///", "a::b"])
def test_what_is_no_place(where):
    with pytest.raises(hl.InvalidArgument, match="is not a place for results"):
        Location(where)


def test_a_place_that_cannot_be_read():
    with pytest.raises(hl.InvalidFile, match="could not be read"):
        Location("x" * 300).names()


def test_a_url_that_nothing_opens():
    with pytest.raises(hl.InvalidArgument, match=r"nothing://x cannot be reached .*nothing"):
        Location("nothing://x").names()


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(hl.CannotWrite, match="could not be written"):
        Location(tmp_path / "file").write("one", b"1")
