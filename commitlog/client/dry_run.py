"""What the answer to a proposal would be, without sending it: the same rules on a copy of the same state."""

from __future__ import annotations

import time

from commitlog.domain.model import Outcome, Position, Proposal
from commitlog.domain.partitioning import partition_for
from commitlog.domain.sequencing import decide
from commitlog.domain.state import SequencerState
from commitlog.log.codec import decode_proposal, decode_statistics, encode_proposal


def decided_unsent(state: SequencerState, proposal: Proposal, *, now_ms: int | None = None) -> Outcome:
    """Decide a proposal as it would arrive, without changing the state.

    A table whose conflicts a handler settles is judged as if the handler were not installed: only the sequencer has it.
    """
    partition = partition_for(proposal.writer_id, state.partitions)
    return decide(
        state,
        decode_proposal(encode_proposal(proposal)),
        now_ms=time.time_ns() // 1_000_000 if now_ms is None else now_ms,
        source=Position(partition, state.next_offsets.get(partition, 0)),
        decode_statistics=decode_statistics,
    )
