"""The results topic as typed rows, one for each outcome: for analysis, and for streams that follow the log itself.

Python reads and decodes Kafka here, so no jar is needed. A stream's offset is a Kafka offset of the results.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from commitlog.client import CommitLog, outcome_rows
from commitlog.client.archive import archived_end, archived_paths
from commitlog.config import Settings
from commitlog.errors import ConfigurationError
from commitlog.log.codec import OutcomeRecord, decode_record
from commitlog.log.results import read_range, results_end
from commitlog.spark.options import SourceOptions
from commitlog.spark.publishing import connect, settings_of

RANGE_OFFSETS_MIN = 20_000
BATCH_ROWS = 5_000
END_KEPT_S = 0.1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


OUTCOMES = from_arrow_schema(outcome_rows.OUTCOMES)
"""The columns; see `commitlog.client.outcome_rows`."""


def outcomes(spark: SparkSession, *, log: CommitLog | None = None) -> DataFrame:
    """Every outcome of the log as a row, refused ones too, in ranges that Spark's tasks share.

    Raises:
        LogUnavailableError: no broker has answered.
    """
    settings = settings_of(connect() if log is None else log)
    return _in_ranges(spark, settings, 0, lambda part: _batches(settings, part), OUTCOMES)


def raw_records(spark: SparkSession, log: CommitLog, archived: str | None = None) -> DataFrame:
    """Every record of the results, genesis and outcomes, as its own bytes (`raw`).

    Args:
        spark: the session.
        log: the log.
        archived: where `commitlog archive` has put closed ranges; the others are read from Kafka.
    """
    settings = settings_of(log)

    def read(part: OffsetRange) -> Iterator[pa.RecordBatch]:
        found = read_range(settings, part.start, part.end)
        while records := list(islice(found, BATCH_ROWS)):
            yield pa.RecordBatch.from_pydict({"raw": [raw for _, raw in records]})

    start = 0 if archived is None else archived_end(archived)
    live = _in_ranges(spark, settings, start, read, "raw binary")
    paths = [] if archived is None else archived_paths(archived)
    return spark.read.parquet(*paths).select("raw").union(live) if paths else live


def _in_ranges(
    spark: SparkSession,
    settings: Settings,
    start: int,
    read: Callable[[OffsetRange], Iterator[pa.RecordBatch]],
    schema: st.StructType | str,
) -> DataFrame:
    """What ``read`` makes of the results from an offset on, in ranges that Spark's tasks share."""
    ranges = _ranges(start, results_end(settings))

    def decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read(ranges[number])

    return spark.range(0, len(ranges), 1, max(len(ranges), 1)).mapInArrow(decoded, schema)


class OffsetRange(InputPartition):
    """Offsets of the results that one task reads; the second one exclusive."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__((start, end))
        self.start = start
        self.end = end


def _ranges(start: int, end: int) -> list[OffsetRange]:
    return [OffsetRange(at, min(at + RANGE_OFFSETS_MIN, end)) for at in range(start, end, RANGE_OFFSETS_MIN)]


def _batches(settings: Settings, part: OffsetRange) -> Iterator[pa.RecordBatch]:
    schema = to_arrow_schema(OUTCOMES, timezone="UTC")
    rows: list[dict[str, Any]] = []
    for offset, raw in read_range(settings, part.start, part.end):
        record = decode_record(raw)
        if isinstance(record, OutcomeRecord):
            rows.append(outcome_rows.to_row(record.outcome, offset))
        if len(rows) >= BATCH_ROWS:
            yield pa.RecordBatch.from_pylist(rows, schema)
            rows = []
    yield pa.RecordBatch.from_pylist(rows, schema)


class OutcomesReader(DataSourceReader):
    """All outcomes that the log holds when the read is planned."""

    def __init__(self, options: SourceOptions) -> None:
        self._settings = settings_of(connect(options.settings))

    def partitions(self) -> Sequence[InputPartition]:
        return _ranges(0, results_end(self._settings)) or [OffsetRange(0, 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, OffsetRange)
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
        assert isinstance(partition, OffsetRange)
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
