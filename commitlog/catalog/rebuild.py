"""Making the catalog anew from the log, beside the live one, and putting it in its place.

The log's results are projected into a second schema, which keeps its own position there: a rebuild that was interrupted
goes on where it was. Meanwhile the live projector and every reader work on. Then one SQL transaction takes the live
position's table, so that the live projector waits, catches up with it, and exchanges the tables. The projector notices that
another catalog stands there and starts from its position; a reader sees the old tables or the new ones, never both.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors, sql

from commitlog.catalog.guard import install_guard, mark_projector
from commitlog.catalog.migrations import catalog_exists, migrate
from commitlog.catalog.projector import AHEAD_BYTES_MAX, Projector, Session, few_collections
from commitlog.catalog.statistics import StatisticsDecoder
from commitlog.catalog.tables import DUCKLAKE, OWN_SCHEMA
from commitlog.catalog.writing import Connection
from commitlog.config import Settings
from commitlog.errors import CatalogMismatchError, CatalogUnavailableError, LogIntegrityError
from commitlog.log.results import ReadAhead, ResultsReader

SECOND_SCHEMA = "commitlog_rebuild"
RECORDS_MAX = 20_000
NEAR_RECORDS = 5_000
"""So near the end of the log the live projector can be made to wait for the rest."""
SWITCH_TIMEOUT_S = 120.0
SWITCH_PAUSE_S = 1.0
_INLINED = "^ducklake_inlined_(data|delete)_[0-9_]+$"

# A reader that waits for us while we wait for it is told of a deadlock after a second: we have to give up before.
_LOCK_TIMEOUT_MS = 200
_LOCK_TIMEOUT_MS_OF_PROJECTOR = 10_000


@dataclasses.dataclass(frozen=True, slots=True)
class RebuildProgress:
    """How far a rebuild is: the last outcome in the second schema, and about how many records of the log come after it."""

    applied_seq: int
    remaining: int


class Rebuild:
    """Rebuilds the catalog of one log.

    Args:
        settings: the log and the database.
        decode_statistics: expands a data file's opaque statistics.
        on_progress: told after every SQL transaction.
        switch_timeout_s: how long to try for the moment in which no reader holds the live tables.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        decode_statistics: StatisticsDecoder,
        on_progress: Callable[[RebuildProgress], None] | None = None,
        switch_timeout_s: float = SWITCH_TIMEOUT_S,
    ) -> None:
        self.settings = settings
        self._decode_statistics = decode_statistics
        self._on_progress = on_progress or (lambda _: None)
        self._switch_timeout_s = switch_timeout_s

    def run(self, *, restart: bool = False) -> int:
        """Rebuild and switch; return the last outcome that the new catalog holds.

        restart: throw away what an interrupted rebuild has left, instead of going on from there.

        Raises:
            CatalogMismatchError: the database holds a catalog that is not this log's, another rebuild runs, or something
                that users made depends on the live tables.
            CatalogUnavailableError: PostgreSQL went away, or readers did not let go of the live tables in time; run again
                to go on.
            LogIntegrityError, LogLossError, LogUnavailableError: the log cannot be read to its end.
        """
        try:
            with self._connected() as live:
                if restart:
                    _drop_second(live)
                with few_collections(), self._opened(_data_path(live) or self.settings.data_path) as (session, reader):
                    self._catch_up(live, session, reader)
                    _analyze(session.conn)
                    self._switch_in_time(live, session, reader)
                    assert session.position is not None
                    return session.position.seq
        except errors.OutOfMemory as error:
            raise CatalogMismatchError(
                f"PostgreSQL cannot lock all tables of the catalog at once ({str(error).strip()}): raise its "
                "max_locks_per_transaction and run the command again"
            ) from error
        except psycopg.OperationalError as error:
            raise CatalogUnavailableError(self._address, detail=str(error).strip()) from error

    @property
    def _address(self) -> str:
        from commitlog.config import without_password

        return without_password(self.settings.database_url)

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """A connection to the live catalog, which no other rebuild has at this time."""
        with psycopg.connect(self.settings.database_url, connect_timeout=10, autocommit=True) as live:
            mark_projector(live)
            mine = live.execute("SELECT pg_try_advisory_lock(hashtext('commitlog.rebuild'))").fetchone()
            if mine != (True,):
                raise CatalogMismatchError("another rebuild of this catalog runs: let it end, or stop it")
            foreign = live.execute("SELECT to_regclass('ducklake_snapshot') IS NOT NULL").fetchone() == (True,)
            if foreign and not catalog_exists(live):
                raise CatalogMismatchError(
                    "this database holds a DuckLake catalog that commitlog did not make, which a rebuild would replace: use "
                    "another database"
                )
            migrate(live)
            yield live

    @contextmanager
    def _opened(self, data_path: str) -> Iterator[tuple[Session, ResultsReader]]:
        """The second schema's session, and the results after what it holds."""
        settings = dataclasses.replace(self.settings, data_path=data_path)
        projector = Projector(settings, decode_statistics=self._decode_statistics, own=SECOND_SCHEMA)
        with psycopg.connect(self.settings.database_url, connect_timeout=10, autocommit=True) as conn:
            conn.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(SECOND_SCHEMA)))
        with projector.connect() as conn:
            # What a crash loses is projected again; the switch itself waits for the disk.
            conn.execute("SET synchronous_commit = off")
            conn.commit()
            try:
                reader = projector.reader(conn)
            except LogIntegrityError:
                with conn.transaction():
                    _drop_second(conn)
                    conn.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(SECOND_SCHEMA)))
                reader = projector.reader(conn)
            with reader:
                yield Session(projector, conn, reader), reader

    def _catch_up(self, live: Connection, session: Session, reader: ResultsReader) -> None:
        """Project until the end of the log is near."""
        with ReadAhead(reader, records_max=RECORDS_MAX, bytes_max=AHEAD_BYTES_MAX) as ahead:
            is_near = False
            while not is_near:
                records = ahead.take()
                remaining = reader.lag()
                is_near = remaining <= NEAR_RECORDS and (bool(records) or session.position is not None)
                session.apply(records, ahead.next_offset)
                _check_log(live, session)
                if session.position is not None:
                    self._on_progress(RebuildProgress(session.position.seq, remaining))
        while records := ahead.take(timeout_s=0):
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
                        self._address,
                        waited_ms=int(self._switch_timeout_s * 1000),
                        detail="the catalog is rebuilt, but a reader's transaction holds the live tables, so it was not "
                        "switched; end that transaction and run the command again",
                    ) from error
                time.sleep(SWITCH_PAUSE_S)

    def _switch(self, live: Connection, session: Session, reader: ResultsReader) -> None:
        """Exchange the tables, in the caller's SQL transaction."""
        _set_lock_timeout(live, _LOCK_TIMEOUT_MS_OF_PROJECTOR)
        # Nobody but autovacuum minds this lock, and it gives way; it would not within the short time below.
        _lock(live, _tables_of(live), "SHARE UPDATE EXCLUSIVE")
        if catalog_exists(live):
            live.execute(f"LOCK TABLE {OWN_SCHEMA}.applied IN ACCESS EXCLUSIVE MODE".encode())
        self._reach(session, reader, _live_seq(live))
        _set_lock_timeout(live, _LOCK_TIMEOUT_MS)
        tables = _tables_of(live)
        # Readers begin with the snapshots: who has this lock meets none in the middle of its work.
        _lock(live, [name for name in tables if name[1] == "ducklake_snapshot"], "ACCESS EXCLUSIVE")
        _lock(live, tables, "ACCESS EXCLUSIVE")
        _exchange(live, tables)
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
    row = live.execute("SELECT value FROM ducklake_metadata WHERE key = 'data_path' AND scope IS NULL").fetchone()
    return None if row is None else str(row[0])


def _live_seq(live: Connection) -> int:
    if not catalog_exists(live):
        return -1
    row = live.execute(f"SELECT seq FROM {OWN_SCHEMA}.applied".encode()).fetchone()
    return -1 if row is None else int(row[0])


def _check_log(live: Connection, session: Session) -> None:
    """Raise CatalogMismatchError when the live catalog is another log's."""
    if session.position is None or not catalog_exists(live):
        return
    row = live.execute(f"SELECT log_id FROM {OWN_SCHEMA}.applied".encode()).fetchone()
    if row is not None and row[0].bytes != session.position.log_id:
        raise CatalogMismatchError(
            f"this database holds the catalog of another log ({row[0]}), which a rebuild would replace: point "
            "COMMITLOG_DATABASE_URL at this log's own database, or drop that catalog first"
        )


def _drop_second(conn: Connection) -> None:
    conn.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(SECOND_SCHEMA)))


def _analyze(conn: Connection) -> None:
    """Let the first queries after the switch know how many rows there are."""
    tables = _relations(conn, SECOND_SCHEMA, "r")
    conn.commit()
    conn.execute(
        sql.SQL("ANALYZE {}").format(sql.SQL(", ").join(sql.Identifier(SECOND_SCHEMA, name) for name in tables))
    )
    conn.commit()


def _relations(conn: Connection, schema: str, kind: str) -> list[str]:
    """The tables (kind r) or views (v) of a schema, by name."""
    rows = conn.execute(
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s "
        "AND c.relkind = %s ORDER BY 1",
        (schema, kind),
    ).fetchall()
    return [name for (name,) in rows]


def _tables_of(live: Connection) -> list[tuple[str, str]]:
    """The live tables that the second schema's take the place of: schema and name."""
    ours = [name for name in _relations(live, SECOND_SCHEMA, "r") if name not in DUCKLAKE.tables]
    rows = live.execute(
        """SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
           WHERE c.relkind = 'r' AND (n.nspname = %s AND c.relname = ANY(%s)
               OR n.nspname = current_schema() AND (c.relname = ANY(%s) OR c.relname ~ %s)) ORDER BY 1, 2""",
        (OWN_SCHEMA, ours, list(DUCKLAKE.tables), _INLINED),
    ).fetchall()
    return [(schema, name) for schema, name in rows]


def _lock(live: Connection, tables: list[tuple[str, str]], mode: str) -> None:
    if tables:
        names = sql.SQL(", ").join(sql.Identifier(*table) for table in tables)
        live.execute(sql.SQL("LOCK TABLE {} IN {} MODE").format(names, sql.SQL(mode)))


def _set_lock_timeout(live: Connection, timeout_ms: int) -> None:
    live.execute("SELECT set_config('lock_timeout', %s, true)", (f"{timeout_ms}ms",))


def _exchange(live: Connection, tables: list[tuple[str, str]]) -> None:
    """Drop the live tables and views, and move the second schema's to where they were."""
    views = _relations(live, SECOND_SCHEMA, "v")
    try:
        for name in views:
            live.execute(sql.SQL("DROP VIEW IF EXISTS {}").format(sql.Identifier(OWN_SCHEMA, name)))
        if tables:
            live.execute(sql.SQL("DROP TABLE {}").format(sql.SQL(", ").join(sql.Identifier(*name) for name in tables)))
    except errors.DependentObjectsStillExist as error:
        raise CatalogMismatchError(
            f"something that is not commitlog's was made on the catalog's tables: {error.diag.message_detail}. The catalog "
            "is rebuilt, but was not switched: drop that, run the command again, and make it anew"
        ) from error
    lake = live.execute("SELECT current_schema()").fetchone()
    assert lake is not None
    for kind in ("r", "v"):
        for name in _relations(live, SECOND_SCHEMA, kind):
            place = lake[0] if name.startswith("ducklake_") else OWN_SCHEMA
            live.execute(
                sql.SQL("ALTER {} {} SET SCHEMA {}").format(
                    sql.SQL("TABLE" if kind == "r" else "VIEW"),
                    sql.Identifier(SECOND_SCHEMA, name),
                    sql.Identifier(place),
                )
            )
    live.execute(sql.SQL("DROP SCHEMA {}").format(sql.Identifier(SECOND_SCHEMA)))
