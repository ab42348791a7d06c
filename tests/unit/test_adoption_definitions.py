"""What a lake was at one snapshot after another, by the rows of its catalog."""

from __future__ import annotations

from typing import Any

from commitlog.adoption.definitions import Definitions
from commitlog.adoption.source import CatalogRows


def lived(begin: int, end: int | None = None, **values: Any) -> dict[str, Any]:
    return {**values, "begin_snapshot": begin, "end_snapshot": end}


def table(table_id: int) -> dict[str, Any]:
    name = f"t{table_id}"
    return lived(1, table_id=table_id, schema_id=0, table_name=name, path=f"{name}/", path_is_relative=True)


def column(table_id: int, name: str, begin: int, end: int | None = None) -> dict[str, Any]:
    told = dict.fromkeys(("default_value", "default_value_type", "initial_default", "parent_column"))
    kind = {"column_type": "int32", "nulls_allowed": True}
    return lived(begin, end, table_id=table_id, column_id=1, column_order=1, column_name=name, **kind, **told)


def test_tables_when_one_of_them_is_changed_then_the_others_are_not_put_together_anew() -> None:
    names = ("view", "tag", "column_tag", "partition_info", "partition_column")
    rows: dict[str, list[dict[str, Any]]] = {
        **{name: [] for name in names},
        "schema": [lived(0, schema_id=0, schema_name="main", path="main/", path_is_relative=True)],
        "table": [table(1), table(2)],
        "column": [column(1, "a", 1), column(2, "a", 1, end=2), column(2, "b", 2)],
        "tag": [lived(3, object_id=2, key="comment", value="said")],
    }
    definitions = Definitions(CatalogRows(rows))
    first, second, third = (definitions.at(snapshot_id).tables for snapshot_id in (1, 2, 3))
    assert [[each.name for each in tables[2].columns] for tables in (first, second, third)] == [["a"], ["b"], ["b"]]
    assert [tables[2].comment for tables in (second, third)] == [None, "said"]
    assert first[1] is second[1] is third[1]
