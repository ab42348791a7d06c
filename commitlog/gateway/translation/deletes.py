"""The rows that a commit deletes from files that were there.

The client's delete files are cumulative: what was deleted at the base is not this commit's. Few rows go as positions, which
meet only deletes of the same rows where the table is so set, and of which nothing is lost when the client takes its files
away; many as the client's delete file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from pyroaring import AbstractBitMap64, BitMap64, FrozenBitMap64

from commitlog.adoption.definitions import SourceTable
from commitlog.client.writing.delete_files import write_delete_file
from commitlog.domain import model as m
from commitlog.domain.model.types import quote
from commitlog.errors import NotUnderstoodError
from commitlog.gateway.batch import Batch, Row
from commitlog.gateway.translation.base import Base
from commitlog.gateway.translation.lake import CommittedLake
from commitlog.gateway.translation.reading import positions_in, written_in

POSITIONS_MAX = 1_000
"""Rows of one file that go as positions, each a row of the catalog; more of them go as a delete file."""


class Deletes:
    """What a commit deletes.

    Args:
        batch: the commit.
        base: the catalog at its base.
        lake: what the commit makes of it.
        settings: the limits of the log.
        on_file: is told the full path of each delete file that is written in the place of a client's.

    Attributes:
        unused: full paths of the client's delete files whose rows go as positions.
    """

    def __init__(
        self, batch: Batch, base: Base, lake: CommittedLake, settings: m.LogSettings, on_file: Callable[[str], None]
    ) -> None:
        self._batch = batch
        self._base = base
        self._lake = lake
        self._on_file = on_file
        self._of_file_max = min(POSITIONS_MAX, settings.inlined_positions_max)
        given = sum(map(len, batch.inlined_deletes.values()))
        self._left = max(0, settings.changeset_positions_max - given)
        self.unused: list[str] = []

    def of(self, table: SourceTable) -> Iterator[m.Delete]:
        """The rows that go from a table."""
        whole = {row["data_file_id"] for row in self._lake.whole_files if row["table_id"] == table.table_id}
        if table.table_id in self._batch.ended_rows:
            name = f"{quote(table.schema)}.{quote(table.name)}"
            raise NotUnderstoodError(
                f"a change of rows of table {table.schema}.{table.name} that are in no file, and no key by which these could "
                "be changed: while nobody writes it, have a copy (without its partition keys, defaults, NOT NULL, comments and "
                f"properties: set them again) take its place, CREATE OR REPLACE TABLE {name} AS FROM {name}"
            )
        positions: list[m.PositionDelete] = []
        delete_files: list[m.DeleteFile] = []
        given = self._given(table)
        before = self._before(table, sorted({row["data_file_id"] for row in given}))
        for row in given:
            if row["data_file_id"] in whole:
                continue
            path = self._lake.place(row)
            listed = positions_in(self._base, path)
            rows = FrozenBitMap64(listed - before.get(row["data_file_id"], BitMap64()))
            if len(rows) <= min(self._of_file_max, self._left):
                self._left -= len(rows)
                self.unused += self._lake.unneeded(row)
                if rows:
                    positions.append(m.PositionDelete(row["data_file_id"], rows))
            else:
                delete_files.append(self._delete_file(row, listed, table))
        for data_file_id, places in self._inlined(table.table_id).items():
            if data_file_id not in whole:
                positions.append(m.PositionDelete(data_file_id, FrozenBitMap64(places)))
        if positions or delete_files or whole:
            yield m.Delete(table.schema, table.name, tuple(positions), tuple(delete_files), tuple(sorted(whole)))

    def positions(self, table: SourceTable) -> dict[int, AbstractBitMap64]:
        """By data file that was there, where the rows are that go from a table, however the client says it."""
        given = {row["data_file_id"]: row for row in self._given(table)}
        whole = {row["data_file_id"]: row for row in self._lake.whole_files if row["table_id"] == table.table_id}
        before = self._before(table, sorted(given.keys() | whole.keys()))
        found: dict[int, AbstractBitMap64] = {}
        for data_file_id, row in given.items():
            found[data_file_id] = positions_in(self._base, self._lake.place(row)) - before.get(data_file_id, BitMap64())
        for data_file_id, places in self._inlined(table.table_id).items():
            found[data_file_id] = found.get(data_file_id, BitMap64()) | BitMap64(places)
        for data_file_id, row in whole.items():
            found[data_file_id] = BitMap64(range(row["record_count"])) - before.get(data_file_id, BitMap64())
        return found

    def _given(self, table: SourceTable) -> Sequence[Row]:
        """Its delete files for data files that were there."""
        own = {row["data_file_id"] for row in self._batch.rows.get("data_file", ())}
        given = [row for row in self._batch.rows.get("delete_file", ()) if row["table_id"] == table.table_id]
        given = [row for row in given if row["data_file_id"] not in own]
        for row in given:
            if row["encryption_key"] is not None:
                raise NotUnderstoodError(f"delete file {row['path']} is encrypted: attach without ENCRYPTED")
        return given

    def _inlined(self, table_id: int) -> Mapping[int, list[int]]:
        found: dict[int, list[int]] = defaultdict(list)
        for data_file_id, position in self._batch.inlined_deletes.get(table_id, ()):
            found[data_file_id].append(position)
        return found

    def _before(self, table: SourceTable, data_file_ids: Sequence[int]) -> dict[int, AbstractBitMap64]:
        """By data file, the positions that were deleted at the base."""
        if not data_file_ids:
            return {}
        known = {row["data_file_id"] for row in self._base.rows("data_file", data_file_id=data_file_ids)}
        if missing := set(data_file_ids) - known:
            raise NotUnderstoodError(
                f"a delete from data file {min(missing)}, which was not there: read again and repeat"
            )
        found: dict[int, AbstractBitMap64] = dict(self._base.inlined_deletes(table.table_id, data_file_ids))
        for row in self._base.rows("delete_file", data_file_id=data_file_ids):
            there = found.get(row["data_file_id"], BitMap64())
            found[row["data_file_id"]] = there | positions_in(self._base, self._lake.place(row))
        return found

    def _delete_file(self, row: Row, rows: AbstractBitMap64, table: SourceTable) -> m.DeleteFile:
        """The client's, or, where it says in which of its snapshots each row went, one that does not."""
        if row["partial_max"] is not None:
            self.unused += self._lake.unneeded(row)
            data_file = self._lake.place(self._base.rows("data_file", data_file_id=[row["data_file_id"]])[0])
            folder = self._lake.folder(table.table_id)
            with written_in(folder):
                written = write_delete_file(row["data_file_id"], data_file, rows, folder)
            self._on_file(folder + written.path)
            return written
        return m.DeleteFile(
            row["data_file_id"],
            row["path"],
            FrozenBitMap64(rows),
            row["file_size_bytes"],
            row["path_is_relative"],
            row["footer_size"],
        )
