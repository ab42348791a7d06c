"""A proposal of each kind of change as people write it into a file, to begin with.

Sent one after another to an empty log, each of them is committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from commitlog.domain.model import ChangeKind

_IN_TABLE = {"schema": "main", "table": "example"}
_KEYED = {"schema": "main", "table": "example_keyed"}
_VIEW = {"schema": "main", "view": "example_view"}
_FILE = {"path": "part-0.parquet", "record_count": 3, "file_size_bytes": 1000}
_CREATE_KEYED = {
    "kind": "CREATE_TABLE",
    **_KEYED,
    "columns": [{"name": "id", "type": "int64"}, {"name": "v", "type": "varchar"}],
    "primary_key": ["id"],
    "if_not_exists": True,
}
_CHANGES: Mapping[ChangeKind, list[dict[str, Any]]] = {
    ChangeKind.CREATE_SCHEMA: [{"schema": "example_schema"}],
    ChangeKind.CREATE_TABLE: [
        {
            **_IN_TABLE,
            "columns": [{"name": "id", "type": "int64", "nullable": False}, {"name": "day", "type": "date"}],
        }
    ],
    ChangeKind.ALTER_TABLE: [
        {**_IN_TABLE, "alterations": [{"op": "ADD_COLUMN", "column": {"name": "note", "type": "varchar"}}]}
    ],
    ChangeKind.APPEND: [{**_IN_TABLE, "files": [_FILE]}],
    ChangeKind.DELETE: [{**_IN_TABLE, "positions": [{"data_file_id": 0, "rows": [1]}]}],
    ChangeKind.COMPACT: [
        {**_IN_TABLE, "replaced": [0], "files": [{"path": "part-1.parquet", "record_count": 2, "file_size_bytes": 900}]}
    ],
    ChangeKind.RENAME_TABLE: [{**_IN_TABLE, "new_table": "example_renamed"}],
    ChangeKind.CREATE_VIEW: [{**_VIEW, "sql": "SELECT 1 AS one"}],
    ChangeKind.REPLACE_VIEW: [{**_VIEW, "sql": "SELECT 2 AS two"}],
    ChangeKind.DROP_VIEW: [_VIEW],
    ChangeKind.INSERT_ROW: [_CREATE_KEYED, {**_KEYED, "row": {"id": 1, "v": "a"}}],
    ChangeKind.UPDATE_ROW: [{**_KEYED, "key": {"id": 1}, "row": {"id": 1, "v": "b"}}],
    ChangeKind.FLUSH: [
        {**_KEYED, "files": [{"path": "rows-0.parquet", "record_count": 1, "file_size_bytes": 800, "row_ids": [0]}]}
    ],
    ChangeKind.DELETE_ROW: [{**_KEYED, "key": {"id": 1}}],
    ChangeKind.EXPIRE_SNAPSHOTS: [{"older_than_snapshot_id": 2}],
    ChangeKind.CONFIGURE: [{"settings": {"conflict_granularity": "ROW"}}],
    ChangeKind.DROP_TABLE: [{"schema": "main", "table": "example_renamed"}],
    ChangeKind.DROP_SCHEMA: [{"schema": "example_schema", "if_exists": True}],
}
"""In an order in which each finds what it is about; the last change of each is of the kind."""

assert _CHANGES.keys() == set(ChangeKind)


def example_kinds() -> list[ChangeKind]:
    """The kinds, in an order in which their examples can be sent."""
    return list(_CHANGES)


def example_of(kind: ChangeKind) -> dict[str, Any]:
    """A proposal with a change of a kind, in the JSON form that ``commitlog submit`` takes; id and base are filled in there."""
    changes = [{"kind": str(kind), **each} for each in _CHANGES[kind]]
    return {"writer_id": "example", "message": f"an example of {kind}", "changes": changes}
