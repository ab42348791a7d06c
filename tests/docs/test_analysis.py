"""The workload of docs/analysis.py is one that a log takes."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from types import ModuleType

import pytest
from page_blocks import DOCS

from commitlog.testing import InMemoryCommitLog


@pytest.fixture
def analysis(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script; what it draws with is not installed here, and not asked for anything."""
    for name in ("matplotlib", "matplotlib.pyplot", "matplotlib.axes"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(sys.modules["matplotlib.axes"], "Axes", object, raising=False)
    spec = importlib.util.spec_from_file_location("analysis", DOCS / "analysis.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_workload_when_it_runs_then_its_writers_commit_every_kind_of_change(analysis: ModuleType) -> None:
    with InMemoryCommitLog() as log:
        analysis.work(log, seconds=0)
        writer = analysis.Writer(log, {table: {} for table in analysis.FILE_TABLES}, number=1)
        for _ in range(3):
            with log.transaction() as tx:
                writer.append(tx, "orders")
            writer._note(tx.changes[0], "orders", tx.outcome.assigned.data_file_ids)
        for act in (writer.update_account, writer.delete_rows, writer.compact, writer.alter):
            with log.transaction() as tx:
                act(tx, "orders")
            writer._note(tx.changes[0], "orders", tx.outcome.assigned.data_file_ids)
        kinds = Counter(str(change.kind) for outcome in log.outcomes for change in outcome.proposal.changes)
    assert kinds == {
        "CREATE_TABLE": 3,
        "INSERT_ROW": analysis.ACCOUNTS,
        "APPEND": 5,
        "UPDATE_ROW": 1,
        "DELETE": 1,
        "COMPACT": 1,
        "ALTER_TABLE": 1,
    }
