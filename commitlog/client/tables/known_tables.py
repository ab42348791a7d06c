"""Tables as they were at a head that was heard of not long ago, so that an append need not ask anybody.

Receipts name the head and its schema version. As long as this is the version at which a table was looked up, nothing of the
table has changed but perhaps a property, which no append is judged by. That the head has moved on meanwhile does no harm: the
log judges an append by what has changed since the snapshot that it names.
"""

from __future__ import annotations

import threading

from commitlog.client.tables.table_at import KnownTable, TableAt
from commitlog.domain.model.types import fold

TABLES_MAX = 1_000
VERSIONS_MAX = 100


class KnownTables:
    """What one process knows of the newest schema version that it has heard of. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._head_snapshot_id = -1
        self._schema_version = -1
        self._versions: dict[int, int] = {}
        self._tables: dict[tuple[str, str], TableAt] = {}

    def see(self, head_snapshot_id: int, schema_version: int) -> None:
        """Note a snapshot that was the newest, and its schema version."""
        with self._lock:
            self._versions[head_snapshot_id] = schema_version
            if len(self._versions) > VERSIONS_MAX:
                del self._versions[next(iter(self._versions))]
            if schema_version > self._schema_version:
                self._schema_version = schema_version
                self._tables.clear()
            self._head_snapshot_id = max(self._head_snapshot_id, head_snapshot_id)

    def add(self, schema: str, table: str, snapshot_id: int, at: TableAt) -> None:
        """Note a table as of a snapshot; forgotten where the snapshot's schema version is not known to be the newest."""
        with self._lock:
            if self._versions.get(snapshot_id) == self._schema_version:
                self._tables[fold(schema), fold(table)] = at
                if len(self._tables) > TABLES_MAX:
                    del self._tables[next(iter(self._tables))]

    def at_head(self, schema: str, table: str) -> KnownTable | None:
        """The table at the newest snapshot that was seen; None when it was not looked up at this schema version."""
        with self._lock:
            at = self._tables.get((fold(schema), fold(table)))
            return None if at is None else KnownTable(self._head_snapshot_id, at)

    def at(self, schema: str, table: str, snapshot_id: int) -> TableAt | None:
        """The table as of a snapshot; None when it was not looked up at the snapshot's schema version."""
        with self._lock:
            if self._versions.get(snapshot_id) != self._schema_version:
                return None
            return self._tables.get((fold(schema), fold(table)))
