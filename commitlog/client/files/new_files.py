"""Names for new data files: which were given out here and are in no table yet."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path

from commitlog.client.files.lake import new_name
from commitlog.errors import DataFileError

NAMES_MAX = 10_000


class NewFiles:
    """Gives out names that no other file has, and knows them until they are first used. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unused: dict[str, None] = {}

    def below(self, table: str, folder: str | None) -> str:
        """A path for a new Parquet file in a table's folder, which is made if it is a local one.

        Raises:
            DataFileError: where the files of the table will be is not known yet.
        """
        if folder is None:
            raise DataFileError(f"where the files of table {table} will be is known when its creation is committed")
        if "://" not in folder and not os.path.isdir(folder):
            os.makedirs(folder, exist_ok=True)
        path = f"{folder.rstrip('/')}/{new_name()}.parquet"
        with self._lock:
            self._unused[path] = None
            if len(self._unused) > NAMES_MAX:
                del self._unused[next(iter(self._unused))]
        return path

    def take(self, paths: Iterable[str | Path]) -> frozenset[str | Path]:
        """Those of the paths that were given out and not taken before: no table can have them."""
        with self._lock:
            return frozenset(path for path in paths if self._unused.pop(str(path), path) is None)
