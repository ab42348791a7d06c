"""Changes and reads in a few words, for histories and explanations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from commitlog.client.tables.filters import NULL_CHECKS
from commitlog.client.tables.names import TableName
from commitlog.domain import model as m
from commitlog.domain.model.definitions import counted, quoted, visible

if TYPE_CHECKING:
    from commitlog.catalog.history import HistoryEntry

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN_MAX = 10
_MESSAGE_MAX = 1_000
"""Characters; a message may have millions."""
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d[\d:.+\-Z]*)?")


def describe_changes(changes: Sequence[m.Change], *, shown_max: int = 3) -> str:
    """The changes of a proposal on one line; one without changes opens its writer."""
    shown = [describe_change(change) for change in changes[:shown_max]]
    if len(changes) > shown_max:
        shown.append(f"and {len(changes) - shown_max} more")
    return ", ".join(shown) or "open writer"


def describe_entry(entry: HistoryEntry) -> str:
    """What an outcome of the history came to: the message and what changed, or why it was refused."""
    return _what(entry.reason, entry.detail, entry.message, describe_asked(entry))


def describe_asked(entry: HistoryEntry) -> str:
    """What an outcome of the history was asked for: kinds of changes, and of which tables."""
    kinds = ", ".join(each.replace("_", " ").lower() for each in entry.change_kinds)
    tables = ", ".join(quoted(str(TableName(*each))) for each in entry.tables)
    return f"{kinds}: {tables}" if kinds and tables else kinds or tables or "open writer"


def describe_outcome(outcome: m.Outcome) -> str:
    """The same of an outcome that is there whole, so that each change is told."""
    asked = outcome.proposal
    if asked is None:
        return _what(outcome.reason, outcome.detail, None, "")
    message = asked.message if outcome.verdict is m.Verdict.COMMITTED else None
    return _what(outcome.reason, outcome.detail, message, describe_changes(asked.changes))


def _what(reason: str | None, detail: str | None, message: str | None, asked: str) -> str:
    if reason is not None:
        return one_line(f"{reason}: {detail}")
    if not message:
        return asked
    shown = message if len(message) <= _MESSAGE_MAX else message[:_MESSAGE_MAX] + "..."
    return f"{one_line(shown)} ({asked})"


def one_line(text: str) -> str:
    """A writer's text as it may be shown: on one line, and without what a terminal would obey."""
    return visible(" ".join(text.split()))


def moment_of(time_ms: int) -> datetime | None:
    """A time that a writer gave, in milliseconds since 1970; None where it is beyond Python's years: a log takes PostgreSQL's,
    and a refused proposal may have any."""
    try:
        return _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return None


def describe_change(change: m.Change) -> str:
    """One change in a few words."""
    match change:
        case m.CreateSchema():
            return f"create schema {quoted(change.schema)}"
        case m.DropSchema():
            return f"drop schema {quoted(change.schema)}" + (" with all in it" if change.cascade else "")
        case m.CreateView() | m.ReplaceView() | m.DropView():
            return f"{_verb(change)} view {shown_table(change.schema, change.view)}"
        case m.ExpireSnapshots():
            return f"expire snapshots before {change.older_than_snapshot_id}"
        case m.Configure():
            return "configure " + ", ".join(
                f"{quoted(key)} = {quoted(str(value))}" for key, value in change.settings.items()
            )
        case _:
            return _describe_table_change(change)


def _describe_table_change(change: m.Change) -> str:
    assert not isinstance(
        change,
        m.CreateSchema | m.DropSchema | m.CreateView | m.ReplaceView | m.DropView | m.ExpireSnapshots | m.Configure,
    )
    table = shown_table(change.schema, change.table)
    match change:
        case m.CreateTable():
            return f"create table {table} ({counted(len(change.columns), 'column')})"
        case m.DropTable():
            return f"drop table {table}"
        case m.RenameTable():
            return f"rename table {table} to {quoted(change.new_table)}"
        case m.AlterTable():
            return f"alter table {table}: " + ", ".join(_describe_step(step) for step in change.alterations)
        case m.Append():
            rows = sum(file.record_count for file in change.files)
            return f"append {counted(rows, 'row')} in {counted(len(change.files), 'file')} to {table}"
        case m.Delete():
            return f"delete {_deleted(change)} from {table}"
        case m.Compact():
            return f"compact {counted(len(change.replaced), 'file')} of {table} into {len(change.files)}"
        case m.InsertRow():
            return f"insert a row into {table}"
        case m.UpdateRow():
            return f"update row {_key(change.key)} of {table}"
        case m.DeleteRow():
            return f"delete row {_key(change.key)} of {table}"
        case m.Flush():
            return f"flush rows of {table} into {counted(len(change.files), 'file')}"


def describe_read(read: m.Read) -> str:
    """One read in a few words."""
    match read:
        case m.TableRead():
            where = " and ".join(_describe_predicate(each) for each in read.filter)
            return f"table {shown_table(read.schema, read.table)}" + (f" where {where}" if where else ", all of it")
        case m.NameRead():
            return "the name " + (quoted(read.schema) if read.name is None else shown_table(read.schema, read.name))
        case m.RowsRead():
            return f"{counted(len(read.keys), 'row')} of table {shown_table(read.schema, read.table)}"


def _describe_predicate(predicate: m.Predicate) -> str:
    op = predicate.op.value.replace("_", " ")
    if predicate.op in NULL_CHECKS:
        return f"{quoted(predicate.column)} {op}"
    value = predicate.value
    if isinstance(value, tuple):
        more = f", and {len(value) - _SHOWN_MAX:,} more" if len(value) > _SHOWN_MAX else ""
        shown = f"({', '.join(map(shown_value, value[:_SHOWN_MAX]))}{more})"
    else:
        shown = shown_value(value)
    return f"{quoted(predicate.column)} {op} {shown}"


def shown_value(value: m.Scalar) -> str:
    """A literal: text in quotes, unless it is a date or a time, which nobody takes for anything else."""
    if isinstance(value, str) and _MOMENT.fullmatch(value):
        return value
    if value is None or isinstance(value, bool):
        return str(value).upper().replace("NONE", "NULL")
    return quoted(repr(value))


def _describe_step(step: m.Alteration) -> str:
    words = step.op.value.lower().replace("_", " ")
    name = step.column.name if step.column is not None else step.name or step.key
    return f"{words} {quoted(name)}" if name else words


def _deleted(change: m.Delete) -> str:
    rows = sum(len(each.rows) for each in change.positions) + sum(len(each.rows) for each in change.delete_files)
    parts = [counted(rows, "row")] if change.positions or change.delete_files else []
    if change.whole_files:
        parts.append(counted(len(change.whole_files), "whole file"))
    return " and ".join(parts) or "nothing"


def _verb(change: m.CreateView | m.ReplaceView | m.DropView) -> str:
    return change.kind.value.removesuffix("_VIEW").lower()


def _key(key: m.Row) -> str:
    return "(" + ", ".join(f"{quoted(name)}={value!r}" for name, value in key.items()) + ")"


def shown_table(schema: str, name: str) -> str:
    """A table or view by its full name."""
    return quoted(str(TableName(schema, name)))
