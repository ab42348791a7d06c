"""What the simulated writers propose: few keys and few files, bases of the last moments, so that races are the rule."""

from __future__ import annotations

import json
from typing import Any

from commitlog.domain import model as m
from commitlog.domain.model.ids import format_id
from commitlog.domain.model.json_lines import parse_proposal
from commitlog.simulation.checking import Model
from commitlog.simulation.choices import Choices
from commitlog.simulation.scheduling import BEGUN_MS

KEYS = 4
AGES = (0, 0, 0, 1, 2, 4)
TABLES: list[dict[str, Any]] = [
    {
        "kind": "CREATE_TABLE",
        "schema": "main",
        "table": "k",
        "columns": [{"name": "id", "type": "int64", "nullable": False}, {"name": "v", "type": "varchar"}],
        "primary_key": ["id"],
    },
    {"kind": "CREATE_TABLE", "schema": "main", "table": "f", "columns": [{"name": "id", "type": "int64"}]},
]
_IN = {"schema": "main", "table": "k"}


class Requests:
    """Makes the proposals of one writer.

    Args:
        choices: say which.
        model: what a writer can know of the log.
        writer_id: whose they are.
        number: of the writer; proposals of different ones have different ids.
    """

    def __init__(self, choices: Choices, model: Model, writer_id: str, number: int) -> None:
        self._choices = choices
        self._model = model
        self._writer_id = writer_id
        self._number = number
        self._made = 0
        self._seq = 0
        self._files: list[int] = []

    def learned(self, receipt: m.Receipt) -> None:
        """Remembers the files that it has appended."""
        self._files += receipt.assigned.data_file_ids

    def next(self, now_ms: int) -> m.Proposal:
        """The next proposal."""
        if self._model.head == 0:
            return self._proposal(now_ms, [{**table, "if_not_exists": True} for table in TABLES])
        what = self._choices.below(12)
        if what < 4:
            return self._transfer(now_ms)
        if what < 9:
            return self._proposal(now_ms, [self._row_change() for _ in range(1 + self._choices.below(2))])
        if what == 9 and self._files:
            gone = self._files.pop()
            return self._proposal(now_ms, [{"kind": "DELETE", "schema": "main", "table": "f", "whole_files": [gone]}])
        if what == 10:
            self._seq += self._choices.below(2)
            return self._proposal(now_ms, [self._append()], writer_seq=self._seq)
        return self._proposal(now_ms, [self._append()])

    def _transfer(self, now_ms: int) -> m.Proposal:
        """Reads two rows, and changes one of them: two of these at once may not both commit."""
        first = self._choices.below(KEYS)
        keys = [{"id": first}, {"id": (first + 1) % KEYS}]
        changed = self._choices.pick(keys)
        change = {"kind": "UPDATE_ROW", **_IN, "key": changed, "row": {**self._row(first), **changed}}
        reads = [{"kind": "ROWS", **_IN, "keys": keys}]
        return self._proposal(now_ms, [change], reads=reads, isolation="SERIALIZABLE")

    def _row_change(self) -> dict[str, Any]:
        key = self._choices.below(KEYS)
        kind = self._choices.pick(("INSERT_ROW", "INSERT_ROW", "UPDATE_ROW", "DELETE_ROW"))
        change: dict[str, Any] = {"kind": kind, **_IN}
        if kind != "INSERT_ROW":
            change["key"] = {"id": key}
        if kind != "DELETE_ROW":
            change["row"] = self._row(key)
        return change

    def _row(self, key: int) -> dict[str, Any]:
        return {"id": key, "v": f"{self._writer_id} {self._made}"}

    def _append(self) -> dict[str, Any]:
        path = f"{self._writer_id}-{self._made}.parquet"
        file = {
            "path": path,
            "record_count": 3,
            "file_size_bytes": 100,
            "statistics": [{"column": "id", "min": 1, "max": 3}],
        }
        return {"kind": "APPEND", "schema": "main", "table": "f", "files": [file]}

    def _proposal(self, now_ms: int, changes: list[dict[str, Any]], **more: Any) -> m.Proposal:
        self._made += 1
        base = max(min(self._model.head, 1), self._model.head - self._choices.pick(AGES))
        made = {
            "proposal_id": format_id(self._id(now_ms)),
            "writer_id": self._writer_id,
            "base_snapshot_id": base,
            "created_at_ms": max(now_ms, 0),
            "changes": changes,
            **more,
        }
        parsed = parse_proposal(json.dumps(made).encode())
        assert isinstance(parsed, m.Proposal)
        return parsed

    def _id(self, now_ms: int) -> bytes:
        at = max(now_ms, BEGUN_MS - 1_000).to_bytes(6, "big")
        return at + b"\x70\x00" + (2**63 + self._number * 2**32 + self._made).to_bytes(8, "big")
