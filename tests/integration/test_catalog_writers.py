"""Parquet files as pandas, Polars, DuckDB and pyarrow write them: taken when their columns fit, and read by DuckDB."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commitlog.catalog.guard import mark_projector
from commitlog.catalog.migrations import create_catalog
from commitlog.catalog.projecting.snapshots import Projection
from commitlog.client.reading.duckdb_client import open_lake
from commitlog.errors import DataFileError
from commitlog.testing import InMemoryCommitLog

COLUMNS = {
    "id": "int64",
    "name": "varchar",
    "x": "float64",
    "ok": "boolean",
    "day": "date",
    "at": "timestamp",
    "price": "decimal(9,2)",
}
ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "name": "a",
        "x": 1.5,
        "ok": True,
        "day": date(2024, 1, 31),
        "at": datetime(2024, 1, 31, 12, 30),
        "price": Decimal("9.99"),
    },
    {"id": 2, "name": None, "x": math.nan, "ok": None, "day": None, "at": None, "price": None},
]
SCHEMA = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("x", pa.float64()), ("ok", pa.bool_()), ("day", pa.date32()),
     ("at", pa.timestamp("us")), ("price", pa.decimal128(9, 2))]
)  # fmt: skip


def by_pyarrow(rows: pa.Table, path: Path) -> None:
    pq.write_table(rows, path)


def by_pandas(rows: pa.Table, path: Path) -> None:
    rows.to_pandas(types_mapper=pd.ArrowDtype).to_parquet(path)


def by_polars(rows: pa.Table, path: Path) -> None:
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    frame.write_parquet(path)


def by_duckdb(rows: pa.Table, path: Path) -> None:
    connection = duckdb.connect()
    connection.register("rows", rows)
    connection.execute(f"COPY rows TO '{path}' (FORMAT parquet)")


WRITERS = [by_pyarrow, by_pandas, by_polars, by_duckdb]


def test_files_of_every_writer_then_the_stock_client_reads_their_rows(database_url: str, tmp_path: Path) -> None:
    log = InMemoryCommitLog()
    with log.transaction() as tx:
        tx.create_table("main.t", COLUMNS, properties={"foreign_paths": "true"})
    for writer in WRITERS:
        path = tmp_path / f"{writer.__name__}.parquet"
        # Their columns stand in another order than the table's, so only names can tell them apart.
        writer(pa.Table.from_pylist(ROWS, SCHEMA).select(list(reversed(SCHEMA.names))), path)
        with log.transaction() as tx:
            tx.append("main.t", [path])
    outcomes = list(log.subscribe(follow=False))
    with psycopg.connect(database_url) as conn:
        mark_projector(conn)
        create_catalog(conn, log_id=bytes(16), data_path=f"{tmp_path}/", created_at=datetime(2024, 1, 1, tzinfo=UTC))
        Projection(conn, log_id=bytes(16)).project(outcomes)
    with open_lake(database_url) as lake:
        found = lake.execute("SELECT * FROM t ORDER BY id").fetchall()
        assert lake.execute("SELECT count(*) FROM t WHERE isnan(x)").fetchone() == (len(WRITERS),)
        assert lake.execute("SELECT count(*) FROM t WHERE name = 'a' AND price > 9").fetchone() == (len(WRITERS),)
    assert [row[:2] for row in found] == [(1, "a")] * len(WRITERS) + [(2, None)] * len(WRITERS)
    assert all(row == tuple(ROWS[0].values()) for row in found[: len(WRITERS)])
    assert all(math.isnan(row[2]) and row[3:] == (None,) * 4 for row in found[len(WRITERS) :])


@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_whose_column_does_not_fit_then_refused_by_its_name(
    tmp_path: Path, writer: Callable[[pa.Table, Path], None]
) -> None:
    log = InMemoryCommitLog()
    with log.transaction() as tx:
        tx.create_table("main.t", {"id": "int64", "name": "varchar"})
    writer(pa.table({"id": ["one"], "name": ["a"]}), tmp_path / "f.parquet")
    with pytest.raises(DataFileError, match="id"), log.transaction() as tx:
        tx.append("main.t", [tmp_path / "f.parquet"])
