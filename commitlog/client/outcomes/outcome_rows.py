"""Outcomes as rows of typed columns, for analysis: in Spark, and in the archive's Parquet files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from commitlog.client.outcomes.describing import moment_of
from commitlog.client.tables.names import TableName
from commitlog.domain import model as m
from commitlog.domain.model.ids import format_id
from commitlog.domain.model.values import is_bigint

_TEXT, _INT, _LONG, _TIME = pa.string(), pa.int32(), pa.int64(), pa.timestamp("us", tz="UTC")
_CONFLICT = pa.struct(
    {
        "kind": _TEXT, "change": _INT, "read": _INT, "schema": _TEXT, "table": _TEXT, "table_id": _LONG,
        "data_file_id": _LONG, "row_key": _TEXT, "committed_snapshot_id": _LONG, "committed_proposal_id": _TEXT,
        "committed_writer_id": _TEXT, "detail": _TEXT,
    }
)  # fmt: skip
_RESOLUTION = pa.struct(
    {
        "kind": _TEXT, "change": _INT, "action": _TEXT, "policy": _TEXT, "schema": _TEXT, "table": _TEXT,
        "row_key": _TEXT, "committed_snapshot_id": _LONG,
    }
)  # fmt: skip
OUTCOMES = pa.schema(
    {
        "seq": _LONG, "results_offset": _LONG, "epoch": _LONG, "verdict": _TEXT, "reason": _TEXT, "detail": _TEXT,
        "snapshot_id": _LONG, "head_snapshot_id": _LONG, "original_seq": _LONG, "proposal_id": _TEXT, "writer_id": _TEXT,
        "writer_epoch": _LONG, "writer_seq": _LONG, "base_snapshot_id": _LONG, "isolation": _TEXT, "author": _TEXT,
        "message": _TEXT, "created_at": _TIME, "decided_at": _TIME, "change_kinds": pa.list_(_TEXT),
        "tables": pa.list_(_TEXT), "files": _LONG, "rows": _LONG, "bytes": _LONG, "conflict_count": _INT,
        "conflicts": pa.list_(_CONFLICT), "resolutions": pa.list_(_RESOLUTION), "source_partition": _INT,
        "source_offset": _LONG,
    }
)  # fmt: skip
"""The columns: of `Outcome` and its `Proposal`. files, rows, bytes: of the data files that it brought; created_at: by the
writer's clock; tables: that its changes name. Times and sums that no column can hold are NULL."""


def to_row(outcome: m.Outcome, offset: int) -> dict[str, Any]:
    """An outcome as a row of ``OUTCOMES``."""
    proposal = outcome.proposal
    row: dict[str, Any] = {
        "seq": outcome.seq,
        "results_offset": offset,
        "epoch": outcome.epoch,
        "verdict": outcome.verdict.value,
        "reason": None if outcome.reason is None else outcome.reason.value,
        "detail": outcome.detail,
        "snapshot_id": outcome.snapshot_id,
        "head_snapshot_id": outcome.head_snapshot_id,
        "original_seq": outcome.original_seq,
        "proposal_id": _id(outcome.proposal_id),
        "writer_id": outcome.writer_id,
        "decided_at": moment_of(outcome.decided_at_ms),
        "conflict_count": outcome.conflict_count,
        "conflicts": [_conflict(each) for each in outcome.conflicts],
        "resolutions": [_resolution(each) for each in outcome.resolutions],
        "source_partition": outcome.source.partition,
        "source_offset": outcome.source.offset,
    }
    return row if proposal is None else row | _of_proposal(proposal)


def _of_proposal(proposal: m.Proposal) -> dict[str, Any]:
    files = [file for change in proposal.changes for file in getattr(change, "files", ())]
    tables = [
        TableName(change.schema, change.table)
        for change in proposal.changes
        if hasattr(change, "schema") and hasattr(change, "table")
    ]
    return {
        "writer_epoch": proposal.writer_epoch,
        "writer_seq": proposal.writer_seq,
        "base_snapshot_id": proposal.base_snapshot_id,
        "isolation": proposal.isolation.value,
        "author": proposal.author,
        "message": proposal.message,
        "created_at": moment_of(proposal.created_at_ms) if proposal.created_at_ms else None,
        "change_kinds": [change.kind.value for change in proposal.changes],
        "tables": list(dict.fromkeys(str(each) for each in tables)),
        "files": len(files),
        "rows": _sum(file.record_count for file in files),
        "bytes": _sum(file.file_size_bytes for file in files),
    }


def _conflict(conflict: m.Conflict) -> dict[str, Any]:
    where = conflict.object
    return {
        "kind": conflict.kind.value,
        "change": conflict.proposed_change,
        "read": conflict.proposed_read,
        "schema": where.schema,
        "table": where.table,
        "table_id": where.table_id,
        "data_file_id": where.data_file_id,
        "row_key": where.row_key,
        "committed_snapshot_id": conflict.committed_snapshot_id,
        "committed_proposal_id": _id(conflict.committed_proposal_id),
        "committed_writer_id": conflict.committed_writer_id,
        "detail": conflict.detail,
    }


def _resolution(resolution: m.Resolution) -> dict[str, Any]:
    return {
        "kind": resolution.kind.value,
        "change": resolution.change,
        "action": resolution.action.value,
        "policy": resolution.policy,
        "schema": resolution.object.schema,
        "table": resolution.object.table,
        "row_key": resolution.object.row_key,
        "committed_snapshot_id": resolution.committed_snapshot_id,
    }


def _id(proposal_id: bytes | None) -> str | None:
    return None if proposal_id is None else format_id(proposal_id)


def _sum(counts: Iterable[int]) -> int | None:
    """None where no column can hold it: a refused proposal may have told anything."""
    total = sum(counts)
    return total if is_bigint(total) else None
