"""The catalog of the lake that is taken over, as plain rows.

It is read through the stock client itself, attached read only, so that one reader serves PostgreSQL, SQLite and DuckDB
files alike and every row is read in one transaction. A DuckLake row lives from ``begin_snapshot`` to ``end_snapshot``
(exclusive; None: still).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from commitlog.domain.model.defining import column_type, default_text
from commitlog.errors import AdoptionError, InvalidChangeError

if TYPE_CHECKING:
    import duckdb

Row: TypeAlias = Mapping[str, Any]
CATALOG = "source"
VERSION = "1.0"
_METADATA = f"__ducklake_metadata_{CATALOG}"
_TABLES = (
    "snapshot_changes", "schema", "table", "column", "view", "tag", "column_tag", "partition_info", "partition_column",
    "data_file", "delete_file", "file_column_stats", "file_partition_value", "column_mapping", "name_mapping",
    "inlined_data_tables", "metadata", "macro", "sort_info",
)  # fmt: skip
_TYPED_LITERAL = re.compile(r"""CAST\((?:'((?:[^']|'')*)'|(-?[0-9.]{1,16})) AS "?(\w[\w (),]*?)"?\)""")
"""As the client writes true, DATE '2024-01-01' and 3::BIGINT. A number with more digits may be another one as a DOUBLE."""
SQL_TYPES = {
    "int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT", "int128": "HUGEINT",
    "uint8": "UTINYINT", "uint16": "USMALLINT", "uint32": "UINTEGER", "uint64": "UBIGINT", "uint128": "UHUGEINT",
    "float32": "FLOAT", "float64": "DOUBLE",
}  # fmt: skip
"""The names that DuckDB has for types, where they are not those of the catalog."""
_NAMES = {
    **{sql_type.lower(): name for name, sql_type in SQL_TYPES.items()},
    "timestamp with time zone": "timestamptz",
    "time with time zone": "timetz",
}
"""The catalog's names for types of the client's."""
_OF_NUMBERS = re.compile(r"u?int[0-9]+|float64|decimal\(.*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever it is."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text as SQL takes it."""
    return "'" + value.replace("'", "''") + "'"


def file_text(path: str) -> str:
    """The path of one file as SQL takes it for ``read_parquet``: a name with ``*``, ``?`` or ``[`` is no pattern."""
    if not re.search(r"(?<!\\)(?:\\\\)*[*?\[]", path):
        return text(path)
    return text(re.sub(r"[*?\[]", lambda found: f"[{found[0]}]", path.replace("\\", "\\\\")))


@dataclass(frozen=True, slots=True)
class SourceSnapshot:
    """One snapshot that the source has kept."""

    snapshot_id: int
    time_ms: int
    changes_made: str
    author: str | None
    message: str | None
    extra: str | None

    def compacted(self, table_id: int) -> bool:
        """Whether it says that it rewrote files of this table."""
        words = self.changes_made.lower().split(",")
        return any(f"{kind}:{table_id}" in words for kind in ("rewrite_delete", "merge_adjacent", "compacted_table"))


@dataclass(slots=True)
class CatalogRows:
    """Rows of a catalog by the table's name without ``ducklake_``."""

    rows: Mapping[str, Sequence[Row]]
    _grouped: dict[tuple[str, str], dict[int, list[Row]]] = field(default_factory=dict, init=False, repr=False)

    def of_table(self, name: str, table_id: int) -> list[Row]:
        """The rows of a catalog table that belong to one table of the lake."""
        return self._of(name, "table_id", table_id)

    def of_file(self, name: str, data_file_id: int) -> list[Row]:
        """The rows of a catalog table that belong to one data file."""
        return self._of(name, "data_file_id", data_file_id)

    def _of(self, name: str, key: str, value: int) -> list[Row]:
        grouped = self._grouped.get((name, key))
        if grouped is None:
            grouped = self._grouped[name, key] = defaultdict(list)
            for row in self.rows[name]:
                grouped[row[key]].append(row)
        return grouped.get(value, [])


@dataclass(slots=True)
class SourceLake(CatalogRows):
    """Everything that the source's catalog says."""

    conn: duckdb.DuckDBPyConnection
    metadata_schema: str
    data_path: str
    snapshots: dict[int, SourceSnapshot]
    first_time_ms: int

    @property
    def floor(self) -> int:
        """The oldest snapshot that is kept."""
        return min(self.snapshots)

    @property
    def head(self) -> int:
        """The newest snapshot."""
        return max(self.snapshots)

    def newest_snapshot(self) -> int:
        """The newest snapshot as it is now; what is read of the lake afterwards is as of now, too."""
        self.conn.execute("COMMIT")
        self.conn.execute("BEGIN")
        row = self.conn.execute(f"SELECT max(snapshot_id) FROM {self.metadata_table('ducklake_snapshot')}").fetchone()
        assert row is not None
        return int(row[0])

    def metadata_table(self, name: str) -> str:
        """A table of the source's catalog, for SQL."""
        return _qualified(self.metadata_schema, name)

    def inlined_deletes(self, table_id: int) -> list[tuple[int, int, int]]:
        """(data file, position, snapshot) of the rows that were deleted without a delete file."""
        name = f"ducklake_inlined_delete_{table_id}"
        if not _exists(self.conn, self.metadata_schema, name):
            return []
        found = self.conn.execute(f"SELECT file_id, row_id, begin_snapshot FROM {self.metadata_table(name)}")
        return found.fetchall()

    def inlined_rows(self, name: str) -> list[tuple[int, int, int | None]]:
        """(row id, begin, end) of the rows in an inlined data table."""
        if not _exists(self.conn, self.metadata_schema, name):
            return []
        found = self.conn.execute(f"SELECT row_id, begin_snapshot, end_snapshot FROM {self.metadata_table(name)}")
        return found.fetchall()

    def inlined_columns(self, name: str) -> list[tuple[str, str]]:
        """(name, DuckDB type) of the values in an inlined data table."""
        table = self.metadata_table(name)
        found = self.conn.execute(f"SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM {table})")
        return found.fetchall()[3:]


def alive(row: Row, snapshot_id: int) -> bool:
    """Whether a catalog row is seen at a snapshot."""
    end = row["end_snapshot"]
    return row["begin_snapshot"] <= snapshot_id and (end is None or snapshot_id < end)


def read_source(conn: duckdb.DuckDBPyConnection, metadata_schema: str) -> SourceLake:
    """Read the catalog that is attached as ``CATALOG``.

    metadata_schema: where its tables are. Raises AdoptionError when this is no DuckLake 1.0.
    """
    conn.execute("BEGIN")
    rows = {name: _read(conn, metadata_schema, f"ducklake_{name}") for name in _TABLES}
    metadata = {row["key"]: row["value"] for row in rows["metadata"] if row["scope"] is None}
    if metadata.get("version") != VERSION:
        raise AdoptionError([f"its catalog has version {metadata.get('version')}, not {VERSION}"])
    changes = {row["snapshot_id"]: row for row in rows["snapshot_changes"]}
    snapshots = {}
    query = (
        f"SELECT snapshot_id, CAST(snapshot_time AS VARCHAR) FROM {_qualified(metadata_schema, 'ducklake_snapshot')}"
    )
    for snapshot_id, at in sorted(conn.execute(query).fetchall()):
        change = changes.get(snapshot_id, {})
        snapshots[snapshot_id] = SourceSnapshot(
            snapshot_id,
            _time_ms(at),
            change.get("changes_made") or "",
            change.get("author"),
            change.get("commit_message"),
            change.get("commit_extra_info"),
        )
    if not snapshots:
        raise AdoptionError(["its catalog has no snapshot"])
    first = snapshots[min(snapshots)].time_ms
    return SourceLake(rows, conn, metadata_schema, metadata.get("data_path") or "", snapshots, first)


def _qualified(metadata_schema: str, name: str) -> str:
    return f"{quoted(_METADATA)}.{quoted(metadata_schema)}.{quoted(name)}"


def _read(conn: duckdb.DuckDBPyConnection, metadata_schema: str, name: str) -> list[Row]:
    if not _exists(conn, metadata_schema, name):
        return []
    found = conn.execute(f"SELECT * FROM {_qualified(metadata_schema, name)}")
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def _exists(conn: duckdb.DuckDBPyConnection, metadata_schema: str, name: str) -> bool:
    """Whether a table is there; the client hides those of its own catalog from every list."""
    import duckdb

    try:
        conn.execute(f"SELECT 1 FROM {_qualified(metadata_schema, name)} LIMIT 0")
    except duckdb.CatalogException:
        return False
    return True


def _time_ms(value: str) -> int:
    at = datetime.fromisoformat(value)
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)


def default_of(row: Row) -> str | None:
    """The default of a column, as text; None where it has none, or one that is no literal of the column's type."""
    given = row["default_value"]
    if given in (None, "NULL"):
        return None
    if row["default_value_type"] in (None, "", "literal"):
        return str(given)
    found = _TYPED_LITERAL.fullmatch(given)
    if found is None:
        return None
    literal, number, name = found.groups()
    name = name.lower().replace(", ", ",")
    if _NAMES.get(name, name) != row["column_type"]:
        return None
    if number is not None and _OF_NUMBERS.fullmatch(row["column_type"]) is None:
        return None
    value: str = number or (literal or "").replace("''", "'")
    if row["column_type"] == "boolean":
        value = {"t": "true", "f": "false"}.get(value, value)
    try:
        # The client rounds and trims what it casts.
        default_text("", column_type(row["column_type"]), value)
    except InvalidChangeError:
        return None
    return value


def is_computed(row: Row) -> bool:
    """Whether the default of a column is an expression that is no literal of the column's type."""
    return row["default_value"] not in (None, "NULL") and default_of(row) is None


def find_obstacles(lake: SourceLake) -> Iterable[str]:
    """What the lake has that a log cannot express."""
    metadata = {row["key"]: row["value"] for row in lake.rows["metadata"] if row["scope"] is None}
    if metadata.get("encrypted", "false").lower() == "true":
        yield "its files are encrypted"
    floor = lake.floor

    def kept(name: str) -> list[Row]:
        return [row for row in lake.rows[name] if row["end_snapshot"] is None or row["end_snapshot"] > floor]

    names = {row["table_id"]: row["table_name"] for row in lake.rows["table"]}
    for row in kept("macro"):
        yield f"macro {row['macro_name']}: a log has no macros"
    for table_id in sorted({row["table_id"] for row in kept("sort_info")}):
        yield f"table {names.get(table_id)} is sorted: a log keeps no sort order"
    for row in kept("column"):
        where = f"column {row['column_name']} of table {names.get(row['table_id'])}"
        if row["column_type"] in ("variant", "geometry"):
            yield f"{where} is {row['column_type']}"
        if is_computed(row):
            yield f"{where} has the default expression {row['default_value']}, not a literal"
    for row in kept("data_file"):
        if row["encryption_key"] is not None:
            yield f"file {row['path']} is encrypted"
        if (row["file_format"] or "parquet").lower() != "parquet":
            yield f"file {row['path']} is {row['file_format']}, not Parquet"
    for row in lake.rows["name_mapping"]:
        if row["is_partition"]:
            yield f"column {row['source_name']} of mapping {row['mapping_id']} is read from its files' paths"


def find_losses(lake: SourceLake) -> Iterable[str]:
    """What is left behind though every row is taken over."""
    tables = {row["table_id"] for row in lake.rows["table"]}
    for row in lake.rows["tag"]:
        if row["end_snapshot"] is None and (row["object_id"] not in tables or row["key"] != "comment"):
            yield f"the {row['key']} {row['value']!r} of object {row['object_id']}"
    for row in lake.rows["metadata"]:
        if row["key"] not in ("version", "created_by", "data_path", "encrypted"):
            yield f"the option {row['key']} = {row['value']}"
    missing = [n for n in range(lake.floor, lake.head) if n not in lake.snapshots]
    if missing:
        yield f"that {len(missing)} snapshots after {missing[0] - 1} were expired: they become ordinary snapshots"
