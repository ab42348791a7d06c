"""Proposals as lines of JSON, the form in which people write them into files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from commitlog.domain.model.ids import parse_id
from commitlog.domain.model.json_values import read_json
from commitlog.domain.model.malformed import MalformedProposal
from commitlog.domain.model.records.proposal import Proposal
from commitlog.domain.model.records.proposal_json import proposal_from_json
from commitlog.domain.model.values import ProposalId
from commitlog.errors import MalformedRecordError

_BYTE_ORDER_MARK = "\ufeff"
"""With which some editors begin a file."""


def is_blank(line: bytes | str) -> bool:
    """Whether a line of a file says nothing; with a byte order mark, too."""
    if isinstance(line, bytes):
        return not line.removeprefix(_BYTE_ORDER_MARK.encode()).strip()
    return not line.removeprefix(_BYTE_ORDER_MARK).strip()


def parse_proposal(line: bytes | str, missing: Mapping[str, Any] | None = None) -> Proposal | MalformedProposal:
    """Read one line of a proposals file; what is none comes back as a MalformedProposal, with its ids if they can be read.

    Args:
        line: one object of JSON.
        missing: what stands in for fields that it does not have.
    """
    value: Any = None
    try:
        text = line.decode("utf-8") if isinstance(line, bytes) else line
        # Without its end, behind which a line that was cut off would go on as column 1.
        value = read_json(text.removeprefix(_BYTE_ORDER_MARK).rstrip("\r\n"))
        if isinstance(value, dict):
            value = {**(missing or {}), **value}
        return proposal_from_json(value)
    except MalformedRecordError as error:
        detail = str(error)
    except UnicodeDecodeError as error:
        detail = f"not UTF-8: {error.reason} at byte {error.start}"
    except json.JSONDecodeError as error:
        detail = (
            f"not JSON: {error.msg.removesuffix(' at')} at column {error.colno}; a proposal is one object on one line"
        )
    except RecursionError:
        detail = "not a proposal: nested too deep"
    return MalformedProposal(detail, *_readable_ids(value))


def _readable_ids(value: Any) -> tuple[ProposalId | None, str | None]:
    if not isinstance(value, dict):
        return None, None
    try:
        proposal_id: ProposalId | None = parse_id(value.get("proposal_id"))
    except MalformedRecordError:
        proposal_id = None
    writer_id = value.get("writer_id")
    return proposal_id, writer_id if isinstance(writer_id, str) else None
