"""Which files a filter rules out, decided in SQL by the catalog's statistics and partition values.

Only proofs count: a file stays unless a bound, a count or a partition value shows that none of its rows matches. It is the
same reading of statistics as that of SERIALIZABLE reads (rules.md 12.14, 12.24), on what DuckLake stores as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from commitlog.domain.deciding.proofs import is_vacuous
from commitlog.domain.model import FilterOp, Predicate, Scalar
from commitlog.domain.model.definitions import Column, TableDefinition
from commitlog.domain.model.types import FLOATS, INTEGER_BITS, canonical_value, value_text

_NUMBER = r"^-?\d+(\.\d+)?([eE][-+]?\d+)?$"
_DAY = r"^\d{4}-\d{2}-\d{2}"
_AS_TEXT = frozenset({"varchar", "date", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"})
_CUT_LENGTH_MIN = 8
"""Writers cut long bounds of text; a maximum of at least so many bytes may be the beginning of a longer value."""


def exclusions(definition: TableDefinition, where: Iterable[Predicate]) -> tuple[str, list[Any]]:
    """SQL conditions, each with AND before it, that the files ``f`` meet which may hold rows of the conjunction.

    The second value is their parameters.

    Raises:
        InvalidChangeError: the table has not one of the columns.
    """
    parts: list[str] = []
    parameters: list[Any] = []
    for predicate in where:
        column = definition.column(predicate.column)
        if is_vacuous(column.type, predicate):
            return " AND false", []
        for text, values in (_by_statistics(column, predicate), _by_partition(column, predicate)):
            parts.append(f" AND NOT EXISTS ({text})")
            parameters += values
    return "".join(parts), parameters


def _by_statistics(column: Column, predicate: Predicate) -> tuple[str, list[Any]]:
    terms = (
        ["s.null_count = 0"]
        if predicate.op is FilterOp.IS_NULL
        else ["s.value_count = 0", "s.null_count = f.record_count"]
    )
    bounds: list[Any] = []
    if (found := _outside(column, predicate, "s.min_value", "s.max_value", is_exact=False)) is not None:
        terms.append(found[0])
        bounds = found[1]
    text = "SELECT 1 FROM ducklake_file_column_stats s WHERE s.data_file_id = f.data_file_id AND s.column_id = %s"
    return f"{text} AND ({' OR '.join(terms)})", [column.column_id, *bounds]


def _by_partition(column: Column, predicate: Predicate) -> tuple[str, list[Any]]:
    """A value that stands alone: a file from before its table had buckets got the value of each beside its own."""
    value = "v.partition_value"
    terms = [f"{value} IS NOT NULL" if predicate.op is FilterOp.IS_NULL else f"{value} IS NULL"]
    bounds: list[Any] = []
    if (found := _outside(column, predicate, value, value, is_exact=True)) is not None:
        terms.append(found[0])
        bounds = found[1]
    text = """SELECT 1 FROM ducklake_partition_column p JOIN ducklake_file_partition_value v
        ON v.data_file_id = f.data_file_id AND v.table_id = f.table_id AND v.partition_key_index = p.partition_key_index
        WHERE p.partition_id = f.partition_id AND p.transform = 'identity' AND p.column_id = %s
        AND NOT EXISTS (SELECT 1 FROM ducklake_file_partition_value o WHERE o.data_file_id = v.data_file_id
            AND o.partition_key_index = v.partition_key_index AND o.partition_value IS DISTINCT FROM v.partition_value)"""
    return f"{text} AND ({' OR '.join(terms)})", [column.column_id, *bounds]


def _outside(
    column: Column, predicate: Predicate, low: str, high: str, *, is_exact: bool
) -> tuple[str, list[Any]] | None:
    """SQL that proves that no value between two bounds satisfies the predicate; None when nothing could."""
    op, value = predicate.op, predicate.value
    below, above = _Side(column, low, high, is_exact).below, _Side(column, low, high, is_exact).above
    match op:
        case FilterOp.IS_NULL | FilterOp.IS_NOT_NULL:
            return None
        case FilterOp.IN:
            assert isinstance(value, tuple)
            return _all([_any([below(item), above(item)]) for item in value])
        case FilterOp.BETWEEN:
            assert isinstance(value, tuple)
            return _any([below(value[1]), above(value[0])])
    assert not isinstance(value, tuple)
    match op:
        case FilterOp.EQ:
            return _any([below(value), above(value)])
        case FilterOp.LT:
            return below(value, or_equal=True)
        case FilterOp.LE:
            return below(value)
        case FilterOp.GT:
            return above(value, or_equal=True)
    return above(value)


def _any(proofs: Sequence[tuple[str, list[Any]] | None]) -> tuple[str, list[Any]] | None:
    found = [each for each in proofs if each is not None]
    return (f"({' OR '.join(text for text, _ in found)})", [v for _, vs in found for v in vs]) if found else None


def _all(proofs: Sequence[tuple[str, list[Any]] | None]) -> tuple[str, list[Any]] | None:
    if any(each is None for each in proofs):
        return None
    found = [each for each in proofs if each is not None]
    return (
        (f"({' AND '.join(text for text, _ in found)})", [v for _, vs in found for v in vs]) if found else ("true", [])
    )


class _Side:
    """Where a literal lies beside two bounds of a column that are stored as text."""

    def __init__(self, column: Column, low: str, high: str, is_exact: bool) -> None:
        self.column = column
        self.low = low
        self.high = high
        self.is_exact = is_exact

    def below(self, literal: Scalar, *, or_equal: bool = False) -> tuple[str, list[Any]] | None:
        """The literal is below (or at) the lower bound."""
        text = self._literal(literal)
        return None if text is None else (self._compared(self.low, ">=" if or_equal else ">"), [text])

    def above(self, literal: Scalar, *, or_equal: bool = False) -> tuple[str, list[Any]] | None:
        """The literal is above (or at) the upper bound, which must not be the beginning of a longer text."""
        text = self._literal(literal)
        if text is None:
            return None
        proof = self._compared(self.high, "<=" if or_equal else "<")
        parameters = [text]
        if self.is_exact:
            return proof, parameters
        if self.column.type.name in FLOATS:
            return f"(s.contains_nan IS FALSE AND {proof})", parameters
        if self.column.type.name == "varchar":
            uncut = f"(octet_length({self.high}) < {_CUT_LENGTH_MIN} OR NOT starts_with(%s, {self.high}))"
            return f"({proof} AND {uncut})", [*parameters, text]
        return proof, parameters

    def _compared(self, bound: str, operator: str) -> str:
        name = self.column.type.name
        if name in INTEGER_BITS or name in FLOATS or name == "decimal":
            return f"(CASE WHEN {bound} ~ '{_NUMBER}' THEN {bound}::numeric {operator} %s::numeric ELSE false END)"
        if name == "boolean":
            return f"({bound} IN ('true', 'false') AND ({bound} = 'true') {operator} (%s = 'true'))"
        shaped = "" if name == "varchar" else f"{bound} ~ '{_DAY}' AND "
        return f'({shaped}{bound} COLLATE "C" {operator} %s COLLATE "C")'

    def _literal(self, value: Scalar) -> str | None:
        """The literal as DuckLake writes a bound; None when it proves nothing."""
        data_type = self.column.type
        name = data_type.name
        numeric = name in INTEGER_BITS or name in FLOATS or name == "decimal"
        if value is None or not (numeric or name in _AS_TEXT or name == "boolean"):
            return None
        if isinstance(value, bool) != (name == "boolean"):
            return None
        if numeric and not isinstance(value, str):
            return str(value) if value == value and abs(value) != float("inf") else None
        try:
            return value_text(data_type, canonical_value(data_type, value))
        except ValueError:
            return None
