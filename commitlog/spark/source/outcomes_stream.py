"""The results topic as a stream that follows the log itself. A stream's offset is a Kafka offset of the results."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from commitlog.errors import ConfigurationError, LogLossError
from commitlog.log.results import results_end
from commitlog.spark.connection import connect, for_tasks, settings_of
from commitlog.spark.source.options import SourceOptions
from commitlog.spark.source.outcomes import OffsetRange, batches, ranges_between
from commitlog.spark.source.workers import plainly

END_KEPT_S = 0.1


class OutcomesStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Outcomes as they are decided. Options: `startingOffset`, a Kafka offset of the results (default: the first);
    `recordsPerTrigger`, about how many a batch takes at most."""

    def __init__(self, options: SourceOptions) -> None:
        self._settings = settings_of(connect(options.settings))
        self._start = options.number("startingOffset") or 0
        self._limit = options.at_least_one("recordsPerTrigger")
        self._end: tuple[float, int] | None = None
        self._last: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What tasks get: they read Kafka."""
        return {**vars(self), "_settings": for_tasks(self._settings, catalog=False)}

    @plainly()
    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        end = results_end(self._settings)
        if self._start > end:
            raise ConfigurationError(f"the results end at offset {end}, before startingOffset {self._start}")
        return {"offset": self._start}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self._limit is None else ReadMaxRows(self._limit)

    @plainly()
    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        end = self._newest() if self._last is None else self._last
        _check_there(start["offset"], end)
        if isinstance(limit, ReadMaxRows):
            end = min(end, start["offset"] + limit.max_rows)
        return {"offset": end}

    @plainly()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = results_end(self._settings)

    @plainly()
    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> Sequence[InputPartition]:
        # A batch may have been planned by an earlier run; its tasks would wait for what is not there.
        _check_there(end["offset"], results_end(self._settings))
        return ranges_between(self._settings, start["offset"], end["offset"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, OffsetRange)
        return batches(self._settings, partition)

    def commit(self, end: dict[str, int]) -> None:
        pass

    def stop(self) -> None:
        pass

    def _newest(self) -> int:
        now = time.monotonic()
        if self._end is None or now - self._end[0] > END_KEPT_S:
            self._end = now, results_end(self._settings)
        return self._end[1]


def _check_there(offset: int, end: int) -> None:
    """Raise LogLossError where the results end before an offset that a checkpoint names."""
    if end < offset:
        raise LogLossError(
            f"the stream has gone on to offset {offset} of the results, and they end at offset {end}: the log has lost what "
            "came after, or the checkpoint is of another log. Begin another stream, with a checkpoint of its own"
        )
