"""What users of other libraries look for: a name of theirs is answered with what there is instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OF_TABLES: Mapping[str, str] = {
    "read": "scan()",
    "to_arrow": "scan().to_arrow()",
    "to_batches": "scan().to_batches()",
    "to_pandas": "scan().to_pandas()",
    "to_polars": "scan().to_polars()",
    "count": "scan().count()",
    "columns": "schema.names",
    "snapshots": "history()",
    "write": "append(rows)",
    "load": "append(files=[...]), or `commitlog load`,",
    "merge": "upsert(rows), of a table with a primary key,",
    "truncate": "delete(True)",
    "drop": "tx.drop_table(name) of a log.transaction()",
    "alter": "tx.alter(name) of a log.transaction()",
    "compact": "commitlog.spark.table(spark, name, log=log).compact()",
}
OF_SCANS: Mapping[str, str] = {
    "filter": "table.scan(where=...)",
    "select": "table.scan(columns=[...])",
    "limit": "to_batches(), which one may stop reading,",
    "head": "to_batches(), which one may stop reading,",
    "collect": "to_polars()",
}


def told_instead(given: object, name: str, instead: Mapping[str, str]) -> Any:
    """For ``__getattr__``: raise what not to have an attribute raises, with what there is instead, where that is known."""
    if name not in instead:
        return object.__getattribute__(given, name)
    raise AttributeError(
        f"{type(given).__name__!r} object has no attribute {name!r}: {instead[name]} does that", name=name, obj=given
    )
