"""Parquet files of the source: looked into, and written anew where a log needs them otherwise.

A file is written anew, beside the source's own, which is never touched, when it holds rows of several snapshots, rows
that nobody ever saw, or row ids that are not the log's; and for rows that the source keeps in its catalog. The stock
client's own reader and writer are used, so that every type comes out as it would write it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from commitlog.adoption.definitions import SourceColumn, SourceTable
from commitlog.adoption.source import CATALOG, SourceLake, file_text, quoted, text
from commitlog.domain.model import BIGINT_MAX, ColumnStatistics, DataFile, DeleteFile, MappedColumn, Scalar
from commitlog.domain.model.defining import default_value
from commitlog.domain.model.types import NESTED, parse_type
from commitlog.errors import AdoptionError

if TYPE_CHECKING:
    import duckdb

ROW_ID, ROW_ID_FIELD = "_ducklake_internal_row_id", 2147483540
SNAPSHOT_ID = "_ducklake_internal_snapshot_id"
_DELETE_FIELDS = "{file_path: 2147483646, pos: 2147483645}"
_NUMBER = "commitlog_file_row_number"
_CARRIED = "/* row id */"
_WIDEST = frozenset(("int128", "uint128"))


@dataclass(frozen=True, slots=True)
class Written:
    """A file that was written, or would be: then all but its rows is empty."""

    path: str
    record_count: int
    file_size_bytes: int = 0
    footer_size: int | None = None
    statistics: tuple[ColumnStatistics, ...] = ()


class FileWriter:
    """Writes Parquet files as the stock client would.

    conn: DuckDB, which reaches the files.
    """

    def __init__(self, conn: duckdb.DuckDBPyConnection) -> None:
        self._conn = conn

    def rewrite(
        self,
        path: str,
        target: str,
        table: SourceTable,
        positions: Sequence[int],
        row_ids: Sequence[int] | None,
        mapping: Sequence[MappedColumn] | None,
    ) -> Written:
        """Write these rows of a file into a new one, with these row ids if any, whose field ids are the table's.

        mapping: by which names the file has the table's columns: its own field ids, if any, are not the table's then.
        """
        if mapping is None:
            read = self._conn.execute(f"SELECT name, field_id, num_children FROM parquet_schema({file_text(path)})")
            columns: Sequence[_Column] = [
                each for each in _fields(read.fetchall()) if each.name not in (ROW_ID, SNAPSHOT_ID)
            ]
        else:
            columns = list(_named_in_file(mapping, table.columns))
        self._choose(positions, row_ids)
        kept = ", ".join(f"f.{quoted(each.name)}" for each in columns)
        query = f"SELECT {kept} {_CARRIED} FROM {_numbered(path)} f JOIN chosen c ON f.{_NUMBER} = c.source ORDER BY c.place"
        return self._copy(query, target, columns, table, row_ids is not None)

    def _choose(self, source: Sequence[int], row_ids: Sequence[int] | None, since: Sequence[int] | None = None) -> None:
        """Make the table ``chosen`` of the rows that go into the next file, in their order there."""
        import pyarrow as pa

        kind = pa.int64()
        chosen = pa.table(
            {
                "place": pa.array(range(len(source)), kind),
                "source": pa.array(source, kind),
                "row_id": pa.array(row_ids if row_ids is not None else [None] * len(source), kind),
                "since": pa.array(since if since is not None else [None] * len(source), kind),
            }
        )
        self._conn.register("chosen_rows", chosen)
        self._conn.execute("CREATE OR REPLACE TEMP TABLE chosen AS SELECT * FROM chosen_rows")
        self._conn.unregister("chosen_rows")

    def _copy(self, query: str, target: str, columns: Sequence[_Column], table: SourceTable, carries: bool) -> Written:
        leaves, spec = table.leaves(), _field_specs(columns)
        known = {path: leaves[leaf_id] for leaf_id, path in _quoted_leaves(columns) if leaf_id in leaves}
        if carries:
            query = query.replace(_CARRIED, f", c.row_id AS {ROW_ID}")
            spec = f"{spec}, {ROW_ID}: {ROW_ID_FIELD}"
        else:
            query = query.replace(_CARRIED, "")
        return self._copied(query, target, "{" + spec + "}", known)

    def _copied(self, query: str, target: str, spec: str, leaves: Mapping[str, tuple[str, str]]) -> Written:
        if "://" in target:
            raise AdoptionError([f"the file {target} would have to be written, which is only done on this machine"])
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        unfinished = target + ".unfinished"
        found = self._conn.execute(
            f"COPY ({query}) TO {text(unfinished)} (FORMAT parquet, RETURN_STATS, FIELD_IDS {spec})"
        ).fetchone()
        assert found is not None
        os.replace(unfinished, target)
        _, count, size, footer, statistics, _ = found
        told = [
            _statistics(*leaves[path], values, count)
            for path, values in dict(statistics or {}).items()
            if path in leaves
        ]
        return Written(target, count, size, footer, tuple(told))


class SourceFiles(FileWriter):
    """Reads the source's files and writes new ones.

    Args:
        lake: the source.
        write: False only pretends, for a first run that must leave no trace.
    """

    def __init__(self, lake: SourceLake, *, write: bool) -> None:
        super().__init__(lake.conn)
        self._lake = lake
        self._write = write

    def check(self, path: str) -> None:
        """Raise AdoptionError when a file of this machine is not there."""
        if "://" not in path and not os.path.exists(path):
            raise AdoptionError([f"its file {path} is missing"])

    def delete_file(self, path: str, begin: int) -> list[tuple[int, int]]:
        """(position, snapshot) of the rows that a delete file deletes."""
        since = SNAPSHOT_ID if SNAPSHOT_ID in self.names(path) else str(begin)
        return self._conn.execute(f"SELECT pos, {since} FROM {_rows(path)} ORDER BY 1").fetchall()

    def births(self, path: str) -> list[int] | None:
        """The snapshot of each row of a file; None when the file does not tell."""
        return self._numbers(path, SNAPSHOT_ID)

    def row_ids(self, path: str) -> list[int] | None:
        """The row ids that a file carries; None when it carries none."""
        return self._numbers(path, ROW_ID)

    def _numbers(self, path: str, column: str) -> list[int] | None:
        if column not in self.names(path):
            return None
        found = self._conn.execute(f"SELECT {column} FROM {_numbered(path)} ORDER BY {_NUMBER}")
        return [row[0] for row in found.fetchall()]

    def names(self, path: str) -> set[str]:
        """The names of what a file holds."""
        self.check(path)
        return {row[0] for row in self._conn.execute(f"SELECT name FROM parquet_schema({file_text(path)})").fetchall()}

    # --- writing ------------------------------------------------------------------------------------------------------

    def rewrite(
        self,
        path: str,
        target: str,
        table: SourceTable,
        positions: Sequence[int],
        row_ids: Sequence[int] | None,
        mapping: Sequence[MappedColumn] | None,
    ) -> Written:
        """As its base does."""
        if not self._write:
            return Written(target, len(positions))
        return super().rewrite(path, target, table, positions, row_ids, mapping)

    def write_inlined(
        self, name: str, target: str, table: SourceTable, rows: Sequence[tuple[int, int]], row_ids: Sequence[int] | None
    ) -> Written:
        """Write rows that the catalog holds, (row id, snapshot of their beginning), into a new file."""
        if not self._write and not _has_widest(table):
            return Written(target, len(rows))
        held = self._lake.inlined_columns(name)
        if len(held) != len(table.columns):
            raise AdoptionError([f"the rows in {name} have other columns than table {table.schema}.{table.name}"])
        values = {
            column: _value(quoted(inlined), kind, column)
            for (inlined, kind), column in zip(held, table.columns, strict=True)
        }
        self._choose([row_id for row_id, _ in rows], row_ids, [begin for _, begin in rows])
        rows_of = (
            f"{_CARRIED} FROM {self._lake.metadata_table(name)} f "
            "JOIN chosen c ON f.row_id = c.source AND f.begin_snapshot = c.since ORDER BY c.place"
        )
        exact = self._exact(values, rows_of, table)
        return self._copy_values(exact, rows_of, target, table, row_ids) if self._write else Written(target, len(rows))

    def write_seen(
        self, snapshot_id: int, target: str, table: SourceTable, rows: Sequence[int], row_ids: Sequence[int] | None
    ) -> Written:
        """Write rows as they are seen at a snapshot, by their row ids, into a new file."""
        if not self._write and not _has_widest(table):
            return Written(target, len(rows))
        self._choose(rows, row_ids)
        values = {column: f"f.{quoted(column.name)}" for column in table.columns}
        seen = f"{quoted(CATALOG)}.{quoted(table.schema)}.{quoted(table.name)} AT (VERSION => {snapshot_id})"
        rows_of = (
            f"{_CARRIED} FROM (SELECT rowid AS source_row_id, * FROM {seen}) f "
            "JOIN chosen c ON f.source_row_id = c.source ORDER BY c.place"
        )
        exact = self._exact(values, rows_of, table)
        return self._copy_values(exact, rows_of, target, table, row_ids) if self._write else Written(target, len(rows))

    def write_gap(self, target: str, table: SourceTable, count: int) -> DataFile:
        """A file that stands for ``count`` rows that are gone: it holds none, and ends before anybody could see it."""
        empty = tuple(ColumnStatistics(path, None, None, count, 0, False) for path, _ in table.leaves().values())
        written = Written(target, 0)
        if self._write:
            columns = ", ".join(f"NULL::{c.sql_type} AS {quoted(c.name)}" for c in table.columns)
            self._choose([], None)
            written = self._copy_table(f"SELECT {columns} {_CARRIED} FROM chosen c", target, table, False)
        return DataFile(
            target, count, written.file_size_bytes, False, footer_size=written.footer_size, statistics=empty
        )

    def write_delete_file(self, data_file: str, target: str, data_file_id: int, rows: Any) -> DeleteFile:
        """Write a delete file with these positions."""
        written = Written(target, 0)
        if self._write:
            self._choose(list(rows), None)
            query = f"SELECT {text(data_file)} AS file_path, c.source AS pos FROM chosen c ORDER BY c.place"
            written = self._copied(query, target, _DELETE_FIELDS, {})
        return DeleteFile(data_file_id, target, rows, written.file_size_bytes, False, written.footer_size)

    def _copy_values(
        self,
        values: Mapping[SourceColumn, str],
        rows_of: str,
        target: str,
        table: SourceTable,
        row_ids: Sequence[int] | None,
    ) -> Written:
        named = ", ".join(f"{value} AS {quoted(column.name)}" for column, value in values.items())
        return self._copy_table(f"SELECT {named} {rows_of}", target, table, row_ids is not None)

    def _exact(self, values: Mapping[SourceColumn, str], rows_of: str, table: SourceTable) -> dict[SourceColumn, str]:
        """Values as they are written. DuckDB writes whole numbers of 128 bits as doubles: as decimals, where those hold them,
        they keep all digits. Whether they do is asked, for an error would end the transaction in which all is read.

        Raises:
            AdoptionError: neither decimals nor doubles hold them.
        """
        exact = dict(values)
        for column, value in values.items():
            if column.type_name not in _WIDEST:
                continue
            [(by_decimals, by_doubles)] = self._conn.execute(
                "SELECT count(v) = count(TRY_CAST(v AS DECIMAL(38, 0))), "
                f"count(v) = count_if(TRY_CAST(CAST(v AS DOUBLE) AS {column.sql_type}) = v) "
                f"FROM (SELECT {value} AS v {rows_of})"
            ).fetchall()
            if by_decimals:
                exact[column] = f"CAST({value} AS DECIMAL(38, 0))"
            elif not by_doubles:
                raise AdoptionError(
                    [
                        f"column {column.name} of table {table.schema}.{table.name} has {column.type_name} values of more than "
                        "38 digits in the catalog, which no file of DuckDB's holds"
                    ]
                )
        return exact

    def _copy_table(self, query: str, target: str, table: SourceTable, carries: bool) -> Written:
        return self._copy(query, target, table.columns, table, carries)


def _has_widest(table: SourceTable) -> bool:
    """Whether it has values that have to be looked at even where nothing is written."""
    return any(column.type_name in _WIDEST for column in table.columns)


def known_counts(nulls: int | None, values: int | None, record_count: int) -> tuple[int | None, int | None]:
    """How many NULLs and how many values a column has. Of types of which it keeps no statistics, such as intervals, the stock
    client says that there is neither."""
    return (None, None) if record_count and nulls == values == 0 else (nulls, values)


def _statistics(path: str, data_type: str, told: Mapping[str, str | None], record_count: int) -> ColumnStatistics:
    nulls = None if (given := told.get("null_count")) is None else int(given)
    filled = None if nulls is None or (given := told.get("num_values")) is None else int(given) - nulls
    nan = told.get("has_nan")
    return ColumnStatistics(
        path,
        typed(data_type, told.get("min")),
        typed(data_type, told.get("max")),
        *known_counts(nulls, filled, record_count),
        None if nan is None else nan == "true",
        int(told.get("column_size_bytes") or 0) or None,
    )


def typed(data_type: str, value: str | None) -> Scalar:
    """A text as a value of the column's type, in the log's form; None when it has none for it."""
    if value is None or data_type in NESTED:
        return None
    if data_type in ("varchar", "uuid", "json"):
        return value
    try:
        found = default_value(parse_type(data_type), value)
    except ValueError:
        return None
    if isinstance(found, int) and abs(found) > BIGINT_MAX:
        return str(found)
    if isinstance(found, list | dict) or (isinstance(found, float) and not math.isfinite(found)):
        return None
    return found


def _value(inlined: str, data_type: str, column: SourceColumn) -> str:
    """A value as the catalog holds it, cast to the column's type; PostgreSQL keeps texts as bytes."""
    given = f"f.{inlined}"
    if data_type == "BLOB" and column.type_name != "blob":
        given = f"decode({given})"
    return f"CAST({given} AS {column.sql_type})"


def _rows(path: str) -> str:
    """The rows of a file. A folder such as ``year=2020`` says nothing of a column."""
    return f"read_parquet({file_text(path)}, hive_partitioning = false)"


def _numbered(path: str) -> str:
    """The rows of a file, with their positions: DuckDB's own reader numbers none where a column has the number's name."""
    return f"(SELECT *, row_number() OVER () - 1 AS {_NUMBER} FROM {_rows(path)})"


def _named_in_file(
    mapping: Sequence[MappedColumn], columns: Sequence[SourceColumn], *, is_struct: bool = True
) -> Iterator[SourceColumn]:
    """The columns by the names that they have in a file; what lists and maps hold has one name in all that DuckDB writes."""
    by_name = {column.name: column for column in columns}
    for each in mapping:
        column = by_name[each.column]
        children = tuple(_named_in_file(each.children, column.children, is_struct=column.type_name == "struct"))
        yield replace(column, name=each.source_name if is_struct else column.name, children=children)


class _Field(NamedTuple):
    """A column of a Parquet file, or what is in one; it need not have a field id."""

    column_id: int | None
    name: str
    children: tuple[_Field, ...]


_Column: TypeAlias = SourceColumn | _Field


def _fields(rows: Sequence[tuple[str, int | None, int | None]]) -> list[_Field]:
    """The columns of a Parquet file by its schema, depth first, without the groups that only Parquet needs."""
    left = iter(rows[1:])

    def read() -> _Field:
        name, field_id, count = next(left)
        children: list[_Field] = []
        for child in (read() for _ in range(count or 0)):
            children += child.children if child.column_id is None and child.children else (child,)
        return _Field(field_id, name, tuple(children))

    return [read() for _ in range(rows[0][2] or 0)]


def _field_specs(columns: Sequence[_Column]) -> str:
    """The field ids of columns, as COPY takes them."""
    return ", ".join(_field_spec(each) for each in columns if each.column_id is not None)


def _field_spec(column: _Column) -> str:
    if not column.children:
        return f"{quoted(column.name)}: {column.column_id}"
    return f"{quoted(column.name)}: {{__duckdb_field_id: {column.column_id}, {_field_specs(column.children)}}}"


def _quoted_leaves(columns: Sequence[_Column], prefix: str = "") -> Iterator[tuple[int | None, str]]:
    """The field id and the quoted path of what holds values."""
    for column in columns:
        path = prefix + quoted(column.name)
        if not column.children:
            yield column.column_id, path
        yield from _quoted_leaves(column.children, path + ".")
