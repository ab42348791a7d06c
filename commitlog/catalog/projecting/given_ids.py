"""What a changeset comes to before its rows are written: which ids belong to which change, and what it drops in the end.

A table or view that the changeset drops takes its other changes with it: what they would write would begin and end in one
snapshot, and stock clients list such rows as live.
"""

from __future__ import annotations

from commitlog.domain import model as m


class FileIds:
    """The ids of one new data file."""

    __slots__ = ("data_file_id", "mapping_id", "row_id_start")

    def __init__(self, data_file_id: int, mapping_id: int | None, row_id_start: int | None) -> None:
        self.data_file_id = data_file_id
        self.mapping_id = mapping_id
        self.row_id_start = row_id_start


class GivenIds:
    """The ids that one change was given."""

    __slots__ = ("delete_files", "files", "partitions")

    def __init__(
        self,
        files: tuple[FileIds, ...] = (),
        delete_files: tuple[int, ...] = (),
        partitions: tuple[int, ...] = (),
    ) -> None:
        self.files = files
        self.delete_files = delete_files
        self.partitions = partitions


NONE_GIVEN = GivenIds()


class AssignedIds:
    """Deals an outcome's ids out to its changes, in their order (rules.md 12.10)."""

    def __init__(self, assigned: m.Assigned) -> None:
        self._assigned = assigned
        self._mappings = self._data_files = self._delete_files = self._row_id_starts = self._partitions = 0

    def of(self, change: m.Change, effect: m.Effect) -> GivenIds:
        """The ids of the next change that was not skipped."""
        match change:
            case m.Append() | m.Compact() | m.Flush():
                return GivenIds(files=tuple([self._file(file) for file in change.files]))
            case m.Delete():
                at, self._delete_files = self._delete_files, self._delete_files + len(change.delete_files)
                return GivenIds(delete_files=self._assigned.delete_file_ids[at : self._delete_files])
            case m.CreateTable():
                return self._keyed(1 if change.partition_by else 0)
            case m.AlterTable():
                return self._keyed(len([step for step in change.alterations if step.partition_by]))
            case m.InsertRow() | m.UpdateRow() | m.DeleteRow():
                self._row(effect)
        return NONE_GIVEN

    def _file(self, file: m.DataFile) -> FileIds:
        mapping_id = None
        if file.name_mapping is not None:
            mapping_id = self._assigned.mapping_ids[self._mappings]
            self._mappings += 1
        data_file_id = self._assigned.data_file_ids[self._data_files]
        self._data_files += 1
        return FileIds(data_file_id, mapping_id, self._row_id_start())

    def _row_id_start(self) -> int | None:
        start = self._assigned.row_id_starts[self._row_id_starts]
        self._row_id_starts += 1
        return start

    def _keyed(self, count: int) -> GivenIds:
        at, self._partitions = self._partitions, self._partitions + count
        return GivenIds(partitions=self._assigned.partition_ids[at : self._partitions])

    def _row(self, effect: m.Effect) -> None:
        # A row that takes the place of another keeps its id; any other row was given one, listed among the files'.
        if effect.row_id is not None and effect.row_id != effect.ended_row_id:
            given = self._row_id_start()
            assert given == effect.row_id, f"row id {effect.row_id} is not the one given, {given}"


_DROPS = (m.DropTable, m.DropView)


def dropped_objects(outcome: m.Outcome) -> tuple[set[int], set[int]]:
    """The tables and views that a changeset drops by name, and the schemas that it drops with what they hold."""
    assert outcome.proposal is not None
    entries: set[int] = set()
    schemas: set[int] = set()
    for change, effect in zip(outcome.proposal.changes, outcome.effects, strict=True):
        if effect.skipped or effect.object_id is None:
            continue
        if isinstance(change, _DROPS):
            entries.add(effect.object_id)
        elif isinstance(change, m.DropSchema):
            schemas.add(effect.object_id)
    return entries, schemas
