"""What is done for the sake of Spark's Python workers, in which the data source lives."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import pyspark

from commitlog.errors import CommitLogError, ConfigurationError

P = ParamSpec("P")
T = TypeVar("T")
_DAEMON = "pyspark.daemon"


def keep_imports() -> None:
    """In a worker of Spark's daemon, take what is there by now, which stays anyway, out of all further collections.

    A worker collects garbage after every task, in all that it has ever imported. That takes 30 ms, and a micro-batch is
    three tasks of Python: its plan, its write and its commit.
    """
    main = sys.modules["__main__"].__spec__
    if main is not None and main.name == _DAEMON:
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


def plainly(method: Callable[P, T]) -> Callable[P, T]:
    """A method that Spark calls in a worker: of its errors, Spark shows the whole stack first and the words last.

    Ours say what to do; they lose the frames below the method.
    """

    @wraps(method)
    def called(*args: P.args, **options: P.kwargs) -> T:
        try:
            return method(*args, **options)
        except CommitLogError as error:
            raise error.with_traceback(None) from None

    return called
