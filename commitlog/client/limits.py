"""The log's limits, checked before a proposal is sent: a clear error here instead of a refusal later."""

from __future__ import annotations

from collections.abc import Iterator

from commitlog.domain import model as m
from commitlog.errors import InvalidRequestError, ProposalTooLargeError


def check_limits(proposal: m.Proposal, settings: m.LogSettings, size_bytes: int) -> None:
    """Check what the log would refuse for its size alone.

    Raises:
        ProposalTooLargeError: the encoded proposal is over `proposal_bytes_max`.
        InvalidRequestError: too many changes, files, reads or keys, or too long a name; the message says which and how many.
    """
    if size_bytes > settings.proposal_bytes_max:
        raise ProposalTooLargeError(size_bytes, settings.proposal_bytes_max)
    for count, what, limit in _counts(proposal, settings):
        if count > limit:
            raise InvalidRequestError(
                f"{count:,} {what} are more than the log's limit of {limit:,}; split the proposal"
            )
    for name in _new_names(proposal.changes):
        if len(name) > settings.name_length_max:
            raise InvalidRequestError(
                f"the name {name[:40]!r}... has {len(name)} characters, the log takes up to {settings.name_length_max}"
            )


def _counts(proposal: m.Proposal, settings: m.LogSettings) -> Iterator[tuple[int, str, int]]:
    files = sum(len(change.files) for change in proposal.changes if isinstance(change, m.Append | m.Compact | m.Flush))
    keys = sum(len(read.keys) for read in proposal.reads if isinstance(read, m.RowsRead))
    deletes = [change for change in proposal.changes if isinstance(change, m.Delete)]
    positions = max((len(delete.rows) for change in deletes for delete in change.positions), default=0)
    yield len(proposal.changes), "changes", settings.changes_max
    yield files, "files", settings.files_max
    yield len(proposal.reads), "reads", settings.reads_max
    yield keys, "keys of rows read", settings.read_keys_max
    yield positions, "row positions of one file (use a delete file)", settings.inlined_positions_max
    positions = sum(len(delete.rows) for change in deletes for delete in change.positions)
    yield positions, "row positions (use delete files)", settings.changeset_positions_max


def _new_names(changes: tuple[m.Change, ...]) -> Iterator[str]:
    for change in changes:
        match change:
            case m.CreateSchema():
                yield change.schema
            case m.CreateTable():
                yield change.table
                yield from (column.name for column in change.columns)
            case m.RenameTable():
                yield change.new_table
            case m.CreateView():
                yield change.view
