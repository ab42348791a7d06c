"""Data files and delete files in the catalog: added, ended, replaced, with the statistics that cover them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from psycopg import sql

from commitlog.catalog.projecting.given_ids import FileIds
from commitlog.catalog.projecting.statistics import (
    ColumnBounds,
    StatisticsDecoder,
    bound,
    expand,
    file_bound_text,
    leaves,
    told_bound,
)
from commitlog.catalog.projecting.tracking import KnownTable, Tracker
from commitlog.catalog.writing import CopyBuffer
from commitlog.domain import model as m
from commitlog.domain.model.defining import check_partition_values, partition_texts
from commitlog.domain.model.definitions import Column, TableDefinition, named_leaves
from commitlog.domain.model.types import FLOATS, fold
from commitlog.errors import InvalidChangeError

_END = 3
"""Where end_snapshot stands in a row of a data file or delete file."""
_DATA_FILE_ID = {"ducklake_data_file": 0, "ducklake_delete_file": 4}
"""Where data_file_id stands in it."""

_END_STORED = sql.SQL("""
    UPDATE {} AS f SET end_snapshot = e.snapshot_id
    FROM unnest(%s::bigint[], %s::bigint[]) AS e(data_file_id, snapshot_id)
    WHERE f.data_file_id = e.data_file_id AND f.end_snapshot IS NULL AND f.begin_snapshot < e.snapshot_id""")
_COLUMNS_AT = sql.SQL("""
    SELECT column_id, column_name, column_type FROM ducklake_column
    WHERE table_id = %s AND begin_snapshot <= %s AND (end_snapshot IS NULL OR end_snapshot > %s)""")
_PARTITION_AT = sql.SQL("""
    SELECT partition_id FROM ducklake_partition_info
    WHERE table_id = %s AND begin_snapshot <= %s AND (end_snapshot IS NULL OR end_snapshot > %s)""")
_BYTES_OF = sql.SQL(
    "SELECT coalesce(sum(file_size_bytes), 0)::bigint FROM ducklake_data_file WHERE data_file_id = ANY(%s)"
)


class _Waiting:
    """The rows of live files that wait to be sent, by data file; looked through when one ends, for most of them stay."""

    def __init__(self) -> None:
        self._live: dict[int, Any] = {}
        self._looked_through = 0

    def found(self, rows: Sequence[Any], data_file_id_at: int) -> dict[int, Any]:
        """Those among all that wait."""
        for row in rows[self._looked_through :]:
            self._live[row[data_file_id_at]] = row
        self._looked_through = len(rows)
        return self._live


class FileProjection:
    """Projects changes of files."""

    def __init__(self, buffer: CopyBuffer, tracker: Tracker, decode_statistics: StatisticsDecoder | None) -> None:
        self.buffer = buffer
        self.tracker = tracker
        self.decode = decode_statistics
        self._waiting = {table: _Waiting() for table in _DATA_FILE_ID}
        self._ended: dict[str, dict[int, int]] = {table: {} for table in _DATA_FILE_ID}
        self._awaits_copy = False

    def add(
        self,
        table_id: int,
        ids: FileIds,
        file: m.DataFile,
        snapshot_id: int,
        written_for: TableDefinition | None = None,
    ) -> None:
        """Add a data file; without ``row_id_start`` its rows carry their ids themselves and were counted before.

        written_for: its table as its writer knew it, where that may be another than it is by now.
        """
        data_file_id, mapping_id, row_id_start = ids.data_file_id, ids.mapping_id, ids.row_id_start
        known = self.tracker.table(table_id)
        definition = known.definition
        partition_id = definition.partition_id if file.partition_values is not None else None
        self.buffer.add(
            "ducklake_data_file",
            [
                data_file_id,
                table_id,
                snapshot_id,
                None,
                None,
                file.path,
                file.path_is_relative,
                "parquet",
                file.record_count,
                file.file_size_bytes,
                file.footer_size,
                row_id_start,
                partition_id,
                None,
                mapping_id,
                None,
            ],
        )
        if definition.partition_by:
            for index, text in _partition_rows(definition, file.partition_values):
                self.buffer.add("ducklake_file_partition_value", (data_file_id, table_id, index, text))
        if file.name_mapping is not None and mapping_id is not None:
            self._add_mapping(written_for or definition, mapping_id, file.name_mapping)
        self._add_statistics(known, data_file_id, file, written_for)
        statistics = known.statistics
        statistics.file_size_bytes += file.file_size_bytes
        statistics.record_count += file.record_count if row_id_start is not None else 0
        if row_id_start is not None:
            statistics.next_row_id = row_id_start + file.record_count
        known.dirty = True

    def _add_mapping(self, definition: TableDefinition, mapping_id: int, mapped: Sequence[m.MappedColumn]) -> None:
        self.buffer.add("ducklake_column_mapping", (mapping_id, definition.table_id, "map_by_name"))
        counter = iter(range(2**31))
        for column in mapped:
            self._add_mapped(definition.by_name, mapping_id, column, None, counter)

    def _add_mapped(
        self,
        columns: Mapping[str, Column],
        mapping_id: int,
        mapped: m.MappedColumn,
        parent: int | None,
        counter: Iterator[int],
    ) -> None:
        target = columns.get(fold(mapped.column))
        if target is None:
            return
        number = next(counter)
        self.buffer.add(
            "ducklake_name_mapping", (mapping_id, number, mapped.source_name, target.column_id, parent, False)
        )
        if mapped.children:
            fields = target.fields_by_name()
            for child in mapped.children:
                self._add_mapped(fields, mapping_id, child, number, counter)

    def _add_statistics(
        self, known: KnownTable, data_file_id: int, file: m.DataFile, written_for: TableDefinition | None
    ) -> None:
        told: set[int] = set()
        rows: list[tuple[Any, ...]] = []
        table_id = known.definition.table_id
        if not known.leaves:
            known.leaves = [leaf for column in known.definition.columns for leaf in leaves(column)]
            known.named_leaves = named_leaves(known.definition)
        named = known.named_leaves if written_for is None else named_leaves(written_for)
        for entry in expand(file.statistics, self.decode):
            leaf = named.get(entry.column) or named.get(fold(entry.column))
            if leaf is None or leaf.column_id in told:
                continue
            told.add(leaf.column_id)
            low, high = told_bound(leaf.type, entry.min), told_bound(leaf.type, entry.max)
            nulls, values = _counts(entry, file.record_count)
            rows.append(
                (
                    data_file_id,
                    table_id,
                    leaf.column_id,
                    _count(entry.size_bytes),
                    values,
                    nulls,
                    file_bound_text(leaf.type, low),
                    file_bound_text(leaf.type, high),
                    entry.contains_nan if leaf.type.name in FLOATS else None,
                    None,
                ),
            )
            null = None if nulls is None else nulls > 0
            bounds = known.statistics.bounds(leaf)
            bounds.widen(low=low, high=high, empty=values == 0, null=null, nan=entry.contains_nan)
        if rows:
            self.buffer.add_all("ducklake_file_column_stats", rows)
        if file.record_count > 0 and len(told) < len(known.leaves):
            for leaf in known.leaves:
                if leaf.column_id not in told:
                    known.statistics.forget_bounds(leaf)

    def delete_positions(self, table_id: int, positions: Sequence[m.PositionDelete], snapshot_id: int) -> None:
        """Delete rows by position, without a delete file."""
        name = self.tracker.ensure_deletes_table(table_id)
        for entry in positions:
            for row in entry.rows:
                self.buffer.add_text(name, (entry.data_file_id, row, snapshot_id))

    def add_delete_file(self, table_id: int, delete_file_id: int, file: m.DeleteFile, snapshot_id: int) -> None:
        """Add a delete file, which takes the place of the data file's earlier one."""
        self._end_row("ducklake_delete_file", file.data_file_id, snapshot_id)
        self.buffer.add(
            "ducklake_delete_file",
            [
                delete_file_id,
                table_id,
                snapshot_id,
                None,
                file.data_file_id,
                file.path,
                file.path_is_relative,
                "parquet",
                len(file.rows),
                file.file_size_bytes,
                file.footer_size,
                None,
                None,
            ],
        )

    def end(self, data_file_ids: Sequence[int], snapshot_id: int) -> None:
        """End data files and their delete files."""
        for data_file_id in data_file_ids:
            for table in _DATA_FILE_ID:
                self._end_row(table, data_file_id, snapshot_id)

    def _end_row(self, table: str, data_file_id: int, snapshot_id: int) -> None:
        """End the row of a data file: where it waits to be sent, or with all others that the catalog holds already."""
        if not self._awaits_copy:
            self._awaits_copy = True
            self.buffer.after_copy(self._after_copy)
        waiting = self._waiting[table].found(self.buffer.waiting(table), _DATA_FILE_ID[table]).pop(data_file_id, None)
        if waiting is not None:
            waiting[_END] = snapshot_id
        else:
            self._ended[table][data_file_id] = snapshot_id

    def _after_copy(self) -> None:
        self._awaits_copy = False
        for table, ended in self._ended.items():
            self._waiting[table] = _Waiting()
            if ended:
                self._ended[table] = {}
                statement = _END_STORED.format(sql.Identifier(table))
                self.buffer.execute(statement, (list(ended), list(ended.values())))

    def replace(
        self, table_id: int, change: m.Compact, files: Sequence[FileIds], snapshot_id: int, base_snapshot_id: int
    ) -> None:
        """A compaction: the replaced files end, the new ones carry their rows' ids (as rewrite_data_files writes it).

        Its table may have been altered since its base: columns are then those of its names at the base. Partition values,
        which nobody could judge then, count as unknown where the partitioning was another one or they do not fit.
        """
        known = self.tracker.table(table_id)
        row = self.buffer.execute(_BYTES_OF, (list(change.replaced),)).fetchone()
        known.statistics.file_size_bytes -= row[0] if row else 0
        known.dirty = True
        self.end(change.replaced, snapshot_id)
        written_for, is_partitioned_as_then = known.definition, True
        if base_snapshot_id < snapshot_id - 1:
            written_for, is_partitioned_as_then = self._at_base(known.definition, base_snapshot_id)
        for file, ids in zip(change.files, files, strict=True):
            if not (is_partitioned_as_then and _fits(known.definition, file)):
                file = file.replace(partition_values=None)
            self.add(table_id, ids, file, snapshot_id, written_for)

    def _at_base(self, definition: TableDefinition, base_snapshot_id: int) -> tuple[TableDefinition, bool]:
        """A table with the names that its columns had at a base, and whether it was partitioned as it is by now."""
        at_base = (definition.table_id, base_snapshot_id, base_snapshot_id)
        columns = self.buffer.execute(_COLUMNS_AT, at_base).fetchall()
        names, types = {each[0]: each[1] for each in columns}, {each[0]: each[2] for each in columns}
        row = self.buffer.execute(_PARTITION_AT, at_base).fetchone()
        partition_id = None if row is None else row[0]
        is_partitioned_as_then = partition_id == definition.partition_id and all(
            types.get(key.column_id) == definition.column_by_id(key.column_id).type.catalog_name
            for key in definition.partition_by
            if key.buckets is not None
        )
        return definition.replace(columns=_as_named(definition.columns, names)), is_partitioned_as_then


def _fits(definition: TableDefinition, file: m.DataFile) -> bool:
    """Whether a file's partition values can be those of its table."""
    try:
        check_partition_values(definition, file)
    except InvalidChangeError:
        return False
    return True


def _as_named(columns: Sequence[Column], names: Mapping[int, str]) -> tuple[Column, ...]:
    """Columns by other names, without those that have none."""
    named = []
    for column in columns:
        children = _as_named(column.children, names)
        if column.column_id in names and bool(children) == bool(column.children):
            named.append(column.replace(name=names[column.column_id], children=children))
    return tuple(named)


def _counts(entry: m.ColumnStatistics, record_count: int) -> tuple[int | None, int | None]:
    """NULL and value counts; one tells the other but inside a list or map, which may hold more of both than there are rows."""
    nulls, values = _count(entry.null_count), _count(entry.value_count)
    if values is None and nulls is not None and "." not in entry.column:
        values = max(record_count - nulls, 0)
    return nulls, values


def _count(value: int | None) -> int | None:
    # Opaque statistics were never looked at before: a writer can have put anything there.
    return None if value is None or value < 0 else value


def _partition_rows(definition: TableDefinition, values: Sequence[m.Scalar] | None) -> Iterator[tuple[int, str | None]]:
    """The partition values of a file by key index.

    The stock client passes over files without the one bucket that it looks for, so a file whose bucket is unknown has all.
    """
    texts = None if values is None else partition_texts(definition, values)
    for index, key in enumerate(definition.partition_by):
        if key.buckets is not None and (values is None or key.hides_bucket(values[index])):
            yield from ((index, str(bucket)) for bucket in range(key.buckets))
        elif texts is not None:
            yield index, texts[index]


def widen_by_row(bounds: ColumnBounds, column: Column, value: m.RowValue) -> None:
    """Cover one inlined row's value."""
    found = bound(column.type, value)
    nan = column.type.name in FLOATS and isinstance(value, str) and value.lower() == "nan"
    bounds.widen(low=found, high=found, empty=value is None or nan, null=value is None, nan=nan)
