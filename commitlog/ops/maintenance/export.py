"""The catalog at a snapshot as a frozen DuckLake in one file, which the stock client opens without PostgreSQL.

Everything up to that snapshot is in it, also older snapshots: what begins later is left out, what ends later has not ended.
DuckDB itself carries the rows over, in one transaction on both sides, into the tables that its DuckLake client would make
in such a file. Statistics stay those of the live tables, which cover more; clients take bounds for exact where the total
of rows is, so that it has to stay too, as in older snapshots of the live lake. Files that wait for deletion are left out: a
frozen lake must not delete what the living one may still need.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from commitlog.adoption.source import SQL_TYPES, quoted, text
from commitlog.catalog.connecting import connect, current_schema, plain
from commitlog.catalog.tables import DUCKLAKE_COLUMNS
from commitlog.client.files.lake import owner_of
from commitlog.client.reading.duckdb_client import attach, check_answers, open_duckdb
from commitlog.config import Settings, without_password
from commitlog.domain.model.definitions import Column
from commitlog.domain.model.types import INTEGER_BITS, ColumnType, parse_type
from commitlog.errors import CatalogMismatchError, ConfigurationError, SnapshotNotFoundError

if TYPE_CHECKING:
    import duckdb

    from commitlog.catalog.queries import Catalog


class ExportFormat(StrEnum):
    """What the frozen catalog is kept in."""

    SQLITE = "sqlite"
    DUCKDB = "duckdb"


_INLINED_COLUMNS = """
    SELECT d.table_id, d.schema_version, c.column_id, c.column_name, c.column_type, c.parent_column
    FROM frozen.ducklake_inlined_data_tables d
    JOIN frozen.ducklake_schema_versions v ON v.table_id = d.table_id AND v.schema_version = d.schema_version
    JOIN frozen.ducklake_column c ON c.table_id = d.table_id AND c.begin_snapshot <= v.begin_snapshot
        AND (c.end_snapshot IS NULL OR c.end_snapshot > v.begin_snapshot) ORDER BY c.column_order, c.column_id"""
"""The columns that each table with rows in no file had when it got that schema version."""


@dataclass(frozen=True, slots=True)
class Export:
    """What was written: the catalog's file, its newest snapshot, and how many files were copied beside it."""

    path: Path
    snapshot_id: int
    files_copied: int

    @property
    def attach(self) -> str:
        """What DuckDB attaches."""
        return f"ducklake:sqlite:{self.path}" if self.path.suffix == ".sqlite" else f"ducklake:{self.path}"


_ENDING = (
    "schema", "table", "view", "column", "data_file", "delete_file", "partition_info", "tag", "column_tag", "sort_info",
    "macro",
)  # fmt: skip
# In this order, a table can be limited to what belongs to rows that are there already.
_LIMITS = {
    # A stock client that goes on with the copy may keep small commits as it likes.
    "metadata": "x.key <> 'data_inlining_row_limit'",
    "snapshot": "x.snapshot_id <= {n}",
    "snapshot_changes": "x.snapshot_id <= {n}",
    **dict.fromkeys(_ENDING, "x.begin_snapshot <= {n}"),
    "schema_versions": "x.begin_snapshot <= {n}",
    "inlined_data_tables": "x.table_id IN (SELECT table_id FROM frozen.ducklake_table) AND x.schema_version <= "
    "(SELECT max(schema_version) FROM frozen.ducklake_snapshot)",
    "table_stats": "x.table_id IN (SELECT table_id FROM frozen.ducklake_table)",
    "table_column_stats": "x.table_id IN (SELECT table_id FROM frozen.ducklake_table)",
    "file_column_stats": "x.data_file_id IN (SELECT data_file_id FROM frozen.ducklake_data_file)",
    "file_variant_stats": "x.data_file_id IN (SELECT data_file_id FROM frozen.ducklake_data_file)",
    "file_partition_value": "x.data_file_id IN (SELECT data_file_id FROM frozen.ducklake_data_file)",
    "column_mapping": "x.mapping_id IN (SELECT mapping_id FROM frozen.ducklake_data_file)",
    "name_mapping": "x.mapping_id IN (SELECT mapping_id FROM frozen.ducklake_data_file)",
    "partition_column": "x.partition_id IN (SELECT partition_id FROM frozen.ducklake_partition_info)",
    "sort_expression": "x.sort_id IN (SELECT sort_id FROM frozen.ducklake_sort_info)",
    "macro_impl": "x.macro_id IN (SELECT macro_id FROM frozen.ducklake_macro)",
    "macro_parameters": "x.macro_id IN (SELECT macro_id FROM frozen.ducklake_macro)",
    "files_scheduled_for_deletion": "false",
}
_TYPES = {
    ExportFormat.SQLITE: {"i": "BIGINT", "s": "VARCHAR", "b": "BIGINT", "t": "VARCHAR", "u": "VARCHAR"},
    ExportFormat.DUCKDB: {"i": "BIGINT", "s": "VARCHAR", "b": "BOOLEAN", "t": "TIMESTAMP WITH TIME ZONE", "u": "UUID"},
}
_SQLITE_INTEGERS = {"boolean"} | INTEGER_BITS.keys() - {"uint64", "int128", "uint128"}


class ExportProgress(NamedTuple):
    """How far an export is.

    Attributes:
        tables: of the catalog whose rows are copied,
        files: and data and delete files that are.
        files_total: how many files there are to copy; None until all tables are.
    """

    tables: int
    files: int
    files_total: int | None


def check_not_anothers(settings: Settings, catalog: Catalog) -> None:
    """See that a catalog is not another log's than is meant, as far as its lake says from here whose it is.

    Raises:
        CatalogMismatchError: it is.
    """
    from pyarrow import ArrowInvalid

    owner = None
    with suppress(OSError, ArrowInvalid, ConfigurationError):
        owner = owner_of(catalog.data_path())
    if owner is not None and owner.log != settings.log:
        raise CatalogMismatchError(
            f"the catalog at {without_password(settings.database_url)} is that of {owner}, not of log {settings.log}: check "
            "--log and COMMITLOG_DATABASE_URL"
        )


def export_catalog(
    database_url: str,
    folder: Path,
    *,
    snapshot_id: int | None = None,
    form: ExportFormat = ExportFormat.SQLITE,
    copy_files: bool = False,
    on_progress: Callable[[ExportProgress], None] = lambda progress: None,
) -> Export:
    """Write the catalog at a snapshot into a new file in ``folder``.

    Args:
        database_url: the live catalog.
        folder: made if it is not there; the file is ``catalog.sqlite`` or ``catalog.duckdb``.
        snapshot_id: the newest snapshot of the frozen lake; None is the live one's.
        form: what the catalog is kept in.
        copy_files: also copy data files and delete files, into ``folder/data``; else they are read where they are, for as
            long as the live lake keeps them.
        on_progress: called after each table of the catalog and each file that is copied.

    Raises:
        SnapshotNotFoundError: there is no such snapshot.
        ConfigurationError: the file is there already, or others in ``folder/data``; DuckDB is not installed; or files to be
            copied are not local.
        CatalogUnavailableError: the catalog could not be read.
        OSError: the copy cannot be written, as on a full disk.
    """
    import duckdb

    target = folder.absolute() / f"catalog.{form}"
    _check_free(target)
    data = target.parent / "data"
    if copy_files and data.exists() and any(data.iterdir()):
        raise ConfigurationError(
            f"{data} holds files already, which copies could replace: choose another directory, or empty it"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    failure: str | None = None
    # A folder of its own: what another export into the same directory writes is not taken for this one's.
    with TemporaryDirectory(prefix=f"{target.name}.", suffix=".part", dir=target.parent) as making:
        part = Path(making) / target.name
        with open_duckdb("postgres_scanner", "sqlite_scanner") as conn:
            attach(conn, database_url, "", "live (TYPE postgres, READ_ONLY)")
            # DuckDB's own connections may have another search path than ours.
            with connect(database_url) as live:
                schema = current_schema(live)
            try:
                conn.execute(f"ATTACH {text(str(part))} AS frozen (TYPE {form})")
                conn.execute("SET TimeZone = 'UTC'")
                conn.execute("BEGIN")
                freezing = _Freezing(conn, schema, form, snapshot_id, on_progress)
                freezing.copy_rows()
                files = freezing.copy_files(data) if copy_files else 0
                conn.execute("COMMIT")
                conn.execute("DETACH frozen")
            except duckdb.Error as error:
                failure = plain(error)
        if failure is not None:
            # Out here: DuckDB's own message, which may have the password, is no part of what is raised.
            check_answers(database_url)
            raise OSError(f"DuckDB cannot write the copy into {target}: {failure}")
        _check_free(target)
        part.rename(target)
    return Export(target, freezing.snapshot_id, files)


def _check_free(target: Path) -> None:
    if target.exists():
        raise ConfigurationError(f"{target} is there already: choose another directory, or remove it")


class _Freezing:
    """One export, in the connection's transaction."""

    def __init__(
        self,
        conn: duckdb.DuckDBPyConnection,
        schema: str,
        form: ExportFormat,
        snapshot_id: int | None,
        on_progress: Callable[[ExportProgress], None],
    ) -> None:
        self.conn = conn
        self._on_progress = on_progress
        self._tables = 0
        self.form = form
        self._schema = schema
        self.live = f"live.{quoted(schema)}"
        floor, head, found = self._select(
            f"SELECT min(snapshot_id), max(snapshot_id), count(*) FILTER (WHERE snapshot_id = ?) "
            f"FROM {self.live}.ducklake_snapshot",
            snapshot_id,
        )[0]
        self.snapshot_id: int = head if snapshot_id is None else snapshot_id
        if snapshot_id is not None and not found:
            raise SnapshotNotFoundError(snapshot_id, floor_snapshot_id=floor, head_snapshot_id=head)

    def _select(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        return self.conn.execute(query, parameters).fetchall()

    def copy_rows(self) -> None:
        """Copy all rows up to the snapshot."""
        for table, limit in _LIMITS.items():
            self._copy_table(table, limit)
        names = {
            name
            for (name,) in self._select(
                "SELECT table_name FROM duckdb_tables() WHERE database_name = 'live' AND schema_name = ?",
                self._schema,
            )
        }
        told: defaultdict[tuple[int, int], list[Sequence[Any]]] = defaultdict(list)
        for table_id, version, *row in self._select(_INLINED_COLUMNS):
            told[table_id, version].append(row)
        for table_id, name, version in self._select(
            "SELECT table_id, table_name, schema_version FROM frozen.ducklake_inlined_data_tables"
        ):
            self._copy_inlined_rows(name, _columns(told[table_id, version]))
        for (table_id,) in self._select("SELECT DISTINCT table_id FROM frozen.ducklake_table"):
            name = f"ducklake_inlined_delete_{table_id}"
            if name in names:
                columns = ["file_id", "row_id", "begin_snapshot"]
                self._copy(name, dict.fromkeys(columns, "BIGINT"), columns, "x.begin_snapshot <= {n}")

    def _copy_table(self, table: str, limit: str) -> None:
        columns: dict[str, str] = {}
        values: list[str] = []
        for item in DUCKLAKE_COLUMNS[table].split():
            column, code = item.split(":")
            made = _TYPES[self.form][code[0]]
            columns[column] = made + (" PRIMARY KEY" if "!" in code else " NOT NULL" if "+" in code else "")
            value = self._ended() if column == "end_snapshot" else f"x.{quoted(column)}"
            values.append(f"CAST({value} AS {made})")
        self._copy(f"ducklake_{table}", columns, values, limit)

    def _ended(self) -> str:
        return f"CASE WHEN x.end_snapshot <= {self.snapshot_id} THEN x.end_snapshot END"

    def _copy(self, name: str, columns: dict[str, str], values: list[str], limit: str) -> None:
        made = ", ".join(f"{quoted(column)} {sql_type}" for column, sql_type in columns.items())
        self.conn.execute(f"CREATE TABLE frozen.{quoted(name)} ({made})")
        self.conn.execute(
            f"INSERT INTO frozen.{quoted(name)} SELECT {', '.join(values)} FROM {self.live}.{quoted(name)} x "
            f"WHERE {limit.format(n=self.snapshot_id)}"
        )
        self._tables += 1
        self._on_progress(ExportProgress(self._tables, 0, None))

    def _copy_inlined_rows(self, name: str, inlined: Iterable[Column]) -> None:
        columns = {"row_id": "BIGINT", "begin_snapshot": "BIGINT", "end_snapshot": "BIGINT"}
        values = ["x.row_id", "x.begin_snapshot", self._ended()]
        for column in inlined:
            value = f"x.{quoted(column.name)}"
            if column.type.name in ("varchar", "json"):
                value = f"decode({value})"
            data_type = _inlined_type(self.form, column.type)
            columns[column.name] = data_type
            values.append(f"CAST({value} AS {data_type})")
        self._copy(name, columns, values, "x.begin_snapshot <= {n}")

    def copy_files(self, folder: Path) -> int:
        """Copy the files that the copied rows name, and let the rows name the copies."""
        data_path = self._select("SELECT value FROM frozen.ducklake_metadata WHERE key = 'data_path'")[0][0]
        copied = 0
        named = {
            table: self._select(
                f"""SELECT f.{table}_id, f.path, f.path_is_relative, s.path || t.path
                    FROM frozen.ducklake_{table} f
                    JOIN (SELECT DISTINCT table_id, schema_id, path FROM frozen.ducklake_table) t USING (table_id)
                    JOIN (SELECT DISTINCT schema_id, path FROM frozen.ducklake_schema) s USING (schema_id)"""
            )
            for table in ("data_file", "delete_file")
        }
        total = sum(map(len, named.values()))
        for table, files in named.items():
            for file_id, path, is_relative, place in files:
                source = data_path + place + path if is_relative else path
                if "://" in source:
                    raise ConfigurationError(
                        f"{source} is not on this machine: copy the files with the store's own tools"
                    )
                inside = path if is_relative else f"{file_id}-{Path(path).name}"
                copy = folder / place / inside
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, copy)
                copied += 1
                self._on_progress(ExportProgress(self._tables, copied, total))
                if not is_relative:
                    self.conn.execute(
                        f"UPDATE frozen.ducklake_{table} SET path = ?, path_is_relative = CAST(1 AS "
                        f"{_TYPES[self.form]['b']}) WHERE {table}_id = ?",
                        (inside, file_id),
                    )
        self.conn.execute("UPDATE frozen.ducklake_metadata SET value = ? WHERE key = 'data_path'", (f"{folder}/",))
        return copied


def _inlined_type(form: ExportFormat, data_type: ColumnType) -> str:
    """The type of a column of an inlined data table, as the stock client makes it in such a file (measured)."""
    if form is ExportFormat.DUCKDB:
        return _duckdb_type(data_type)
    if data_type.name in _SQLITE_INTEGERS:
        return "BIGINT"
    return "BLOB" if data_type.name == "blob" else "VARCHAR"


def _duckdb_type(data_type: ColumnType) -> str:
    match data_type.name:
        case "struct":
            return (
                "STRUCT(" + ", ".join(f"{quoted(name)} {_duckdb_type(inner)}" for name, inner in data_type.fields) + ")"
            )
        case "list":
            return _duckdb_type(data_type.fields[0][1]) + "[]"
        case "map":
            return f"MAP({_duckdb_type(data_type.fields[0][1])}, {_duckdb_type(data_type.fields[1][1])})"
    return SQL_TYPES.get(data_type.name, data_type.catalog_name.upper())


def _columns(rows: Sequence[Sequence[Any]]) -> list[Column]:
    """The top-level columns, of rows that name each column's parent."""

    def under(parent: int | None) -> list[Column]:
        found: list[Column] = []
        for column_id, name, type_text, above in rows:
            if above == parent:
                children = tuple(under(column_id))
                fields = tuple((child.name, child.type) for child in children)
                made = ColumnType(type_text, fields=fields) if children else parse_type(type_text)
                found.append(Column(column_id, name, made, True, None, None, children=children))
        return found

    return under(None)
