"""A log in memory that has something to look at, with names that would do harm where they are not escaped."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from commitlog.errors import ProposalRejectedError
from commitlog.testing import InMemoryCommitLog

HOSTILE = "<script>alert(1)</script>\"'&\u202e"
HOSTILE_TABLE = "<img src=x onerror=alert(1)>"


def flights(day: int, count: int = 6) -> pa.Table:
    numbers = range(count)
    return pa.table(
        {
            "id": [day * 1000 + n for n in numbers],
            "day": [f"2026-03-{day:02d}" for _ in numbers],
            "dest": [("LAX", "SFO", "BOS")[n % 3] for n in numbers],
        }
    )


def busy_log(lake: Path) -> InMemoryCommitLog:
    """Loads, a delete, a compaction that it refuses, an altered table, a repeat, and a writer and a table to fear."""
    log = InMemoryCommitLog(data_path=lake, writer_id="nightly-load")
    with log.transaction(message="a table for flights", author="Ann") as tx:
        tx.create_table("main.flights", flights(1).schema)
    for day in range(1, 5):
        log.append("main.flights", flights(day), writer_id=f"load-{day % 2}", message=f"flights of March {day}")
    first = log.table("main.flights").files()[0]
    late = log.transaction(writer_id="compactor", isolation="serializable", message="compact March")
    late.read("main.flights")
    late.delete("main.flights", positions={first.data_file_id: [0]})
    stale = log.transaction(writer_id="reporting")
    stale.delete("main.flights", positions={first.data_file_id: [1, 2]})
    log.append("main.flights", flights(5), writer_id="load-1", message="flights of March 5")
    with log.transaction(writer_id="gdpr-erasure", message="one passenger less") as tx:
        tx.delete("main.flights", positions={first.data_file_id: [3]})
    for refused in (late, stale):
        with pytest.raises(ProposalRejectedError):
            refused.commit()
    with log.transaction(writer_id="schema-owner") as tx:
        tx.alter("main.flights").add_column("delay_min", "int32")
    with log.transaction(writer_id=HOSTILE, message=HOSTILE, author=HOSTILE) as tx:
        tx.create_table(f'main."{HOSTILE_TABLE}"', {"<b>id</b>": "int64"})
    with pytest.raises(ProposalRejectedError), log.transaction(writer_id=HOSTILE) as tx:
        tx.create_table(f'main."{HOSTILE_TABLE}"', {"id": "int64"})
    return log
