"""Filters as programs give them: tuples, and the same as a text."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from operator import eq, ge, gt, le, lt, ne
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import commitlog
from commitlog.client.reading import file_rows
from commitlog.client.reading.matching import Condition
from commitlog.client.tables.arrow_schemas import arrow_type
from commitlog.client.tables.filters import Excluded, conditions, predicates
from commitlog.client.tables.stored_rows import stored_rows
from commitlog.domain.model import FilterOp, Predicate
from commitlog.domain.model.definitions import Column
from commitlog.domain.model.typed_values import canonical_value
from commitlog.domain.model.types import parse_type
from commitlog.errors import InvalidRequestError
from commitlog.testing import InMemoryCommitLog

pytestmark = pytest.mark.no_cover


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("day >= '2026-01-01' and id in (1, 2)", [("day", ">=", "2026-01-01"), ("id", "in", [1, 2])]),
        ("a=1", [("a", "=", 1)]),
        ("a == -1 AND b < .5", [("a", "=", -1), ("b", "<", "0.5")]),
        ("(a = 1 and (b <= 2)) and c > 3", [("a", "=", 1), ("b", "<=", 2), ("c", ">", 3)]),
        ("a between 1 and 2 and b is null", [("a", "between", [1, 2]), ("b", "is_null")]),
        ("a IS NOT NULL", [("a", "is_not_null")]),
        ("a = TRUE and b = false", [("a", "=", True), ("b", "=", False)]),
        ("a = 'it''s'", [("a", "=", "it's")]),
        ('"odd ""name" = 1', [('odd "name', "=", 1)]),
        ("`odd name` = 1", [("odd name", "=", 1)]),
        ("d = date '2026-01-01' and t = TIMESTAMP '2026-01-01 00:00:00'",
         [("d", "=", "2026-01-01"), ("t", "=", "2026-01-01 00:00:00")]),
        ("größe = 1", [("größe", "=", 1)]),
        ("a = 12345678901234567890", [("a", "=", "12345678901234567890")]),
        ("a = 1.10", [("a", "=", "1.10")]),
        ("(" * 5_000 + "a = 1" + ")" * 4_999 + " and b = 2)", [("a", "=", 1), ("b", "=", 2)]),
    ],
)  # fmt: skip
def test_predicates_when_a_text_says_the_same_as_tuples_then_the_same(text: str, same: Any) -> None:
    assert predicates(text) == predicates(same)


def test_predicates_when_one_is_given_alone_then_it_is_the_filter() -> None:
    one = (Predicate("day", FilterOp.EQ, 3),)
    assert predicates(("day", "=", 3)) == predicates([("day", "=", 3)]) == predicates(one[0]) == predicates(one) == one
    assert predicates(("day", "==", 3)) == one
    assert predicates(("day", "IN", [3])) == predicates("day in (3)")
    assert predicates(("day", "is_null")) == predicates(("day", "IS  NULL")) == (Predicate("day", FilterOp.IS_NULL),)
    assert predicates(("day", "is not null")) == (Predicate("day", FilterOp.IS_NOT_NULL),)
    assert predicates(None) == predicates([]) == ()


def test_predicates_when_one_is_made_by_a_program_then_its_op_is_the_logs_own() -> None:
    assert predicates(commitlog.Predicate("day", commitlog.FilterOp.IN, (3, 4))) == predicates("day in (3, 4)")
    # Compiled records take nothing else to begin with.
    with pytest.raises((InvalidRequestError, TypeError), match="FilterOp"):
        predicates(commitlog.Predicate("day", "in", (3, 4)))  # type: ignore[arg-type]


def test_conditions_when_they_exclude_then_what_the_log_is_told_lets_more_through() -> None:
    [first, second] = found = conditions("a != 1 and b NOT IN ('x', 'y')")
    assert found == (Excluded("a", (1,)), Excluded("b", ("x", "y")))
    assert conditions([("a", "<>", 1), ("b", "not  in", ["x", "y"])]) == found == conditions(found)
    assert isinstance(first, Excluded)
    assert isinstance(second, Excluded)
    assert [first.known, second.known] == [Predicate(each, FilterOp.IS_NOT_NULL) for each in "ab"]


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("", "the filter is an empty text"),
        ("   ", "the filter is an empty text"),
        ("a = 1 or b = 2", r"position 7: expected AND, or the end, found 'or'; a filter is conditions that all hold"),
        ("a != 1", r"'a != 1' has != or NOT IN, which only scans take"),
        ("b = 2 and a not in (1)", "which only scans take"),
        ("a not like 'x'", r"position 7: expected IN, found 'like'; a filter is conditions that all hold"),
        ("a not in 1", r"position 10: expected '\('"),
        ("a in ()", r"position 7: expected a number, a text in single quotes, TRUE or FALSE, found '\)'"),
        ("(a = 1 and (b = 2)", r"position 19: expected '\)', it ends there"),
        ("(a = 1 b", r"position 8: expected '\)', found 'b'"),
        ("a = 1)", r"position 6: expected AND, or the end, found '\)'"),
        ("a = " + "9" * 5_000, r"position 5: expected a number that a column can have"),
        ("a = 1e" + "9" * 30, r"position 5: expected a number that a column can have"),
        ("a = 1e5000000", "a number has more than 4000 digits"),
        (("a", "=", 10**5_000), "a number has more than 4000 digits"),
        (("a", "in", [Decimal("1e-999999")]), "a number has more than 4000 digits"),
        ("a in (1", r"position 8: expected '\)', it ends there"),
        ("a = 'x", r"position 5: .*found \"'\""),
        ("5 = a", r"position 1: expected the name of a column, found '5'"),
        ("a = b", r"position 5: expected a number, a text in single quotes"),
        ("a = null", r"position 5: expected a value; write IS NULL or IS NOT NULL"),
        ("a between 1", r"position 12: expected AND and the upper bound, it ends there"),
        ("a = 1 b", r"position 7: expected AND, or the end, found 'b'"),
        ("a = 1;", r"position 6: .*found ';'"),
        ("a is 5", r"position 6: expected NULL, found '5'"),
        ("a = 1 and", r"position 10: expected the name of a column, it ends there"),
        ("a = 1abc", r"position 5: "),
        ("a = date 5", r"position 10: expected a text in quotes"),
        (
            ("day", "~", 3),
            r"\('day', '~', 3\) is no filter: write \(column, op, value\) with an op of .*is_not_null, !=, not in$",
        ),
        (("day", "!=", 3), "which only scans take"),
        (("day", "NOT IN", 3), "takes a list of values, not 3"),
        (("day", "=", np.array([3, 4])), "holds no ndarray"),
        (("day", "like", "x"), "an op of .*, !=, not in; a filter is conditions that all hold"),
        (("day", ["="], 3), "is no filter"),
        ('a = "x"', r"position 5: .*found '\"x\"'; double quotes are for names of columns: write 'x'"),
        ("p.x = 1", r"position 2: .*found '\.'; a filter names whole columns"),
        (("day",), "filter must be a list of"),
        (("day", "=", 3, 4), "is no filter"),
        (7, "filter must be a list of"),
        ({"day": 3}, "filter"),
    ],
)
def test_predicates_when_it_is_no_filter_then_says_what_is_wrong_and_where(where: Any, says: str) -> None:
    with pytest.raises(InvalidRequestError, match=says):
        predicates(where)


@pytest.mark.parametrize(
    ("kind", "values", "asked"),
    [
        ("int64", [1, 2, None, -(2**63), 2**63 - 1], [1, None, -(2**63)]),
        ("uint64", [1, 2**64 - 1, None], [str(2**64 - 1)]),
        ("int128", [Decimal(1), Decimal(2**100), None], [str(2**100)]),
        ("float64", [0.0, -0.0, 1.5, float("nan"), float("inf"), None], [-0.0, float("nan")]),
        ("float64", [0.0, -0.0, 1.5, float("nan"), None], [0, 1.5]),
        ("float32", [0.5, 0.10000000149011612, None], [0.1]),
        ("decimal(9,2)", [Decimal("1.50"), Decimal("2.00"), None], ["1.5", 2]),
        ("boolean", [True, False, None], [True]),
        ("varchar", ["", "a", "Ü", None], ["", "Ü"]),
        ("uuid", [str(UUID(int=7)), str(UUID(int=8)), None], [str(UUID(int=7)).upper()]),
        ("blob", [b"", b"\0z", None], ["\\x00z"]),
        ("date", [date(2024, 2, 29), date(2024, 3, 1), None], ["2024-02-29"]),
        ("time", [time(1, 2, 3), time(1, 2, 4), None], ["01:02:03", "01:02:04.000000001"]),
        ("timestamp", [datetime(2024, 1, 1), datetime(2024, 1, 2), None],
         ["2024-01-01 00:00:00", "2024-01-02 00:00:00.000000001"]),
        ("timestamptz", [datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC)], ["2024-01-01 02:00:00+02"]),
    ],
)  # fmt: skip
def test_condition_when_it_lists_many_values_then_the_same_rows_as_one_by_one(
    kind: str, values: list[Any], asked: list[Any]
) -> None:
    column = Column(1, "x", parse_type(kind))
    rows = pa.table({"x": pa.array(values, arrow_type(column)), "at": range(len(values))})
    for several in (Predicate("x", FilterOp.IN, tuple(asked)), Excluded("x", tuple(asked))):
        many = tuple(asked) * 10_000
        longer = Excluded("x", many) if isinstance(several, Excluded) else Predicate("x", FilterOp.IN, many)
        one_by_one, together = (
            rows.filter(Condition(each, column).on(pc.field("x")))["at"] for each in (several, longer)
        )
        assert together.to_pylist() == one_by_one.to_pylist()


def test_condition_when_it_is_asked_of_many_files_then_its_values_are_made_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    condition = Condition(Predicate("x", FilterOp.IN, tuple(range(100))), Column(1, "x", parse_type("int64")))
    first = condition.on(pc.field("x"))
    monkeypatch.setattr(Condition, "_scalar", None)
    assert condition.on(pc.field("x")).equals(first)


@pytest.mark.parametrize(
    ("kind", "texts", "finer"),
    [
        ("timestamp", ["0001-01-01 00:00:00", "2024-01-01 00:00:00.000001", "9999-12-31 23:59:59.999999"], ".0000015"),
        (
            "timestamptz",
            ["1969-12-31 23:59:59+00", "2024-01-01 00:00:00+00", "9999-12-31 00:00:00+00"],
            ".000000001+00",
        ),
        ("timestamp_ms", ["0001-01-01 00:00:00", "2024-01-01 00:00:00.001", "9999-12-31 23:59:59.999"], ".0019999"),
        ("timestamp_s", ["1969-12-31 23:59:59", "2024-01-01 00:00:00", "9999-12-31 23:59:59"], ".5"),
        ("time", ["00:00:00", "12:00:00.000001", "23:59:59.999999"], ".000001999"),
    ],
)
def test_scan_when_a_time_is_finer_than_the_column_then_it_lies_between_two_of_its_values(
    kind: str, texts: list[str], finer: str, tmp_path: Path
) -> None:
    log, column = InMemoryCommitLog(data_path=tmp_path), Column(1, "x", parse_type(kind))
    with log.transaction() as tx:
        tx.create_table("t", {"id": "int64", "x": kind})
    values = stored_rows([column], [{1: each} for each in (*texts, None)])["x"]
    rows = pa.table({"id": range(len(values)), "x": values})
    for some in (rows, *(rows.slice(at, 1) for at in range(len(values)))):
        log.append("t", some)
    moments: list[Any] = [canonical_value(column.type, each) for each in texts]

    def ids(op: str, value: object) -> list[int]:
        found: list[int] = log.table("t").scan(where=[("x", op, value)]).to_arrow()["id"].to_pylist()
        return sorted(found)

    def those(holds: Callable[[Any], bool]) -> list[int]:
        return sorted([at for at, each in enumerate(moments) if holds(each)] * 2)

    for text in texts:
        asked = text.removesuffix("+00").partition(".")[0] + finer
        given: Any = canonical_value(column.type, asked)
        for op, compared in (("<", lt), ("<=", le), (">", gt), (">=", ge), ("=", eq), ("!=", ne)):
            assert ids(op, asked) == those(lambda each, compared=compared, given=given: compared(each, given)), (
                op,
                asked,
            )
        assert ids("in", [asked] * 20) == []
        assert ids("not in", [asked] * 20) == those(lambda _: True)
        assert ids("between", [asked, texts[-1]]) == ids(">", asked)
        assert ids("between", [texts[0], asked]) == ids("<", asked)


@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_scan_when_floats_are_filtered_then_the_same_rows_as_one_by_one_and_not_every_row_group_is_read(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nan, inf = float("nan"), float("inf")
    groups = [
        [1.0, nan, 1.0], [nan, nan, nan], [None, None, 2.0], [None, None, None], [0.0, -0.0, nan], [-0.0, -0.0, -0.0],
        [5.5, 6.5, nan], [-inf, inf, 0.5], [7.5, 7.5, 7.5],
    ]  # fmt: skip
    values = [each for group in groups for each in group]
    rows = pa.table(
        {"id": range(len(values)), "x": pa.array(values, pa.float64() if kind == "float64" else pa.float32())}
    )
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=3)
    log = InMemoryCommitLog(data_path=tmp_path / "lake")
    log.append("main.t", files=[tmp_path / "rows.parquet"], create=True)
    read, shaped = [], file_rows._Sources.shaped

    def counted(sources: Any, batch: pa.RecordBatch) -> pa.RecordBatch:
        read.append(batch.num_rows)
        return shaped(sources, batch)

    monkeypatch.setattr(file_rows._Sources, "shaped", counted)
    column = Column(1, "x", parse_type(kind))
    asked = [
        *(
            ("x", op, value)
            for op in ("=", "!=", "<", "<=", ">", ">=")
            for value in (0.0, 1.0, 5.5, 7.5, inf, -inf, nan)
        ),
        *(("x", "between", span) for span in ([0, 1], [5.5, 6.4], [1.0, nan], [nan, nan])),
        *(("x", "in", some) for some in ([1.0, 9.0], [-0.0], [nan, 7.5], [*map(float, range(40))])),
        ("x", "is_null"),
        ("x", "is_not_null"),
    ]
    for each in asked:
        [condition] = conditions([each])
        expected = rows.filter(Condition(condition, column).on(pc.field("x")))["id"].to_pylist()
        assert log.table("main.t").scan(where=[each]).to_arrow()["id"].to_pylist() == expected, each
    read.clear()
    assert log.table("main.t").scan(where="x between 5.6 and 7.0").to_arrow()["id"].to_pylist() == [19]
    assert sum(read) <= 6 + 3, "of the groups of 5.5 and of infinity"
