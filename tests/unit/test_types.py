"""Column types and their values: what is one, what is none, and when two values are the same (rules.md 12.1, 12.15, 12.25)."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from commitlog.domain.model.typed_values import canonical_value, check_float_digits, check_json_type, value_text
from commitlog.domain.model.types import parse_type


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("int64", "int64"),
        ("INT64", "int64"),
        ("decimal(9, 2)", "decimal(9,2)"),
        ("int64[]", "list(int64)"),
        ("int64[][]", "list(list(int64))"),
        ("list<varchar>", "list(varchar)"),
        ("map(varchar, int64)", "map(varchar, int64)"),
        ("struct(a int64, b list(varchar))", "struct(a int64, b list(varchar))"),
        ("struct<a: int64, b: varchar>", "struct(a int64, b varchar)"),
        ('struct("a b" int64, "c""d" date[])', 'struct("a b" int64, "c""d" list(date))'),
    ],
)
def test_a_type_then_parsed_and_shown_in_one_form(text: str, parsed: str) -> None:
    assert str(parse_type(text)) == parsed
    assert parse_type(parsed) == parse_type(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "integer", "int64 %", "int64 int64", "int64)", "decimal", "decimal(9", "decimal(9;2)", "decimal(a,b)",
        "decimal(0,0)", "decimal(39,0)", "decimal(5,6)", "list", "list int64", "list(int64", "list(int64>",
        "list(int64, int64)", "map(int64)", "struct()", "struct((int64))", "struct(a int64", "struct(a, b)",
        'struct("" int64)', "struct(a int64, A varchar)", "list(" * 70 + "int64" + ")" * 70,
    ],
)  # fmt: skip
def test_a_text_that_is_no_type_then_an_error_that_shows_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"type|decimal|two fields"):
        parse_type(text)


@pytest.mark.parametrize(
    ("form", "levels"),
    [("list({})", 1), ("struct(a int64, b {}, c date)", 1), ("map(date, {})", 1), ("{}[]", 1), ("list({}[])", 2)],
)
def test_a_type_nested_deeper_than_64_then_none_in_whichever_way_it_is_written(form: str, levels: int) -> None:
    text = "int64"
    for _ in range(64 // levels):
        text = form.format(text)
    assert str(parse_type(text)).startswith(("list", "struct", "map"))
    for deeper in (form.format(text), f"{text}[]", f"struct(a date[], b {text})", "int64" + "[]" * 300_000):
        with pytest.raises(ValueError, match="nested more than 64 deep"):
            parse_type(deeper)


@pytest.mark.parametrize(
    ("kind", "value", "canonical"),
    [
        ("boolean", True, True),
        ("boolean", "true", True),
        ("boolean", "false", False),
        ("int8", -128, -128),
        ("uint64", str(2**64 - 1), 2**64 - 1),
        ("float64", "-Infinity", -math.inf),
        ("float64", "1.5e3", 1500.0),
        ("float64", 2, 2.0),
        ("float32", 0.5, 0.5),
        ("decimal(9,2)", "1.50", Decimal("1.5")),
        ("decimal(9,2)", 100, Decimal(100)),
        ("decimal(18,2)", 12345678901234.56, Decimal("12345678901234.56")),
        ("decimal(38,20)", 1.5, Decimal("1.5")),
        ("decimal(38,2)", 1e22, Decimal(10**22)),
        ("decimal(4,4)", 0, Decimal(0)),
        ("decimal(4,4)", "-0.00000", Decimal(0)),
        ("varchar", "x", "x"),
        ("uuid", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("date", "2024-01-31", date(2024, 1, 31)),
        ("time", "00:00:01.5", 1_500_000_000),
        ("timetz", "01:00:00+01", 0),
        ("timetz", "00:00:01Z", 1_000_000_000),
        ("timetz", "00:00:01", 1_000_000_000),
        ("timestamp", "1970-01-01", 0),
        ("timestamptz", "1970-01-01 01:00:00+01:00", 0),
        ("interval", "3 days 04:05:06", "3 days 04:05:06"),
        ("interval", " -1 year 2 MONS +3weeks ", "-1 year 2 MONS 3weeks"),
        (
            "interval",
            "1 week 2 days 3 hours 4 mins 5 secs 6 milliseconds 7 microseconds",
            "1 week 2 days 3 hours 4 mins 5 secs 6 milliseconds 7 microseconds",
        ),
        ("interval", "-12:30:00.25", "-12:30:00.25"),
        ("interval", "+1 day +04:05", "1 day 04:05"),
        ("json", {"a": [1, None]}, {"a": [1, None]}),
        ("json", '{"a": 1}', '{"a": 1}'),
        ("json", "[" * 200 + "]" * 200, "[" * 200 + "]" * 200),
        ("blob", "\\x61 ~\\xfF\\x5c", "a ~\\xFF\\x5C"),
        ("blob", "'\"\n", "\\x27\\x22\\x0A"),
        ("geometry", "POINT (1 2)", "POINT (1 2)"),
        ("variant", [1, "x"], [1, "x"]),
        ("struct(a int64, b varchar)", {"A": 1}, {"a": 1, "b": None}),
        ("list(date)", ["2024-01-31", None], [date(2024, 1, 31), None]),
        ("map(int64, boolean)", {"1": True}, {1: True}),
        ("int64", None, None),
    ],
)
def test_a_value_then_one_form_in_which_it_is_compared(kind: str, value: Any, canonical: object) -> None:
    assert canonical_value(parse_type(kind), value) == canonical


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        ("boolean", "yes", "is no boolean"),
        ("boolean", 1, "is no boolean"),
        ("int8", 128, "out of range"),
        ("int64", 1.5, "is no integer"),
        ("float64", "a lot", "is no number"),
        ("float64", True, "is no number"),
        ("float32", 1e39, "out of range"),
        ("decimal(9,2)", True, "is no decimal number"),
        ("decimal(9,2)", [1], "is no decimal number"),
        ("decimal(9,2)", "a lot", "is no decimal number"),
        ("decimal(9,2)", "0.001", "does not fit"),
        ("decimal(9,2)", "\u0661", "is no decimal number"),
        ("decimal(9,2)", "1_0", "is no decimal number"),
        ("decimal(9,2)", "1e99999999999999999999", "is no decimal number"),
        ("varchar", 5, "is no text"),
        ("uuid", "x", "is no uuid"),
        ("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1\u0661", "is no uuid"),
        ("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a_1", "is no uuid"),
        ("uuid", "+0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "is no uuid"),
        ("date", "31.1.2024", "is no date"),
        ("time", "noon", "is no time of the form"),
        ("time", "24:00:00", "is no time of day"),
        ("time", 43200, "is no time of the form 12:30:00"),
        ("time", "12:00:00+01", "names a time zone, which a column of its type does not hold: leave it out"),
        (
            "timestamp",
            "2024-01-31T12:00:00.5Z",
            "names a time zone, which a column of its type does not hold: leave it out",
        ),
        ("timestamp_s", "2024-01-31 noon-05", "is no time of the form 12:30:00"),
        ("timestamptz", 1706702400000, "is no time of the form 2024-01-31 12:30:00"),
        ("date", 19753, "is no date of the form 2024-01-31"),
        ("timetz", "01:00:00+16:00", "no time zone that there is"),
        ("timetz", "01:00:00+02:00Z", "names two time zones"),
        ("timetz", "2024-01-31Z", "is no time of the form 12:30:00"),
        ("timestamptz", "2024-01-31 12:30:00+02 -01:30", "names two time zones"),
        ("timestamptz", "0001-01-01 00:00:00+01", "not within the years"),
        ("timestamp_ns", "1677-09-21 23:59:59.999999999", "not within 1677-09-22 and"),
        ("timestamp_ns", "2262-04-11 23:47:16.854775807", "not within 1677-09-22 and"),
        ("interval", "soon", "is no interval"),
        ("interval", "", "is no interval"),
        ("interval", "3 days 04:60", "is no interval"),
        ("interval", "3 days soon", "is no interval"),
        ("interval", "3 day\u017f", "is no interval"),
        ("interval", "\u0663 days", "is no interval"),
        ("interval", "\u20033 days", "is no interval"),
        ("interval", "3 hours 04:05", "is no interval"),
        ("interval", "1 day 2 days", "gives its days twice"),
        ("interval", "999999999 years", "is out of range for interval"),
        ("interval", "306783379 weeks", "is out of range for interval"),
        ("json", "nope", "is no JSON text"),
        ("json", "[NaN]", "is no JSON text"),
        ("json", '"\\ud800"', "is no JSON text"),
        ("json", "[" * 100_000, "is no JSON text"),
        ("json", "[" * 201 + "]" * 201, "is no JSON text of at most 200 levels"),
        ("json", '{"a": ' * 940 + "1" + "}" * 940, "is no JSON text of at most 200 levels"),
        ("geometry", "x", "is no geometry"),
        ("blob", 1, "is no text"),
        ("blob", "\u00e9", "is no blob"),
        ("blob", "\\x6", "is no blob"),
        ("blob", "\\\\x41", "is no blob"),
        ("int64", "\u0663", "is no integer"),
        ("float64", "\u0663", "is no number"),
        ("date", "\u0662024-01-31", "is no date"),
        ("timetz", "\u0661\u0662:00", "is no time"),
        ("struct(a int64)", [1], "is no struct"),
        ("struct(a int64)", {"a": 1, "A": 2}, "one struct field twice"),
        ("struct(a int64)", {"b": 1}, "no struct field 'b'"),
        ("struct(a int64)", {"a": "x"}, "is no integer"),
        ("list(int64)", {"a": 1}, "is no list"),
        ("list(timestamp_ns)", ["9999-12-31"], "not within 1677-09-22 and"),
        ("map(varchar, int64)", [1], "is no map"),
        ("map(int64, int64)", {"x": 1}, "is no integer"),
        ("map(int64, varchar)", {"1": "a", "01": "b"}, "one map key twice"),
    ],
)
def test_a_value_of_another_type_then_an_error_that_says_so(kind: str, value: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        canonical_value(parse_type(kind), value)


@pytest.mark.parametrize(
    ("kind", "value", "possible"),
    [
        ("decimal(18,2)", 1234567890123456.78, False),
        ("decimal(18,2)", "1234567890123456.78", True),
        ("decimal(18,2)", 12345678901234.56, True),
        ("decimal(38,20)", 0.1, True),
        ("decimal(38,20)", 0.1 + 0.2, False),
        ("float64", 0.1 + 0.2, True),
        ("list(decimal(18,2))", [None, 1234567890123456.78], False),
        ("struct(a decimal(18,2), b varchar)", {"A": 1234567890123456.78}, False),
        ("map(varchar, decimal(18,2))", {"key": 1234567890123456.78}, False),
        ("map(varchar, decimal(18,2))", {"key": 1.5}, True),
        ("json", {"a": [1234567890123456.78]}, True),
    ],
)
def test_a_number_for_a_decimal_then_only_where_it_stands_for_one(kind: str, value: Any, possible: bool) -> None:
    if possible:
        check_float_digits(parse_type(kind), value)
    else:
        with pytest.raises(ValueError, match="has more digits than a float holds: give it as text"):
            check_float_digits(parse_type(kind), value)


@pytest.mark.parametrize(
    ("kind", "value", "possible"),
    [
        ("int64", "1", False),
        ("boolean", "true", False),
        ("float64", "1.5", False),
        ("float64", "NaN", True),
        ("uint64", "1", True),
        ("varchar", "1", True),
        ("int64", 1, True),
        ("json", {"a": ["1"]}, True),
        ("list(int64)", ["1"], False),
        ("list(int64)", [1, None], True),
        ("list(uint64)", ["1"], True),
        ("struct(a struct(b boolean), c varchar)", {"A": {"b": "true"}}, False),
        ("struct(a struct(b boolean), c varchar)", {"A": {"b": True}, "c": "true"}, True),
        ("map(int64, int64)", {"1": "1"}, False),
        ("map(int64, int64)", {"1": 1}, True),
    ],
)
def test_text_where_json_has_a_type_then_only_for_what_json_cannot_hold(kind: str, value: Any, possible: bool) -> None:
    if possible:
        check_json_type(parse_type(kind), value)
    else:
        with pytest.raises(ValueError, match="is text, not"):
            check_json_type(parse_type(kind), value)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("boolean", True, "true"),
        ("boolean", False, "false"),
        ("int64", 7, "7"),
        ("decimal(9,2)", "1.50", "1.5"),
        ("date", "2024-01-31", "2024-01-31"),
        ("time", "12:30", "12:30:00"),
        ("time", "12:30:00.250", "12:30:00.25"),
        ("timetz", "00:30:00+01", "23:30:00"),
        ("timestamp", "2024-01-31T12:30", "2024-01-31 12:30:00"),
        ("timestamp_ns", "2024-01-31 12:30:00.000000001", "2024-01-31 12:30:00.000000001"),
        ("timestamptz", "2024-01-31 12:30:00+01", "2024-01-31 11:30:00+00"),
        ("varchar", "x", "x"),
    ],
)
def test_a_canonical_value_then_its_text_as_keys_are_shown(kind: str, value: Any, text: str) -> None:
    parsed = parse_type(kind)
    assert value_text(parsed, canonical_value(parsed, value)) == text
