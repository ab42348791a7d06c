"""What a log that links read or write still keeps of its history."""

from __future__ import annotations

from commitlog.client import CommitLog
from commitlog.domain import model as m
from commitlog.errors import ResultsTrimmedError
from commitlog.sites.joining import JOIN, name_given_by


def outcome_if_kept(log: CommitLog, seq: int) -> m.Outcome | None:
    """An outcome of the log; None when it was archived and trimmed."""
    try:
        return log.access.outcome_at(seq)
    except ResultsTrimmedError:
        return None


def maker_of(log: CommitLog, node: str, snapshot_id: int) -> tuple[str, int] | None:
    """Which node made a snapshot of a log, which is itself ``node``, and which one it is there; also when it was archived.

    Of what was told when a site joined, that counts which gave a table its name; None where that is no longer kept.
    """
    for entry in log.history(1, snapshot=snapshot_id):
        if entry.writer_id == JOIN:
            outcome = outcome_if_kept(log, entry.seq)
            return None if outcome is None or outcome.proposal is None else name_given_by(outcome.proposal)
        before, after = log.access.digest(entry.seq), log.access.digest(entry.seq + 1)
        came = [known for name, known in after.items() if before.get(name) != known]
        return (came[0].node, came[0].tick - 1) if came else (node, snapshot_id)
    return None
