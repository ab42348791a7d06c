"""How much a proposal holds, known before a job has run for it: of what it names, files take the most."""

from __future__ import annotations

from collections.abc import Mapping

from pyroaring import FrozenBitMap64
from pyspark.sql import DataFrame

from commitlog.domain.model.definitions import STATISTICS_COLUMNS, STATISTICS_COLUMNS_DEFAULT, TableDefinition

_FILE_BYTES, _COLUMN_BYTES, _TEXT_BYTES = 200, 48, 64
"""About what a file takes, and each column of its statistics; more where its bounds are text."""


def file_bytes(table: TableDefinition) -> int:
    """About how many bytes of a proposal a file of the table takes."""
    told = int(table.properties.get(STATISTICS_COLUMNS, STATISTICS_COLUMNS_DEFAULT))
    columns = [each for each in table.columns if not each.children][:told]
    return _FILE_BYTES + sum(_COLUMN_BYTES + _TEXT_BYTES * (each.type.name == "varchar") for each in columns)


def beyond_room(positions: Mapping[int, FrozenBitMap64], bytes_max: int) -> list[int]:
    """The data files whose delete files do not fit into so many bytes: those with the rows that take the most."""
    sizes = {each: _FILE_BYTES + len(rows.serialize()) for each, rows in positions.items()}
    left, beyond = sum(sizes.values()), []
    for each in sorted(sizes, key=lambda each: -sizes[each]):
        if left <= bytes_max:
            break
        left -= sizes[each]
        beyond.append(each)
    return beyond


def few_files(rows: DataFrame, table: TableDefinition, proposal_bytes_max: int) -> DataFrame:
    """The rows in no more partitions than a proposal can name files. Those of a partitioned table come to as many files as it
    has partitions, which nobody knows before."""
    if table.partition_by:
        return rows
    return rows.coalesce(max(1, proposal_bytes_max // file_bytes(table)))
