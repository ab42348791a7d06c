"""A log as one asks it: what was decided, which snapshot is the newest, what the tables hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from numbers import Real
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn
from uuid import UUID

from commitlog.client.access.contents import Contents
from commitlog.client.access.log_access import LogAccess, ProposalStatus, log_is_closed
from commitlog.client.arguments import (
    checked_choice,
    checked_count,
    checked_count_or_none,
    checked_flag,
    checked_items,
    checked_text_or_none,
    shown,
)
from commitlog.client.ids import as_proposal_id
from commitlog.client.reading.moments import Moment, SnapshotGiven, as_moment, snapshot_named, snapshot_of
from commitlog.client.subscribing import Subscription, changes_one_of
from commitlog.client.tables.missing import check_schema, missing_table
from commitlog.client.tables.names import TableName, parse_table_name
from commitlog.client.tables.table_at import LiveFile, TableAt
from commitlog.domain import model as m
from commitlog.errors import InvalidRequestError, SnapshotNotFoundError, TableNotFoundError

if TYPE_CHECKING:
    from typing import Self

    from duckdb import DuckDBPyConnection

    from commitlog.catalog.history import HistoryEntry
    from commitlog.catalog.queries import CatalogSnapshot
    from commitlog.catalog.snapshot_diff import ObjectDifference
    from commitlog.client.outcomes.explaining import Explanation
    from commitlog.client.outcomes.snapshot_story import SnapshotStory

TIMEOUT_S_MAX = 1e6
GROUP_LENGTH_MAX = 5_000
"""Kafka takes 32,767 bytes, with the log's name before it; of a longer one it says nothing."""


class ReadableLog:
    """What can be asked of a log; ``CommitLog`` is one that can be written to as well. Usable by several threads.

    Args:
        access: where the log is.
        timeout_ms: how long an answer is waited for, where a call does not say.
    """

    def __init__(self, access: LogAccess, timeout_ms: int) -> None:
        self._opened, self._closed = access, False
        self._timeout_ms = timeout_ms
        self._seen_snapshot_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        """A process that is not made by fork would get it, or what holds it, in pickled form."""
        raise InvalidRequestError(
            "a log's connections cannot be given to another process: connect there, CommitLog.connect()"
        )

    def close(self) -> None:
        """Let go of connections; what is closed already stays closed."""
        self._closed = True
        self._opened.close()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed: then nothing more can be asked of it."""
        return self._closed

    @property
    def _access(self) -> LogAccess:
        if self._closed:
            raise log_is_closed()
        return self._opened

    @property
    def access(self) -> LogAccess:
        """Where the log is: what commitlog's own links and Spark's tasks ask beside what programs do."""
        return self._access

    # --- what was decided ---------------------------------------------------------------------------------------------

    def outcome(self, proposal_id: bytes | str | UUID) -> ProposalStatus:
        """What became of a proposal: DECIDED (with its outcome), UNDECIDED or NEVER_SEEN."""
        return self._access.find(as_proposal_id(proposal_id))

    def outcome_at(self, seq: int) -> m.Outcome | None:
        """The outcome at a place in the log, with its proposal; None when the log does not reach so far."""
        return self._access.outcome_at(checked_count("seq", seq))

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

    def subscribe(
        self,
        after_seq: int = 0,
        *,
        follow: bool = True,
        tables: Iterable[str] | None = None,
        from_snapshot: int | None = None,
        group: str | None = None,
        missing_ok: bool = False,
    ) -> Subscription:
        """Outcomes in the log's order, refusals too, each with its ``seq``, by which one can go on later.

        Args:
            after_seq: the ``seq`` of the last outcome that is known already; 0 starts at the beginning.
            follow: wait for outcomes to come, until the log is closed; else stop at the end of the log as it is now.
            tables: only what changed one of these tables, or was refused a change of one; None is all.
            from_snapshot: instead of ``after_seq``, the snapshot whose state is known already.
            group: under this name the position is kept, by Kafka: each outcome that is asked for says that those before it are
                handled, and so does the end of the ``with`` block unless an exception ends it. The next subscription of the
                group goes on there, so that none is left out; after a crash those of the last half second may come again.
                One process at a time. ``after_seq`` and ``from_snapshot`` are for a group that has no position, as a new one,
                or one that Kafka has forgotten, for nobody had it for a week (its ``offsets.retention.minutes``).
            missing_ok: whether ``tables`` may name some that never were, and may be created yet.

        Raises:
            TableNotFoundError: one of the tables never was.
            InvalidRequestError: ``after_seq`` is no seq, or given beside ``from_snapshot``.
            OutcomeNotFoundError: the log does not reach so far; when the first outcome is asked for.
            SnapshotNotFoundError: there is no such snapshot.
        """
        start, is_followed = checked_count("after_seq", after_seq), checked_flag("follow", follow)
        if from_snapshot is not None:
            if start:
                raise InvalidRequestError("give after_seq or from_snapshot, not both")
            start = self._seq_of(checked_count("from_snapshot", from_snapshot))
        names = None if tables is None else checked_items("tables", tables, str, "names of tables")
        is_asked = changes_one_of(names)
        if names is not None and not checked_flag("missing_ok", missing_ok):
            self._check_ever_there(parse_table_name(each) for each in names)
        kept = checked_text_or_none("group", group)
        if kept == "":
            raise InvalidRequestError("group must be a name, not an empty text")
        if kept is not None and len(kept) > GROUP_LENGTH_MAX:
            raise InvalidRequestError(
                f"group must be a name of up to {GROUP_LENGTH_MAX:,} characters, not of {len(kept):,}"
            )
        position = None if kept is None else self._access.group_position(kept)

        def begin(seq: int) -> Iterator[Sequence[m.Outcome]]:
            return self._access.subscribe(seq, follow=is_followed)

        return Subscription(begin, start, is_asked, position)

    def _check_ever_there(self, names: Iterable[TableName]) -> None:
        from commitlog.catalog.history import HistoryFilter
        from commitlog.catalog.snapshot_diff import Named

        head = self.head_snapshot_id()
        for name in names:
            committed = HistoryFilter(limit=1, table=Named(name.schema, name.name), verdict=m.Verdict.COMMITTED)
            if self.table_at(name, head) is None and not self.contents().history(committed):
                meant = self.missing_table(name, head).meant
                remedy = "with missing_ok=True one is waited for that is created yet"
                raise TableNotFoundError(str(name), meant=meant, remedy=remedy)

    def seq_before(self, moment: datetime | str) -> int:
        """The ``seq`` of the last outcome that was decided before a moment, from which ``subscribe`` can go on; 0 is none.

        Args:
            moment: a datetime or a text as ``snapshot_at`` takes it.
        """
        from commitlog.catalog.history import HistoryFilter

        wanted = as_moment("moment", moment, now=self._access.now())
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
            table: only what changed this table, or was refused a change of it.
            writer: only what this ``writer_id`` has sent.
            since: only what was decided at this moment or later; a datetime or a text as ``snapshot_at`` takes it.
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
            since=None if since is None else as_moment("since", since, now=self._access.now()),
            verdict=None if verdict is None else checked_choice("verdict", verdict, m.Verdict),
            snapshot_id=checked_count_or_none("snapshot", snapshot),
        )
        self.head_snapshot_id()
        return self.contents().history(asked)

    def show(self, snapshot_id: int) -> SnapshotStory:
        """A snapshot: who made it, which changes were asked for, and what came of them.

        Raises:
            SnapshotNotFoundError: there is no such snapshot, or not any more.
        """
        from commitlog.client.outcomes.snapshot_story import snapshot_story

        return snapshot_story(self, checked_count("snapshot_id", snapshot_id))

    # --- which snapshot is the newest ---------------------------------------------------------------------------------

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

    def see(self, snapshot_id: int | None) -> None:
        """Take note of a snapshot that another process has told of: ``head_snapshot_id`` is none before it from now on."""
        self._seen_snapshot_id = max(self._seen_snapshot_id, checked_count_or_none("snapshot_id", snapshot_id) or 0)

    # --- what the tables hold -------------------------------------------------------------------------------------------

    def tables(self, *, snapshot: SnapshotGiven | None = None) -> list[str]:
        """The names of all tables, with their schemas, at a snapshot, by its id or a moment; None is the newest."""
        contents, at = self._contents_at(snapshot)
        return [str(TableName(schema, name)) for schema, name, _ in contents.tables(at)]

    def schemas(self, *, snapshot: SnapshotGiven | None = None) -> list[str]:
        """The names of all schemas at a snapshot, by its id or a moment; None is the newest."""
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

    def snapshot_at(self, moment: Moment) -> int:
        """The snapshot that was the newest at a moment.

        Args:
            moment: a datetime; ISO 8601, in UTC unless it says otherwise; or how long ago, such as "90m", "7d" or "yesterday",
                which begins at 0:00 UTC.

        Raises:
            MomentNotFoundError: it is before the oldest snapshot.
        """
        return snapshot_of(self, None, moment)

    def diff(self, first: SnapshotGiven, last: SnapshotGiven | None = None) -> list[ObjectDifference]:
        """What has become of each schema, table and view that is not the same at two snapshots; of tables also how many files
        and rows. ``Table.diff`` has the rows.

        Args:
            first: a snapshot, by its id or a moment (see ``snapshot_at``).
            last: another one; None is the newest.

        Raises:
            SnapshotNotFoundError: there is no such snapshot, or not any more.
        """
        upto = snapshot_of(self, last, what="last")
        return self.contents().differences(snapshot_named(self, "first", first), upto)

    def duckdb(self, *, snapshot: SnapshotGiven | None = None) -> DuckDBPyConnection:
        """The stock DuckDB client with the lake attached for reading, as ``lake``, which is its default catalog.

        It holds all that was committed before, and each query sees what is the newest then. Close it when it is done with,
        or use it in a ``with`` block.

        Args:
            snapshot: as of which snapshot every query reads, by its id or a moment; None is the newest of its own time.

        Raises:
            ConfigurationError: DuckDB is not installed: ``pip install 'commitlog[duckdb]'``.
            SnapshotNotFoundError: there is no such snapshot, or not any more.
            InvalidRequestError: the log is in memory.
        """
        from commitlog.client.reading.duckdb_client import open_lake

        url = self._access.reader_url()
        _, at = self._contents_at(snapshot)
        return open_lake(url, None if snapshot is None else at)

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
        """The limits and windows of the log as they are by now.

        Raises:
            CatalogBehindError: readers cannot see it in time.
        """
        return self._access.newest_settings()

    def changes_max(self, wanted: int) -> int:
        """How many changes a commit takes; only for whoever wants more than was known last the log is asked what it is now."""
        known = self._access.settings.changes_max
        return known if wanted <= known else self.settings.changes_max

    # --- inside -------------------------------------------------------------------------------------------------------

    def missing_table(self, name: TableName, snapshot_id: int) -> TableNotFoundError:
        """The error for a table that is not there."""
        return missing_table(name, snapshot_id, self.contents())

    def check_schema(self, schema: str, snapshot_id: int) -> None:
        """See that a schema is there; InvalidRequestError says which are."""
        self._access.reach_snapshot(snapshot_id)
        check_schema(schema, snapshot_id, self.contents())

    def _seq_of(self, snapshot_id: int) -> int:
        """The ``seq`` of the outcome that made a snapshot."""
        if snapshot_id == 0:
            return 0
        head = self.head_snapshot_id()
        made = self._made(snapshot_id)
        if made is None:
            raise SnapshotNotFoundError(snapshot_id, head_snapshot_id=head)
        return made.seq

    def _proposal_of(self, snapshot_id: int) -> UUID | None:
        """Which proposal made a snapshot, as far as readers see it; None of what no proposal made, or is not there."""
        made = self._made(snapshot_id)
        return None if made is None else made.proposal_id

    def _made(self, snapshot_id: int) -> HistoryEntry | None:
        from commitlog.catalog.history import HistoryFilter

        return next(iter(self.contents().history(HistoryFilter(limit=1, snapshot_id=snapshot_id))), None)

    def _contents_at(self, snapshot: SnapshotGiven | None) -> tuple[Contents, int]:
        at = snapshot_of(self, snapshot)
        return self.contents(), at
