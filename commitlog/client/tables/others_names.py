"""What users of other libraries look for: a name of theirs is answered with what there is instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

Kind = TypeVar("Kind", bound=type)

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
ARGUMENTS_OF_TABLES: Mapping[str, Mapping[str, str]] = {
    "scan": {"filter": "where=", "condition": "where=", "select": "columns=", "version": "snapshot="},
    "delete": {"filter": "where=", "condition": "where=", "predicate": "where="},
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


def knowing_arguments(instead: Mapping[str, Mapping[str, str]]) -> Callable[[Kind], Kind]:
    """For a class: its methods of these names tell whoever gives an argument by another library's word which one it is here.

    Without that Python says no more than that it expects none of that name.
    """

    def knowing(kind: Kind) -> Kind:
        for name, words in instead.items():
            setattr(kind, name, _knowing(getattr(kind, name), words))
        return kind

    return knowing


def _knowing(method: Callable[..., Any], words: Mapping[str, str]) -> Callable[..., Any]:
    @wraps(method)
    def called(*args: Any, **given: Any) -> Any:
        for word in given:
            if word in words:
                raise TypeError(f"{method.__qualname__}() has no argument {word!r}: give {words[word]} instead")
        return method(*args, **given)

    return called
