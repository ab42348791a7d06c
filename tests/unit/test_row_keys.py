"""Canonical keys and the columns that they are of."""

from __future__ import annotations

import pytest

from commitlog.domain import model as m
from commitlog.domain.model.defining import define
from commitlog.domain.state.row_keys import given_key, key_columns


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
