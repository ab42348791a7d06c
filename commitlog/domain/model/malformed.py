"""What stands in for a proposal that is none."""

from __future__ import annotations

from typing import NamedTuple

from commitlog.domain.model.values import ProposalId


class MalformedProposal(NamedTuple):
    """What stands in for a proposal whose bytes or text do not decode; the ids are there if they could be read."""

    detail: str
    proposal_id: ProposalId | None = None
    writer_id: str | None = None


def too_large(size_bytes: int, limit_bytes: int) -> str:
    """The detail of a proposal that is over ``proposal_bytes_max``."""
    return f"the proposal takes {size_bytes:,} bytes, the log's limit is {limit_bytes:,}"
