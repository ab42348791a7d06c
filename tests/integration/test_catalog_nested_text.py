"""Text inside nested values of rows that stand outside of files: what DuckDB cannot read back is INVALID, and no more."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pytest
from deciding import DecidedLog, change, create_table

from commitlog.catalog.projecting.row_values import literal
from commitlog.domain.model import ColumnSpec, CreateTable
from commitlog.domain.model.defining import define
from commitlog.domain.model.row_images import complete_row
from commitlog.domain.model.types import ColumnType, parse_type
from commitlog.errors import InvalidChangeError

ALPHABET = "[]{}()'\"\\,=: ab"


def sql_type(kind: ColumnType) -> str:
    inner = [sql_type(inner) for _, inner in kind.fields]
    match kind.name:
        case "list":
            return f"{inner[0]}[]"
        case "struct":
            return (
                "STRUCT("
                + ", ".join(f"{name} {text}" for (name, _), text in zip(kind.fields, inner, strict=True))
                + ")"
            )
        case "map":
            return f"MAP({inner[0]}, {inner[1]})"
    return kind.name


def wrap(kind: ColumnType, *words: str) -> Any:
    """A value of that type with these words in it."""
    match kind.name:
        case "list" if kind.fields[0][1].name == "varchar":
            return list(words)
        case "list":
            return [wrap(kind.fields[0][1], *words)]
        case "struct":
            return {name: wrap(inner, *words) for name, inner in kind.fields}
        case "map":
            return {words[0]: wrap(kind.fields[1][1], *words)}
    return words[-1]


@pytest.mark.parametrize(
    "kind",
    [
        "list(varchar)", "struct(a varchar, b varchar)", "map(varchar, varchar)", "list(list(varchar))",
        "list(struct(a varchar, b varchar))", "struct(l list(varchar))", "list(map(varchar, varchar))",
        "map(varchar, struct(b varchar))", "list(struct(l list(varchar)))", "struct(a struct(l list(varchar)))",
        "map(varchar, list(map(varchar, varchar)))",
    ],
)  # fmt: skip
def test_random_text_nested_then_read_back_or_invalid(kind: str) -> None:
    draw, parsed = random.Random(kind), parse_type(kind)
    table = define(CreateTable("main", "t", (ColumnSpec("c", kind),)), table_id=1, schema_id=0, partition_id=None)
    refused = 0
    with duckdb.connect() as client:
        for _ in range(600):
            words = ["".join(draw.choices(ALPHABET, k=draw.randint(0, 6))) for _ in range(2)]
            value = wrap(parsed, *words)
            try:
                complete_row(table, {"c": value})
            except InvalidChangeError:
                refused += 1
                continue
            found = client.execute(f"SELECT CAST(? AS {sql_type(parsed)})", [literal(parsed, value)]).fetchone()
            assert found == (value,), words
    assert refused < 400
    if not any(inner.fields for _, inner in parsed.fields):
        assert refused == 0


def test_a_closing_bracket_nested_twice_then_invalid_says_so() -> None:
    log = DecidedLog()
    log.commit(create_table("t", "id int64, v varchar[][]"))
    outcome = log.refused("INVALID", change("INSERT_ROW", row={"id": 1, "v": [["a]"]]}))
    assert outcome.detail is not None
    assert "] in a text nested twice" in outcome.detail
    log.commit(change("INSERT_ROW", row={"id": 1, "v": [["[a]", "{"]]}))
