"""Rows that sites hold back because other rows do not let them stand: which there are, and how each is settled (rules.md 6).

Whatever settles one is an ordinary transaction of this site, which the links bring to the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from commitlog.client import CommitLog, Transaction
from commitlog.client.outcomes.describing import moment_of
from commitlog.client.tables.names import TableName, folded, parse_table_name
from commitlog.client.tables.values import row_of
from commitlog.domain import model as m
from commitlog.domain.deciding.row_overlay import RowOverlay
from commitlog.domain.model.definitions import TableDefinition
from commitlog.domain.model.row_images import conformed_row
from commitlog.domain.model.types import fold
from commitlog.domain.state.claims import Claims, Place
from commitlog.domain.state.index import SequencerState, TableState
from commitlog.domain.state.row_keys import given_key
from commitlog.domain.state.rows import RowVersion
from commitlog.errors import InvalidChangeError, InvalidRequestError


@dataclass(frozen=True, slots=True)
class MetRow:
    """A row that has a UNIQUE value which another one asks for, or that is the same one under another key.

    Attributes:
        key: its key columns; None where ``row`` is.
        row: the row; None when it was last changed before the log's window: the catalog alone has it.
        node: the site that made it.
    """

    key: Mapping[str, m.RowValue] | None
    row: m.Row | None
    node: str


@dataclass(frozen=True, slots=True)
class DivergentRow:
    """A row that is held back: the same ones at every site, once all is brought.

    Attributes:
        schema: of its table.
        table: its table.
        key: its key columns.
        kind: UNIQUE, MULTIPLE_UNIQUE, UPDATE_KEY where it is the same row as one of those under another key, or FOREIGN_KEY
            where it waits for what it refers to.
        row: the row as it would stand.
        node: the site that made it.
        made_at: when, by that site's clock; None where that is beyond Python's years.
        met: the rows that are in its way.
        missing: the tables in which what it refers to does not stand.
        snapshot_id: the newest one of the log when it was asked.
    """

    schema: str
    table: str
    key: Mapping[str, m.RowValue]
    kind: m.ConflictKind
    row: m.Row
    node: str
    made_at: datetime | None
    met: tuple[MetRow, ...]
    missing: tuple[str, ...]
    snapshot_id: int

    @property
    def name(self) -> str:
        """The table's name with its schema, as people write it."""
        return str(TableName(self.schema, self.table))


def divergent_rows(log: CommitLog) -> list[DivergentRow]:
    """The rows that are held back at the head of a log, by table and key.

    Raises:
        HistoryUnavailableError: the log is too long to be replayed here.
    """
    state = log.access.state_before(log.last_seq() + 1)
    if state.node is None:
        return []
    claims = Claims(state.node, lambda table_id: state.tables[table_id])
    return [
        _divergent(state, claims, table, (table.table_id, key), version)
        for table in sorted(state.tables.values(), key=lambda each: (each.schema.name, each.name))
        if table.rows is not None and table.dropped_at is None
        for key, version in sorted(table.rows.held.items())
    ]


def divergent_row(log: CommitLog, name: str, key: Mapping[str, m.RowValue]) -> DivergentRow:
    """The row of a table (``schema.table``) with this key, which is held back.

    Raises:
        InvalidRequestError: there is none; the message names those that are. Or the text is no table's name.
    """
    table = folded(parse_table_name(name))
    found = divergent_rows(log)
    named = [each for each in found if folded((each.schema, each.table)) == table]
    if named:
        text_of = _key_texts(log, named[0])
        wanted = text_of(key)
        for each in named:
            if text_of(each.key) == wanted:
                return each
    others = ", ".join(f"{each.name} {dict(each.key)}" for each in found[:10]) or "none is"
    raise InvalidRequestError(f"no row {dict(key)} of table {name} is held back; of all tables: {others}")


def take_local(log: CommitLog, divergent: DivergentRow) -> int:
    """Give up the row that is held back: what stands, stays. The snapshot that did it.

    Raises:
        ProposalRejectedError: the row has changed since it was asked for.
    """
    with _settling(log, divergent, "take-local") as tx:
        tx.delete_row(divergent.name, divergent.key)
    return _snapshot_of(tx)


def take_remote(log: CommitLog, divergent: DivergentRow) -> int:
    """End the rows that are in the way, and let the one that is held back stand. The snapshot that did it.

    Raises:
        InvalidRequestError: it waits for what it refers to, and nothing is in its way.
        ProposalRejectedError: one of the rows has changed since they were asked for, or others refer to it.
    """
    if not divergent.met:
        raise InvalidRequestError(
            f"row {dict(divergent.key)} of table {divergent.name} waits for what it refers to: insert that into "
            f"{', '.join(divergent.missing)}, and it stands; or take-local gives it up"
        )
    keys = [each.key for each in divergent.met if each.key is not None]
    if len(keys) < len(divergent.met):
        raise InvalidRequestError(
            f"a row of table {divergent.name} that is in the way was made before the log's window: delete it by its key, "
            f"and row {dict(divergent.key)} stands"
        )
    with _settling(log, divergent, "take-remote") as tx:
        for key in keys:
            tx.delete_row(divergent.name, key)
        tx.insert_row(divergent.name, divergent.row)
    return _snapshot_of(tx)


def write(log: CommitLog, divergent: DivergentRow, row: m.Row) -> int:
    """Write a row in the place of the one that is held back; with the key of one that it met, in the place of both.

    Raises:
        InvalidRequestError: the row is none of the table.
        ProposalRejectedError: one of the rows has changed since they were asked for, or others refer to it.
    """
    given = {fold(name): value for name, value in row.items()}
    key = {name: given.get(fold(name)) for name in divergent.key}
    text_of = _key_texts(log, divergent)
    wanted = text_of(key)
    with _settling(log, divergent, "write") as tx:
        if wanted != text_of(divergent.key):
            tx.delete_row(divergent.name, divergent.key)
        if any(each.key is not None and text_of(each.key) == wanted for each in divergent.met):
            tx.update_row(divergent.name, key, row)
        else:
            tx.insert_row(divergent.name, row)
    return _snapshot_of(tx)


def _key_texts(log: CommitLog, divergent: DivergentRow) -> Callable[[Mapping[str, Any]], str | None]:
    """What tells keys of the row's table apart, in whatever form each is given; None for what is no key of it."""
    at = log.access.table_at(divergent.schema, divergent.table, divergent.snapshot_id)
    assert at is not None
    definition = at.definition

    def text_of(key: Mapping[str, Any]) -> str | None:
        try:
            return given_key(definition, row_of(key))
        except InvalidChangeError:
            return None

    return text_of


def _settling(log: CommitLog, divergent: DivergentRow, how: str) -> Transaction:
    message = f"{how}: row {dict(divergent.key)} of {divergent.name}, which was held back"
    return log.transaction(message=message, base_snapshot_id=divergent.snapshot_id)


def _snapshot_of(tx: Transaction) -> int:
    assert tx.outcome.snapshot_id is not None
    return tx.outcome.snapshot_id


def _divergent(
    state: SequencerState, claims: Claims, table: TableState, place: Place, version: RowVersion
) -> DivergentRow:
    claim = claims.of(place)
    assert claim is not None
    assert version.image is not None
    definition = table.definition
    row = _shown(definition, version.image)
    kind, met = claims.why_held(place)
    return DivergentRow(
        schema=table.schema.name,
        table=table.name,
        key=_key_columns(definition, row),
        kind=kind,
        row=row,
        node=claim.origin.node,
        made_at=moment_of(claim.origin.stamp_ms),
        met=tuple(_met(claims, definition, other) for other in met),
        missing=() if met else tuple(_missing(state, definition, version)),
        snapshot_id=state.head_snapshot_id,
    )


def _met(claims: Claims, definition: TableDefinition, place: Place) -> MetRow:
    claim = claims.of(place)
    assert claim is not None
    image = claim.version.image
    row = None if image is None else _shown(definition, image)
    return MetRow(None if row is None else _key_columns(definition, row), row, claim.origin.node)


def _shown(definition: TableDefinition, image: m.Row) -> m.Row:
    """A row as it would stand; as it is where it cannot, for NULLs in a column that may have none: it is to be settled."""
    try:
        return conformed_row(definition, image)
    except InvalidChangeError:
        return {column.name: image.get(column.name) for column in definition.columns}


def _key_columns(definition: TableDefinition, row: m.Row) -> dict[str, m.RowValue]:
    return {name: row[name] for name in definition.names_of(definition.primary_key)}


def _missing(state: SequencerState, definition: TableDefinition, version: RowVersion) -> Iterator[str]:
    rows = RowOverlay(state)
    for foreign, value in zip(definition.foreign_keys, version.references, strict=True):
        parent = state.tables[foreign.ref_table_id]
        if value is not None and rows.provider(parent, foreign.ref_column_ids, value) is None:
            yield str(TableName(parent.schema.name, parent.name))
