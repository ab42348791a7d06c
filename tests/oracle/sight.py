"""What names mean to the writer of one proposal, and what happened to them since its base."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from commitlog.domain import model as m
from commitlog.domain.model.types import fold

from .world import Table

if TYPE_CHECKING:
    from .oracle import Oracle

Report = Callable[..., None]
NAMED = {"CREATE_TABLE": "TABLE_CREATED", "CREATE_VIEW": "VIEW_CREATED", "RENAME": "TABLE_RENAMED"}


class CannotBeError(Exception):
    """The request cannot be; why, in a word or two."""


def refuse(why: str) -> None:
    """The request cannot be."""
    raise CannotBeError(why)


class Sight:
    """The world at the base, overlaid by the changes that were judged already."""

    def __init__(self, oracle: Oracle, proposal: m.Proposal, found: Report) -> None:
        self.oracle = oracle
        self.proposal = proposal
        self.base = proposal.base_snapshot_id
        self.seen = oracle.worlds[self.base].copy()
        self.head = oracle.worlds[-1]
        self.since = oracle.since(self.base)
        self.found = found
        self.mine: set[int] = set()
        self.mine_schemas: set[int] = set()
        self.gone: set[tuple[int | None, str]] = set()
        self.gone_schemas: set[str] = set()
        self.dropped: set[int] = set()
        self.redefined: set[int] = set()
        self.files: set[int] = set()
        self.paths: set[str] = set()
        self.flushed: set[tuple[int, int]] = set()
        self.next_id = -1000

    def schema(self, name: str) -> int:
        if fold(name) in self.gone_schemas:
            refuse("schema dropped here")
        schema_id = self.seen.schema(name)
        if schema_id is None:
            refuse("no such schema")
        assert schema_id is not None
        return schema_id

    def entry(self, schema: str, name: str, *, view: bool = False) -> Table:
        schema_id = self.schema(schema)
        entry = self.seen.entry(schema_id, name)
        if entry is None or (entry.definition is None) != view:
            refuse("no such entry")
        assert entry is not None
        return entry

    def new_id(self) -> int:
        self.next_id -= 1
        return self.next_id

    def known(self, table: Table) -> bool:
        """Whether the writer knows the table's definition."""
        return not any(
            e.id == table.id and (e.kind in ("DROP", "RENAME") or (e.kind == "ALTER" and not e.benign))
            for _, e in self.since
        )

    def head_entry(self, schema: str, name: str) -> tuple[int | None, Table | None]:
        """What a name means at the head, overlaid by this changeset."""
        made = self.seen.schema(schema)
        own = self.seen.entry(made, name)
        if own is not None and own.id in self.mine | self.redefined:
            return made, own
        if own is None and made is not None and (made, fold(name)) in self.gone:
            return made, None
        schema_id = made if made in self.mine_schemas else self.head.schema(schema)
        if fold(schema) in self.gone_schemas and made not in self.mine_schemas:
            return None, None
        if (schema_id, fold(name)) in self.gone and self.seen.entry(schema_id, name) is None:
            return schema_id, None
        overlaid = self.seen.entry(schema_id, name)
        if overlaid is not None and (overlaid.id in self.mine or overlaid.id in self.redefined):
            return schema_id, overlaid
        return schema_id, self.head.entry(schema_id, name)

    def look(self, entry: Table, index: int, *kinds: str, benign: bool = True) -> None:
        """Report the last of these events on an entry."""
        view = entry.definition is None
        names = {
            "DROP": "VIEW_DROPPED" if view else "TABLE_DROPPED", "RENAME": "TABLE_RENAMED", "ALTER": "TABLE_ALTERED",
            "REPLACE_VIEW": "VIEW_REPLACED", "APPEND": "TABLE_APPENDED", "ROW": "TABLE_ROWS_CHANGED",
        }  # fmt: skip
        for at, event in self.since:
            if event.id == entry.id and event.kind in kinds and (benign or not event.benign):
                self.found(names[event.kind], at, change=index, id=entry.id)

    def look_name(self, schema_id: int, name: str, index: int) -> None:
        for at, event in self.since:
            if event.schema_id == schema_id and event.name == fold(name) and event.kind in NAMED:
                self.found(NAMED[event.kind], at, change=index, id=event.id)
            if event.kind == "DROP_SCHEMA" and event.schema_id == schema_id:
                self.found("SCHEMA_DROPPED", at, change=index, id=event.name)

    def free(self, schema_id: int, name: str) -> None:
        if self.seen.entry(schema_id, name) is not None:
            refuse("name is taken")
