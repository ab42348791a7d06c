"""Columns of every type that a filter may be over: random statistics, partition values and filters over them.

Few values per type, so that bounds and literals often coincide; among them texts that may be the cut beginnings of others,
decimals and numbers written in several ways, and now and then a value of another type. They stand in order.
"""

from __future__ import annotations

import random
from typing import Any

TYPES = {
    "id": "int64", "d": "date", "s": "varchar", "r": "float32", "n": "decimal(4,1)", "b": "boolean", "w": "timestamp",
}  # fmt: skip
VALUES: dict[str, tuple[Any, ...]] = {
    "id": (0, 1, 2, 3, 4, 5),
    "d": ("2024-01-31", "2024-02-01", "2024-02-02", "2024-02-29"),
    "s": ("a", "abcdefg", "abcdefgh", "abcdefghij", "abcdefgi", "b", "bc"),
    "r": (-1.5, 0, 0.1, 0.10000000149011612, 2.5),
    "n": ("-3", 1, "1.0", "1.5", 2.5, "10.0"),
    "b": (False, True),
    "w": ("2024-01-31", "2024-01-31T12:00:00", "2024-01-31 12:00:00.5", "2024-02-01 00:00:00"),
}
ALIEN: dict[str, tuple[Any, ...]] = {
    "id": ("zz", True), "d": ("zz", 7), "s": (7, False), "r": ("zz", True), "n": ("zz", True), "b": ("zz", 1),
    "w": ("zz", 7),
}  # fmt: skip
ODD: dict[str, tuple[Any, ...]] = {"id": (2.5, -1, None), "s": ("", "zz"), "r": (7, -0.0), "n": (-1, 2.25, "99.9")}
"""Literals that no file has, but that can be compared."""
_IDENTITY = {column: {"column": column, "transform": "identity"} for column in TYPES}
PARTITIONINGS: tuple[list[dict[str, str]], ...] = (
    [],
    [],
    [_IDENTITY["d"]],
    [_IDENTITY["s"]],
    [_IDENTITY["id"]],
    [_IDENTITY["b"], _IDENTITY["r"]],
    [_IDENTITY["n"]],
    [{"column": "d", "transform": "month"}, _IDENTITY["id"]],
)
OPS = ("=", "<", "<=", ">", ">=", "in", "between", "is_null", "is_not_null")


def wide_columns() -> list[dict[str, Any]]:
    """One nullable column of each type but the integer, which the tables have for themselves."""
    return [{"name": name, "type": kind} for name, kind in TYPES.items() if name != "id"]


def value(rng: random.Random, column: str) -> Any:
    """A value of a column, seldom one that is not its own or of another type."""
    roll = rng.random()
    return rng.choice(VALUES[column] if roll < 0.8 else ODD.get(column, (None,)) if roll < 0.93 else ALIEN[column])


def statistics(rng: random.Random, column: str, record_count: int) -> dict[str, Any]:
    """Bounds and counts of a column, each known or not."""
    order = VALUES[column]
    low = rng.randrange(len(order))
    made: dict[str, Any] = {"column": column}
    if rng.random() < 0.85:
        made["min"] = order[low] if rng.random() < 0.97 else rng.choice(ALIEN[column])
    if rng.random() < 0.85:
        made["max"] = rng.choice(order[low:]) if rng.random() < 0.97 else rng.choice(ALIEN[column])
    nulls = rng.choice((0, 0, 1, record_count))
    if rng.random() < 0.6:
        made["null_count"] = nulls
    if rng.random() < 0.5:
        made["value_count"] = max(0, record_count - nulls)
    if column == "r":
        made["contains_nan"] = rng.choice((False, False, True, None))
    return made


def partition_values(rng: random.Random, columns: list[tuple[str, str]]) -> list[Any] | None:
    """One value per (column, transform), some NULL, some as the text that DuckLake stores; None when unknown."""
    if rng.random() < 0.1:
        return None
    made: list[Any] = []
    for column, transform in columns:
        if transform != "identity":
            made.append(1)
            continue
        found = rng.choice((None, *VALUES[column])) if rng.random() < 0.98 else rng.choice(ALIEN[column])
        if rng.random() < 0.3 and found is not None:
            found = str(found).lower() if column == "b" else str(found)
        made.append(found if column != "r" or rng.random() < 0.8 else "nan")
    return made if rng.random() < 0.97 else [*made, 1]


def predicate(rng: random.Random, column: str) -> dict[str, Any]:
    """A filter's conjunct."""
    op = rng.choice(OPS)
    made: dict[str, Any] = {"column": column, "op": op}
    if op == "in":
        made["value"] = [value(rng, column) for _ in range(rng.choice((0, 1, 2, 2)))]
    elif op == "between":
        made["value"] = [value(rng, column), value(rng, column)]
    elif not op.startswith("is_"):
        made["value"] = value(rng, column)
    return made
