"""A stream that could not be made, and says why when it is first asked: of a reader whose making fails Spark shows an error of
its own, and no word of why."""

from __future__ import annotations

from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader

from commitlog.errors import CommitLogError
from commitlog.spark.source.workers import plainly


class UnreadyStream(DataSourceStreamReader):
    """Raises the error of its making, whichever of Spark's versions asks."""

    def __init__(self, error: CommitLogError) -> None:
        self._error = error

    @plainly()
    def initialOffset(self) -> NoReturn:  # noqa: N802
        raise self._error

    @plainly()
    def latestOffset(self, *_: Any, **__: Any) -> NoReturn:  # noqa: N802
        raise self._error

    @plainly()
    def partitions(self, *_: Any, **__: Any) -> NoReturn:
        raise self._error

    @plainly()
    def read(self, *_: Any, **__: Any) -> NoReturn:
        raise self._error
