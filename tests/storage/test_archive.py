"""Archives that overlap, repeat or lie about sizes are refused, within a limit on memory."""

import os
import tracemalloc
import zipfile

import numpy as np
import pytest

import heirloom as hl
from heirloom.storage import archive
from tests.attack import forged

HEADER = ("header.json", b"{}")
NUMBERS = forged.npy(np.arange(3.0))
NESTED = b'{"":' * 100 + b"{}" + b"}" * 100 + b","
CLAIMED = NUMBERS.replace(b"(3,), }         ", b"(1000000000,), }")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tasks.heirloom"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (forged.archive_of([HEADER, ("R.npy", NUMBERS), ("R.npy", NUMBERS)]), "the same name"),
        (forged.archive_of([HEADER, HEADER]), "the same name"),
        (forged.overlapping(bytes(2**10), 2), "larger than the file"),
        (forged.archive_of([HEADER], compression=zipfile.ZIP_DEFLATED), "is compressed"),
        (forged.archive_of([("R.npy", NUMBERS)]), r"header\.json is missing"),
        (forged.archive_of([("header.json", b"[]")]), "is not a JSON object"),
        (forged.archive_of([HEADER, ("R.npy", NUMBERS[:-1])]), "buffer size"),
        (forged.archive_of([HEADER, ("R.npy", NUMBERS[:-8])]), r"size 2 into shape \(3,\)"),
        (
            forged.archive_of([HEADER, ("R.npy", NUMBERS.replace(b"(3,), ", b"(9**9)"))]),
            "was not written by Heirloom",
        ),
        (forged.archive_of([HEADER, ("R.npy", forged.npy(np.array([None])))]), "not contain num"),
        (forged.archive_of([HEADER, ("R.npy", forged.npy(np.ones((2, 2)).T))]), "row-major order"),
    ],
)
def test_forged_archive_is_refused(path, data, message):
    path.write_bytes(data)
    with pytest.raises(hl.errors.InvalidFile, match=message):
        archive.read(path, "memory")


@pytest.mark.parametrize(
    "data",
    [
        forged.overlapping(bytes(2**20), 4000),
        forged.overlapping(b"", 10_000),
        forged.archive_of([("header.json", b"[" + NESTED * 1000 + '"\U0001f600"]'.encode())]),
        forged.archive_of([HEADER, ("R.npy", CLAIMED), ("pad", bytes(2**17))]),
        forged.archive_of([HEADER, ("R.npy", bytes(2**24))], compression=zipfile.ZIP_DEFLATED),
    ],
    ids=[
        "members that overlap",
        "directory of many members",
        "header of nested objects",
        "array that claims 8 GB",
        "array of zeros that is compressed",
    ],
)
def test_hostile_archive_takes_memory_proportional_to_its_size(path, data):
    """The limit is 50 times the size of the file, and a MiB."""
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(hl.errors.InvalidFile):
            hl.TaskMemory.load(path)
        assert tracemalloc.get_traced_memory()[1] < 50 * len(data) + 2**20
    finally:
        tracemalloc.stop()


def test_pipes_devices_and_folders_are_neither_read_nor_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for name in (pipe, "/dev/zero", tmp_path):
        with pytest.raises(hl.errors.InvalidFile, match="it is not a file"):
            hl.TaskMemory.load(name)
    for name in (pipe, tmp_path):
        with pytest.raises(hl.errors.CannotWrite, match="it is not a regular file"):
            hl.TaskMemory(2, 1).save(name)
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]


def test_link_is_not_replaced_and_its_target_is_unchanged(tmp_path, path):
    hl.TaskMemory(2, 1).save(path)
    before = path.read_bytes()
    for target in (path, tmp_path / "missing"):
        link = tmp_path / f"link to {target.name}"
        link.symlink_to(target)
        with pytest.raises(hl.errors.CannotWrite, match="it is a link"):
            hl.TaskMemory(3, 1).save(link)
        assert link.is_symlink()
    assert path.read_bytes() == before
    assert not (tmp_path / "missing").exists()
    assert hl.TaskMemory.load(tmp_path / f"link to {path.name}").n_states == 2


def test_file_in_a_folder_that_is_a_link_is_written(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    hl.TaskMemory(2, 1).save(tmp_path / "link" / "tasks")
    assert hl.TaskMemory.load(tmp_path / "folder" / "tasks").n_states == 2


def test_bytes_that_are_not_booleans_are_refused():
    """Compiled code may read a byte that is neither 0 nor 1 in another way than numpy."""
    wrong = np.array([2, 1], dtype=np.uint8).view(bool)
    with pytest.raises(hl.errors.InvalidFile, match="neither true nor false"):
        archive.take({"known": wrong}, "known", np.bool_, (2,))


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
