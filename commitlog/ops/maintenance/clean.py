"""Cleaning: which files below the data path nobody needs, by the log's word and not by the catalog's alone.

Only files that our writers made are looked at, which their names tell (`commitlog.client.files.lake`), and in the folder of
this log alone. Such a file is removed for one of two reasons: no committed proposal ever named it, because those that did
were refused or there was none; or an expiry of snapshots scheduled it. In each case it must be older than a limit, in no
snapshot of the catalog, in no committed outcome that the catalog does not know yet, in no proposal that was refused only
lately or that waits. What cannot be told apart is kept. Before each batch of removals the log is read on, and what it
names by then is kept too. Files that others made are removed only when asked for, and only if the log has named them.

Of the log only that is read which is younger than the limit or not in the catalog yet: what is older is in the catalog,
or was refused so long ago that its writer has given up. All of it is read where files of the catalog are missing, for then
the catalog's paths may be wrong, and for files of others.

A writer that proposes a file later than the limit after writing it is not protected: the limit must be longer than that.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from posixpath import basename, normpath
from typing import Self
from uuid import UUID

from commitlog.catalog import places
from commitlog.catalog.places import ScheduledFile
from commitlog.client.access.results_lookup import ResultsLookup
from commitlog.client.outcomes.archive import trimmed_results
from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.domain.model.types import fold
from commitlog.errors import CatalogMismatchError, MalformedRecordError
from commitlog.log.codec import decode_proposal
from commitlog.log.genesis import require_genesis
from commitlog.log.heartbeats import HeartbeatListener
from commitlog.log.results import LogPosition, ResultsReader
from commitlog.log.trims import last_trim, position_of
from commitlog.log.undecided import undecided_proposals
from commitlog.ops.maintenance.seen_lake import SeenLake, check_marked, connected
from commitlog.ops.maintenance.storage import (
    checksum_of,
    places_of,
    remove_empty_folders,
    remove_file,
    stored_file,
)

BATCH_FILES = 100
"""How many files are removed before the log is looked at again."""

_READS_MAX = 10
_FOREIGN = "not made by commitlog's writers"


@dataclass(frozen=True, slots=True)
class Removable:
    """A file that nobody needs.

    Attributes:
        place: where it is.
        size_bytes: None when it is gone already.
        why: why nobody needs it.
        is_foreign: whether none of our writers made it.
        scheduled: the catalog's row that goes with it.
    """

    place: str
    size_bytes: int | None
    why: str
    is_foreign: bool = False
    scheduled: ScheduledFile | None = None

    def as_dict(self) -> dict[str, object]:
        """For `--json`."""
        return {"path": self.place, "size_bytes": self.size_bytes, "why": self.why, "foreign": self.is_foreign}


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


class Cleaning:
    """One run: looks when it is made, looks again before it removes.

    Args:
        settings: the log, its catalog.
        older_than_ms: how old a file, its last refusal or its expiry must be, in milliseconds.
        include_foreign: also files that the log has named and none of our writers made.
        on_progress: told what is looked at, how much of it, and how much there is.

    Raises:
        ConfigurationError: the data path is another log's, or nobody has marked it as this one's.
        CatalogMismatchError: the catalog is no image of this log; nothing can be told from it.
        DataFileError: this machine does not see the lake's files.
        CatalogUnavailableError, LogUnavailableError, LogIntegrityError: a server does not answer, or the log is broken.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        older_than_ms: int,
        include_foreign: bool = False,
        on_progress: Callable[[str, int, int], None] = lambda doing, done, total: None,
    ) -> None:
        self._settings = settings
        self._genesis = require_genesis(settings)
        self._include_foreign = include_foreign
        self._conn = connected(settings)
        self._reader: ResultsReader | None = None
        try:
            # No file is older than 1970, and no time of PostgreSQL's as old as an age can be.
            self._limit_ms = max(0, self._now_ms() - older_than_ms)
            replayed = partial(on_progress, "replaying the log")
            self._lake = SeenLake.look(settings, self._genesis.log_id, self._conn, on_progress=replayed)
            self._next_offsets = dict(self._lake.next_offsets)
            self._old = self._lake.orphans(self._limit_ms)
            self._candidates = {
                place: file for place, file in self._old.items() if include_foreign or self._lake.is_ours(place)
            }
            self._mentions = {place: _Mentions() for place in self._candidates}
            for file in self._lake.scheduled:
                self._mentions |= {place: _Mentions() for place in places_of(file.path)}
            self._by_name: dict[str, list[str]] = {}
            for place in self._mentions:
                self._by_name.setdefault(basename(place), []).append(place)
            after = self._start()
            self._reader = ResultsReader(settings, after=self._after_trimmed() if after is None else after)
            self._read_log(on_progress)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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
        orphans = map(self._orphan, self._candidates)
        expired = map(self._expired, self._lake.scheduled)
        return sorted((each for found in (orphans, expired) for each in found if each), key=lambda each: each.place)

    def kept(self) -> dict[str, int]:
        """How many old files that are in no snapshot stay all the same, by why."""
        counts: Counter[str] = Counter()
        for place in self._old:
            why = self._why_kept(place) if place in self._candidates else _FOREIGN
            if why is not None:
                counts[why] += 1
        for file in self._lake.scheduled:
            if not self._lake.is_inside(file):
                counts["outside of the data path (remove it yourself), or in another log's folder"] += 1
            elif self._expired(file) is None and self._expired_by_anyone(file) is not None:
                counts[f"expired, but {_FOREIGN}"] += 1
        return dict(sorted(counts.items()))

    def remove(self, chosen: Iterable[Removable]) -> Iterator[Removable]:
        """Remove files, as long as the log that has been read on meanwhile does not name them; yields what is gone."""
        check_marked(self._lake.root, self._genesis.log_id, self._settings.log)
        files = list(chosen)
        for start in range(0, len(files), BATCH_FILES):
            self._read_log()
            for each in files[start : start + BATCH_FILES]:
                now = self._orphan(each.place) if each.scheduled is None else self._expired(each.scheduled)
                if now is None or now.place != each.place or not self._is_as_listed(each):
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
        return now is None or (before is not None and now.is_as(before))

    # --- looking ------------------------------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        """The earliest of what this machine, PostgreSQL and the sequencer take for now: a clock that is ahead would make
        young files old."""
        [(database_ms,)] = self._conn.execute("SELECT extract(epoch FROM clock_timestamp()) * 1000").fetchall()
        now_ms = min(time.time_ns() // 1_000_000, int(database_ms))
        with closing(HeartbeatListener(self._settings)) as listener:
            heartbeat = listener.next_of(self._genesis.log_id)
        return now_ms if heartbeat is None else min(now_ms, heartbeat.sent_at_ms)

    # --- the log ------------------------------------------------------------------------------------------------------

    def _start(self) -> LogPosition | None:
        """After which record the log has to be read; None is the beginning."""
        if self._include_foreign or not self._lake.is_whole:
            return None
        row = self._conn.execute(
            "SELECT seq FROM commitlog.outcomes WHERE seq <= %s AND decided_at <= to_timestamp(%s / 1000.0) "
            "ORDER BY seq DESC LIMIT 1",
            (self._lake.applied_seq, self._limit_ms),
        ).fetchone()
        if row is None:
            return None
        with closing(ResultsLookup(self._settings)) as lookup:
            found = lookup.by_seq(row[0])
        return None if found is None else found.position

    def _after_trimmed(self) -> LogPosition | None:
        """Read what was trimmed from its archive; where the results go on. None where nothing ever was."""
        noted = last_trim(self._settings)
        if noted is None:
            return None
        for record in trimmed_results(noted):
            if isinstance(record.value, m.Outcome):
                self._note(record.value)
        return position_of(noted)

    def _read_log(self, on_progress: Callable[[str, int, int], None] = lambda doing, done, total: None) -> None:
        """Read the log on to its end, and the proposals that wait there."""
        assert self._reader is not None
        for _ in range(_READS_MAX):
            start, end = self._reader.next_offset, self._reader.end()
            for records in self._reader.read_to(end):
                on_progress("looking for files in the log", min(self._reader.next_offset, end) - start, end - start)
                for record in records:
                    if isinstance(record.value, m.Outcome):
                        self._note(record.value)
            if self._read_undecided():
                return
        raise CatalogMismatchError("the log is trimmed faster than it can be read: try again later")

    def _note(self, outcome: m.Outcome) -> None:
        partition, offset = outcome.source
        self._next_offsets[partition] = max(self._next_offsets.get(partition, 0), offset + 1)
        if outcome.proposal is None:
            return
        committed = outcome.verdict is m.Verdict.COMMITTED
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

    def _orphan(self, place: str) -> Removable | None:
        if place not in self._candidates or self._why_kept(place) is not None:
            return None
        refused, is_foreign = self._mentions[place].refused, not self._lake.is_ours(place)
        why = f"refused: {refused}" if refused else "in no snapshot: its proposals were refused, or there was none"
        return Removable(
            place,
            self._candidates[place].size_bytes,
            f"{_FOREIGN}; {why}" if is_foreign else why,
            is_foreign=is_foreign,
        )

    def _why_kept(self, place: str) -> str | None:
        mentions = self._mentions[place]
        if mentions.committed_seq >= 0:
            return "committed by the log, and not in the catalog"
        if mentions.waits:
            return "a proposal that names it is not decided yet"
        if mentions.refused:
            return None if mentions.refused_at_ms <= self._limit_ms else "refused only recently"
        return None if self._lake.is_ours(place) else _FOREIGN

    def _expired(self, file: ScheduledFile) -> Removable | None:
        found = self._expired_by_anyone(file)
        return None if found is not None and found.is_foreign and not self._include_foreign else found

    def _expired_by_anyone(self, file: ScheduledFile) -> Removable | None:
        lake, meant = self._lake, places_of(file.path)
        scheduled_ms = int(file.scheduled_at.timestamp() * 1000)
        here = [place for place in meant if place in lake.listed]
        if scheduled_ms > self._limit_ms or meant & lake.referenced or file.file_id in lake.live_ids:
            return None
        if not self._lake.is_inside(file) or len(here) > 1:
            return None
        if any(self._mentions[p].waits or self._mentions[p].committed_seq > lake.applied_seq for p in meant):
            return None
        if any((lake.listed[place].modified_ms or 0) > scheduled_ms for place in here):
            return None
        why = f"expired: its last snapshot went at {file.scheduled_at:%Y-%m-%d %H:%M} UTC"
        if not here:
            return Removable(min(meant), None, f"{why}; it is gone already", scheduled=file)
        is_foreign = not self._lake.is_ours(here[0])
        why = f"{_FOREIGN}; {why}" if is_foreign else why
        return Removable(here[0], lake.listed[here[0]].size_bytes, why, is_foreign=is_foreign, scheduled=file)


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
