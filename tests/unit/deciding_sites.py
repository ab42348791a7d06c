"""Logs of nodes for tests of the core: what links bring to them, as JSON, and what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deciding import DecidedLog, insert, keyed_table

from commitlog.domain.model import Outcome, Row

KEYED = "id int64 not null, v varchar, w varchar"
B, C = {"node": "b", "priority": 2}, {"node": "c", "priority": 3}


def node(name: str, priority: int = 0) -> dict[str, Any]:
    return {"kind": "CONFIGURE", "settings": {"node_name": name, "node_priority": priority}}


def log_of_node_a(**settings: Any) -> DecidedLog:
    """Node a of priority 1, with keyed tables k (w is UNIQUE) and c, which refers to it; row 1 of k was made by snapshot 4."""
    log = DecidedLog(**settings)
    log.commit(keyed_table("k", KEYED, unique=[["w"]]))
    log.commit(
        keyed_table(
            "c",
            "id int64 not null, p int64",
            foreign_keys=[{"columns": ["p"], "ref_schema": "main", "ref_table": "k", "ref_columns": ["id"]}],
        )
    )
    log.commit(node("a", 1))
    log.commit(insert(id=1, v="a4", w="x", time=4_000))
    return log


def brought(
    log: DecidedLog,
    *changes: dict[str, Any],
    by: dict[str, Any] = B,
    tick: int,
    stamp: int = 9,
    displaced: Sequence[tuple[int, Row]] = (),
    base: int | None = None,
    **knew: int,
) -> Outcome:
    """The outcome of what a link brings from snapshot ``tick`` of a node that had taken over nodes up to ``knew``."""
    origin = {"node": by["node"], "tick": tick, "stamp_ms": stamp, "priority": by["priority"]}
    digest = [{"node": name, "tick": known, "priority": 0} for name, known in knew.items()]
    if by["node"] not in knew:
        digest.append({"node": by["node"], "tick": log.state.next_tick(by["node"]), "priority": by["priority"]})
    rows = [{**each, "origin": origin} if each["kind"].endswith("_ROW") else each for each in changes]
    came = {"node": by["node"], "tick": tick, "digest": digest}
    read = [{"table_id": table_id, "row": row} for table_id, row in displaced]
    return log.propose(*rows, base=base, replicated={**came, "displaced": read})


def settled(outcome: Outcome) -> list[str]:
    assert outcome.snapshot_id is not None, outcome.detail
    return [f"{each.kind} {each.action}" for each in outcome.resolutions]


def row_of(log: DecidedLog, key: int = 1, table: str = "k") -> Row | None:
    [found] = [each for each in log.state.tables.values() if each.name == table]
    assert found.rows is not None
    version = found.rows.live.get(str(key))
    return None if version is None else version.image


def value_of(log: DecidedLog, key: int = 1) -> Any:
    row = row_of(log, key)
    return None if row is None else row["v"]
