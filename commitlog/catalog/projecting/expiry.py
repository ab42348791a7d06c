"""Expiring snapshots: what only they could see leaves the catalog, and files that nobody refers to are scheduled.

Tables of inlined rows and deletes are emptied and not dropped: a DROP would wait for every reader that has one open. Of those
that hold something the first ones are emptied, the others when the next snapshots expire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from psycopg import sql
from psycopg.types.json import Jsonb

from commitlog.catalog.together import looked_at
from commitlog.catalog.writing import CopyBuffer, to_time

EMPTIED_MAX = 500
"""Tables of inlined rows, and as many of inlined deletes, that one expiry empties."""

_ENDING = ("data_file", "delete_file", "column_tag", "tag", "partition_info", "view", "schema")
_OF_FILES = ("file_column_stats", "file_variant_stats", "file_partition_value")
_OWN_OF_TABLES = ("table_definitions", "earlier_properties", "flushed_rows")
_OF_TABLES = ("schema_versions", "table_stats", "table_column_stats", "column_mapping")

# A path that a writer gave twice stays as long as one row refers to it, relative or absolute, of whatever table. What has
# ended is found first: a table may have a million files, and there may be none that has, or a few.
_SCHEDULE_FILES = sql.SQL("""
    WITH places AS NOT MATERIALIZED (
    SELECT f.{key} AS id, f.end_snapshot,
           CASE WHEN f.path_is_relative THEN d.value || s.path || t.path || f.path ELSE f.path END AS place,
           CASE WHEN f.path_is_relative THEN s.path || t.path || f.path ELSE f.path END AS path, f.path_is_relative
    FROM {table} f
    JOIN (SELECT DISTINCT table_id, schema_id, path FROM ducklake_table) t ON t.table_id = f.table_id
    JOIN (SELECT DISTINCT schema_id, path FROM ducklake_schema) s ON s.schema_id = t.schema_id
    JOIN ducklake_metadata d ON d.key = 'data_path' AND d.scope IS NULL),
    ended AS MATERIALIZED (SELECT * FROM places WHERE end_snapshot <= %s),
    stay AS MATERIALIZED (
        SELECT place FROM places
        WHERE (end_snapshot IS NULL OR end_snapshot > %s) AND place IN (SELECT place FROM ended))
    INSERT INTO ducklake_files_scheduled_for_deletion
    SELECT min(id), path, path_is_relative, %s FROM ended
    WHERE NOT EXISTS (SELECT 1 FROM stay WHERE stay.place = ended.place)
    GROUP BY path, path_is_relative ORDER BY 1""")

_CONFIGURE = sql.SQL("UPDATE {own}.log_settings SET settings = settings || %s")
_LIMITS = sql.SQL("""
    SELECT (settings ->> 'expire_keep_snapshots')::bigint, (settings ->> 'expire_older_than_ms')::bigint
    FROM {own}.log_settings""")
_OLDEST = sql.SQL("SELECT snapshot_id, snapshot_time FROM ducklake_snapshot ORDER BY snapshot_id LIMIT 1")
_NEWEST_BEFORE = sql.SQL("SELECT max(snapshot_id) FROM ducklake_snapshot WHERE snapshot_time <= %s")

_FORGET_SNAPSHOTS = sql.SQL("DELETE FROM {} WHERE snapshot_id < %s")
_FORGET_ENDED = sql.SQL("DELETE FROM {} WHERE end_snapshot <= %s")
_FORGET_TABLES = sql.SQL("""
    DELETE FROM ducklake_table x WHERE NOT EXISTS (SELECT 1 FROM ducklake_table t WHERE t.table_id = x.table_id
        AND (t.end_snapshot IS NULL OR t.end_snapshot > %s))""")
# Readers find the values in an older table of inlined rows by the table, and its columns, that were there when its schema
# version began; beside them any partitioning that was there then must have its table.
_FORGET_DEFINITIONS = sql.SQL("""
    DELETE FROM {} x WHERE end_snapshot <= %s AND NOT EXISTS (
        SELECT 1 FROM ducklake_inlined_data_tables JOIN ducklake_schema_versions v USING (table_id, schema_version)
        WHERE v.table_id = x.table_id AND v.begin_snapshot >= x.begin_snapshot AND v.begin_snapshot < x.end_snapshot)""")
_BEGIN_PARTITIONS = sql.SQL("UPDATE ducklake_partition_info SET begin_snapshot = %s WHERE begin_snapshot < %s")
_FORGET_OF_ENDED_FILES = sql.SQL("""
    DELETE FROM {} v USING ducklake_data_file f WHERE v.data_file_id = f.data_file_id AND f.end_snapshot <= %s""")
_FORGET_OF_NO_TABLE = sql.SQL(
    "DELETE FROM {} x WHERE NOT EXISTS (SELECT 1 FROM ducklake_table t WHERE t.table_id = x.table_id)"
)
_FORGET_OF_NO_PARENT = sql.SQL(
    "DELETE FROM {child} x WHERE NOT EXISTS (SELECT 1 FROM {parent} p WHERE p.{key} = x.{key})"
)

_ROWS_TABLES = sql.SQL("""
    SELECT i.table_name, NOT EXISTS (SELECT 1 FROM ducklake_table t WHERE t.table_id = i.table_id
        AND (t.end_snapshot IS NULL OR t.end_snapshot > %s)) FROM ducklake_inlined_data_tables i ORDER BY 1""")
_FORGET_ROWS_TABLES = sql.SQL("DELETE FROM ducklake_inlined_data_tables WHERE table_name = ANY(%s)")
_DELETES_TABLES = sql.SQL("""
    SELECT relname FROM (SELECT DISTINCT table_id FROM ducklake_data_file WHERE end_snapshot <= %s) f
    JOIN pg_class ON relname = 'ducklake_inlined_delete_' || table_id AND relkind = 'r'
        AND relnamespace = quote_ident(current_schema())::regnamespace ORDER BY 1""")
_IS_ENDED = sql.SQL("end_snapshot <= {}")
_IS_OF_ENDED_FILE = sql.SQL("file_id IN (SELECT data_file_id FROM ducklake_data_file WHERE end_snapshot <= {})")
_IS_ANY = sql.SQL("true")
_EMPTY = sql.SQL("DELETE FROM {} WHERE {}")
_HOLDS = sql.SQL("SELECT {} WHERE EXISTS (SELECT 1 FROM {} WHERE {})")


class ExpiryBySettings:
    """Expires what the log's settings let go, whenever a tenth more than they keep has come together.

    That depends on the outcomes alone, not on how they are batched, so a rebuilt catalog has expired the same.
    """

    def __init__(self, buffer: CopyBuffer) -> None:
        self._buffer = buffer
        self._limits: tuple[int | None, int | None] | None = None
        self._oldest: tuple[int, datetime] | None = None

    def configure(self, settings: Mapping[str, object]) -> None:
        """Take settings of the log, by name; those that are not there stay. Readers find them all."""
        self._buffer.execute(_CONFIGURE.format(own=self._buffer.own), (Jsonb(dict(settings)),))
        self._limits = None

    def expired(self) -> None:
        """Note that snapshots went in another way."""
        self._oldest = None

    def is_due_after(self, snapshot_id: int, time_us: int) -> bool:
        """Whether something may have to be expired once this snapshot is there."""
        keep, older_than_ms = self._limits or self._read_limits()
        if keep is None and older_than_ms is None:
            return False
        return self._is_due_by_number(snapshot_id, keep) or self._is_due_by_age(to_time(time_us), older_than_ms)

    def after(self, snapshot_id: int, time_us: int) -> None:
        """Expire what is due now that this snapshot is there."""
        if not self.is_due_after(snapshot_id, time_us):
            return
        keep, older_than_ms = self._limits or self._read_limits()
        floor, at = self._known_oldest()[0], to_time(time_us)
        oldest_id = floor
        if keep is not None and self._is_due_by_number(snapshot_id, keep):
            floor = snapshot_id - keep + 1
        if older_than_ms is not None and self._is_due_by_age(at, older_than_ms):
            floor = max(floor, self._newest_before(at - timedelta(milliseconds=older_than_ms)))
        if floor > oldest_id:
            expire(self._buffer, min(floor, snapshot_id), at)
            self._oldest = None

    def _is_due_by_number(self, snapshot_id: int, keep: int | None) -> bool:
        return keep is not None and snapshot_id - keep + 1 - self._known_oldest()[0] >= max(1, keep // 10)

    def _is_due_by_age(self, at: datetime, older_than_ms: int | None) -> bool:
        if older_than_ms is None:
            return False
        age = timedelta(milliseconds=older_than_ms)
        return at - self._known_oldest()[1] >= age + max(age / 10, timedelta(seconds=1))

    def _read_limits(self) -> tuple[int | None, int | None]:
        row = self._buffer.read(_LIMITS.format(own=self._buffer.own)).fetchone()
        assert row is not None
        self._limits = row[0], row[1]
        return self._limits

    def _known_oldest(self) -> tuple[int, datetime]:
        if self._oldest is None:
            # What waits is newer.
            row = self._buffer.read(_OLDEST).fetchone()
            assert row is not None
            self._oldest = row[0], row[1]
        return self._oldest

    def _newest_before(self, moment: datetime) -> int:
        row = self._buffer.execute(_NEWEST_BEFORE, (moment,)).fetchone()
        return 0 if row is None or row[0] is None else int(row[0])


def expire(buffer: CopyBuffer, floor: int, at: datetime) -> None:
    """Forget the snapshots below ``floor``; ``at`` is when the files that go with them were scheduled."""
    for table in ("snapshot", "snapshot_changes"):
        buffer.execute(_FORGET_SNAPSHOTS.format(_ducklake(table)), (floor,))
    _schedule_files(buffer, floor, at)
    _forget_rows(buffer, floor)
    for table in _OF_FILES:
        buffer.execute(_FORGET_OF_ENDED_FILES.format(_ducklake(table)), (floor,))
    for table in _ENDING:
        buffer.execute(_FORGET_ENDED.format(_ducklake(table)), (floor,))
    buffer.execute(_FORGET_ENDED.format(_own(buffer, "earlier_properties")), (floor,))
    buffer.execute(_FORGET_TABLES, (floor,))
    _forget_orphans(buffer)
    # Tables that went have no schema versions any more, so their columns go, too.
    for table in ("table", "column"):
        buffer.execute(_FORGET_DEFINITIONS.format(_ducklake(table)), (floor,))
    buffer.execute(_BEGIN_PARTITIONS, (floor, floor))


def _ducklake(table: str) -> sql.Identifier:
    return sql.Identifier(f"ducklake_{table}")


def _own(buffer: CopyBuffer, table: str) -> sql.Composed:
    return sql.SQL(".").join([buffer.own, sql.Identifier(table)])


def _schedule_files(buffer: CopyBuffer, floor: int, at: datetime) -> None:
    for table, key in (("data_file", "data_file_id"), ("delete_file", "delete_file_id")):
        statement = _SCHEDULE_FILES.format(table=_ducklake(table), key=sql.Identifier(key))
        buffer.execute(statement, (floor, floor, at))


def _forget_rows(buffer: CopyBuffer, floor: int) -> None:
    """Rows and deletes that stand in tables of their own: those that ended, and all of a table that did."""
    tables = buffer.execute(_ROWS_TABLES, (floor,)).fetchall()
    _empty(buffer, [name for name, is_gone in tables if not is_gone], _IS_ENDED.format(floor))
    gone = [name for name, is_gone in tables if is_gone]
    left = _empty(buffer, gone, _IS_ANY)
    emptied = sorted(set(gone) - set(left))
    buffer.execute(_FORGET_ROWS_TABLES, (emptied,))
    ended = buffer.execute(_DELETES_TABLES, (floor,)).fetchall()
    _empty(buffer, [name for (name,) in ended], _IS_OF_ENDED_FILE.format(floor))


def _empty(buffer: CopyBuffer, tables: Sequence[str], condition: sql.Composable) -> list[str]:
    """Delete what the condition says from the tables that hold such rows; those that are left for the next time."""
    buffer.flush()
    looks = [_HOLDS.format(name, sql.Identifier(name), condition) for name in tables]
    holding = sorted([name for (name,) in looked_at(buffer.conn, looks)])
    for name in holding[:EMPTIED_MAX]:
        buffer.execute(_EMPTY.format(sql.Identifier(name), condition))
    return holding[EMPTIED_MAX:]


def _forget_orphans(buffer: CopyBuffer) -> None:
    for table in (*map(_ducklake, _OF_TABLES), *[_own(buffer, table) for table in _OWN_OF_TABLES]):
        buffer.execute(_FORGET_OF_NO_TABLE.format(table))
    for child, parent, key in (
        ("partition_column", "partition_info", "partition_id"),
        ("name_mapping", "column_mapping", "mapping_id"),
    ):
        statement = _FORGET_OF_NO_PARENT.format(
            child=_ducklake(child), parent=_ducklake(parent), key=sql.Identifier(key)
        )
        buffer.execute(statement)
