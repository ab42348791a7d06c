"""What Spark's Python workers are spared: they collect garbage after every task, in all that was ever imported.

That takes 30 ms, and a micro-batch is three tasks of Python: its plan, its write and its commit.
"""

from __future__ import annotations

import gc
import sys

_DAEMON = "pyspark.daemon"


def keep_imports() -> None:
    """In a worker of Spark's daemon, take what is there by now, which stays anyway, out of all further collections."""
    main = sys.modules["__main__"].__spec__
    if main is not None and main.name == _DAEMON:
        gc.freeze()
