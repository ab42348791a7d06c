"""Making the catalog anew from the log, beside the live one, and putting it in its place.

The log's results are projected into a second schema, which keeps its own position there: a rebuild that was interrupted
goes on where it was. Meanwhile the live projector and every reader work on. Then one SQL transaction takes the live
position's table, so that the live projector waits, catches up with it, and exchanges the tables. The projector notices that
another catalog stands there and starts from its position; a reader sees the old tables or the new ones, never both.
Indexes that only readers need are made at once when all rows are there.

A catalog has a table of inlined rows for each version of each table of the lake, nearly all of them empty. To exchange
them all at once takes more locks than PostgreSQL has. So those that are empty on both sides stay, and what is left over is
dropped afterwards, some at a time. Owners and grants go over to the tables that take the place.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice

from psycopg import errors, sql

from commitlog.catalog.connecting import Connection, connect, current_schema, told_plainly
from commitlog.catalog.grants import carry_over, made_on
from commitlog.catalog.guard import install_guard, mark_projector
from commitlog.catalog.migrations import catalog_exists, ensure_readers_indexes, migrate
from commitlog.catalog.projecting.statistics import StatisticsDecoder
from commitlog.catalog.projector import AHEAD_BYTES_MAX, Projector, Session, for_batches
from commitlog.catalog.query_statements import DATA_PATH
from commitlog.catalog.tables import DUCKLAKE, OWN_SCHEMA
from commitlog.catalog.together import in_parts, looked_at
from commitlog.catalog.written import connected, meanwhile
from commitlog.config import Settings, without_password
from commitlog.errors import CatalogMismatchError, CatalogUnavailableError, LogIntegrityError, ResultsTrimmedError
from commitlog.log.read_ahead import ReadAhead
from commitlog.log.results import ResultRecord, ResultsReader

SECOND_SCHEMA = "commitlog_rebuild"
RECORDS_MAX = 20_000
NEAR_RECORDS = 5_000
"""So near the end of the log the live projector can be made to wait for the rest."""
SWITCH_TIMEOUT_S = 120.0
SWITCH_PAUSE_S = 1.0
ENDED_TIMEOUT_S = 3.0
ENDED_PAUSE_S = 0.05
_INLINED = "^ducklake_inlined_(data|delete)_[0-9_]+$"

# A reader that waits for us while we wait for it is told of a deadlock after a second: we have to give up before.
_LOCK_TIMEOUT_MS = 200
_LOCK_TIMEOUT_MS_OF_PROJECTOR = 10_000

_LEFT_OVER = sql.SQL("""
    SELECT c.relname FROM pg_class c
    WHERE c.relkind = 'r' AND c.relnamespace = quote_ident(current_schema())::regnamespace AND c.relname ~ %s
    AND c.relname NOT IN (SELECT table_name FROM {registered})
    AND c.relname NOT IN (SELECT 'ducklake_inlined_delete_' || table_id FROM {tables}) ORDER BY 1""")
_REBUILT = sql.SQL("""
    SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s
    AND c.relkind = %s ORDER BY 1""")
_LIVE_TABLES = sql.SQL("""
    SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind = 'r' AND (n.nspname = %s AND c.relname = ANY(%s)
        OR n.nspname = current_schema() AND (c.relname = ANY(%s) OR c.relname ~ %s)) ORDER BY 1, 2""")
_MADE_ALIKE = sql.SQL("""
    WITH made AS (
        SELECT c.relname, n.nspname AS place, (
            SELECT array_agg(concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod)) ORDER BY a.attnum)
            FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns,
            (SELECT count(*) FROM pg_index i WHERE i.indrelid = c.oid AND i.indisvalid) AS indexes
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND c.relname ~ %s)
    SELECT l.place, l.relname FROM made l JOIN made s USING (relname, columns, indexes)
    WHERE l.place = current_schema() AND s.place = %s ORDER BY 2""")
_BOTH_EMPTY = sql.SQL("SELECT {} WHERE NOT EXISTS (SELECT 1 FROM {}) AND NOT EXISTS (SELECT 1 FROM {})")
_MOVE = sql.SQL("ALTER {} {} SET SCHEMA {}")


@dataclasses.dataclass(frozen=True, slots=True)
class RebuildProgress:
    """How far a rebuild is.

    Attributes:
        began_after: the last outcome that an interrupted rebuild had left in the second schema; 0 for none.
        applied_seq: the last outcome there now.
        remaining: about how many records of the log come after it.
    """

    began_after: int
    applied_seq: int
    remaining: int


class Rebuild:
    """Rebuilds the catalog of one log.

    Args:
        settings: the log and the database.
        decode_statistics: expands a data file's opaque statistics.
        archived: gives the log from its genesis on, where the results do not begin there any more.
        on_progress: told after every SQL transaction.
        switch_timeout_s: how long to try for the moment in which no reader holds the live tables.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        decode_statistics: StatisticsDecoder,
        archived: Callable[[], Iterator[ResultRecord]] | None = None,
        on_progress: Callable[[RebuildProgress], None] | None = None,
        switch_timeout_s: float = SWITCH_TIMEOUT_S,
    ) -> None:
        self.settings = settings
        self._decode_statistics = decode_statistics
        self._archived = archived
        self._on_progress = on_progress or (lambda _: None)
        self._switch_timeout_s = switch_timeout_s
        self._began_after = 0

    def run(self, *, restart: bool = False) -> int:
        """Rebuild and switch; return the last outcome that the new catalog holds.

        restart: throw away what an interrupted rebuild has left, instead of going on from there.

        Raises:
            CatalogMismatchError: the database holds a catalog that is not this log's, or something that users made depends on
                the live tables.
            CatalogUnavailableError: PostgreSQL went away, another rebuild runs, or readers did not let go of the live tables
                in time; run again to go on.
            LogIntegrityError, LogLossError, LogUnavailableError: the log cannot be read to its end.
        """
        with told_plainly(self.settings.database_url):
            try:
                return self._run(restart)
            except errors.OutOfMemory as error:
                raise CatalogMismatchError(
                    f"PostgreSQL cannot lock all tables of the catalog that hold rows at once ({str(error).strip()}): raise "
                    "its max_locks_per_transaction and run the command again"
                ) from error

    def _run(self, restart: bool) -> int:
        with self._connected() as live:
            if restart:
                _drop_second(live)
            with for_batches(), self._opened(live) as (session, reader, second):
                self._began_after = 0 if session.position is None else session.position.seq
                self._catch_up(live, session, reader)
                _drop_left_over(second)
                ensure_readers_indexes(second, own=SECOND_SCHEMA)
                _analyze(second)
                self._switch_in_time(live, session, reader)
                assert session.position is not None
                reached = session.position.seq
            _drop_second(live)
            _drop_left_over(live)
            return reached

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """A connection to the live catalog, which no other rebuild has at this time."""
        with connect(self.settings.database_url, autocommit=True) as live:
            mark_projector(live)
            if not _has_lock_in_time(live):
                raise CatalogUnavailableError(
                    without_password(self.settings.database_url),
                    detail="another rebuild of this catalog runs: let it end, or stop it",
                    has_answered=True,
                )
            foreign = live.execute("SELECT to_regclass('ducklake_snapshot') IS NOT NULL").fetchone() == (True,)
            if foreign and not catalog_exists(live):
                raise CatalogMismatchError(
                    "this database holds a DuckLake catalog that commitlog did not make, which a rebuild would replace: use "
                    "another database"
                )
            migrate(live)
            yield live

    @contextmanager
    def _opened(self, live: Connection) -> Iterator[tuple[Session, ResultsReader, Connection]]:
        """The second schema's session, the results after what it holds, and the session's connection."""
        settings = dataclasses.replace(self.settings, data_path=_data_path(live) or self.settings.data_path)
        projector = Projector(settings, decode_statistics=self._decode_statistics, own=SECOND_SCHEMA)
        if not catalog_exists(live, own=SECOND_SCHEMA):
            _drop_second(live)  # What a rebuild has left that died after it had switched.
        live.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(SECOND_SCHEMA)))
        with connected(settings, decode_statistics=self._decode_statistics, own=SECOND_SCHEMA) as catalog:
            try:
                reader = projector.reader(catalog)
            except LogIntegrityError as error:
                _drop_second(live)
                live.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(SECOND_SCHEMA)))
                if isinstance(error, ResultsTrimmedError) and self._archived is not None:
                    self._project_archived(Session(projector, catalog, None), self._archived())
                reader = projector.reader(catalog)
            with reader:
                yield Session(projector, catalog, reader), reader, catalog.conn

    def _project_archived(self, session: Session, records: Iterator[ResultRecord]) -> None:
        """Project the log from its genesis on, as far as it was archived."""
        while batch := list(islice(records, RECORDS_MAX)):
            session.apply(batch, batch[-1].offset + 1)
            assert session.position is not None
            self._on_progress(RebuildProgress(0, session.position.seq, RECORDS_MAX))

    def _catch_up(self, live: Connection, session: Session, reader: ResultsReader) -> None:
        """Project until the end of the log is near."""
        ahead = ReadAhead(reader, records_max=RECORDS_MAX, bytes_max=AHEAD_BYTES_MAX)
        with meanwhile(session.catalog, ahead.read_on):
            is_near = False
            while not is_near:
                records = ahead.take()
                remaining = reader.lag()
                is_near = remaining <= NEAR_RECORDS and (bool(records) or session.position is not None)
                session.apply(records, ahead.next_offset)
                _check_log(live, session)
                if session.position is not None:
                    self._on_progress(RebuildProgress(self._began_after, session.position.seq, remaining))
        if records := ahead.rest():
            session.apply(records, ahead.next_offset)

    def _switch_in_time(self, live: Connection, session: Session, reader: ResultsReader) -> None:
        deadline = time.monotonic() + self._switch_timeout_s
        while True:
            self._catch_up(live, session, reader)
            try:
                with live.transaction():
                    self._switch(live, session, reader)
                return
            except errors.LockNotAvailable as error:
                if time.monotonic() > deadline:
                    raise CatalogUnavailableError(
                        without_password(self.settings.database_url),
                        waited_ms=int(self._switch_timeout_s * 1000),
                        detail="the catalog is rebuilt, but a reader's transaction holds the live tables, so it was not "
                        "switched; end that transaction and run the command again",
                        has_answered=True,
                    ) from error
                time.sleep(SWITCH_PAUSE_S)

    def _switch(self, live: Connection, session: Session, reader: ResultsReader) -> None:
        """Exchange the tables, in the caller's SQL transaction."""
        _set_lock_timeout(live, _LOCK_TIMEOUT_MS_OF_PROJECTOR)
        # Nobody but autovacuum minds this lock, and it gives way; it would not within the short time below.
        _lock(live, _tables_of(live, _staying(live)), "SHARE UPDATE EXCLUSIVE")
        if catalog_exists(live):
            live.execute("LOCK TABLE commitlog.applied IN ACCESS EXCLUSIVE MODE")
        self._reach(session, reader, _live_seq(live))
        _set_lock_timeout(live, _LOCK_TIMEOUT_MS)
        staying = _staying(live)
        tables = _tables_of(live, staying)
        # Readers begin with the snapshots: who has this lock meets none in the middle of its work.
        _lock(live, [name for name in tables if name[1] == "ducklake_snapshot"], "ACCESS EXCLUSIVE")
        _lock(live, tables, "ACCESS EXCLUSIVE")
        _exchange(live, tables, staying)
        install_guard(live)
        live.execute("NOTIFY commitlog_applied")

    def _reach(self, session: Session, reader: ResultsReader, seq: int) -> None:
        """Project at least up to an outcome that the live catalog holds, if the log has it."""
        while session.position is None or session.position.seq < seq:
            records = reader.read(records_max=RECORDS_MAX)
            session.apply(records, reader.next_offset)
            if not records and reader.lag() == 0:
                return


def _data_path(live: Connection) -> str | None:
    if not catalog_exists(live):
        return None
    row = live.execute(DATA_PATH).fetchone()
    return None if row is None else str(row[0])


def _live_seq(live: Connection) -> int:
    if not catalog_exists(live):
        return -1
    row = live.execute("SELECT seq FROM commitlog.applied").fetchone()
    return -1 if row is None else int(row[0])


def _check_log(live: Connection, session: Session) -> None:
    """Raise CatalogMismatchError when the live catalog is another log's."""
    if session.position is None or not catalog_exists(live):
        return
    row = live.execute("SELECT log_id FROM commitlog.applied").fetchone()
    if row is not None and row[0].bytes != session.position.log_id:
        raise CatalogMismatchError(
            f"this database holds the catalog of another log ({row[0]}), which a rebuild would replace: point "
            "COMMITLOG_DATABASE_URL at this log's own database, or drop that catalog first"
        )


def _drop_second(conn: Connection) -> None:
    _drop(conn, [(SECOND_SCHEMA, name) for name in _rebuilt(conn, "r") if re.match(_INLINED, name)])
    conn.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(SECOND_SCHEMA)))


def _drop_left_over(conn: Connection) -> None:
    """Drop the tables of inlined rows and deletes that belong to no table of the lake any more: their snapshots expired."""
    schema = current_schema(conn)
    left = _left_over(conn, schema)
    conn.commit()
    with suppress(errors.LockNotAvailable):  # Somebody reads an old snapshot: the next rebuild drops it.
        _drop(conn, [(schema, name) for name in left])


def _left_over(conn: Connection, schema: str) -> list[str]:
    """The tables of inlined rows and deletes, where DuckLake's tables are, that the catalog in a schema does not need."""
    found = conn.execute(
        _LEFT_OVER.format(
            registered=sql.Identifier(schema, "ducklake_inlined_data_tables"),
            tables=sql.Identifier(schema, "ducklake_table"),
        ),
        (_INLINED,),
    ).fetchall()
    return [name for (name,) in found]


def _drop(conn: Connection, tables: Sequence[tuple[str, str]]) -> None:
    for together in in_parts(tables):
        with conn.transaction():
            _set_lock_timeout(conn, _LOCK_TIMEOUT_MS_OF_PROJECTOR)
            conn.execute(sql.SQL("DROP TABLE {}").format(_listed(together)))


def _analyze(conn: Connection) -> None:
    """Let the first queries after the switch know how many rows there are."""
    for together in in_parts((SECOND_SCHEMA, name) for name in _rebuilt(conn, "r")):
        conn.execute(sql.SQL("ANALYZE {}").format(_listed(together)))
        conn.commit()


def _listed(tables: Sequence[tuple[str, str]]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(*table) for table in tables)


def _rebuilt(conn: Connection, kind: str) -> list[str]:
    """The tables (kind r) or views (v) of the second schema, by name."""
    return [name for (name,) in conn.execute(_REBUILT, (SECOND_SCHEMA, kind)).fetchall()]


def _tables_of(live: Connection, staying: set[str]) -> list[tuple[str, str]]:
    """The live tables that the second schema's take the place of: schema and name."""
    ours = [name for name in _rebuilt(live, "r") if name not in DUCKLAKE.tables]
    rows = live.execute(_LIVE_TABLES, (OWN_SCHEMA, ours, list(DUCKLAKE.tables), _INLINED)).fetchall()
    apart = staying | set(_left_over(live, SECOND_SCHEMA))
    return [(schema, name) for schema, name in rows if name not in apart]


def _staying(live: Connection) -> set[str]:
    """The live tables of inlined rows and deletes that are as empty as the second schema's, and made alike."""
    alike = live.execute(_MADE_ALIKE, (_INLINED, SECOND_SCHEMA)).fetchall()
    looks = (
        _BOTH_EMPTY.format(name, sql.Identifier(place, name), sql.Identifier(SECOND_SCHEMA, name))
        for place, name in alike
    )
    return {name for (name,) in looked_at(live, looks)}


def _lock(live: Connection, tables: list[tuple[str, str]], mode: str) -> None:
    if tables:
        live.execute(sql.SQL("LOCK TABLE {} IN {} MODE").format(_listed(tables), sql.SQL(mode)))


def _has_lock_in_time(live: Connection) -> bool:
    """Whether no other rebuild runs; PostgreSQL may notice a little later that one has ended, or was killed."""
    deadline = time.monotonic() + ENDED_TIMEOUT_S
    while live.execute("SELECT pg_try_advisory_lock(hashtext('commitlog.rebuild'))").fetchone() != (True,):
        if time.monotonic() > deadline:
            return False
        time.sleep(ENDED_PAUSE_S)
    return True


def _set_lock_timeout(live: Connection, timeout_ms: int) -> None:
    live.execute("SELECT set_config('lock_timeout', %s, true)", (f"{timeout_ms}ms",))


def _exchange(live: Connection, tables: list[tuple[str, str]], staying: set[str]) -> None:
    """Drop the live tables and views, and move the second schema's to where they were."""
    views = _rebuilt(live, "v")
    going = [*tables, *((OWN_SCHEMA, name) for name in views)]
    carry_over(live, going, SECOND_SCHEMA)
    made_by_users = made_on(live, going, SECOND_SCHEMA)
    try:
        for name in views:
            live.execute(sql.SQL("DROP VIEW IF EXISTS {}").format(sql.Identifier(OWN_SCHEMA, name)))
        if tables:
            live.execute(sql.SQL("DROP TABLE {}").format(_listed(tables)))
    except errors.DependentObjectsStillExist as error:
        raise CatalogMismatchError(
            f"something that is not commitlog's was made on the catalog's tables: {error.diag.message_detail}. The catalog "
            "is rebuilt, but was not switched: drop that, run the command again, and make it anew"
        ) from error
    lake = current_schema(live)
    for kind in ("r", "v"):
        for name in _rebuilt(live, kind):
            if name in staying:
                continue
            place = lake if name.startswith("ducklake_") else OWN_SCHEMA
            live.execute(
                _MOVE.format(
                    sql.SQL("TABLE" if kind == "r" else "VIEW"),
                    sql.Identifier(SECOND_SCHEMA, name),
                    sql.Identifier(place),
                )
            )
    for statement in made_by_users:
        live.execute(statement)
