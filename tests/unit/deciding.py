"""A log in memory for tests of the core: propose changes as JSON, see the outcome; every test ends on an equal replay."""

from __future__ import annotations

from itertools import count
from typing import Any

from commitlog.domain.deciding.decide import decide
from commitlog.domain.deciding.rules import HandlersByName, Rules
from commitlog.domain.model import Genesis, LogSettings, Outcome, Position, Reason, Verdict
from commitlog.domain.model.ids import parse_id
from commitlog.domain.model.records.proposal_json import proposal_from_json
from commitlog.domain.state.dumping import dump_state, load_state, state_hash
from commitlog.domain.state.index import new_state
from commitlog.domain.state.replaying import replay

START_MS = 1_732_201_315_328
_NUMBERS = count()


def make_id(number: int, time_ms: int | None = None) -> str:
    """A UUID version 7 text made of a number and a time."""
    digits = f"{START_MS + number if time_ms is None else time_ms:012x}7000{0x8000_0000_0000_0000 + number:016x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


class DecidedLog:
    """Decides proposals one after another and keeps every outcome."""

    def __init__(self, handlers: dict[str, Any] | None = None, **settings: Any) -> None:
        self.genesis = Genesis(b"\0" * 16, settings=LogSettings(**settings))
        self.state = new_state(self.genesis)
        self.outcomes: list[Outcome] = []
        self.handlers = handlers or {}

    @property
    def head(self) -> int:
        return self.state.head_snapshot_id

    def propose(self, *changes: dict[str, Any], base: int | None = None, **fields: Any) -> Outcome:
        """Decide one proposal; ``base`` is the head unless given, ``id``, ``now_ms``, ``source_partition`` can be set."""
        number = len(self.outcomes) + 1
        now_ms = fields.pop("now_ms", START_MS + number)
        source = Position(fields.pop("source_partition", 0), number - 1)
        text_id = fields.pop("id", None) or make_id(number)
        value = {
            "proposal_id": text_id,
            "writer_id": "w1",
            "base_snapshot_id": self.head if base is None else base,
            "changes": list(changes),
            **fields,
        }
        outcome = decide(
            self.state,
            proposal_from_json(value),
            now_ms=now_ms,
            source=source,
            rules=Rules(HandlersByName(self.handlers)),
        )
        replay(self.state, outcome)
        self.outcomes.append(outcome)
        return outcome

    def commit(self, *changes: dict[str, Any], **fields: Any) -> int:
        """Decide one proposal that must commit; return its snapshot id."""
        outcome = self.propose(*changes, **fields)
        assert outcome.verdict is Verdict.COMMITTED, outcome.detail
        assert outcome.snapshot_id is not None
        return outcome.snapshot_id

    def refused(self, reason: str, *changes: dict[str, Any], **fields: Any) -> Outcome:
        """Decide one proposal that must be refused for that reason."""
        outcome = self.propose(*changes, **fields)
        assert outcome.verdict is Verdict.REJECTED, f"committed as {outcome.snapshot_id}"
        assert outcome.reason is Reason(reason), f"{outcome.reason}: {outcome.detail}"
        return outcome

    def conflict(self, *expected: str, on: dict[str, Any] | list[dict[str, Any]], **fields: Any) -> Outcome:
        """Decide one proposal that must conflict; ``expected`` are texts like TABLE_ALTERED@3."""
        changes = on if isinstance(on, list) else [on]
        outcome = self.refused("CONFLICT", *changes, **fields)
        assert [f"{c.kind}@{c.committed_snapshot_id}" for c in outcome.conflicts] == list(expected)
        return outcome

    def check_replay(self) -> None:
        """The outcomes replayed from empty, and from a checkpoint in the middle or at the end, give the live state."""
        again = new_state(self.genesis)
        middle = len(self.outcomes) // 2
        for number, outcome in enumerate(self.outcomes):
            if number == middle:
                again = load_state(dump_state(again))
            replay(again, outcome)
        assert state_hash(load_state(dump_state(again))) == state_hash(again) == state_hash(self.state)


def known_id(text: str) -> bytes:
    """The bytes of an id's text."""
    return parse_id(text)


# --- changes ----------------------------------------------------------------------------------------------------------


def create_table(table: str = "t", columns: str = "id int64, v varchar", **fields: Any) -> dict[str, Any]:
    """CREATE_TABLE from a text of columns; ``not null`` is understood."""
    specs = []
    for text in columns.split(", "):
        name, kind, *rest = text.split(" ")
        specs.append({"name": name, "type": kind, "nullable": rest != ["not", "null"]})
    return {"kind": "CREATE_TABLE", "schema": fields.pop("schema", "main"), "table": table, "columns": specs, **fields}


def keyed_table(table: str = "k", columns: str = "id int64, v varchar", **fields: Any) -> dict[str, Any]:
    """CREATE_TABLE with primary key ``id``; ``on_conflict`` sets the policy."""
    policy = fields.pop("on_conflict", None)
    properties = {} if policy is None else {"on_conflict": policy}
    return create_table(table, columns, primary_key=["id"], properties=properties, **fields)


def change(kind: str, table: str = "t", **fields: Any) -> dict[str, Any]:
    """A change to a table of schema main."""
    return {"kind": kind, "schema": "main", "table": table, **fields}


def data_file(rows: int = 10, **fields: Any) -> dict[str, Any]:
    """A data file."""
    return {"path": f"f{next(_NUMBERS)}.parquet", "record_count": rows, "file_size_bytes": 1000, **fields}


def append(*files: dict[str, Any], table: str = "t") -> dict[str, Any]:
    """APPEND; one file of 10 rows unless given."""
    return change("APPEND", table, files=list(files) or [data_file()])


def delete(positions: dict[int, list[int]], table: str = "t") -> dict[str, Any]:
    """DELETE by positions."""
    return change("DELETE", table, positions=[{"data_file_id": f, "rows": rows} for f, rows in positions.items()])


def delete_whole(*files: int, table: str = "t") -> dict[str, Any]:
    """DELETE of whole files."""
    return change("DELETE", table, whole_files=list(files))


def delete_file(data_file_id: int, rows: list[int], table: str = "t", **fields: Any) -> dict[str, Any]:
    """DELETE by a delete file."""
    entry = {
        "data_file_id": data_file_id,
        "path": f"d{next(_NUMBERS)}.parquet",
        "rows": rows,
        "file_size_bytes": 9,
        **fields,
    }
    return change("DELETE", table, delete_files=[entry])


def compact(replaced: list[int], *rows: int, table: str = "t", **fields: Any) -> dict[str, Any]:
    """COMPACT into files of these row counts."""
    return change("COMPACT", table, replaced=replaced, files=[data_file(count, **fields) for count in rows])


def alter(op: str, table: str = "t", **fields: Any) -> dict[str, Any]:
    """ALTER_TABLE of one step."""
    return change("ALTER_TABLE", table, alterations=[{"op": op, **fields}])


def insert(
    table: str = "k", time: int | None = None, origin: dict[str, Any] | None = None, **row: Any
) -> dict[str, Any]:
    """INSERT_ROW."""
    return change("INSERT_ROW", table, row=row, row_time_us=time, origin=origin)


def update(
    key: Any, table: str = "k", time: int | None = None, origin: dict[str, Any] | None = None, **row: Any
) -> dict[str, Any]:
    """UPDATE_ROW of the row with this id."""
    return change("UPDATE_ROW", table, key={"id": key}, row={"id": key, **row}, row_time_us=time, origin=origin)


def delete_row(key: Any, table: str = "k", time: int | None = None) -> dict[str, Any]:
    """DELETE_ROW of the row with this id."""
    return change("DELETE_ROW", table, key={"id": key}, row_time_us=time)


def read_table(table: str = "t", *conjuncts: tuple[Any, ...], files: list[int] | None = None) -> dict[str, Any]:
    """A TABLE read; conjuncts are (column, op, value)."""
    predicates = [dict(zip(("column", "op", "value"), c, strict=False)) for c in conjuncts]
    return {"kind": "TABLE", "schema": "main", "table": table, "filter": predicates, "files": files}
