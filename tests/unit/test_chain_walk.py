"""The walk through the whole chain: every byte that was changed is found, and its place named."""

from __future__ import annotations

import random

import pytest
from chains import Written, outcome

from commitlog.log.chain import Chain
from commitlog.log.chain_walk import ChainWalk, Witness


def a_log() -> list[bytes]:
    """A genesis, three epochs, a zombie's record, one that was sent twice, one after a loss, and a stranger's."""
    log = Written()
    log.take_over()
    log.decide(3)
    log.records.append(log.records[-2])
    log.take_over(b"J")
    log.records.append(outcome(4, log.hash, epoch=1))
    log.decide(2)
    log.records += [b"a stranger's", outcome(7, log.hash, epoch=2)]
    log.take_over(b"K")
    log.decide(4)
    return log.records


def counting(records: list[bytes]) -> set[int]:
    """The offsets of those that count."""
    chain = Chain()
    return {offset for offset, raw in enumerate(records) if not isinstance(chain.take(raw, offset), str)}


def walk(records: list[bytes], *witnesses: Witness, told_seq: int = 0) -> ChainWalk:
    walked = ChainWalk(witnesses, told_seq=told_seq)
    for offset, raw in enumerate(records):
        walked.take(raw, offset)
    walked.end()
    return walked


def noted(records: list[bytes]) -> Witness:
    position = walk(records).position
    assert position is not None
    return Witness("I", position.seq, position.hash)


def test_walk_when_nothing_was_changed_then_nothing_is_found() -> None:
    records = a_log()
    walked = walk(records, noted(records), told_seq=9)
    assert walked.breaks == []
    assert walked.records == len(records)
    assert walked.position is not None
    assert walked.position.seq == 9


def test_walk_when_any_byte_of_what_counts_was_changed_then_its_place_is_named() -> None:
    records, chance = a_log(), random.Random(9)
    head, tried = noted(records), 0
    for offset in sorted(counting(records)):
        for place in range(len(records[offset])):
            changed = bytearray(records[offset])
            changed[place] ^= 1 << chance.randrange(8)
            found = walk([*records[:offset], bytes(changed), *records[offset + 1 :]], head).breaks
            assert any(each.first_offset <= offset <= each.last_offset for each in found), (offset, place, found)
            tried += 1
    assert tried > 800


def test_walk_when_two_records_were_changed_then_both_are_named() -> None:
    records = a_log()
    for offset in (2, 12):  # 12 is a takeover; the outcome before it is at 9.
        records[offset] = records[offset][:-1] + bytes([records[offset][-1] ^ 1])
    assert [(each.first_offset, each.last_offset) for each in walk(records).breaks] == [(2, 3), (9, 13)]


@pytest.mark.parametrize("gone", [1, 2])
def test_walk_when_the_end_was_cut_off_then_a_witness_or_what_was_told_shows_it(gone: int) -> None:
    records = a_log()
    cut = records[:-gone]
    assert walk(cut).breaks == []
    assert "the chain ends with outcome" in walk(cut, noted(records)).breaks[0].what
    assert "who was told of it knows outcome 9" in walk(cut, told_seq=9).breaks[0].what


def test_walk_when_the_log_was_written_again_from_some_place_on_then_a_witness_shows_it() -> None:
    records, forged = a_log(), Written()
    forged.take_over()
    forged.decide(10)
    assert walk(forged.records).breaks == []
    [found] = walk(forged.records, noted(records)).breaks
    assert found.first_offset == found.last_offset == 10
    assert "I knows it with" in found.what


def test_walk_when_a_record_that_counts_has_a_key_or_headers_then_it_is_named() -> None:
    walked = ChainWalk()
    for offset, raw in enumerate(a_log()):
        walked.take(raw, offset, has_more=offset in (3, 10))
    assert [(each.first_offset, each.last_offset) for each in walked.end()] == [(3, 3)], "a stranger's may have any"
