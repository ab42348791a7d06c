"""commitlog bench catalog: how long a reader waits for the list of a table's files in a catalog with much history.

The catalog is made by SQL, as a projector would have left it: one snapshot and one file at a time, either spread over many
tables that keep all their files, or in one table that is compacted all the time, so that few of its files are live at once.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psycopg
from psycopg import sql

from commitlog.catalog.connecting import Connection
from commitlog.catalog.guard import mark_projector
from commitlog.catalog.migrations import create_catalog
from commitlog.catalog.projecting.snapshots import Projection
from commitlog.catalog.queries import Catalog
from commitlog.domain import model as m
from commitlog.domain.deciding.decide import decide
from commitlog.domain.state.index import new_state
from commitlog.domain.state.replaying import replay
from commitlog.local.postgres import EmbeddedPostgres
from commitlog.ops.service.ending import ended_with_us

LIVE = 1_000
ROUNDS = 21
_LOG_ID = bytes(16)


@dataclass(frozen=True, slots=True)
class ListCost:
    """Milliseconds, the median, for the list of one table's files at a snapshot; ``live`` of them are in the list."""

    history: str
    snapshot_id: int
    live: int
    list_ms: float


def run_catalog_bench(*, files: int, say: Callable[[str], None] = lambda _: None) -> tuple[ListCost, ...]:
    """Measure on a PostgreSQL of its own, which is removed afterwards.

    Args:
        files: how many snapshots, each with one file.
        say: is told what is being done.
    """
    directory = Path(tempfile.mkdtemp(prefix="commitlog-bench-"))
    costs: list[ListCost] = []
    try:
        with ended_with_us(directory, is_removed=True), EmbeddedPostgres(directory / "postgres") as postgres:
            url = postgres.create_database("bench")
            for history, tables in (("many tables", max(files // LIVE, 1)), ("one table, compacted", 1)):
                say(f"{history}: a catalog of {files:,} snapshots and files")
                with psycopg.connect(url) as conn:
                    _make(conn, files, tables, compacted=tables == 1)
                catalog = Catalog(url)
                costs += [_measure(catalog, history, at) for at in (tables + files, tables + files // 2)]
                catalog.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return tuple(costs)


_MAKE_SNAPSHOTS = sql.SQL("""
    INSERT INTO ducklake_snapshot SELECT {tables} + n + 1, timestamptz '2024-01-02' + n * interval '1 ms', {tables},
        {catalog_id}, n + 1 FROM generate_series(0, {files} - 1) n""")
_ENDS = sql.SQL("CASE WHEN n + {live} < {files} THEN {tables} + n + {live} + 1 END")
_MAKE_FILES = sql.SQL("""
    INSERT INTO ducklake_data_file SELECT n, n % {tables} + 1, {tables} + n + 1, {ends}, NULL, 'f' || n || '.parquet',
        true, 'parquet', 1000, 65536, 900, n * 1000, NULL, NULL, NULL, NULL
    FROM generate_series(0, {files} - 1) n""")


def _make(conn: Connection, files: int, tables: int, *, compacted: bool) -> None:
    mark_projector(conn)
    conn.execute("DROP SCHEMA IF EXISTS commitlog CASCADE")
    conn.execute("DROP SCHEMA public CASCADE")
    conn.execute("CREATE SCHEMA public")
    create_catalog(conn, log_id=_LOG_ID, data_path="/lake/", created_at=datetime(2024, 1, 1, tzinfo=UTC))
    state = new_state(m.Genesis(_LOG_ID))
    outcomes = []
    for number in range(tables):
        change = m.CreateTable("main", f"t{number}", (m.ColumnSpec("id", "int64"), m.ColumnSpec("v", "varchar")))
        proposal_id = (number + 1).to_bytes(6, "big") + b"\x70\x00" + (2**63 + number).to_bytes(8, "big")
        proposal = m.Proposal(proposal_id, "bench", number, (change,))
        outcome = decide(state, proposal, now_ms=1_700_000_000_000 + number)
        replay(state, outcome)
        outcomes.append(outcome)
    Projection(conn, log_id=_LOG_ID).project(outcomes)
    made = {"files": files, "tables": tables, "live": LIVE, "catalog_id": state.next_catalog_id}
    conn.execute(_MAKE_SNAPSHOTS.format(**made))
    conn.execute(_MAKE_FILES.format(ends=(_ENDS if compacted else sql.SQL("NULL")).format(**made), **made))
    conn.commit()
    conn.autocommit = True
    conn.execute("VACUUM ANALYZE")


def _measure(catalog: Catalog, history: str, snapshot_id: int) -> ListCost:
    table = catalog.table_at("main", "t0", snapshot_id)
    assert table is not None
    times: list[float] = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        found = catalog.files_at(table, snapshot_id)
        times.append((time.perf_counter() - began) * 1000)
    return ListCost(history, snapshot_id, len(found), round(statistics.median(times), 2))
