"""One proposal for what Spark wrote, and what becomes of the files when it is not the one that is committed.

Files go only when it is sure that no snapshot will ever name them: the proposal was refused, or it repeats one that
was committed with other files. After an unknown outcome they stay, for the proposal may yet be accepted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from threading import Lock
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from commitlog.catalog.queries import Catalog
from commitlog.client import CommitLog, SubmittedOutcome, Transaction
from commitlog.client.datafiles import normal_path
from commitlog.client.kafka_access import KafkaAccess
from commitlog.client.names import TableName, parse_table_name
from commitlog.config import Settings
from commitlog.domain.model import (
    Append,
    Change,
    ColumnSpec,
    Compact,
    DataFile,
    Delete,
    DeleteFile,
    Flush,
    Isolation,
    Proposal,
    Reason,
)
from commitlog.domain.model.definitions import TableDefinition
from commitlog.domain.model.types import fold
from commitlog.errors import (
    ConfigurationError,
    DataFileError,
    FencedError,
    KeyReusedError,
    ProposalRejectedError,
    ProposalTooLargeError,
    TableNotFoundError,
)
from commitlog.spark.columns import column_specs
from commitlog.spark.files import remove_files
from commitlog.spark.partitioning import described

QUERY_ID = "sql.streaming.queryId"
RUN_ID = "spark.jobGroup.id"
"""The local properties by which Spark tells a streaming task, or `foreachBatch`, its query and the query's run."""
_REMEDY = (
    "append(..., create=True) or .option('createTable', 'true') creates it from the DataFrame's columns, "
    "tx.create_table(...) with others"
)
_SETTINGS = frozenset(Settings.__slots__)
_lock = Lock()
_logs: dict[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], CommitLog] = {}


@dataclass(frozen=True, slots=True)
class Key:
    """What makes a repeated write the same write: at most one proposal with it is ever committed.

    epoch: of the writer, when it was opened; once it is opened again, what carries a lower one is refused.
    run_id: of a streaming query's run that has no epoch yet, and is given one when it first commits.
    """

    writer_id: str
    writer_seq: int
    epoch: int | None = None
    run_id: str | None = None

    @classmethod
    def parse(cls, text: str) -> Key:
        """A key written ``NAME:NUMBER``, such as ``nightly-load:20240131``."""
        name, _, number = text.rpartition(":")
        if not name or not number.isdigit():
            raise ConfigurationError(f"key must be NAME:NUMBER, such as nightly-load:20240131, not {text!r}")
        return cls(name, int(number))

    def of_table(self, table: str) -> Key:
        """The key of a write to one table: a name that people choose for a load may be that of each table's part of it."""
        name = parse_table_name(table)
        return replace(self, writer_id=f"{self.writer_id}@{TableName(fold(name.schema), fold(name.name))}")

    @classmethod
    def of_stream(cls, query_id: str, table_id: int | None, batch_id: int) -> Key:
        """The key of one batch of a streaming query.

        The table is in it, because one query may commit to several apart; None when a batch is one commit to all.
        """
        return cls(f"spark:{query_id}" if table_id is None else f"spark:{query_id}:{table_id}", batch_id)

    @classmethod
    def of_batch(cls, df: DataFrame, batch_id: int) -> Key:
        """The key of the whole batch that ``foreachBatch`` gives, whichever tables it is written to.

        Raises:
            ConfigurationError: the DataFrame is none of a streaming query, or the session is one of Spark Connect.
        """
        context = getattr(df.sparkSession, "sparkContext", None)
        query_id = None if context is None else context.getLocalProperty(QUERY_ID)
        if context is None or query_id is None:
            raise ConfigurationError(
                "only a batch of a streaming query has a key of its own: give one, such as key='nightly-load:20240131'"
            )
        return replace(cls.of_stream(query_id, None, batch_id), run_id=context.getLocalProperty(RUN_ID))


@dataclass(frozen=True, slots=True)
class Target:
    """A table as it was when a write began; the write is refused if it is altered before its end.

    ``created`` are the columns of a table that is not there yet: the write creates it.
    """

    name: str
    snapshot_id: int
    definition: TableDefinition
    path: str
    created: tuple[ColumnSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class WrittenOutcome(SubmittedOutcome):
    """The answer to an append, with what was written for it (a repeat's files are gone again).

    Attributes:
        row_count: how many rows.
        file_count: in how many files.
        file_bytes: how large these are together.
    """

    row_count: int = 0
    file_count: int = 0
    file_bytes: int = 0


def connect(options: Mapping[str, str] | None = None) -> CommitLog:
    """The log that the settings among ``options`` name; one connection for each, kept for the life of the process."""
    return connect_by(
        _loaded(tuple(sorted((name, value) for name, value in (options or {}).items() if name in _SETTINGS)))
    )


@lru_cache(maxsize=16)
def _loaded(given: tuple[tuple[str, Any], ...]) -> Settings:
    return Settings.load(**dict(given))


def connect_by(settings: Settings) -> CommitLog:
    """The log that settings name which were found elsewhere: a task's machine need not have any of its own."""
    place = (settings.log, settings.bootstrap_servers, settings.database_url, settings.data_path)
    options = tuple(sorted(settings.kafka.items()))
    with _lock:
        if (place, options) not in _logs:
            _logs[place, options] = CommitLog.connect(settings=settings)
        return _logs[place, options]


def catalog_of(log: CommitLog) -> Catalog:
    """The catalog of a log's tables, for the list of their files."""
    return _kafka(log).catalog()


def wait_for_seq(log: CommitLog, seq: int, timeout_s: float) -> bool:
    """Wait until the catalog holds an outcome; False when it was not in time."""
    return _kafka(log).wait_for_seq(seq, timeout_s)


def settings_of(log: CommitLog) -> Settings:
    """The settings that a log was connected by, for tasks that read its topics."""
    return _kafka(log).connected_by


def _kafka(log: CommitLog) -> KafkaAccess:
    access = log._access
    assert isinstance(access, KafkaAccess), "an in-memory log has no topics and no catalog for Spark"
    return access


def target(log: CommitLog, table: str, create: StructType | None = None) -> Target:
    """The table that is to be written to, as of the newest snapshot.

    Args:
        log: the log.
        table: its name.
        create: what rows a table takes that the write is to create if there is none.

    Raises:
        TableNotFoundError: there is none of that name.
        DataFileError: none can be created for such rows.
    """
    transaction = log.transaction()
    try:
        return target_of(transaction, table)
    except TableNotFoundError:
        if create is None:
            raise
    return created_target(transaction, table, create)


def created_target(transaction: Transaction, table: str, schema: StructType) -> Target:
    """The table that the transaction is now to create for rows of ``schema``."""
    specs = column_specs(schema)
    transaction.create_table(table, specs)
    return replace(target_of(transaction, table), created=specs)


def create_if_missing(log: CommitLog, table: str, schema: StructType) -> None:
    """Create a table for rows of ``schema`` by a commit of its own, if there is none.

    A streaming write needs the table's id in its keys, which it has only once it is there.

    Raises:
        ProposalRejectedError: it cannot be created.
        DataFileError: a column is of a type that no table can have.
    """
    transaction = log.transaction(message="created for a stream")
    try:
        transaction.table(table)
    except TableNotFoundError:
        transaction.create_table(table, column_specs(schema), if_not_exists=True)
        transaction.commit()


def target_of(transaction: Transaction, table: str) -> Target:
    """The table that is to be written to, as of the transaction's base.

    Raises:
        TableNotFoundError: there is none of that name.
    """
    try:
        at = transaction.table(table)
    except TableNotFoundError as error:
        raise TableNotFoundError(error.table, snapshot_id=error.snapshot_id, remedy=_REMEDY) from None
    if at.path is None:
        raise DataFileError(
            f"where the files of table {table} will be is not known yet: see that its schema exists, create the table by a "
            "commit of its own (tx.create_table), then write"
        )
    return Target(str(parse_table_name(table)), transaction.base_snapshot_id, at.definition, at.path)


def publish(
    log: CommitLog,
    to: Target,
    paths: Sequence[str],
    *,
    key: Key | None = None,
    message: str | None = None,
    replaces: bool = False,
) -> WrittenOutcome | None:
    """Propose to append files to a table, and wait for the answer; None when there is nothing to propose.

    Args:
        log: the log.
        to: the table.
        paths: of the files.
        key: names this write.
        message: for the history.
        replaces: all rows that the table had at ``to`` go; it is refused when rows came or went since.

    Raises:
        ProposalRejectedError: it was refused, and the files are removed.
        FencedError: the same, because a later driver of the same streaming query has taken over.
        DataFileError: the files do not fit, and are removed; nothing was proposed.
        OutcomeUnknownError: no answer in time; the files stay.
    """
    try:
        files = described(paths, to.definition, to.path)
        rows, size = sum(each.record_count for each in files), sum(each.file_size_bytes for each in files)
        transaction = log.transaction(
            base_snapshot_id=to.snapshot_id,
            isolation=Isolation.SERIALIZABLE if replaces else Isolation.SNAPSHOT,
            message=message,
            extra=json.dumps({"rows": rows, "files": len(files), "bytes": size}),
            writer_id=None if key is None else key.writer_id,
            writer_seq=None if key is None else key.writer_seq,
            writer_epoch=None if key is None else key.epoch,
        )
        if to.created:
            transaction.create_table(to.name, to.created)
        elif replaces:
            _delete_all(log, transaction, to)
        if files:
            transaction.append(to.name, files)
    except BaseException:
        remove_files(paths)
        raise
    if not transaction.changes:
        return None
    outcome = commit(transaction, paths, {to.name: to.path})
    answer = {each.name: getattr(outcome, each.name) for each in fields(outcome)}
    return WrittenOutcome(**answer, row_count=rows, file_count=len(files), file_bytes=size)


def _delete_all(log: CommitLog, transaction: Transaction, to: Target) -> None:
    catalog, name = catalog_of(log), parse_table_name(to.name)
    at = catalog.table_at(name.schema, name.name, to.snapshot_id)
    if at is None:
        raise TableNotFoundError(to.name, snapshot_id=to.snapshot_id)
    if catalog.inlined_rows_at(at.definition.table_id, to.snapshot_id):
        raise rows_without_file(to.name)
    transaction.read(to.name)
    if files := catalog.files_at(at, to.snapshot_id):
        transaction.delete(to.name, whole_files=[each.data_file_id for each in files])


def rows_without_file(table: str) -> DataFileError:
    """What is said when the rows of a table that are in no file are in the way."""
    return DataFileError(f"table {table} has rows that are in no file: change them one by one, by their key")


def commit(transaction: Transaction, paths: Sequence[str], table_paths: Mapping[str, str]) -> SubmittedOutcome:
    """Commit a transaction; when it is sure that it is not committed, its files are removed.

    ``table_paths`` says where the files of each table are that was written to.

    Raises:
        ProposalRejectedError: it was refused.
        FencedError: the same, because a later driver of the same streaming query has taken over.
        KeyReusedError: its key names another write, such as one of other rows.
        ProposalTooLargeError: it is over the log's limit, and was not sent.
        OutcomeUnknownError: no answer in time; the files stay.
    """
    try:
        outcome = transaction.commit()
    except (ProposalRejectedError, ProposalTooLargeError) as error:
        remove_files(paths)
        if isinstance(error, ProposalRejectedError) and error.outcome.reason is Reason.WRITER_FENCED:
            raise FencedError(
                f"this driver has stopped: a later one runs the same streaming query (its checkpoint) into "
                f"{', '.join(sorted(table_paths))}, and only that one may commit. Give each query a checkpoint of its own, "
                "and run it once."
            ) from error
        raise
    except KeyReusedError as error:
        remove_files(unlisted(table_paths, paths, error.first))
        raise
    if outcome.is_repeat:
        remove_files(unlisted(table_paths, paths, outcome.first))
    return outcome


def unlisted(table_paths: Mapping[str, str], paths: Iterable[str], first: Proposal | None) -> list[str]:
    """Those of ``paths`` that the proposal which was decided under the same key does not name; none if that is not known.

    ``table_paths`` says where the files of each table are that was written to.
    """
    if first is None:
        return []
    roots = {_folded(parse_table_name(name)): path for name, path in table_paths.items()}
    named = {path for change in first.changes for path in _places(change, roots)}
    return [path for path in paths if normal_path(path) not in named]


def _folded(name: TableName) -> tuple[str, str]:
    return fold(name.schema), fold(name.name)


def _places(change: Change, roots: Mapping[tuple[str, str], str]) -> list[str]:
    if not isinstance(change, Append | Compact | Flush | Delete):
        return []
    files: Sequence[DataFile | DeleteFile] = change.delete_files if isinstance(change, Delete) else change.files
    root = normal_path(roots.get(_folded(TableName(change.schema, change.table)), "")).rstrip("/")
    return [f"{root}/{file.path}" if file.path_is_relative else normal_path(file.path) for file in files]
