"""The log as a program writes to it, and reads it: transactions, appends, proposals sent one by one or many at once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID
from weakref import WeakSet

from commitlog.client.access.log_access import LogAccess
from commitlog.client.arguments import (
    checked_choice,
    checked_count,
    checked_count_or_none,
    checked_flag,
    checked_text,
    checked_text_or_none,
    shown,
)
from commitlog.client.attempts import (
    answered_again,
    append_at_known,
    check_attempts,
    commit_after_conflicts,
    commit_if_any,
    key_options,
)
from commitlog.client.changeset_tables import TransactionOptions
from commitlog.client.files.given_files import Files
from commitlog.client.files.new_files import NewFiles
from commitlog.client.files.outside import checked_outside
from commitlog.client.ids import as_proposal_id, new_proposal_id, new_writer_id
from commitlog.client.outcomes.repeats import check_kinds
from commitlog.client.outcomes.submitted import SubmittedOutcome, answered_first
from commitlog.client.readable_log import TIMEOUT_S_MAX, ReadableLog
from commitlog.client.submitting import IN_FLIGHT_MAX, Answer, Proposed, Submissions, check_kind
from commitlog.client.table import Table
from commitlog.client.tables.names import TableName, parse_table_name
from commitlog.client.tables.partitions import partition_specs
from commitlog.client.tables.table_at import KnownTable
from commitlog.client.transaction import Transaction
from commitlog.client.writing.file_append import FileAppend
from commitlog.client.writing.rows import RowData, rows_or_files
from commitlog.client.writing.written import WrittenFiles
from commitlog.domain import model as m
from commitlog.domain.model.ids import format_id
from commitlog.errors import InvalidRequestError, KeyReusedError, ProposalRejectedError

if TYPE_CHECKING:
    from typing import Self

DEFAULT_TIMEOUT_MS = 30_000
Committed = TypeVar("Committed")


class CommitLog(ReadableLog):
    """A connection to a log. Made by ``CommitLog.connect()``; usable by several threads.

    Args:
        access: where the log is.
        writer_id: who writes, where a transaction does not say; None makes a name of this process's own.
        timeout_ms: how long an answer is waited for, where a call does not say.
    """

    def __init__(
        self, access: LogAccess, *, writer_id: str | None = None, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> None:
        super().__init__(access, timeout_ms)
        self._given_name = checked_text_or_none("writer_id", writer_id)
        self._begin_in_process()
        _logs.add(self)

    def _begin_in_process(self) -> None:
        """What is each process's own: where one was forked, a thread of its parent's may have held any lock."""
        self._submissions = Submissions(self._opened, self.see)
        self.new_files = NewFiles()
        self.writer_id = self._given_name or new_writer_id(self._opened.partitions_of_machines)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(writer_id={self.writer_id!r})"

    @classmethod
    def connect(cls, *, writer_id: str | None = None, **settings: Any) -> Self:
        """Connect to a log by its settings: arguments, ``COMMITLOG_*``, ``commitlog.toml``, or the embedded runtime.

        Args:
            writer_id: who writes; None makes a name of this process's own.
            settings: see ``Settings.load``; ``settings=Settings(...)`` takes them as they are, ``profile="prod"`` those of
                ``[profile.prod]`` in ``commitlog.toml``.

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

    def table(self, table: str) -> Table:
        """A table, to be read, written and asked about; nobody is asked whether it is there until then.

        Raises:
            InvalidRequestError: the name cannot be one.
        """
        return Table(self, parse_table_name(table))

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
        key: str | None = None,
    ) -> Transaction:
        """Begin a transaction; it commits when its ``with`` block ends without an exception.

        Args:
            isolation: "snapshot" (only writes are checked) or "serializable" (also what was read).
            message: shown in the history.
            author: shown in the history.
            extra: any text that is to travel with the commit, such as offsets of a stream.
            writer_id: who writes; else the connection's, which is another one in each process unless it was given.
            writer_epoch: from ``open_writer``; a lower one than the highest seen is refused.
            writer_seq: a number of the writer's own that commits once only, whatever happens.
            base_snapshot_id: what the changes are computed from; else the newest snapshot, see ``head_snapshot_id``.
            proposal_id: the id to send with; else a new one. With the same id a writer's proposal is decided once. Where no
                ``writer_id`` was given, here or to the connection, the id names the writer too: so it is known again from
                whichever process it is sent.
            decide_before_ms: a proposal that comes to the sequencer later than this, in milliseconds since 1970, is refused.
            timeout_ms: how long to wait for the answer.
            key: names this commit, such as ``load:1`` or ``nightly:2026-03-02``: when it has been made under this name before,
                the transaction is a repeat (``tx.is_repeat``), which commits nothing and answers as the first did.
        """
        first = None
        if key is not None:
            given = {
                "writer_id": writer_id,
                "writer_seq": writer_seq,
                "writer_epoch": writer_epoch,
                "proposal_id": proposal_id,
            }
            writer_id, writer_seq = key_options(key, given).values()
            first = self._committed_as(writer_id, writer_seq)
        own_id = None if proposal_id is None else as_proposal_id(proposal_id)
        is_numbered = writer_seq is not None or writer_epoch is not None
        options = TransactionOptions(
            writer_id=self._writer(writer_id, own_id, is_numbered=is_numbered),
            base_snapshot_id=self.head_snapshot_id()
            if base_snapshot_id is None
            else checked_count("base_snapshot_id", base_snapshot_id),
            proposal_id=own_id or new_proposal_id(),
            isolation=checked_choice("isolation", isolation, m.Isolation),
            writer_epoch=checked_count_or_none("writer_epoch", writer_epoch),
            writer_seq=checked_count_or_none("writer_seq", writer_seq),
            decide_before_ms=checked_count_or_none("decide_before_ms", decide_before_ms),
            author=checked_text_or_none("author", author),
            message=checked_text_or_none("message", message),
            extra=checked_text_or_none("extra", extra),
            timeout_ms=checked_count_or_none("timeout_ms", timeout_ms),
        )
        return Transaction(self, options, first=first)

    def run(
        self, fn: Callable[[Transaction], object], *, key: str | None = None, attempts: int = 5, **options: Any
    ) -> SubmittedOutcome:
        """Commit what ``fn`` puts into a transaction; after a conflict call it again on the new head.

        Args:
            fn: reads what it needs at ``tx.base_snapshot_id`` and makes its changes; it may be called several times.
            key: names this commit: when it has been made under this name before, ``fn`` is not called, and the answer is the
                first one.
            attempts: how often it is called at most; once if ``proposal_id`` or ``base_snapshot_id`` is given.
            options: see ``transaction``.

        Raises:
            ProposalRejectedError: the last attempt was refused too, or for a reason that a rebase does not mend.
        """
        if not callable(fn):
            raise InvalidRequestError(f"fn must be a function of a transaction, not {shown(fn)}")
        check_attempts(attempts)
        return self._once(fn, Transaction.commit, key, None, attempts, options)

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
                under this name before, nothing is added, and the answer is the first one. Rows are compared with those of
                the first (how many, between which bounds, with how many NULLs); ``files`` are not looked at again.
            attempts: how often it is sent at most, each time with an id of its own; once if ``proposal_id`` is given.
            options: see ``transaction``; without a base and an isolation, which are about what was read.

        Returns:
            The answer; None when there were no rows and no table to create, and so nothing to commit.

        Raises:
            InvalidRequestError: ``data`` is no rows.
            TableNotFoundError: there is no such table.
            DataFileError: the rows do not fit the table; or a file is missing, is not Parquet, does not fit the table, cannot
                be brought into its folder, is named twice, or is in it already.
            ProposalRejectedError: the last attempt was refused, or for a reason that checking again does not mend. What was
                written is removed.
            OutcomeUnknownError: no answer in time. What was written stays, for it may yet be accepted.
            WriterBusyError: the write before under a key of this name is still unanswered; nothing of this one was sent.
            KeyReusedError: ``key`` has named a write of other rows before; nothing of this one is added.
        """
        for name in ("base_snapshot_id", "isolation"):
            if name in options:
                raise InvalidRequestError(
                    f"append relies on nothing that was read: use log.transaction({name}=...) instead"
                )
        given = rows_or_files(data, files)
        bring_by = checked_outside(outside, of_rows=not isinstance(given, tuple))
        check_attempts(attempts)
        keys = partition_specs(partition_by)
        if not checked_flag("create", create) and keys:
            raise InvalidRequestError("partition_by is for a table that is created: add create=True")
        parsed, first = parse_table_name(table), None
        if key is not None:
            options |= key_options(key, options, table=table)
            first = self._committed_as(options["writer_id"], options["writer_seq"])
        if isinstance(given, tuple):
            if first is not None:
                return _of_kinds(first, (m.ChangeKind.CREATE_TABLE, m.ChangeKind.APPEND))
            appended = FileAppend(parsed, given, bring_by, create, keys)
            return append_at_known(self, self._newest_known(parsed), appended, attempts, options)
        from commitlog.client.writing.appending import RowAppend

        self.claim_data_path()
        written = WrittenFiles()
        with written:
            rows = RowAppend(parsed, given, written, create=create, partition_by=keys)
            if first is None:
                outcome = append_at_known(self, self._newest_known(parsed), rows, attempts, options)
            else:
                outcome = answered_again(self, first, rows, options)
        return None if outcome is None else written.answered(outcome)

    def change_rows(
        self,
        table: str,
        change: Callable[[Transaction], None],
        *,
        key: str | None = None,
        kinds: Collection[m.ChangeKind] = tuple(m.ChangeKind),
        attempts: int = 5,
        **options: Any,
    ) -> SubmittedOutcome | None:
        """Commit a change of a table's rows that relies on what it reads; after a conflict it is computed again.

        Args:
            table: its name.
            change: reads what it needs at the transaction's base and puts its changes in; it may be called several times.
            key: names this write to this table, such as ``load:1``: when it has been committed under this name before,
                nothing is read or written, and the answer is the first one.
            kinds: of the changes that it puts in: a key that has named others is another write's.
            attempts: how often it is computed at most; once if ``proposal_id`` or ``base_snapshot_id`` is given.
            options: see ``transaction``; the isolation is SERIALIZABLE unless it is given.

        Returns:
            The answer; None when there was nothing to change.

        Raises:
            KeyReusedError: ``key`` has named a write of other kinds of changes before; nothing of this one is made.
        """
        if not callable(change):
            raise InvalidRequestError(f"change must be a function of a transaction, not {shown(change)}")
        check_attempts(attempts)
        options = {"isolation": m.Isolation.SERIALIZABLE, **options}
        outcome = self._once(change, commit_if_any, key, table, attempts, options)
        return outcome if outcome is None else _of_kinds(outcome, kinds)

    def new_file(self, table: str) -> str:
        """A path for a new Parquet file of a table, see ``Transaction.new_file``.

        Raises:
            TableNotFoundError: there is no such table.
        """
        parsed = parse_table_name(table)
        known = self._newest_known(parsed)
        return self.new_files.below(table, self.table(table).at().path if known is None else known.table.path)

    # --- sending ------------------------------------------------------------------------------------------------------

    def submit(self, proposal: m.Proposal, *, timeout_ms: int | None = None) -> SubmittedOutcome:
        """Send a proposal as it is and wait for its answer, whichever it is.

        Raises:
            OutcomeUnknownError: no answer in time; or it was answered before, and the first answer cannot be looked up now.
            WriterBusyError: with a ``writer_seq``, the writer's proposal before is still unanswered; nothing was sent.
            KeyReusedError: its id, or its ``writer_seq``, was answered before, for another write.
            ProposalTooLargeError: it is over the log's limit; nothing was sent.
        """
        return self._submissions.submit(proposal, self._timeout_s(timeout_ms))

    def submit_async(self, proposed: Proposed, *, timeout_ms: int | None = None) -> Future[SubmittedOutcome]:
        """Send a proposal and go on; what `submit` would give or raise for its answer is in the future.

        The future is done when the answer has come, or the time is over, whether anybody waits for it or not; a refusal is an
        outcome. It cannot be cancelled: what was sent may be committed. What is called when it is done runs in a thread of
        the connection's own, and must not wait for another future.

        What was written for a transaction stays, whatever the answer is, and so do files that it was to move: what no snapshot
        names `commitlog clean` removes.

        It waits for room while thousands are unanswered, and, with a ``writer_seq``, for the one before of its writer. Beside a
        carrier it waits as soon as a hundred are, for the answers to those before, and then goes past the carrier.

        Args:
            proposed: a proposal, or a transaction, which is not committed otherwise unless nothing of it was sent.
            timeout_ms: how long to wait for room, and for the answer.

        Raises:
            WriterBusyError: the writer's proposal before is still unanswered; this one was not sent.
            ProposalTooLargeError: it is over the log's limit; nothing was sent.
            LogUnavailableError: too many are unanswered for too long, or the log does not answer; nothing was sent.
        """
        return self._submissions.submit_async(proposed, self._timeout_s(timeout_ms))

    def publish_many(
        self, proposed: Iterable[Proposed], *, in_flight_max: int = IN_FLIGHT_MAX, timeout_ms: int | None = None
    ) -> Iterator[Answer]:
        """Send many proposals without waiting for each one's answer; the answers come in the order of the proposals.

        A refusal is an outcome, and what ``submit`` would raise for one's answer takes the answer's place. They are sent as the
        answers are taken: so many at most are ahead of the answer that was taken last.

        What was written for a transaction stays, whatever the answer is, and so do files that it was to move: what no snapshot
        names `commitlog clean` removes.

        Those with a ``writer_seq`` wait for the one before of their writer, but for what a link brings.

        Where one cannot be sent, or ``proposed`` itself raises, the answers of those before it come first, and then the error.

        Args:
            proposed: proposals, or transactions, which are not committed otherwise.
            in_flight_max: how many are sent ahead.
            timeout_ms: how long each one's answer is waited for.

        Raises:
            ProposalTooLargeError: one is over the log's limit; it and those after it were not sent.
            LogUnavailableError: the log does not answer; likewise.
        """
        return self._submissions.publish_many(proposed, in_flight_max, self._timeout_s(timeout_ms))

    def commit(self, proposal: m.Proposal, *, timeout_ms: int | None = None) -> SubmittedOutcome:
        """Like ``submit``, for a commit that must succeed.

        Raises:
            ProposalRejectedError: it was refused; ``conflicts`` say what it met.
            KeyReusedError: its id, or its ``writer_seq``, was answered before, for another write.
            InvalidRequestError: it has no changes; nothing was sent.
        """
        check_kind(proposal)
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
        check_kind(proposal)
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

        Raises:
            InvalidRequestError: ``proposal_id`` is given, and no ``writer_id``, here or to the connection.
        """
        own_id = None if proposal_id is None else as_proposal_id(proposal_id)
        proposal = m.Proposal(
            proposal_id=own_id or new_proposal_id(),
            writer_id=self._writer(writer_id, own_id, is_numbered=True),
            base_snapshot_id=self.head_snapshot_id(),
            changes=(),
            open_writer=True,
            created_at_ms=time.time_ns() // 1_000_000,
        )
        outcome = self.commit(proposal, timeout_ms=timeout_ms)
        assert outcome.assigned.writer_epoch is not None
        return outcome.assigned.writer_epoch

    # --- inside -------------------------------------------------------------------------------------------------------

    def _writer(self, given: str | None, proposal_id: m.ProposalId | None, *, is_numbered: bool) -> str:
        """Who writes: a repeat is known by its id in the partition where the first was decided, which is its writer's."""
        if given is not None:
            return checked_text("writer_id", given)
        if proposal_id is None or self._given_name:
            return self.writer_id
        if is_numbered:
            raise InvalidRequestError(
                "proposal_id= with the epoch or a number of a writer that has no name: the same from another process would be "
                "another writer's; give writer_id=, here or to CommitLog.connect"
            )
        return f"proposal:{format_id(proposal_id)}"

    def _newest_known(self, name: TableName) -> KnownTable | None:
        return self._access.newest_known_table(name.schema, name.name)

    def _timeout_s(self, timeout_ms: int | None) -> float:
        given_ms = self._timeout_ms if timeout_ms is None else checked_count("timeout_ms", timeout_ms)
        return min(given_ms / 1000, TIMEOUT_S_MAX)

    def _once(
        self,
        fn: Callable[[Transaction], object],
        commit: Callable[[Transaction], Committed],
        key: str | None,
        table: str | None,
        attempts: int,
        options: dict[str, Any],
    ) -> Committed | SubmittedOutcome:
        """What ``fn`` comes to, or what was committed under its key, before or meanwhile."""
        if key is None:
            return commit_after_conflicts(self, fn, commit, attempts, options)
        options |= key_options(key, options, table=table)
        committed_first = partial(self._committed_as, options["writer_id"], options["writer_seq"])
        if (first := committed_first()) is not None:
            return first

        def commit_once(transaction: Transaction) -> Committed | SubmittedOutcome:
            if not transaction.changes and (first := committed_first()) is not None:
                # There was nothing left to do, for whoever was first has done it.
                return first
            return commit(transaction)

        try:
            return commit_after_conflicts(self, fn, commit_once, attempts, options)
        except KeyReusedError as error:
            # Whoever was first may have found another state of the log, and so have made something else of it.
            self.see(error.snapshot_id)
            if (first := committed_first()) is None:
                raise
            return first

    def _committed_as(self, writer_id: str, writer_seq: int) -> SubmittedOutcome | None:
        """The answer of a commit that was made before, by whichever process."""
        self.head_snapshot_id()
        first = self._access.committed_as(writer_id, writer_seq)
        return None if first is None else answered_first(first)


def _of_kinds(outcome: SubmittedOutcome, kinds: Collection[m.ChangeKind]) -> SubmittedOutcome:
    """The outcome, which of a repeat is that of a write that made such changes."""
    if outcome.is_repeat and outcome.first is not None:
        check_kinds(outcome.first, kinds, proposal_id=new_proposal_id(), snapshot_id=outcome.snapshot_id)
    return outcome


_logs: WeakSet[CommitLog] = WeakSet()


def _begin_all_in_process() -> None:
    for log in list(_logs):
        log._begin_in_process()


os.register_at_fork(after_in_child=_begin_all_in_process)
