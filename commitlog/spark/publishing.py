"""One proposal for what Spark wrote, and what becomes of the files when it is not the one that is committed.

Files go only when it is sure that no snapshot will ever name them: the proposal was refused, or it repeats one that
was committed with other files. After an unknown outcome they stay, for the proposal may yet be accepted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from commitlog.catalog.queries import Catalog
from commitlog.client import CommitLog, SubmittedOutcome, Transaction
from commitlog.client.datafiles import normal_path
from commitlog.client.kafka_access import KafkaAccess
from commitlog.client.names import parse_table_name
from commitlog.config import Settings
from commitlog.domain.definitions import TableDefinition
from commitlog.domain.model import Append, Change, Compact, Verdict
from commitlog.errors import ConfigurationError, DataFileError, ProposalRejectedError
from commitlog.spark.files import remove_files
from commitlog.spark.partitioning import described

_SETTINGS = frozenset(Settings.__slots__)


@dataclass(frozen=True, slots=True)
class Key:
    """What makes a repeated write the same write: at most one proposal with it is ever committed."""

    writer_id: str
    writer_seq: int

    @classmethod
    def parse(cls, text: str) -> Key:
        """A key written ``NAME:NUMBER``, such as ``nightly-load:20240131``."""
        name, _, number = text.rpartition(":")
        if not name or not number.isdigit():
            raise ConfigurationError(f"key must be NAME:NUMBER, such as nightly-load:20240131, not {text!r}")
        return cls(name, int(number))

    @classmethod
    def of_stream(cls, query_id: str, table_id: int, batch_id: int) -> Key:
        """The key of one batch. The table is in it, because one query may write to several."""
        return cls(f"spark:{query_id}:{table_id}", batch_id)


@dataclass(frozen=True, slots=True)
class Target:
    """A table as it was when a write began; the write is refused if it is altered before its end."""

    name: str
    snapshot_id: int
    definition: TableDefinition
    path: str


def connect(options: Mapping[str, str] | None = None) -> CommitLog:
    """The log that the settings among ``options`` name; one connection for each, kept for the life of the process."""
    return _connected(tuple(sorted((name, value) for name, value in (options or {}).items() if name in _SETTINGS)))


@lru_cache(maxsize=16)
def _connected(settings: tuple[tuple[str, str], ...]) -> CommitLog:
    return CommitLog.connect(**dict(settings))


def catalog_of(log: CommitLog) -> Catalog:
    """The catalog of a log's tables, for the list of their files."""
    return _kafka(log).catalog()


def settings_of(log: CommitLog) -> Settings:
    """The settings that a log was connected by, for tasks that read its topics."""
    return _kafka(log).connected_by


def _kafka(log: CommitLog) -> KafkaAccess:
    access = log._access
    assert isinstance(access, KafkaAccess), "an in-memory log has no topics and no catalog for Spark"
    return access


def target(log: CommitLog, table: str) -> Target:
    """The table that is to be written to, as of the newest snapshot.

    Raises:
        TableNotFoundError: there is none of that name.
    """
    return target_of(log.transaction(), table)


def target_of(transaction: Transaction, table: str) -> Target:
    """The table that is to be written to, as of the transaction's base.

    Raises:
        TableNotFoundError: there is none of that name.
    """
    at = transaction.table(table)
    if at.path is None:
        raise DataFileError(f"where the files of table {table} are is not known yet: wait for the catalog, then write")
    return Target(str(parse_table_name(table)), transaction.base_snapshot_id, at.definition, at.path)


def publish(
    log: CommitLog, to: Target, paths: Sequence[str], *, key: Key | None = None, message: str | None = None
) -> SubmittedOutcome:
    """Propose to append files to a table, and wait for the answer.

    Raises:
        ProposalRejectedError: it was refused, and the files are removed.
        DataFileError: the files do not fit, and are removed; nothing was proposed.
        OutcomeUnknownError: no answer in time; the files stay.
    """
    transaction = log.transaction(
        base_snapshot_id=to.snapshot_id,
        message=message,
        writer_id=None if key is None else key.writer_id,
        writer_seq=None if key is None else key.writer_seq,
    )
    try:
        transaction.append(to.name, described(paths, to.definition, to.path))
        outcome = transaction.commit()
    except (ProposalRejectedError, DataFileError):
        remove_files(paths)
        raise
    if outcome.is_repeat:
        remove_files(unlisted(log, to, paths, outcome))
    return outcome


def unlisted(log: CommitLog, to: Target, paths: Sequence[str], outcome: SubmittedOutcome) -> list[str]:
    """Those of ``paths`` that the committed proposal, which ``outcome`` repeats, does not name; none if in doubt."""
    if outcome.snapshot_id is None:
        return []
    for decided in log.subscribe(from_snapshot=outcome.snapshot_id - 1, follow=False):
        if decided.verdict is Verdict.COMMITTED and decided.snapshot_id == outcome.snapshot_id:
            if decided.proposal is None:
                return []
            named = {path for change in decided.proposal.changes for path in _places(change, to.path)}
            return [path for path in paths if normal_path(path) not in named]
    return []


def _places(change: Change, table_path: str) -> list[str]:
    if not isinstance(change, Append | Compact):
        return []
    root = normal_path(table_path).rstrip("/")
    return [f"{root}/{file.path}" if file.path_is_relative else normal_path(file.path) for file in change.files]
