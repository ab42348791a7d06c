"""How large rows are that were computed and kept: Spark itself goes by what it thought before, where it read a large frame."""

from __future__ import annotations

from pyspark.sql import DataFrame

_TIMES = 4
"""How much more memory rows take that are kept as objects than the bytes that Spark's limit counts, about."""


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
