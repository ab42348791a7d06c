"""The log's limits, checked before a proposal is sent: a clear error here instead of a refusal later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from commitlog.domain import model as m
from commitlog.errors import InvalidRequestError, ProposalTooLargeError

_WITH_FILES = (m.Append, m.Compact, m.Flush)


def check_limits(proposal: m.Proposal, settings: m.LogSettings, size_bytes: int) -> None:
    """Check what the log would refuse for its size alone; of what a link brings, which nobody can split, its bytes.

    Raises:
        ProposalTooLargeError: the encoded proposal is over `proposal_bytes_max`.
        InvalidRequestError: too many changes, files, reads or keys, or too long a name; the message says which and how many.
    """
    if size_bytes > settings.proposal_bytes_max:
        raise ProposalTooLargeError(size_bytes, settings.proposal_bytes_max)
    if proposal.replicated is not None:
        return
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


def _counts(proposal: m.Proposal, settings: m.LogSettings) -> Sequence[tuple[int, str, int]]:
    files = positions = positions_of_one = 0
    for change in proposal.changes:
        if isinstance(change, _WITH_FILES):
            files += len(change.files)
        elif isinstance(change, m.Delete):
            files += len(change.delete_files)
            for delete in change.positions:
                positions += len(delete.rows)
                positions_of_one = max(positions_of_one, len(delete.rows))
    keys = sum([len(read.keys) for read in proposal.reads if isinstance(read, m.RowsRead)])
    return (
        (len(proposal.changes), "changes", settings.changes_max),
        (files, "files", settings.files_max),
        (len(proposal.reads), "reads", settings.reads_max),
        (keys, "keys of rows read", settings.read_keys_max),
        (positions_of_one, "row positions of one file (use a delete file)", settings.inlined_positions_max),
        (positions, "row positions (use delete files)", settings.changeset_positions_max),
    )


def _new_names(changes: tuple[m.Change, ...]) -> Iterator[str]:
    for change in changes:
        if isinstance(change, _WITH_FILES):
            continue
        match change:
            case m.CreateSchema() if not change.if_not_exists:
                yield change.schema
            case m.CreateTable() if not change.if_not_exists:
                yield change.table
                yield from (column.name for column in change.columns)
            case m.RenameTable():
                yield change.new_table
            case m.CreateView() if not change.if_not_exists:
                yield change.view
