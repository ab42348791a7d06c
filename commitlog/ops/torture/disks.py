"""Small disks that can be filled: a tmpfs each, where this process may mount one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FILL_PIECE = 1 << 20


class SmallDisk:
    """A folder on a disk of its own, or, where none could be mounted, a plain one that cannot be filled."""

    def __init__(self, path: Path, *, is_mounted: bool) -> None:
        self.path = path
        self.is_mounted = is_mounted
        self._filler = path / ".filler"

    def fill(self) -> None:
        """Leave no room on it."""
        with self._filler.open("wb", buffering=0) as file:
            for piece in (_FILL_PIECE, 4096, 1):
                try:
                    while True:
                        file.write(bytes(piece))
                except OSError:
                    continue

    def empty(self) -> None:
        """Give the room back."""
        self._filler.unlink(missing_ok=True)


@contextmanager
def small_disk(path: Path, mebibytes: int) -> Iterator[SmallDisk]:
    """A disk of this size, as long as the block runs."""
    path.mkdir(parents=True)
    # nosuid and the like are not needed: only this user's own processes write there.
    mount = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=755", "commitlog-torture", str(path)]
    try:
        is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        is_mounted = False
    try:
        yield SmallDisk(path, is_mounted=is_mounted)
    finally:
        if is_mounted:
            # Who still writes there keeps it until its end.
            subprocess.run(["umount", "--lazy", str(path)], capture_output=True, check=False)
