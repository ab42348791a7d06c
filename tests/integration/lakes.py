"""A lake for tests: changes decided by the core, projected into a real PostgreSQL, read by the stock DuckDB client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from deciding import DecidedLog, change

from commitlog.catalog.guard import mark_projector
from commitlog.catalog.migrations import create_catalog
from commitlog.catalog.projecting.snapshots import Projection
from commitlog.client.reading.duckdb_client import open_lake

TYPES = {"id": pa.int64(), "v": pa.string()}
ROW_ID = "_ducklake_internal_row_id"


def some(*ids: int) -> list[dict[str, object]]:
    """Rows of TYPES."""
    return [{"id": i, "v": f"v{i}"} for i in ids]


def _anywhere(request: dict[str, Any]) -> dict[str, Any]:
    if request["kind"] != "CREATE_TABLE":
        return request
    return {**request, "properties": {"foreign_paths": "true", **request.get("properties", {})}}


class Lake:
    """A log, its catalog and its files."""

    def __init__(self, database_url: str, folder: Path, **settings: Any) -> None:
        self.log = DecidedLog(**settings)
        self.database_url = database_url
        self.folder = folder
        self.files = 0
        self.conn = psycopg.connect(database_url)
        mark_projector(self.conn)
        with self.conn.transaction():
            create_catalog(
                self.conn,
                log_id=self.log.genesis.log_id,
                data_path=str(folder) + "/",
                created_at=datetime(2024, 1, 1, tzinfo=UTC),
            )
        self.projection = Projection(self.conn, log_id=self.log.genesis.log_id)
        self.projected = 0

    def commit(self, *changes: dict[str, Any], **fields: Any) -> int:
        """Commit and project; return the snapshot id. Files of its tables may lie anywhere."""
        snapshot_id = self.log.commit(*[_anywhere(each) for each in changes], **fields)
        self.project()
        return snapshot_id

    def project(self) -> None:
        """Project what was decided since the last time, in one SQL transaction."""
        with self.conn.transaction():
            self.projection.project(self.log.outcomes[self.projected :])
        self.projected = len(self.log.outcomes)

    def write(
        self, table: str, rows: list[dict[str, Any]], types: dict[str, pa.DataType], **more: Any
    ) -> dict[str, Any]:
        """Write a Parquet file with the table's field ids; return the data file of an APPEND."""
        definition = next(
            t.definition for t in self.log.state.tables.values() if t.name == table and t.dropped_at is None
        )
        ids = {column.name: column.column_id for column in definition.columns}
        fields = [
            pa.field(n, t, metadata={"PARQUET:field_id": str(ids[n])} if n in ids else more["ids"][n])
            for n, t in types.items()
        ]
        self.files += 1
        path = self.folder / f"f{self.files}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = {n: pa.array([row.get(n) for row in rows], t) for n, t in types.items()}
        pq.write_table(pa.table(columns, schema=pa.schema(fields)), path)
        statistics = []
        for name in types:
            if name not in ids or pa.types.is_nested(types[name]):
                continue
            values = [row[name] for row in rows if row.get(name) is not None]
            low, high = (min(values), max(values)) if values else (None, None)
            statistics.append(
                {"column": name, "min": low, "max": high, "null_count": len(rows) - len(values), "contains_nan": False}
            )
        raw = path.read_bytes()
        return {
            "path": str(path),
            "path_is_relative": False,
            "record_count": len(rows),
            "file_size_bytes": len(raw),
            "footer_size": int.from_bytes(raw[-8:-4], "little"),
            "statistics": json.loads(json.dumps(statistics, default=str)),
        }

    def append(self, table: str, rows: list[dict[str, Any]], types: dict[str, pa.DataType]) -> int:
        """Write a file and commit its append."""
        return self.commit(change("APPEND", table, files=[self.write(table, rows, types)]))

    def delete_file(self, data_file: str, rows: list[int]) -> str:
        """Write a delete file; return its path."""
        self.files += 1
        path = self.folder / f"d{self.files}.parquet"
        fields = [
            pa.field("file_path", pa.string(), metadata={"PARQUET:field_id": "2147483546"}),
            pa.field("pos", pa.int64(), metadata={"PARQUET:field_id": "2147483545"}),
        ]
        pq.write_table(pa.table({"file_path": [data_file] * len(rows), "pos": rows}, schema=pa.schema(fields)), path)
        return str(path)

    @contextmanager
    def reader(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """The stock client."""
        with open_lake(self.database_url) as connection:
            yield connection

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What the stock client answers, sorted."""
        with self.reader() as connection:
            return sorted(connection.execute(query).fetchall(), key=repr)

    def reconnect(self, database_url: str) -> None:
        """Project as another user from now on."""
        self.conn = psycopg.connect(database_url)
        mark_projector(self.conn)
        self.projection = Projection(self.conn, log_id=self.log.genesis.log_id)

    def close(self) -> None:
        """Close, after checking that the core replays to the same state."""
        self.conn.close()
        self.log.check_replay()
