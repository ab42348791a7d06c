"""What stands in for a proposal that is none."""

from __future__ import annotations

from typing import NamedTuple

from commitlog.domain.model.values import ProposalId


class MalformedProposal(NamedTuple):
    """What stands in for a proposal whose bytes or text do not decode; the ids are there if they could be read."""

    detail: str
    proposal_id: ProposalId | None = None
    writer_id: str | None = None
