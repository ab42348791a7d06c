"""commitlog: an event-sourced commit log service on Kafka for lakehouse tables. These are the public names.

They are loaded when they are asked for, so that the command line starts without Kafka, SQL and Arrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from commitlog import compiled

if TYPE_CHECKING:
    from commitlog.client import CommitLog, OutcomeState, ProposalStatus, SubmittedOutcome, Table, Transaction
    from commitlog.client.ids import uuid7
    from commitlog.config import Settings
    from commitlog.domain.model import (
        ColumnSpec,
        Conflict,
        DataFile,
        DeleteFile,
        FilterOp,
        ForeignKeySpec,
        Isolation,
        Outcome,
        PartitionSpec,
        Predicate,
        Proposal,
        Verdict,
    )
    from commitlog.errors import CommitLogError, OutcomeUnknownError, ProposalRejectedError

__all__ = [
    "ColumnSpec",
    "CommitLog",
    "CommitLogError",
    "Conflict",
    "DataFile",
    "DeleteFile",
    "FilterOp",
    "ForeignKeySpec",
    "Isolation",
    "Outcome",
    "OutcomeState",
    "OutcomeUnknownError",
    "PartitionSpec",
    "Predicate",
    "Proposal",
    "ProposalRejectedError",
    "ProposalStatus",
    "Settings",
    "SubmittedOutcome",
    "Table",
    "Transaction",
    "Verdict",
    "uuid7",
]

compiled.choose()

_HOMES = {
    "commitlog.client": ("CommitLog", "OutcomeState", "ProposalStatus", "SubmittedOutcome", "Table", "Transaction"),
    "commitlog.client.ids": ("uuid7",),
    "commitlog.config": ("Settings",),
    "commitlog.errors": ("CommitLogError", "OutcomeUnknownError", "ProposalRejectedError"),
}
_MODEL = "commitlog.domain.model"


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'commitlog' has no attribute {name!r}")
    home = next((module for module, names in _HOMES.items() if name in names), _MODEL)
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
