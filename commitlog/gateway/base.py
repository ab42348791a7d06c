"""The catalog at a commit's base, as a client saw it when it began: plain rows, by the ids that the client knows.

What defines schemas, tables and views does not change as long as the catalog's ``schema_version`` does not, and is remembered.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

import pyarrow as pa
from psycopg import sql
from psycopg.rows import dict_row
from pyroaring import BitMap64

from commitlog.catalog.guard import WRITER_ROLE
from commitlog.catalog.outside_files import columns_with_rows
from commitlog.catalog.places import named_among
from commitlog.catalog.query_statements import column as column_named
from commitlog.catalog.reader import CatalogReader
from commitlog.catalog.tables import DUCKLAKE_COLUMNS
from commitlog.client.files.places import filesystem_of
from commitlog.domain.model.definitions import TableDefinition
from commitlog.domain.state.dumping import load_definition
from commitlog.errors import CatalogUnavailableError

Row: TypeAlias = Mapping[str, Any]
_REMEMBERED_MAX = 100_000
"""Rows, and answers without any: a wide table has thousands of rows in each schema version that a client has seen."""
_DEFINING = frozenset(("schema", "table", "view", "column", "tag", "column_tag", "partition_info", "partition_column"))
_LIVED = sql.SQL("begin_snapshot <= {at} AND (end_snapshot IS NULL OR end_snapshot > {at})")
_ABOUT = """
    SELECT m.value, current_schema()::text,
        (SELECT schema_version FROM ducklake_snapshot WHERE snapshot_id = %(snapshot)s),
        pg_has_role(u.oid, (SELECT relowner FROM pg_class WHERE oid = 'ducklake_snapshot'::regclass), 'USAGE')
            OR EXISTS (SELECT FROM pg_roles w WHERE w.rolname = %(writer)s AND pg_has_role(u.oid, w.oid, 'USAGE'))
    FROM ducklake_metadata m, pg_roles u WHERE m.key = 'data_path' AND m.scope IS NULL AND u.rolname = %(login)s"""
_DEFINITION = "SELECT definition FROM commitlog.table_definitions WHERE table_id = %s"
_IS_THERE = "SELECT to_regclass(quote_ident(%s)) IS NOT NULL"
_ROWS_IN_NO_FILE = sql.SQL("SELECT row_id, {} FROM {} WHERE row_id = ANY(%s) AND {lived}")
_INLINED_DELETES = sql.SQL("SELECT file_id, row_id FROM {} WHERE file_id = ANY(%s) AND begin_snapshot <= %s")


class Definitions:
    """Rows that define objects, by the schema version that they are of. Thread-safe.

    Attributes:
        keyed: by table id, whether it has a primary key: it is created with it or never has one.
    """

    def __init__(self) -> None:
        self._rows: OrderedDict[object, list[Row]] = OrderedDict()
        self._count = 0
        self._lock = threading.Lock()
        self.keyed: dict[int, bool] = {}

    def find(self, key: object) -> list[Row] | None:
        """What is remembered."""
        with self._lock:
            return self._rows.get(key)

    def remember(self, key: object, rows: list[Row]) -> None:
        """Remember it, and forget what came long before."""
        with self._lock:
            if key in self._rows:
                return
            self._rows[key] = rows
            self._count += 1 + len(rows)
            while self._count > _REMEMBERED_MAX and len(self._rows) > 1:
                _, gone = self._rows.popitem(last=False)
                self._count -= 1 + len(gone)


class CatalogBase:
    """The catalog as of one snapshot.

    Attributes:
        snapshot_id: which.
        schema: where DuckLake's tables are.
        data_path: of the lake, with a slash at its end.
        may_propose: whether the login is one whose commits are proposed: a member of ``commitlog_writer``, or the owner.
    """

    def __init__(self, conn: Any, snapshot_id: int, login: str, definitions: Definitions) -> None:
        self._conn = conn
        self._definitions = definitions
        self._known: dict[int, TableDefinition | None] = {}
        self.snapshot_id = snapshot_id
        asked = {"snapshot": snapshot_id, "writer": WRITER_ROLE, "login": login}
        (self.data_path, self.schema, self._version, self.may_propose) = conn.execute(_ABOUT, asked).fetchone()

    def rows(self, table: str, **keys: Collection[int]) -> list[Row]:
        """Rows of a table of DuckLake's that are alive at the base, without ``ducklake_`` in its name; uuids are text.

        keys: by column, which values it may have.
        """
        if table not in _DEFINING or self._version is None:
            return self._read(table, keys)
        key = self._version, table, *((name, *ids) for name, ids in keys.items())
        found = self._definitions.find(key)
        if found is None:
            found = self._read(table, keys)
            self._definitions.remember(key, found)
        return found

    def _read(self, table: str, keys: Mapping[str, Collection[int]]) -> list[Row]:
        columns = [item.partition(":") for item in DUCKLAKE_COLUMNS[table].split()]
        shown = [
            sql.SQL("{}::text").format(sql.Identifier(name)) if kind[0] == "u" else sql.Identifier(name)
            for name, _, kind in columns
        ]
        wanted = [sql.SQL("{} = ANY({})").format(sql.Identifier(k), sql.Literal(list(ids))) for k, ids in keys.items()]
        if any(name == "end_snapshot" for name, _, _ in columns):
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

    def rows_in_no_file(
        self, table_id: int, row_ids: Collection[int], column_ids: Collection[int]
    ) -> dict[int, dict[int, Any]]:
        """By row id, values of rows of a table that the catalog itself holds, by the ids of their columns, as stored."""
        found: dict[int, dict[int, Any]] = {}
        for name, there in columns_with_rows(self._conn, table_id).items():
            columns = {column: column_id for column, column_id in there.items() if column_id in column_ids}
            if not columns:
                continue
            chosen = sql.SQL(", ").join(map(column_named, columns))
            lived = _LIVED.format(at=sql.Literal(self.snapshot_id))
            asked = _ROWS_IN_NO_FILE.format(chosen, sql.Identifier(name), lived=lived)
            for row_id, *values in self._conn.execute(asked, (list(row_ids),)):
                found[row_id] = dict(zip(columns.values(), values, strict=True))
        return found

    def is_keyed(self, table_id: int) -> bool:
        """Whether a table has a primary key."""
        keyed = self._definitions.keyed.get(table_id)
        if keyed is None:
            definition = self.definition(table_id)
            keyed = definition is not None and definition.keyed
            if definition is not None:
                self._definitions.keyed[table_id] = keyed
        return keyed

    def definition(self, table_id: int) -> TableDefinition | None:
        """What the log says of a table, as it is now; None when it does not know it."""
        if table_id not in self._known:
            found = self._conn.execute(_DEFINITION, (table_id,)).fetchone()
            self._known[table_id] = None if found is None else load_definition(found[0])
        return self._known[table_id]

    def named(self, folders: Collection[str], files: Collection[str]) -> set[str]:
        """Which of these files, below these folders of tables, any snapshot names, of now too; by their whole paths."""
        return named_among(self._conn, folders, files)

    def open(self, path: str) -> pa.NativeFile:
        """A file of the lake, by its whole path or URL."""
        filesystem, inside = filesystem_of(path)
        # A pipe would be waited for, by one thread of all for each commit that names it.
        if "://" not in path and os.path.exists(path) and not os.path.isfile(path):
            raise OSError("it is no file")
        return filesystem.open_input_file(inside)


class Bases:
    """Connections to the catalog, one for each thread that translates."""

    def __init__(self, database_url: str) -> None:
        self._url = database_url
        self._threads = threading.local()
        self._readers: list[CatalogReader] = []
        self._definitions = Definitions()

    @contextmanager
    def at(self, snapshot_id: int, login: str) -> Iterator[CatalogBase]:
        """The catalog as of a snapshot, for who commits; one that restarted since is connected to anew.

        Raises:
            CatalogUnavailableError: PostgreSQL does not answer.
        """
        reader = self._reader()
        with ExitStack() as reading:
            try:
                base = self._begun(reading, reader, snapshot_id, login)
            except CatalogUnavailableError:
                base = self._begun(reading, reader, snapshot_id, login)
            yield base

    def _begun(self, reading: ExitStack, reader: CatalogReader, snapshot_id: int, login: str) -> CatalogBase:
        with reader.connected() as conn:
            base = CatalogBase(conn, snapshot_id, login, self._definitions)
        reading.enter_context(reader.connected())
        return base

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
