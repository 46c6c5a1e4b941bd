"""Compiled code on disk may be damaged or unusable, and several processes compile it once."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core import caching

from heirloom import kernels

SCRIPT = """
import numpy as np
from heirloom.kernels import values
V, policy = np.empty(2), np.empty(2, dtype=np.int64)
values.maximise(np.arange(4.0), V, policy)
assert V.tolist() == [1, 3]
"""
COMPILING = "compiling numerical code"

pytestmark = pytest.mark.skipif(
    bool(os.environ.get("NUMBA_DISABLE_JIT")), reason="nothing is compiled"
)


def start(folder, **environment):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), **environment}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT], env=environment, stderr=subprocess.PIPE, text=True
    )


def messages(folder):
    process = start(folder)
    stderr = process.communicate()[1]
    assert process.returncode == 0, stderr
    return stderr


def truncate(data):
    return data[: len(data) // 2]


def flip(data):
    changed = bytearray(data)
    changed[len(data) * 3 // 4] ^= 255  # in the machine code of a data file
    return bytes(changed)


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", [truncate, flip, lambda data: b"", lambda data: b"\x80"])
def test_damaged_file_is_compiled_again_and_replaced(tmp_path, ending, damage):
    assert COMPILING in messages(tmp_path)
    (file,) = tmp_path.rglob(f"*maximise*.{ending}")
    file.write_bytes(damage(file.read_bytes()))
    found = messages(tmp_path)
    assert COMPILING in found
    assert f"compiled code in {file.parent} cannot be used" in found
    assert "delete this folder" in found
    assert messages(tmp_path) == ""


def test_code_is_compiled_without_a_folder_that_can_be_written(tmp_path, monkeypatch):
    """Neither NUMBA_CACHE_DIR, nor the folder of the package, nor that of the user."""
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    monkeypatch.setattr(kernels, "_said", set())
    said = []
    monkeypatch.setattr(kernels, "forward", said.append)

    @kernels.njit(cache=True)
    def double(x):
        return 2 * x

    assert double(3) == 6
    assert "set NUMBA_CACHE_DIR to a folder that can be written to" in said[0]


def test_code_is_compiled_if_the_disk_of_the_cache_is_full(tmp_path, monkeypatch):
    monkeypatch.setattr(caching.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernels, "_said", set())
    said = []
    monkeypatch.setattr(kernels, "forward", said.append)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(caching.IndexDataCacheFile, "_open_for_write", full)

    @kernels.njit(cache=True)
    def double(x):
        return 2 * x

    assert double(3) == 6
    (notice,) = said
    assert str(tmp_path) in notice
    assert "cannot be stored (No space left on device)" in notice


def test_two_processes_compile_a_kernel_once(tmp_path):
    started = [start(tmp_path) for _ in range(3)]
    announced = [COMPILING in process.communicate()[1] for process in started]
    assert sorted(announced) == [False, False, True]
    assert [process.returncode for process in started] == [0, 0, 0]


def test_process_does_not_wait_forever_for_another_one(tmp_path, monkeypatch):
    """The other one may have been stopped while it compiles."""
    monkeypatch.setattr(kernels, "LONGEST_WAIT", 0.3)
    hold = (
        "import sys; from heirloom import kernels; "
        f"print(kernels._acquire({str(tmp_path)!r}, 7), flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout.readline() == "True\n"
        assert not kernels._acquire(str(tmp_path), 7)
        assert kernels._acquire(str(tmp_path), 8)
    finally:
        other.communicate("")
    assert kernels._acquire(str(tmp_path), 7)


def test_kernels_are_found_in_the_cache_by_their_types(tmp_path, monkeypatch):
    monkeypatch.setattr(caching.config, "CACHE_DIR", str(tmp_path))

    def double(x):
        return x + x

    for number in (3, 2.5, np.arange(2.0)):
        first, second = (kernels.njit(cache=True)(double) for _ in range(2))
        np.testing.assert_array_equal(first(number), second(number))
        assert sum(second.stats.cache_hits.values()) == 1
    assert first.stats.cache_path is not None
    assert list(Path(tmp_path).rglob("*.nbc"))
