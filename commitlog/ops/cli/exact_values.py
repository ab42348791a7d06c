"""What DuckDB answers, as Python's values, none of which is another one than it was.

Its client for Python has infinite days and times as the first and last ones that Python knows, which are others, cuts
nanoseconds off, and counts a month of an interval as thirty days: so DuckDB gives all these as texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from commitlog.adoption.source import quoted

if TYPE_CHECKING:
    import duckdb

_MOMENTS = frozenset(("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamp with time zone"))
_AS_TEXTS = _MOMENTS | {"date", "time_ns", "interval"}
_NESTED = frozenset(("list", "array", "struct", "map"))
_MICROSECOND_DIGITS = 6


def exact_rows(
    connection: duckdb.DuckDBPyConnection, query: str
) -> tuple[Sequence[str], Sequence[Sequence[Any]]] | None:
    """The names of the columns and the rows that a query gives; None where there is no statement in it."""
    import duckdb

    statements = connection.extract_statements(query)
    if not statements:
        return None
    if statements[-1].type != duckdb.StatementType.SELECT:
        answer = connection.execute(query)
        return [column[0] for column in answer.description or ()], answer.fetchall()
    relation = connection.sql(query)
    kinds = relation.types
    shown = [_with_texts(kind) for kind in kinds]
    asked = relation
    if any(shown):
        columns = zip(relation.columns, shown, strict=True)
        asked = relation.project(
            ", ".join(
                f"#{at}{f'::{kind}' if kind else ''} AS {quoted(name)}" for at, (name, kind) in enumerate(columns, 1)
            )
        )
    return relation.columns, [
        [_value(value, kind) if text else value for value, kind, text in zip(row, kinds, shown, strict=True)]
        for row in asked.fetchall()
    ]


def _with_texts(kind: Any) -> str | None:
    """A type of SQL that has texts where ``kind`` has days, times and intervals; None where it has none of them."""
    if kind.id in _AS_TEXTS:
        return "VARCHAR"
    if kind.id not in _NESTED:
        return None
    parts = [(name, part) for name, part in kind.children if name != "size"] if kind.id == "array" else kind.children
    found = [(name, _with_texts(part), part) for name, part in parts]
    if not any(text for _, text, _ in found) or not all(name for name, _, _ in found):
        return None
    inner = [(name, text or str(part)) for name, text, part in found]
    match kind.id:
        case "struct":
            return f"STRUCT({', '.join(f'{quoted(name)} {text}' for name, text in inner)})"
        case "map":
            return f"MAP({inner[0][1]}, {inner[1][1]})"
        case "array":
            return f"{inner[0][1]}[{dict(kind.children)['size']}]"
    return f"{inner[0][1]}[]"


def _value(value: Any, kind: Any) -> Any:
    """A value with Python's times again where they are the same."""
    if value is None:
        return None
    if kind.id in _MOMENTS:
        return _moment(value)
    if kind.id not in _NESTED:
        return value
    parts = dict(kind.children)
    match kind.id:
        case "struct":
            return {name: _value(each, parts[name]) for name, each in value.items()}
        case "map":
            # What cannot be a key of a dict comes as two lists.
            is_dict = parts["key"].id not in _NESTED
            return {_value(k, parts["key"]): _value(v, parts["value"]) for k, v in value.items()} if is_dict else value
    return [_value(each, parts["child"]) for each in value]


def _moment(text: str) -> datetime | str:
    """A time as Python has it; the text where it has none such."""
    fraction = text.partition(".")[2]
    digits = len(fraction) - len(fraction.lstrip("0123456789"))
    if digits <= _MICROSECOND_DIGITS:
        with suppress(ValueError):
            return datetime.fromisoformat(text)
    return text
