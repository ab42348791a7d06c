"""How a source's changes to tables are said to its target (rules.md 6).

Of tables that links leave where they are nothing is said, nor of what is gone at the target. Nothing, not even a definition,
comes to what is another table or column there by now.

Between sites a table without a primary key is append-only: what is appended at any of them comes to all. Where its property
``foreign_paths`` is true at the site that files are brought to, both see the same storage, and the files stay where they are;
else they are copied into the table's folder there. What takes rows away again is brought by no link: files are other ones at
each site.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest

from commitlog.client import CommitLog
from commitlog.client.files.copying import copy_whole, lasting_name
from commitlog.client.files.outside import stays_outside
from commitlog.client.files.places import normal_path
from commitlog.client.tables.names import TableName
from commitlog.client.tables.table_at import TableAt
from commitlog.domain import model as m
from commitlog.domain.model.altering import alter
from commitlog.domain.model.definitions import FOREIGN_PATHS, REPLICATED, Column, TableDefinition
from commitlog.domain.model.types import fold
from commitlog.errors import DataFileError, InvalidChangeError, TableNotBroughtError
from commitlog.sites.bindings import Bindings
from commitlog.sites.forwarding import Forwarded

_Name = tuple[str, str]
_Contents = m.Append | m.Delete | m.InsertRow | m.UpdateRow | m.DeleteRow
_Row = m.InsertRow | m.UpdateRow
_Defining = m.DropTable | m.RenameTable | m.AlterTable
_OfTable = _Contents | m.CreateTable | _Defining
_LEAVE_OUT = (m.Alteration(m.AlterOp.SET_PROPERTY, key=REPLICATED, value="false"),)
_NOTHING = (m.Alteration(m.AlterOp.SET_PROPERTY, key=REPLICATED, value=None),)
"""Alterations that do nothing where links bring a table."""
_NO_NAMES: Mapping[str, str | None] = {}


class ContentsThere:
    """Says for a target what a source's changes of tables' contents are there.

    Args:
        source: the log that is read.
        target: the log that it is proposed to.
        nodes: their names.
        brought: told of each file that the target may name now, by its size.
        told: is called again and again while a file is copied.
    """

    def __init__(
        self,
        source: CommitLog,
        target: CommitLog,
        nodes: tuple[str, str],
        brought: Callable[[int], None],
        told: Callable[[], None],
    ) -> None:
        self.source, self.target = source, target
        self.nodes = nodes
        self.brought = brought
        self.told = told
        self.names = Bindings(target, nodes[1])

    def look_anew(self) -> None:
        """Ask the target again which tables it leaves where they are, and what names mean, for it may have changed that."""
        self.names.look_anew()

    def said_there(self, forwarded: Forwarded, base_snapshot_id: int) -> tuple[m.Change, ...]:
        """The changes as they are proposed from a snapshot of the target; files that are to be copied are there then.

        What a table is not to have, by its property ``replicated`` at the target, is said by setting that.

        Raises:
            TableNotBroughtError: something cannot be brought, or a file cannot be copied.
        """
        self.names.ask_anew(forwarded.names)
        return tuple(_Saying(self, forwarded, base_snapshot_id).changes())


class _Saying:
    """One snapshot, change after change."""

    def __init__(self, sites: ContentsThere, forwarded: Forwarded, base_snapshot_id: int) -> None:
        self._sites, self._forwarded, self._base = sites, forwarded, base_snapshot_id
        self._made: dict[_Name, m.CreateTable] = {}
        self._schemas_made: dict[str, str] = {}
        self._named_before: dict[_Name, _Name] = {}
        self._altered: dict[_Name, list[m.Alteration]] = {}
        self._left_out: set[_Name] = set()
        self._dropped: set[_Name] = set()
        self._copies: Counter[_Name] = Counter()

    def changes(self) -> Iterator[m.Change]:
        for index, change in enumerate(self._forwarded.changes):
            if isinstance(change, _Contents):
                name = _name(change)
                if self._is_left(name):
                    yield from self._leave_out(change)
                    continue
                self._check_names(change.schema, change.table, _columns_in(change))
                if isinstance(change, _Row):
                    change = self._row_there(change, name)
                yield self._placed(self._of_files(change, index) if index in self._forwarded.of_files else change)
                continue
            if isinstance(change, m.CreateTable):
                self._made[_name(change)] = change
                for each in change.foreign_keys:
                    # One that is left where it is may stand in for it.
                    if not self._is_left((fold(each.ref_schema), fold(each.ref_table))):
                        self._check_names(each.ref_schema, each.ref_table, each.ref_columns)
            elif isinstance(change, _Defining):
                yield from self._define(change)
                continue
            elif isinstance(change, m.CreateSchema):
                if not change.if_not_exists or not self._is_schema_there(change.schema):
                    self._schemas_made[fold(change.schema)] = change.schema
            elif isinstance(change, m.DropSchema):
                # The target may have dropped it, too; where it holds others, it says that it is not empty.
                change = change.replace(if_exists=True, cascade=change.cascade and not self._holds_others(change))
            yield change

    def _is_schema_there(self, schema: str) -> bool:
        return fold(schema) in map(fold, self._sites.target.contents().schemas(self._base))

    def _define(self, change: _Defining) -> Iterator[m.Change]:
        name = _name(change)
        if self._is_left(name):
            # By its new name more may come to it.
            if not isinstance(change, m.RenameTable) or self._other_since(name, ()) is not None:
                yield from self._leave_out(change)
                return
        else:
            self._check_names(change.schema, change.table, _columns_in(change))
        if isinstance(change, m.DropTable):
            self._dropped.add(name)
            gone = self._before(name) == name and self._sites.names.is_dropped(name, self._forwarded.by)
            change = change.replace(if_exists=gone)
        elif isinstance(change, m.RenameTable):
            self._rename(change)
        else:
            steps = tuple(self._steps_there(change, name))
            self._altered.setdefault(name, []).extend(steps)
            yield self._placed(change.replace(alterations=steps or _NOTHING))
            return
        yield change

    def _steps_there(self, change: m.AlterTable, name: _Name) -> Iterator[m.Alteration]:
        """Its steps by what columns are called there, but for those about columns that were dropped there meanwhile. The target
        refuses one that renames such a column, for rows come by the new name, and the end of one that was renamed."""
        given = _names_given(self._altered.get(name, ()))
        for step in change.alterations:
            named = tuple(each for each in _columns_of_step(step) if fold(each) not in given)
            others = self._other_names(name, named)
            if step.op is m.AlterOp.RENAME_COLUMN or None not in others.values():
                is_end = step.op in (m.AlterOp.RENAME_COLUMN, m.AlterOp.DROP_COLUMN)
                yield step if is_end or not others else _with_names(step, others)
                given |= _names_given((step,))

    def _holds_others(self, change: m.DropSchema) -> bool:
        """Whether the target has tables in a schema of which who dropped it all knew nothing, or that links leave where they
        are, or views, which they always do: these would go with it."""
        return self._sites.names.has_views(fold(change.schema)) or any(
            self._is_left(name) or self._other_since(name, ()) is not None
            for name in self._sites.names.tables_in(fold(change.schema))
            if name not in self._dropped
        )

    def _rename(self, change: m.RenameTable) -> None:
        old, new = _name(change), (fold(change.schema), fold(change.new_table))
        self._named_before[new] = self._named_before.pop(old, old)
        if old in self._altered:
            self._altered[new] = self._altered.pop(old)

    def _before(self, name: _Name) -> _Name:
        """How a table was called before this snapshot."""
        return self._named_before.get(name, name)

    def _is_left(self, name: _Name) -> bool:
        return name not in self._made and self._sites.names.is_left(self._before(name), self._forwarded.by)

    def _check_names(self, schema: str, table: str, columns: tuple[str, ...]) -> None:
        since = self._other_since((fold(schema), fold(table)), columns)
        if since is not None:
            target, shown = self._sites.nodes[1], str(TableName(schema, table))
            raise self._stopped(
                shown,
                f"table {shown}, or a column of it, is another one at {target} since its snapshot {since}, of which who made "
                "this change knew nothing",
            )

    def _other_since(self, name: _Name, columns: tuple[str, ...]) -> int | None:
        """Since which snapshot of the target a table, or one of its columns, is another one than who made this meant."""
        if name in self._made:
            return None
        return self._sites.names.unknown(self._before(name), columns, self._forwarded.by)

    def _row_there(self, change: _Row, name: _Name) -> _Row:
        """A row by what its columns are called there now, without the values of those that were dropped there meanwhile, as
        they go at its own site when links bring that."""
        others = self._other_names(name, tuple(change.row))
        if not others:
            return change
        named = ((others.get(each, each), value) for each, value in change.row.items())
        return change.replace(row={each: value for each, value in named if each is not None})

    def _other_names(self, name: _Name, columns: tuple[str, ...]) -> Mapping[str, str | None]:
        """What some columns are called there now that lost their names meanwhile, but for those that this snapshot names."""
        if name in self._made:
            return {}
        if name in self._altered:
            given = _names_given(self._altered[name])
            columns = tuple(each for each in columns if fold(each) not in given)
        return self._sites.names.other_names(self._before(name), columns, self._forwarded.by)

    def _placed(self, change: _OfTable) -> m.Change:
        """A change of a table as that is called there now."""
        if _name(change) in self._made:
            return change
        before = self._before(_name(change))
        schema, table = self._sites.names.place(before, self._forwarded.by)
        return change if (schema, table) == before else change.replace(schema=schema, table=table)

    def _leave_out(self, change: _OfTable) -> Iterator[m.Change]:
        if _name(change) not in self._left_out:
            self._left_out.add(_name(change))
            yield self._placed(m.AlterTable(change.schema, change.table, _LEAVE_OUT))

    def _of_files(self, change: _Contents, index: int) -> _Contents:
        if isinstance(change, m.Delete):
            raise self._stopped(
                _shown(change),
                f"it takes rows out of table {_shown(change)}, which has no primary key: links bring what is appended to "
                "such a table, and no deletes, updates or overwrites",
            )
        return self._append(change, index, self._at_target(_name(change))) if isinstance(change, m.Append) else change

    def _at_target(self, name: _Name) -> TableAt | None:
        """The table that something is brought to; None where this snapshot makes it, or there is none."""
        if name in self._made:
            return None
        place = self._sites.names.place(self._before(name), self._forwarded.by)
        return self._sites.target.access.table_at(*place, self._base)

    def _at_source(self, change: m.Append, index: int) -> TableAt:
        """The table as its files' paths, and the ids of their columns, were meant: as it was before this snapshot, unless that
        has made or altered it by then."""
        name, at_end = _name(change), self._forwarded.snapshot_id
        before = self._before(name), at_end - 1
        after = self._named_at_end(name, index), at_end
        is_altered = name in self._made or name in self._altered
        for (schema, table), snapshot_id in (after, before) if is_altered else (before, after):
            at = self._sites.source.access.table_at(schema, table, snapshot_id)
            if at is not None and at.path is not None:
                return at
        raise self._stopped(_shown(change), f"where the files of table {_shown(change)} are is not known any more")

    def _named_at_end(self, name: _Name, index: int) -> _Name:
        for later in self._forwarded.changes[index + 1 :]:
            if isinstance(later, m.RenameTable) and _name(later) == name:
                name = name[0], fold(later.new_table)
        return name

    def _append(self, change: m.Append, index: int, there: TableAt | None) -> m.Append:
        here, made = self._at_source(change, index), self._made.get(_name(change))
        definition = None if there is None else self._altered_there(change, there)
        others = self._other_names(_name(change), tuple(each.name for each in here.definition.columns))
        if definition is not None:
            self._check_columns(change, here, definition, others)
        is_split_alike = definition is None or _partition_keys(definition) == _partition_keys(here.definition, others)
        stay = (
            made.properties.get(FOREIGN_PATHS) == "true" if made is not None else there is None or stays_outside(there)
        )
        folder = normal_path(here.path or "").rstrip("/")
        files = []
        for file in change.files:
            place = f"{folder}/{file.path}" if file.path_is_relative else file.path
            path = place if stay else self._copied(change, file, place, self._folder(change, made, there))
            values = file.partition_values if is_split_alike else None
            mapping = _mapping_there(file.name_mapping, others)
            files.append(
                file.replace(path=path, path_is_relative=not stay, partition_values=values, name_mapping=mapping)
            )
            self._sites.brought(file.file_size_bytes)
        return change.replace(files=tuple(files))

    def _folder(self, change: m.Append, made: m.CreateTable | None, there: TableAt | None) -> str:
        """Where the table's files are at the target."""
        if made is not None:
            is_new = fold(made.schema) in self._schemas_made
            schema = self._schemas_made.get(fold(made.schema), made.schema)
            folder = self._sites.target.access.new_table_path(schema, made.table, is_schema_new=is_new)
        else:
            folder = None if there is None else there.path
        if folder is None:
            raise self._stopped(_shown(change), f"where the files of table {_shown(change)} will be is not known")
        return normal_path(folder).rstrip("/")

    def _copied(self, change: m.Append, file: m.DataFile, place: str, folder: str) -> str:
        """The name of a file's copy, which is there."""
        made = self._forwarded.replicated
        # Of each table by itself: another site may have left another table of the snapshot where it is.
        copy = lasting_name(made.node, made.tick, *_name(change), self._copies[_name(change)])
        self._copies[_name(change)] += 1
        self._sites.target.access.claim_data_path()
        try:
            copy_whole(place, f"{folder}/{copy}", file.file_size_bytes, told=self._sites.told)
        except DataFileError as error:
            may_pass = isinstance(error.__cause__, OSError)
            raise self._stopped(_shown(change), str(error), may_pass=may_pass) from error
        return copy

    def _altered_there(self, change: m.Append, there: TableAt) -> TableDefinition | None:
        """The table at the target after the earlier changes; None where they cannot be: the target says it itself."""
        steps = tuple(self._altered.get(_name(change), ()))
        try:
            return alter(there.definition, steps, partition_ids=tuple(range(len(steps))), came=True)
        except InvalidChangeError:
            return None

    def _check_columns(
        self, change: m.Append, here: TableAt, there: TableDefinition, others: Mapping[str, str | None]
    ) -> None:
        """Files name their columns by ids, which each log gives for itself: they are to be the same at both."""
        if all(file.name_mapping is not None for file in change.files):
            return
        ids = dict(_ids(there.columns))
        columns = {column_id: column for column, column_id in ids.items()}
        for column, column_id in _ids([_named(each, others) for each in here.definition.columns]):
            if ids.get(column, column_id) != column_id or columns.get(column_id, column) != column:
                raise self._stopped(
                    _shown(change),
                    f"column {column} of table {_shown(change)} has another number at each site ({column_id} is "
                    f"{columns.get(column_id, 'gone')} there), and files name theirs by number: both have added or renamed "
                    "columns at the same time",
                )

    def _stopped(self, table: str, detail: str, *, may_pass: bool = False) -> TableNotBroughtError:
        snapshot_id = self._forwarded.snapshot_id
        return TableNotBroughtError(*self._sites.nodes, snapshot_id, table, detail, may_pass=may_pass)


def same_but_for_files(said: Sequence[m.Change], taken: Sequence[m.Change]) -> bool:
    """Whether the target took what a source says now, whatever files, tables and columns are called there, and but for what it
    left out, and for values and alterations of columns that it had dropped."""
    left_out = {_name(each) for each in taken if isinstance(each, m.AlterTable) and each.alterations == _LEAVE_OUT}
    if left_out - {_name(each) for each in said if isinstance(each, _Contents | _Defining)}:
        # By another name there.
        named = {_name(each) for each in taken if isinstance(each, _Contents | _Defining)}
        left_out |= {_name(each) for each in said if isinstance(each, _Contents | _Defining)} - named

    def plain(changes: Sequence[m.Change]) -> list[m.Change]:
        return [
            _without_places(each)
            for each in changes
            if not (isinstance(each, _Contents | _Defining) and _name(each) in left_out)
        ]

    pairs = zip_longest(plain(said), plain(taken))
    return all(each is not None and there is not None and _as_named_in(there, each) == there for each, there in pairs)


def _as_named_in(taken: m.Change, said: m.Change) -> m.Change:
    """What was said by the names of what was taken, as far as that may be it."""
    if isinstance(said, _Contents | m.AlterTable) and isinstance(taken, _Contents | m.AlterTable):
        said = said.replace(schema=taken.schema, table=taken.table)
    if isinstance(said, m.AlterTable) and isinstance(taken, m.AlterTable):
        left = {_without_names(each) for each in said.alterations}
        return (
            taken if taken.alterations == _NOTHING or left.issuperset(map(_without_names, taken.alterations)) else said
        )
    if isinstance(said, _Row) and isinstance(taken, _Row):
        left_values = [value for name, value in said.row.items() if name not in taken.row]
        row = {name: value for name, value in taken.row.items() if name not in said.row and value in left_values}
        return said.replace(row=row | {name: value for name, value in said.row.items() if name in taken.row})
    return said


def _without_names(step: m.Alteration) -> m.Alteration:
    return step.replace(name=None, partition_by=())


def _without_places(change: m.Change) -> m.Change:
    if isinstance(change, m.DropSchema):
        return change.replace(cascade=True, if_exists=True)
    if isinstance(change, m.DropTable):
        return change.replace(if_exists=True)
    if not isinstance(change, m.Append):
        return change
    return change.replace(
        files=tuple(
            file.replace(path="", path_is_relative=True, partition_values=None, name_mapping=None)
            for file in change.files
        )
    )


def _partition_keys(definition: TableDefinition, others: Mapping[str, str | None] = _NO_NAMES) -> list[tuple[str, str]]:
    """By what its files are split; what they say of their partitions is said by these."""
    keys = [(definition.column_by_id(key.column_id), key.transform) for key in definition.partition_by]
    return [(fold(_named(column, others).name), transform) for column, transform in keys]


def _named(column: Column, others: Mapping[str, str | None]) -> Column:
    """A column as it is called at the target."""
    return column.replace(name=others.get(column.name) or column.name)


def _mapping_there(
    mapping: tuple[m.MappedColumn, ...] | None, others: Mapping[str, str | None]
) -> tuple[m.MappedColumn, ...] | None:
    """Where a file without numbers has the columns that are there."""
    if mapping is None or not others:
        return mapping
    named = {fold(name): other for name, other in others.items()}
    columns = ((each, named.get(fold(each.column), each.column)) for each in mapping)
    return tuple(each.replace(column=column) for each, column in columns if column is not None)


def _with_names(step: m.Alteration, others: Mapping[str, str | None]) -> m.Alteration:
    """An alteration of columns that are called otherwise at the target."""
    name = None if step.name is None else others.get(step.name) or step.name
    keys = step.partition_by and tuple(
        key.replace(column=others.get(key.column) or key.column) for key in step.partition_by
    )
    return step.replace(name=name, partition_by=keys)


def _ids(columns: Sequence[Column], within: str = "") -> Iterator[tuple[str, int]]:
    for column in columns:
        path = within + fold(column.name)
        yield path, column.column_id
        yield from _ids(column.children, f"{path}.")


def _columns_in(change: _OfTable) -> tuple[str, ...]:
    """The columns of a table as it is there that a change names."""
    if isinstance(change, _Row):
        return tuple(change.row)
    if isinstance(change, m.Append):
        return tuple(dict.fromkeys(each.column for file in change.files for each in file.name_mapping or ()))
    steps = change.alterations if isinstance(change, m.AlterTable) else ()
    return tuple(dict.fromkeys(name for step in steps for name in _columns_of_step(step)))


def _columns_of_step(step: m.Alteration) -> Iterator[str]:
    if step.name is not None:
        yield step.name
    yield from (key.column for key in step.partition_by or ())


def _names_given(steps: Sequence[m.Alteration]) -> set[str]:
    """The names that alterations give to columns."""
    given = (step.new_name if step.column is None else step.column.name for step in steps)
    return {fold(each) for each in given if each is not None}


def _name(change: _OfTable) -> _Name:
    return fold(change.schema), fold(change.table)


def _shown(change: _OfTable) -> str:
    return str(TableName(change.schema, change.table))
