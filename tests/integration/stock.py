"""Lakes that the stock DuckLake client makes, to be taken over, and the comparison of two lakes at every snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import psycopg

from commitlog.adoption.translation import AdoptionCounts, Translation
from commitlog.catalog.guard import mark_projector
from commitlog.catalog.migrations import create_catalog
from commitlog.catalog.projecting.snapshots import Projection
from commitlog.client.reading.duckdb_client import connection_text, extension_file, open_lake
from commitlog.domain import model as m
from commitlog.log.codec import decode_statistics
from commitlog.ops.maintenance.adopt import open_source

DEFAULTS = m.LogSettings()


@dataclass(frozen=True)
class StockLake:
    """A lake of the stock client: ``place`` as the client takes it, ``source`` as `commitlog init --adopt` does."""

    place: str
    source: str
    data_path: str
    schema: str

    @contextmanager
    def client(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A client that may write."""
        with attached(self.place, f"DATA_PATH '{self.data_path}', METADATA_SCHEMA '{self.schema}'") as connection:
            yield connection

    @contextmanager
    def reader(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A client that only reads."""
        with attached(self.place, f"READ_ONLY, METADATA_SCHEMA '{self.schema}'") as connection:
            yield connection

    def run(self, *statements: str) -> None:
        """Have the client run these, in one session."""
        with self.client() as connection:
            for statement in statements:
                connection.execute(statement)


@contextmanager
def attached(place: str, options: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A client whose default catalog is the lake."""
    config: dict[str, Any] = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    with duckdb.connect(":memory:", config=config) as connection:
        for extension in ("sqlite_scanner", "postgres_scanner", "ducklake"):
            connection.execute(f"LOAD '{extension_file(extension)}'")
        connection.execute(f"ATTACH 'ducklake:{place}' AS lake ({options})")
        connection.execute("USE lake")
        yield connection


def stock_lake(kind: str, folder: Path, database_url: str | None = None, schema: str = "public") -> StockLake:
    """An empty lake with its catalog in ``kind``: sqlite, duckdb or postgres."""
    data_path = f"{folder}/data/"
    if kind == "postgres":
        assert database_url is not None
        source = f"{database_url}?schema={schema}"
        return StockLake("postgres:" + connection_text(database_url), source, data_path, schema)
    path = folder / f"catalog.{kind}"
    return StockLake(f"sqlite:{path}" if kind == "sqlite" else str(path), str(path), data_path, "main")


def taken_over(source: str, database_url: str, settings: m.LogSettings = DEFAULTS) -> AdoptionCounts:
    """Translate a lake and project what comes of it, without a log in between."""
    with open_source(source) as lake:
        genesis = m.Genesis(bytes(range(16)), partitions=4, settings=settings, data_path=lake.data_path)
        for _ in Translation(lake, genesis, write=False).run():
            pass
        translation = Translation(lake, genesis, write=True)
        outcomes = [each.outcome for each in translation.run()]
        data_path, first_time_ms = lake.data_path, lake.first_time_ms
    with psycopg.connect(database_url) as conn:
        mark_projector(conn)
        with conn.transaction():
            created_at = datetime.fromtimestamp(first_time_ms / 1000, UTC)
            create_catalog(conn, log_id=genesis.log_id, data_path=data_path, created_at=created_at)
        with conn.transaction():
            Projection(conn, log_id=genesis.log_id, decode_statistics=decode_statistics).project(outcomes)
    return translation.counts


def snapshots(connection: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    """What both lakes must agree on of each snapshot; the log counts milliseconds."""
    return connection.execute(
        "SELECT snapshot_id, epoch_ms(snapshot_time), author, commit_message, commit_extra_info "
        "FROM ducklake_snapshots('lake') ORDER BY 1"
    ).fetchall()


def differences_once_taken_over(source: StockLake, database_url: str, settings: m.LogSettings = DEFAULTS) -> list[str]:
    """`differences`, after the lake was taken over by a log of these settings."""
    taken_over(source.source, database_url, settings)
    return differences(source, database_url)


def differences(source: StockLake, database_url: str) -> list[str]:
    """Where the lake that was taken over differs from its source, at any snapshot that the source has kept."""
    found: list[str] = []
    with source.reader() as theirs, open_lake(database_url) as ours:
        kept = snapshots(theirs)
        if (mine := snapshots(ours)[: len(kept)]) != kept:
            found.append(f"snapshots {kept} became {mine}")
        tables = _tables(source, theirs)
        for snapshot_id, *_ in kept:
            for schema, name, begin, end, is_table in tables:
                if begin <= snapshot_id and (end is None or snapshot_id < end):
                    query = f'FROM lake."{schema}"."{name}" AT (VERSION => {snapshot_id})'
                    (a, _), (b, row_ids) = _answer(theirs, query), _answer(ours, query, with_row_ids=is_table)
                    if a != b:
                        found.append(f"{schema}.{name} at {snapshot_id}: {a} became {b}"[:2000])
                    if len(set(row_ids)) < len(row_ids):
                        found.append(f"{schema}.{name} at {snapshot_id}: row ids repeat")
    return found


def _tables(source: StockLake, connection: duckdb.DuckDBPyConnection) -> list[tuple[str, str, int, int | None, bool]]:
    metadata = f"__ducklake_metadata_lake.{source.schema}"
    return connection.execute(
        f"""SELECT schema_name, table_name, greatest(t.begin_snapshot, s.begin_snapshot), t.end_snapshot, true
            FROM {metadata}.ducklake_table t JOIN {metadata}.ducklake_schema s USING (schema_id)
            UNION ALL
            SELECT schema_name, view_name, v.begin_snapshot, v.end_snapshot, false
            FROM {metadata}.ducklake_view v JOIN {metadata}.ducklake_schema s USING (schema_id)"""
    ).fetchall()


def _answer(
    connection: duckdb.DuckDBPyConnection, query: str, *, with_row_ids: bool = False
) -> tuple[tuple[Any, ...], list[int]]:
    """(columns and sorted rows, row ids) of a table or view; what the client says when it cannot."""
    try:
        answer = connection.execute(f"SELECT {'rowid, ' if with_row_ids else ''}* {query}")
        columns, rows = [column[:2] for column in answer.description or []], answer.fetchall()
    except duckdb.Error as error:
        return ("error", str(error).splitlines()[0]), []
    if not with_row_ids:
        return (columns, repr(sorted(rows, key=repr))), []
    return (columns[1:], repr(sorted((row[1:] for row in rows), key=repr))), [row[0] for row in rows]
