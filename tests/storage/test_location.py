"""`Location`: folders and URLs have the same interface."""

import pytest

import heirloom as hl
from heirloom.storage.location import Location


@pytest.mark.parametrize("kind", ["path", "file URL", "memory"])
def test_files_are_written_and_listed(tmp_path, kind):
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


def test_file_urls_are_local_paths(tmp_path):
    location = Location(f"file://{tmp_path}/a")
    assert location.is_local
    assert location.path == tmp_path.resolve() / "a"
    assert str(location / "b") == f"{tmp_path}/a/b"


def test_names_are_joined_to_urls_with_one_slash():
    assert str(Location("s3://bucket/run/") / "figures") == "s3://bucket/run/figures"


@pytest.mark.parametrize("where", ["memory://", "s3:///", "a::b"])
def test_invalid_locations_are_rejected(where):
    with pytest.raises(hl.InvalidArgument, match="is not a valid location"):
        Location(where)


def test_location_that_cannot_be_read_raises_invalid_file():
    with pytest.raises(hl.InvalidFile, match="could not be read"):
        Location("x" * 300).names()


def test_url_with_an_unknown_protocol_raises_invalid_argument():
    with pytest.raises(hl.InvalidArgument, match=r"nothing://x cannot be opened .*nothing"):
        Location("nothing://x").names()


def test_location_that_cannot_be_written_raises_cannot_write(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(hl.CannotWrite, match="could not be written"):
        Location(tmp_path / "file").write("one", b"1")
