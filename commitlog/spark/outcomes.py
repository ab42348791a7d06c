"""The results topic as typed rows, one for each outcome: for analysis, and for streams that follow the log itself.

Python reads and decodes Kafka here, so no jar is needed. A stream's offset is a Kafka offset of the results.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.domain.json_form import format_id
from commitlog.errors import ConfigurationError
from commitlog.log.codec import OutcomeRecord, decode_record
from commitlog.log.results import read_range, results_end
from commitlog.spark.options import SourceOptions
from commitlog.spark.publishing import connect, settings_of

RANGE_OFFSETS_MIN = 20_000
BATCH_ROWS = 5_000
END_KEPT_S = 0.1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _struct(**columns: st.DataType) -> st.StructType:
    return st.StructType([st.StructField(name, kind, True) for name, kind in columns.items()])


_TEXT, _INT, _LONG, _TIME = st.StringType(), st.IntegerType(), st.LongType(), st.TimestampType()
_CONFLICT = _struct(
    kind=_TEXT, change=_INT, read=_INT, schema=_TEXT, table=_TEXT, table_id=_LONG, data_file_id=_LONG, row_key=_TEXT,
    committed_snapshot_id=_LONG, committed_proposal_id=_TEXT, committed_writer_id=_TEXT, detail=_TEXT,
)  # fmt: skip
_RESOLUTION = _struct(
    kind=_TEXT, change=_INT, action=_TEXT, policy=_TEXT, schema=_TEXT, table=_TEXT, row_key=_TEXT,
    committed_snapshot_id=_LONG,
)  # fmt: skip
OUTCOMES = _struct(
    seq=_LONG, results_offset=_LONG, epoch=_LONG, verdict=_TEXT, reason=_TEXT, detail=_TEXT, snapshot_id=_LONG,
    head_snapshot_id=_LONG, original_seq=_LONG, proposal_id=_TEXT, writer_id=_TEXT, writer_epoch=_LONG, writer_seq=_LONG,
    base_snapshot_id=_LONG, isolation=_TEXT, author=_TEXT, message=_TEXT, created_at=_TIME, decided_at=_TIME,
    change_kinds=st.ArrayType(_TEXT), tables=st.ArrayType(_TEXT), files=_LONG, rows=_LONG, bytes=_LONG,
    conflict_count=_INT, conflicts=st.ArrayType(_CONFLICT), resolutions=st.ArrayType(_RESOLUTION),
    source_partition=_INT, source_offset=_LONG,
)  # fmt: skip
"""The columns: of `Outcome` and its `Proposal`. files, rows, bytes: of the data files that it brought; created_at: by the
writer's clock; tables: that its changes name."""


def outcomes(spark: SparkSession, *, log: CommitLog | None = None) -> DataFrame:
    """Every outcome of the log as a row, refused ones too, in ranges that Spark's tasks share.

    Raises:
        LogUnavailableError: no broker has answered.
    """
    settings = settings_of(connect() if log is None else log)
    ranges = _ranges(0, results_end(settings))

    def decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from _batches(settings, ranges[number])

    return spark.range(0, len(ranges), 1, max(len(ranges), 1)).mapInArrow(decoded, OUTCOMES)


class OffsetRange(InputPartition):
    """Offsets of the results that one task reads; the second one exclusive."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__((start, end))
        self.start = start
        self.end = end


def _ranges(start: int, end: int) -> list[InputPartition]:
    return [OffsetRange(at, min(at + RANGE_OFFSETS_MIN, end)) for at in range(start, end, RANGE_OFFSETS_MIN)]


def _batches(settings: Settings, part: InputPartition) -> Iterator[pa.RecordBatch]:
    assert isinstance(part, OffsetRange)
    schema = to_arrow_schema(OUTCOMES, timezone="UTC")
    rows: list[dict[str, Any]] = []
    for offset, raw in read_range(settings, part.start, part.end):
        record = decode_record(raw)
        if isinstance(record, OutcomeRecord):
            rows.append(to_row(record.outcome, offset))
        if len(rows) >= BATCH_ROWS:
            yield pa.RecordBatch.from_pylist(rows, schema)
            rows = []
    yield pa.RecordBatch.from_pylist(rows, schema)


def to_row(outcome: m.Outcome, offset: int) -> dict[str, Any]:
    """An outcome as a row of ``OUTCOMES``."""
    proposal = outcome.proposal
    row: dict[str, Any] = {
        "seq": outcome.seq,
        "results_offset": offset,
        "epoch": outcome.epoch,
        "verdict": outcome.verdict.value,
        "reason": None if outcome.reason is None else outcome.reason.value,
        "detail": outcome.detail,
        "snapshot_id": outcome.snapshot_id,
        "head_snapshot_id": outcome.head_snapshot_id,
        "original_seq": outcome.original_seq,
        "proposal_id": _id(outcome.proposal_id),
        "writer_id": outcome.writer_id,
        "decided_at": _time(outcome.decided_at_ms),
        "conflict_count": outcome.conflict_count,
        "conflicts": [_conflict(each) for each in outcome.conflicts],
        "resolutions": [_resolution(each) for each in outcome.resolutions],
        "source_partition": outcome.source.partition,
        "source_offset": outcome.source.offset,
    }
    return row if proposal is None else row | _of_proposal(proposal)


def _of_proposal(proposal: m.Proposal) -> dict[str, Any]:
    files = [file for change in proposal.changes for file in getattr(change, "files", ())]
    tables = [(getattr(change, "schema", None), getattr(change, "table", None)) for change in proposal.changes]
    return {
        "writer_epoch": proposal.writer_epoch,
        "writer_seq": proposal.writer_seq,
        "base_snapshot_id": proposal.base_snapshot_id,
        "isolation": proposal.isolation.value,
        "author": proposal.author,
        "message": proposal.message,
        "created_at": _time(proposal.created_at_ms) if proposal.created_at_ms else None,
        "change_kinds": [change.kind.value for change in proposal.changes],
        "tables": list(dict.fromkeys(f"{schema}.{table}" for schema, table in tables if table is not None)),
        "files": len(files),
        "rows": sum(file.record_count for file in files),
        "bytes": sum(file.file_size_bytes for file in files),
    }


def _conflict(conflict: m.Conflict) -> dict[str, Any]:
    where = conflict.object
    return {
        "kind": conflict.kind.value,
        "change": conflict.proposed_change,
        "read": conflict.proposed_read,
        "schema": where.schema,
        "table": where.table,
        "table_id": where.table_id,
        "data_file_id": where.data_file_id,
        "row_key": where.row_key,
        "committed_snapshot_id": conflict.committed_snapshot_id,
        "committed_proposal_id": _id(conflict.committed_proposal_id),
        "committed_writer_id": conflict.committed_writer_id,
        "detail": conflict.detail,
    }


def _resolution(resolution: m.Resolution) -> dict[str, Any]:
    return {
        "kind": resolution.kind.value,
        "change": resolution.change,
        "action": resolution.action.value,
        "policy": resolution.policy,
        "schema": resolution.object.schema,
        "table": resolution.object.table,
        "row_key": resolution.object.row_key,
        "committed_snapshot_id": resolution.committed_snapshot_id,
    }


def _id(proposal_id: bytes | None) -> str | None:
    return None if proposal_id is None else format_id(proposal_id)


def _time(time_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=time_ms)


class OutcomesReader(DataSourceReader):
    """All outcomes that the log holds when the read is planned."""

    def __init__(self, options: SourceOptions) -> None:
        self._settings = settings_of(connect(options.settings))

    def partitions(self) -> Sequence[InputPartition]:
        return _ranges(0, results_end(self._settings)) or [OffsetRange(0, 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _batches(self._settings, partition)


class OutcomesStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Outcomes as they are decided. Options: `startingOffset`, a Kafka offset of the results (default: the first);
    `recordsPerTrigger`, about how many a batch takes at most."""

    def __init__(self, options: SourceOptions) -> None:
        self._settings = settings_of(connect(options.settings))
        self._start = options.number("startingOffset") or 0
        self._limit = options.number("recordsPerTrigger")
        self._end: tuple[float, int] | None = None
        self._last: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        end = results_end(self._settings)
        if self._start > end:
            raise ConfigurationError(f"the results end at offset {end}, before startingOffset {self._start}")
        return {"offset": self._start}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self._limit is None else ReadMaxRows(self._limit)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        end = self._newest() if self._last is None else self._last
        if isinstance(limit, ReadMaxRows):
            end = min(end, start["offset"] + limit.max_rows)
        return {"offset": max(end, start["offset"])}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = results_end(self._settings)

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> Sequence[InputPartition]:
        return _ranges(start["offset"], end["offset"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _batches(self._settings, partition)

    def commit(self, end: dict[str, int]) -> None:
        pass

    def stop(self) -> None:
        pass

    def _newest(self) -> int:
        now = time.monotonic()
        if self._end is None or now - self._end[0] > END_KEPT_S:
            self._end = now, results_end(self._settings)
        return self._end[1]
