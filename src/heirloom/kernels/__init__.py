"""Compiled inner loops: they take plain arrays and write their results in place.

A model is passed as compressed sparse rows. Row `k = s * A + a` holds the successors of the pair
(s, a): `successors[indptr[k]:indptr[k + 1]]`, with probabilities `p`. A row may sum to less than 1;
the remainder is the probability of termination, which leads to the absorbing terminal state ⊥
(value 0).

Compiled code is cached on disk, in files of numba with a checksum: code that is damaged, or that
cannot be read or written, is compiled again. If several processes need the same kernel, one of them
compiles it while the others wait. A change of any file of this folder makes all compiled code
obsolete, so that kernel files may import each other. The first compilation takes up to half a
minute and is announced once, through the logger `heirloom` (on the standard error if logging is not
configured).
"""

import hashlib
import logging
import os
import pickle
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba
from numba.core import caching, event
from numba.core.dispatcher import Dispatcher
from numba.core.runtime.nrt import rtsys

QUICK_WITH = "0.68.1"  # the version of numba whose code we load without its compiler
LONGEST_WAIT = 120.0  # seconds for another process to compile a kernel
POLL = 0.02  # seconds between two looks whether it has
PREFIX = "heirloom2-"  # of the names of files in numba's cache, which have another format

forward: Callable[[str], None] | None = None
"""In a worker process, sends a notice to the process that started it."""
_said: set[str] = set()


def say(notice: str) -> None:
    """Log a notice once in this process, or in the process that started this worker."""
    if notice in _said:
        return
    _said.add(notice)
    if forward is not None:
        forward(notice)
    else:  # Python shows warnings even if logging is not configured, but no lower levels
        logging.getLogger("heirloom").warning("heirloom: %s", notice)


def njit(*, cache: bool, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return the decorator of kernels, `numba.njit` with the cache described above."""

    def decorate(function: Callable[..., Any]) -> Any:
        compiled = numba.njit(**options)(function)
        if cache and isinstance(compiled, Dispatcher):  # unless NUMBA_DISABLE_JIT is set
            compiled._cache = KernelCache(function)  # type: ignore[attr-defined]
        return compiled

    return decorate


def inlined(function: Callable[..., Any]) -> Any:
    """Decorate a part of kernels, which costs nothing to call, even with tuples of many arrays.

    Its code is inserted where it is called, without counting references to arrays. So it cannot
    create arrays or return them; neither can the functions that it calls.
    """
    return njit(cache=True, error_model="numpy", _nrt=False, forceinline=True)(function)


class KernelCache(caching.NullCache):
    """The cache of a kernel on disk; without a folder for it, nothing is cached."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._found: caching.FunctionCache | None = None
        self._lock: int | None = None

    @property
    def cache_path(self) -> str | None:
        """The folder of the cache."""
        return None if self._found is None else self._found.cache_path

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return compiled code, if it is in the cache; None if this process must compile it.

        If another process compiles it now, wait for the result.
        """
        if self._found is None:
            try:
                stamp = _stamp(os.path.dirname(self._function.__code__.co_filename))
                self._found = caching.FunctionCache(self._function)
            except (OSError, RuntimeError):  # numba finds no folder that it can write to
                say(
                    "compiled code cannot be stored, so that each process compiles it again: set "
                    "NUMBA_CACHE_DIR to a folder that can be written to"
                )
                return None
            self._found._cache_file = _CheckedFile(
                self._found.cache_path,
                PREFIX + self._found._impl.filename_base,
                stamp,
            )
        found = self._load(sig, target_context)
        if found is None:
            lock = zlib.crc32(f"{self._found._impl.filename_base} {sig}".encode())
            self._lock = lock if _acquire(self._found.cache_path, lock) else None
            found = self._load(sig, target_context)  # another process may have compiled it
            if found is not None:
                self.release()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store compiled code."""
        if self._found is not None:
            # All signatures of a kernel share the index, and the numbers of the data files.
            lock = zlib.crc32(self._found._impl.filename_base.encode())
            has_lock = _acquire(self._found.cache_path, lock)
            try:
                self._found.save_overload(sig, data)
            except OSError as error:
                self._report("cannot be stored", error)
            finally:
                if has_lock:
                    _release(self._found.cache_path, lock)
                self.release()

    def _load(self, sig: Any, target_context: Any) -> Any:
        assert self._found is not None
        try:
            if numba.__version__ != QUICK_WITH:
                return self._found.load_overload(sig, target_context)
            # Numba's own method first imports all that it may need to compile, which takes a third
            # of a second. Compiled code needs only the run time system.
            rtsys.initialize(target_context)
            return self._found._load_overload(sig, target_context)
        except Exception as error:  # numba and pickle raise many kinds
            self._report("cannot be used", error)
            return None

    def _report(self, what: str, error: Exception) -> None:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        say(
            f"compiled code in {self.cache_path} {what} ({why}) and is compiled again; delete this "
            "folder if the message comes again, or set NUMBA_CACHE_DIR to another one"
        )

    def release(self) -> None:
        """Let other processes compile the kernel, if this one has locked it."""
        if self._lock is not None:
            _release(str(self.cache_path), self._lock)
            self._lock = None


def _stamp(folder: str) -> tuple[tuple[str, float, int], ...]:
    """Return the names, times and sizes of all source files in a folder.

    Numba's own stamp would miss changes of the files that a file imports.
    """
    with os.scandir(folder) as entries:
        files = [(one.name, one.stat()) for one in entries if one.name.endswith(".py")]
    return tuple(sorted((name, stat.st_mtime, stat.st_size) for name, stat in files))


class _CheckedFile(caching.IndexDataCacheFile):
    """Numba's index and data files, each behind a line with numba's version and a checksum.

    Without the checksum, damaged code would be executed, or end the process. Data files repeat the
    stamp of the source and the key: numba writes the index first, and a process that ends before it
    has written the data leaves an index that names the file of other code.
    """

    def _load_index(self) -> dict[Any, str]:
        try:
            content = self._read(self._index_path)
        except FileNotFoundError:
            return {}
        stamp, overloads = (None, {}) if content is None else content
        return overloads if stamp == self._source_stamp else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write(self._index_path, (self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        return self._read(self._data_path(name))

    def _save_data(self, name: str, data: Any) -> None:
        self._write(self._data_path(name), data)

    def save(self, key: Any, data: Any) -> None:
        """Save an entry; an index that is damaged is written anew."""
        try:
            self._load_index()
        except Exception:  # it was reported when it was read
            self._save_index({})
        super().save(key, (self._source_stamp, key, data))

    def load(self, key: Any) -> Any:
        """Return an entry, or None if there is none for this key and source."""
        found = super().load(key)
        is_same = found is not None and found[:2] == (self._source_stamp, key)
        return found[2] if is_same else None

    def _read(self, path: str) -> Any:
        with open(path, "rb") as file:
            version, checksum, content = file.read().split(b"\n", 2)
        if version.decode() != self._version:
            return None
        if hashlib.sha256(content).hexdigest() != checksum.decode():
            raise ValueError(f"{os.path.basename(path)} is damaged")
        return pickle.loads(content)

    def _write(self, path: str, content: Any) -> None:
        data = self._dump(content)
        head = f"{self._version}\n{hashlib.sha256(data).hexdigest()}\n"
        with self._open_for_write(path) as file:
            file.write(head.encode() + data)


_lock_files: dict[str, int] = {}  # never closed: closing one would release all its locks


def _acquire(folder: str, number: int) -> bool:
    """Lock a kernel, so that no other process compiles it; wait while another one does.

    Returns False without a lock, where there are none, or after `LONGEST_WAIT`.
    """
    deadline = time.monotonic() + LONGEST_WAIT
    with suppress(OSError, ImportError):  # a file system or a system without locks
        import fcntl

        if folder not in _lock_files:
            path = os.path.join(folder, f"{PREFIX}lock")
            _lock_files[folder] = os.open(path, os.O_RDWR | os.O_CREAT)
        while time.monotonic() < deadline:
            with suppress(BlockingIOError):
                fcntl.lockf(_lock_files[folder], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
                return True
            time.sleep(POLL)
    return False


def _release(folder: str, number: int) -> None:
    import fcntl

    with suppress(OSError):
        fcntl.lockf(_lock_files[folder], fcntl.LOCK_UN, 1, number)


class CompilationNotice(event.Listener):
    """Announces the first compilation of a kernel, and ends one that failed."""

    def on_start(self, event: event.Event) -> None:
        """Announce the compilation, if the function is one of ours."""
        if event.data["dispatcher"].py_func.__module__.startswith(__name__ + "."):
            say(
                "compiling numerical code, which takes up to half a minute; the result is cached "
                "on disk"
            )

    def on_end(self, event: event.Event) -> None:
        """Release the lock of a kernel that was not compiled, and so is not stored."""
        cache = event.data["dispatcher"]._cache
        # `is_failed` of numba is True if there was no exception.
        if event._exc_details is not None and isinstance(cache, KernelCache):
            cache.release()


event.register("numba:compile", CompilationNotice())
