"""A log in memory for unit tests of programs that use commitlog: the same surface, the same rules, no servers.

    def test_my_job(tmp_path):
        log = InMemoryCommitLog(data_path=tmp_path)
        with log.transaction() as tx:
            tx.create_table("main.flights", {"id": "int64"})
        my_job(log)
        assert log.outcomes[-1].verdict == "COMMITTED"

Every proposal is decided by the real domain, at once. What is not here is what a broker and a catalog do: there are no
delays and no unknown outcomes, unless a test asks for one with ``lose_next_answer``.

Spark jobs run on it too: the table handle and the functions of ``commitlog.spark``, given ``log=``, ask the log on Spark's
driver alone; ``data_path`` is then where the job's files are. What Spark's tasks would have to reach needs a real log, such as
that of ``commitlog up``, and says so: ``outcomes``, ``verify``; ``format("commitlog")`` only knows logs by their settings.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import UUID

from commitlog.client.access.contents import Contents
from commitlog.client.access.dry_run import decided_unsent
from commitlog.client.access.log_access import OutcomeState, ProposalStatus, log_is_closed
from commitlog.client.access.memory_catalog import MemoryCatalog
from commitlog.client.arguments import checked_count
from commitlog.client.commit_log import CommitLog
from commitlog.client.tables.table_at import KnownTable, LiveFile, TableAt
from commitlog.domain import model as m
from commitlog.domain.deciding.answers import receipt_for
from commitlog.domain.deciding.rules import RowHandler
from commitlog.domain.model.nodes import LastBrought, Node
from commitlog.domain.model.settings import changed_settings
from commitlog.domain.state.index import SequencerState, new_state
from commitlog.domain.state.replaying import replay
from commitlog.errors import (
    ConfigurationError,
    InvalidChangeError,
    InvalidRequestError,
    OutcomeNotFoundError,
    OutcomeUnknownError,
    SnapshotNotFoundError,
)
from commitlog.log.batches import Decider, Incoming
from commitlog.log.row_handlers import InstalledHandlers
from commitlog.log.serving import DoubtError
from commitlog.log.topics import topics_of

__all__ = ["InMemoryCommitLog"]

_LOG_ID = bytes(16)
_POLL_S = 0.1
_SKEW_MS_MAX = 2**53
"""As much as the setting can be."""


@dataclass(frozen=True, slots=True)
class _Answered:
    """An answer that is there already, or never comes."""

    proposal_id: m.ProposalId
    receipt: m.Receipt | None

    def wait(self, timeout_s: float | None = None) -> m.Receipt:
        if self.receipt is None:
            waited_ms = None if timeout_s is None else int(timeout_s * 1000)
            raise OutcomeUnknownError(UUID(bytes=self.proposal_id), waited_ms=waited_ms)
        return self.receipt

    def on_answer(self, tell: Callable[[Any], None], timeout_s: float | None = None) -> None:
        tell(self)

    def forget(self) -> None:
        pass


class _GroupPosition:
    """How far a group of subscribers has come."""

    def __init__(self, positions: dict[str, int], group: str) -> None:
        self._positions = positions
        self._group = group

    def seq(self) -> int | None:
        return self._positions.get(self._group)

    def store(self, seq: int) -> None:
        self._positions[self._group] = seq

    def keep(self) -> None:
        pass

    def close(self) -> None:
        pass


class _WhileOpen:
    """The log's lock, which nobody has any more who still holds something of a log that was closed."""

    def __init__(self, access: _InMemoryAccess, lock: AbstractContextManager[Any]) -> None:
        self._access = access
        self._lock = lock

    def __enter__(self) -> None:
        if self._access.is_closed:
            raise log_is_closed()
        self._lock.__enter__()

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.__exit__(error_type, error, traceback)


class _InMemoryAccess:
    """A log whose sequencer is a function call."""

    def __init__(
        self,
        data_path: str,
        settings: m.LogSettings,
        clock_ms: Callable[[], int],
        handlers: Mapping[str, RowHandler],
    ) -> None:
        self._clock_ms = clock_ms
        self._changed = threading.Condition()
        self._handlers = handlers
        self._genesis = m.Genesis(_LOG_ID, created_at_ms=clock_ms(), settings=settings, data_path=data_path)
        self._undecidable: dict[m.Position, Exception] = {}
        self.outcomes: list[m.Outcome] = []
        self._decider = self._new_decider()
        self.is_closed = False
        self._contents = MemoryCatalog(lambda: self._state, self._genesis, _WhileOpen(self, self._changed))
        self._positions: dict[str, int] = {}
        self.answers_to_lose = 0

    @property
    def _state(self) -> SequencerState:
        return self._decider.state

    def _new_decider(self) -> Decider:
        """What a sequencer begins with after its start."""
        return Decider(
            reduce(replay, self.outcomes, new_state(self._genesis)),
            prev_hash=bytes(32),
            epoch=1,
            topics=topics_of("memory"),
            handlers=self._handlers,
            undecidable=self._undecidable,
        )

    @property
    def settings(self) -> m.LogSettings:
        return self._state.settings

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._clock_ms() / 1000, UTC)

    def newest_settings(self) -> m.LogSettings:
        return self._state.settings

    def head_snapshot_id(self) -> int:
        return self._state.head_snapshot_id

    def wait_for_head(self, timeout_ms: int | None = None) -> int:
        return self._state.head_snapshot_id

    def hear(self, receipt: m.Receipt) -> None:
        pass

    def newest_known_table(self, schema: str, table: str) -> KnownTable | None:
        head = self._state.head_snapshot_id
        at = self.table_at(schema, table, head)
        return None if at is None else KnownTable(head, at)

    def known_table(self, schema: str, table: str, snapshot_id: int) -> TableAt | None:
        return None

    def table_at(self, schema: str, table: str, snapshot_id: int) -> TableAt | None:
        with self._changed:
            self.reach_snapshot(snapshot_id)
            found = self._contents.table_at(schema, table, snapshot_id)
            return None if found is None else TableAt(found.definition, found.path.rstrip("/"))

    def reach_snapshot(self, snapshot_id: int) -> None:
        if snapshot_id > self._state.head_snapshot_id:
            raise SnapshotNotFoundError(snapshot_id, head_snapshot_id=self._state.head_snapshot_id)

    def contents(self) -> Contents:
        return self._contents

    def reader_url(self) -> str:
        raise InvalidRequestError(
            "a log in memory has no catalog that DuckDB could attach: read its tables with log.table(...).scan(), and ask "
            "DuckDB about what to_arrow() gives"
        )

    def new_table_path(self, schema: str, table: str, *, is_schema_new: bool = False) -> str | None:
        return self._contents.new_table_path(schema, table, is_schema_new=is_schema_new)

    def live_files(self, table_id: int, paths: Sequence[str]) -> Sequence[LiveFile]:
        return self._contents.live_files(table_id, paths)

    def claim_data_path(self) -> None:
        pass

    @property
    def partitions_of_machines(self) -> int:
        return 1

    def send(
        self,
        proposal: m.Proposal,
        encoded: bytes,
        *,
        timeout_s: float | None = None,
        traceparent: str | None = None,
        is_awaited: bool = False,
        is_bulk: bool = False,
    ) -> _Answered:
        with self._changed:
            if self.is_closed:
                raise log_is_closed()
            outcome = self._decided(Incoming(0, len(self.outcomes), None, encoded))
            self.outcomes.append(outcome)
            self._contents.take(outcome)
            lost = self.answers_to_lose > 0
            self.answers_to_lose -= lost
            self._changed.notify_all()
            return _Answered(proposal.proposal_id, None if lost else receipt_for(self._state, outcome))

    def _decided(self, message: Incoming) -> m.Outcome:
        try:
            outcome, _ = self._decider.decide_one(message, now_ms=self._clock_ms(), told=0)
        except DoubtError:
            self._decider = self._new_decider()
            outcome, _ = self._decider.decide_one(message, now_ms=self._clock_ms(), told=0)
        return outcome

    def decide_unsent(self, proposal: m.Proposal) -> m.Outcome:
        with self._changed:
            return decided_unsent(self._state, proposal, handlers=self._handlers, now_ms=self._clock_ms())

    def state_before(self, seq: int) -> SequencerState:
        return self._replayed(seq)

    def _replayed(self, seq: int) -> SequencerState:
        with self._changed:
            outcomes = self.outcomes[: seq - 1]
        return reduce(replay, outcomes, new_state(self._genesis))

    def find(self, proposal_id: m.ProposalId) -> ProposalStatus:
        with self._changed:
            found = [each for each in self.outcomes if each.proposal_id == proposal_id]
            position = m.Position(0, len(self.outcomes))
        first = next((each for each in found if each.verdict is not m.Verdict.DUPLICATE), found[0] if found else None)
        state = OutcomeState.NEVER_SEEN if first is None else OutcomeState.DECIDED
        return ProposalStatus(proposal_id, state, first, (position,))

    def outcome_at(self, seq: int) -> m.Outcome | None:
        return self.outcomes[seq - 1] if 0 < seq <= len(self.outcomes) else None

    def committed_as(self, writer_id: str, writer_seq: int) -> m.Outcome | None:
        for each in self.outcomes:
            asked = None if each.verdict is not m.Verdict.COMMITTED else each.proposal
            if asked is not None and (asked.writer_id, asked.writer_seq) == (writer_id, writer_seq):
                return each
        return None

    def last_seq(self) -> int:
        return len(self.outcomes)

    def node(self) -> Node | None:
        return self._state.node

    def digest(self, before_seq: int | None = None, *, wait: bool = True) -> Mapping[str, m.KnownNode]:
        return dict((self._state if before_seq is None else self._replayed(before_seq)).digest)

    def last_by(self, link: str) -> LastBrought | None:
        writer = self._state.writer(link)
        if writer is None or not writer.committed_seqs:
            return None
        snapshot_id = writer.committed_seqs.max()
        outcome = self.committed_as(link, snapshot_id)
        assert outcome is not None
        return LastBrought(snapshot_id, outcome.seq)

    def taken_over_by(self, node: str, tick: int) -> int | None:
        for each in self.outcomes:
            came = None if each.snapshot_id is None or each.proposal is None else each.proposal.replicated
            if came is not None and (came.node, came.tick) == (node, tick):
                return each.seq
        return None

    def sent_offsets(self) -> Mapping[int, int]:
        return {0: len(self.outcomes)}

    def decided_offsets(self) -> Mapping[int, int]:
        return self.sent_offsets()

    def has_undecided(self, done: Mapping[int, int], ends: Mapping[int, int]) -> bool:
        return False

    def subscribe(self, after_seq: int, *, follow: bool) -> Iterator[Sequence[m.Outcome]]:
        at = after_seq
        if at > len(self.outcomes):
            raise OutcomeNotFoundError(at, last_seq=len(self.outcomes))
        while True:
            with self._changed:
                if follow and at >= len(self.outcomes) and not self.is_closed:
                    self._changed.wait(_POLL_S)
                if at >= len(self.outcomes) and (self.is_closed or not follow):
                    return
                outcomes = self.outcomes[at:]
            at += len(outcomes)
            yield outcomes

    def group_position(self, group: str) -> _GroupPosition:
        return _GroupPosition(self._positions, group)

    def wait_for_snapshot(self, snapshot_id: int, timeout_ms: int) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: self._state.head_snapshot_id >= snapshot_id, timeout_ms / 1000):
                raise SnapshotNotFoundError(snapshot_id, head_snapshot_id=self._state.head_snapshot_id)

    def close(self) -> None:
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()


class InMemoryCommitLog(CommitLog):
    """A ``CommitLog`` without servers.

    Args:
        data_path: where the lake's files are; needed only for paths of data files.
        clock_ms: what time it is, in milliseconds since 1970; None is this machine's clock.
        writer_id: who writes, where a transaction does not say.
        handlers: row handlers by name; None is those that are installed.
        settings: first settings of the log, such as ``conflict_granularity``.

    Raises:
        ConfigurationError: there is no such setting, or it cannot be that.
        InvalidRequestError: the clock does not give whole milliseconds.
    """

    def __init__(
        self,
        *,
        data_path: str | Path = "lake",
        clock_ms: Callable[[], int] | None = None,
        writer_id: str = "test",
        handlers: Mapping[str, RowHandler] | None = None,
        **settings: Any,
    ) -> None:
        read_ms = clock_ms or (lambda: time.time_ns() // 1_000_000)
        if clock_ms is not None:
            # Ids are made by this machine's clock, which may be years ahead of a test's.
            settings = {"clock_skew_ms_max": _SKEW_MS_MAX, **settings}
        known = InstalledHandlers() if handlers is None else handlers
        # As a log's settings have it: the path means the same folder wherever the process goes.
        place = os.fspath(data_path) if "://" in os.fspath(data_path) else os.path.abspath(data_path)
        place = place.rstrip("/") or "/"
        self._memory = _InMemoryAccess(
            place, _first_settings(settings), lambda: checked_count("what clock_ms returns", read_ms()), known
        )
        super().__init__(self._memory, writer_id=writer_id)

    @property
    def outcomes(self) -> tuple[m.Outcome, ...]:
        """Every outcome so far, in order."""
        return tuple(self._memory.outcomes)

    def lose_next_answer(self) -> None:
        """Let the next proposal be decided, and its writer see an ``OutcomeUnknownError``."""
        self._memory.answers_to_lose += 1


def _first_settings(given: Mapping[str, Any]) -> m.LogSettings:
    unknown = given.keys() - set(m.LogSettings.FIELDS)
    if unknown:
        raise ConfigurationError(f"a log has no setting {', '.join(sorted(unknown))}")
    try:
        return changed_settings(m.LogSettings(), given) if given else m.LogSettings()
    except InvalidChangeError as error:
        raise ConfigurationError(str(error)) from None
