"""A log that was written once: it is read as it was, and its proposals are answered with the same bytes."""

from __future__ import annotations

import pytest
from kept_log import Kept, data, decided_again, genesis_of, hash_after, kept

from commitlog.domain.model import Proposal
from commitlog.domain.model.json_lines import parse_proposal
from commitlog.domain.model.records.proposal_json import proposal_from_json, proposal_to_json
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
    with_statistics_expanded,
)

KEPT = kept()
every_log = pytest.mark.parametrize("log", KEPT["logs"], ids=[str(log["seed"]) for log in KEPT["logs"]])


def outcomes_of(log: Kept) -> list[bytes]:
    return [data(value) for value in (*(each["outcome"] for each in log["proposals"]), *log["more"])]


def written_again(value: bytes) -> bytes:
    record = decode_record(value)
    assert isinstance(record, OutcomeRecord)
    return encode_outcome(record.outcome, log_id=record.log_id, prev_hash=record.prev_hash, told=record.told)


@every_log
def test_proposals_when_kept_then_json_and_bytes_are_each_made_of_the_other(log: Kept) -> None:
    for each in log["proposals"]:
        proposal, value = parse_proposal(each["line"]), data(each["proposal"])
        assert isinstance(proposal, Proposal)
        assert encode_proposal(proposal) == value
        read = decode_proposal(value)
        assert encode_proposal(read) == value
        assert proposal_from_json(proposal_to_json(with_statistics_expanded(read))) == proposal


@every_log
def test_results_when_kept_then_replayed_as_they_were(log: Kept) -> None:
    assert encode_genesis(genesis_of(log)) == data(log["genesis"])
    assert hash_after(genesis_of(log), outcomes_of(log)) == log["state_hash"]


@every_log
def test_results_when_kept_then_read_and_written_as_they_were(log: Kept) -> None:
    assert [written_again(value) for value in outcomes_of(log)] == outcomes_of(log)


@every_log
def test_proposals_when_decided_again_then_every_byte_is_as_it_was(log: Kept) -> None:
    outcomes, told = decided_again(log)
    assert outcomes == outcomes_of(log)
    assert told == [data(value) for value in log["receipts"]]


@every_log
def test_receipts_when_kept_then_read_and_written_as_they_were(log: Kept) -> None:
    value = data(log["receipts"][0])
    read = decode_receipts(value)
    assert encode_receipts(read.receipts, log_id=read.log_id, partition=read.partition) == value


def test_heartbeat_and_takeover_when_kept_then_read_and_written_as_they_were() -> None:
    assert encode_heartbeat(decode_heartbeat(data(KEPT["heartbeat"]))) == data(KEPT["heartbeat"])
    takeover = decode_record(data(KEPT["takeover"]))
    assert encode_takeover(takeover) == data(KEPT["takeover"])  # type: ignore[arg-type]
