"""One snapshot: who made it, what was asked for, and what it changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from commitlog.client.access.contents import Contents
from commitlog.domain.model import Outcome
from commitlog.errors import InvalidRequestError, SnapshotNotFoundError

if TYPE_CHECKING:
    from commitlog.catalog.history import HistoryEntry
    from commitlog.catalog.snapshot_diff import ObjectDifference


class ShownLog(Protocol):
    """What is asked of a log, which is a ``CommitLog``."""

    def history(self, limit: int | None = None, *, snapshot: int | None = None) -> list[HistoryEntry]: ...

    def contents(self) -> Contents: ...

    def subscribe(self, after_seq: int = 0, *, follow: bool = True) -> Iterator[Outcome]: ...


@dataclass(frozen=True, slots=True)
class SnapshotStory:
    """A snapshot.

    entry: who made it, and when. outcome: what was asked for, and the answer. differences: from the snapshot before; None
    where that is not known any more.
    """

    entry: HistoryEntry
    outcome: Outcome
    differences: list[ObjectDifference] | None


def snapshot_story(log: ShownLog, snapshot_id: int) -> SnapshotStory:
    """Tell a snapshot's story.

    Raises:
        SnapshotNotFoundError: there is no such snapshot, or not any more.
        InvalidRequestError: it is the one that the log began with, which no commit made.
    """
    found = log.history(1, snapshot=snapshot_id)
    if not found:
        log.contents().check_snapshot(snapshot_id)
        raise InvalidRequestError(f"snapshot {snapshot_id} is what the log began with: no commit made it")
    outcome = next(log.subscribe(found[0].seq - 1, follow=False))
    try:
        differences = log.contents().differences(snapshot_id - 1, snapshot_id)
    except SnapshotNotFoundError:
        differences = None
    return SnapshotStory(found[0], outcome, differences)
