"""Programs that write to a log and follow it: ``CommitLog``, transactions, data files."""

from commitlog.client.access.log_access import OutcomeState, ProposalStatus
from commitlog.client.commit_log import CommitLog
from commitlog.client.outcomes.submitted import SubmittedOutcome
from commitlog.client.table import Table
from commitlog.client.tables.table_at import TableAt
from commitlog.client.transaction import Transaction

__all__ = ["CommitLog", "OutcomeState", "ProposalStatus", "SubmittedOutcome", "Table", "TableAt", "Transaction"]
