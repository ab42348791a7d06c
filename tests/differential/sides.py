"""The two sides of the comparison: a lake that commitlog makes, and one that the stock DuckLake client makes by itself.

Both are read by one DuckDB process through the stock client. Their databases are emptied and used again, because making
a catalog takes longer than a short history.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from deciding import DecidedLog
from psycopg import sql

from commitlog.catalog.guard import mark_projector
from commitlog.catalog.migrations import create_catalog
from commitlog.catalog.projecting.snapshots import Projection
from commitlog.catalog.table_changes import ReadersCatalog
from commitlog.client.files.data_files import read_data_file
from commitlog.client.reading.duckdb_client import connection_text, extension_file
from commitlog.domain.model import Outcome, Verdict
from commitlog.domain.model.definitions import Column, TableDefinition
from commitlog.domain.model.json_values import to_json
from commitlog.domain.model.types import FLOATS, parse_type

ROW_ID = "_ducklake_internal_row_id"
_ROW_ID_FIELD = 2147483540
_ROW_ID_COLUMN = Column(_ROW_ID_FIELD, ROW_ID, parse_type("int64"))
Rows = list[tuple[Any, ...]]


def quote(name: str) -> str:
    """A name as SQL takes it."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text as SQL takes it."""
    return "'" + value.replace("'", "''") + "'"


class Reusable:
    """A database that can be put back to how it was when this object was made."""

    def __init__(self, conn: psycopg.Connection[tuple[Any, ...]]) -> None:
        self.conn = conn
        self.first = {
            name: conn.execute(sql.SQL("SELECT t::text FROM {} t").format(sql.SQL(name))).fetchall()
            for name in self._tables()
        }
        conn.commit()

    def _tables(self) -> list[str]:
        found = self.conn.execute(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname IN ('public', 'commitlog')"
        )
        return [name for (name,) in found.fetchall()]

    def reset(self) -> None:
        with self.conn.transaction():
            names = self._tables()
            later = [name for name in names if name not in self.first]
            if later:
                self.conn.execute(f"DROP TABLE {', '.join(later)}".encode())
            self.conn.execute(";".join(f"DELETE FROM {name}" for name in self.first).encode())
            for name, rows in self.first.items():
                for row in rows:
                    self.conn.execute(f"INSERT INTO {name} SELECT (%s::{name}).*".encode(), row)


class Stock(Reusable):
    """The stock client's own catalog."""

    def head(self) -> int:
        """The newest snapshot."""
        row = self.conn.execute("SELECT max(snapshot_id) FROM ducklake_snapshot").fetchone()
        self.conn.commit()
        assert row is not None
        return int(row[0])


class Client:
    """One DuckDB with both lakes attached, as `stock` (read and written) and `ours` (read only)."""

    def __init__(self, stock_url: str, our_url: str, folder: Path) -> None:
        config = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
        self.duck = duckdb.connect(":memory:", config=config)
        for extension in ("postgres_scanner", "ducklake"):
            self.duck.execute(f"LOAD '{extension_file(extension)}'")
        self.duck.execute("SET threads = 1; SET TimeZone = 'UTC'")
        self._places = {
            "stock": f"{connection_text(stock_url)}' AS stock (DATA_PATH '{folder}/stock/')",
            "ours": f"{connection_text(our_url)}' AS ours (READ_ONLY)",
        }

    def attach(self, *names: str) -> None:
        for name in names:
            self.duck.execute(f"ATTACH 'ducklake:postgres:{self._places[name]}")

    def detach(self, *names: str) -> None:
        for name in names:
            self.duck.execute(f"DETACH {name}")

    def rows(self, query: str) -> Rows:
        return self.duck.execute(query).fetchall()


class Ours:
    """commitlog's side: proposals are decided and projected at once."""

    def __init__(self, conn: psycopg.Connection[tuple[Any, ...]], client: Client, folder: Path, url: str) -> None:
        self.conn = conn
        self.contents = ReadersCatalog(url)
        self.client = client
        self.folder = folder
        self.files = 0
        self.start()

    @staticmethod
    def create(database_url: str, folder: Path) -> psycopg.Connection[tuple[Any, ...]]:
        """An empty catalog."""
        conn = psycopg.connect(database_url)
        mark_projector(conn)
        with conn.transaction():
            at = datetime(2024, 1, 1, tzinfo=UTC)
            log_id = DecidedLog().genesis.log_id
            create_catalog(conn, log_id=log_id, data_path=f"{folder}/ours/", created_at=at)
        return conn

    def start(self) -> None:
        """A new log; the database must be empty."""
        # Prepared statements are of the tables of the log before.
        self.contents.close()
        self.log = DecidedLog()
        self.projection = Projection(self.conn, log_id=self.log.genesis.log_id)

    def commit(self, changes: Sequence[dict[str, Any]]) -> Outcome:
        outcome = self.log.propose(*changes)
        assert outcome.verdict is Verdict.COMMITTED, f"{outcome.reason}: {outcome.detail}"
        with self.conn.transaction():
            self.projection.project([outcome])
        return outcome

    def definition(self, schema: str, table: str) -> TableDefinition:
        return next(
            t.definition
            for t in self.log.state.tables.values()
            if t.name == table and t.schema.name == schema and t.dropped_at is None
        )

    def path(self, prefix: str) -> str:
        self.files += 1
        folder = self.folder / "ours" / "main"
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder / f"{prefix}{self.files}.parquet")

    def write(
        self,
        definition: TableDefinition,
        query: str,
        *,
        by_duckdb: bool,
        with_ids: bool = False,
        field_ids: bool = True,
    ) -> dict[str, Any]:
        """Write the rows of a query as a data file; return it as an APPEND has it."""
        path = self.path("f")
        if by_duckdb:
            ids = f", FIELD_IDS {_field_ids(definition, with_ids)}" if field_ids else ""
            self.client.duck.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet{ids})")
        else:
            found = self.client.duck.execute(query).to_arrow_table()
            schema = _arrow_schema(definition, found.schema, with_ids=with_ids, field_ids=field_ids)
            columns = [pa.array(found.column(field.name).to_pylist(), field.type) for field in schema]
            # Floats without bounds: pyarrow's leave NaN out, and DuckDB then skips rows whatever the catalog says.
            bounded = [name for name in _leaf_paths(definition) if name in found.column_names]
            pq.write_table(pa.table(columns, schema=schema), path, write_statistics=bounded)
        return self.describe(definition, path)

    def describe(self, definition: TableDefinition, path: str) -> dict[str, Any]:
        """An existing file as an APPEND has it."""
        known = definition.replace(columns=(*definition.columns, _ROW_ID_COLUMN))
        file: dict[str, Any] = to_json(read_data_file(path, known, table_path=None))
        file["statistics"] = [entry for entry in file["statistics"] if entry["column"] != ROW_ID]
        del file["row_ids"]
        return file

    def delete_file(self, data_file: str, positions: Iterable[int]) -> str:
        path = self.path("d")
        rows = sorted(positions)
        fields = [
            pa.field("file_path", pa.string(), metadata={"PARQUET:field_id": "2147483546"}),
            pa.field("pos", pa.int64(), metadata={"PARQUET:field_id": "2147483545"}),
        ]
        pq.write_table(pa.table({"file_path": [data_file] * len(rows), "pos": rows}, schema=pa.schema(fields)), path)
        return path


def _leaf_paths(definition: TableDefinition) -> list[str]:
    return [c.name for c in definition.columns if not c.children and c.type.name not in FLOATS]


def _field_ids(definition: TableDefinition, with_ids: bool) -> str:
    def entry(column: Column) -> str:
        if not column.children:
            return f"{quote(column.name)}: {column.column_id}"
        inner = ", ".join(entry(child) for child in column.children)
        return f"{quote(column.name)}: {{__duckdb_field_id: {column.column_id}, {inner}}}"

    entries = [entry(column) for column in definition.columns]
    if with_ids:
        entries.append(f"{ROW_ID}: {_ROW_ID_FIELD}")
    return "{" + ", ".join(entries) + "}"


def _arrow_schema(definition: TableDefinition, found: pa.Schema, *, with_ids: bool, field_ids: bool) -> pa.Schema:
    def with_id(field: pa.Field, column_id: int) -> pa.Field:
        return field.with_metadata({"PARQUET:field_id": str(column_id)}) if field_ids else field

    def typed(kind: pa.DataType, column: Column) -> pa.DataType:
        if pa.types.is_struct(kind):
            return pa.struct([inner(f, c) for f, c in zip(kind, column.children, strict=True)])
        if pa.types.is_map(kind):
            key, value = column.children
            return pa.map_(inner(kind.key_field, key), inner(kind.item_field.with_nullable(True), value))
        if pa.types.is_list(kind):
            return pa.list_(inner(pa.field("element", kind.value_type), column.children[0]))
        return kind

    def inner(field: pa.Field, column: Column) -> pa.Field:
        return with_id(pa.field(field.name, typed(field.type, column), field.nullable), column.column_id)

    by_name = {column.name: column for column in definition.columns}
    fields = [inner(field, by_name[field.name]) for field in found if field.name in by_name]
    if with_ids:
        fields.append(pa.field(ROW_ID, pa.int64(), metadata={"PARQUET:field_id": str(_ROW_ID_FIELD)}))
    return pa.schema(fields)
