"""Generated from schemas/outcome.avsc by `make records`: their JSON form."""

from __future__ import annotations

from typing import Any

from commitlog.domain.model.json_values import to_json
from commitlog.domain.model.records.outcome import Conflict, Outcome


def conflict_to_json(it: Conflict) -> dict[str, Any]:
    """The JSON form of a Conflict."""
    return {
        "kind": to_json(it.kind),
        "proposed": {"change": it.proposed_change, "read": it.proposed_read},
        "object": to_json(it.object),
        "committed_snapshot_id": it.committed_snapshot_id,
        "committed_proposal_id": to_json(it.committed_proposal_id),
        "committed_writer_id": it.committed_writer_id,
        "detail": it.detail,
    }


def outcome_to_json(it: Outcome) -> dict[str, Any]:
    """The JSON form of an Outcome."""
    return {
        "seq": it.seq,
        "epoch": it.epoch,
        "source": to_json(it.source),
        "decided_at_ms": it.decided_at_ms,
        "verdict": to_json(it.verdict),
        "head_snapshot_id": it.head_snapshot_id,
        "proposal_id": to_json(it.proposal_id),
        "writer_id": it.writer_id,
        "snapshot_id": it.snapshot_id,
        "reason": to_json(it.reason),
        "detail": it.detail,
        "invalid_code": it.invalid_code,
        "conflicts": [conflict_to_json(each) for each in it.conflicts],
        "conflict_count": it.conflict_count,
        "resolutions": to_json(it.resolutions),
        "assigned": to_json(it.assigned),
        "original_seq": it.original_seq,
        "same_content": it.same_content,
    }
