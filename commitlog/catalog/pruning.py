"""Which files a filter rules out, decided in SQL by the catalog's statistics and partition values.

Only proofs count: a file stays unless a bound, a count or a partition value shows that none of its rows matches. It is the
same reading of statistics as that of SERIALIZABLE reads (rules.md 12.14, 12.24), on what DuckLake stores as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, LiteralString, TypeAlias

from psycopg import sql

from commitlog.domain.deciding.proofs import (
    CUT_LENGTH_MIN,
    Comparable,
    Readings,
    has_zone,
    is_vacuous,
    readings_together,
)
from commitlog.domain.model import FilterOp, Predicate, Scalar
from commitlog.domain.model.buckets import bucket_of
from commitlog.domain.model.definitions import Column, TableDefinition
from commitlog.domain.model.typed_values import canonical_value, value_text
from commitlog.domain.model.types import FLOATS, INTEGER_BITS, ColumnType

_NUMBER = r"^-?\d+(\.\d+)?([eE][-+]?\d+)?$"
_DAY = r"^\d{4}-\d{2}-\d{2}"
_MOMENT = r"^\d{4}-\d{2}-\d{2} .*\d\+00$"
"""A moment as the log's writers store it; other clients store those of their own zone, which do not sort as text."""
_AS_NUMBERS = frozenset({*INTEGER_BITS, *FLOATS, "decimal"})
_AS_TEXT = frozenset({"varchar", "date", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamptz"})
_RUNS_MAX = 256
"""PostgreSQL takes 65,535 parameters, and each of these is compared with the bounds of each file."""
Proof: TypeAlias = "tuple[sql.Composable, list[Any]]"
"""A condition, and its parameters."""
Read: TypeAlias = "Sequence[Readings | None]"
"""The values of a predicate as readers compare them; None proves nothing. Of a long list each stands for a run of values."""

_NONE_SUCH = sql.SQL(" AND NOT EXISTS ({})")
_BY_STATISTICS = sql.SQL("""
    SELECT 1 FROM ducklake_file_column_stats s WHERE s.data_file_id = f.data_file_id AND s.column_id = %s AND ({})""")
_BY_PARTITION = sql.SQL("""
    SELECT 1 FROM ducklake_partition_column p JOIN ducklake_file_partition_value v
        ON v.data_file_id = f.data_file_id AND v.table_id = f.table_id AND v.partition_key_index = p.partition_key_index
    WHERE p.partition_id = f.partition_id AND p.transform = %s AND p.column_id = %s
    AND NOT EXISTS (SELECT 1 FROM ducklake_file_partition_value o WHERE o.data_file_id = v.data_file_id
        AND o.partition_key_index = v.partition_key_index AND o.partition_value IS DISTINCT FROM v.partition_value)
    AND ({})""")
_OF_NO_BUCKET = sql.SQL("v.partition_value IS NULL OR v.partition_value <> ALL(%s)")
_AS_NUMBER = sql.SQL("(CASE WHEN {bound} ~ {form} THEN {bound}::numeric {operator} %s::numeric ELSE false END)")
_AS_FLOAT32 = sql.SQL("""
    (CASE WHEN {bound} ~ {form} AND ({bound}::numeric = 0 OR abs({bound}::numeric) BETWEEN 1e-37 AND 3e38)
        THEN {bound}::float4::float8 {operator} %s::float8 ELSE false END)""")
"""A bound that is written short stands for the value that is nearest to it."""
_AS_BOOLEAN = sql.SQL("({bound} IN ('true', 'false') AND ({bound} = 'true') {operator} (%s = 'true'))")
_OF_TEXT = sql.SQL('({bound} COLLATE "C" {operator} %s COLLATE "C")')
_OF_DAY = sql.SQL("({bound} ~ {form} AND {compared})")
_UNCUT = sql.SQL("({proof} AND (octet_length({bound}) < {length} OR NOT starts_with(%s, {bound})))")


def exclusions(definition: TableDefinition, where: Iterable[Predicate]) -> tuple[sql.Composable, list[Any]]:
    """SQL conditions, each with AND before it, that the files ``f`` meet which may hold rows of the conjunction.

    The second value is their parameters.

    Raises:
        InvalidChangeError: the table has not one of the columns.
    """
    parts: list[sql.Composable] = []
    parameters: list[Any] = []
    for predicate in where:
        column = definition.column(predicate.column)
        if is_vacuous(column.type, predicate):
            return sql.SQL(" AND false"), []
        read = _read(column.type, predicate)
        proofs = (_by_statistics(column, predicate.op, read), _by_partition(column, predicate.op, read))
        for text, values in (*proofs, *_by_buckets(definition, column, predicate)):
            parts.append(_NONE_SUCH.format(text))
            parameters += values
    return sql.Composed(parts), parameters


def _by_statistics(column: Column, op: FilterOp, read: Read) -> Proof:
    counted = sql.SQL(
        "s.null_count = 0" if op is FilterOp.IS_NULL else "s.value_count = 0 OR s.null_count = f.record_count"
    )
    outside = _outside(column, op, read, sql.SQL("s.min_value"), sql.SQL("s.max_value"), is_exact=False)
    text, bounds = _either((counted, []), outside)
    return _BY_STATISTICS.format(text), [column.column_id, *bounds]


def _by_partition(column: Column, op: FilterOp, read: Read) -> Proof:
    """A value that stands alone: a file from before its table had buckets got the value of each beside its own.

    A float's proves nothing but that it is no NULL: 0.1 of a float32 is another value once the column is a float64.
    """
    value = sql.SQL("v.partition_value")
    nulls = sql.SQL("{} IS NOT NULL" if op is FilterOp.IS_NULL else "{} IS NULL").format(value)
    outside = None if column.type.name in FLOATS else _outside(column, op, read, value, value, is_exact=True)
    text, bounds = _either((nulls, []), outside)
    return _BY_PARTITION.format(text), ["identity", column.column_id, *bounds]


def _by_buckets(definition: TableDefinition, column: Column, predicate: Predicate) -> Iterator[Proof]:
    """Rows with a value that is asked for are in its bucket: none of them is in the files of another."""
    asked = predicate.value if isinstance(predicate.value, tuple) else (predicate.value,)
    is_zoned = column.type.name == "timestamptz"
    if predicate.op not in (FilterOp.EQ, FilterOp.IN) or (is_zoned and not all(map(has_zone, asked))):
        return
    for key in definition.partition_by:
        if key.column_id == column.column_id and key.buckets is not None:
            found = {bucket_of(column.type, each, key.buckets) for each in asked}
            if None not in found:
                yield _BY_PARTITION.format(_OF_NO_BUCKET), [key.transform, column.column_id, [*map(str, found)]]


def _outside(
    column: Column, op: FilterOp, read: Read, low: sql.Composable, high: sql.Composable, *, is_exact: bool
) -> Proof | None:
    """SQL that proves that no value between two bounds satisfies the predicate; None when nothing could."""
    side = _Side(column, low, high, is_exact)
    below, above = side.below, side.above
    match op:
        case FilterOp.IS_NULL | FilterOp.IS_NOT_NULL:
            return None
        case FilterOp.IN:
            return _all([_any([below(each), above(each)]) for each in read])
        case FilterOp.BETWEEN:
            first, last = read
            return _any([below(last), above(first)])
    (value,) = read
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


def _either(one: Proof, other: Proof | None) -> Proof:
    return one if other is None else _joined(" OR ", [one, other])


def _any(proofs: Sequence[Proof | None]) -> Proof | None:
    found = [each for each in proofs if each is not None]
    return _joined(" OR ", found) if found else None


def _all(proofs: Sequence[Proof | None]) -> Proof | None:
    found = [each for each in proofs if each is not None]
    if len(found) < len(proofs):
        return None
    return _joined(" AND ", found) if found else (sql.SQL("true"), [])


def _joined(word: LiteralString, proofs: Sequence[Proof]) -> Proof:
    text = sql.SQL("({})").format(sql.SQL(word).join(text for text, _ in proofs))
    return text, [value for _, values in proofs for value in values]


class _Side:
    """Where a literal lies beside two bounds of a column that are stored as text."""

    def __init__(self, column: Column, low: sql.Composable, high: sql.Composable, is_exact: bool) -> None:
        self.column = column
        self.low = low
        self.high = high
        self.is_exact = is_exact

    def below(self, literal: Readings | None, *, or_equal: bool = False) -> Proof | None:
        """The literal is below (or at) the lower bound."""
        text = None if literal is None else _text(self.column.type, literal.greatest)
        return None if text is None else (self._compared(self.low, ">=" if or_equal else ">"), [text])

    def above(self, literal: Readings | None, *, or_equal: bool = False) -> Proof | None:
        """The literal is above (or at) the upper bound, which must not be the beginning of a longer text."""
        text = None if literal is None else _text(self.column.type, literal.least)
        if text is None:
            return None
        proof = self._compared(self.high, "<=" if or_equal else "<")
        parameters = [text]
        if self.is_exact:
            return proof, parameters
        if self.column.type.name in FLOATS:
            return sql.SQL("(s.contains_nan IS FALSE AND {})").format(proof), parameters
        if self.column.type.name == "varchar":
            return _UNCUT.format(proof=proof, bound=self.high, length=CUT_LENGTH_MIN), [*parameters, text]
        return proof, parameters

    def _compared(self, bound: sql.Composable, operator: LiteralString) -> sql.Composable:
        name = self.column.type.name
        if name == "float32":
            return _AS_FLOAT32.format(bound=bound, form=_NUMBER, operator=sql.SQL(operator))
        if name in _AS_NUMBERS:
            return _AS_NUMBER.format(bound=bound, form=_NUMBER, operator=sql.SQL(operator))
        if name == "boolean":
            return _AS_BOOLEAN.format(bound=bound, operator=sql.SQL(operator))
        as_text = _OF_TEXT.format(bound=bound, operator=sql.SQL(operator))
        form = _MOMENT if name == "timestamptz" else _DAY
        return as_text if name == "varchar" else _OF_DAY.format(bound=bound, form=form, compared=as_text)


def _read(data_type: ColumnType, predicate: Predicate) -> Read:
    """A predicate's values, read together; of many, some runs that hold all of them."""
    given = predicate.value if isinstance(predicate.value, tuple) else (predicate.value,)
    try:
        found = readings_together(data_type, [_number(data_type, each) for each in given])
    except (OverflowError, TypeError):  # An integer that no float holds; compiled code calls it none.
        return [None] * len(given)
    if len(found) <= _RUNS_MAX:
        return found
    known = sorted([each for each in found if each is not None], key=attrgetter("least"))
    if len(known) < len(found):
        return [None]  # It proves nothing, and so do all of them.
    size = -(-len(known) // _RUNS_MAX)
    runs = [known[start : start + size] for start in range(0, len(known), size)]
    # Whose least reading is below another's may have the greater one all the same.
    return [Readings(run[0].least, max(run, key=attrgetter("greatest")).greatest) for run in runs]


def _number(data_type: ColumnType, value: Scalar) -> Any:
    """A number that a filter has as text, as engines read it; None for text that is none."""
    if not isinstance(value, str) or not (data_type.name in INTEGER_BITS or data_type.name in FLOATS):
        return value
    try:
        return canonical_value(data_type, value)
    except ValueError:
        return None


def _text(data_type: ColumnType, value: Comparable) -> str | None:
    """A reading as DuckLake writes a bound; None where SQL compares none such."""
    name = data_type.name
    if name in _AS_NUMBERS:
        return None if value in (float("inf"), float("-inf")) else str(value)
    if name not in _AS_TEXT and name != "boolean":
        return None
    try:
        text = value_text(data_type, value)
    except OverflowError:
        return None
    # PostgreSQL takes no text with NUL.
    return None if "\0" in text else text
