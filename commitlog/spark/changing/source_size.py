"""How large rows are that were computed and kept: Spark itself goes by its estimate for what they were computed from."""

from __future__ import annotations

from pyspark.sql import DataFrame

_TIMES = 4
"""About how many times the bytes that Spark's limit counts rows take in memory, where they are kept as objects."""


def is_kept_small(checkpointed: DataFrame) -> bool:
    """Whether computed rows of `DataFrame.localCheckpoint` are so few that Spark would send all of them to each task."""
    if not hasattr(checkpointed, "_jdf"):
        return False
    session = checkpointed.sparkSession._jsparkSession
    rdd = checkpointed._jdf.queryExecution().logical().rdd().id()
    sizes = [
        each.memSize() + each.diskSize() for each in session.sparkContext().getRDDStorageInfo() if each.id() == rdd
    ]
    return bool(sizes) and sizes[0] <= _TIMES * session.sessionState().conf().autoBroadcastJoinThreshold()
