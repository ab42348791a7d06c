"""The catalog as the projector writes it: its position, and rows that come with it.

What may be asked of it is `WrittenCatalog`, so that the projector's session can run over another one than PostgreSQL's; that
one is `SqlCatalog`, which knows the statements.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import LiteralString, NamedTuple, Protocol
from uuid import UUID

from psycopg import sql

from commitlog.catalog.connecting import Connection, catalog_url, connect
from commitlog.catalog.copying import nothing
from commitlog.catalog.guard import ensure_guard, mark_projector
from commitlog.catalog.migrations import catalog_exists, create_catalog, migrate, not_whole
from commitlog.catalog.projecting.snapshots import Projection
from commitlog.catalog.projecting.statistics import StatisticsDecoder
from commitlog.catalog.tables import OWN_SCHEMA
from commitlog.catalog.writing import to_time
from commitlog.config import Settings
from commitlog.domain.model import Genesis, Outcome

_APPLIED = sql.SQL("SELECT tableoid, log_id, seq, epoch, hash, results_offset FROM {own}.applied")
_LOCK_APPLIED = sql.SQL("SELECT tableoid, seq, hash FROM {own}.applied FOR UPDATE")
_HEEDED = sql.SQL("SELECT next_offset FROM {own}.applied")
_TAKE_TURN: LiteralString = "SELECT pg_try_advisory_lock(hashtextextended('commitlog.projector ' || %s, 0))"
# One who is frozen, or whose machine is gone, has a session that waits for its client.
_END_TURN: LiteralString = """
    SELECT pg_terminate_backend(a.pid) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'advisory' AND l.granted AND a.datname = current_database()
      AND l.objsubid = 1 AND (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended('commitlog.projector ' || %s, 0)
      AND (a.state <> 'active' OR a.wait_event = 'ClientRead') AND a.state_change < clock_timestamp() - %s * interval '1 s'"""
_KEEPALIVES = {"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3"}
"""A session whose machine is gone ends after half a minute."""
_FIRST_APPLIED = sql.SQL("INSERT INTO {own}.applied VALUES (1, %s, 0, 0, %s, %s, %s, %s)")
_MOVE_APPLIED = sql.SQL("""
    UPDATE {own}.applied SET seq = %s, epoch = %s, hash = %s, results_offset = %s, next_offset = %s,
        applied_at = clock_timestamp() RETURNING pg_notify('commitlog_applied', '')""")
_MOVE_APPLIED_FROM: LiteralString = """
    UPDATE {own}.applied SET seq = %s, epoch = %s, hash = %s, results_offset = %s, next_offset = %s,
        applied_at = clock_timestamp() WHERE seq = %s AND hash = %s AND tableoid = %s
        RETURNING pg_notify('commitlog_applied', ''),
            NOT pg_try_advisory_xact_lock(hashtextextended('commitlog.awaited', 0)) AS is_awaited"""


class AppliedPosition(NamedTuple):
    """How far a catalog is, as its row says; ``catalog_oid`` is of the table, which another catalog does not have."""

    catalog_oid: int
    log_id: bytes
    seq: int
    epoch: int
    hash: bytes
    results_offset: int


class Milepost(NamedTuple):
    """An accepted record that readers may begin at."""

    seq: int
    epoch: int
    hash: bytes
    results_offset: int
    head_snapshot_id: int


class Move(NamedTuple):
    """What the position becomes."""

    seq: int
    epoch: int
    hash: bytes
    results_offset: int
    next_offset: int


class WrittenCatalog(Protocol):
    """A catalog, by one connection; what it knows of its tables is forgotten by `open`.

    Attributes:
        meanwhile: done while the database is waited for, again and again until it returns False.
    """

    meanwhile: Callable[[], bool]

    def __enter__(self) -> WrittenCatalog:
        """Itself, whose connection ends with the block."""

    def __exit__(self, *_: object) -> None: ...

    @property
    def is_lost(self) -> bool:
        """Whether the connection is gone."""

    def check_connected(self) -> None:
        """Raises psycopg.OperationalError where the database has ended the connection, which nobody notices who only waits.

        It may take a second call to notice."""

    def name(self, who: str) -> None:
        """Says to others who has the connection."""

    def take_turn(self) -> bool:
        """Takes the turn to project, which one connection has at a time, until it ends; whether it was free."""

    def heeded(self) -> int | None:
        """Up to which offset the results are heeded; None when there is no catalog yet."""

    def end_turn(self, silent_s: float) -> None:
        """Ends the connection whose turn it is, if nothing has come from there for so long."""

    def position(self) -> AppliedPosition | None:
        """How far the catalog is; None when there is none yet.

        A catalog that is there is brought to this version and guarded, whoever made it."""

    def transaction(self) -> AbstractContextManager[object]:
        """All that is written in the block, or nothing."""

    def locked(self) -> tuple[int, int, bytes] | None:
        """The catalog's oid, and the seq and hash it is at, which nobody else can move before the end of the transaction;
        None where it has no position."""

    def create(self, genesis: Genesis, data_path: str, digest: bytes, offset: int) -> bool:
        """Makes an empty catalog, in a transaction; False where another one was faster."""

    def open(self, log_id: bytes) -> None:
        """Begins to project into what is there."""

    def project(self, outcomes: Sequence[Outcome], mileposts: Sequence[Milepost]) -> None:
        """Writes outcomes, in a transaction."""

    def move(self, to: Move) -> None:
        """Writes the position, in a transaction."""

    def project_at_once(
        self, outcomes: Sequence[Outcome], mileposts: Sequence[Milepost], to: Move, seen: tuple[int, bytes, int]
    ) -> bool:
        """Writes a few outcomes and the position in one statement, if (seq, hash, catalog's oid) are as seen."""

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waited for what was written last by one statement."""

    def is_due_after(self, snapshot_id: int, time_us: int) -> bool:
        """Whether a snapshot makes others due to be expired."""


@contextmanager
def meanwhile(catalog: WrittenCatalog, do: Callable[[], bool]) -> Iterator[None]:
    """Has something done in the block while the catalog's database is waited for."""
    before, catalog.meanwhile = catalog.meanwhile, do
    try:
        yield
    finally:
        catalog.meanwhile = before


class SqlCatalog:
    """PostgreSQL's.

    Args:
        conn: nobody else writes by it; every SQL transaction begins and ends here in so many words.
        decode_statistics: expands a data file's opaque statistics.
        own: the schema of our own tables.
    """

    def __init__(self, conn: Connection, *, decode_statistics: StatisticsDecoder, own: str) -> None:
        conn.autocommit = True
        self.conn = conn
        self._decode_statistics = decode_statistics
        self._own = own
        self._projection: Projection | None = None
        self.meanwhile: Callable[[], bool] = nothing
        self.is_awaited = False

    def __enter__(self) -> SqlCatalog:
        return self

    def __exit__(self, *_: object) -> None:
        self.conn.close()

    @property
    def is_lost(self) -> bool:
        return self.conn.closed or self.conn.broken

    def check_connected(self) -> None:
        # Whatever comes is taken, also that nothing more will.
        deque(self.conn.notifies(timeout=0), maxlen=0)

    def name(self, who: str) -> None:
        self.conn.execute("SELECT set_config('application_name', %s, false)", (who,))

    def take_turn(self) -> bool:
        return self.conn.execute(_TAKE_TURN, (self._own,)).fetchone() == (True,)

    def heeded(self) -> int | None:
        if not catalog_exists(self.conn, own=self._own):
            return None
        row = self.conn.execute(self._named(_HEEDED)).fetchone()
        return None if row is None else int(row[0])

    def end_turn(self, silent_s: float) -> None:
        self.conn.execute(_END_TURN, (self._own, silent_s))

    def position(self) -> AppliedPosition | None:
        migrate(self.conn, own=self._own)
        with self.conn.transaction():
            if not catalog_exists(self.conn, own=self._own):
                return None
            row = self.conn.execute(self._named(_APPLIED)).fetchone()
        if row is None:
            raise not_whole("applied")
        ensure_guard(self.conn)
        catalog_oid, log_id, seq, epoch, digest, offset = row
        return AppliedPosition(catalog_oid, log_id.bytes, seq, epoch, bytes(digest), offset)

    def transaction(self) -> AbstractContextManager[object]:
        return self.conn.transaction()

    def locked(self) -> tuple[int, int, bytes] | None:
        row = self.conn.execute(self._named(_LOCK_APPLIED)).fetchone()
        return None if row is None else (row[0], row[1], bytes(row[2]))

    def create(self, genesis: Genesis, data_path: str, digest: bytes, offset: int) -> bool:
        created_at = to_time(genesis.created_at_ms * 1000)
        if not create_catalog(
            self.conn, log_id=genesis.log_id, data_path=data_path, created_at=created_at, own=self._own
        ):
            return False
        values = (UUID(bytes=genesis.log_id), digest, offset, datetime.now(UTC), offset + 1)
        self.conn.execute(self._named(_FIRST_APPLIED), values)
        self.open(genesis.log_id)
        self._opened.expiry.configure(genesis.settings.fields())
        return True

    def open(self, log_id: bytes) -> None:
        decode = self._decode_statistics
        self._projection = Projection(
            self.conn, log_id=log_id, decode_statistics=decode, own=self._own, meanwhile=lambda: self.meanwhile()
        )

    def project(self, outcomes: Sequence[Outcome], mileposts: Sequence[Milepost]) -> None:
        self._add(mileposts)
        self._opened.project(outcomes)

    def move(self, to: Move) -> None:
        self.conn.execute(self._named(_MOVE_APPLIED), to)

    def project_at_once(
        self, outcomes: Sequence[Outcome], mileposts: Sequence[Milepost], to: Move, seen: tuple[int, bytes, int]
    ) -> bool:
        buffer = self._opened.buffer
        with buffer.held():
            self._add(mileposts)
            self._opened.collect(outcomes)
        row = buffer.write_at_once(_MOVE_APPLIED_FROM, (*to, *seen))
        self.is_awaited = row is not None and bool(row[1])
        return row is not None

    def is_due_after(self, snapshot_id: int, time_us: int) -> bool:
        return self._opened.expiry.is_due_after(snapshot_id, time_us)

    @property
    def _opened(self) -> Projection:
        assert self._projection is not None
        return self._projection

    def _add(self, mileposts: Sequence[Milepost]) -> None:
        for milepost in mileposts:
            self._opened.buffer.add("mileposts", milepost)

    def _named(self, statement: sql.SQL) -> sql.Composed:
        return statement.format(own=sql.Identifier(self._own))


def connected(settings: Settings, *, decode_statistics: StatisticsDecoder, own: str = OWN_SCHEMA) -> SqlCatalog:
    """A connection that may write the catalog, which is prepared for this version from now on."""
    conn = connect(catalog_url(settings))
    try:
        if own != OWN_SCHEMA:
            conn.execute("SELECT set_config('search_path', %s, false)", (own,))
        mark_projector(conn)
        migrate(conn, only_pre=True, own=own)
        # Text is sent as UTF-8, whatever the user's libpq is set to.
        conn.execute("SELECT set_config('client_encoding', 'UTF8', false)")
        # Rows and position are one SQL transaction, and the log is the truth: after a crash of PostgreSQL the catalog
        # is a moment older, and goes on from there. Nobody has to wait for its disk.
        conn.execute("SELECT set_config('synchronous_commit', 'off', false)")
        for name, value in _KEEPALIVES.items():
            conn.execute("SELECT set_config(%s, %s, false)", (name, value))
        conn.commit()
    except BaseException:
        conn.close()
        raise
    return SqlCatalog(conn, decode_statistics=decode_statistics, own=own)
