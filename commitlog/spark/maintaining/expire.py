"""Letting go of old snapshots."""

from __future__ import annotations

from commitlog.client import CommitLog, SubmittedOutcome
from commitlog.client.arguments import checked_count_or_none
from commitlog.errors import InvalidRequestError
from commitlog.spark.connection import catalog_of, connect


def expire(
    log: CommitLog | None = None, *, keep: int | None = None, older_than_snapshot: int | None = None
) -> SubmittedOutcome | None:
    """Let go of old snapshots: they cannot be read any more, and files that no other snapshot names may be removed.

    Args:
        log: the log; None connects by the settings found.
        keep: how many of the newest snapshots stay.
        older_than_snapshot: instead, the oldest snapshot that stays.

    Returns:
        The answer; None when there are no older ones, and so nothing to commit.

    Raises:
        InvalidRequestError: neither or both are given, or one is no such number.
        ProposalRejectedError: there is no such snapshot yet.
    """
    if (keep is None) == (older_than_snapshot is None):
        raise InvalidRequestError(
            "say which snapshots stay: keep=100 for the newest 100, or older_than_snapshot=42; not both"
        )
    keep = checked_count_or_none("keep", keep)
    older_than_snapshot = checked_count_or_none("older_than_snapshot", older_than_snapshot)
    if keep == 0:
        raise InvalidRequestError(f"keep must be at least 1, not {keep}: the newest snapshot always stays")
    to_log = connect() if log is None else log
    transaction = to_log.transaction(message="expiry of snapshots")
    if keep is not None:
        older_than_snapshot = transaction.base_snapshot_id - keep + 1
    assert older_than_snapshot is not None
    if older_than_snapshot <= catalog_of(to_log).oldest_snapshot_id():
        return None
    transaction.expire_snapshots(older_than_snapshot)
    return transaction.commit()
