"""Whether the catalog is what the log says: each check compares one thing and says what to do about what it finds.

The log's side is a sequencer's state at the very outcome that the catalog has applied, so that nothing has to be guessed
about what is still on its way. All checks look at one SQL snapshot, and none of them writes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any, LiteralString, TypeAlias
from uuid import UUID

from psycopg import sql
from pyroaring import BitMap64

from commitlog.catalog import guard
from commitlog.catalog.alterations import alterations
from commitlog.catalog.connecting import Connection
from commitlog.catalog.outside_files import DELETES_TABLES, rows_outside_files
from commitlog.catalog.projecting.objects import NO_DEFAULT, column_rows
from commitlog.catalog.projecting.statistics import bound, leaves
from commitlog.catalog.together import looked_at
from commitlog.catalog.writing import to_time
from commitlog.domain.model import BIGINT_MAX
from commitlog.domain.model.definitions import Column, counted
from commitlog.domain.model.types import FLOATS
from commitlog.domain.state.dumping import load_definition
from commitlog.domain.state.index import SequencerState, TableState

BEHIND_MS_MAX = 10_000
"""How long an outcome may wait for the catalog before somebody should look at the projector."""

SHOWN_MAX = 10
REBUILD = "`commitlog catalog rebuild` rebuilds the catalog from the log"
INIT = "run `commitlog init` as the owner of the catalog"

_LIVE_FILES = sql.SQL("""
    SELECT table_id, array_agg(data_file_id), array_agg(record_count) FROM ducklake_data_file
    WHERE end_snapshot IS NULL GROUP BY table_id""")
_COUNT_IN_DELETE_FILES = sql.SQL("""
    SELECT table_id, data_file_id, sum(delete_count)::bigint FROM ducklake_delete_file
    WHERE end_snapshot IS NULL GROUP BY 1, 2""")
_COUNT_BY_POSITION = sql.SQL("SELECT {table_id}::bigint, file_id, count(*) FROM {name} GROUP BY file_id")
_SNAPSHOT_RANGE = sql.SQL("SELECT min(snapshot_id), max(snapshot_id), count(*) FROM ducklake_snapshot")
_SNAPSHOTS_ALONE = sql.SQL("""
    SELECT snapshot_id FROM ducklake_snapshot s FULL JOIN ducklake_snapshot_changes c USING (snapshot_id)
    WHERE s.snapshot_time IS NULL OR c.snapshot_id IS NULL ORDER BY 1""")
_SNAPSHOTS_OUT_OF_TIME = sql.SQL("""
    SELECT snapshot_id FROM (SELECT snapshot_id, snapshot_time, lag(snapshot_time) OVER (ORDER BY snapshot_id) AS
           earlier FROM ducklake_snapshot) s WHERE snapshot_time <= earlier AND extract(year FROM earlier) < 9999
    ORDER BY 1""")
_COUNTERS = sql.SQL("""
    SELECT schema_version, next_catalog_id, next_file_id FROM ducklake_snapshot
    ORDER BY snapshot_id DESC LIMIT 1""")
_LIVE_TABLES = sql.SQL("""
    SELECT t.table_id, s.schema_name, t.table_name FROM ducklake_table t JOIN ducklake_schema s USING (schema_id)
    WHERE t.end_snapshot IS NULL AND s.end_snapshot IS NULL""")
_LIVE_COLUMNS = sql.SQL("""
    SELECT table_id, column_id, column_name, column_type, initial_default, default_value, nulls_allowed, parent_column,
           default_value_type FROM ducklake_column WHERE end_snapshot IS NULL""")
_TWO_DELETE_FILES = sql.SQL("""
    SELECT data_file_id FROM ducklake_delete_file WHERE end_snapshot IS NULL
    GROUP BY data_file_id HAVING count(*) > 1 ORDER BY 1""")
_COUNT_FLUSHED = sql.SQL("SELECT table_id, count(*) FROM commitlog.flushed_rows GROUP BY table_id")
_TOTALS = sql.SQL("SELECT table_id, record_count, next_row_id, file_size_bytes FROM ducklake_table_stats")
_BYTES = sql.SQL("""
    SELECT table_id, sum(file_size_bytes)::bigint FROM ducklake_data_file WHERE end_snapshot IS NULL
    GROUP BY table_id""")
_DEFINITIONS = sql.SQL("SELECT table_id, definition FROM commitlog.table_definitions ORDER BY 1")
_BOUNDS = sql.SQL("""
    SELECT f.table_id, f.column_id, t.contains_null, t.contains_nan, t.min_value, t.max_value,
           f.has_null, f.contains_nan, f.min_value, f.max_value
    FROM (SELECT DISTINCT f.table_id, s.column_id, s.null_count > 0 AS has_null, s.contains_nan, s.min_value, s.max_value
          FROM ducklake_file_column_stats s JOIN ducklake_data_file f USING (data_file_id)
          WHERE f.end_snapshot IS NULL AND f.record_count > 0) f
    JOIN ducklake_table_column_stats t USING (table_id, column_id) ORDER BY 1""")
"""What is known of a column of a table beside what is known of it in the live files."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be.

    Attributes:
        what: what was found, with ids and figures.
        advice: what to do about it.
        is_note: only good to know; the catalog is well all the same.
    """

    what: str
    advice: str
    is_note: bool = False


@dataclass(frozen=True, slots=True)
class LogSide:
    """What the log says of the outcome that the catalog has applied.

    Attributes:
        log_id: which log it is.
        hash: of that outcome; None when the log does not go so far.
        state: after that outcome; None when the catalog is no image of this log.
        decided_seq: the log's last outcome.
        waiting_since_ms: when the first outcome after it was decided; None when there is none.
        foreign: the offsets of records that somebody else has written, since the newest checkpoint.
    """

    log_id: bytes
    hash: bytes | None
    state: SequencerState | None
    decided_seq: int
    waiting_since_ms: int | None = None
    foreign: tuple[int, ...] = ()


@dataclass
class CheckedCatalog:
    """What the checks look at.

    conn: in a REPEATABLE READ transaction of the caller's. applied: seq and hash of ``commitlog.applied``, and its log.
    """

    conn: Connection
    log: LogSide
    applied_log_id: bytes
    applied_seq: int
    applied_hash: bytes
    now_ms: int

    @property
    def state(self) -> SequencerState:
        """The log's state, for checks that run only when there is one."""
        assert self.log.state is not None
        return self.log.state

    def select(
        self, query: LiteralString | sql.SQL | sql.Composed, parameters: Sequence[Any] | Mapping[str, Any] = ()
    ) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        return self.conn.execute(query, parameters).fetchall()

    @cached_property
    def tables(self) -> dict[int, TableState]:
        """The live tables as the log has them."""
        return {table_id: table for table_id, table in self.state.tables.items() if table.dropped_at is None}

    @cached_property
    def live_files(self) -> dict[int, dict[int, int]]:
        """Record counts by file id, by table id, as the catalog has them."""
        found: dict[int, dict[int, int]] = {}
        for table_id, ids, counts in self.select(_LIVE_FILES):
            found[table_id] = dict(zip(ids, counts, strict=True))
        return found

    @cached_property
    def deleted(self) -> dict[int, dict[int, int]]:
        """How many rows the catalog calls deleted, by data file id, by table id."""
        found: defaultdict[int, dict[int, int]] = defaultdict(dict)
        for table_id, data_file_id, count in self.select(_COUNT_IN_DELETE_FILES):
            found[table_id][data_file_id] = count
        looks = (
            _COUNT_BY_POSITION.format(table_id=table_id, name=sql.Identifier(name))
            for table_id, name in self.select(DELETES_TABLES)
        )
        for table_id, data_file_id, count in looked_at(self.conn, looks):
            if data_file_id in self.live_files.get(table_id, ()):
                found[table_id][data_file_id] = found[table_id].get(data_file_id, 0) + count
        return found

    @cached_property
    def inlined_counts(self) -> dict[int, int]:
        """By table id, how many rows are live and in no file."""
        return rows_outside_files(self.conn, BIGINT_MAX)


Check: TypeAlias = Callable[[CheckedCatalog], Iterator[Finding]]


def findings(check: Check, catalog: CheckedCatalog) -> Iterator[Finding]:
    """What a check finds: also that somebody has put there what cannot be compared, such as NULL for a count."""
    try:
        yield from check(catalog)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        yield Finding(f"something is there that commitlog never writes: {error!r}", REBUILD)


def shown(values: Sequence[object]) -> str:
    """Some values in words: the first few, and how many more."""
    more = len(values) - SHOWN_MAX
    return ", ".join(map(str, values[:SHOWN_MAX])) + (f" and {more} more" if more > 0 else "")


# --- the log ----------------------------------------------------------------------------------------------------------


def check_position(catalog: CheckedCatalog) -> Iterator[Finding]:
    """The catalog is an image of this log."""
    if catalog.applied_log_id != catalog.log.log_id:
        yield Finding(
            f"the catalog is of log {UUID(bytes=catalog.applied_log_id)}, this log is {UUID(bytes=catalog.log.log_id)}",
            "point COMMITLOG_DATABASE_URL at this log's own database",
        )
    elif catalog.log.hash is None:
        yield Finding(
            f"the catalog has applied outcome {catalog.applied_seq}, the log ends at {catalog.log.decided_seq}",
            f"find out whether the broker was restored from a backup; if this log is the right one, {REBUILD}",
        )
    elif catalog.log.hash != catalog.applied_hash:
        yield Finding(
            f"the catalog has applied another outcome {catalog.applied_seq} than the log holds",
            f"find out whether the broker or the database was restored from a backup; {REBUILD}",
        )


def check_lag(catalog: CheckedCatalog) -> Iterator[Finding]:
    """The projector keeps up."""
    behind = catalog.log.decided_seq - catalog.applied_seq
    waiting_ms = 0 if catalog.log.waiting_since_ms is None else catalog.now_ms - catalog.log.waiting_since_ms
    if behind > 0 and waiting_ms > BEHIND_MS_MAX:
        yield Finding(
            f"{counted(behind, 'outcome')} decided and not in the catalog, the first for {waiting_ms / 1000:.0f} s",
            "check that `commitlog projector` (or `serve`) runs, and see its log",
        )


def check_clock(catalog: CheckedCatalog) -> Iterator[Finding]:
    """The log's time, which never falls, is not ahead of the clock."""
    ahead_ms = catalog.state.decided_at_ms - catalog.now_ms
    if ahead_ms > catalog.state.settings.clock_skew_ms_max:
        until = to_time(catalog.state.decided_at_ms * 1000)
        yield Finding(
            f"the log's time is {ahead_ms / 1000:,.0f} s ahead of this machine's clock, as after a sequencer whose clock was "
            f"ahead: until {until:%Y-%m-%d %H:%M} UTC every outcome gets that time, and how long readers wait is not seen",
            "correct the clocks where sequencers run; until that time name snapshots by id, not by a moment",
            is_note=True,
        )


# --- snapshots and counters -------------------------------------------------------------------------------------------


def check_snapshots(catalog: CheckedCatalog) -> Iterator[Finding]:
    """Every snapshot from the oldest kept to the head is there, with its changes, and times rise."""
    low, high, count = catalog.select(_SNAPSHOT_RANGE)[0]
    if low is None:
        yield Finding("there is no snapshot", REBUILD)
        return
    if high != catalog.state.head_snapshot_id:
        yield Finding(f"the newest snapshot is {high}, the log's head is {catalog.state.head_snapshot_id}", REBUILD)
    if count != high - low + 1:
        yield Finding(f"{counted(high - low + 1 - count, 'snapshot')} missing between {low} and {high}", REBUILD)
    if low > catalog.state.floor_snapshot_id:
        yield Finding(
            f"the oldest snapshot is {low}, the log keeps them from {catalog.state.floor_snapshot_id}", REBUILD
        )
    lone = catalog.select(_SNAPSHOTS_ALONE)
    if lone:
        yield Finding(f"snapshots without a time or changes: {shown([row[0] for row in lone])}", REBUILD)
    falling = catalog.select(_SNAPSHOTS_OUT_OF_TIME)
    if falling:
        yield Finding(f"snapshots not later than the one before: {shown([row[0] for row in falling])}", REBUILD)


def check_counters(catalog: CheckedCatalog) -> Iterator[Finding]:
    """The head says which ids come next."""
    rows = catalog.select(_COUNTERS)
    state = catalog.state
    expected = (state.schema_version, state.next_catalog_id, state.next_file_id)
    names = ("schema_version", "next_catalog_id", "next_file_id")
    for name, found, wanted in zip(names, rows[0] if rows else (), expected, strict=False):
        if found != wanted:
            yield Finding(f"{name} of the head is {found}, the log says {wanted}", REBUILD)


# --- tables and what is in them ---------------------------------------------------------------------------------------


def check_tables(catalog: CheckedCatalog) -> Iterator[Finding]:
    """The live tables, by id, name and schema."""
    found = {table_id: f"{schema}.{table}" for table_id, schema, table in catalog.select(_LIVE_TABLES)}
    wanted = {table_id: f"{table.schema.name}.{table.name}" for table_id, table in catalog.tables.items()}
    for table_id in sorted(found.keys() | wanted.keys()):
        if found.get(table_id) != wanted.get(table_id):
            is_here, should = found.get(table_id, "not there"), wanted.get(table_id, "no live table")
            yield Finding(f"table {table_id} is {is_here}, by the log it is {should}", REBUILD)


def check_columns(catalog: CheckedCatalog) -> Iterator[Finding]:
    """The columns of the live tables: what they are called, their types, and whether and from what they are filled."""
    found: dict[int, Counter[tuple[Any, ...]]] = {}
    for table_id, *row in catalog.select(_LIVE_COLUMNS):
        found.setdefault(table_id, Counter())[tuple(row)] += 1
    own = dict(catalog.select(_DEFINITIONS))
    for table_id, table in sorted(catalog.tables.items()):
        here, wanted = found.get(table_id, Counter()), Counter[tuple[Any, ...]]()
        for column_id, name, kind, initial, default, *rest in column_rows(table.definition).values():
            wanted[column_id, name, kind, initial, NO_DEFAULT if default is None else default, *rest] += 1
        wrong = sorted({(row[0], row[1]) for row in (here - wanted) + (wanted - here)}, key=str)
        if wrong:
            names = shown([f"{name} ({column_id})" for column_id, name in wrong])
            yield Finding(f"{table.schema.name}.{table.name}: not as the log has them: columns {names}", REBUILD)
        if table_id not in own or load_definition(own[table_id]) != table.definition:
            yield Finding(f"{table.schema.name}.{table.name}: commitlog.table_definitions has another one", REBUILD)


def check_live_files(catalog: CheckedCatalog) -> Iterator[Finding]:
    """The live data files of each table, by id and record count."""
    for table_id in sorted(catalog.live_files.keys() | catalog.tables.keys()):
        found = catalog.live_files.get(table_id, {})
        table = catalog.tables.get(table_id)
        wanted = BitMap64() if table is None else table.live_files
        here = BitMap64(found)
        name = f"table {table_id}" if table is None else f"{table.schema.name}.{table.name}"
        if len(here) != len(wanted) or here != wanted:
            missing, extra = list(wanted - here), list(here - wanted)
            parts = [f"{len(here)} live data files, by the log {len(wanted)}"]
            parts += [f"not in the catalog: {shown(missing)}"] if missing else []
            parts += [f"only in the catalog: {shown(extra)}"] if extra else []
            yield Finding(f"{name}: {'; '.join(parts)}", REBUILD)
        counts = catalog.state.record_counts
        wrong = [each for each in here & wanted if found[each] != counts.get(each)]
        if wrong:
            yield Finding(f"{name}: record_count is wrong of data files {shown(wrong)}", REBUILD)


def check_deletes(catalog: CheckedCatalog) -> Iterator[Finding]:
    """How many rows of each live file are deleted, and that none has two delete files.

    Where the flushed rows of keyed tables are is not known to the log's state: those are counted by `check_keyed_rows`.
    """
    twice = catalog.select(_TWO_DELETE_FILES)
    if twice:
        yield Finding(f"data files with two live delete files: {shown([row[0] for row in twice])}", REBUILD)
    for table_id, table in sorted(catalog.tables.items()):
        deleted = catalog.deleted.get(table_id, {})
        files = BitMap64(catalog.live_files.get(table_id, {})) & table.live_files
        wrong = [
            f"{each} ({deleted.get(each, 0)}, by the log {catalog.state.deleted_count(each)})"
            for each in files
            if table.rows is None and deleted.get(each, 0) != catalog.state.deleted_count(each)
        ]
        stray = sorted(deleted.keys() - files)
        if wrong:
            yield Finding(f"{table.schema.name}.{table.name}: deleted rows of data files {shown(wrong)}", REBUILD)
        if stray:
            what = f"{table.schema.name}.{table.name}: live deletes of data files that are not live: {shown(stray)}"
            yield Finding(what, REBUILD)


def check_keyed_rows(catalog: CheckedCatalog) -> Iterator[Finding]:
    """How many rows each keyed table has."""
    flushed = dict(catalog.select(_COUNT_FLUSHED))
    for table_id, table in sorted(catalog.tables.items()):
        if table.rows is None:
            continue
        found = catalog.inlined_counts.get(table_id, 0) + flushed.get(table_id, 0)
        if found != len(table.rows.live):
            name = f"{table.schema.name}.{table.name}"
            yield Finding(f"{name}: {counted(found, 'live row')}, by the log {len(table.rows.live)}", REBUILD)


def check_table_statistics(catalog: CheckedCatalog) -> Iterator[Finding]:
    """ducklake_table_stats covers the rows, the row ids and the bytes of what is live."""
    stored = {table_id: (rows, next_row_id, size) for table_id, rows, next_row_id, size in catalog.select(_TOTALS)}
    sizes = dict(catalog.select(_BYTES))
    for table_id, table in sorted(catalog.tables.items()):
        name = f"{table.schema.name}.{table.name}"
        rows, next_row_id, size = stored.get(table_id, (0, 0, 0))
        live = sum(catalog.live_files.get(table_id, {}).values()) - sum(catalog.deleted.get(table_id, {}).values())
        live += catalog.inlined_counts.get(table_id, 0)
        if next_row_id != table.next_row_id:
            yield Finding(f"{name}: next_row_id is {next_row_id}, by the log {table.next_row_id}", REBUILD)
        # Every image of a keyed row counts, so that clients do not answer from bounds that no row has any more.
        if rows < live or (table.rows is None and rows > next_row_id):
            what = f"{name}: record_count is {rows}, but {live} rows are live and {next_row_id} were ever there"
            yield Finding(what, REBUILD)
        if size < sizes.get(table_id, 0):
            yield Finding(f"{name}: file_size_bytes is {size}, its live files have {sizes[table_id]}", REBUILD)


def check_column_statistics(catalog: CheckedCatalog) -> Iterator[Finding]:
    """ducklake_table_column_stats covers the statistics of every live file: too narrow means lost rows."""
    definitions = dict(catalog.select(_DEFINITIONS))
    for table_id, bounds in groupby(_bounds(catalog), itemgetter(0)):
        if table_id not in catalog.tables or table_id not in definitions:
            continue
        definition = load_definition(definitions[table_id])
        columns = {leaf.column_id: leaf for column in definition.columns for leaf in leaves(column)}
        narrow: dict[int, None] = {}
        for _, column_id, *both in bounds:
            if column_id in columns and column_id not in narrow and not _covers(columns[column_id], both[:4], both[4:]):
                narrow[column_id] = None
        if narrow:
            table = catalog.tables[table_id]
            names = shown([columns[column_id].name for column_id in narrow])
            yield Finding(
                f"{table.schema.name}.{table.name}: the statistics of {names} do not cover all files: filters lose rows",
                REBUILD,
            )


def _bounds(catalog: CheckedCatalog) -> Iterator[tuple[Any, ...]]:
    with catalog.conn.cursor("commitlog_file_statistics") as cursor:
        cursor.itersize = 20_000
        cursor.execute(_BOUNDS)
        yield from cursor


def _covers(column: Column, stored: Sequence[Any], known: Sequence[Any]) -> bool:
    null, nan, low, high = stored
    has_null, has_nan, file_low, file_high = known
    if (null is False and has_null) or (column.type.name in FLOATS and nan is False and has_nan):
        return False
    bounds = [bound(column.type, text) for text in (low, high, file_low, file_high)]
    if bounds[0] is not None and bounds[2] is not None and bounds[2] < bounds[0]:
        return False
    return not (bounds[1] is not None and bounds[3] is not None and bounds[3] > bounds[1])


def check_records(catalog: CheckedCatalog) -> Iterator[Finding]:
    """Nobody but the service writes the results."""
    if catalog.log.foreign:
        yield Finding(
            f"the results hold what is no record of commitlog, at the offsets {shown(catalog.log.foreign)}; it does not count",
            "`commitlog acl apply` lists who may write there: only the service and the log's owner should",
        )


# --- the guard --------------------------------------------------------------------------------------------------------


def check_guard(catalog: CheckedCatalog) -> Iterator[Finding]:
    """Stock clients cannot write, readers can read."""
    unguarded = guard.unguarded_tables(catalog.conn)
    if unguarded:
        yield Finding(
            f"{counted(len(unguarded), 'table')} without a guard against stock clients: {shown(unguarded)}", INIT
        )
    missing = guard.missing_roles(catalog.conn)
    for role in missing:
        yield Finding(f"the role {role} does not exist", f"as a superuser: CREATE ROLE {role} NOLOGIN; then {INIT}")
    for role in sorted(set(guard.ROLES) - set(missing)):
        closed = guard.closed_tables(catalog.conn, role)
        if closed:
            yield Finding(f"{role} lacks its privileges on {shown(closed)}", INIT)


def check_definitions(catalog: CheckedCatalog) -> Iterator[Finding]:
    """Nobody has changed the tables themselves."""
    for alteration in alterations(catalog.conn):
        advice = "a rebuild keeps it; drop it if nobody needs it" if alteration.is_note else f"undo it, or {REBUILD}"
        yield Finding(alteration.what, advice, alteration.is_note)


ALWAYS: dict[str, Check] = {
    "position": check_position,
    "lag": check_lag,
    "records": check_records,
    "guard": check_guard,
    "definitions": check_definitions,
}
"""Checks that need no state of the log."""

WITH_STATE: dict[str, Check] = {
    "clock": check_clock,
    "snapshots": check_snapshots,
    "counters": check_counters,
    "tables": check_tables,
    "columns": check_columns,
    "live files": check_live_files,
    "deletes": check_deletes,
    "keyed rows": check_keyed_rows,
    "table statistics": check_table_statistics,
    "column statistics": check_column_statistics,
}
"""Checks against the log's state, which are left out when the catalog is no image of the log."""
