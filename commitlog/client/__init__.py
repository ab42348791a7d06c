"""Programs that write to a log and follow it: ``CommitLog``, transactions, data files."""

from commitlog.client.access import OutcomeState, ProposalStatus, TableAt
from commitlog.client.commit_log import CommitLog
from commitlog.client.outcomes import SubmittedOutcome
from commitlog.client.transaction import Transaction

__all__ = ["CommitLog", "OutcomeState", "ProposalStatus", "SubmittedOutcome", "TableAt", "Transaction"]
