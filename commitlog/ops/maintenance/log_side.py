"""What the log says at the outcome that the catalog has applied: the other side of every comparison that doctor makes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

from commitlog.catalog.checks import CheckedCatalog, LogSide
from commitlog.catalog.connecting import Connection
from commitlog.catalog.migrations import catalog_exists
from commitlog.client.outcomes.archive import trimmed_results
from commitlog.config import Settings
from commitlog.domain.model import Outcome
from commitlog.domain.state.index import SequencerState
from commitlog.errors import LogIntegrityError
from commitlog.log.checkpoint import load_checkpoints
from commitlog.log.genesis import require_genesis
from commitlog.log.replica import state_with
from commitlog.log.results import LogPosition, ResultRecord, ResultsReader
from commitlog.log.trims import last_trim, position_of

TOLD_EVERY = 100


class _Start(NamedTuple):
    """The state to begin with, which outcome's it is, and what comes after it: what was trimmed of that, and the results."""

    state: SequencerState | None
    position: LogPosition | None
    trimmed: Iterable[ResultRecord]
    reader: ResultsReader


def checked_catalog(
    conn: Connection, settings: Settings, on_progress: Callable[[int, int], None] = lambda seq, applied_seq: None
) -> CheckedCatalog | None:
    """The catalog beside what the log says at the outcome that it has applied; None where there is no catalog yet.

    conn: in a REPEATABLE READ transaction of the caller's. on_progress: told now and then which outcome is read, and up to
    which one is to be read.

    Raises as `read_log_side`.
    """
    row = conn.execute("SELECT log_id, seq, hash FROM commitlog.applied").fetchone() if catalog_exists(conn) else None
    if row is None:
        return None
    applied = {"applied_log_id": row[0].bytes, "applied_seq": row[1], "applied_hash": bytes(row[2])}
    log = read_log_side(settings, **applied, on_progress=on_progress)
    return CheckedCatalog(conn, log, now_ms=time.time_ns() // 1_000_000, **applied)


def read_log_side(
    settings: Settings,
    *,
    applied_log_id: bytes,
    applied_seq: int,
    applied_hash: bytes,
    on_progress: Callable[[int, int], None] = lambda seq, applied_seq: None,
) -> LogSide:
    """Replay to the outcome that the catalog has applied, and look at what comes after it.

    The newest checkpoint that is not beyond it saves the replay of all that came before. Without one, as where no service runs,
    what was trimmed is read from its archive.

    Raises:
        ConfigurationError: the log was never created.
        LogIntegrityError, LogLossError: the log itself is broken, or what was trimmed is not in its archive.
        LogUnavailableError: no broker has answered.
    """
    genesis = require_genesis(settings)
    if genesis.log_id != applied_log_id:
        return LogSide(genesis.log_id, None, None, 0)
    start = _start(settings, applied_seq)
    state, position = start.state, start.position
    digest = position.hash if position is not None and position.seq == applied_seq else None
    last_seq, waiting_since_ms = 0 if position is None else position.seq, None
    on_progress(last_seq, applied_seq)
    with start.reader as reader:
        for record in chain(start.trimmed, chain.from_iterable(reader.read_to_end())):
            last_seq = seq = record.seq
            if seq % TOLD_EVERY == 0:
                on_progress(seq, applied_seq)
            if seq <= applied_seq:
                state = state_with(state, record)
                digest = record.hash if seq == applied_seq else digest
            elif waiting_since_ms is None and isinstance(record.value, Outcome):
                waiting_since_ms = record.value.decided_at_ms
    fits = digest == applied_hash
    foreign = tuple(start.reader.foreign)
    return LogSide(genesis.log_id, digest, state if fits else None, last_seq, waiting_since_ms, foreign)


def _start(settings: Settings, seq: int) -> _Start:
    for saved in load_checkpoints(settings):
        if saved.position.seq <= seq:
            with suppress(LogIntegrityError):
                state = saved.load()
                return _Start(state, saved.position, (), ResultsReader(settings, after=saved.position))
    noted = last_trim(settings)
    if noted is None:
        return _Start(None, None, (), ResultsReader(settings))
    return _Start(None, None, trimmed_results(noted), ResultsReader(settings, after=position_of(noted)))
