"""Whether a history of keyed rows is serializable, by the graph of what depends on what (as Adya and Elle have it).

Each committed proposal is a node. The next version of a row depends on the one before it (ww), a reader on the version that
it read (wr), the next version on who has read the one before (rw). A cycle through SERIALIZABLE proposals is an
order that no run of one after another could have had.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from commitlog.domain import model as m

_Key: TypeAlias = "tuple[str, str]"


class _Node(NamedTuple):
    snapshot_id: int
    base: int
    reads: frozenset[_Key]
    writes: frozenset[_Key]


def cycle_in(outcomes: Iterable[m.Outcome]) -> list[str]:
    """A cycle, a line for each step; none where the SERIALIZABLE proposals among the committed ones have an order."""
    nodes = [_node(outcome) for outcome in outcomes if outcome.proposal is not None]
    edges = _edges(nodes)
    settled: set[int] = set()
    for node in nodes:
        if circle := _circle(node.snapshot_id, edges, settled):
            return [f"{a} -{edges[a][b]}-> {b}" for a, b in pairwise(circle)]
    return []


def _node(outcome: m.Outcome) -> _Node:
    proposal, at = outcome.proposal, outcome.snapshot_id
    assert proposal is not None
    assert at is not None
    reads = ((read.table, _text(key)) for read in proposal.reads if isinstance(read, m.RowsRead) for key in read.keys)
    # One that is skipped, such as a delete of a row that another had deleted, writes nothing.
    writes = (
        (change.table, _text(change.row if isinstance(change, m.InsertRow) else change.key))
        for change, effect in zip(proposal.changes, outcome.effects, strict=True)
        if isinstance(change, m.InsertRow | m.UpdateRow | m.DeleteRow) and not effect.skipped
    )
    is_serializable = proposal.isolation is m.Isolation.SERIALIZABLE
    return _Node(at, proposal.base_snapshot_id, frozenset(reads if is_serializable else ()), frozenset(writes))


def _text(row: m.Row) -> str:
    return str(row["id"])


def _edges(nodes: list[_Node]) -> dict[int, dict[int, str]]:
    versions: dict[_Key, list[int]] = defaultdict(list)
    for node in nodes:
        for key in node.writes:
            versions[key].append(node.snapshot_id)
    edges: dict[int, dict[int, str]] = defaultdict(dict)
    for key, made in versions.items():
        for before, after in pairwise(made):
            edges[before][after] = f"ww {key}"
    for node in nodes:
        for key in node.reads:
            _add_read(edges, node, key, versions[key])
    return edges


def _add_read(edges: dict[int, dict[int, str]], node: _Node, key: _Key, made: list[int]) -> None:
    seen = [at for at in made if at <= node.base]
    later = [at for at in made if at > node.base and at != node.snapshot_id]
    if seen:
        edges[seen[-1]].setdefault(node.snapshot_id, f"wr {key}")
    if later:
        edges[node.snapshot_id].setdefault(later[0], f"rw {key}")


def _circle(start: int, edges: dict[int, dict[int, str]], settled: set[int]) -> list[int]:
    way = [start]
    left = [list(edges[start])]
    while way:
        if not left[-1]:
            settled.add(way.pop())
            left.pop()
            continue
        after = left[-1].pop()
        if after in way:
            return [*way[way.index(after) :], after]
        if after not in settled:
            way.append(after)
            left.append(list(edges[after]))
    return []
