"""Canonical keys and the columns that they are of."""

from __future__ import annotations

import pytest

from commitlog.domain import model as m
from commitlog.domain.model.defining import define
from commitlog.domain.state.row_keys import given_key, key_columns, shown_key


@pytest.mark.parametrize(
    ("types", "key"),
    [
        (["int64"], {"a": -7}),
        (["int128"], {"a": "9223372036854775808"}),
        (["boolean", "varchar"], {"a": True, "b": "one, two"}),
        (["boolean", "date"], {"a": False, "b": "2026-03-02"}),
    ],
)
def test_key_columns_then_as_a_change_names_the_key(types: list[str], key: dict[str, m.RowValue]) -> None:
    columns = tuple(m.ColumnSpec(name, type, nullable=False) for name, type in zip("ab", types, strict=False))
    create = m.CreateTable("main", "t", columns, primary_key=tuple(each.name for each in columns))
    table = define(create, table_id=1, schema_id=0, partition_id=None)
    assert key_columns(table, given_key(table, key)) == key


def test_shown_key_then_no_two_keys_look_the_same() -> None:
    columns = tuple(m.ColumnSpec(name, "varchar", nullable=False) for name in "ab")
    table = define(
        m.CreateTable("main", "t", columns, primary_key=("a", "b")), table_id=1, schema_id=0, partition_id=None
    )
    texts = ["", "a", " a", "a ", ", ", "a, ", ", a", "a, a", '"', '"a', 'a"', '"a"', '", "', 'a", "a', '"a, a"']
    keys = {given_key(table, {"a": one, "b": other}) for one in texts for other in texts}
    assert len({shown_key(key) for key in keys}) == len(keys) == len(texts) ** 2
    assert shown_key(given_key(table, {"a": "one", "b": "two"})) == "one, two"
    assert shown_key(given_key(table, {"a": "one, two", "b": "x"})) == '"one, two", x'
