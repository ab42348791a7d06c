"""Makes results-fixture.json: results topics with all that may lie in one, and what every reader must make of them.

    python docs/results_fixture.py            writes it beside this file

`reading-results.md` has the rule. A test compares the file with what this makes, with `Chain`, and with a second reader.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from commitlog.domain import model as m
from commitlog.errors import CommitLogError
from commitlog.log.chain import Accepted, Chain, hash_after_takeover
from commitlog.log.codec import (
    Heartbeat,
    OutcomeHead,
    Takeover,
    encode_genesis,
    encode_heartbeat,
    encode_outcome,
    encode_takeover,
    hash_record,
)
from commitlog.log.codec.records.headers import HEADERS

FILE = Path(__file__).with_name("results-fixture.json")
LOG_ID, OTHER_LOG_ID = bytes(range(16)), bytes(range(16, 32))
TIME_MS = 1_700_000_000_000
Log = list[tuple[int, bytes | None]]


def genesis(log_id: bytes = LOG_ID, **more: Any) -> bytes:
    return encode_genesis(m.Genesis(log_id, created_at_ms=TIME_MS, **more))


def takeover(epoch: int, instance: int, *, log_id: bytes = LOG_ID) -> bytes:
    return encode_takeover(Takeover(log_id, epoch, bytes([instance]) * 16, TIME_MS))


def outcome(seq: int, epoch: int, prev_hash: bytes, *, told: int = 0, log_id: bytes = LOG_ID, **more: Any) -> bytes:
    refused: dict[str, Any] = {"reason": m.Reason.INVALID, "detail": "an example"} | more
    made = m.Outcome(
        seq, epoch, m.Position(0, seq - 1), TIME_MS, m.Verdict.REJECTED, 0, bytes([seq]) * 16, "etl-7", **refused
    )
    return encode_outcome(made, log_id=log_id, prev_hash=prev_hash, told=told)


def beginning() -> tuple[list[bytes], bytes]:
    """Genesis, a takeover, outcomes 1 and 2; and the hash so far."""
    first = genesis()
    taken = takeover(1, 0xA1)
    one = outcome(1, 1, hash_after_takeover(hash_record(first), taken))
    two = outcome(2, 1, hash_record(one))
    return [first, taken, one, two], hash_record(two)


def everything() -> Log:
    """All that is skipped, between what counts."""
    records: list[bytes | None] = list(beginning()[0])
    so_far = beginning()[1]
    # Of strangers.
    records += [b"hello", None, b"", b"\xc3\x01", genesis(OTHER_LOG_ID), genesis(), genesis(partitions=9)]
    records.append(encode_heartbeat(Heartbeat(LOG_ID, 1, b"s" * 16, 2, TIME_MS)))
    # A resend, and one with another content: the seq alone says that it has been.
    records += [records[3], outcome(2, 1, b"?" * 32, detail="another 2")]
    # An own gap: outcome 3 was lost, 4 and 5 come; then a takeover by the same process, which starts again at 3.
    lost = outcome(3, 1, so_far, detail="never arrives in time")
    fourth = outcome(4, 1, hash_record(lost), detail="after a gap")
    records += [fourth, outcome(5, 1, hash_record(fourth), detail="after a gap")]
    # Two want epoch 2: the first one has won. A takeover that skips an epoch never counts, nor one of the past.
    won = takeover(2, 0xA2)
    # What goes on behind its end, or ends before it, is no takeover.
    records += [takeover(2, 0xD2) + b"more", takeover(2, 0xD2)[:-2]]
    records += [takeover(3, 0xC3), won, takeover(2, 0xB2), takeover(1, 0xA1), won]
    so_far = hash_after_takeover(so_far, won)
    third = outcome(3, 2, so_far, told=2, detail="decided again")
    # What was in flight under epoch 1 arrives: outcome 3 fits the seq, not the epoch.
    records += [lost, third, fourth]
    so_far = hash_record(third)
    # Outcomes of epoch 3, whose takeover was lost.
    records.append(outcome(4, 3, hash_after_takeover(so_far, takeover(3, 0xB3)), detail="of nobody's epoch"))
    # Two takeovers, one after the other, that decide nothing; then the next outcomes.
    for epoch, instance in ((3, 0xB4), (4, 0xA5)):
        records.append(takeover(epoch, instance))
        so_far = hash_after_takeover(so_far, takeover(epoch, instance))
    for seq in (4, 5):
        records.append(outcome(seq, 4, so_far, told=3))
        so_far = hash_record(records[-1] or b"")
    # A zombie that wakes up, at the end.
    records += [outcome(6, 2, hash_record(third), detail="a zombie's"), takeover(4, 0xC4)]
    return list(enumerate(records))


def after_beginning(record: bytes, *, offset: int | None = None) -> Log:
    """Records 0 to 3 as usual, then one that stops every reader."""
    log: Log = list(enumerate(beginning()[0]))
    return [*log, (len(log) if offset is None else offset, record)]


def cases() -> dict[str, tuple[str, Log]]:
    """By name: what it shows, and the log."""
    so_far = beginning()[1]
    return {
        "everything": ("all that is skipped", everything()),
        "strangers first": (
            "bytes before the genesis, and a genesis that is cut short",
            [(0, b"hello"), (1, genesis(OTHER_LOG_ID)[:-2]), *enumerate(beginning()[0], 2)],
        ),
        "another history": (
            "the current epoch and the next seq, after another record than the one here",
            after_beginning(outcome(3, 1, b"?" * 32)),
        ),
        "changed outcome": (
            "an outcome that was cut short counts by its first fields; the one after it was written after another",
            [*after_beginning(outcome(3, 1, so_far)[:-4]), (5, outcome(4, 1, hash_record(outcome(3, 1, so_far))))],
        ),
        "another log": ("an outcome of another log", after_beginning(outcome(3, 1, so_far, log_id=OTHER_LOG_ID))),
        "takeover of another log": (
            "a takeover of another log",
            after_beginning(takeover(2, 0xB2, log_id=OTHER_LOG_ID)),
        ),
        "unknown schema": ("a fingerprint that is not known", after_beginning(b"\xc3\x01unknown!" + b"?" * 40)),
        "newer rules": (
            "decided under rules that are not known",
            after_beginning(outcome(3, 1, so_far, rules_version=m.RULES_VERSION + 1)),
        ),
        "a hole": ("offset 4 is missing", after_beginning(outcome(3, 1, so_far), offset=5)),
        "no genesis": ("the log does not start with its genesis", [(0, takeover(1, 0xA1))]),
    }


def read(log: Sequence[tuple[int, bytes | None]]) -> tuple[list[dict[str, Any]], int | None]:
    """What `Chain` accepts, and the offset at which it stops."""
    chain = Chain()
    accepted: list[dict[str, Any]] = []
    for offset, raw in log:
        try:
            step = chain.take(raw, offset)
        except CommitLogError:
            return accepted, offset
        if isinstance(step, Accepted):
            assert chain.state is not None
            kind = type(step.head).__name__.removesuffix("Head")
            state = {"epoch": chain.state.epoch, "seq": chain.state.seq, "hash": chain.state.hash.hex()}
            told = {"told": step.head.told} if isinstance(step.head, OutcomeHead) else {}
            accepted.append({"offset": offset, "kind": kind, **state, **told})
    return accepted, None


def fixture() -> dict[str, Any]:
    """The whole file."""
    made = {}
    for name, (shows, log) in cases().items():
        accepted, stops_at = read(log)
        made[name] = {
            "shows": shows,
            "records": [
                {"offset": offset, "value": None if raw is None else base64.b64encode(raw).decode()}
                for offset, raw in log
            ],
            "accepted": accepted,
            "stops_at": stops_at,
        }
    return {
        "rules_version": m.RULES_VERSION,
        "fingerprints": dict(sorted((header[2:].hex(), record) for record, header in HEADERS.items())),
        "logs": made,
    }


def text() -> str:
    """The file's content."""
    return json.dumps(fixture(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
