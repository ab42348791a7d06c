"""Which files a filter rules out, decided in SQL by the catalog's statistics and partition values.

Only proofs count: a file stays unless a bound, a count or a partition value shows that none of its rows matches. It is the
same reading of statistics as that of SERIALIZABLE reads (rules.md 12.14, 12.24), on what DuckLake stores as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from operator import itemgetter
from typing import Any, LiteralString, TypeAlias

from psycopg import sql

from commitlog.domain.deciding.proofs import CUT_LENGTH_MIN, Readings, has_zone, is_vacuous, readings
from commitlog.domain.model import FilterOp, Predicate, Scalar
from commitlog.domain.model.buckets import bucket_of
from commitlog.domain.model.definitions import Column, TableDefinition
from commitlog.domain.model.typed_values import SECOND_DIGITS, canonical_value, value_text
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
Runs: TypeAlias = "list[tuple[Scalar, Scalar]]"
"""Of each run of values the one that may be read as the least of them, and as the greatest; None proves nothing."""

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
        runs = _runs(column, predicate.value) if isinstance(predicate.value, tuple) else []
        proofs = (_by_statistics(column, predicate, runs), _by_partition(column, predicate, runs))
        for text, values in (*proofs, *_by_buckets(definition, column, predicate)):
            parts.append(_NONE_SUCH.format(text))
            parameters += values
    return sql.Composed(parts), parameters


def _by_statistics(column: Column, predicate: Predicate, runs: Runs) -> Proof:
    is_null = predicate.op is FilterOp.IS_NULL
    counted = sql.SQL("s.null_count = 0" if is_null else "s.value_count = 0 OR s.null_count = f.record_count")
    outside = _outside(column, predicate, runs, sql.SQL("s.min_value"), sql.SQL("s.max_value"), is_exact=False)
    text, bounds = _either((counted, []), outside)
    return _BY_STATISTICS.format(text), [column.column_id, *bounds]


def _by_partition(column: Column, predicate: Predicate, runs: Runs) -> Proof:
    """A value that stands alone: a file from before its table had buckets got the value of each beside its own."""
    value = sql.SQL("v.partition_value")
    nulls = sql.SQL("{} IS NOT NULL" if predicate.op is FilterOp.IS_NULL else "{} IS NULL").format(value)
    text, bounds = _either((nulls, []), _outside(column, predicate, runs, value, value, is_exact=True))
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
    column: Column, predicate: Predicate, runs: Runs, low: sql.Composable, high: sql.Composable, *, is_exact: bool
) -> Proof | None:
    """SQL that proves that no value between two bounds satisfies the predicate; None when nothing could.

    ``runs``: the values of an IN, see `_runs`."""
    op, value = predicate.op, predicate.value
    side = _Side(column, low, high, is_exact)
    below, above = side.below, side.above
    match op:
        case FilterOp.IS_NULL | FilterOp.IS_NOT_NULL:
            return None
        case FilterOp.IN:
            return _all([_any([below(last), above(first)]) for first, last in runs])
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

    def below(self, literal: Scalar, *, or_equal: bool = False) -> Proof | None:
        """The literal is below (or at) the lower bound."""
        text = _literal(self.column.type, literal, is_least=False)
        return None if text is None else (self._compared(self.low, ">=" if or_equal else ">"), [text])

    def above(self, literal: Scalar, *, or_equal: bool = False) -> Proof | None:
        """The literal is above (or at) the upper bound, which must not be the beginning of a longer text."""
        text = _literal(self.column.type, literal, is_least=True)
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


def _runs(column: Column, values: Sequence[Scalar]) -> Runs:
    """Values one by one, each a run of its own; of many, some runs that hold all of them."""
    if len(values) <= _RUNS_MAX:
        return [(each, each) for each in values]
    ordered: list[tuple[Any, Any, Scalar]] = []
    for each in values:
        least, greatest = _literal(column.type, each, is_least=True), _literal(column.type, each, is_least=False)
        if least is None or greatest is None:
            return [(None, None)]  # It proves nothing, and so do all of them.
        ordered.append((_order(column.type, least), _order(column.type, greatest), each))
    ordered.sort(key=itemgetter(0))
    size = -(-len(ordered) // _RUNS_MAX)
    runs = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    # Whose least reading is below another's may have the greater one all the same.
    return [(run[0][2], max(run, key=itemgetter(1))[2]) for run in runs]


def _order(data_type: ColumnType, literal: str) -> Any:
    """What sorts literals as they are compared: as numbers or as text."""
    return Decimal(literal) if data_type.name in _AS_NUMBERS else literal


def _literal(data_type: ColumnType, value: Scalar, *, is_least: bool) -> str | None:
    """The literal as DuckLake writes a bound, as its least or greatest reading; None when it proves nothing."""
    name = data_type.name
    if value is None or not (name in _AS_NUMBERS or name in _AS_TEXT or name == "boolean"):
        return None
    if isinstance(value, bool) != (name == "boolean"):
        return None
    if name == "timestamptz" and not has_zone(value):
        # Whose zone is meant, the reader says who looks at the rows.
        return None
    try:
        if name in FLOATS:
            # A filter's decimals are texts, which engines read as the column's type or as a double.
            number = float(value) if isinstance(value, str) else value
            return _number_text(readings(data_type, number), is_least=is_least)
        if name == "decimal" or (name in _AS_NUMBERS and not isinstance(value, str)):
            return _number_text(readings(data_type, value), is_least=is_least)
        if name in SECOND_DIGITS:
            found = readings(data_type, value)
            return None if found is None else value_text(data_type, found.least if is_least else found.greatest)
        text = value_text(data_type, canonical_value(data_type, value))
    except (OverflowError, ValueError):
        return None
    # PostgreSQL takes no text with NUL.
    return None if "\0" in text else text


def _number_text(found: Readings | None, *, is_least: bool) -> str | None:
    if found is None or float("inf") in (found.greatest, -found.least):  # type: ignore[operator]
        return None
    return str(found.least if is_least else found.greatest)
