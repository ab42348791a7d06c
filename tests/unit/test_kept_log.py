"""Logs that earlier versions wrote: they are read as they were, and their proposals are answered with the same bytes.

Of the first version of outcomes and receipts, which had no codes of INVALID, of the second one of outcomes, which held no row
back, and of the first version of proposals, which no link brought, with the same values. The files are kept, never made anew:
histories in which every kind of change commits and conflicts, with the JSON that each proposal was made of, its bytes, its
outcome's bytes, the receipts and dead letters, and the hash of the state at the end.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from oracle.histories import HANDLERS

from commitlog.domain.model import Genesis, Outcome, Proposal, Reason, Receipt
from commitlog.domain.model.json_lines import parse_proposal
from commitlog.domain.model.records.proposal_json import proposal_from_json, proposal_to_json
from commitlog.domain.state.dumping import state_hash
from commitlog.domain.state.index import new_state
from commitlog.domain.state.replaying import replay
from commitlog.log.batches import Batch, Decider, Incoming
from commitlog.log.codec import (
    OutcomeRecord,
    decode_head,
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


def kept(name: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(gzip.decompress((Path(__file__).parent / name).read_bytes()))
    return value


FIRST, SECOND, THIRD, NEWEST = (kept(f"kept_log.{version}.json.gz") for version in (1, 2, 3, 4))
ALL = (FIRST, SECOND, THIRD, NEWEST)
DECIDED_AT_MS, MALFORMED_AT_MS = 1_700_000_000_000, 1_700_000_001_000


def each_of(*versions: dict[str, Any]) -> pytest.MarkDecorator:
    logs = [(log, f"{ALL.index(each) + 1} {log['seed']}") for each in versions for log in each["logs"]]
    return pytest.mark.parametrize("log", [log for log, _ in logs], ids=[name for _, name in logs])


each_first = each_of(FIRST)
each_with_codes = each_of(SECOND, THIRD, NEWEST)
each_earlier = each_of(FIRST, SECOND, THIRD)
each_without_held_rows = each_of(SECOND, THIRD)
each_without_links = each_of(FIRST, SECOND)
each_with_links = each_of(THIRD, NEWEST)
each_newest = each_of(NEWEST)
every_log = each_of(*ALL)


def data(text: str) -> bytes:
    return base64.b64decode(text)


def outcomes_of(log: dict[str, Any]) -> list[bytes]:
    return [data(value) for value in (*(kept["outcome"] for kept in log["proposals"]), *log["more"])]


def outcome_in(value: bytes) -> OutcomeRecord:
    record = decode_record(value)
    assert isinstance(record, OutcomeRecord)
    return record


def written_again(record: OutcomeRecord) -> bytes:
    return encode_outcome(record.outcome, log_id=record.log_id, prev_hash=record.prev_hash, told=record.told)


def without_code(outcome: Outcome | Receipt) -> Outcome | Receipt:
    return outcome.replace(invalid_code=None)


def decided_again(log: dict[str, Any]) -> tuple[list[bytes], list[bytes]]:
    """The outcomes, receipts and dead letters that the log's proposals get now."""
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
    for number, kept in enumerate(log["proposals"]):
        message = Incoming(0, number, b"", data(kept["proposal"]))
        decider.decide_all([message], batch, now_ms=DECIDED_AT_MS + number, told=max(0, number - 3))
    last = len(log["proposals"])
    more = [Incoming(0, last, b"k", b"no proposal"), Incoming(0, last + 1, None, data(log["last"]))]
    decider.decide_all(more, batch, now_ms=MALFORMED_AT_MS, told=5)
    letters = decider.letters(batch.receipts, batch.dead_letters)
    return batch.outcomes, [value for letter in letters for value in letter.values]


def check_kept_proposals(log: dict[str, Any], written: Callable[[bytes], bytes]) -> None:
    """JSON and bytes of each proposal are made of the other; the bytes as they are written now."""
    for kept in log["proposals"]:
        proposal = parse_proposal(kept["line"])
        assert isinstance(proposal, Proposal)
        assert encode_proposal(proposal) == written(data(kept["proposal"]))
        read = decode_proposal(data(kept["proposal"]))
        assert encode_proposal(read) == written(data(kept["proposal"]))
        assert proposal_from_json(proposal_to_json(with_statistics_expanded(read))) == proposal


@each_with_links
def test_proposals_when_kept_then_json_and_bytes_are_each_made_of_the_other(log: dict[str, Any]) -> None:
    check_kept_proposals(log, lambda kept: kept)


@each_without_links
def test_proposals_when_of_the_first_version_then_written_as_such_that_no_link_brought(log: dict[str, Any]) -> None:
    header = data(NEWEST["logs"][0]["proposals"][0]["proposal"])[:10]
    check_kept_proposals(log, lambda kept: header + kept[10:] + b"\0")


@every_log
def test_results_when_kept_then_replayed_as_they_were(log: dict[str, Any]) -> None:
    genesis = decode_record(data(log["genesis"]))
    assert isinstance(genesis, Genesis)
    assert encode_genesis(genesis) == data(log["genesis"])
    state = new_state(genesis)
    for value in outcomes_of(log):
        replay(state, outcome_in(value).outcome)
    assert state_hash(state).hex() == log["state_hash"]


@each_newest
def test_results_when_kept_then_read_and_written_as_they_were(log: dict[str, Any]) -> None:
    assert [written_again(outcome_in(value)) for value in outcomes_of(log)] == outcomes_of(log)


@each_earlier
def test_results_when_of_an_earlier_version_then_written_as_the_newest_with_the_same_values(
    log: dict[str, Any],
) -> None:
    for value in outcomes_of(log):
        read = outcome_in(value)
        assert decode_head(value) == decode_head(written_again(read))
        assert written_again(read)[:10] != value[:10]
        assert outcome_in(written_again(read)) == read


@each_first
def test_results_when_of_the_first_version_then_without_codes(log: dict[str, Any]) -> None:
    assert all(outcome_in(value).outcome.invalid_code is None for value in outcomes_of(log))


@each_without_held_rows
def test_proposals_when_decided_again_then_only_the_form_of_outcomes_is_new(log: dict[str, Any]) -> None:
    outcomes, told = decided_again(log)
    assert [outcome_in(value).outcome for value in outcomes] == [
        outcome_in(value).outcome for value in outcomes_of(log)
    ]
    assert told == [data(value) for value in log["receipts"]]


@each_newest
def test_proposals_when_decided_again_then_every_byte_is_as_it_was(log: dict[str, Any]) -> None:
    outcomes, told = decided_again(log)
    assert outcomes == outcomes_of(log)
    assert told == [data(value) for value in log["receipts"]]


@each_first
def test_proposals_when_decided_again_then_only_a_code_is_new(log: dict[str, Any]) -> None:
    outcomes, told = decided_again(log)
    first = [outcome_in(value).outcome for value in outcomes_of(log)]
    again = [outcome_in(value).outcome for value in outcomes]
    assert [without_code(each) for each in again] == first
    assert [each.invalid_code is not None for each in again] == [each.reason is Reason.INVALID for each in first]
    receipts = decode_receipts(told[0]).receipts
    assert [without_code(each) for each in receipts] == list(decode_receipts(data(log["receipts"][0])).receipts)
    assert [each.invalid_code for each in receipts] == [each.invalid_code for each in again]
    assert told[1:] == [data(value) for value in log["receipts"][1:]]


@each_with_codes
def test_receipts_when_kept_then_read_and_written_as_they_were(log: dict[str, Any]) -> None:
    value = data(log["receipts"][0])
    read = decode_receipts(value)
    assert encode_receipts(read.receipts, log_id=read.log_id, partition=read.partition) == value


@pytest.mark.parametrize("kept", ALL, ids=["1", "2", "3", "4"])
def test_heartbeat_and_takeover_when_kept_then_read_and_written_as_they_were(kept: dict[str, Any]) -> None:
    assert encode_heartbeat(decode_heartbeat(data(kept["heartbeat"]))) == data(kept["heartbeat"])
    takeover = decode_record(data(kept["takeover"]))
    assert encode_takeover(takeover) == data(kept["takeover"])  # type: ignore[arg-type]
