"""What the tables of a log hold at a snapshot, as whoever reads them asks for it: of the catalog, or of a testing log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from commitlog.catalog.history import HistoryEntry, HistoryFilter, WriterTotals
    from commitlog.catalog.queries import CatalogFile, CatalogSnapshot, CatalogTable, FileTotals
    from commitlog.catalog.snapshot_diff import ObjectDifference
    from commitlog.catalog.table_changes import ChangedFile, ChangedRow
    from commitlog.catalog.taken_over import HeldRow
    from commitlog.domain.model import KnownNode, Predicate
    from commitlog.domain.model.definitions import EndedColumn
    from commitlog.domain.model.nodes import Node


class Changes(Protocol):
    """What changed in a table, as ``TableChanges`` tells it."""

    def files(self, *, deletes: bool) -> list[ChangedFile]: ...

    def rows_in_parts(self, *, deletes: bool) -> Iterator[list[ChangedRow]]: ...


class Contents(Protocol):
    """Answers of one moment, within `at_once`. See ``ReadersCatalog``, whose methods these are."""

    def at_once(self) -> AbstractContextManager[Any]: ...

    def check_snapshot(self, snapshot_id: int) -> None: ...

    def snapshot_at(self, moment: datetime) -> int: ...

    def snapshots(
        self, *, table_id: int | None = None, limit: int | None = None, before: int | None = None
    ) -> list[CatalogSnapshot]: ...

    def differences(self, first: int, last: int) -> list[ObjectDifference]: ...

    def history(self, asked: HistoryFilter) -> list[HistoryEntry]: ...

    def schemas(self, snapshot_id: int) -> list[str]: ...

    def tables(self, snapshot_id: int) -> list[tuple[str, str, int]]: ...

    def schemas_with_views(self, snapshot_id: int) -> list[str]: ...

    def table_at(self, schema: str, table: str, snapshot_id: int) -> CatalogTable | None: ...

    def tables_at(self, snapshot_id: int) -> list[CatalogTable]: ...

    def columns_ended(self, table_id: int, name: str) -> list[EndedColumn]: ...

    def namings(self, schema: str, table: str) -> list[int]: ...

    def files_at(
        self, table: CatalogTable, snapshot_id: int, *, where: Iterable[Predicate] = (), newest: int | None = None
    ) -> Sequence[CatalogFile]: ...

    def file_totals_at(self, table: CatalogTable, snapshot_id: int) -> FileTotals: ...

    def file_count_at(self, table_id: int, snapshot_id: int) -> int: ...

    def file_counts_at(self, snapshot_id: int) -> Mapping[int, int]: ...

    def rows_at(
        self,
        table_id: int,
        snapshot_id: int,
        *,
        among: Mapping[int, Sequence[Any]] | None = None,
        limit: int | None = None,
    ) -> Sequence[Mapping[int, Any]]: ...

    def rows_in_parts(
        self,
        table_id: int,
        snapshot_id: int,
        *,
        among: Mapping[int, Sequence[Any]] | None = None,
        limit: int | None = None,
    ) -> Iterator[Sequence[Mapping[int, Any]]]: ...

    def row_count_at(self, table_id: int, snapshot_id: int) -> int: ...

    def writers(self, limit: int) -> list[WriterTotals]: ...

    def own_node(self) -> Node | None: ...

    def digest(self) -> Mapping[str, KnownNode]: ...

    def held_rows(self, limit: int) -> list[HeldRow]: ...

    def changes(self, table: CatalogTable, after: int, upto: int) -> Changes: ...
