"""Tables and their live files, as a log tells of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from commitlog.domain.model import ProposalId
from commitlog.domain.model.definitions import TableDefinition


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file that a table has, and the proposal that brought it (None: not known)."""

    data_file_id: int
    path: str
    proposal_id: ProposalId | None
    writer_id: str | None
    writer_seq: int | None


@dataclass(frozen=True, slots=True)
class TableAt:
    """A table as of a snapshot: its definition, and where its files are (None: not known yet)."""

    definition: TableDefinition
    path: str | None


class KnownTable(NamedTuple):
    """A table as of a snapshot that was the newest one not long ago."""

    snapshot_id: int
    table: TableAt
