"""Outcomes in the form that the commands' ``--json`` has."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from commitlog.catalog.history import HistoryEntry
from commitlog.client.access.history_entries import entry_of
from commitlog.client.tables.names import TableName
from commitlog.domain.model import Outcome
from commitlog.domain.model.records.outcome_json import outcome_to_json


def shown_outcome(outcome: Outcome) -> dict[str, Any]:
    """The JSON form of an outcome, with its time also in the form that all commands have."""
    return {**outcome_to_json(outcome), "decided_at": entry_of(outcome).decided_at}


def entry_to_json(entry: HistoryEntry) -> dict[str, Any]:
    """The JSON form of an entry of the history."""
    return {**asdict(entry), "tables": [str(TableName(*each)) for each in entry.tables]}
