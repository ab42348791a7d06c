"""A lake for tests of what looks after it: a real sequencer and projector, files on disk, and ways to damage all of it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from log_running import serving

from commitlog.catalog.projector import Projector
from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.log.codec import decode_statistics
from commitlog.log.genesis import init_log

COLUMNS = {"id": pa.int64(), "v": pa.string(), "f": pa.float64()}
FIRST_FILE = 1
"""The id of the first file: its mapping by name has the one before."""

DAY_S = 86_400


class LiveLake:
    """A log that decides, and a catalog that follows until `pause` is called."""

    def __init__(self, settings: Settings, serving: ExitStack) -> None:
        self._serving = serving
        self.settings = settings
        self.log = CommitLog.connect(settings=settings)
        self.folder = Path(settings.data_path)
        self._stop = threading.Event()
        projector = Projector(settings, decode_statistics=decode_statistics)
        self._projecting = threading.Thread(target=projector.run, args=(self._stop,))
        self._projecting.start()

    def pause(self) -> None:
        """Have the catalog stay as it is from now on."""
        self._stop.set()
        self._projecting.join()

    def stop_sequencer(self) -> None:
        """Have proposals wait from now on."""
        self._serving.close()

    def settle(self) -> None:
        """Wait until the catalog holds all that was committed here."""
        self.log.transaction()

    def write(self, name: str, ids: range = range(10)) -> Path:
        """A Parquet file below the data path."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = {"id": list(ids), "v": [str(n) for n in ids], "f": [n / 2 for n in ids]}
        pq.write_table(pa.table(columns, schema=pa.schema(COLUMNS)), path)
        return path

    def append(self, table: str, name: str, ids: range = range(10)) -> Path:
        """A Parquet file, committed."""
        path = self.write(name, ids)
        with self.log.transaction() as tx:
            tx.append(table, files=[str(path)])
        return path

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        """Run a statement on the catalog, past its guard."""
        with psycopg.connect(self.settings.database_url) as conn:
            conn.execute("SET commitlog.projector = 'on'")
            cursor = conn.execute(text.encode())
            return cursor.fetchall() if cursor.description else []

    def age(self, *paths: Path, days: int = 30) -> None:
        """Make files older."""
        then = time.time() - days * DAY_S
        for path in paths:
            os.utime(path, (then, then))


@contextmanager
def live_lake(settings: Settings) -> Iterator[LiveLake]:
    """A lake with a file table `t` (a dirty file, a clean one) and a keyed table `k`, served until the block ends."""
    init_log(settings)
    with ExitStack() as stack:
        stack.enter_context(serving(settings))
        lake = LiveLake(settings, stack)
        try:
            with lake.log.transaction() as tx:
                tx.create_table("main.t", schema=pa.schema(COLUMNS))
            with lake.log.transaction() as tx:
                tx.create_table("main.k", schema=pa.schema({"id": pa.int64(), "v": pa.string()}), primary_key=["id"])
            lake.append("main.t", "main/t/a.parquet")
            lake.append("main.t", "main/t/b.parquet", range(10, 20))
            with lake.log.transaction() as tx:
                tx.delete("main.t", positions={FIRST_FILE: [1, 2]})
            with lake.log.transaction() as tx:
                tx.insert_row("main.k", {"id": 1, "v": "x"})
                tx.insert_row("main.k", {"id": 2, "v": "y"})
            lake.settle()
            yield lake
        finally:
            lake.pause()
            lake.log.close()
