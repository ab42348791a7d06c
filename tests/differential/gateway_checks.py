"""What `commitlog doctor` and `commitlog verify` would find in a lake whose log is in memory."""

from __future__ import annotations

from collections.abc import Iterator

from deciding import START_MS
from sides import Ours

from commitlog.catalog.checks import ALWAYS, WITH_STATE, CheckedCatalog, LogSide
from commitlog.log.chain_walk import ChainWalk, Witness
from commitlog.log.codec import encode_genesis, encode_outcome, hash_record
from commitlog.ops.maintenance.doctor import examine_storage

_OF_A_FOLDER = "data path"
"""Nobody has marked a folder in tests as a log's own."""


def faults(ours: Ours) -> Iterator[str]:
    """What is not as it should be in the chain, between the log, the catalog and the files, and in what a replay gives."""
    ours.log.check_replay()
    records = _records(ours)
    seq, digest = len(records) - 1, hash_record(records[-1])
    walk = ChainWalk([Witness("the catalog", seq, digest)], told_seq=seq)
    for offset, record in enumerate(records):
        walk.take(record, offset)
    yield from (str(each) for each in walk.end())
    log_id = ours.log.genesis.log_id
    with ours.conn.transaction():
        log = LogSide(log_id, digest, ours.log.state, seq)
        catalog = CheckedCatalog(ours.conn, log, log_id, seq, digest, START_MS)
        for name, check in {**ALWAYS, **WITH_STATE}.items():
            yield from (f"{name}: {found.what}" for found in check(catalog) if not found.is_note)
        for result in examine_storage(ours.conn, log_id=log_id, log="ours"):
            if not result.is_well and result.check != _OF_A_FOLDER:
                yield f"{result.check}: {result.findings} {result.not_checked or ''}"


def _records(ours: Ours) -> list[bytes]:
    """The results topic that the log would have."""
    log_id = ours.log.genesis.log_id
    records = [encode_genesis(ours.log.genesis)]
    for outcome in ours.log.outcomes:
        records.append(encode_outcome(outcome, log_id=log_id, prev_hash=hash_record(records[-1]), told=0))
    return records
