"""A log on a broker with its catalog: the ``LogAccess`` of programs that are not tests."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from weakref import WeakSet

from commitlog.catalog.connecting import catalog_url
from commitlog.catalog.folders import is_plain
from commitlog.catalog.queries import Catalog, Shown
from commitlog.catalog.table_changes import ReadersCatalog
from commitlog.catalog.watching import CatalogWatch
from commitlog.client.access.contents import Contents
from commitlog.client.access.dry_run import decided_unsent
from commitlog.client.access.group_position import KafkaGroupPosition
from commitlog.client.access.log_access import OutcomeState, PendingAnswer, ProposalStatus, log_is_closed
from commitlog.client.access.log_end import LogEnd
from commitlog.client.access.proposals_lookup import find_queued
from commitlog.client.access.results_lookup import ResultsLookup, position_known
from commitlog.client.files.lake import claim
from commitlog.client.tables.known_tables import KnownTables
from commitlog.client.tables.table_at import KnownTable, LiveFile, TableAt
from commitlog.config import Settings, without_password
from commitlog.domain.model import (
    KnownNode,
    LogSettings,
    Outcome,
    Position,
    Proposal,
    ProposalId,
    Reason,
    Receipt,
    Verdict,
)
from commitlog.domain.model.nodes import LastBrought, Node
from commitlog.domain.state.index import SequencerState
from commitlog.errors import (
    CatalogBehindError,
    CatalogMismatchError,
    CatalogUnavailableError,
    CommitLogError,
    LogUnavailableError,
    OutcomeNotFoundError,
    ResultsTrimmedError,
    SnapshotNotFoundError,
)
from commitlog.log.answers import PendingProposal
from commitlog.log.carried import Carried
from commitlog.log.checkpoint import load_checkpoints, state_after
from commitlog.log.connection import end_offsets, leave_to_parent
from commitlog.log.genesis import require_genesis
from commitlog.log.publisher import Publisher
from commitlog.log.replica import Replica
from commitlog.log.results import LogPosition, ResultsReader
from commitlog.log.row_handlers import InstalledHandlers
from commitlog.log.topics import topics_of
from commitlog.log.trims import last_trim, position_of
from commitlog.log.undecided import has_proposal

REPLAYED_OUTCOMES_MAX = 2_000_000
_POLL_S = 0.05
_IN_STEP_S = 1.0
"""For so long the log is believed to have what the catalog shows, once it was asked."""
_LEADER_S = 3.0
"""For so long may a broker that leads since a moment ago not know of the last records."""


class _Connections:
    """What one process has open to one log."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.genesis = require_genesis(settings)
        # Made for the first proposal: whoever only reads does not wait for what it needs.
        self._publisher: Publisher | None = None
        self._making = threading.Lock()
        self._is_closed = False
        self.catalog = ReadersCatalog(catalog_url(settings), connected_again=self._come_again)
        self.watch = CatalogWatch(Catalog(catalog_url(settings)))
        self.lookup = ResultsLookup(settings, self.catalog)
        self.end = LogEnd(settings)
        self._carried = Carried(settings, self.genesis, self.publisher)
        self._own = _CarriedOfThread()

    def carried(
        self, encoded: bytes, proposal_id: ProposalId, writer_id: str, *, traceparent: str | None, is_awaited: bool
    ) -> PendingProposal | None:
        """A proposal that the carrier of this machine has taken; None: it goes from here.

        What one thread sends keeps its order, so none goes by the carrier while another is on its way from here.
        """
        publisher = self._publisher
        if self._is_closed or (publisher is not None and not publisher.is_idle):
            return None
        carried = self._carried.publish_bytes(
            encoded, proposal_id, writer_id, traceparent=traceparent, is_awaited=is_awaited
        )
        if carried is not None and not is_awaited:
            self._own.last[carried.partition] = carried
        if publisher is not None:
            # While answers come by the carrier, those to all others would be heard for nothing.
            publisher.listens_s = math.inf if carried is None else 0.0
        return carried

    def wait_for_carried(self, timeout_s: float) -> float:
        """Return when nothing that goes from here could overtake what this thread has given to the carrier; what is left of
        the time.

        Raises:
            LogUnavailableError: that stays unanswered.
        """
        deadline = time.monotonic() + timeout_s
        for last in list(self._own.last.values()):
            with suppress(CommitLogError):
                last.wait(max(0.0, deadline - time.monotonic()))
            if not last.done:
                raise LogUnavailableError(
                    self._settings.bootstrap_servers,
                    waited_ms=int(timeout_s * 1000),
                    detail="what was sent before, by this machine's carrier, is unanswered",
                )
        self._own.last.clear()
        return max(0.0, deadline - time.monotonic())

    def publisher(self, timeout_s: float | None = None) -> Publisher:
        if self._publisher is not None and not self._is_closed:
            return self._publisher
        with self._making:
            if self._is_closed:
                # One that is made now would be closed by nobody, and commit for somebody who was told that this is over.
                raise log_is_closed()
            if self._publisher is None:
                given_s = self._settings.receipts_timeout_ms / 1000 if timeout_s is None else timeout_s
                self._publisher = Publisher(self._settings, genesis=self.genesis, timeout_s=given_s)
            return self._publisher

    def read_to(self, end_offset: int, timeout_ms: int) -> Shown:
        """Wait until the catalog holds the results before an offset.

        Raises:
            CatalogBehindError: not in time.
        """
        is_remembered = self.watch.shown is not None
        seen: list[Shown] = []

        def is_there(shown: Shown) -> bool:
            seen.append(shown)
            return shown.next_offset >= end_offset

        shown = self.watch.wait_until(is_there, timeout_ms / 1000)
        if shown is None:
            after = self.watch.shown
            raise CatalogBehindError(
                topics_of(self._settings.log).results,
                next_offset=None if after is None else after.next_offset,
                end_offset=end_offset,
                waited_ms=timeout_ms,
                # What was seen long ago is no look of this time.
                is_moving=len(set(seen[is_remembered:])) > 1,
            )
        return shown

    def _come_again(self) -> None:
        """Where PostgreSQL was killed, the catalog may be older than it was seen: wait until it is there again.

        Raises:
            InvalidRequestError: the log was closed, and whoever still holds its contents would have a connection that nobody
                closes.
        """
        if self._is_closed:
            raise log_is_closed()
        if (seen := self.watch.look_anew()) is not None:
            self.read_to(seen.next_offset, self._settings.catalog_timeout_ms)

    def is_sending(self, proposal_id: ProposalId) -> bool:
        """Whether a proposal of this process is on its way."""
        is_carried = self._carried.is_sending(proposal_id)
        return is_carried or (self._publisher is not None and self._publisher.is_sending(proposal_id))

    def close(self) -> None:
        with self._making:
            self._is_closed = True
        self._carried.close()
        if self._publisher is not None:
            self._publisher.close()
        self.catalog.close()
        self.watch.close()
        self.lookup.close()
        self.end.close()


class _CarriedOfThread(threading.local):
    """What the thread that asks has given to the carrier last, of each partition, without waiting for the answer."""

    def __init__(self) -> None:
        self.last: dict[int, PendingProposal] = {}


class KafkaAccess:
    """A log on a broker. Thread-safe; a process made by fork connects anew.

    Args:
        settings: which log, and where it and its catalog are.

    Raises:
        ConfigurationError: there is no such log.
        LogUnavailableError: the broker does not answer.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._handlers = InstalledHandlers()
        self._is_closed = False
        self._begin_unconnected()
        self._partitions = self._connect().genesis.partitions
        _accesses.add(self)

    def _begin_unconnected(self) -> None:
        self._connected: _Connections | None = None
        self._connecting = threading.Lock()
        self._lock = threading.Lock()
        self._catalog_checked = False
        self._data_path_claimed = False
        self._current_at_s = self._in_step_at_s = -math.inf
        self._known_settings: LogSettings | None = None
        self._tables = KnownTables()
        self._replica: Replica | None = None
        self._replica_lock = threading.Lock()

    @property
    def _connections(self) -> _Connections:
        if self._is_closed:
            raise log_is_closed()
        return self._connect() if self._connected is None else self._connected

    def _connect(self) -> _Connections:
        with self._connecting:
            if self._connected is None:
                self._connected = _Connections(self._settings)
            return self._connected

    def leave_to_parent(self) -> None:
        """In a process made by fork: let the connections alone, which are the parent's, and make others when needed.

        To close PostgreSQL's connection would close the parent's, too.
        """
        leave_to_parent((self._connected, self._replica))
        self._begin_unconnected()

    @property
    def connected_by(self) -> Settings:
        """The settings that say which log, and where it and its catalog are."""
        return self._settings

    @property
    def settings(self) -> LogSettings:
        return self._known_settings or self._connections.genesis.settings

    def now(self) -> datetime:
        return datetime.now(UTC)

    def newest_settings(self) -> LogSettings:
        self.wait_for_head()
        self._known_settings = found = self.catalog().log_settings()
        return found

    def close(self) -> None:
        self._is_closed = True
        if self._connected is not None:
            self._connected.close()
        if self._replica is not None:
            self._replica.close()

    # --- writing ------------------------------------------------------------------------------------------------------

    @property
    def partitions_of_machines(self) -> int:
        socket = self._settings.carrier_socket
        # Without a carrier each process hears the answers to all others of its partition, and so they lie apart.
        return self._partitions if socket is not None and socket.exists() else 1

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
        connections = self._connections
        if not is_bulk:
            carried = connections.carried(
                encoded, proposal.proposal_id, proposal.writer_id, traceparent=traceparent, is_awaited=is_awaited
            )
            if carried is not None:
                return carried
        given_s = self._settings.receipts_timeout_ms / 1000 if timeout_s is None else timeout_s
        timeout_s = connections.wait_for_carried(given_s)
        return connections.publisher(timeout_s).publish_bytes(
            encoded, proposal.proposal_id, proposal.writer_id, timeout_s=timeout_s, traceparent=traceparent
        )

    def decide_unsent(self, proposal: Proposal) -> Outcome:
        """Replays the log here, which takes its time at first and is kept in step from then on."""
        with self._replica_lock:
            if self._replica is None:
                self._replica = Replica(self._settings, checkpoints=load_checkpoints(self._settings))
            try:
                for _ in self._replica.follow_to_end():
                    pass
            except Exception:
                raise
            except BaseException:
                # What was read as a signal ended it may not have been replayed.
                self._replica.close()
                self._replica = None
                raise
            return decided_unsent(self._replica.state, proposal, handlers=self._handlers)

    def state_before(self, seq: int) -> SequencerState:
        return state_after(self._settings, seq - 1, outcomes_max=REPLAYED_OUTCOMES_MAX)

    # --- the catalog --------------------------------------------------------------------------------------------------

    def head_snapshot_id(self) -> int:
        if time.monotonic() - self._current_at_s < self._settings.staleness_ms / 1000:
            return self.catalog().head_snapshot_id()
        return self.wait_for_head()

    def wait_for_head(self, timeout_ms: int | None = None) -> int:
        """Asks the log for its end, and waits until the catalog holds all before it.

        Raises:
            CatalogBehindError: not in time.
            CatalogMismatchError: it holds what the log does not have.
        """
        asked_at_s = time.monotonic()
        end = self._connections.end.offset()
        self.catalog()
        wait_ms = self._settings.catalog_timeout_ms if timeout_ms is None else timeout_ms
        shown = self._read_to(end, wait_ms)
        if shown.next_offset > end and asked_at_s - self._in_step_at_s > _IN_STEP_S:
            shown = self._in_step(shown, wait_ms)
            self._in_step_at_s = asked_at_s
        self._current_at_s = asked_at_s
        return shown.snapshot_id

    def _in_step(self, shown: Shown, timeout_ms: int) -> Shown:
        """The catalog shows more than the log had before it was looked at: what was decided meanwhile, or what is gone, and may
        have been rebuilt without that since it was looked at.

        Raises:
            CatalogBehindError: it is rebuilt, and does not hold all in time.
            CatalogMismatchError: the log does not have that.
        """
        deadline = time.monotonic() + _LEADER_S
        while (end := self._connections.end.offset()) < shown.next_offset:
            if time.monotonic() > deadline:
                raise CatalogMismatchError(
                    f"the catalog at {without_password(self._settings.database_url)} holds the results up to offset "
                    f"{shown.next_offset:,} of the log {self._settings.log}, which ends at offset {end:,}: that was restored "
                    "from a backup; run `commitlog catalog rebuild`, or see docs/retention.md"
                )
            time.sleep(_POLL_S)
            self._connections.watch.forget()
            self._tables = KnownTables()
            shown = self._read_to(end, timeout_ms)
        return shown

    def _read_to(self, end_offset: int, timeout_ms: int) -> Shown:
        shown = self._connections.read_to(end_offset, timeout_ms)
        self._tables.see(shown.snapshot_id, shown.schema_version)
        return shown

    def hear(self, receipt: Receipt) -> None:
        self._tables.see(receipt.head_snapshot_id, receipt.assigned.schema_version)

    def newest_known_table(self, schema: str, table: str) -> KnownTable | None:
        return self._tables.at_head(schema, table)

    def known_table(self, schema: str, table: str, snapshot_id: int) -> TableAt | None:
        return self._tables.at(schema, table, snapshot_id)

    def table_at(self, schema: str, table: str, snapshot_id: int) -> TableAt | None:
        self.reach_snapshot(snapshot_id)
        found = self.catalog().table_at(schema, table, snapshot_id)
        if found is None:
            return None
        at = TableAt(found.definition, found.path)
        self._tables.add(schema, table, snapshot_id, at)
        return at

    def reach_snapshot(self, snapshot_id: int) -> None:
        self.catalog()
        shown = self._connections.watch.shown
        if (shown is None or shown.snapshot_id < snapshot_id) and (head := self.wait_for_head()) < snapshot_id:
            raise SnapshotNotFoundError(snapshot_id, head_snapshot_id=head)

    def contents(self) -> Contents:
        return self.catalog()

    def reader_url(self) -> str:
        return self._settings.reader_url or self._settings.database_url

    def new_table_path(self, schema: str, table: str, *, is_schema_new: bool = False) -> str | None:
        """The projector names the folder of a plain name by it; of others nobody knows it before."""
        catalog = self.catalog()
        if not is_plain(table):
            return None
        if is_schema_new:
            path = f"{catalog.data_path()}{schema}/" if is_plain(schema) else None
        else:
            path = catalog.schema_path(schema, catalog.head_snapshot_id())
        return None if path is None else f"{path}{table}/"

    def live_files(self, table_id: int, paths: Sequence[str]) -> Sequence[LiveFile]:
        return [LiveFile(*row) for row in self.catalog().live_files(table_id, paths)]

    def claim_data_path(self) -> None:
        if not self._data_path_claimed:
            claim(self.catalog().data_path(), self._connections.genesis.log_id, self._settings.log)
            self._data_path_claimed = True

    def wait_for_snapshot(self, snapshot_id: int, timeout_ms: int) -> None:
        catalog, watch = self.catalog(), self._connections.watch
        if watch.wait_until(lambda shown: shown.snapshot_id >= snapshot_id, timeout_ms / 1000) is None:
            raise SnapshotNotFoundError(snapshot_id, head_snapshot_id=catalog.head_snapshot_id())

    def wait_for_seq(self, seq: int, timeout_s: float) -> bool:
        """Wait until the catalog holds an outcome; False when it was not in time."""
        self.catalog()
        return self._connections.watch.wait_until(lambda shown: shown.seq >= seq, timeout_s) is not None

    def catalog(self) -> ReadersCatalog:
        """The catalog, once it is there and known to be this log's.

        Raises:
            CatalogUnavailableError: it has not been made in time: no projector runs.
            CatalogMismatchError: it is another log's.
        """
        if self._catalog_checked:
            return self._connections.catalog
        with self._lock:
            deadline = time.monotonic() + self._settings.catalog_timeout_ms / 1000
            while not self._connections.catalog.exists():
                if time.monotonic() > deadline:
                    address = without_password(self._settings.database_url)
                    detail = "it holds no catalog of this log; is `commitlog serve` or `commitlog projector` running?"
                    raise CatalogUnavailableError(
                        address, waited_ms=self._settings.catalog_timeout_ms, detail=detail, has_answered=True
                    )
                time.sleep(_POLL_S)
            applied = self._connections.catalog.applied()
            if applied is not None and applied.log_id != self._connections.genesis.log_id:
                raise CatalogMismatchError(
                    f"the catalog at {without_password(self._settings.database_url)} is another log's than "
                    f"{self._settings.log} at {self._settings.bootstrap_servers}: check COMMITLOG_DATABASE_URL"
                )
            self._catalog_checked = True
        return self._connections.catalog

    # --- outcomes -----------------------------------------------------------------------------------------------------

    def find(self, proposal_id: ProposalId) -> ProposalStatus:
        decided = self._decided(proposal_id)
        if decided is not None:
            return ProposalStatus(proposal_id, OutcomeState.DECIDED, decided)
        sending = self._connections.is_sending(proposal_id)
        skew_ms_max = self.catalog().log_settings().clock_skew_ms_max
        searched = find_queued(self._settings, self._connections.genesis.partitions, skew_ms_max, proposal_id)
        # It may have been decided while it was looked for, and trimmed, too.
        decided = self._decided(proposal_id)
        if decided is not None:
            return ProposalStatus(proposal_id, OutcomeState.DECIDED, decided, searched.positions)
        state = OutcomeState.UNDECIDED if searched.found or sending else OutcomeState.NEVER_SEEN
        return ProposalStatus(proposal_id, state, None, searched.positions)

    def _decided(self, proposal_id: ProposalId) -> Outcome | None:
        """From the catalog, else from the results that it has not applied yet."""
        catalog = self.catalog()
        applied = catalog.applied()
        row = catalog.outcome(proposal_id)
        known = None if row is None else self._outcome_of(row)
        if known is None or known.verdict is Verdict.DUPLICATE:
            after = None if applied is None else position_known(applied)
            found = self._connections.lookup.by_proposal(proposal_id, after=after)
            known = known if found is None else found.outcome
        return known

    def _outcome_of(self, row: Mapping[str, Any]) -> Outcome | None:
        """The outcome of a row of the catalog; what that still knows of it, where the results that told of it were trimmed.

        Raises:
            CatalogMismatchError: the log has another outcome there.
        """
        try:
            found = self.outcome_at(row["seq"])
            if found is not None and found.proposal_id != row["proposal_id"].bytes:
                raise CatalogMismatchError(
                    f"the catalog at {without_password(self._settings.database_url)} tells of proposal {row['proposal_id']} as "
                    f"outcome {row['seq']}, which is another one in the log {self._settings.log}: that was restored from a "
                    "backup; run `commitlog catalog rebuild`"
                )
            return found
        except ResultsTrimmedError:
            return Outcome(
                seq=row["seq"],
                epoch=row["epoch"],
                source=Position(row["source_partition"], row["source_offset"]),
                decided_at_ms=int(row["decided_at"].timestamp() * 1000),
                verdict=Verdict(row["verdict"]),
                head_snapshot_id=row["head_snapshot_id"],
                proposal_id=row["proposal_id"].bytes,
                writer_id=row["writer_id"],
                snapshot_id=row["snapshot_id"],
                reason=None if row["reason"] is None else Reason(row["reason"]),
                detail=row["detail"],
                original_seq=row["original_seq"],
            )

    def outcome_at(self, seq: int) -> Outcome | None:
        found = self._connections.lookup.by_seq(seq)
        return None if found is None else found.outcome

    def committed_as(self, writer_id: str, writer_seq: int) -> Outcome | None:
        row = self.catalog().committed_as(writer_id, writer_seq)
        return None if row is None else self._outcome_of(row)

    def last_seq(self) -> int:
        found = self._connections.lookup.last()
        return 0 if found is None else found.seq

    def node(self) -> Node | None:
        self.wait_for_head()
        return self.catalog().own_node()

    def digest(self, before_seq: int | None = None, *, wait: bool = True) -> Mapping[str, KnownNode]:
        if wait:
            self.wait_for_head()
        return self.catalog().digest(before_seq)

    def last_by(self, link: str) -> LastBrought | None:
        self.wait_for_head()
        return self.catalog().last_by(link)

    def taken_over_by(self, node: str, tick: int) -> int | None:
        return self.catalog().taken_over_by(node, tick)

    def sent_offsets(self) -> Mapping[int, int]:
        topic, partitions = topics_of(self._settings.log).proposals, range(self._connections.genesis.partitions)
        return end_offsets(self._settings, topic, partitions)

    def decided_offsets(self) -> Mapping[int, int]:
        return self.catalog().decided_offsets(range(self._connections.genesis.partitions))

    def has_undecided(self, done: Mapping[int, int], ends: Mapping[int, int]) -> bool:
        decided = self.decided_offsets()
        newest = {partition: max(offset, decided[partition]) for partition, offset in done.items()}
        return has_proposal(self._settings, newest, ends)

    def subscribe(self, after_seq: int, *, follow: bool) -> Iterator[Sequence[Outcome]]:
        after = self._position_of(after_seq) if after_seq else None
        with ResultsReader(self._settings, after=after) as reader:
            for records in reader.read_to_end():
                yield [record.value for record in records if isinstance(record.value, Outcome)]
            while follow and not self._is_closed:
                yield [record.value for record in reader.read() if isinstance(record.value, Outcome)]

    def _position_of(self, seq: int) -> LogPosition:
        try:
            found = self._connections.lookup.by_seq(seq)
        except ResultsTrimmedError:
            trim = last_trim(self._settings)
            if trim is None or trim.seq != seq:
                raise
            return position_of(trim)
        if found is None:
            raise OutcomeNotFoundError(seq, last_seq=self.last_seq())
        return found.position

    def group_position(self, group: str) -> KafkaGroupPosition:
        return KafkaGroupPosition(self._settings, self._connections.genesis.log_id, group)


_accesses: WeakSet[KafkaAccess] = WeakSet()


def _leave_all_to_parent() -> None:
    for access in list(_accesses):
        access.leave_to_parent()


os.register_at_fork(after_in_child=_leave_all_to_parent)
