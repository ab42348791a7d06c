"""Doctor finds each thing that can be wrong between the log, the catalog and the files, and nothing in a healthy lake."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from log_running import Ids, seed_of, serving

from commitlog.catalog.projector import Projector
from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.domain.json_form import proposal_from_json
from commitlog.log.codec import decode_statistics
from commitlog.ops.doctor import CheckResult, examine

TYPES = {"id": pa.int64(), "v": pa.string(), "f": pa.float64()}


class LiveLake:
    """A log that decides, and what tests do to it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.log = CommitLog.connect(settings=settings)
        self.folder = Path(settings.data_path)

    def write(self, name: str, ids: range) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = {"id": list(ids), "v": [str(n) for n in ids], "f": [n / 2 for n in ids]}
        pq.write_table(pa.table(columns, schema=pa.schema(TYPES)), path)
        return path

    def append(self, table: str, name: str, ids: range) -> None:
        with self.log.transaction() as tx:
            tx.append(table, files=[str(self.write(name, ids))])

    def project(self) -> None:
        Projector(self.settings, decode_statistics=decode_statistics).project_to_end()

    def sql(self, text: str) -> None:
        """Damage the catalog."""
        with psycopg.connect(self.settings.database_url) as conn:
            conn.execute("SET commitlog.projector = 'on'")
            conn.execute(text.encode())
