"""Logs that an earlier version wrote: they are read as they were, and their proposals are answered with the same bytes.

The file is kept, never made anew: histories in which every kind of change commits and conflicts, with the JSON that each
proposal was made of, its bytes, its outcome's bytes, the receipts and dead letters, and the hash of the state at the end.
"""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from oracle.histories import HANDLERS

from commitlog.domain.model import Genesis, Proposal
from commitlog.domain.model.json_lines import parse_proposal
from commitlog.domain.model.records.proposal_json import proposal_from_json, proposal_to_json
from commitlog.domain.state.dumping import state_hash
from commitlog.domain.state.index import new_state
from commitlog.domain.state.replaying import replay
from commitlog.log.batches import Batch, Decider, Incoming
from commitlog.log.codec import (
    OutcomeRecord,
    decode_heartbeat,
    decode_proposal,
    decode_receipts,
    decode_record,
    encode_genesis,
    encode_heartbeat,
    encode_outcome,
    encode_proposal,
    encode_receipts,
    encode_takeover,
    hash_record,
    with_statistics_expanded,
)
from commitlog.log.topics import topics_of

KEPT: dict[str, Any] = json.loads(gzip.decompress((Path(__file__).parent / "kept_log.json.gz").read_bytes()))
DECIDED_AT_MS, MALFORMED_AT_MS = 1_700_000_000_000, 1_700_000_001_000

each_log = pytest.mark.parametrize("log", KEPT["logs"], ids=lambda log: f"seed {log['seed']}")


def data(text: str) -> bytes:
    return base64.b64decode(text)


@each_log
def test_proposals_when_kept_then_json_and_bytes_are_each_made_of_the_other(log: dict[str, Any]) -> None:
    for kept in log["proposals"]:
        proposal = parse_proposal(kept["line"])
        assert isinstance(proposal, Proposal)
        assert encode_proposal(proposal) == data(kept["proposal"])
        read = decode_proposal(data(kept["proposal"]))
        assert encode_proposal(read) == data(kept["proposal"])
        assert proposal_from_json(proposal_to_json(with_statistics_expanded(read))) == proposal


@each_log
def test_results_when_kept_then_read_written_and_replayed_as_they_were(log: dict[str, Any]) -> None:
    genesis = decode_record(data(log["genesis"]))
    assert isinstance(genesis, Genesis)
    assert encode_genesis(genesis) == data(log["genesis"])
    state = new_state(genesis)
    for value in (*(kept["outcome"] for kept in log["proposals"]), *log["more"]):
        record = decode_record(data(value))
        assert isinstance(record, OutcomeRecord)
        written = encode_outcome(record.outcome, log_id=record.log_id, prev_hash=record.prev_hash, told=record.told)
        assert written == data(value)
        replay(state, record.outcome)
    assert state_hash(state).hex() == log["state_hash"]


@each_log
def test_proposals_when_decided_again_then_every_byte_is_as_it_was(log: dict[str, Any]) -> None:
    genesis = decode_record(data(log["genesis"]))
    assert isinstance(genesis, Genesis)
    decider = Decider(
        new_state(genesis),
        prev_hash=hash_record(data(log["genesis"])),
        epoch=1,
        topics=topics_of("kept"),
        handlers=HANDLERS,
        undecidable={},
    )
    batch = Batch()
    proposals = log["proposals"]
    for number, kept in enumerate(proposals):
        message = Incoming(0, number, b"", data(kept["proposal"]))
        decider.decide_all([message], batch, now_ms=DECIDED_AT_MS + number, told=max(0, number - 3))
    last = len(proposals)
    more = [Incoming(0, last, b"k", b"no proposal"), Incoming(0, last + 1, None, data(log["last"]))]
    decider.decide_all(more, batch, now_ms=MALFORMED_AT_MS, told=5)
    assert batch.outcomes == [data(value) for value in (*(kept["outcome"] for kept in proposals), *log["more"])]
    letters = decider.letters(batch.receipts, batch.dead_letters)
    assert [value for letter in letters for value in letter.values] == [data(value) for value in log["receipts"]]


@each_log
def test_receipts_when_kept_then_read_and_written_as_they_were(log: dict[str, Any]) -> None:
    value = data(log["receipts"][0])
    read = decode_receipts(value)
    assert encode_receipts(read.receipts, log_id=read.log_id, partition=read.partition) == value


def test_heartbeat_and_takeover_when_kept_then_read_and_written_as_they_were() -> None:
    assert encode_heartbeat(decode_heartbeat(data(KEPT["heartbeat"]))) == data(KEPT["heartbeat"])
    takeover = decode_record(data(KEPT["takeover"]))
    assert encode_takeover(takeover) == data(KEPT["takeover"])  # type: ignore[arg-type]
