"""The results topic as typed rows, one for each outcome: for analysis, and for streams that follow the log itself.

Python reads and decodes Kafka here, so no jar is needed. A stream's offset is a Kafka offset of the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from commitlog.catalog.queries import Catalog
from commitlog.client import CommitLog
from commitlog.client.access.results_lookup import position_known
from commitlog.client.outcomes import outcome_rows
from commitlog.client.outcomes.archive import archived_so_far
from commitlog.config import Settings
from commitlog.domain.model import Outcome
from commitlog.errors import CatalogUnavailableError
from commitlog.log.results import LogPosition, begins_at, read_accepted, results_end
from commitlog.spark.connection import connect, for_tasks, settings_of
from commitlog.spark.reading.arrow_rows import arrow_schema
from commitlog.spark.reading.listed_files import read_files
from commitlog.spark.source.options import SourceOptions
from commitlog.spark.source.workers import keep_imports, plainly

RANGE_OUTCOMES = 20_000
BATCH_ROWS = 5_000
_RAW = "raw binary, takeovers array<binary>"
_RAW_SCHEMA = pa.schema([("raw", pa.binary()), ("takeovers", pa.list_(pa.binary()))])

keep_imports()

OUTCOMES = from_arrow_schema(outcome_rows.OUTCOMES)
"""The columns; see `commitlog.client.outcomes.outcome_rows`."""


def outcomes(spark: SparkSession, *, log: CommitLog | None = None) -> DataFrame:
    """Every outcome of the log as a row, refused ones too, in ranges that Spark's tasks share.

    Raises:
        LogUnavailableError: no broker has answered.
    """
    settings = settings_of(connect() if log is None else log)
    sent = for_tasks(settings, catalog=False)
    return _in_ranges(spark, settings, None, lambda part: batches(sent, part), OUTCOMES)


def raw_records(spark: SparkSession, log: CommitLog, archived: str | None) -> DataFrame:
    """Every accepted record of the results, genesis and outcomes, as its own bytes (`raw`), with those of the takeovers
    right before it (`takeovers`).

    Args:
        spark: the session.
        log: the log.
        archived: where `commitlog archive` has put closed ranges; the others are read from Kafka.
    """
    settings = settings_of(log)
    sent = for_tasks(settings, catalog=False)

    def read(part: OffsetRange) -> Iterator[pa.RecordBatch]:
        found = read_accepted(sent, part.after, part.end)
        while records := list(islice(found, BATCH_ROWS)):
            rows = [{"raw": record.raw, "takeovers": record.takeovers} for record in records]
            yield pa.RecordBatch.from_pylist(rows, _RAW_SCHEMA)

    paths, after = ([], None) if archived is None else archived_so_far(archived)
    live = _in_ranges(spark, settings, after, read, _RAW)
    return read_files(spark, paths).select("raw", "takeovers").union(live) if paths else live


def _in_ranges(
    spark: SparkSession,
    settings: Settings,
    after: LogPosition | None,
    read: Callable[[OffsetRange], Iterator[pa.RecordBatch]],
    schema: st.StructType | str,
) -> DataFrame:
    """What ``read`` makes of the results after a position, in ranges that Spark's tasks share."""
    end = results_end(settings)
    start = 0 if after is None else after.results_offset + 1
    ranges = ranges_after(after, _mileposts(settings, start, end), end)

    def decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read(ranges[number])

    return spark.range(0, len(ranges), 1, max(len(ranges), 1)).mapInArrow(decoded, schema)


class OffsetRange(InputPartition):
    """What one task reads of the results: from an accepted outcome on (None: from the genesis), up to an offset (exclusive);
    what lies before ``start`` is read only because nobody can begin in the middle."""

    def __init__(self, after: LogPosition | None, start: int, end: int) -> None:
        super().__init__((start, end))
        self.after = after
        self.start = start
        self.end = end


def ranges_after(
    after: LogPosition | None, mileposts: Sequence[LogPosition], end: int, *, start: int | None = None
) -> list[OffsetRange]:
    """The results after a position and up to an offset, cut at the mileposts between; without what lies before ``start``."""
    first = 0 if after is None else after.results_offset + 1
    start = first if start is None else max(start, first)
    if start >= end:
        return []
    cuts = [after, *mileposts]
    ends = [milepost.results_offset + 1 for milepost in mileposts] + [end]
    ranges = [
        OffsetRange(cut, 0 if cut is None else cut.results_offset + 1, to) for cut, to in zip(cuts, ends, strict=True)
    ]
    ranges[0].start = start
    return ranges


def ranges_between(settings: Settings, start: int, end: int) -> list[OffsetRange]:
    """The results between two offsets."""
    if start >= end:
        return []
    return ranges_after(_milepost_before(settings, start), _mileposts(settings, start, end), end, start=start)


def _mileposts(settings: Settings, start: int, end: int) -> list[LogPosition]:
    """Where the results between two offsets may be cut; nowhere while the catalog is away."""
    with _catalog(settings) as catalog:
        if catalog is None or end - start <= RANGE_OUTCOMES:
            return []
        found = catalog.mileposts(every=RANGE_OUTCOMES, from_offset=start, to_offset=end - 1)
        return [position_known(each) for each in found]


def _milepost_before(settings: Settings, offset: int) -> LogPosition | None:
    with _catalog(settings) as catalog:
        found = None if catalog is None or offset == 0 else catalog.milepost(before_offset=offset)
        return begins_at(settings, None if found is None else position_known(found), offset)


@contextmanager
def _catalog(settings: Settings) -> Iterator[Catalog | None]:
    with closing(Catalog(settings.database_url)) as catalog:
        yield catalog if _exists(catalog) else None


def _exists(catalog: Catalog) -> bool:
    try:
        return catalog.exists()
    except CatalogUnavailableError:
        return False


def batches(settings: Settings, part: OffsetRange) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(OUTCOMES)
    rows: list[dict[str, Any]] = []
    with plainly():
        for record in read_accepted(settings, part.after, part.end):
            if isinstance(record.value, Outcome) and record.offset >= part.start:
                rows.append(outcome_rows.to_row(record.value, record.offset))
            if len(rows) >= BATCH_ROWS:
                yield pa.RecordBatch.from_pylist(rows, schema)
                rows = []
    yield pa.RecordBatch.from_pylist(rows, schema)


class OutcomesReader(DataSourceReader):
    """All outcomes that the log holds when the read is planned."""

    def __init__(self, options: SourceOptions) -> None:
        self._settings = settings_of(connect(options.settings))

    def __getstate__(self) -> dict[str, Any]:
        """What tasks get: they read Kafka."""
        return {**vars(self), "_settings": for_tasks(self._settings, catalog=False)}

    @plainly()
    def partitions(self) -> Sequence[InputPartition]:
        return ranges_between(self._settings, 0, results_end(self._settings)) or [OffsetRange(None, 0, 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, OffsetRange)
        return batches(self._settings, partition)
