"""A disk that loses what was not synced, simulated by recording every call of `os.fsync`."""

import os
import random
import stat
from pathlib import Path


class PowerFailure(BaseException):
    """The machine lost power; not an `Exception`, so that no code handles it."""


class LossyDisk:
    """Records what is on the disk below a folder: what was synced before the power failed.

    A file has the content that it had when it was last synced, and a folder the names that it had
    when it was last synced. The function `sync` replaces `os.fsync`.

    Args:
        root: an existing folder.
        fails_at: number of the call of `os.fsync` at which the power fails, counted from 0; the
            call has no effect.
    """

    def __init__(self, root: Path, fails_at: int) -> None:
        self.root, self.fails_at, self.calls = root, fails_at, 0
        self.fsync = os.fsync
        self.contents: dict[int, bytes] = {}
        self.names: dict[int, dict[str, tuple[int, bool]]] = {}
        self._sync_folder(root)

    def sync(self, descriptor: int) -> None:
        if self.calls == self.fails_at:
            raise PowerFailure
        self.calls += 1
        self.fsync(descriptor)
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            self._sync_folder(path)
        else:
            self.contents[os.fstat(descriptor).st_ino] = path.read_bytes()

    def _sync_folder(self, folder: Path) -> None:
        entries = {path.name: (path.stat().st_ino, path.is_dir()) for path in folder.iterdir()}
        self.names[folder.stat().st_ino] = entries

    def after_failure(self, copy: Path, rng: random.Random, chance: float) -> None:
        """Write to `copy` what the disk contains.

        Each file and each folder that was not synced may have reached the disk by chance, in its
        present state.
        """
        self._restore(self.root, self.root.stat().st_ino, copy, rng, chance)

    def _restore(
        self, now: Path, inode: int, copy: Path, rng: random.Random, chance: float
    ) -> None:
        copy.mkdir()
        present = {}
        if now.is_dir() and now.stat().st_ino == inode:
            present = {path.name: (path.stat().st_ino, path.is_dir()) for path in now.iterdir()}
        entries = dict(self.names.get(inode, {}))
        if rng.random() < chance:
            entries = present
        for name, (child, is_folder) in entries.items():
            if is_folder:
                self._restore(now / name, child, copy / name, rng, chance)
                continue
            content = self.contents.get(child, b"")
            still_there = (now / name).exists() and (now / name).stat().st_ino == child
            if rng.random() < chance and still_there:
                content = (now / name).read_bytes()
            (copy / name).write_bytes(content)
