"""The catalog at a commit's base, as a client saw it when it began: plain rows, by the ids that the client knows."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

import pyarrow as pa
from psycopg import sql
from psycopg.rows import dict_row
from pyroaring import BitMap64

from commitlog.catalog.guard import may_propose
from commitlog.catalog.reader import CatalogReader
from commitlog.catalog.tables import DUCKLAKE_COLUMNS
from commitlog.client.files.places import filesystem_of
from commitlog.domain.model.definitions import TableDefinition
from commitlog.domain.state.dumping import load_definition
from commitlog.errors import CatalogUnavailableError

Row: TypeAlias = Mapping[str, Any]
_LIVED = sql.SQL("begin_snapshot <= {at} AND (end_snapshot IS NULL OR end_snapshot > {at})")
_DATA_PATH = "SELECT value, current_schema()::text FROM ducklake_metadata WHERE key = 'data_path' AND scope IS NULL"
_DEFINITION = "SELECT definition FROM commitlog.table_definitions WHERE table_id = %s"
_IS_THERE = "SELECT to_regclass(quote_ident(%s)) IS NOT NULL"
_INLINED_DELETES = sql.SQL("SELECT file_id, row_id FROM {} WHERE file_id = ANY(%s) AND begin_snapshot <= %s")


class CatalogBase:
    """The catalog as of one snapshot, read in one SQL transaction.

    Attributes:
        snapshot_id: which.
        schema: where DuckLake's tables are.
        data_path: of the lake, with a slash at its end.
    """

    def __init__(self, conn: Any, snapshot_id: int) -> None:
        self._conn = conn
        self.snapshot_id = snapshot_id
        (self.data_path, self.schema) = conn.execute(_DATA_PATH).fetchone()

    def may_propose(self, login: str) -> bool:
        """Whether what this login commits is proposed."""
        return may_propose(self._conn, login)

    def rows(self, table: str, **keys: Collection[int]) -> list[Row]:
        """Rows of a table of DuckLake's that are alive at the base, without ``ducklake_`` in its name; uuids are text.

        keys: by column, which values it may have.
        """
        columns = [item.partition(":") for item in DUCKLAKE_COLUMNS[table].split()]
        shown = [
            sql.SQL("{}::text").format(sql.Identifier(name)) if kind[0] == "u" else sql.Identifier(name)
            for name, _, kind in columns
        ]
        names = [name for name, _, _ in columns]
        wanted = [sql.SQL("{} = ANY({})").format(sql.Identifier(k), sql.Literal(list(ids))) for k, ids in keys.items()]
        if "end_snapshot" in names:
            wanted.append(_LIVED.format(at=sql.Literal(self.snapshot_id)))
        asked = sql.SQL("SELECT {} FROM {}").format(sql.SQL(", ").join(shown), sql.Identifier(f"ducklake_{table}"))
        if wanted:
            asked += sql.SQL(" WHERE ") + sql.SQL(" AND ").join(wanted)
        with self._conn.cursor(row_factory=dict_row) as cursor:
            return list(cursor.execute(asked).fetchall())

    def inlined_deletes(self, table_id: int, data_file_ids: Collection[int]) -> dict[int, BitMap64]:
        """By data file, the positions that were deleted at the base without a delete file."""
        name = f"ducklake_inlined_delete_{table_id:d}"
        found: dict[int, BitMap64] = {}
        if self._conn.execute(_IS_THERE, (name,)).fetchone()[0]:
            asked = _INLINED_DELETES.format(sql.Identifier(name))
            for data_file_id, position in self._conn.execute(asked, (list(data_file_ids), self.snapshot_id)):
                found.setdefault(data_file_id, BitMap64()).add(position)
        return found

    def definition(self, table_id: int) -> TableDefinition | None:
        """What the log says of a table, as it is now; None when it does not know it."""
        found = self._conn.execute(_DEFINITION, (table_id,)).fetchone()
        return None if found is None else load_definition(found[0])

    def open(self, path: str) -> pa.NativeFile:
        """A file of the lake, by its whole path or URL."""
        filesystem, inside = filesystem_of(path)
        return filesystem.open_input_file(inside)


class Bases:
    """Connections to the catalog, one for each thread that translates."""

    def __init__(self, database_url: str) -> None:
        self._url = database_url
        self._threads = threading.local()
        self._readers: list[CatalogReader] = []

    @contextmanager
    def at(self, snapshot_id: int) -> Iterator[CatalogBase]:
        """The catalog as of a snapshot; one that restarted since is connected to anew.

        Raises:
            CatalogUnavailableError: PostgreSQL does not answer.
        """
        reader = self._reader()
        with ExitStack() as reading:
            try:
                conn = reading.enter_context(reader.at_once())
            except CatalogUnavailableError:
                conn = reading.enter_context(reader.at_once())
            yield CatalogBase(conn, snapshot_id)

    def close(self) -> None:
        """Let go of all connections."""
        for reader in self._readers:
            reader.close()

    def _reader(self) -> CatalogReader:
        reader: CatalogReader | None = getattr(self._threads, "reader", None)
        if reader is None:
            reader = self._threads.reader = CatalogReader(self._url)
            self._readers.append(reader)
        return reader
