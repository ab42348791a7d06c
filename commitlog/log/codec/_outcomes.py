"""Outcomes, the genesis and receipts between the model and Avro."""

from __future__ import annotations

from dataclasses import fields as fields_of
from typing import Any, TypeVar

from commitlog.domain import model as m
from commitlog.log.codec._values import optional, row_from_avro, row_to_avro

Fields = dict[str, Any]
E = TypeVar("E")

_ID = "commitlog.ProposalId"
_VERDICTS = {str(verdict): verdict for verdict in m.Verdict}
_REASONS: dict[str | None, m.Reason | None] = {None: None, **{str(reason): reason for reason in m.Reason}}
_NO_IDS = m.Assigned()
_ID_LISTS = (
    "schema_ids", "table_ids", "view_ids", "partition_ids", "mapping_ids",
    "data_file_ids", "delete_file_ids",
)  # fmt: skip


def _optional_row(row: m.Row | None) -> Any:
    return None if row is None else ("map", row_to_avro(row))


def _row_or_none(row: Any) -> m.Row | None:
    return None if row is None else row_from_avro(row)


# --- ids given --------------------------------------------------------------------------------------------------------


def _assigned_to_avro(assigned: m.Assigned) -> Fields:
    return {
        "schema_ids": list(assigned.schema_ids),
        "table_ids": list(assigned.table_ids),
        "view_ids": list(assigned.view_ids),
        "partition_ids": list(assigned.partition_ids),
        "column_ids": [list(columns) for columns in assigned.column_ids],
        "mapping_ids": list(assigned.mapping_ids),
        "data_file_ids": list(assigned.data_file_ids),
        "delete_file_ids": list(assigned.delete_file_ids),
        "row_id_starts": [optional("long", start) for start in assigned.row_id_starts],
        "schema_version": assigned.schema_version,
        "writer_epoch": optional("long", assigned.writer_epoch),
    }


def _assigned_from_avro(fields: Fields) -> m.Assigned:
    return m.Assigned(
        tuple(fields["schema_ids"]),
        tuple(fields["table_ids"]),
        tuple(fields["view_ids"]),
        tuple(fields["partition_ids"]),
        tuple([tuple(columns) for columns in fields["column_ids"]]),
        tuple(fields["mapping_ids"]),
        tuple(fields["data_file_ids"]),
        tuple(fields["delete_file_ids"]),
        tuple(fields["row_id_starts"]),
        fields["schema_version"],
        fields["writer_epoch"],
    )


# --- conflicts and resolutions ----------------------------------------------------------------------------------------


def _object_to_avro(what: m.ConflictObject) -> Fields:
    return {
        "schema": optional("string", what.schema),
        "table": optional("string", what.table),
        "table_id": optional("long", what.table_id),
        "data_file_id": optional("long", what.data_file_id),
        "row_key": optional("string", what.row_key),
    }


def _conflict_to_avro(conflict: m.Conflict) -> Fields:
    return {
        "kind": str(conflict.kind),
        "proposed_change": optional("int", conflict.proposed_change),
        "proposed_read": optional("int", conflict.proposed_read),
        "object": _object_to_avro(conflict.object),
        "committed_snapshot_id": conflict.committed_snapshot_id,
        "committed_proposal_id": optional(_ID, conflict.committed_proposal_id),
        "committed_writer_id": optional("string", conflict.committed_writer_id),
        "detail": conflict.detail,
    }


def _conflict_from_avro(fields: Fields) -> m.Conflict:
    fields["kind"] = m.ConflictKind(fields["kind"])
    fields["object"] = m.ConflictObject(**fields["object"])
    return m.Conflict(**fields)


def _resolution_to_avro(resolution: m.Resolution) -> Fields:
    return {
        "change": resolution.change,
        "kind": str(resolution.kind),
        "action": str(resolution.action),
        "policy": resolution.policy,
        "object": _object_to_avro(resolution.object),
        "committed_snapshot_id": resolution.committed_snapshot_id,
        "committed_proposal_id": optional(_ID, resolution.committed_proposal_id),
        "committed_writer_id": optional("string", resolution.committed_writer_id),
        "committed_row": _optional_row(resolution.committed_row),
        "proposed_row": _optional_row(resolution.proposed_row),
        "row": _optional_row(resolution.row),
    }


def _resolution_from_avro(fields: Fields) -> m.Resolution:
    fields["kind"] = m.ConflictKind(fields["kind"])
    fields["action"] = m.ResolutionAction(fields["action"])
    fields["object"] = m.ConflictObject(**fields["object"])
    for name in ("committed_row", "proposed_row", "row"):
        fields[name] = _row_or_none(fields[name])
    return m.Resolution(**fields)


def _effect_to_avro(effect: m.Effect) -> Fields:
    return {
        "object_id": optional("long", effect.object_id),
        "skipped": effect.skipped,
        "ended_row_id": optional("long", effect.ended_row_id),
        "row_id": optional("long", effect.row_id),
    }


def _effect_from_avro(fields: Fields) -> m.Effect:
    return m.Effect(fields["object_id"], fields["skipped"], fields["ended_row_id"], fields["row_id"])


# --- outcomes ---------------------------------------------------------------------------------------------------------


def outcome_to_avro(outcome: m.Outcome, log_id: bytes, prev_hash: bytes, told: int, proposal: bytes | None) -> Fields:
    """An outcome with its place in the chain and its proposal's bytes."""
    reason = outcome.reason
    return {
        "log_id": log_id,
        "seq": outcome.seq,
        "epoch": outcome.epoch,
        "rules_version": outcome.rules_version,
        "prev_hash": prev_hash,
        "told": told,
        "source": {"partition": outcome.source.partition, "offset": outcome.source.offset},
        "decided_at_ms": outcome.decided_at_ms,
        "verdict": outcome.verdict._value_,
        "head_snapshot_id": outcome.head_snapshot_id,
        "proposal_id": optional(_ID, outcome.proposal_id),
        "writer_id": optional("string", outcome.writer_id),
        "snapshot_id": optional("long", outcome.snapshot_id),
        "snapshot_time_us": optional("long", outcome.snapshot_time_us),
        "reason": None if reason is None else ("commitlog.Reason", reason._value_),
        "detail": optional("string", outcome.detail),
        "conflicts": [_conflict_to_avro(conflict) for conflict in outcome.conflicts],
        "conflict_count": outcome.conflict_count,
        "resolutions": [_resolution_to_avro(resolution) for resolution in outcome.resolutions],
        "assigned": _assigned_to_avro(outcome.assigned),
        "effects": [_effect_to_avro(effect) for effect in outcome.effects],
        "next_catalog_id": outcome.next_catalog_id,
        "next_file_id": outcome.next_file_id,
        "original_seq": optional("long", outcome.original_seq),
        "same_content": optional("boolean", outcome.same_content),
        "content_hash": optional("long", outcome.content_hash),
        "proposal": optional("bytes", proposal),
    }


def outcome_from_avro(fields: Fields, proposal: m.Proposal | None) -> m.Outcome:
    """An outcome; its proposal is decoded by the caller."""
    return m.Outcome(
        seq=fields["seq"],
        epoch=fields["epoch"],
        source=m.Position(fields["source"]["partition"], fields["source"]["offset"]),
        decided_at_ms=fields["decided_at_ms"],
        verdict=_VERDICTS[fields["verdict"]],
        head_snapshot_id=fields["head_snapshot_id"],
        proposal_id=fields["proposal_id"],
        writer_id=fields["writer_id"],
        rules_version=fields["rules_version"],
        snapshot_id=fields["snapshot_id"],
        snapshot_time_us=fields["snapshot_time_us"],
        reason=_REASONS[fields["reason"]],
        detail=fields["detail"],
        conflicts=tuple([_conflict_from_avro(conflict) for conflict in fields["conflicts"]]),
        conflict_count=fields["conflict_count"],
        resolutions=tuple([_resolution_from_avro(resolution) for resolution in fields["resolutions"]]),
        assigned=_assigned_from_avro(fields["assigned"]),
        effects=tuple([_effect_from_avro(effect) for effect in fields["effects"]]),
        next_catalog_id=fields["next_catalog_id"],
        next_file_id=fields["next_file_id"],
        original_seq=fields["original_seq"],
        same_content=fields["same_content"],
        content_hash=fields["content_hash"],
        proposal=proposal,
        proposal_bytes=fields["proposal"],
    )


# --- genesis ----------------------------------------------------------------------------------------------------------

_OPTIONAL_SETTINGS = frozenset({"expire_older_than_ms", "expire_keep_snapshots"})


def genesis_to_avro(genesis: m.Genesis) -> Fields:
    """What the log is."""
    settings = {each.name: getattr(genesis.settings, each.name) for each in fields_of(m.LogSettings)}
    settings["conflict_granularity"] = str(genesis.settings.conflict_granularity)
    for name in _OPTIONAL_SETTINGS:
        settings[name] = optional("long", settings[name])
    return {
        "log_id": genesis.log_id,
        "partitions": genesis.partitions,
        "created_at_ms": genesis.created_at_ms,
        "rules_version": genesis.rules_version,
        "data_path": optional("string", genesis.data_path),
        "settings": settings,
    }


def genesis_from_avro(fields: Fields) -> m.Genesis:
    """What the log is."""
    settings = fields["settings"]
    settings["conflict_granularity"] = m.Granularity(settings["conflict_granularity"])
    fields["settings"] = m.LogSettings(**settings)
    return m.Genesis(**fields)


# --- receipts ---------------------------------------------------------------------------------------------------------


def receipt_from_avro(fields: Fields, partition: int) -> m.Receipt:
    """A receipt of a proposal in the partition."""
    answered = fields["answered_verdict"]
    return m.Receipt(
        seq=fields["seq"],
        source=m.Position(partition, fields["offset"]),
        proposal_id=fields["proposal_id"],
        verdict=_VERDICTS[fields["verdict"]],
        snapshot_id=fields["snapshot_id"],
        head_snapshot_id=fields["head_snapshot_id"],
        reason=_REASONS[fields["reason"]],
        detail=fields["detail"],
        assigned=_assigned_from_avro(fields["assigned"]),
        decided_at_ms=fields["decided_at_ms"],
        original_seq=fields["original_seq"],
        same_content=fields["same_content"],
        answered_verdict=None if answered is None else _VERDICTS[answered],
        answered_snapshot_id=fields["answered_snapshot_id"],
        answered_reason=_REASONS[fields["answered_reason"]],
        answered_detail=fields["answered_detail"],
    )
