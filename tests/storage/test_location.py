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


@pytest.mark.parametrize("kind", ["path", "memory"])
def test_files_and_folders_are_deleted_if_they_exist(tmp_path, kind):
    location = Location({"path": tmp_path / "a" / "b", "memory": f"memory:/{tmp_path}/a"}[kind])
    location.create()
    location.write("one", b"1")
    location.write("deep/two", b"2")
    for name in ("one", "deep", "missing"):
        location.delete(name)
    assert location.names() == []


def test_file_that_cannot_be_read_is_damaged_unless_it_is_forbidden(tmp_path, monkeypatch):
    """A damaged file is computed again; a forbidden one is the user's to open."""
    location = Location(tmp_path)
    location.write("one", b"1")

    def fail(error):
        def read_bytes(path):
            raise error

        monkeypatch.setattr(type(tmp_path), "read_bytes", read_bytes)

    fail(OSError(5, "Input/output error"))
    assert location.read("one") == b""
    fail(PermissionError(13, "Permission denied"))
    with pytest.raises(hl.InvalidFile, match="Permission denied"):
        location.read("one")
