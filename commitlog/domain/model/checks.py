"""What a record must be that its schema cannot say; bytes and JSON are held to it alike."""

from __future__ import annotations

from commitlog.domain.model.ids import format_id, id_time_ms
from commitlog.domain.model.records.proposal import Proposal
from commitlog.errors import MalformedRecordError


def check_id_version(proposal: Proposal) -> Proposal:
    """The proposal, if its id has a time in it where only its time can tell a repeat."""
    if proposal.writer_seq is None and id_time_ms(proposal.proposal_id) is None:
        raise MalformedRecordError(
            f"proposal_id: {format_id(proposal.proposal_id)} is not a UUID version 7, "
            "which a proposal without writer_seq needs"
        )
    return proposal
