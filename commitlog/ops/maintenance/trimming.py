"""Results that are archived and needed by nobody are deleted from Kafka, so that a log does not grow for ever.

What stays begins with the last outcome of an archived range, up to which the catalog, a checkpoint, every group of
subscribers and the relay are at least, and which is old enough. The archive is read back before: the chain of hashes from
the genesis to that outcome must hold, and end in the record that the topic holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from commitlog.catalog.queries import Catalog
from commitlog.client.access.group_position import group_positions
from commitlog.client.outcomes.archive import archived_ends, archived_results
from commitlog.config import Settings, without_password
from commitlog.domain.model import Genesis
from commitlog.errors import CatalogMismatchError, LogIntegrityError
from commitlog.log.chain import LogPosition
from commitlog.log.checkpoint import newest_seq
from commitlog.log.genesis import require_genesis
from commitlog.log.results import ResultsReader
from commitlog.log.topic_settings import partition_counts
from commitlog.log.topics import border_topics_of, topics_of
from commitlog.log.trims import delete_before, last_trim, trim_at, write_trim
from commitlog.relay.outward import last_at_border


class Need(NamedTuple):
    """Who reads on after which outcome."""

    who: str
    seq: int


@dataclass(frozen=True, slots=True)
class Trimmed:
    """What a trim has done.

    Attributes:
        seq: the first outcome that is in the results now; 0 where nothing was ever trimmed.
        outcomes: how many were deleted by this trim.
        held_by: what kept more from being deleted.
    """

    seq: int
    outcomes: int
    held_by: Need


def trim(
    settings: Settings,
    archive: str,
    *,
    keep_ms: int,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Trimmed:
    """Delete the results that are archived and needed by none of the parts that are known here.

    Args:
        settings: which log; the checkpoints must be where its service keeps them.
        archive: where its closed ranges are.
        keep_ms: younger outcomes stay, for streams and subscribers that nobody here knows.
        on_progress: told how many outcomes of the archive are checked, and how many there are.

    Raises:
        CatalogMismatchError: the catalog is missing, or another log's.
        LogIntegrityError: the archive is not what was archived, or it or a trim is of another log. Nothing was deleted.
        LogUnavailableError, CatalogUnavailableError: a server does not answer.
    """
    genesis = require_genesis(settings)
    before = last_trim(settings)
    if before is not None:
        if before.log_id != genesis.log_id:
            raise LogIntegrityError(
                f"{topics_of(settings.log).trims} tells of another log: delete that topic. {settings.log} was never trimmed"
            )
        delete_before(settings, before)  # It may have been noted and not been done.
    needs = sorted(_needs(settings, genesis.log_id), key=lambda need: need.seq)
    now_ms = int(time.time() * 1000)
    found = _checked(archive, needs[0].seq, decided_before_ms=now_ms - keep_ms, on_progress=on_progress)
    begins = 0 if before is None else before.seq
    held_by = needs[0] if found.reached_need else Need("what is archived and older than --keep", found.last_seq)
    if found.position is None or found.position.seq <= begins:
        return Trimmed(begins, 0, held_by)
    if found.position.log_id != genesis.log_id:
        raise LogIntegrityError(f"the archive at {archive} is another log's than {settings.log}; nothing was deleted")
    # The topic holds there what the archive ends with.
    ResultsReader(settings, after=found.position).close()
    place = archive if "://" in archive else str(Path(archive).absolute())
    write_trim(
        settings,
        trim_at(
            found.position,
            genesis=found.genesis,
            head_snapshot_id=found.head_snapshot_id,
            archive=place,
            trimmed_at_ms=now_ms,
        ),
    )
    return Trimmed(found.position.seq, found.position.seq - begins, held_by)


class _Checked(NamedTuple):
    """How far an archive can be trusted to, and may be trimmed."""

    genesis: bytes
    position: LogPosition | None
    head_snapshot_id: int
    last_seq: int
    reached_need: bool


def _checked(
    archive: str, seq_max: int, *, decided_before_ms: int, on_progress: Callable[[int, int], None]
) -> _Checked:
    """The last closed range that ends at or before an outcome and is old enough, its chain read from the genesis on."""
    ends = {position.seq: position for position in archived_ends(archive)}
    genesis, best, head, last = b"", None, 0, 0
    end = min(seq_max, max(ends, default=0))
    for record in archived_results(archive):
        last = record.seq
        on_progress(min(last, end), end)
        if isinstance(record.value, Genesis):
            genesis = record.raw
            continue
        if last > seq_max or record.value.decided_at_ms > decided_before_ms:
            break
        if last in ends:
            if record.hash != ends[last].hash:
                raise LogIntegrityError(f"the archive at {archive} does not hold outcome {last} as it was archived")
            best, head = ends[last], record.value.head_snapshot_id
    return _Checked(genesis, best, head, last, last > seq_max)


def _needs(settings: Settings, log_id: bytes) -> Iterator[Need]:
    yield _catalog(settings, log_id)
    yield Need("the newest checkpoint", newest_seq(settings))
    for group, seq in group_positions(settings, log_id).items():
        yield Need(f"the group {group} of subscribers", seq)
    yield from _relay(settings, log_id)


def _relay(settings: Settings, log_id: bytes) -> Iterator[Need]:
    """What is to be given to a border, if the log has one: what a relay does not find any more is never there."""
    topic = border_topics_of(settings.log).results
    if topic in partition_counts(settings):
        last = last_at_border(settings, log_id)
        yield Need(f"the relay to {topic}", 0 if last is None else last.seq)


def _catalog(settings: Settings, log_id: bytes) -> Need:
    with closing(Catalog(settings.database_url)) as catalog:
        applied = catalog.applied() if catalog.exists() else None
    if applied is None or applied.log_id != log_id:
        raise CatalogMismatchError(
            f"there is no catalog of {settings.log} at {without_password(settings.database_url)}, which would stand on what "
            "is trimmed; nothing was deleted"
        )
    return Need("the catalog", applied.seq)
