"""Which run of a streaming query may commit: the one that was started last on its checkpoint.

Each run opens the query's writer once, under an id that ends with one made of the run's own. By it every process of the run
finds its epoch in the log: Spark makes a stream writer anew for each batch, and ends Python workers that were idle for a
minute.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256

from commitlog.client import CommitLog
from commitlog.client.ids import id_at
from commitlog.spark.connection import catalog_of
from commitlog.spark.writing.key import Key


def stream_key(log: CommitLog, query_id: str, run_id: str, table_id: int, batch_id: int) -> Key:
    """The key of one batch, with the epoch of its run: once a later run was given one, this run is refused."""
    return fenced(log, replace(Key.of_stream(query_id, table_id, batch_id), run_id=run_id))


def fenced(log: CommitLog, key: Key) -> Key:
    """The key with the epoch of its run, if it is one of a streaming query."""
    return key if key.run_id is None else replace(key, epoch=_epoch_of_run(log, key.writer_id, key.run_id))


@lru_cache(maxsize=256)
def _epoch_of_run(log: CommitLog, writer_id: str, run_id: str) -> int:
    noise = int.from_bytes(sha256(f"{writer_id} {run_id}".encode()).digest()[:8], "big")
    opening = id_at(time.time_ns() // 1_000_000, 0, noise)
    # From here on the catalog has every opening before this one.
    log.wait_for_snapshot()
    known = catalog_of(log).proposal_ending(writer_id, opening[8:])
    if known is not None:
        found = log.outcome(known).outcome
        epoch = None if found is None else found.assigned.writer_epoch
        return log.open_writer(writer_id) if epoch is None else epoch
    return log.open_writer(writer_id, proposal_id=opening)
