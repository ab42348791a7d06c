"""Cleaning: which files below the data path nobody needs, by the log's word and not by the catalog's alone.

A file is removed only for one of three reasons: its proposals were all refused; it has the name of a file of our writers
and no proposal ever named it; or an expiry of snapshots scheduled it. In each case it must be older than a limit, in no
snapshot of the catalog, in no committed outcome that the catalog does not know yet, and in no proposal that waits. What
cannot be told apart is kept. Between looking and removing the log is read on, and what it names by then is kept too.

A writer that proposes a file later than the limit after writing it is not protected: the limit must be longer than that.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from posixpath import basename, normpath
from types import TracebackType
from typing import Self
from uuid import UUID

import psycopg

from commitlog.catalog import places
from commitlog.catalog.checks import CheckedCatalog, check_live_files, check_position
from commitlog.catalog.guard import mark_projector
from commitlog.catalog.migrations import catalog_exists
from commitlog.catalog.places import ScheduledFile
from commitlog.catalog.writing import Connection
from commitlog.config import Settings, without_password
from commitlog.domain import model as m
from commitlog.domain.model import Outcome, Verdict
from commitlog.domain.types import fold
from commitlog.errors import CatalogMismatchError, CatalogUnavailableError, DataFileError, MalformedRecordError
from commitlog.log.codec import decode_proposal
from commitlog.log.results import ResultsReader
from commitlog.log.topics import require_genesis
from commitlog.log.undecided import undecided_proposals
from commitlog.ops.log_side import read_log_side
from commitlog.ops.storage import (
    StoredFile,
    checksum_of,
    checksummed,
    list_files,
    places_of,
    remove_empty_folders,
    remove_file,
    root_of,
    stored_file,
)

_UUID4 = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
_OURS = re.compile(rf"{_UUID4}(/.+|\.parquet|-deletes\.parquet)")
"""What our writers name their files, below the table's folder: see ``spark.files`` and ``spark.arrow``."""

_READS_MAX = 10


@dataclass(frozen=True, slots=True)
class Removable:
    """A file that nobody needs. scheduled: the catalog's row that goes with it; size_bytes None: it is gone already."""

    place: str
    size_bytes: int | None
    why: str
    scheduled: ScheduledFile | None = None

    def as_dict(self) -> dict[str, object]:
        """For `--json`."""
        return {"path": self.place, "size_bytes": self.size_bytes, "why": self.why}


@dataclass(slots=True)
class _Mentions:
    """What the log says of one file."""

    committed_seq: int = -1
    refused_at_ms: int = -1
    refused: str = ""
    waits: bool = False


@dataclass(frozen=True, slots=True)
class _Named:
    """A file as a change names it."""

    path: str
    is_relative: bool
    table: tuple[str, str]


@dataclass
class _Lake:
    """The catalog's side, from one SQL snapshot, and what the storage holds."""

    root: str
    applied_seq: int
    listed: dict[str, StoredFile]
    referenced: set[str]
    scheduled: list[ScheduledFile]
    folders: dict[tuple[str, str], list[str]]
    live_ids: set[int] = field(default_factory=set)


class Cleaning:
    """One run: looks when it is made, looks again before it removes.

    Args:
        settings: the log, its catalog.
        older_than_ms: how old a file, its last refusal or its expiry must be, in milliseconds.

    Raises:
        CatalogMismatchError: the catalog is no image of this log; nothing can be told from it.
        DataFileError: this machine does not see the lake's files.
        CatalogUnavailableError, LogUnavailableError, LogIntegrityError: a server does not answer, or the log is broken.
    """

    def __init__(self, settings: Settings, *, older_than_ms: int) -> None:
        self._settings = settings
        self._genesis = require_genesis(settings)
        self._limit_ms = time.time_ns() // 1_000_000 - older_than_ms
        self._conn = _connect(settings)
        self._reader: ResultsReader | None = None
        self._next_offsets: dict[int, int] = {}
        try:
            self._lake = self._look()
            self._candidates = self._old_orphans()
            self._mentions = {place: _Mentions() for place in self._candidates}
            for file in self._lake.scheduled:
                self._mentions |= {place: _Mentions() for place in places_of(file.path)}
            self._by_name: dict[str, list[str]] = {}
            for place in self._mentions:
                self._by_name.setdefault(basename(place), []).append(place)
            self._reader = ResultsReader(settings)
            self._read_log()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the log and the catalog."""
        if self._reader is not None:
            self._reader.close()
        self._conn.close()

    @property
    def root(self) -> str:
        """Where the lake's files are."""
        return self._lake.root

    def removable(self) -> list[Removable]:
        """The files that nobody needs, by path."""
        found = [*self._orphans(), *self._scheduled()]
        return sorted(found, key=lambda each: each.place)

    def kept(self) -> dict[str, int]:
        """How many old files that are in no snapshot stay all the same, by why."""
        counts: Counter[str] = Counter()
        for place in self._candidates:
            why = self._why_kept(place)
            if why is not None:
                counts[why] += 1
        for file in self._lake.scheduled:
            if not any(place.startswith(self.root) for place in places_of(file.path)):
                counts["outside of the data path; remove it yourself"] += 1
        return dict(sorted(counts.items()))

    def remove(self, chosen: Iterable[Removable]) -> Iterator[Removable]:
        """Remove files, as long as the log that has been read on meanwhile does not name them; yields what is gone."""
        self._read_log()
        still = {each.place for each in self.removable()}
        for each in chosen:
            if each.place not in still or not each.place.startswith(self.root) or not self._is_as_listed(each):
                continue
            remove_file(each.place)
            remove_file(checksum_of(each.place))
            remove_empty_folders(each.place, self.root)
            if each.scheduled is not None:
                with self._conn.transaction():
                    places.forget_scheduled(self._conn, each.scheduled)
            yield each

    def _is_as_listed(self, each: Removable) -> bool:
        now, before = stored_file(each.place), self._lake.listed.get(each.place)
        return now is None or (before is not None and now.modified_ms == before.modified_ms)

    # --- looking ------------------------------------------------------------------------------------------------------

    def _look(self) -> _Lake:
        conn = self._conn
        with conn.transaction():
            conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            row = (
                conn.execute("SELECT log_id, seq, hash FROM commitlog.applied").fetchone()
                if catalog_exists(conn)
                else None
            )
            if row is None:
                raise CatalogMismatchError("there is no catalog yet: `commitlog init`")
            applied = {"applied_log_id": row[0].bytes, "applied_seq": row[1], "applied_hash": bytes(row[2])}
            log = read_log_side(self._settings, **applied)
            catalog = CheckedCatalog(conn, log, now_ms=0, **applied)
            wrong = [*check_position(catalog), *(() if log.state is None else check_live_files(catalog))]
            if wrong:
                raise CatalogMismatchError(f"nothing was removed: {wrong[0].what}; see `commitlog doctor`")
            folders: dict[tuple[str, str], list[str]] = {}
            for folder in places.table_folders(conn):
                folders.setdefault(folder.name, []).append(folder.path)
            data_path = places.data_path(conn)
            lake = _Lake(
                root=root_of(data_path),
                applied_seq=row[1],
                listed=list_files(data_path),
                referenced={place for path in places.referenced_paths(conn) for place in places_of(path)},
                scheduled=places.scheduled_files(conn),
                folders=folders,
                live_ids={each for files in catalog.live_files.values() for each in files},
            )
            live = [file.path for file in places.live_files(conn)]
        missing = [
            path for path in live if lake.listed.keys().isdisjoint(places_of(path)) and stored_file(path) is None
        ]
        if live and len(missing) == len(live):
            raise DataFileError(
                f"none of the {len(live)} live files is seen from here, {live[0]} for one: nothing is removed"
            )
        names = {basename(path) for path in missing}
        lake.referenced |= {place for place in lake.listed if basename(place) in names}
        return lake

    def _old_orphans(self) -> dict[str, StoredFile]:
        lake = self._lake
        known = lake.referenced | {place for file in lake.scheduled for place in places_of(file.path)}
        return {
            place: file
            for place, file in lake.listed.items()
            if place not in known
            and checksummed(place) not in lake.listed
            and file.modified_ms is not None
            and file.modified_ms <= self._limit_ms
        }

    # --- the log ------------------------------------------------------------------------------------------------------

    def _read_log(self) -> None:
        """Read the log on to its end, and the proposals that wait there."""
        assert self._reader is not None
        for _ in range(_READS_MAX):
            for records in self._reader.read_to_end():
                for record in records:
                    if isinstance(record.value, Outcome):
                        self._note(record.value)
            if self._read_undecided():
                return
        raise CatalogMismatchError("the log is trimmed faster than it can be read: try again later")

    def _note(self, outcome: Outcome) -> None:
        partition, offset = outcome.source
        self._next_offsets[partition] = max(self._next_offsets.get(partition, 0), offset + 1)
        if outcome.proposal is None:
            return
        committed = outcome.verdict is Verdict.COMMITTED
        for named in _files_named(outcome.proposal.changes):
            for place in self._places(named, widely=committed):
                mentions = self._mentions[place]
                if committed:
                    mentions.committed_seq = outcome.seq
                else:
                    mentions.refused_at_ms = outcome.decided_at_ms
                    reason = outcome.verdict if outcome.reason is None else outcome.reason
                    mentions.refused = f"{reason.value}, proposal {UUID(bytes=outcome.proposal.proposal_id)}"

    def _read_undecided(self) -> bool:
        """Note what waits; False when some of it was decided and trimmed meanwhile, so that the log says more by now."""
        for mentions in self._mentions.values():
            mentions.waits = False
        waiting = undecided_proposals(self._settings, self._next_offsets, self._genesis.partitions)
        if waiting is None:
            return False
        for raw in waiting:
            try:
                proposal = decode_proposal(raw)
            except MalformedRecordError:
                continue
            for named in _files_named(proposal.changes):
                for place in self._places(named, widely=True):
                    self._mentions[place].waits = True
        return True

    def _places(self, named: _Named, *, widely: bool) -> list[str]:
        """Which of the files that are looked at a change names; ``widely``: all that it might mean."""
        if not named.is_relative:
            return [place for place in places_of(named.path) if place in self._mentions]
        near = self._by_name.get(basename(named.path), ())
        if widely:
            end = "/" + normpath(named.path).rpartition("../")[2]
            return [place for place in near if place.endswith(end)]
        folders = self._lake.folders.get(named.table, ()) if near else ()
        meant = {place for folder in folders for place in places_of(folder + named.path)}
        return [place for place in near if place in meant]

    # --- judging ------------------------------------------------------------------------------------------------------

    def _orphans(self) -> Iterator[Removable]:
        for place, file in self._candidates.items():
            if self._why_kept(place) is None:
                refused = self._mentions[place].refused
                why = f"refused: {refused}" if refused else "never decided: no proposal names it"
                yield Removable(place, file.size_bytes, why)

    def _why_kept(self, place: str) -> str | None:
        mentions = self._mentions[place]
        if mentions.committed_seq >= 0:
            return "committed by the log, and not in the catalog"
        if mentions.waits:
            return "a proposal that names it is not decided yet"
        if mentions.refused:
            return None if mentions.refused_at_ms <= self._limit_ms else "refused only lately"
        return None if self._is_ours(place) else "no proposal names it, and its name is not one of ours"

    def _is_ours(self, place: str) -> bool:
        below = place.removeprefix(self.root)
        parts = below.split("/", 2)
        if len(parts) == 3 and _OURS.fullmatch(parts[2]):
            return True
        folders = {known for paths in self._lake.folders.values() for path in paths for known in places_of(path)}
        return any(
            place.startswith(f"{folder}/") and _OURS.fullmatch(place.removeprefix(f"{folder}/")) for folder in folders
        )

    def _scheduled(self) -> Iterator[Removable]:
        lake = self._lake
        for file in lake.scheduled:
            scheduled_ms = int(file.scheduled_at.timestamp() * 1000)
            meant = places_of(file.path)
            if scheduled_ms > self._limit_ms or meant & lake.referenced or file.file_id in lake.live_ids:
                continue
            if not all(place.startswith(lake.root) for place in meant):
                continue
            if any(self._mentions[p].waits or self._mentions[p].committed_seq > lake.applied_seq for p in meant):
                continue
            here = [place for place in meant if place in lake.listed]
            if any((lake.listed[place].modified_ms or 0) > scheduled_ms for place in here):
                continue
            place = here[0] if here else min(meant)
            size = lake.listed[place].size_bytes if here else None
            why = f"expired: its last snapshot went at {file.scheduled_at:%Y-%m-%d %H:%M}"
            yield Removable(place, size, why if here else f"{why}; it is gone already", file)


def _files_named(changes: Iterable[m.Change]) -> Iterator[_Named]:
    for change in changes:
        if isinstance(change, m.Append | m.Compact | m.Flush):
            table = (fold(change.schema), fold(change.table))
            for file in change.files:
                yield _Named(file.path, file.path_is_relative, table)
        elif isinstance(change, m.Delete):
            table = (fold(change.schema), fold(change.table))
            for delete in change.delete_files:
                yield _Named(delete.path, delete.path_is_relative, table)


def _connect(settings: Settings) -> Connection:
    try:
        conn = psycopg.connect(settings.database_url, connect_timeout=10, autocommit=True)
    except psycopg.OperationalError as error:
        raise CatalogUnavailableError(without_password(settings.database_url), detail=str(error).strip()) from error
    mark_projector(conn)
    return conn
