"""What of a log's outcomes goes to another site, and how it is said there (rules.md 6). Pure.

All that tables are made of is forwarded: the schemas they are in, their definitions, their rows and files. What this log took
over from another node goes on as it came, whatever became of it here: each site settles conflicts for itself, by the same rule.
What this log made is said as its effect: the row that stands, or its end, with where and when it was made. Where the files of
another site are is for ``contents_there`` to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from commitlog.domain import model as m
from commitlog.domain.model.altering import alter
from commitlog.domain.model.defining import define
from commitlog.domain.model.definitions import TableDefinition
from commitlog.domain.model.nodes import Node
from commitlog.domain.model.row_images import default_in_row
from commitlog.domain.model.types import fold
from commitlog.domain.state.row_keys import RowChange, given_key, time_us_of
from commitlog.domain.state.sites import SITES, Arrival, is_row_change, made_at
from commitlog.sites.joining import HAS_ALL, JOIN

_MAINTENANCE = frozenset(
    {m.ChangeKind.COMPACT, m.ChangeKind.FLUSH, m.ChangeKind.EXPIRE_SNAPSHOTS, m.ChangeKind.CONFIGURE}
)
"""What changes no row, so that each site does it for itself."""
OWN_KINDS = _MAINTENANCE | {m.ChangeKind.CREATE_VIEW, m.ChangeKind.REPLACE_VIEW, m.ChangeKind.DROP_VIEW}
"""What is brought to no other site."""
_OF_FILES = frozenset({m.ChangeKind.APPEND, m.ChangeKind.DELETE})
_Naming = m.CreateTable | m.DropTable | m.RenameTable | m.AlterTable | m.DropSchema
"""What may change which tables and columns a log means by names."""


class Forwarded(NamedTuple):
    """What a snapshot brings to other sites.

    snapshot_id: of the log that forwards it, decided there at decided_at_ms. changes: none where nothing of it concerns others.
    left_out: changes of views, and of tables that say so (`replicated`), which are not replicated. of_files: the indices of
    those changes that put something into a table without a primary key, or take it out. by: by which node its names are to be
    understood, and what that knew: the log's own, for it has taken over what others made by the names that it had for it.
    names: another one wherever the log may mean something else by a name than before.
    """

    snapshot_id: int
    decided_at_ms: int
    replicated: m.Replicated
    changes: tuple[m.Change, ...]
    proposal: m.Proposal
    left_out: int
    by: m.Replicated
    of_files: frozenset[int] = frozenset()
    names: object = None

    @property
    def is_contents(self) -> bool:
        """Whether it changes rows and files alone, and no definitions."""
        return all(is_row_change(change) or change.kind in _OF_FILES for change in self.changes)

    def displacing(self, rows: tuple[m.DisplacedRow, ...]) -> Forwarded:
        """The same, for a target that does not remember some rows."""
        return self._replace(replicated=self.replicated.replace(displaced=rows))


class Source:
    """A log that is forwarded, as far as that needs to know it at a place.

    Args:
        node: what the log is.
        digest: of other nodes, before the first outcome that is forwarded.
        definitions: of the tables at that place.
        next_tick: the tick after the last of its own snapshots that had something to forward.

    Attributes:
        told: what it was told when it joined, so far, by the nodes that made it: before which ticks. None of that is forwarded.
    """

    def __init__(
        self, node: Node, digest: Mapping[str, m.KnownNode], definitions: Iterable[TableDefinition], next_tick: int
    ) -> None:
        self.node = node
        self.told: dict[str, int] = {}
        self._digest = dict(digest)
        self._next_tick = next_tick
        self._names = object()
        self._tables = {each.table_id: each for each in definitions}

    def take(self, outcome: m.Outcome) -> Forwarded | None:
        """The next outcome; what it brings to others, None when that is nothing."""
        proposal = outcome.proposal
        if outcome.verdict is not m.Verdict.COMMITTED or proposal is None or outcome.snapshot_id is None:
            return None
        pairs = list(zip(proposal.changes, outcome.effects, strict=True))
        tables = [self._table_of(change, effect) for change, effect in pairs]
        if proposal.replicated is not None:
            forwarded = self._pass_on(outcome, proposal, proposal.replicated, tables)
        else:
            forwarded = self._tell(outcome, proposal, outcome.snapshot_id, tables)
        for change, effect in pairs:
            if isinstance(change, _Naming):
                self._names = object()
                if isinstance(change, m.AlterTable) and not effect.skipped:
                    self._alter(change, effect, of_properties=True)
        return forwarded

    def _table_of(self, change: m.Change, effect: m.Effect) -> TableDefinition | None:
        """The table that a change is about, as it is from then on; None where that is no table, or one that links leave where
        it is."""
        if isinstance(change, m.CreateTable) and not effect.skipped:
            self._add_table(change, effect)
        elif isinstance(change, m.AlterTable) and not effect.skipped:
            self._alter(change, effect, of_properties=False)
        table = None if effect.object_id is None else self._tables.get(effect.object_id)
        return table if table is not None and table.is_replicated else None

    def _add_table(self, change: m.CreateTable, effect: m.Effect) -> None:
        assert effect.object_id is not None
        plain = change.replace(foreign_keys=(), partition_by=())
        self._tables[effect.object_id] = define(plain, table_id=effect.object_id, schema_id=0, partition_id=None)

    def _alter(self, change: m.AlterTable, effect: m.Effect, *, of_properties: bool) -> None:
        """What a table says of itself counts from the next snapshot on, its columns do at once."""
        assert effect.object_id is not None
        steps = tuple(step for step in change.alterations if (step.op is m.AlterOp.SET_PROPERTY) is of_properties)
        self._tables[effect.object_id] = alter(
            self._tables[effect.object_id], steps, partition_ids=tuple(range(len(steps))), came=True
        )

    def _pass_on(
        self,
        outcome: m.Outcome,
        proposal: m.Proposal,
        replicated: m.Replicated,
        tables: Sequence[TableDefinition | None],
    ) -> Forwarded | None:
        """What came from another node; what was here already when it came was passed on before."""
        known = self._digest.get(replicated.node)
        if replicated.node == self.node.name or (known is not None and replicated.tick < known.tick):
            return None
        self._digest[replicated.node] = Arrival(replicated, proposal.base_snapshot_id, is_known=False).contained()
        if proposal.writer_id == JOIN or proposal.changes == HAS_ALL:
            self.told[replicated.node] = replicated.tick + 1
            return None  # It names not what it was made with; whoever told it tells others what that was.
        assert outcome.snapshot_id is not None
        pairs = enumerate(zip(proposal.changes, tables, strict=True))
        of_files = frozenset(index for index, (change, table) in pairs if _is_of_files(table, change))
        # What it displaced here is this log's own.
        came = replicated.replace(displaced=())
        by = m.Replicated(self.node.name, outcome.snapshot_id, tuple(self._digest.values()))
        return Forwarded(
            outcome.snapshot_id, outcome.decided_at_ms, came, proposal.changes, proposal, 0, by, of_files, self._names
        )

    def _tell(
        self,
        outcome: m.Outcome,
        proposal: m.Proposal,
        snapshot_id: int,
        tables: Sequence[TableDefinition | None],
    ) -> Forwarded:
        told, left_out = self._told(outcome, proposal, tables)
        if not told:
            nothing = m.Replicated(self.node.name, snapshot_id, ())
            return Forwarded(snapshot_id, outcome.decided_at_ms, nothing, (), proposal, left_out, nothing)
        own = m.KnownNode(self.node.name, self._next_tick, self.node.priority)
        digest = (own, *(self._digest[name] for name in sorted(self._digest)))
        self._next_tick = snapshot_id + 1
        made = m.Replicated(self.node.name, snapshot_id, digest)
        changes = tuple(change for change, _ in told)
        of_files = frozenset(index for index, (_, is_of_files) in enumerate(told) if is_of_files)
        return Forwarded(
            snapshot_id, outcome.decided_at_ms, made, changes, proposal, left_out, made, of_files, self._names
        )

    def _told(
        self, outcome: m.Outcome, proposal: m.Proposal, tables: Sequence[TableDefinition | None]
    ) -> tuple[list[tuple[m.Change, bool]], int]:
        """Its changes as other sites are told them, each with whether it is of files; and how many are left out."""
        told: list[tuple[m.Change, bool]] = []
        left_out = 0
        if proposal.writer_id == JOIN:
            return told, left_out
        displaced: dict[tuple[int, str], m.DeleteRow] = {}
        settled = {each.change: each for each in outcome.resolutions if each.policy != SITES}
        for index, (change, effect) in enumerate(zip(proposal.changes, outcome.effects, strict=True)):
            if effect.skipped or change.kind in _MAINTENANCE:
                continue
            definition = tables[index]
            is_of_files = _is_of_files(definition, change)
            if isinstance(change, (m.CreateSchema, m.DropSchema)):
                told.append((change, is_of_files))
            elif definition is None:
                left_out += 1
            elif is_row_change(change):
                for each in self._rows(outcome, definition, change, effect, settled.get(index)):
                    if (superseded := _superseded(displaced, definition, change, each)) is not None:
                        told.remove((superseded, False))
                    told.append((each, is_of_files))
            elif isinstance(change, m.CreateTable):
                # A table that another site has made is another one, whatever it is called.
                told.append((change.replace(if_not_exists=False), is_of_files))
            else:
                told.append((change, is_of_files))
        return told, left_out

    def _rows(
        self,
        outcome: m.Outcome,
        definition: TableDefinition,
        change: RowChange,
        effect: m.Effect,
        settled: m.Resolution | None,
    ) -> Iterator[m.Change]:
        """A row change as its effect: the end of the row that it ended, unless that goes on under its key, and the new one."""
        assert outcome.snapshot_id is not None
        time_us = time_us_of(change, outcome.decided_at_ms)
        origin = made_at(self.node, outcome.snapshot_id, time_us)
        image: m.Row | None = None
        if effect.row_id is not None:
            image = settled.row if settled is not None and settled.row is not None else _image(change)
            image = None if image is None else _with_defaults(definition, image)
        ended = None if effect.ended_row_id is None else _ended_key(definition, change, settled)
        goes_on = ended is not None and image is not None and _same_key(definition, ended, image)
        if ended is None and isinstance(change, m.DeleteRow):
            ended = change.key  # Of a row that is held back.
        if ended is not None and not goes_on:
            moves = isinstance(change, m.UpdateRow)
            yield m.DeleteRow(change.schema, change.table, ended, time_us, origin, moves)
        if image is not None and goes_on:
            key = _key(definition, image)
            yield m.UpdateRow(change.schema, change.table, key, image, time_us, origin, effect.identity)
        elif image is not None:
            yield m.InsertRow(change.schema, change.table, image, time_us, origin, effect.identity)


def _superseded(
    displaced: dict[tuple[int, str], m.DeleteRow], definition: TableDefinition, change: m.Change, told: m.Change
) -> m.DeleteRow | None:
    """The end of a row that an insert displaced, where the row that is told now takes its key: a snapshot changes a row once.

    displaced: by table and key the ends of rows that inserts displaced so far; kept up to date.
    """
    if isinstance(told, m.InsertRow) and displaced:
        return displaced.pop((definition.table_id, given_key(definition, _key(definition, told.row))), None)
    if isinstance(told, m.DeleteRow) and isinstance(change, m.InsertRow):
        displaced[definition.table_id, given_key(definition, told.key)] = told
    return None


def _is_of_files(table: TableDefinition | None, change: m.Change) -> bool:
    return table is not None and not table.keyed and (is_row_change(change) or change.kind in _OF_FILES)


def _image(change: RowChange) -> m.Row | None:
    return None if isinstance(change, m.DeleteRow) else change.row


def _with_defaults(definition: TableDefinition, image: m.Row) -> m.Row:
    """An image that says what the columns it lacks got here: elsewhere it reads as if these had been added since."""
    changed = [column for column in definition.columns if column.default != column.initial_default]
    if not changed:
        return image
    given = {fold(name) for name in image}
    defaults = {
        column.name: None if column.default is None else default_in_row(column.type, column.default)
        for column in changed
        if fold(column.name) not in given
    }
    return {**image, **defaults}


def _ended_key(definition: TableDefinition, change: RowChange, settled: m.Resolution | None) -> m.Row:
    """The key of the row that a change ended: the one it names; of an insert that of the row it met, its own where a shortened
    outcome tells none."""
    if not isinstance(change, m.InsertRow):
        return change.key
    met = None if settled is None else settled.committed_row
    return _key(definition, change.row if met is None else met)


def _key(definition: TableDefinition, image: Mapping[str, m.RowValue]) -> m.Row:
    """The key columns of an image."""
    values = {fold(name): value for name, value in image.items()}
    return {name: values[fold(name)] for name in definition.names_of(definition.primary_key)}


def _same_key(definition: TableDefinition, key: m.Row, image: m.Row) -> bool:
    return given_key(definition, key) == given_key(definition, _key(definition, image))
