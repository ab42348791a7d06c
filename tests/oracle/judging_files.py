"""Changes of files as the oracle judges them: appends, deletes, compactions, flushes (rules.md 3, 12.2-7)."""

from __future__ import annotations

from collections.abc import Sequence
from posixpath import normpath
from typing import Any

from commitlog.domain import model as m
from commitlog.domain.model.types import fold

from .proving import stored_point
from .sight import NAMED, Sight, refuse
from .world import Event, Table

PARTS = {"year": (-(2**63), 2**63 - 1), "month": (1, 12), "day": (1, 31), "hour": (0, 23)}
"""What a transform of times can give."""


def _is_part(value: m.Scalar, low: int, high: int) -> bool:
    if isinstance(value, str):
        return value.removeprefix("-").isdecimal() and value.isascii() and low <= int(value) <= high
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


class FileJudge(Sight):
    """Looks at changes of files, one after another."""

    def data(self, change: Any, index: int) -> Table:
        table = self.entry(change.schema, change.table)
        if table.definition is not None and table.definition.primary_key:
            refuse("keyed")
        if table.id not in self.mine:
            self.look(table, index, "DROP", "RENAME")
            self.look(table, index, "ALTER", benign=False)
        return table

    def on_append(self, change: m.Append, index: int) -> None:
        table = self.data(change, index)
        if not change.files:
            refuse("no files")
        self.place(change.files)
        if self.known(table):
            for file in change.files:
                self.partition(table, file)

    def place(self, files: Sequence[m.DataFile | m.DeleteFile]) -> None:
        """Every file has a place of its own, below the table's folder."""
        for file in files:
            if file.path != normpath(file.path) or file.path.startswith(("/", "..")) or ":" in file.path:
                refuse("a path that may lead elsewhere")
            if file.path in self.paths:
                refuse("a path twice")
            self.paths.add(file.path)

    @staticmethod
    def partition(table: Table, file: m.DataFile) -> None:
        assert table.definition is not None
        if file.partition_values is None:
            return
        keys = table.definition.partition_by
        if len(file.partition_values) != len(keys):
            refuse("another number of partition values")
        for key, value in zip(keys, file.partition_values, strict=True):
            kind = table.definition.column_by_id(key.column_id).type.name
            if value is not None and key.transform == "identity" and stored_point(kind, value) is None:
                refuse("no value of the partition column")
            if value is not None and key.transform in PARTS and not _is_part(value, *PARTS[key.transform]):
                refuse("no part of a time")

    def on_delete(self, change: m.Delete, index: int) -> None:
        table = self.data(change, index)
        asked: dict[int, frozenset[int] | None] = {}
        for each in change.positions:
            asked[self.name_file(each.data_file_id)] = self.positions(table, each)
        self.place(change.delete_files)
        for each in change.delete_files:
            self.name_file(each.data_file_id)
            self.delete_file(table, each)
            asked[each.data_file_id] = None
        for file_id in change.whole_files:
            self.live(table, self.name_file(file_id))
            asked[file_id] = None
        if not asked:
            refuse("nothing to delete")
        granularity = self.granularity(table)
        for at, event in self.since:
            if event.id != table.id or event.kind not in ("DELETE", "COMPACT"):
                continue
            kind = "TABLE_DELETED_FROM" if event.kind == "DELETE" else "TABLE_COMPACTED"
            if granularity == "TABLE":
                self.found(kind, at, change=index, id=table.id)
            elif event.file_id in asked and (granularity == "FILE" or self.overlap(asked[event.file_id], event)):
                self.found(kind, at, change=index, id=table.id, file_id=event.file_id)

    @staticmethod
    def overlap(asked: frozenset[int] | None, event: Event) -> bool:
        return asked is None or event.positions is None or bool(asked & event.positions)

    def granularity(self, table: Table) -> str:
        if self.oracle.beyond_window(self.base):
            return "TABLE"
        now = self.oracle.last(table).definition
        assert now is not None
        return str(now.properties.get("conflict_granularity") or self.oracle.settings.conflict_granularity)

    def name_file(self, file_id: int) -> int:
        if file_id in self.files:
            refuse("file named twice")
        self.files.add(file_id)
        return file_id

    def live(self, table: Table, file_id: int) -> bool:
        now = self.head.entries.get(table.id)
        if now is not None and file_id in now.files:
            return True
        if not 0 <= file_id < self.oracle.next_file_id:
            refuse("never a file")
        if any(file_id in other.files for other in self.head.entries.values()):
            refuse("a file of another table")
        if now is None and table.id not in self.mine:
            return False
        ended = any(
            e.id == table.id and e.file_id == file_id and e.kind in ("DELETE", "COMPACT") for _, e in self.since
        )
        if self.oracle.beyond_window(self.base):
            ended = any(e.id == table.id and e.kind in ("DELETE", "COMPACT") for _, e in self.since)
        if not ended:
            refuse("not live")
        return False

    def deleted_before(self, table: Table, file_id: int) -> tuple[set[int], set[int]] | None:
        """Inlined and filed positions at the base; None when the core cannot know them."""
        raced = any(e.id == table.id and e.kind == "DELETE" for _, e in self.since)
        if self.oracle.beyond_window(self.base) and raced:
            return None
        then = self.oracle.worlds[self.base].entries.get(table.id)
        if then is None or file_id not in then.files:
            return set(), set()
        return then.files[file_id].inlined, then.files[file_id].filed

    def positions(self, table: Table, each: m.PositionDelete) -> frozenset[int]:
        if isinstance(each.rows, tuple) or not each.rows:
            refuse("no set of positions")
        if self.live(table, each.data_file_id):
            if max(each.rows) >= self.head.entries[table.id].files[each.data_file_id].rows:
                refuse("beyond the file")
            before = self.deleted_before(table, each.data_file_id)
            if before is not None and set(each.rows) & (before[0] | before[1]):
                refuse("deleted already")
        return frozenset(each.rows)

    def delete_file(self, table: Table, each: m.DeleteFile) -> None:
        if isinstance(each.rows, tuple) or not each.rows:
            refuse("no set of positions")
        if not self.live(table, each.data_file_id):
            return
        if max(each.rows) >= self.head.entries[table.id].files[each.data_file_id].rows:
            refuse("beyond the file")
        touched = any(e.id == table.id and e.kind == "DELETE" and e.file_id == each.data_file_id for _, e in self.since)
        before = self.deleted_before(table, each.data_file_id)
        if before is None or touched:
            return
        rows = set(each.rows)
        if not before[1] <= rows or rows & before[0] or rows == before[1]:
            refuse("delete file breaks the rules")

    def on_compact(self, change: m.Compact, index: int) -> None:
        table = self.entry(change.schema, change.table)
        if table.definition is not None and table.definition.primary_key:
            refuse("keyed")
        if not change.replaced:
            refuse("no file")
        self.place(change.files)
        lives = [self.live(table, self.name_file(file_id)) for file_id in change.replaced]
        deletes = [e for _, e in self.since if e.id == table.id and e.kind == "DELETE"]
        raced = any(e.file_id in change.replaced or self.oracle.beyond_window(self.base) for e in deletes)
        if all(lives) and not raced:
            now = self.head.entries[table.id].files
            rows = sum(now[f].rows - len(now[f].inlined) - len(now[f].filed) for f in change.replaced)
            if rows != sum(file.record_count for file in change.files):
                refuse("rows differ")
        self.look(table, index, "DROP")
        granularity = self.granularity(table)
        beyond = self.oracle.beyond_window(self.base)
        for at, event in self.since:
            if event.id == table.id and event.kind == "DELETE":
                if granularity == "TABLE":
                    self.found("TABLE_DELETED_FROM", at, change=index, id=table.id)
                elif event.file_id in change.replaced:
                    self.found("TABLE_DELETED_FROM", at, change=index, id=table.id, file_id=event.file_id)
            if event.id == table.id and event.kind == "COMPACT":
                if beyond and not all(lives):
                    self.found("TABLE_COMPACTED", at, change=index, id=table.id)
                elif not beyond and event.file_id in change.replaced:
                    self.found("TABLE_COMPACTED", at, change=index, id=table.id, file_id=event.file_id)
        schema_id, now_named = self.schema(change.schema), None
        now_named = self.head.entry(schema_id, change.table)
        if now_named is not None and now_named.id != table.id:
            bound = [(at, e) for at, e in self.since if e.kind in NAMED and e.id == now_named.id]
            at, event = next((at, e) for at, e in reversed(bound) if e.name == fold(change.table))
            self.found(NAMED[event.kind], at, change=index, id=now_named.id)

    def on_flush(self, change: m.Flush, index: int) -> None:
        """Row by row its changes and flushes; of a table that was dropped the drop says it all."""
        table = self.entry(change.schema, change.table)
        if table.definition is None or not table.definition.primary_key:
            refuse("not keyed")
        self.place(change.files)
        row_ids = [row_id for file in change.files for row_id in file.row_ids or ()]
        if not change.files or any(len(f.row_ids or ()) != f.record_count or not f.row_ids for f in change.files):
            refuse("no rows, or another number of them")
        if len(set(row_ids)) < len(row_ids) or min(row_ids) < 0:
            refuse("a row twice, or none")
        if any((table.id, row_id) in self.flushed for row_id in row_ids):
            refuse("a row that an earlier change flushes")
        self.flushed |= {(table.id, row_id) for row_id in row_ids}
        self.look(table, index, "DROP", "RENAME", "ALTER")
        dropped, wide = table.id not in self.head.entries, self.oracle.beyond_window(self.base)
        touches = [(at, e) for at, e in self.since if e.id == table.id and e.kind in ("ROW", "FLUSH")]
        names = {"ROW": "TABLE_ROWS_CHANGED", "FLUSH": "TABLE_FLUSHED"}
        if wide:
            for at, event in touches:
                self.found(names[event.kind], at, change=index, id=table.id)
        if dropped or (wide and touches):
            return
        outside = {row.row_id for row in self.seen.entries[table.id].rows.values() if not row.flushed}
        for row_id in row_ids:
            met = [(at, event) for at, event in touches if event.row_id == row_id]
            for at, event in met:
                self.found(names[event.kind], at, change=index, id=table.id)
            if not met and row_id not in outside:
                refuse("no row outside of files")
