"""Tables, files and refusals, for the tests of every log."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commitlog.client import CommitLog, Transaction
from commitlog.errors import (
    ProposalRejectedError,
)

ROWS = pa.table({"id": [1, 2, 3], "day": ["a", "b", "c"]})
ANYWHERE = {"foreign_paths": "true"}
KEYED = {"id": "int64", "v": "varchar"}


def parquet(directory: Path, rows: pa.Table = ROWS) -> str:
    path = directory / f"{uuid.uuid4().hex}.parquet"
    pq.write_table(rows, path)
    return str(path)


def create(log: CommitLog, table: str, **options: object) -> None:
    with log.transaction() as tx:
        properties = {**ANYWHERE, **options.pop("properties", {})}  # type: ignore[dict-item]
        tx.create_table(table, ROWS.schema, properties=properties, **options)  # type: ignore[arg-type]


def append(log: CommitLog, table: str, directory: Path, rows: pa.Table = ROWS) -> int:
    """Append a file and return its data file id."""
    with log.transaction() as tx:
        tx.append(table, [parquet(directory, rows)])
    return tx.outcome.assigned.data_file_ids[0]


def rejected(transaction: Transaction) -> ProposalRejectedError:
    with pytest.raises(ProposalRejectedError) as raised:
        transaction.commit()
    return raised.value
