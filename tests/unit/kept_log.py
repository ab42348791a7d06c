"""A log that is kept as it was written once: histories in which every kind of change commits and conflicts.

    PYTHONPATH=tests python tests/unit/kept_log.py      decides its proposals again, and writes what comes of it

Of each: its genesis, the JSON that each proposal was made of, its bytes, its outcome's bytes, the receipts and dead letters,
and the hash of the state at the end. As long as nothing is released it is made anew when a schema changes; from the first
release on it stays, and is joined by another one.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from oracle.histories import HANDLERS

from commitlog.domain.model import Genesis
from commitlog.domain.model.json_lines import parse_proposal
from commitlog.domain.state.dumping import state_hash
from commitlog.domain.state.index import new_state
from commitlog.domain.state.replaying import replay
from commitlog.log.batches import Batch, Decider, Incoming
from commitlog.log.codec import OutcomeRecord, decode_record, encode_genesis, encode_proposal, hash_record
from commitlog.log.topics import topics_of

FILE = Path(__file__).with_name("kept_log.json.gz")
DECIDED_AT_MS, MALFORMED_AT_MS = 1_700_000_000_000, 1_700_000_001_000
Kept = dict[str, Any]


def kept() -> Kept:
    """The file's content."""
    value: Kept = json.loads(gzip.decompress(FILE.read_bytes()))
    return value


def data(text: str) -> bytes:
    return base64.b64decode(text)


def genesis_of(log: Kept) -> Genesis:
    genesis = decode_record(data(log["genesis"]))
    assert isinstance(genesis, Genesis)
    return genesis


def decided_again(log: Kept) -> tuple[list[bytes], list[bytes]]:
    """The outcomes of the log's proposals, of bytes that are none and of one without a key; the receipts and dead letters."""
    genesis = genesis_of(log)
    decider = Decider(
        new_state(genesis),
        prev_hash=hash_record(encode_genesis(genesis)),
        epoch=1,
        topics=topics_of("kept"),
        handlers=HANDLERS,
        undecidable={},
    )
    batch = Batch()
    for number, each in enumerate(log["proposals"]):
        message = Incoming(0, number, b"", data(each["proposal"]))
        decider.decide_all([message], batch, now_ms=DECIDED_AT_MS + number, told=max(0, number - 3))
    last = len(log["proposals"])
    more = [Incoming(0, last, b"k", b"no proposal"), Incoming(0, last + 1, None, data(log["last"]))]
    decider.decide_all(more, batch, now_ms=MALFORMED_AT_MS, told=5)
    letters = decider.letters(batch.receipts, batch.dead_letters)
    return batch.outcomes, [value for letter in letters for value in letter.values]


def hash_after(genesis: Genesis, outcomes: Iterable[bytes]) -> str:
    """The hash of the state that outcomes make."""
    state = new_state(genesis)
    for value in outcomes:
        record = decode_record(value)
        assert isinstance(record, OutcomeRecord)
        replay(state, record.outcome)
    return state_hash(state).hex()


def _written(line: str) -> str:
    proposal = parse_proposal(line)
    assert not isinstance(proposal, str)
    return _text(encode_proposal(proposal))


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _made_anew(log: Kept) -> Kept:
    log = {**log, "proposals": [{**each, "proposal": _written(each["line"])} for each in log["proposals"]]}
    outcomes, told = decided_again(log)
    values = [_text(value) for value in outcomes]
    return {
        **log,
        "proposals": [{**each, "outcome": value} for each, value in zip(log["proposals"], values, strict=False)],
        "more": values[len(log["proposals"]) :],
        "receipts": [_text(value) for value in told],
        "state_hash": hash_after(genesis_of(log), outcomes),
    }


if __name__ == "__main__":
    content = kept()
    made = json.dumps({**content, "logs": [_made_anew(log) for log in content["logs"]]}, separators=(",", ":"))
    FILE.write_bytes(gzip.compress(made.encode(), mtime=0))
