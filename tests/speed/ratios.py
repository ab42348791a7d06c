"""What the core costs as ratios to a yardstick of this machine, measured in the same moments: they do not depend on its speed.

The yardstick is fixed work of the kinds that the core does: objects, dictionaries, bytes, a hash. It and what is measured go by
turns in short stretches of CPU time of this thread; of each the quickest counts, so that what else the machine does adds
nothing.
"""

from __future__ import annotations

import gc
import hashlib
import time
from collections.abc import Callable, Iterator
from itertools import repeat

from commitlog.catalog.connecting import Connection
from commitlog.catalog.projecting.snapshots import Projection
from commitlog.domain import model as m
from commitlog.domain.deciding.decide import decide
from commitlog.domain.state.index import SequencerState, new_state
from commitlog.domain.state.replaying import replay
from commitlog.log.codec import decode_proposal, decode_record, decode_statistics, encode_outcome, encode_proposal

STRETCH = 500
ROUNDS = 15
TABLES = 50
COLUMNS = 5
START_MS = 1_732_201_315_328
LOG_ID = bytes(16)
YARDSTICK_TURNS = 2_000

Stretch = Callable[[], None]


def yardstick() -> None:
    """Fixed work. Never change it: the baseline is in units of one turn of it."""
    known: dict[int, tuple[int, bytes]] = {}
    digest = bytes(32)
    for number in range(YARDSTICK_TURNS):
        text = f"part-{number}.parquet"
        digest = hashlib.sha256(digest + text.encode()).digest()
        known[number % 97] = (number, digest[:8])
        if len(text) + known[number % 89 if number > 96 else 0][0] < 0:
            raise AssertionError


def ratio(stretches: Iterator[Stretch]) -> float:
    """What one of a stretch's ``STRETCH`` items costs, in turns of the yardstick."""
    best_yardstick = best = float("inf")
    gc.collect()
    gc.disable()
    try:
        for _, stretch in zip(range(ROUNDS), stretches, strict=False):
            best_yardstick = min(best_yardstick, _cpu_s(yardstick))
            best = min(best, _cpu_s(stretch))
    finally:
        gc.enable()
    return (best / STRETCH) / (best_yardstick / YARDSTICK_TURNS)


def _cpu_s(work: Stretch) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def core_ratios() -> dict[str, float]:
    """Of a proposal of one file, by step from bytes to bytes."""
    state = _state_with_tables()
    received = [encode_proposal(_append(number)) for number in range(STRETCH)]
    proposals = [decode_proposal(value) for value in received]
    outcomes = [_decided(state, *each) for each in zip(proposals, received, strict=True)]
    encoded = [_encoded(outcome) for outcome in outcomes]

    def deciding() -> None:
        for proposal, value in zip(proposals, received, strict=True):
            decide(state, proposal, now_ms=START_MS, proposal_bytes=value)

    return {
        "decode_proposal": ratio(repeat(lambda: [decode_proposal(value) for value in received] and None)),
        "decide": ratio(repeat(deciding)),
        "encode_outcome": ratio(repeat(lambda: [_encoded(outcome) for outcome in outcomes] and None)),
        "replay": ratio(_replaying()),
        "decode_outcome": ratio(repeat(lambda: [decode_record(value) for value in encoded] and None)),
    }


def projector_ratio(conn: Connection) -> dict[str, float]:
    """Of a commit of one file with statistics, in the catalog that the connection has; what PostgreSQL takes is not counted."""
    state = new_state(m.Genesis(LOG_ID))
    projection = Projection(conn, log_id=LOG_ID, decode_statistics=decode_statistics)
    projection.project([_committed(state, proposal) for proposal in _tables()])
    return {"project": ratio(_projecting(projection, state))}


def _projecting(projection: Projection, state: SequencerState) -> Iterator[Stretch]:
    for first in range(0, STRETCH * ROUNDS, STRETCH):
        outcomes = [_committed(state, _append(number)) for number in range(first, first + STRETCH)]
        yield lambda: projection.project(outcomes)  # noqa: B023


def _replaying() -> Iterator[Stretch]:
    while True:
        deciding, replaying = _state_with_tables(), _state_with_tables()
        outcomes = [_committed(deciding, _append(number)) for number in range(STRETCH)]
        yield lambda: [replay(replaying, outcome) for outcome in outcomes] and None  # noqa: B023


def _state_with_tables() -> SequencerState:
    state = new_state(m.Genesis(LOG_ID))
    for proposal in _tables():
        _committed(state, proposal)
    return state


def _tables() -> list[m.Proposal]:
    columns = tuple(m.ColumnSpec(f"c{number}", "int64") for number in range(COLUMNS))
    return [_proposal(number, 0, m.CreateTable("main", f"t{number}", columns)) for number in range(TABLES)]


def _append(number: int) -> m.Proposal:
    known = tuple(
        m.ColumnStatistics(f"c{column}", min=number, max=number + 9, null_count=0, value_count=10, size_bytes=80)
        for column in range(COLUMNS)
    )
    file = m.DataFile(f"part-{number}.parquet", 10, 1_000, footer_size=100, statistics=known)
    return decode_proposal(
        encode_proposal(_proposal(TABLES + number, TABLES, m.Append("main", f"t{number % TABLES}", (file,))))
    )


def _proposal(number: int, base: int, change: m.Change) -> m.Proposal:
    proposal_id = (START_MS + number).to_bytes(6, "big") + b"\x70\x00" + (2**63 + number).to_bytes(8, "big")
    return m.Proposal(proposal_id, f"writer-{number % 16}", base, (change,))


def _decided(state: SequencerState, proposal: m.Proposal, value: bytes) -> m.Outcome:
    outcome = decide(state, proposal, now_ms=START_MS, proposal_bytes=value)
    assert outcome.verdict is m.Verdict.COMMITTED, outcome.detail
    return outcome


def _committed(state: SequencerState, proposal: m.Proposal) -> m.Outcome:
    outcome = _decided(state, proposal, encode_proposal(proposal))
    replay(state, outcome)
    return outcome


def _encoded(outcome: m.Outcome) -> bytes:
    return encode_outcome(outcome, log_id=LOG_ID, prev_hash=bytes(32), told=0)
