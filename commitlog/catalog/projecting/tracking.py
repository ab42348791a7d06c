"""What the projection knows of the tables it touches: definitions, statistics, inlined tables; read once, kept in step."""

from __future__ import annotations

from dataclasses import dataclass, field

from psycopg import sql
from psycopg.types.json import Jsonb

from commitlog.catalog.guard import guard_statement
from commitlog.catalog.projecting.statistics import TableStatistics, bound, leaves
from commitlog.catalog.writing import CopyBuffer
from commitlog.domain.model.definitions import Column, TableDefinition
from commitlog.domain.model.types import FLOATS
from commitlog.domain.state.dumping import dump_definition, load_definition

TABLES_KNOWN_MAX = 20_000
"""More are forgotten between two batches, and read again when they are touched."""

_DEFINITION = sql.SQL("SELECT definition FROM {own}.table_definitions WHERE table_id = %s")
_STORE_DEFINITION = sql.SQL("""
    INSERT INTO {own}.table_definitions VALUES (%s, %s)
    ON CONFLICT (table_id) DO UPDATE SET definition = excluded.definition""")
_ROWS_TABLES = sql.SQL(
    "SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = %s ORDER BY schema_version"
)
_MAKE_DELETES_TABLE = sql.SQL("CREATE TABLE IF NOT EXISTS {} (file_id bigint, row_id bigint, begin_snapshot bigint)")
_TOTALS = sql.SQL("SELECT record_count, next_row_id, file_size_bytes FROM ducklake_table_stats WHERE table_id = %s")
_BOUNDS = sql.SQL("""
    SELECT column_id, contains_null, contains_nan, min_value, max_value FROM ducklake_table_column_stats
    WHERE table_id = %s""")


@dataclass(slots=True)
class KnownTable:
    """A table as the catalog has it after what was projected so far.

    rows_tables: the inlined data tables, that of the newest schema version last. leaves: what holds values; those that
    statistics may name are in ``named_leaves``.
    """

    definition: TableDefinition
    statistics: TableStatistics
    rows_tables: list[str] = field(default_factory=list)
    leaves: list[Column] = field(default_factory=list)
    named_leaves: dict[str, Column] = field(default_factory=dict)
    deletes_table_exists: bool = False
    dirty: bool = False


class Tracker:
    """Knows tables by id."""

    def __init__(self, buffer: CopyBuffer, log_id: bytes) -> None:
        self.buffer = buffer
        self.log_id = log_id
        self._tables: dict[int, KnownTable] = {}
        self._touched: set[int] = set()
        self._definitions_changed: set[int] = set()

    def table(self, table_id: int) -> KnownTable:
        """A table that exists; its statistics are written when the batch ends."""
        known = self._tables.get(table_id)
        if known is None:
            known = self._tables[table_id] = self._read(table_id)
        self._touched.add(table_id)
        return known

    def add(self, definition: TableDefinition) -> None:
        """A new table."""
        self._tables[definition.table_id] = KnownTable(definition, TableStatistics())
        self._definitions_changed.add(definition.table_id)

    def redefine(self, definition: TableDefinition) -> None:
        """A table has another definition from now on."""
        known = self.table(definition.table_id)
        known.definition = definition
        known.leaves = []
        self._definitions_changed.add(definition.table_id)

    def forget(self, table_id: int) -> None:
        """A table is dropped; what is known of it is written, for snapshots from before have it still."""
        known = self._tables.pop(table_id, None)
        if known is None:
            return
        if table_id in self._definitions_changed:
            self._store_definition(known)
        self._store_statistics(known)
        self._touched.discard(table_id)
        self._definitions_changed.discard(table_id)

    def _read(self, table_id: int) -> KnownTable:
        # It was not touched since it was read or made: no row that waits is about it.
        read = self.buffer.read
        row = read(_DEFINITION.format(own=self.buffer.own), (table_id,)).fetchone()
        assert row is not None, f"table {table_id} is not in the catalog"
        known = KnownTable(load_definition(row[0]), TableStatistics())
        known.rows_tables = [name for (name,) in read(_ROWS_TABLES, (table_id,)).fetchall()]
        deletes_table = f"ducklake_inlined_delete_{table_id}"
        known.deletes_table_exists = read("SELECT to_regclass(%s) IS NOT NULL", (deletes_table,)).fetchone() == (True,)
        self._read_statistics(table_id, known)
        return known

    def _read_statistics(self, table_id: int, known: KnownTable) -> None:
        statistics = known.statistics
        row = self.buffer.read(_TOTALS, (table_id,)).fetchone()
        if row is not None:
            statistics.record_count, statistics.next_row_id, statistics.file_size_bytes = row
            statistics.stored = True
        by_id = {leaf.column_id: leaf for column in known.definition.columns for leaf in leaves(column)}
        for column_id, null, nan, low, high in self.buffer.read(_BOUNDS, (table_id,)).fetchall():
            statistics.stored_columns.add(column_id)
            if column_id not in by_id:
                continue
            leaf = by_id[column_id]
            bounds = statistics.bounds(leaf)
            bounds.contains_null = null
            bounds.contains_nan = nan if leaf.type.name in FLOATS else False
            bounds.low, bounds.high = bound(leaf.type, low), bound(leaf.type, high)
            if bounds.low is None or bounds.high is None:
                bounds.forget()
        statistics.dirty_columns.clear()

    def rows_tables_of(self, table_id: int) -> list[str]:
        """The inlined data tables of a table, the newest first; also when the table itself is gone by now."""
        known = self._tables.get(table_id)
        if known is not None:
            return known.rows_tables[::-1]
        return [name for (name,) in self.buffer.execute(_ROWS_TABLES, (table_id,)).fetchall()][::-1]

    def ensure_deletes_table(self, table_id: int) -> str:
        """The table of a table's inlined deletes, made when the first one comes; clients look for it by its name."""
        name = f"ducklake_inlined_delete_{table_id}"
        known = self._tables.get(table_id)
        if known is None or not known.deletes_table_exists:
            self.buffer.execute(_MAKE_DELETES_TABLE.format(sql.Identifier(name)))
            self.buffer.execute(guard_statement(name))
            if known is not None:
                known.deletes_table_exists = True
        return name

    def store(self) -> None:
        """Have the statistics of touched tables and the definitions that changed written."""
        for table_id in sorted(self._definitions_changed):
            self._store_definition(self._tables[table_id])
        for table_id in sorted(self._touched):
            self._store_statistics(self._tables[table_id])
        self._definitions_changed.clear()
        self._touched.clear()
        if len(self._tables) > TABLES_KNOWN_MAX:
            self._tables.clear()

    def _store_definition(self, known: KnownTable) -> None:
        definition = known.definition
        row = (definition.table_id, Jsonb(dump_definition(definition)))
        self.buffer.execute(_STORE_DEFINITION.format(own=self.buffer.own), row)

    def _store_statistics(self, known: KnownTable) -> None:
        if not known.dirty:
            return
        known.dirty = False
        statistics, table_id = known.statistics, known.definition.table_id
        write = self.buffer.replace if statistics.stored else self.buffer.add
        row = (table_id, statistics.record_count, statistics.next_row_id, statistics.file_size_bytes)
        write("ducklake_table_stats", row)
        statistics.stored = True
        self._store_bounds(table_id, statistics)

    def _store_bounds(self, table_id: int, statistics: TableStatistics) -> None:
        for column_id in sorted(statistics.dirty_columns):
            bounds = statistics.columns[column_id]
            if not bounds.is_stored:
                continue
            write = self.buffer.replace if column_id in statistics.stored_columns else self.buffer.add
            low, high = bounds.texts()
            nan = bounds.contains_nan if bounds.data_type.name in FLOATS else None
            write("ducklake_table_column_stats", (table_id, column_id, bounds.contains_null, nan, low, high, None))
            statistics.stored_columns.add(column_id)
        statistics.dirty_columns.clear()
