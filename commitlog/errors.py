"""Every exception that leaves the package, in one place, so that a caller can see all of them at a glance.

A refused proposal is an outcome, not an exception, until a caller asks for a commit that must succeed. "I don't know"
is an answer of its own. What is wrong in our own code is an `AssertionError` and ends the process.

    CommitLogError
    +-- InvalidRequestError         a call that makes no sense: an argument of the wrong kind, nothing to commit, ...
    |   +-- InvalidChangeError      a change that can never be, whatever the log holds
    +-- ConfigurationError          a setting is missing, misspelt or out of range
    +-- MalformedRecordError        bytes, or a JSON line, that are no record of ours
    +-- LogUnavailableError         no broker answers, or none lets this process in
    +-- LogRefusedError             the broker answers, and refuses
    +-- RegistryUnavailableError    the schema registry does not answer
    +-- LogIntegrityError           the log is not the one that was expected, or its chain is broken
    |   +-- LogLossError            records that were never read are gone
    |       +-- ResultsTrimmedError they were archived, and then deleted by our own doing
    +-- HistoryUnavailableError     an earlier state of the log cannot be had here, or not soon
    +-- RulesVersionError           the log was written under newer rules than this version knows
    +-- FencedError                 another process has taken this one's place
    +-- OutcomeUnknownError         no answer in time: the proposal may have been decided either way
    +-- WriterBusyError             the writer's proposal before is unanswered; this one was not sent
    +-- ProposalRejectedError       the proposal was decided, and refused
    +-- KeyReusedError              an idempotency key was used again for another write, which is not committed
    +-- ProposalTooLargeError       the proposal is over the log's limit and was not sent
    +-- CatalogUnavailableError     PostgreSQL does not answer, or cannot serve the request now
    +-- CatalogBehindError          the catalog does not hold yet, in time, what was committed before it was asked
    +-- CatalogMismatchError        the catalog belongs to another log, or is ahead of this one
    +-- CatalogRefusedError         PostgreSQL refuses what was asked of the catalog
    +-- ProjectionError             a decided outcome that cannot be written into the catalog
    +-- DataFileError               a data file that cannot be read, or does not fit its table
    +-- AdoptionError               a lake that cannot be taken over
    +-- SnapshotNotFoundError       no such snapshot: not there yet, or expired
    |   +-- MomentNotFoundError     there was no snapshot yet at that moment
    +-- OutcomeNotFoundError        no outcome at that place: the log does not reach so far
    +-- TableNotFoundError          no such table at that snapshot
    +-- LinkStoppedError            another site's log refuses what a link brings
    +-- SiteWentBackError           a site lacks what it had committed: it was set back
    +-- SiteAwayTooLongError        what a site has to be brought was archived meanwhile
    +-- TableNotBroughtError        what a link cannot bring of a table
    +-- NotUnderstoodError          a stock client's commit that the gateway cannot propose
    +-- LocalRuntimeError           the embedded broker, PostgreSQL or Spark cannot be started
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

if TYPE_CHECKING:
    from commitlog.domain.model import Conflict, InvalidCode, Proposal, Reason


class RejectedOutcome(Protocol):
    """What `ProposalRejectedError` reads of a refused outcome or receipt."""

    @property
    def reason(self) -> Reason | None: ...

    @property
    def detail(self) -> str | None: ...

    @property
    def invalid_code(self) -> str | None: ...

    @property
    def conflicts(self) -> Sequence[Conflict]: ...

    @property
    def head_snapshot_id(self) -> int: ...


class CommitLogError(Exception):
    """The base of all the package's exceptions. The message says what to do."""

    def __reduce__(self) -> tuple[object, ...]:
        # Not made anew from its message: a pool of processes that cannot read a worker's error breaks, or waits for ever.
        return _as_it_was, (type(self), self.args), self.__dict__


def _as_it_was(kind: type[CommitLogError], args: tuple[object, ...]) -> CommitLogError:
    error = kind.__new__(kind)
    error.args = args
    return error


class InvalidRequestError(CommitLogError, ValueError, TypeError):
    """A call that makes no sense; nothing was sent. The message says what was given and what to give."""


class InvalidChangeError(InvalidRequestError):
    """A change asks for something that cannot be.

    Args:
        code: which of the cases that `docs/invalid-codes.md` lists; for programs.
        detail: what it is, for people; the detail of an INVALID outcome.
    """

    def __init__(self, code: InvalidCode, detail: str) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        return self.detail


class ConfigurationError(CommitLogError):
    """A setting is missing, misspelt or out of range. The message names the setting and where its value came from."""


class MalformedRecordError(CommitLogError):
    """Bytes, or a JSON line, that are no record of ours. The sequencer turns it into a MALFORMED outcome."""


class LogUnavailableError(CommitLogError):
    """No broker answers, or none lets this process in. Nothing is known to be lost; try again once that is fixed.

    Args:
        bootstrap_servers: the addresses that were tried.
        waited_ms: how long they were tried, in milliseconds.
        detail: what the Kafka client said last.
        met: what they do instead of answering.
        advice: what to do about that.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        waited_ms: int | None = None,
        detail: str = "",
        met: str = "does not answer",
        advice: str = "Start it (`commitlog up` runs one here), or set COMMITLOG_BOOTSTRAP_SERVERS to its address",
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.waited_ms = waited_ms
        self.detail = detail
        super().__init__(f"Kafka at {bootstrap_servers} {met}{_waited(waited_ms)}{_because(detail)}. {advice}.")


class LogRefusedError(CommitLogError):
    """The broker answers, and refuses: a topic is missing, or these credentials may not do it. Asking again is no use.

    Args:
        bootstrap_servers: the addresses that were asked.
        code: Kafka's name of the error.
        detail: what the Kafka client said of it.
    """

    def __init__(self, bootstrap_servers: str, code: str, *, detail: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.code = code
        self.detail = detail
        super().__init__(
            f"Kafka at {bootstrap_servers} refused the request ({code}): {detail}. Check the log's name and the "
            "rights of these credentials; `commitlog doctor` says more"
        )


class RegistryUnavailableError(CommitLogError):
    """The schema registry of a relay does not answer. What came in waits; nothing is lost.

    Args:
        url: where it was asked.
        detail: what its client said last.
    """

    def __init__(self, url: str, *, detail: str = "") -> None:
        self.url = url
        self.detail = detail
        super().__init__(
            f"the schema registry does not answer{_because(detail)}. Start it, or set COMMITLOG_REGISTRY_URL to its "
            "address."
        )


class LogIntegrityError(CommitLogError):
    """The log is not the one that was expected, or its chain of hashes is broken.

    The reader has stopped before the first record that does not fit; the message names its place. Serving goes on only
    when somebody has found out which log is the right one.
    """


class LogLossError(LogIntegrityError):
    """Records that were never read are gone (retention, or a broker restored from a backup). Their places are named."""


class ResultsTrimmedError(LogLossError):
    """What a reader asks for was deleted from Kafka after it was archived.

    Args:
        log: the log's name.
        seq: the first outcome that is still there.
        archive: where those before it are.
        asked_seq: after which outcome the reader wanted to go on; None is from the beginning.
    """

    def __init__(self, log: str, *, seq: int, archive: str, asked_seq: int | None) -> None:
        self.seq = seq
        self.archive = archive
        self.asked_seq = asked_seq
        asked = "from the beginning" if asked_seq is None else f"after outcome {asked_seq:,}"
        super().__init__(
            f"the results of {log} cannot be read {asked}: those before outcome {seq:,} were archived at {archive} and "
            "trimmed. From there `commitlog checkpointer --from-archive` makes a checkpoint for the service, and `commitlog "
            f"catalog rebuild` a catalog; a subscriber has to begin after outcome {seq:,}, or read the archive: see "
            "docs/retention.md"
        )


class HistoryUnavailableError(CommitLogError):
    """An earlier state of the log cannot be had here, or not soon. What needs it can be told without it, in less detail."""


class RulesVersionError(CommitLogError):
    """The log was written under newer rules than this version knows; install the version that the message names."""

    def __init__(self, found: int, *, supported: int) -> None:
        self.found = found
        self.supported = supported
        super().__init__(
            f"the log was decided under rules version {found}, but this commitlog knows only up to {supported}. "
            "Upgrade commitlog here to the sequencer's version."
        )


class FencedError(CommitLogError):
    """Another process has taken this one's place (a newer sequencer or writer). Stop, or come back as a standby."""


class OutcomeUnknownError(CommitLogError):
    """No answer came in time: the proposal may still be committed or refused.

    Ask for its outcome, or send it again with the same id; both give the one verdict.

    Args:
        proposal_id: the id to ask for.
        waited_ms: how long the answer was waited for, in milliseconds.
        detail: why none is to be hoped for, where that is known.
    """

    def __init__(self, proposal_id: UUID, *, waited_ms: int | None = None, detail: str | None = None) -> None:
        self.proposal_id = proposal_id
        self.waited_ms = waited_ms
        because = "" if detail is None else f" ({detail})"
        super().__init__(
            f"no answer to proposal {proposal_id}{_waited(waited_ms)}{because}; it may still be committed or "
            f"refused. Find out with `commitlog outcome {proposal_id}`, or send it again with the same id."
        )


class WriterBusyError(CommitLogError):
    """A writer with a ``writer_seq``, as each key of a commit is, has a proposal whose answer did not come: nothing of the next
    one was sent.

    Two on their way could be decided in another order than they were made. Once the one before is decided, commit again.

    Args:
        writer_id: whose.
        unanswered_id: of the proposal before, to ask for.
    """

    def __init__(self, writer_id: str, unanswered_id: UUID) -> None:
        self.writer_id = writer_id
        self.unanswered_id = unanswered_id
        super().__init__(
            f"the proposal that {writer_id} sent before, {unanswered_id}, is still unanswered, so nothing of this "
            f"one was sent. Commit it again once `commitlog outcome {unanswered_id}` shows the outcome of the "
            "earlier one."
        )


class ProposalRejectedError(CommitLogError):
    """The proposal was decided, and refused.

    Args:
        outcome: the outcome or receipt, with its reason and every conflict.
    """

    def __init__(self, outcome: RejectedOutcome) -> None:
        self.outcome = outcome
        super().__init__(f"{outcome.reason}{_because(outcome.detail or '')}")

    @property
    def invalid_code(self) -> str | None:
        """Why it is INVALID, for programs: one of those that `docs/invalid-codes.md` lists; None for another reason, and for a
        repeat whose first outcome cannot be had."""
        return self.outcome.invalid_code

    @property
    def conflicts(self) -> Sequence[Conflict]:
        """The conflicts of the outcome; empty when the reason is not CONFLICT."""
        return self.outcome.conflicts


class NotUnderstoodError(CommitLogError):
    """A stock client's commit that the gateway cannot propose; nothing was committed.

    The message says what it was and what to do instead.
    """


class LinkStoppedError(CommitLogError):
    """A log refuses what a link brings from another site, so the link stops there: nothing after it is brought.

    Fix one of the two sides so that the change can be committed, and start the link again: it continues with the same
    snapshot.

    Args:
        source: the node whose change it is.
        target: the node that refuses it.
        snapshot_id: the source's snapshot.
        outcome: the answer, with its reason and every conflict; what is too large for the target is not sent.
        there: what the target did last to the tables that the change names, where there is no conflict to tell of it.
    """

    def __init__(
        self,
        source: str,
        target: str,
        snapshot_id: int,
        outcome: RejectedOutcome | ProposalTooLargeError,
        there: Sequence[str] = (),
    ) -> None:
        self.source, self.target, self.snapshot_id, self.outcome = source, target, snapshot_id, outcome
        if isinstance(outcome, ProposalTooLargeError):
            why = (
                f"together with the origins of its rows and what they displace, it takes {outcome.size_bytes:,} "
                f"bytes, and the limit of {target} is {outcome.limit_bytes:,}. Raise proposal_bytes_max of that log "
                "(a CONFIGURE change)"
            )
        else:
            met = "".join(f"; at {target} {each}" for each in there)
            why = (
                f"{outcome.reason}{_because(outcome.detail or '')}{met}. Change one of the two sides so that it "
                "can be committed"
            )
        super().__init__(
            f"the link from {source} to {target} stops at snapshot {snapshot_id} of {source}: {why}, and start the "
            "link again: it continues with this snapshot"
        )


class SiteWentBackError(CommitLogError):
    """A site's log is older than it was when a link read it, as after a restore from a backup: it would make other snapshots
    under ticks that others hold.

    Start that site anew, with an empty log and another node name.

    Args:
        source: the node whose log it is.
        target: the node that it was brought to.
        snapshot_id: the source's snapshot that is gone, or another one now.
    """

    def __init__(self, source: str, target: str, snapshot_id: int) -> None:
        self.source, self.target, self.snapshot_id = source, target, snapshot_id
        super().__init__(
            f"snapshot {snapshot_id} of {source} is not what it was when it was brought to {target}: the log of "
            f"{source} is older than it was, as after a restore from a backup. Start that site anew, with an empty "
            "log and another name"
        )


class TableNotBroughtError(CommitLogError):
    """What happened to a table at one site cannot be brought to another, or its name means another table there, so the link
    stops there.

    If the table's property ``replicated`` is set to false at the site that it is brought to, links leave out the table from
    then on, and bring everything else.

    Args:
        source: the node whose change it is.
        target: the node that it is brought to.
        snapshot_id: the source's snapshot.
        table: the table's name.
        detail: what cannot be brought, and why.
        may_pass: a store, or a disk, does not give or take a file now.
    """

    def __init__(
        self, source: str, target: str, snapshot_id: int, table: str, detail: str, *, may_pass: bool = False
    ) -> None:
        self.source, self.target, self.snapshot_id, self.table = source, target, snapshot_id, table
        way_on = (
            "Nothing is lost: once that is over or fixed, start the link again, and it continues with this snapshot"
            if may_pass
            else f"Fix that, or set the property replicated of table {table} to false at {target}: links then leave "
            "out that table and bring everything else"
        )
        super().__init__(
            f"the link from {source} to {target} stops at snapshot {snapshot_id} of {source}: {detail}. {way_on}"
        )


class SiteAwayTooLongError(CommitLogError):
    """What a link has to bring was archived, and trimmed from the log that it reads, before it was brought.

    Let the site that it was not brought to join again, with an empty log and another node name.

    Args:
        source: the node whose log it is.
        target: the node that was away.
        snapshot_id: the last of the source's that was brought; 0 for none.
    """

    def __init__(self, source: str, target: str, snapshot_id: int) -> None:
        self.source, self.target, self.snapshot_id = source, target, snapshot_id
        where = f"after its snapshot {snapshot_id}" if snapshot_id else "first"
        super().__init__(
            f"what {source} has committed {where} was archived before it was brought to {target}: let that site "
            "join again, with an empty log and a name that no site has had (`commitlog replicate --join`)"
        )


class KeyReusedError(CommitLogError):
    """An id, or a writer's ``writer_seq``, that was answered before was used again for another write.

    Nothing of this write was committed, and nothing of it will be under this key. Files that were written for it, and that
    the first proposal does not name, can be removed.

    Args:
        proposal_id: of this write.
        key: which key or id, in words.
        differences: in what it is another write.
        first: the proposal that was decided under the key; None where it is not known any more.
        snapshot_id: what it made; None when it was refused.
    """

    def __init__(
        self,
        proposal_id: bytes,
        key: str,
        differences: Sequence[str],
        *,
        first: Proposal | None = None,
        snapshot_id: int | None = None,
    ) -> None:
        self.proposal_id = UUID(bytes=proposal_id)
        self.key = key
        self.differences = tuple(differences)
        self.first = first
        self.snapshot_id = snapshot_id
        of = "" if snapshot_id is None else f" (snapshot {snapshot_id})"
        super().__init__(
            f"{key} was already used for another write{of}: {'; '.join(self.differences)}. Nothing of this write "
            "was committed: give it a key of its own or, if it was meant to repeat that write, find out why it "
            "differs."
        )


class ProposalTooLargeError(CommitLogError):
    """The proposal is over the log's limit and was not sent. Split it: fewer files or rows for each commit.

    Args:
        size_bytes: its size, encoded.
        limit_bytes: the log's `proposal_bytes_max`.
    """

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
        super().__init__(
            f"the proposal takes {size_bytes:,} bytes, but the log's limit is {limit_bytes:,}; nothing was sent. "
            "Split it into commits of fewer files or rows."
        )


OF_ANOTHER_FOLDER = (
    "if `commitlog up` runs it from another directory, go there, or set COMMITLOG_HOME to its .commitlog"
)

_NOT_LET_IN = (
    (
        ("too many", "remaining connection slots"),
        "has no connection left",
        "What waits continues once it has one: close some, or raise its max_connections; if this is the wrong server, set",
    ),
    (
        ("the database system is",),
        "accepts no connections now",
        "What waits continues once it has started; if this is the wrong server, set",
    ),
    (
        ("fe_sendauth",),  # libpq's own word where it was asked for a password
        "refused the connection",
        f"Give the right password; {OF_ANOTHER_FOLDER}; if this is the wrong server, set",
    ),
    (
        ("FATAL:",),
        "refused the connection",
        "Check the login and the database, or set",
    ),
    (("SSL", "certificate"), "cannot be reached by TLS", "Check sslmode, sslrootcert and the certificate, or set"),
    (("resolve host", "translate host"), "cannot be found", "Check the host name: set"),
)
"""What PostgreSQL, or its client, says where no connection comes about, what that is, and what to do. The first that fits."""

_ENDED = ("SSL SYSCALL", "SSL connection has been closed", "unexpected eof")
"""What a connection by TLS says whose server goes away, as it does where it is started anew."""


class CatalogUnavailableError(CommitLogError):
    """PostgreSQL does not answer, takes no connection, or cannot serve the request now. Decisions go on; only reading waits.

    Args:
        address: host, port and database, without a password.
        waited_ms: how long it was tried, in milliseconds.
        detail: what the PostgreSQL client said last.
        has_answered: whether PostgreSQL does answer: it can only be read for now, its disk is full, or no catalog is in it.
    """

    def __init__(
        self, address: str, *, waited_ms: int | None = None, detail: str = "", has_answered: bool = False
    ) -> None:
        self.address = address
        self.waited_ms = waited_ms
        self.detail = detail
        answer, remedy = "does not answer", "Start it (`commitlog up` runs one here), or set"
        if has_answered:
            answer = "cannot serve the request now"
            remedy = "What waits continues once that is fixed there; if this is the wrong server, set"
        elif not any(words in detail for words in _ENDED):
            told = (each for each in _NOT_LET_IN if any(words in detail for words in each[0]))
            _, answer, remedy = next(told, ((), answer, remedy))
        super().__init__(
            f"PostgreSQL at {address} {answer}{_waited(waited_ms)}{_because(detail)}. {remedy} "
            "COMMITLOG_DATABASE_URL to the right address."
        )


class CatalogBehindError(CommitLogError):
    """The catalog does not hold yet, in time, what had been committed before it was asked.

    Args:
        results: the topic.
        next_offset: up to where the catalog has it; None where there is nothing in it yet.
        end_offset: up to where the log went when it was asked.
        waited_ms: how long the catalog was waited for, in milliseconds.
        is_moving: whether it came nearer meanwhile.
    """

    def __init__(
        self, results: str, *, next_offset: int | None, end_offset: int, waited_ms: int, is_moving: bool
    ) -> None:
        self.next_offset = next_offset
        self.end_offset = end_offset
        self.waited_ms = waited_ms
        reached = next_offset or 0
        remedy = (
            "The projector is making progress: wait, or raise COMMITLOG_CATALOG_TIMEOUT_MS."
            if is_moving
            else "The projector made no progress: check that one is running, and its log (`commitlog status`)."
        )
        super().__init__(
            f"the catalog is still behind the log{_waited(waited_ms)}: it holds {results} up to offset {reached:,}, the log "
            f"had {end_offset:,}. {remedy} COMMITLOG_STALENESS_MS allows older reads."
        )


class CatalogMismatchError(CommitLogError):
    """The catalog belongs to another log, or is ahead of this one.

    Point COMMITLOG_DATABASE_URL at this log's own database, or run
    `commitlog catalog rebuild` to make the catalog anew.
    """


class CatalogRefusedError(CommitLogError):
    """PostgreSQL answers and refuses: there is no catalog, this user may not use it, or something of it is missing.

    Args:
        address: host, port and database, without a password.
        detail: what PostgreSQL said.
    """

    def __init__(self, address: str, *, detail: str) -> None:
        self.address = address
        self.detail = detail
        lacks = (
            "The login lacks a role: grant it with `commitlog acl apply --catalog-reader` to read, or "
            "--catalog-projector to run a projector; only the database's owner can create or rebuild a catalog. If "
            "the login has the role, run `commitlog init` as the owner of the catalog's tables, which grants the "
            "role what it lacks"
        )
        missing = (
            "`commitlog doctor` says what the catalog lacks; `commitlog init`, run as the owner of its tables, "
            "creates that"
        )
        super().__init__(
            f"PostgreSQL at {address} refused the request: {detail}. "
            f"{lacks if detail.startswith('permission denied') else missing}"
        )


class ProjectionError(CommitLogError):
    """A decided outcome cannot be written into the catalog, which stays at the one before. Decisions go on without it.

    Args:
        seq: of the outcome.
        what: its snapshot, proposal, writer and changes, in words.
        detail: what went wrong.
    """

    def __init__(self, seq: int, what: str, *, detail: str) -> None:
        self.seq = seq
        self.detail = detail
        super().__init__(
            f"outcome {seq} ({what}) cannot be written into the catalog, which stays at outcome {seq - 1}: "
            f"{detail}. Either the catalog was changed by hand: `commitlog doctor` shows how, `commitlog catalog "
            "rebuild` repairs it. Or it is a defect of commitlog, or PostgreSQL's limits are below their defaults: "
            "update commitlog or raise the limits, then start the projector again, which continues there"
        )


class DataFileError(CommitLogError):
    """A data file that cannot be read, or whose columns do not fit its table. The message names the file and why."""


class AdoptionError(CommitLogError):
    """A lake made elsewhere cannot be taken over; nothing was written.

    Args:
        obstacles: each thing that stands in the way, named.
    """

    def __init__(self, obstacles: Sequence[str]) -> None:
        self.obstacles = tuple(obstacles)
        super().__init__("this lake cannot be taken over: " + "; ".join(self.obstacles))


class SnapshotNotFoundError(CommitLogError):
    """No such snapshot: not committed or not projected yet, or expired.

    Args:
        snapshot_id: what was asked for; None where a moment was.
        floor_snapshot_id: the oldest snapshot kept, where known.
        head_snapshot_id: the newest snapshot in the catalog, where known.
    """

    def __init__(
        self, snapshot_id: int, *, floor_snapshot_id: int | None = None, head_snapshot_id: int | None = None
    ) -> None:
        self.snapshot_id: int | None = snapshot_id
        self.floor_snapshot_id = floor_snapshot_id
        self.head_snapshot_id = head_snapshot_id
        floor = "the oldest kept" if floor_snapshot_id is None else str(floor_snapshot_id)
        head = "the newest" if head_snapshot_id is None else str(head_snapshot_id)
        super().__init__(f"there is no snapshot {snapshot_id}: choose one from {floor} to {head}")


class MomentNotFoundError(SnapshotNotFoundError):
    """At that moment there was no snapshot yet, or it has expired.

    Args:
        moment: what was asked for.
        floor_snapshot_id: the oldest snapshot kept.
        began: when that one was made.
    """

    def __init__(self, moment: datetime, *, floor_snapshot_id: int, began: datetime) -> None:
        self.snapshot_id, self.floor_snapshot_id, self.head_snapshot_id = None, floor_snapshot_id, None
        self.moment = moment
        self.began = began
        oldest = (
            "the log began" if floor_snapshot_id == 0 else f"the oldest snapshot kept, {floor_snapshot_id}, was made"
        )
        CommitLogError.__init__(
            self,
            f"there is no snapshot of {moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC: {oldest} at "
            f"{began.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f} UTC",
        )


class OutcomeNotFoundError(CommitLogError):
    """The log does not reach so far, or it is another log than the one that the position came from.

    Args:
        seq: what was asked for.
        last_seq: where the log ends.
    """

    def __init__(self, seq: int, *, last_seq: int) -> None:
        self.seq = seq
        self.last_seq = last_seq
        super().__init__(
            f"the log has no outcome {seq} yet: it ends at {last_seq}. Give the `seq` of the last outcome that you "
            "have, or 0 to start at the beginning; a position beyond the end belongs to another log"
        )


class TableNotFoundError(CommitLogError):
    """No such table at that snapshot.

    Args:
        table: the name, with its schema.
        snapshot_id: the snapshot it was looked for at; None is the head.
        remedy: what to do about it.
        meant: which name may have been meant, in words.
    """

    def __init__(
        self,
        table: str,
        *,
        snapshot_id: int | None = None,
        remedy: str = "`commitlog diff` shows what each snapshot created and dropped",
        meant: str = "",
    ) -> None:
        self.table = table
        self.snapshot_id = snapshot_id
        self.meant = meant
        at = "" if snapshot_id is None else f" at snapshot {snapshot_id}"
        super().__init__(f"there is no table {table}{at}{f' - {meant}' if meant else ''}; {remedy}")


class LocalRuntimeError(CommitLogError):
    """The embedded broker, PostgreSQL or Spark cannot be started (Java missing, a wrong jar, a port, ...).

    Args:
        problem: what happened and what to do.
        log_file: where the program that failed wrote what it did.
    """

    def __init__(self, problem: str, *, log_file: Path | None = None) -> None:
        self.log_file = log_file
        super().__init__(problem if log_file is None else f"{problem}\n{_last_lines(log_file)}(all of it: {log_file})")


def _waited(waited_ms: int | None) -> str:
    return "" if waited_ms is None else f" after {waited_ms / 1000:.1f} s"


def _because(detail: str) -> str:
    return f": {detail}" if detail else ""


def _last_lines(log_file: Path) -> str:
    try:
        text = log_file.read_text(errors="replace")
    except OSError:
        return ""
    # Java's errors come with where they were raised, which is longer than what they say.
    told = [line for line in text.splitlines() if not line.startswith(("\tat ", "\t... "))]
    return "".join(f"  {line}\n" for line in told[-8:])
