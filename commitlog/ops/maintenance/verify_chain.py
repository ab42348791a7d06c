"""Is the log what was written? The chain of hashes from the genesis to the end, and what others have noted of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

from commitlog.catalog.queries import Catalog
from commitlog.client.access.results_lookup import FoundOutcome, ResultsLookup
from commitlog.client.outcomes.archive import archived_records, lacking_trimmed
from commitlog.config import Settings
from commitlog.errors import ConfigurationError
from commitlog.log.chain import LogPosition
from commitlog.log.chain_walk import Break, ChainWalk, Witness
from commitlog.log.checkpoint import load_checkpoints
from commitlog.log.connection import first_offsets
from commitlog.log.genesis import require_genesis
from commitlog.log.losses import last_told
from commitlog.log.results import read_messages, results_end
from commitlog.log.topic_settings import partition_counts
from commitlog.log.topics import topics_of
from commitlog.log.trims import last_trim

HASH_DIGITS = 64


@dataclass(frozen=True, slots=True)
class ChainReport:
    """What a walk has seen.

    Attributes:
        position: the last outcome; None where not even the genesis is one.
        records: how many were looked at; witnesses: how many noted hashes were compared.
        breaks: what was found; told_seq: the last outcome that somebody was told of.
    """

    position: LogPosition | None
    records: int
    witnesses: int
    told_seq: int
    breaks: tuple[Break, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.breaks and self.position is not None


def verify_chain(
    settings: Settings,
    *,
    archive: str | None,
    catalog: bool,
    expected: Witness | None,
    on_progress: Callable[[int, int], None],
) -> ChainReport:
    """Walk through the log's results.

    Args:
        settings: which log.
        archive: where `commitlog archive` has put closed ranges; what it lacks is read from Kafka. None is from where results
            were trimmed to, if they were.
        catalog: whether the catalog is a witness.
        expected: what was noted elsewhere.
        on_progress: told how many records of the results are read, and how many there are.

    Raises:
        ConfigurationError: there is no such log.
        LogIntegrityError: the archive does not reach what is left of results that were trimmed, or is not seen from here.
        LogLossError: records are missing.
        LogUnavailableError, CatalogUnavailableError: a server does not answer.
    """
    genesis, trim = require_genesis(settings), last_trim(settings)
    if archive is None and trim is not None:
        archive = trim.archive
    partitions = partition_counts(settings)[topics_of(settings.log).proposals]
    told_seq = max(last_told(settings, genesis.log_id, partitions))
    witnesses = [*_checkpoints(settings, genesis.log_id), *([] if expected is None else [expected])]
    if catalog:
        witnesses += _catalog(settings)
    walk, end = ChainWalk(witnesses, told_seq=told_seq), results_end(settings)
    for record in archived_records(archive) if archive is not None else ():
        walk.take_archived(record.raw, record.takeovers, record.offset)
    if trim is not None and archive is not None:
        first = first_offsets(settings, topics_of(settings.log).results, [0])[0]
        if walk.next_offset < first <= trim.results_offset:
            raise lacking_trimmed(archive, trim)
    for message in read_messages(settings, walk.next_offset, end):
        offset = message.offset()
        assert offset is not None
        walk.take(message.value(), offset, has_more=message.key() is not None or bool(message.headers()))
        on_progress(offset + 1, end)
    breaks = tuple(walk.end())
    return ChainReport(walk.position, walk.records, len(witnesses), told_seq, breaks)


def head(settings: Settings) -> FoundOutcome:
    """The last outcome, or the genesis.

    Raises:
        ConfigurationError: there is no such log.
        LogUnavailableError: no broker has answered.
    """
    require_genesis(settings)
    with closing(Catalog(settings.database_url)) as catalog, closing(ResultsLookup(settings, catalog)) as lookup:
        found = lookup.last()
    assert found is not None
    return found


def parse_noted(text: str) -> Witness:
    """What `commitlog log --head-hash` has printed: an outcome's seq and hash."""
    seq, _, digest = text.partition(":")
    if not seq.isdecimal() or len(digest) != HASH_DIGITS:
        raise ConfigurationError(f"{text!r} is no hash of an outcome: give what `commitlog log --head-hash` prints")
    try:
        return Witness("the hash that you noted", int(seq), bytes.fromhex(digest))
    except ValueError:
        raise ConfigurationError(f"{text!r} holds more than a seq and hexadecimal digits") from None


def noted(position: LogPosition) -> str:
    """An outcome's seq and hash, to be kept elsewhere."""
    return f"{position.seq}:{position.hash.hex()}"


def _checkpoints(settings: Settings, log_id: bytes) -> Iterator[Witness]:
    for saved in load_checkpoints(settings):
        if saved.position.log_id == log_id:
            yield Witness("a checkpoint", saved.position.seq, saved.position.hash)


def _catalog(settings: Settings) -> Iterator[Witness]:
    with closing(Catalog(settings.database_url)) as catalog:
        applied = catalog.applied() if catalog.exists() else None
        if applied is None:
            return
        yield Witness("the catalog", applied.seq, bytes(applied.hash))
        for each in catalog.mileposts(every=1, from_offset=-1, to_offset=applied.results_offset):
            yield Witness("the catalog", each.seq, each.hash)
