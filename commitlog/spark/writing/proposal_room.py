"""How many files Spark writes, so that a proposal holds them."""

from __future__ import annotations

from pyspark.sql import DataFrame

from commitlog.client.writing.proposal_room import file_bytes
from commitlog.domain.model.definitions import TableDefinition


def few_files(rows: DataFrame, table: TableDefinition, proposal_bytes_max: int) -> DataFrame:
    """The rows in no more partitions than a proposal can name files. Those of a partitioned table come to as many files as it
    has partitions, which nobody knows before."""
    if table.partition_by:
        return rows
    return rows.coalesce(max(1, proposal_bytes_max // file_bytes(table)))
