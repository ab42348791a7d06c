"""How much a proposal holds, known before its files are written: of what it names, files take the most."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, TypeVar

from pyroaring import FrozenBitMap64

from commitlog.domain.model import LogSettings
from commitlog.domain.model.definitions import STATISTICS_COLUMNS, STATISTICS_COLUMNS_DEFAULT, TableDefinition

_FILE_BYTES, _COLUMN_BYTES, _TEXT_BYTES = 200, 48, 64
"""About what a file takes, and each column of its statistics; more where its bounds are text."""


class Partitioned(Protocol):
    """A data file, as far as it is known in which partition it is."""

    @property
    def partition_values(self) -> tuple[str | None, ...] | None: ...


F = TypeVar("F", bound=Partitioned)


def file_bytes(table: TableDefinition) -> int:
    """About how many bytes of a proposal a file of the table takes."""
    told = int(table.properties.get(STATISTICS_COLUMNS, STATISTICS_COLUMNS_DEFAULT))
    columns = [each for each in table.columns if not each.children][:told]
    return _FILE_BYTES + sum(_COLUMN_BYTES + _TEXT_BYTES * (each.type.name == "varchar") for each in columns)


def beyond_room(positions: Mapping[int, FrozenBitMap64], limits: LogSettings) -> list[int]:
    """The data files whose delete files do not fit into half a proposal: those with the rows that take the most. The other half
    is for what takes the place of the rows."""
    bytes_max, files_max = limits.proposal_bytes_max // 2, max(1, limits.files_max // 2)
    sizes = {each: _FILE_BYTES + len(rows.serialize()) for each, rows in positions.items()}
    left = sum(sizes.values())
    beyond: list[int] = []
    for each in sorted(sizes, key=lambda each: -sizes[each]):
        if left <= bytes_max and len(sizes) - len(beyond) <= files_max:
            break
        left -= sizes[each]
        beyond.append(each)
    return beyond


def rewritten_at_once(files: Iterable[F], table: TableDefinition, limits: LogSettings) -> Iterator[list[F]]:
    """Files of one partition, few enough for a proposal to name them, and what each becomes: two files at most."""
    size = max(1, min(limits.proposal_bytes_max // 4 // file_bytes(table), limits.files_max // 2))
    for several in files_by_partition(files):
        yield from (several[start : start + size] for start in range(0, len(several), size))


def files_by_partition(files: Iterable[F]) -> Iterable[list[F]]:
    """The files of each partition, and those of which it is not known."""
    partitions: dict[tuple[str | None, ...] | None, list[F]] = {}
    for each in files:
        partitions.setdefault(each.partition_values, []).append(each)
    return partitions.values()
