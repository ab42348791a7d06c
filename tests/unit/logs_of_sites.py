"""Logs in memory, each of a site."""

from __future__ import annotations

from typing import Any

from commitlog.testing import InMemoryCommitLog


def site(name: str, priority: int = 0, **options: Any) -> InMemoryCommitLog:
    log = InMemoryCommitLog(**options)
    with log.transaction() as tx:
        tx.configure(node_name=name, node_priority=priority)
    return log
