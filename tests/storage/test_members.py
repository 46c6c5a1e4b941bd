"""Archives that overlap, repeat or lie about sizes are refused, within a limit on memory."""

import tracemalloc
import zipfile

import numpy as np
import pytest

import heirloom as hl
from heirloom.storage import archive
from heirloom.storage.members import LARGEST_DIRECTORY, LARGEST_HEADER
from tests.attack import forged

HEADER = ("header.json", b"{}")
NUMBERS = forged.npy(np.arange(3.0))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tasks.heirloom"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            forged.archive_of([HEADER, ("R.npy", NUMBERS), ("R.npy", NUMBERS)]),
            "two members 'R.npy'",
        ),
        (forged.archive_of([HEADER, HEADER]), "two members 'header.json'"),
        (forged.overlapping(NUMBERS, 2), "overlap"),
        (forged.archive_of([HEADER], compression=zipfile.ZIP_DEFLATED), "is compressed"),
        (forged.archive_of([("R.npy", NUMBERS)]), r"header\.json is missing"),
        (forged.archive_of([("header.json", b"[]")]), "is not a JSON object"),
        (
            forged.archive_of([("header.json", b" " * (LARGEST_HEADER + 1))]),
            f"above {LARGEST_HEADER}",
        ),
        (
            forged.ended(b"", b"\0" * (LARGEST_DIRECTORY + 1), 10),
            f"above {LARGEST_DIRECTORY}",
        ),
        (forged.archive_of([HEADER, ("R.npy", NUMBERS[:-1])]), "buffer size|numbers"),
        (forged.archive_of([HEADER, ("R.npy", NUMBERS[:-8])]), "has 2 numbers"),
        (
            forged.archive_of([HEADER, ("R.npy", NUMBERS.replace(b"(3,), ", b"(9**9)"))]),
            "as Heirloom writes it",
        ),
        (forged.archive_of([HEADER, ("R.npy", forged.npy(np.array([None])))]), "as Heirloom"),
        (forged.archive_of([HEADER, ("R.npy", forged.npy(np.ones((2, 2)).T))]), "as Heirloom"),
    ],
)
def test_forged_archive_is_refused(path, data, message):
    path.write_bytes(data)
    with pytest.raises(hl.InvalidFile, match=message):
        archive.read(path, "memory")


@pytest.mark.parametrize(
    "data",
    [
        forged.overlapping(bytes(2**20), 4000),
        forged.archive_of([("header.json", b"[" + b"[]," * 300_000 + b"0]")]),
        forged.ended(b"", b"PK\1\2" + b"\0" * (2**22), 2**16),
    ],
    ids=["members that overlap", "header of many lists", "directory of many members"],
)
def test_hostile_archive_takes_memory_proportional_to_its_size(path, data):
    """The limit is twice the size of the file, and 100 MiB."""
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(hl.InvalidFile):
            hl.TaskMemory.load(path)
        assert tracemalloc.get_traced_memory()[1] < 2 * len(data) + 100 * 2**20
    finally:
        tracemalloc.stop()


def test_pipes_and_devices_are_refused(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe")
    for name in (tmp_path / "pipe", "/dev/zero", tmp_path):
        with pytest.raises(hl.InvalidFile, match="it is not a file"):
            hl.TaskMemory.load(name)


def test_arrays_of_all_numeric_types_are_read_as_they_were_written(path):
    arrays = {
        dtype: np.arange(6).astype(dtype).reshape(shape)
        for dtype, shape in (("<f8", (2, 3)), (">f4", (6,)), ("|b1", (6, 1)), ("<u2", (1, 2, 3)))
    } | {"empty": np.empty((0, 4)), "scalar": np.array(2.5), "columns": np.ones((2, 3)).T}
    archive.write(path, "memory", archive.Content({"x": 1}, arrays))
    header, read = archive.read(path, "memory")
    assert header == {"x": 1}
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype
        assert np.array_equal(read[name], array)
        assert read[name].shape == array.shape


def test_content_that_could_not_be_loaded_is_not_written(path):
    hl.TaskMemory(2, 1).save(path)
    before = path.read_bytes()
    for content in (
        archive.Content({"x": "x" * LARGEST_HEADER}, {}),
        archive.Content({}, {"x": np.array(["text"])}),
    ):
        with pytest.raises(hl.InvalidArgument, match="could not be loaded again"):
            archive.write(path, "memory", content)
    assert path.read_bytes() == before
