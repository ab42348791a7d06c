"""Texts inside nested values that DuckDB could not read from a row outside of files are refused, and the others are not."""

from __future__ import annotations

from typing import Any

import pytest
from deciding import DecidedLog, insert, keyed_table

from commitlog.domain.model.definitions import PartitionKey


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("list(varchar)", ["]["], None),
        ("list(list(varchar))", [["[x]", "}"], None], [["]["]]),
        ("list(struct(a varchar))", [{"a": "]{}"}], [{"a": "}{"}]),
        ("map(varchar, list(varchar))", {"]": ["[]"]}, {"a": ["]"]}),
        ("list(map(varchar, varchar))", [{"{}": "{x}"}], [{"}": "x"}]),
        ("list(map(varchar, int64))", [{"{": 1}], [{"}": 1}]),
        ("struct(l list(int64))", {"l": [1]}, None),
        ("list(json)", ["1", {"a": "]"}, None], None),
        ("list(struct(a json))", [{"a": {"b": "x"}}], [{"a": {"b": "}{}"}}]),
        ("list(list(json))", [["1", {"a": "}"}]], None),
        ("struct(a struct(b list(json)))", {"a": {"b": [1, "[]"]}}, {"a": {"b": ['"}"']}}),
        ('struct("a}b" int64)', {"a}b": 1}, None),
        ('list(struct("a{}b" int64))', [{"a{}b": 1}], None),
        ('list(struct("a}b" int64, c int64))', [None], [{"c": 1}]),
        ("list(struct(a blob))", [{"a": "x"}, {"a": None}], [{"a": "\\x7D"}]),
    ],
)
def test_text_in_nested_values_then_only_what_a_stock_reader_can_read(kind: str, good: Any, bad: Any) -> None:
    log = DecidedLog()
    columns = [{"name": "id", "type": "int64"}, {"name": "v", "type": kind}]
    log.commit({**keyed_table("k"), "columns": columns})
    log.commit(insert(id=1, v=good))
    if bad is not None:
        assert "nested twice" in str(log.refused("INVALID", insert(id=2, v=bad)).detail)


@pytest.mark.parametrize("inner", [5, True, 1.5, {"a": "x"}, ["x"]])
@pytest.mark.parametrize(("kind", "wrap"), [("{}", lambda v: v), ("list(struct(a {}))", lambda v: [{"a": v}])])
def test_a_variant_in_a_row_then_only_text_which_is_what_a_stock_reader_reads(kind: str, wrap: Any, inner: Any) -> None:
    log = DecidedLog()
    columns = [{"name": "id", "type": "int64"}, {"name": "v", "type": kind.format("variant")}]
    log.commit({**keyed_table("k"), "columns": columns})
    log.commit(insert(id=1, v=wrap("5")), insert(id=2, v=wrap(None)))
    assert "is no text" in str(log.refused("INVALID", insert(id=3, v=wrap(inner))).detail)


def test_buckets_then_the_number_that_the_transform_names() -> None:
    assert PartitionKey(1, "bucket(16)").buckets == 16
    assert PartitionKey(1, "identity").buckets is None
