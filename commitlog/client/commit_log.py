"""The log as a program sees it: transactions, outcomes, subscriptions.

It adds to ``LogAccess`` what does not depend on where the log is: bases, repeats, retries, and the order of a writer's
proposals.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from numbers import Real
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from uuid import UUID

from commitlog.client.access.contents import Contents
from commitlog.client.access.log_access import LogAccess, OutcomeState, PendingAnswer, ProposalStatus
from commitlog.client.access.unanswered import UnansweredProposals
from commitlog.client.arguments import (
    checked_count,
    checked_count_or_none,
    checked_flag,
    checked_items,
    checked_text,
    checked_text_or_none,
    shown,
)
from commitlog.client.files.given_files import Files
from commitlog.client.files.new_files import NewFiles
from commitlog.client.files.outside import checked_outside
from commitlog.client.futures import submitted_future
from commitlog.client.ids import as_proposal_id, new_proposal_id
from commitlog.client.limits import check_limits
from commitlog.client.outcomes.repeats import check_repeat
from commitlog.client.outcomes.submitted import SubmittedOutcome, answered, answered_before, answered_first
from commitlog.client.reading.moments import as_moment
from commitlog.client.table import Table
from commitlog.client.tables.names import TableName, parse_table_name
from commitlog.client.tables.partitions import partition_specs
from commitlog.client.tables.table_at import LiveFile, TableAt
from commitlog.client.transaction import Transaction, make_options
from commitlog.client.writing.file_append import FileAppend
from commitlog.client.writing.keys import table_key
from commitlog.client.writing.rows import RowData, rows_or_files
from commitlog.client.writing.written import WrittenFiles
from commitlog.domain import model as m
from commitlog.errors import (
    CommitLogError,
    DataFileError,
    InvalidRequestError,
    KeyReusedError,
    OutcomeUnknownError,
    ProposalRejectedError,
)

if TYPE_CHECKING:
    from typing import Self

    from duckdb import DuckDBPyConnection

    from commitlog.catalog.history import HistoryEntry
    from commitlog.catalog.queries import CatalogSnapshot
    from commitlog.catalog.snapshot_diff import ObjectDifference
    from commitlog.client.outcomes.explaining import Explanation
    from commitlog.client.outcomes.snapshot_story import SnapshotStory
    from commitlog.client.writing.appending import RowAppend

T = TypeVar("T")

DEFAULT_TIMEOUT_MS = 30_000
IN_FLIGHT_MAX = 10_000
TIMEOUT_S_MAX = 1e6
Proposed: TypeAlias = Transaction | m.Proposal
_RETRIED = (m.Reason.CONFLICT, m.Reason.BASE_EXPIRED)


class CommitLog:
    """A connection to a log. Made by ``CommitLog.connect()``; usable by several threads.

    Args:
        access: where the log is.
        writer_id: who writes, where a transaction does not say; None makes a name of this process's own.
        timeout_ms: how long an answer is waited for, where a call does not say.
    """

    def __init__(
        self, access: LogAccess, *, writer_id: str | None = None, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> None:
        self._access = access
        self._timeout_ms = timeout_ms
        self._unanswered = UnansweredProposals(self._is_decided)
        self._seen_snapshot_id = 0
        self.new_files = NewFiles()
        given = checked_text_or_none("writer_id", writer_id)
        self.writer_id = given or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"

    @classmethod
    def connect(cls, *, writer_id: str | None = None, **settings: Any) -> Self:
        """Connect to a log by its settings: arguments, ``COMMITLOG_*``, ``commitlog.toml``, or the embedded runtime.

        Args:
            writer_id: who writes; None makes a name of this process's own.
            settings: see ``Settings.load``; ``settings=Settings(...)`` takes them as they are.

        Raises:
            ConfigurationError: a setting is wrong; the message names it and its source.
            LogUnavailableError: the broker does not answer.
        """
        from commitlog.client.access.kafka_access import KafkaAccess
        from commitlog.config import Settings

        given = settings.pop("settings", None)
        if given is not None and (settings or not isinstance(given, Settings)):
            raise InvalidRequestError("give settings=Settings(...) or single settings, not both")
        loaded = given if given is not None else Settings.load(**settings)
        return cls(KafkaAccess(loaded), writer_id=writer_id, timeout_ms=loaded.receipts_timeout_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of connections."""
        self._access.close()

    # --- writing ------------------------------------------------------------------------------------------------------

    def transaction(
        self,
        *,
        isolation: str | m.Isolation = m.Isolation.SNAPSHOT,
        message: str | None = None,
        author: str | None = None,
        extra: str | None = None,
        writer_id: str | None = None,
        writer_epoch: int | None = None,
        writer_seq: int | None = None,
        base_snapshot_id: int | None = None,
        proposal_id: bytes | str | UUID | None = None,
        decide_before_ms: int | None = None,
        timeout_ms: int | None = None,
    ) -> Transaction:
        """Begin a transaction; it commits when its ``with`` block ends without an exception.

        Args:
            isolation: "snapshot" (only writes are checked) or "serializable" (also what was read).
            message: shown in the history.
            author: shown in the history.
            extra: any text that is to travel with the commit, such as offsets of a stream.
            writer_id: who writes; else the connection's.
            writer_epoch: from ``open_writer``; a lower one than the highest seen is refused.
            writer_seq: a number of the writer's own that commits once only, whatever happens.
            base_snapshot_id: what the changes are computed from; else the newest snapshot, see ``head_snapshot_id``.
            proposal_id: the id to send with; else a new one. With the same id, a proposal is decided once.
            decide_before_ms: a proposal that comes to the sequencer later than this is refused.
            timeout_ms: how long to wait for the answer.
        """
        options = make_options(
            base_snapshot_id=self.head_snapshot_id()
            if base_snapshot_id is None
            else checked_count("base_snapshot_id", base_snapshot_id),
            writer_id=self.writer_id if writer_id is None else checked_text("writer_id", writer_id),
            proposal_id=None if proposal_id is None else as_proposal_id(proposal_id),
            isolation=_isolation(isolation),
            writer_epoch=checked_count_or_none("writer_epoch", writer_epoch),
            writer_seq=checked_count_or_none("writer_seq", writer_seq),
            decide_before_ms=checked_count_or_none("decide_before_ms", decide_before_ms),
            author=checked_text_or_none("author", author),
            message=checked_text_or_none("message", message),
            extra=checked_text_or_none("extra", extra),
            timeout_ms=checked_count_or_none("timeout_ms", timeout_ms),
        )
        return Transaction(self, options)

    def run(self, fn: Callable[[Transaction], object], *, attempts: int = 5, **options: Any) -> SubmittedOutcome:
        """Commit what ``fn`` puts into a transaction; after a conflict call it again on the new head.

        Args:
            fn: reads what it needs at ``tx.base_snapshot_id`` and makes its changes; it may be called several times.
            attempts: how often it is called at most.
            options: see ``transaction``.

        Raises:
            ProposalRejectedError: the last attempt was refused too, or for a reason that a rebase does not mend.
        """
        if not callable(fn):
            raise InvalidRequestError(f"fn must be a function of a transaction, not {shown(fn)}")
        _check_attempts(attempts)
        return self._run(fn, Transaction.commit, attempts, options)

    def append(
        self,
        table: str,
        data: RowData | None = None,
        *,
        files: Files | None = None,
        outside: str | None = None,
        create: bool = False,
        partition_by: Iterable[str | m.PartitionSpec] = (),
        key: str | None = None,
        attempts: int = 5,
        **options: Any,
    ) -> SubmittedOutcome | None:
        """Add rows to a table, in a commit of its own that relies on nothing that was read.

        So the newest snapshot need not be known, and nobody is asked for it as long as answers do not tell that a schema has
        changed. If the table turns out to be altered, what is written is checked against what it is now, and sent again.

        Args:
            table: its name.
            data: see ``Transaction.append``.
            files: see ``Transaction.append``.
            outside: what becomes of files that are not below the table's folder: "copy" (the default), "move" or
                "reference"; see ``Transaction.append``.
            create: create the table for the columns of the rows, or of the first file, in the same commit, if there is none.
            partition_by: of a table that is created: columns, or ``"month(day)"``, ``"bucket(16, id)"``.
            key: names this write to this table, such as ``load:1`` or ``nightly:2026-03-02``: when it has been committed
                under this name before, nothing is written, and the answer is the first one.
            attempts: how often it is sent at most, each time with an id of its own; once if ``proposal_id`` is given.
            options: see ``transaction``; without a base and an isolation, which are about what was read.

        Returns:
            The answer; None when there were no rows and no table to create, and so nothing to commit.

        Raises:
            InvalidRequestError: ``data`` is no rows.
            TableNotFoundError: there is no such table.
            DataFileError: the rows do not fit the table; or a file is missing, is not Parquet, does not fit the table, cannot
                be brought into its folder, or is in it already.
            ProposalRejectedError: the last attempt was refused, or for a reason that checking again does not mend. What was
                written is removed.
            OutcomeUnknownError: no answer in time. What was written stays, for it may yet be accepted.
        """
        for name in ("base_snapshot_id", "isolation"):
            if name in options:
                raise InvalidRequestError(
                    f"append relies on nothing that was read: use log.transaction({name}=...) instead"
                )
        given, bring_by = rows_or_files(data, files), checked_outside(outside)
        _check_attempts(attempts)
        attempts = attempts if options.get("proposal_id") is None else 1
        keys = partition_specs(partition_by)
        if not checked_flag("create", create) and keys:
            raise InvalidRequestError("partition_by is for a table that is created: add create=True")
        parsed = parse_table_name(table)
        if key is not None:
            options |= _key_options(key, table, options)
            if (first := self._committed_as(options["writer_id"], options["writer_seq"])) is not None:
                return first
        if isinstance(given, tuple):
            return self._append(parsed, FileAppend(parsed, given, bring_by, create, keys), attempts, options)
        if bring_by is not None:
            raise InvalidRequestError(
                f"outside={outside!r} is for files=[...]: rows are written into the table's folder"
            )
        from commitlog.client.writing.appending import RowAppend

        self.claim_data_path()
        written = WrittenFiles()
        with written.until_answered():
            rows = RowAppend(parsed, given, written, create=create, partition_by=keys)
            outcome = self._append(parsed, rows, attempts, options)
        return None if outcome is None else written.answered(outcome)

    def change_rows(
        self,
        table: str,
        change: Callable[[Transaction], None],
        *,
        key: str | None = None,
        attempts: int = 5,
        **options: Any,
    ) -> SubmittedOutcome | None:
        """Commit a change of a table's rows that relies on what it reads; after a conflict it is computed again.

        Args:
            table: its name.
            change: reads what it needs at the transaction's base and puts its changes in; it may be called several times.
            key: names this write to this table, such as ``load:1``: when it has been committed under this name before,
                nothing is read or written, and the answer is the first one.
            attempts: how often it is computed at most.
            options: see ``transaction``; the isolation is SERIALIZABLE unless it is given.

        Returns:
            The answer; None when there was nothing to change.
        """
        if not callable(change):
            raise InvalidRequestError(f"change must be a function of a transaction, not {shown(change)}")
        _check_attempts(attempts)
        if key is not None:
            options |= _key_options(key, table, options)
            if (first := self._committed_as(options["writer_id"], options["writer_seq"])) is not None:
                return first
        return self._run(change, _commit_if_any, attempts, {"isolation": m.Isolation.SERIALIZABLE, **options})

    def new_file(self, table: str) -> str:
        """A path for a new Parquet file of a table, see ``Transaction.new_file``.

        Raises:
            TableNotFoundError: there is no such table.
        """
        parsed = parse_table_name(table)
        known = self._access.newest_known_table(parsed.schema, parsed.name)
        return self.new_files.below(table, self.table(table).at().path if known is None else known.table.path)

    def submit(self, proposal: m.Proposal, *, timeout_ms: int | None = None) -> SubmittedOutcome:
        """Send a proposal as it is and wait for its answer, whichever it is.

        Raises:
            OutcomeUnknownError: no answer in time.
            KeyReusedError: its id, or its ``writer_seq``, was answered before, for another write.
            ProposalTooLargeError: it is over the log's limit; nothing was sent.
        """
        encoded = self._encoded(proposal)
        deadline = time.monotonic() + self._timeout_s(timeout_ms)
        with self._unanswered.turn(proposal, timeout_s=_left_s(deadline)):
            pending = self._access.send(proposal, encoded, timeout_s=_left_s(deadline))
            try:
                receipt = pending.wait(_left_s(deadline))
            finally:
                pending.forget()
        return self._answered(proposal, receipt)

    def submit_async(self, proposed: Proposed, *, timeout_ms: int | None = None) -> Future[SubmittedOutcome]:
        """Send a proposal and go on; what `submit` would give or raise for its answer is in the future.

        The future is done when the answer has come, or the time is over, whether anybody waits for it or not; a refusal is an
        outcome. It cannot be cancelled: what was sent may be committed. What is called when it is done runs in a thread of
        the connection's own, and must not wait for another future.

        It waits for room while thousands are unanswered, and, with a ``writer_seq``, for the one before of its writer.

        Args:
            proposed: a proposal, or a transaction, which is not committed otherwise.
            timeout_ms: how long to wait for room, and for the answer.

        Raises:
            OutcomeUnknownError: the writer's proposal before is still unanswered; this one was not sent.
            ProposalTooLargeError: it is over the log's limit; nothing was sent.
            LogUnavailableError: too many are unanswered for too long, or the log does not answer; nothing was sent.
        """
        proposal = _handed_over(proposed)
        encoded = self._encoded(proposal)
        timeout_s = self._timeout_s(timeout_ms)
        return submitted_future(self._access, self._unanswered, self._answered, proposal, encoded, timeout_s)

    def publish_many(
        self, proposed: Iterable[Proposed], *, in_flight_max: int = IN_FLIGHT_MAX, timeout_ms: int | None = None
    ) -> Iterator[SubmittedOutcome | OutcomeUnknownError | KeyReusedError]:
        """Send many proposals without waiting for each one's answer; the answers come in the order of the proposals.

        A refusal is an outcome, and what ``submit`` would raise for one's answer takes the answer's place. They are sent as the
        answers are taken: so many at most are ahead of the answer that was taken last.

        Those with a ``writer_seq`` wait for the one before of their writer.

        Args:
            proposed: proposals, or transactions, which are not committed otherwise.
            in_flight_max: how many are sent ahead.
            timeout_ms: how long each one's answer is waited for.

        Raises:
            ProposalTooLargeError: one is over the log's limit; it and those after it were not sent.
            LogUnavailableError: the log does not answer; likewise.
        """
        if not isinstance(proposed, Iterable):
            raise InvalidRequestError(f"proposals must be a list of Proposals or Transactions, not {shown(proposed)}")
        checked_count("in_flight_max", in_flight_max)
        waiting: deque[tuple[m.Proposal, PendingAnswer]] = deque()
        numbered: set[str] = set()
        timeout_s = self._timeout_s(timeout_ms)

        def first_answer() -> SubmittedOutcome | OutcomeUnknownError | KeyReusedError:
            first, pending = waiting.popleft()
            if first.writer_seq is not None:
                numbered.discard(first.writer_id)
            return self._awaited(first, pending, timeout_s)

        for each in proposed:
            proposal = _handed_over(each)
            encoded = self._encoded(proposal)
            while waiting and (len(waiting) >= in_flight_max or _follows(proposal, numbered)):
                yield first_answer()
            waiting.append((proposal, self._access.send(proposal, encoded, timeout_s=timeout_s)))
            if proposal.writer_seq is not None:
                numbered.add(proposal.writer_id)
        while waiting:
            yield first_answer()

    def commit(self, proposal: m.Proposal, *, timeout_ms: int | None = None) -> SubmittedOutcome:
        """Like ``submit``, for a commit that must succeed.

        Raises:
            ProposalRejectedError: it was refused; ``conflicts`` say what it met.
            KeyReusedError: its id, or its ``writer_seq``, was answered before, for another write.
            InvalidRequestError: it has no changes; nothing was sent.
        """
        _check_kind(proposal)
        if not proposal.changes and not proposal.open_writer:
            raise InvalidRequestError("there is nothing to commit: the transaction has no changes; nothing was sent")
        outcome = self.submit(proposal, timeout_ms=timeout_ms)
        if not outcome.committed:
            raise ProposalRejectedError(outcome)
        return outcome

    def dry_run(self, proposed: Transaction | m.Proposal) -> m.Outcome:
        """What the answer would be if it were sent now; nothing is sent.

        The first time it replays the log (from a checkpoint, where this machine has one).
        """
        proposal = proposed.proposal() if isinstance(proposed, Transaction) else proposed
        _check_kind(proposal)
        return self._access.decide_unsent(proposal)

    def open_writer(
        self,
        writer_id: str | None = None,
        *,
        proposal_id: bytes | str | UUID | None = None,
        timeout_ms: int | None = None,
    ) -> int:
        """Take over a writer id: the answer is its new epoch, and proposals with a lower one are refused from now on.

        Args:
            writer_id: which; else the connection's.
            proposal_id: the id to send with; else a new one. The same id is given the same epoch again.
            timeout_ms: how long to wait for the answer.
        """
        proposal = m.Proposal(
            proposal_id=new_proposal_id() if proposal_id is None else as_proposal_id(proposal_id),
            writer_id=self.writer_id if writer_id is None else checked_text("writer_id", writer_id),
            base_snapshot_id=self.head_snapshot_id(),
            changes=(),
            open_writer=True,
            created_at_ms=time.time_ns() // 1_000_000,
        )
        outcome = self.commit(proposal, timeout_ms=timeout_ms)
        assert outcome.assigned.writer_epoch is not None
        return outcome.assigned.writer_epoch

    # --- asking -------------------------------------------------------------------------------------------------------

    def outcome(self, proposal_id: bytes | str | UUID) -> ProposalStatus:
        """What became of a proposal: DECIDED (with its outcome), UNDECIDED or NEVER_SEEN."""
        return self._access.find(as_proposal_id(proposal_id))

    def explain(self, proposal_id: bytes | str | UUID) -> str:
        """The story of a proposal in plain words; when it was refused with the ways out, the cheapest first.

        After a refusal for a conflict the log is replayed up to it (from a checkpoint, where this machine has an earlier
        one), and the proposal decided again under variations, to say which change would have let it through.
        """
        return str(self.explanation(proposal_id))

    def explanation(self, proposal_id: bytes | str | UUID) -> Explanation:
        """The same as a value: what became of the proposal, and each variation with what would have come of it."""
        from commitlog.client.outcomes.explaining import explain

        return explain(self._access, as_proposal_id(proposal_id))

    def outcome_at(self, seq: int) -> m.Outcome | None:
        """The outcome at a place in the log, with its proposal; None when the log does not reach so far."""
        return self._access.outcome_at(checked_count("seq", seq))

    def subscribe(self, after_seq: int = 0, *, follow: bool = True) -> Iterator[m.Outcome]:
        """Outcomes in the log's order, refusals too, each with its ``seq``, by which one can go on later.

        Args:
            after_seq: the ``seq`` of the last outcome that is known already; 0 starts at the beginning.
            follow: wait for outcomes to come, for ever; else stop at the end of the log as it is now.

        Raises:
            InvalidRequestError: ``after_seq`` is no seq.
            OutcomeNotFoundError: the log does not reach so far; when the first outcome is asked for.
        """
        return self._access.subscribe(checked_count("after_seq", after_seq), follow=checked_flag("follow", follow))

    def seq_before(self, moment: datetime | str) -> int:
        """The ``seq`` of the last outcome that was decided before a moment, from which ``subscribe`` can go on; 0 is none.

        Args:
            moment: a datetime or ISO 8601, in UTC unless it says otherwise.
        """
        from commitlog.catalog.history import HistoryFilter

        wanted = as_moment("moment", moment)
        self.head_snapshot_id()
        contents = self.contents()
        newest = contents.history(HistoryFilter(limit=1))
        low, high = 0, newest[0].seq if newest else 0
        # Times never fall from one outcome to the next.
        while low < high:
            middle = (low + high + 1) // 2
            [found] = contents.history(HistoryFilter(limit=1, before_seq=middle + 1))
            low, high = (middle, high) if found.decided_at < wanted else (low, middle - 1)
        return low

    def last_seq(self) -> int:
        """The ``seq`` of the last outcome: the log's end as it is now; 0 when nothing has been decided."""
        return self._access.last_seq()

    def head_snapshot_id(self) -> int:
        """The newest snapshot: it holds all that was acknowledged before this call, to whichever process.

        The log is asked for its end, and the catalog waited for until it is there. With the setting ``staleness_ms`` the
        answer may be so much older, but for what this connection has committed itself.

        Raises:
            CatalogBehindError: the catalog is not there in time; the message says how far it is and why.
        """
        head = self._access.head_snapshot_id()
        return head if head >= self._seen_snapshot_id else self._access.wait_for_head()

    def wait_for_snapshot(self, snapshot_id: int | None = None, timeout: float | None = None) -> int:
        """Wait until whoever reads the catalog (DuckDB, SQL) sees a snapshot; return the one that was waited for.

        Args:
            snapshot_id: which; None is the newest, with all that was acknowledged before this call.
            timeout: in seconds.

        Raises:
            SnapshotNotFoundError: not in time.
            CatalogBehindError: the same, of the newest.
        """
        if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, Real) or not timeout >= 0):
            raise InvalidRequestError(f"timeout must be seconds, not {shown(timeout)}")
        timeout_ms = None if timeout is None else int(min(timeout, TIMEOUT_S_MAX) * 1000)
        if snapshot_id is None:
            return self._access.wait_for_head(timeout_ms)
        self._access.wait_for_snapshot(
            checked_count("snapshot_id", snapshot_id), self._timeout_ms if timeout_ms is None else timeout_ms
        )
        return snapshot_id

    def table(self, table: str) -> Table:
        """A table, to be read, written and asked about; nobody is asked whether it is there until then.

        Raises:
            InvalidRequestError: the name cannot be one.
        """
        return Table(self, parse_table_name(table))

    def tables(self, *, snapshot: int | None = None) -> list[str]:
        """The names of all tables, with their schemas, at a snapshot; None is the newest."""
        contents, at = self._contents_at(snapshot)
        return [str(TableName(schema, name)) for schema, name, _ in contents.tables(at)]

    def schemas(self, *, snapshot: int | None = None) -> list[str]:
        """The names of all schemas at a snapshot; None is the newest."""
        contents, at = self._contents_at(snapshot)
        return contents.schemas(at)

    def snapshots(self, limit: int | None = None, *, before: int | None = None) -> list[CatalogSnapshot]:
        """The snapshots, the newest first: when each was made, by whom, and what changed.

        Args:
            limit: how many at most; None is all that the log still knows.
            before: only those before this one.
        """
        self.head_snapshot_id()
        return self.contents().snapshots(
            limit=checked_count_or_none("limit", limit), before=checked_count_or_none("before", before)
        )

    def diff(self, first: int, last: int | None = None) -> list[ObjectDifference]:
        """What has become of each schema, table and view that is not the same at two snapshots; of tables also how many files
        and rows. ``Table.diff`` has the rows.

        Args:
            first: a snapshot.
            last: another one; None is the newest.

        Raises:
            SnapshotNotFoundError: there is no such snapshot, or not any more.
        """
        head = self.head_snapshot_id()
        upto = head if last is None else checked_count("last", last)
        return self.contents().differences(checked_count("first", first), upto)

    def show(self, snapshot_id: int) -> SnapshotStory:
        """A snapshot: who made it, which changes were asked for, and what came of them.

        Raises:
            SnapshotNotFoundError: there is no such snapshot, or not any more.
        """
        from commitlog.client.outcomes.snapshot_story import snapshot_story

        return snapshot_story(self, checked_count("snapshot_id", snapshot_id))

    def history(
        self,
        limit: int | None = None,
        *,
        before: int | None = None,
        table: str | None = None,
        writer: str | None = None,
        since: datetime | str | None = None,
        verdict: str | m.Verdict | None = None,
        snapshot: int | None = None,
    ) -> list[HistoryEntry]:
        """What was decided, the newest first, refusals too: who asked for which changes of which tables, and the answer.

        Args:
            limit: how many at most; None is all.
            before: only outcomes before this ``seq``.
            table: only what changed this table, or was refused for a conflict about it.
            writer: only what this ``writer_id`` has sent.
            since: only what was decided at this moment or later: a datetime or ISO 8601, in UTC unless it says otherwise.
            verdict: only "committed", "rejected" or "duplicate".
            snapshot: only what made this snapshot.

        Raises:
            InvalidRequestError: what is asked for cannot be.
        """
        from commitlog.catalog.history import HistoryFilter
        from commitlog.catalog.snapshot_diff import Named

        asked = HistoryFilter(
            limit=checked_count_or_none("limit", limit),
            before_seq=checked_count_or_none("before", before),
            table=None if table is None else Named(*parse_table_name(table)),
            writer_id=checked_text_or_none("writer", writer),
            since=None if since is None else as_moment("since", since),
            verdict=None if verdict is None else _verdict(verdict),
            snapshot_id=checked_count_or_none("snapshot", snapshot),
        )
        self.head_snapshot_id()
        return self.contents().history(asked)

    def duckdb(self, *, snapshot: int | None = None) -> DuckDBPyConnection:
        """The stock DuckDB client with the lake attached for reading, as ``lake``, which is its default catalog.

        It holds all that was committed before, and each query sees what is the newest then. Close it when it is done with,
        or use it in a ``with`` block.

        Args:
            snapshot: as of which snapshot every query reads; None is the newest.

        Raises:
            ConfigurationError: DuckDB is not installed: ``pip install 'commitlog[duckdb]'``.
            SnapshotNotFoundError: there is no such snapshot, or not any more.
            InvalidRequestError: the log is in memory.
        """
        from commitlog.client.reading.duckdb_client import lake_connection

        url = self._access.reader_url()
        self._contents_at(snapshot)
        return lake_connection(url, snapshot)

    def contents(self) -> Contents:
        """What the tables hold, as far as readers see it by now."""
        return self._access.contents()

    def table_at(self, name: TableName, snapshot_id: int) -> TableAt | None:
        """A table as of a snapshot; None when there is none of that name."""
        return self._access.table_at(name.schema, name.name, snapshot_id)

    def known_table(self, name: TableName, snapshot_id: int) -> TableAt | None:
        """A table as of a snapshot but for its properties, if it is known without asking anybody."""
        return self._access.known_table(name.schema, name.name, snapshot_id)

    def new_table_path(self, name: TableName) -> str | None:
        """Where the files of a table will be that does not exist yet; None when that is not known."""
        return self._access.new_table_path(name.schema, name.name)

    def live_files(self, table_id: int, paths: Sequence[str]) -> Sequence[LiveFile]:
        """The data files of these paths that a table has at the head, as its records name them."""
        named = checked_items("paths", paths, str, "paths")
        return self._access.live_files(checked_count("table_id", table_id), named)

    def claim_data_path(self) -> None:
        """See that the lake's folder is this log's, and no other's, before files in it are proposed.

        Raises:
            ConfigurationError: it is another log's; the message says whose.
        """
        self._access.claim_data_path()

    @property
    def settings(self) -> m.LogSettings:
        """The limits and windows of the log."""
        return self._access.settings

    # --- inside -------------------------------------------------------------------------------------------------------

    def _contents_at(self, snapshot: int | None) -> tuple[Contents, int]:
        at = self.head_snapshot_id() if snapshot is None else checked_count("snapshot", snapshot)
        contents = self.contents()
        contents.check_snapshot(at)
        return contents, at

    def _timeout_s(self, timeout_ms: int | None) -> float:
        return (self._timeout_ms if timeout_ms is None else checked_count("timeout_ms", timeout_ms)) / 1000

    def _encoded(self, proposal: m.Proposal) -> bytes:
        """A proposal as it is sent, once it is within the log's limits."""
        _check_kind(proposal)
        encoded = self._access.encode(proposal)
        check_limits(proposal, self._access.settings, len(encoded))
        return encoded

    def _answered(self, proposal: m.Proposal, receipt: m.Receipt) -> SubmittedOutcome:
        self._access.hear(receipt)
        if receipt.verdict is m.Verdict.DUPLICATE:
            outcome = self._repeated(proposal, receipt)
        else:
            # A receipt does not list what the proposal met.
            conflicts = receipt.reason is m.Reason.CONFLICT
            outcome = answered(proposal, receipt, self._met(receipt) if conflicts else None)
        self._see(outcome.snapshot_id)
        return outcome

    def _repeated(self, proposal: m.Proposal, receipt: m.Receipt) -> SubmittedOutcome:
        try:
            first = self._first(proposal, receipt)
        except CommitLogError:
            if receipt.same_content is not True:
                raise
            first = None
        if first is not None and first.proposal is not None:
            check_repeat(first.proposal, proposal, snapshot_id=first.snapshot_id)
        return answered_before(proposal, receipt, first)

    def _met(self, receipt: m.Receipt) -> m.Outcome | None:
        try:
            return self._access.outcome_at(receipt.seq)
        except CommitLogError:
            # The verdict is known, whatever the look-up runs into; what it met can be asked for later.
            return None

    def _first(self, proposal: m.Proposal, receipt: m.Receipt) -> m.Outcome | None:
        """What was decided under the key of a repeat."""
        if receipt.original_seq is not None:
            return self._access.outcome_at(receipt.original_seq)
        # The log has forgotten all but that it was; the catalog has not.
        if proposal.writer_seq is not None:
            committed = self._access.committed_as(proposal.writer_id, proposal.writer_seq)
            if committed is not None:
                return committed
        return self._access.find(proposal.proposal_id).outcome

    def _awaited(
        self, proposal: m.Proposal, pending: PendingAnswer, timeout_s: float
    ) -> SubmittedOutcome | OutcomeUnknownError | KeyReusedError:
        try:
            return self._answered(proposal, pending.wait(timeout_s))
        except (OutcomeUnknownError, KeyReusedError) as error:
            return error
        finally:
            pending.forget()

    def _see(self, snapshot_id: int | None) -> None:
        self._seen_snapshot_id = max(self._seen_snapshot_id, snapshot_id or 0)

    def _run(
        self, fn: Callable[[Transaction], object], commit: Callable[[Transaction], T], attempts: int, options: Any
    ) -> T:
        for remaining in range(attempts - 1, -1, -1):
            transaction = self.transaction(**options)
            try:
                fn(transaction)
            except BaseException:
                transaction.discard()
                raise
            try:
                return commit(transaction)
            except ProposalRejectedError as error:
                if remaining == 0 or error.outcome.reason not in _RETRIED:
                    raise
                self._see(getattr(error.outcome, "head_snapshot_id", None))
        raise AssertionError("the last attempt returns or raises")

    def _committed_as(self, writer_id: str, writer_seq: int) -> SubmittedOutcome | None:
        """The answer of a commit that was made before, by whichever process."""
        self.head_snapshot_id()
        first = self._access.committed_as(writer_id, writer_seq)
        return None if first is None else answered_first(first)

    def _append(
        self, name: TableName, appended: FileAppend | RowAppend, attempts: int, options: dict[str, Any]
    ) -> SubmittedOutcome | None:
        known = self._access.newest_known_table(name.schema, name.name)
        if known is not None and options.get("proposal_id") is None:
            transaction = self.transaction(base_snapshot_id=known.snapshot_id, **options)
            try:
                appended.put(transaction)
                return _commit_if_any(transaction)
            except DataFileError:
                # It may fit the table as it is now.
                if appended.is_written:
                    raise
            except ProposalRejectedError as error:
                if attempts == 1 or error.outcome.reason not in _RETRIED:
                    raise
                attempts -= 1
        return self._run(appended.put, _commit_if_any, attempts, options)

    def _is_decided(self, proposal_id: m.ProposalId) -> bool:
        return self._access.find(proposal_id).state is OutcomeState.DECIDED


def _key_options(key: str, table: str, options: Mapping[str, Any]) -> dict[str, Any]:
    for name in ("writer_id", "writer_seq", "writer_epoch", "proposal_id"):
        if options.get(name) is not None:
            raise InvalidRequestError(
                f"key={key!r} says by which writer and number the write is known: leave out {name}"
            )
    return table_key(key, table)._asdict()


def _commit_if_any(transaction: Transaction) -> SubmittedOutcome | None:
    return transaction.commit() if transaction.changes else None


def _check_attempts(attempts: int) -> None:
    if checked_count("attempts", attempts) < 1:
        raise InvalidRequestError(f"attempts must be at least 1, not {attempts}")


def _left_s(deadline: float) -> float:
    return max(0, deadline - time.monotonic())


def _follows(proposal: m.Proposal, numbered: Collection[str]) -> bool:
    """Whether it has a ``writer_seq``, and its writer an unanswered proposal with one."""
    return proposal.writer_seq is not None and proposal.writer_id in numbered


def _handed_over(proposed: Proposed) -> m.Proposal:
    if isinstance(proposed, Transaction):
        return proposed.hand_over()
    _check_kind(proposed)
    return proposed


def _check_kind(proposal: m.Proposal) -> None:
    if not isinstance(proposal, m.Proposal):
        raise InvalidRequestError(f"a proposal must be a Proposal, such as tx.proposal(), not {shown(proposal)}")


def _verdict(given: str | m.Verdict) -> m.Verdict:
    try:
        return m.Verdict(given.upper())
    except (ValueError, AttributeError):
        raise InvalidRequestError(f"verdict is 'committed', 'rejected' or 'duplicate', not {given!r}") from None


def _isolation(given: str | m.Isolation) -> m.Isolation:
    try:
        return m.Isolation(given.upper())
    except (ValueError, AttributeError):
        raise InvalidRequestError(f"isolation is 'snapshot' or 'serializable', not {given!r}") from None
