"""What a log that links read or write still keeps of its history."""

from __future__ import annotations

from commitlog.client import CommitLog
from commitlog.domain import model as m
from commitlog.errors import ResultsTrimmedError


def outcome_if_kept(log: CommitLog, seq: int) -> m.Outcome | None:
    """An outcome of the log; None when it was archived and trimmed."""
    try:
        return log.access.outcome_at(seq)
    except ResultsTrimmedError:
        return None
