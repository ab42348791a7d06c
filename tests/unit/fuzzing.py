"""Bytes that nobody meant: records of a log, changed as an attacker or a broken disk would change them."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from random_records import CHANGES, HASH, LOG_ID, OUTCOMES, RECEIPTS, STATISTICS, proposals, tuples

from commitlog.domain import model as m
from commitlog.log import codec

LONGS = [b"\x00", b"\x01", b"\x7f", b"\xff" * 9 + b"\x01", b"\xfe" + b"\xff" * 8 + b"\x01", b"\xff\xff\xff\xff\x0f"]
"""As Avro writes 0, -1, -64, the lowest and the highest of 64 bits, and the lowest of 32."""
DECODERS: Mapping[str, Callable[[bytes], Any]] = {
    "record": codec.decode_record,
    "head": codec.decode_head,
    "proposal": codec.decode_proposal,
    "receipts": codec.decode_receipts,
    "dead letter": codec.decode_dead_letter,
    "heartbeat": codec.decode_heartbeat,
    "statistics": codec.decode_statistics,
    "ids": codec.readable_ids,
}


def some_records(count: int, seed: int) -> list[bytes]:
    """Bytes of well-formed records of every kind."""
    made: list[bytes] = []
    kinds: list[st.SearchStrategy[bytes]] = [
        *(
            proposals(st.lists(CHANGES[kind], min_size=1, max_size=2).map(tuple)).map(codec.encode_proposal)
            for kind in CHANGES
        ),
        OUTCOMES.map(lambda outcome: codec.encode_outcome(outcome, log_id=LOG_ID, prev_hash=HASH)),
        st.lists(RECEIPTS, max_size=3).map(lambda some: codec.encode_receipts(some, log_id=LOG_ID, partition=1)),
        tuples(STATISTICS).map(codec.encode_statistics),
    ]
    for number, kind in enumerate(kinds):
        made += _examples(kind, -(-count // len(kinds)), seed + number)
    made.append(codec.encode_genesis(m.Genesis(LOG_ID, 4, 5)))
    made.append(codec.encode_takeover(codec.Takeover(LOG_ID, 7, b"I" * 16, 5)))
    made.append(codec.encode_heartbeat(codec.Heartbeat(LOG_ID, 3, b"S" * 16, 8, 9)))
    made.append(codec.encode_dead_letter(codec.DeadLetter(LOG_ID, 7, "x.proposals", 2, 9, "no", 5, b"w", 2, b"\x00")))
    return made


def _examples(kind: st.SearchStrategy[bytes], count: int, seed: int) -> list[bytes]:
    found: list[bytes] = []

    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(kind)
    def collect(each: bytes) -> None:
        found.append(each)

    collect.hypothesis.inner_test._hypothesis_internal_use_seed = seed  # type: ignore[attr-defined]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collect()
    return found


def mutations(records: list[bytes], chance: random.Random) -> Iterator[bytes]:
    """Endlessly: one of the records, changed in one to four places."""
    while True:
        data = bytearray(chance.choice(records))
        for _ in range(chance.randint(1, 4)):
            _mutate(data, records, chance)
        yield bytes(data)


def _mutate(data: bytearray, records: list[bytes], chance: random.Random) -> None:
    # The head says what kind of record it is: mostly it stays, so that what comes behind it is reached.
    first = 10 if len(data) > 12 and chance.random() < 0.95 else 0
    at = chance.randint(min(first, len(data)), len(data))
    match chance.randrange(6):
        case 0 if at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        case 1 if at < len(data):
            data[at] = chance.choice((0, 1, 2, 0x0A, 0x0C, 0x7F, 0x80, 0xFF))
        case 2:
            data[at : at + chance.choice((0, 1, 8))] = chance.choice(LONGS)
        case 3:
            del data[at : at + chance.randint(1, 8)]
        case 4:
            data[at:at] = chance.randbytes(chance.randint(1, 8))
        case _:
            other = chance.choice(records)
            begin = chance.randint(0, len(other))
            data[at:] = other[begin:]
