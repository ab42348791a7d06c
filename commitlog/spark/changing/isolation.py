"""What others may commit between the snapshot that a change is computed from and its own commit."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import cast

from commitlog.client import CommitLog, SubmittedOutcome, Transaction
from commitlog.client.ids import new_proposal_id
from commitlog.domain.model import ConflictKind, Isolation, Reason
from commitlog.errors import ProposalRejectedError
from commitlog.spark.connection import catalog_of
from commitlog.spark.writing.publish import Committing

REBASES_MAX = 20
"""How often others' appends are passed: where they come faster than a proposal gets to the log there is no end."""


class Level(StrEnum):
    """How much a change minds of what others commit meanwhile.

    SERIALIZABLE: all that touches what it has read. WRITE_SERIALIZABLE: that too, but for appends that rely on nothing that
    was read: it is as if they had come after it. SNAPSHOT: only changes of the same rows, or files.
    """

    SERIALIZABLE = "serializable"
    WRITE_SERIALIZABLE = "write_serializable"
    SNAPSHOT = "snapshot"

    @property
    def of_transaction(self) -> Isolation:
        """What the log is asked for."""
        return Isolation.SNAPSHOT if self is Level.SNAPSHOT else Isolation.SERIALIZABLE

    def committing(self, log: CommitLog, transaction: Transaction, table_ids: Sequence[int]) -> Committing:
        """What commits a transaction that has changed rows of these tables."""
        if self is Level.WRITE_SERIALIZABLE:
            return _PastBlindAppends(log, transaction, table_ids)
        return _Advised(transaction) if self is Level.SERIALIZABLE else transaction


class _Advised:
    """Commits a transaction; one that is refused for appends alone is told which level lets them pass."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def commit(self) -> SubmittedOutcome:
        """Commit the transaction; raises what its own ``commit`` does."""
        try:
            return self._transaction.commit()
        except ProposalRejectedError as error:
            if _is_for_appends_alone(cast("SubmittedOutcome", error.outcome)):
                error.add_note(
                    "Only appends got in its way. isolation='write_serializable' lets those pass that rely on nothing they "
                    "have read, as a stream's: it is as if they had come afterwards."
                )
            raise


def _is_for_appends_alone(refused: SubmittedOutcome) -> bool:
    return refused.reason is Reason.CONFLICT and {each.kind for each in refused.conflicts} == {
        ConflictKind.TABLE_APPENDED
    }


class _PastBlindAppends:
    """Proposes a transaction again, as it is, from behind the blind appends that it was refused for.

    What was computed from the earlier snapshot holds there as well: its files are all there still, with the same rows, as
    nothing but such appends has touched the tables.
    """

    def __init__(self, log: CommitLog, transaction: Transaction, table_ids: Sequence[int]) -> None:
        self._log = log
        self._proposal = transaction.proposal()
        self._table_ids = table_ids

    def commit(self) -> SubmittedOutcome:
        """Commit the transaction; raises what its own ``commit`` does."""
        proposal = self._proposal
        for _ in range(REBASES_MAX):
            try:
                return self._log.commit(proposal)
            except ProposalRejectedError as error:
                refused = cast("SubmittedOutcome", error.outcome)
                if not self._is_passable(refused, proposal.base_snapshot_id):
                    raise
            proposal = proposal.replace(base_snapshot_id=refused.head_snapshot_id, proposal_id=new_proposal_id())
        return self._log.commit(proposal)

    def _is_passable(self, refused: SubmittedOutcome, base: int) -> bool:
        if not _is_for_appends_alone(refused):
            return False
        self._log.wait_for_snapshot(refused.head_snapshot_id)
        only_blind_appends, upto = catalog_of(self._log).only_blind_appends, refused.head_snapshot_id
        return all(only_blind_appends(each, after=base, upto=upto) for each in self._table_ids)
