"""What is done for the sake of Spark's Python workers, in which the data source lives."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pyspark

from commitlog.errors import CommitLogError, ConfigurationError

_WORKERS = "pyspark."
_HIDE_STACK = "SPARK_HIDE_TRACEBACK"
"""What Spark itself sets for its workers by `spark.sql.execution.pyspark.udf.hideTraceback.enabled`."""


def keep_imports() -> None:
    """In a worker of Spark's, take what is there by now, which stays anyway, out of all further collections.

    A worker collects garbage after every task, in all that it has ever imported. That takes 30 ms, and a micro-batch is
    three tasks of Python: its plan, its write and its commit.
    """
    if _is_worker():
        gc.freeze()


def needs_spark(version: str, what: str, otherwise: str) -> None:
    """See that Spark is new enough for what its older versions have no place for.

    Raises:
        ConfigurationError: it is not; the message says what there is instead.
    """
    if _numbers(pyspark.__version__) < _numbers(version):
        raise ConfigurationError(f"{what} needs Spark {version}, and this is {pyspark.__version__}: {otherwise}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


@contextmanager
def plainly() -> Iterator[None]:
    """What Spark has a worker do: of an error of ours, which says what to do, Spark then shows the words alone, and not a stack
    before them. The worker ends with it, and so does what it was told of stacks."""
    try:
        yield
    except CommitLogError:
        if _is_worker():
            os.environ[_HIDE_STACK] = "true"
        raise


def _is_worker() -> bool:
    main = sys.modules["__main__"].__spec__
    return main is not None and main.name.startswith(_WORKERS)
