"""The tables, and one table's page: what it is, what it holds, who changes it, and its rows at any snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from posixpath import basename
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from commitlog.catalog.history import HistoryEntry, HistoryFilter
from commitlog.catalog.queries import CatalogTable
from commitlog.client.outcomes.describing import describe_change
from commitlog.client.reading.scan import Scan
from commitlog.client.tables.arrow_types import to_rows
from commitlog.client.tables.names import TableName, parse_table_name
from commitlog.domain.model.definitions import Column, TableDefinition
from commitlog.errors import CommitLogError, LogUnavailableError, ResultsTrimmedError, TableNotFoundError
from commitlog.ui.drawing.lanes import NARROW, WIDE, draw_lanes
from commitlog.ui.drawing.times import draw_times
from commitlog.ui.log_pages import check_text, read_count
from commitlog.ui.site import Site
from commitlog.ui.words import kinds, printable

HISTORY = 500
HISTORY_SHOWN = 15
LANES = 18
FILES_SHOWN = 50
ROWS_SHOWN = 12
DEFINED_SHOWN = 12
VALUE_MAX = 200
_DEFINING = frozenset({"CREATE_TABLE", "ALTER_TABLE", "RENAME_TABLE", "DROP_TABLE"})


def tables_page(site: Site, request: Request) -> Response:
    """Every table at the newest snapshot."""
    head, contents = site.head(), site.contents()
    return site.page("tables.html", head=head, tables=contents.tables(head), counts=contents.file_counts_at(head))


def table_page(site: Site, request: Request) -> Response:
    """One table as of a snapshot, the newest unless one is asked for."""
    asked = request.query_params
    check_text(asked.get("name", ""))
    name = parse_table_name(asked.get("name", ""))
    at = read_count(asked["at"]) if asked.get("at") else site.head()
    found = _found(site, name, at)
    contents, table_id = site.contents(), found.definition.table_id
    entries = contents.history(HistoryFilter(table_id=table_id, limit=HISTORY))
    holding = contents.file_totals_at(found, at)
    rows = holding.rows + contents.row_count_at(table_id, at)
    return site.page(
        "table.html",
        name=TableName(found.schema_name, found.definition.name),
        table=found,
        at=at,
        head=site.head(),
        columns=described_columns(found.definition),
        keys=_keys(found.definition),
        holding=holding,
        rows=rows,
        files_shown=[(each, basename(each.path)) for each in contents.files_at(found, at, newest=FILES_SHOWN)[::-1]],
        entries=entries[:HISTORY_SHOWN],
        history_max=HISTORY,
        writers=_writers(entries),
        conflicts=Counter(kind for each in entries for kind in each.conflict_kinds).most_common(),
        definitions=_definitions(site, entries, table_id),
        lanes=[drawn for shape in (WIDE, NARROW) if (drawn := draw_lanes(entries[:LANES], shape))],
        times=draw_times(entries),
        preview=preview(site, name, at),
    )


def _found(site: Site, name: TableName, at: int) -> CatalogTable:
    contents = site.contents()
    contents.check_snapshot(at)
    found = contents.table_at(name.schema, name.name, at)
    if found is None:
        raise TableNotFoundError(str(name), snapshot_id=at)
    return found


def described_columns(definition: TableDefinition) -> list[tuple[Column, str]]:
    """Each column with what else is to be said of it."""
    described = []
    for column in definition.columns:
        notes = ["key"] if column.column_id in definition.primary_key else []
        notes += ["not null"] if not column.nullable else []
        notes += [f"default {column.default}"] if column.default is not None else []
        transforms = [key.transform for key in definition.partition_by if key.column_id == column.column_id]
        notes += ["partition" if each == "identity" else f"partition by {each}" for each in transforms]
        described.append((column, ", ".join(notes)))
    return described


def _keys(definition: TableDefinition) -> list[tuple[str, str]]:
    names = {column.column_id: column.name for column in definition.all_columns()}
    keys = [("unique", ", ".join(names.get(each, "?") for each in unique)) for unique in definition.unique]
    return keys + sorted((name, str(value)) for name, value in definition.properties.items())


def _writers(entries: Sequence[HistoryEntry]) -> list[tuple[str, int, int]]:
    """Who has asked for changes: committed and refused, those who did most first."""
    committed = Counter(each.writer_id or "" for each in entries if each.verdict == "COMMITTED")
    refused = Counter(each.writer_id or "" for each in entries if each.verdict == "REJECTED")
    totals = (committed + refused).most_common(8)
    return [(writer_id, committed[writer_id], refused[writer_id]) for writer_id, _ in totals]


def _definitions(site: Site, entries: Sequence[HistoryEntry], table_id: int) -> list[tuple[HistoryEntry, list[str]]]:
    """The commits that changed what the table is, each with what it did; by kinds alone where the results cannot be read."""
    told: list[tuple[HistoryEntry, list[str]]] = []
    is_unread = False
    for entry in [each for each in entries if each.snapshot_id is not None and _DEFINING & {*each.change_kinds}]:
        if len(told) == DEFINED_SHOWN:
            break
        try:
            outcome = None if is_unread else site.log.outcome_at(entry.seq)
        except (LogUnavailableError, ResultsTrimmedError):
            # Nor can those before it: they were trimmed too, or no broker answers.
            is_unread, outcome = True, None
        if is_unread:
            told.append((entry, [kinds((each,)) for each in entry.change_kinds if each in _DEFINING]))
        elif outcome is not None and outcome.proposal is not None:
            pairs = zip(outcome.proposal.changes, outcome.effects, strict=True)
            own = [each for each, effect in pairs if effect.object_id == table_id and each.kind.value in _DEFINING]
            told.append((entry, [describe_change(each) for each in own]))
    return told


@dataclass(frozen=True)
class Preview:
    """Some rows as text, or why there are none to show."""

    columns: list[str]
    rows: list[list[str | None]]
    problem: str | None = None


def preview(site: Site, name: TableName, at: int) -> Preview:
    """Some rows of a table at a snapshot; no more of its files is read than they need."""
    try:
        found = _rows_of(Scan(site.contents(), name, at, stored_max=ROWS_SHOWN, files_max=FILES_SHOWN))
        # All rows of the newest files may be deleted.
        return found if found.rows else _rows_of(Scan(site.contents(), name, at, stored_max=ROWS_SHOWN))
    except CommitLogError as error:
        return Preview([], [], str(error))


def _rows_of(scan: Scan) -> Preview:
    rows: list[list[str | None]] = []
    for batch in scan.to_batches():
        some = to_rows(batch.slice(0, ROWS_SHOWN - len(rows)))
        rows += [[_value(row[each]) for each in scan.schema.names] for row in some]
        if len(rows) >= ROWS_SHOWN:
            break
    return Preview(scan.schema.names, rows)


def _value(value: Any) -> str | None:
    if value is None:
        return None
    text = value.hex() if isinstance(value, bytes) else str(value)
    return printable(text[:VALUE_MAX]) + ("…" if len(text) > VALUE_MAX else "")
