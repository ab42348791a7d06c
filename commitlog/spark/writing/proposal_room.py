"""How many files Spark writes, so that a proposal holds them."""

from __future__ import annotations

from pyspark.sql import DataFrame

from commitlog.client import CommitLog
from commitlog.client.writing.proposal_room import file_bytes
from commitlog.domain.model.definitions import TableDefinition
from commitlog.spark.writing.partitions import write_rows


def write_few(log: CommitLog, rows: DataFrame, table: TableDefinition, table_path: str) -> tuple[str, ...]:
    """`write_rows`, as no more files than a proposal can name, beside a change's others. Those of a partitioned table come to
    as many as it has partitions, which nobody knows before."""
    if not table.partition_by:
        limits = log.access.settings
        rows = rows.coalesce(max(1, min(limits.proposal_bytes_max // file_bytes(table), limits.files_max // 4)))
    return write_rows(rows, table, table_path)
