"""What the answer to a proposal would be, without sending it: the same rules on a copy of the same state."""

from __future__ import annotations

import time
from collections.abc import Mapping

from commitlog.domain.again.noting_handlers import NotingHandlers
from commitlog.domain.deciding.decide import decide
from commitlog.domain.deciding.rules import RowHandler, Rules
from commitlog.domain.model import Outcome, Position, Proposal
from commitlog.domain.model.ids import partition_for
from commitlog.domain.state.index import SequencerState
from commitlog.log.codec import decode_proposal, decode_statistics, encode_proposal


def decided_unsent(
    state: SequencerState, proposal: Proposal, *, handlers: Mapping[str, RowHandler], now_ms: int | None = None
) -> Outcome:
    """Decide a proposal as it would arrive, without changing the state.

    handlers: the row handlers that are installed here. Where one is asked for that is not, the answer's ``detail`` says
    that the sequencer, which may have it, may answer otherwise.
    """
    partition = partition_for(proposal.writer_id, state.partitions)
    noting = NotingHandlers(handlers)
    outcome = decide(
        state,
        decode_proposal(encode_proposal(proposal)),
        now_ms=time.time_ns() // 1_000_000 if now_ms is None else now_ms,
        source=Position(partition, state.next_offsets.get(partition, 0)),
        rules=Rules(noting, decode_statistics),
    )
    if not noting.missing:
        return outcome
    names = ", ".join(noting.missing)
    note = f"(row handler {names} is not installed here: where the sequencer runs it may be, and settle this)"
    return outcome.replace(detail=f"{outcome.detail} {note}" if outcome.detail else note)
