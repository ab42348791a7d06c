"""What a client needs of a log: the border between the API and where the log is (a broker, or memory in tests).

``CommitLog`` and ``Transaction`` are written against this alone, so that the in-memory log of ``commitlog.testing`` has
the same surface by construction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from commitlog.client.access.contents import Contents
from commitlog.client.tables.table_at import KnownTable, LiveFile, TableAt
from commitlog.domain.model import KnownNode, LogSettings, Outcome, Position, Proposal, ProposalId, Receipt
from commitlog.domain.model.nodes import LastBrought, Node
from commitlog.domain.state.index import SequencerState
from commitlog.errors import InvalidRequestError


def log_is_closed() -> InvalidRequestError:
    """What is said of a log that was closed."""
    return InvalidRequestError("the log was closed: connect to it again (CommitLog.connect)")


class OutcomeState(StrEnum):
    """What is known of a proposal id."""

    DECIDED = "DECIDED"
    UNDECIDED = "UNDECIDED"
    NEVER_SEEN = "NEVER_SEEN"


@dataclass(frozen=True, slots=True)
class ProposalStatus:
    """The answer to "what became of it".

    Attributes:
        proposal_id: the id that was asked for.
        state: DECIDED, UNDECIDED (sent, and still queued), or NEVER_SEEN up to ``positions``.
        outcome: the first outcome of the id, when it is decided.
        positions: the end of each proposals partition that was searched.
    """

    proposal_id: ProposalId
    state: OutcomeState
    outcome: Outcome | None = None
    positions: tuple[Position, ...] = ()


class PendingAnswer(Protocol):
    """A proposal on its way."""

    def wait(self, timeout_s: float | None = None) -> Receipt:
        """Wait for the receipt.

        Raises:
            OutcomeUnknownError: no answer in time.
        """
        ...

    def on_answer(self, tell: Callable[[Any], None], timeout_s: float | None = None) -> None:
        """Call back, once, with this, when the receipt has come or the time is over: from then on `wait` takes no time."""
        ...

    def forget(self) -> None:
        """Nobody waits for it any more."""
        ...


class GroupPosition(Protocol):
    """The last outcome that a group of subscribers has handled."""

    def seq(self) -> int | None:
        """Its ``seq``; None when nothing is kept."""
        ...

    def store(self, seq: int) -> None:
        """Keep another one."""
        ...

    def keep(self) -> None:
        """Keep the same one on; asked again and again while nothing is handled."""
        ...

    def close(self) -> None:
        """Let go of connections; what was stored is kept by then."""
        ...


class LogAccess(Protocol):
    """A log, wherever it is."""

    @property
    def settings(self) -> LogSettings:
        """The limits and windows of the log, as they are known without asking anybody."""
        ...

    def now(self) -> datetime:
        """What time it is: by this machine's clock, or by the one that a test has given its log."""
        ...

    def newest_settings(self) -> LogSettings:
        """The same as they are by now: who reads the log's end sees what was configured before.

        Raises:
            CatalogBehindError: readers cannot see it in time.
        """
        ...

    def head_snapshot_id(self) -> int:
        """The newest snapshot, with all that was acknowledged before, by whomever; readers can see it.

        Where the setting ``staleness_ms`` allows it, one that is so much older.

        Raises:
            CatalogBehindError: readers cannot see it in time.
        """
        ...

    def wait_for_head(self, timeout_ms: int | None = None) -> int:
        """The newest snapshot, whatever ``staleness_ms`` allows; None waits as long as ``head_snapshot_id``.

        Raises:
            CatalogBehindError: readers cannot see it in time.
        """
        ...

    def hear(self, receipt: Receipt) -> None:
        """Take note of what an answer says of the head."""
        ...

    def newest_known_table(self, schema: str, table: str) -> KnownTable | None:
        """A table as it was at the head not long ago, by what answers have said; None where somebody would have to be asked.

        Its properties may be older.
        """
        ...

    def known_table(self, schema: str, table: str, snapshot_id: int) -> TableAt | None:
        """The same as of a snapshot; None where somebody would have to be asked."""
        ...

    def table_at(self, schema: str, table: str, snapshot_id: int) -> TableAt | None:
        """A table as of a snapshot, None when there is none of that name.

        Raises:
            SnapshotNotFoundError: the snapshot is beyond the head.
        """
        ...

    def reach_snapshot(self, snapshot_id: int) -> None:
        """See that readers see a snapshot, which may have been seen elsewhere before.

        Raises:
            SnapshotNotFoundError: it is beyond the head.
            CatalogBehindError: readers cannot see it in time.
        """
        ...

    def contents(self) -> Contents:
        """What the tables hold, as far as readers see it by now."""
        ...

    def reader_url(self) -> str:
        """The database that a client of DuckDB attaches, for a login that reads.

        Raises:
            InvalidRequestError: there is none.
        """
        ...

    def new_table_path(self, schema: str, table: str, *, is_schema_new: bool = False) -> str | None:
        """Where the files of a table will be that does not exist yet, nor its schema where that is new; None when that is not
        known."""
        ...

    def live_files(self, table_id: int, paths: Sequence[str]) -> Sequence[LiveFile]:
        """The data files of these paths that a table has at the head, as its records name them."""
        ...

    def claim_data_path(self) -> None:
        """See that the lake's folder is this log's before files in it are proposed.

        Raises:
            ConfigurationError: it is another log's.
        """
        ...

    @property
    def partitions_of_machines(self) -> int:
        """Of how many partitions the names of all processes of a machine are to lie in one; 1 where it does not matter."""
        ...

    def send(
        self,
        proposal: Proposal,
        encoded: bytes,
        *,
        timeout_s: float | None = None,
        traceparent: str | None = None,
        is_awaited: bool = False,
        is_bulk: bool = False,
    ) -> PendingAnswer:
        """Send a proposal and return at once, or when there is room for it; that, or a log that does not answer, may take
        up to ``timeout_s``.

        Args:
            proposal: what is sent.
            encoded: the same as the log holds it.
            timeout_s: None is as long as an answer is waited for.
            traceparent: the span that it is sent in.
            is_awaited: the caller does nothing else before `PendingAnswer.wait`.
            is_bulk: it is one of as many as can be sent.

        Raises:
            LogUnavailableError: the log does not answer; nothing was sent.
        """
        ...

    def decide_unsent(self, proposal: Proposal) -> Outcome:
        """What the answer to a proposal would be now; nothing is sent."""
        ...

    def state_before(self, seq: int) -> SequencerState:
        """The state in which an outcome was decided: a copy of its own, made by replaying the log.

        Raises:
            HistoryUnavailableError: the log's beginning is gone, or it is too long to replay.
        """
        ...

    def find(self, proposal_id: ProposalId) -> ProposalStatus:
        """What became of a proposal."""
        ...

    def outcome_at(self, seq: int) -> Outcome | None:
        """The outcome at a place in the log, whole; None when the log does not reach so far."""
        ...

    def committed_as(self, writer_id: str, writer_seq: int) -> Outcome | None:
        """What a writer has committed under a ``writer_seq``, without its proposal where that was archived and trimmed; None
        when there is nothing."""
        ...

    def last_seq(self) -> int:
        """The seq of the last outcome; 0 when there is none yet."""
        ...

    def node(self) -> Node | None:
        """What the log is among several sites; None when it is no node.

        Raises:
            CatalogBehindError: readers cannot see the log's head in time.
        """
        ...

    def digest(self, before_seq: int | None = None, *, wait: bool = True) -> Mapping[str, KnownNode]:
        """How far the log had taken over other nodes before an outcome, by their names; None: by now, or without ``wait`` as
        far as readers see it.

        Raises:
            CatalogBehindError: readers cannot see the log's head in time.
        """
        ...

    def last_by(self, link: str) -> LastBrought | None:
        """The newest snapshot that a link, by its writer id, has brought; None when there is none.

        Raises:
            CatalogBehindError: readers cannot see the log's head in time.
        """
        ...

    def taken_over_by(self, node: str, tick: int) -> int | None:
        """The seq of the outcome that took over a snapshot of another node, as far as readers see it; None when there is
        none."""
        ...

    def sent_offsets(self) -> Mapping[int, int]:
        """By partition of the proposals, the offset after the last one, or after the end of somebody's Kafka transaction.

        Raises:
            LogUnavailableError: no broker has answered.
        """
        ...

    def decided_offsets(self) -> Mapping[int, int]:
        """By partition of the proposals, the offset after the last one that readers know to be decided."""
        ...

    def has_undecided(self, done: Mapping[int, int], ends: Mapping[int, int]) -> bool:
        """Whether a proposal that readers do not know to be decided either lies between the offsets up to which all are, by
        partition, and some ends: the ends of Kafka transactions are none.

        Raises:
            LogUnavailableError: no broker has answered.
        """
        ...

    def subscribe(self, after_seq: int, *, follow: bool) -> Iterator[Sequence[Outcome]]:
        """Outcomes in order, from the one after a seq, as many at once as are there; with ``follow`` also those to come, until
        the log is closed, and none now and then while none come.

        Raises:
            OutcomeNotFoundError: the log does not reach so far.
            ResultsTrimmedError: what comes after it was archived and trimmed.
        """
        ...

    def group_position(self, group: str) -> GroupPosition:
        """The position of a group of subscribers."""
        ...

    def wait_for_snapshot(self, snapshot_id: int, timeout_ms: int) -> None:
        """Wait until readers can see a snapshot.

        Raises:
            SnapshotNotFoundError: not in time.
        """
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...
