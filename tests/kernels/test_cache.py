"""Compiled code on disk may be damaged or unusable, and several processes compile it once."""

import errno
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from numba.core import caching
from numba.core.errors import TypingError

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


@pytest.mark.parametrize("ending", ["nbi", pytest.param("nbc", marks=pytest.mark.slow)])
def test_damaged_file_is_compiled_again_and_replaced(tmp_path, ending):
    assert COMPILING in messages(tmp_path)
    for damage in (truncate, flip, lambda data: b"", lambda data: b"\x80"):
        (file,) = tmp_path.rglob(f"*maximise*.{ending}")
        damaged = damage(file.read_bytes())
        file.write_bytes(damaged)
        found = messages(tmp_path)
        assert COMPILING in found
        assert f"compiled code in {file.parent} cannot be used" in found
        assert "delete this folder" in found
        assert file.read_bytes() != damaged
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


def cached_kernel(folder, source):
    """Return a kernel with this source, which is in a file."""
    file = folder / "own_kernel.py"
    file.write_text(source)
    os.utime(file, (1e9, 1e9))  # numba's stamp of a source is this time, and the size
    names = {"__name__": folder.name}  # another one in each test: numba keeps code by name
    exec(compile(source, str(file), "exec"), names)
    return kernels.njit(cache=True)(names["f"])


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_code_of_an_earlier_source_is_not_used(tmp_path, monkeypatch, error):
    """The process that compiled the new source ended between writing the index and the code."""
    monkeypatch.setattr(caching.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernels, "forward", lambda notice: None)
    assert cached_kernel(tmp_path, "def f(x):\n    return x + 1\n")(1) == 2

    def fail(*_):
        raise error

    changed = "def f(x):\n    return x + 10  # changed\n"
    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(kernels._CheckedFile, "_save_data", fail)
        cached_kernel(tmp_path, changed)(1)
    assert cached_kernel(tmp_path, changed)(1) == 11
    again = cached_kernel(tmp_path, changed)
    assert again(1) == 11
    assert sum(again.stats.cache_hits.values()) == 1


def test_code_is_compiled_again_if_another_file_of_its_folder_has_changed(tmp_path, monkeypatch):
    """Kernel files import each other, and compiled code contains the kernels that it calls."""
    monkeypatch.setattr(caching.config, "CACHE_DIR", str(tmp_path / "cache"))
    source, imported = "def f(x):\n    return x + x\n", tmp_path / "imported.py"
    hits = []
    for content in ("A = 1\n", "A = 1\n", "A = 10\n"):
        imported.write_text(content)
        os.utime(imported, (1e9, 1e9))
        kernel = cached_kernel(tmp_path, source)
        assert kernel(3) == 6
        hits.append(sum(kernel.stats.cache_hits.values()))
    assert hits == [0, 1, 0]


def test_code_of_another_signature_is_not_used(tmp_path, monkeypatch):
    """Two processes without locks may write different code to the same file."""
    monkeypatch.setattr(caching.config, "CACHE_DIR", str(tmp_path))
    source = "def f(x):\n    return x + x\n"
    assert cached_kernel(tmp_path, source)(3) == 6
    (data,) = tmp_path.rglob("*.1.nbc")
    code = data.read_bytes()
    assert cached_kernel(tmp_path, source)(2.5) == 5.0
    (other,) = tmp_path.rglob("*.2.nbc")
    other.write_bytes(code)
    assert cached_kernel(tmp_path, source)(2.5) == 5.0


def test_signatures_of_a_kernel_are_stored_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.setattr(caching.config, "CACHE_DIR", str(tmp_path))
    locked, acquire = [], kernels._acquire
    monkeypatch.setattr(kernels, "_acquire", lambda *at: locked.append(at) or acquire(*at))
    kernel = cached_kernel(tmp_path, "def f(x):\n    return x + x\n")
    kernel(3), kernel(2.5)
    assert len(locked) == 4
    assert locked[1] == locked[3]  # for the files of the kernel
    assert locked[0] != locked[2]  # for the compilation of a signature
    assert all(is_free(*lock) for lock in locked)


def is_free(folder, number):
    """Whether another process can take a lock at once."""
    code = (
        "from heirloom import kernels; kernels.LONGEST_WAIT = 0.05; "
        f"print(kernels._acquire({folder!r}, {number}))"
    )
    return subprocess.check_output([sys.executable, "-c", code], text=True) == "True\n"


@pytest.mark.parametrize("when", ["compiled", "stored"])
def test_lock_is_released_if_a_kernel_is_not_compiled_or_stored(tmp_path, monkeypatch, when):
    monkeypatch.setattr(caching.config, "CACHE_DIR", str(tmp_path))
    locked, acquire = [], kernels._acquire
    monkeypatch.setattr(kernels, "_acquire", lambda *at: locked.append(at) or acquire(*at))

    def interrupt(*_):
        raise KeyboardInterrupt

    kernel = cached_kernel(tmp_path, "def f(x):\n    return x + x\n")
    if when == "stored":
        monkeypatch.setattr(kernels._CheckedFile, "save", interrupt)
        with pytest.raises(KeyboardInterrupt):
            kernel(3)
    else:
        with pytest.raises(TypingError):
            kernel(None)
    assert locked
    assert all(is_free(*lock) for lock in locked)


def test_process_that_finds_a_kernel_on_disk_imports_nothing_to_compile_it(tmp_path):
    messages(tmp_path)
    script = SCRIPT + "import sys; print('numba.np.linalg' in sys.modules)"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", script]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert (found.stdout, found.stderr) == ("False\n", "")
