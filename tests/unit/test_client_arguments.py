"""Arguments of the wrong kind: every public call of the client says what it wants, in an exception of the package's tree."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from commitlog import errors
from commitlog.client import CommitLog, Table, Transaction
from commitlog.client.tables.alterations import TableAlteration
from commitlog.domain import model as m
from commitlog.errors import CommitLogError, InvalidChangeError, InvalidRequestError
from commitlog.testing import InMemoryCommitLog

FILE = m.DataFile("a.parquet", record_count=10, file_size_bytes=100)
FRAME = pd.DataFrame({"id": [1, 2]})
WRONG: tuple[Any, ...] = (
    None,
    1,
    -1,
    2**70,
    1.5,
    True,
    "x",
    "\udcff",
    b"x",
    [],
    [1],
    {},
    {"a": 1},
    object(),
    FRAME,
    FILE,
    Path("x"),
)
"""Of every kind; what a call takes is no wrong argument of it."""

STARTED_BY = {  # what each call is called with beside the argument that is wrong
    "transaction": {},
    "append": {"table": "t", "files": [FILE]},
    "new_file": {"table": "t"},
    "run": {"fn": lambda tx: tx.create_schema("s")},
    "submit": {"proposal": None},
    "submit_async": {"proposed": None},
    "publish_many": {"proposed": []},
    "commit": {"proposal": None},
    "dry_run": {"proposed": None},
    "open_writer": {},
    "outcome": {"proposal_id": None},
    "explain": {"proposal_id": None},
    "explanation": {"proposal_id": None},
    "outcome_at": {"seq": 1},
    "subscribe": {"follow": False},
    "wait_for_snapshot": {"timeout": 0},
    "table": {"table": "t"},
    "tables": {},
    "schemas": {},
    "snapshots": {},
    "history": {},
    "diff": {"first": 0},
    "show": {"snapshot_id": 1},
    "see": {"snapshot_id": 0},
    "seq_before": {"moment": "2026-01-01"},
    "snapshot_at": {"moment": "2096-01-01"},
    "duckdb": {},
    "live_files": {"table_id": 1, "paths": []},
}
HANDLED_BY = {
    "delete": {"where": ("id", "=", -1)},
    "insert": {"rows": {"id": 1}},
    "overwrite": {"data": [], "where": True},
    "update": {"by": {"id": 1}, "row": {"id": 1}},
    "delete_row": {"by": {"id": 1}},
    "upsert": {"rows": {"id": 1}},
    "restore": {"snapshot": 1},
    "append": {"files": [FILE]},
    "at": {},
    "scan": {},
    "changes": {"after": 0},
    "diff": {"first": 0},
    "files": {},
    "history": {},
}
BUILT_BY = {
    "create_schema": {"schema": "s"},
    "drop_schema": {"schema": "s"},
    "create_table": {"table": "n", "schema": {"id": "int64"}},
    "drop_table": {"table": "t"},
    "rename_table": {"table": "t", "new_name": "n"},
    "alter": {"table": "t"},
    "create_view": {"view": "v", "sql": "SELECT 1"},
    "replace_view": {"view": "v", "sql": "SELECT 1"},
    "drop_view": {"view": "v"},
    "append": {"table": "t", "files": [FILE]},
    "delete": {"table": "t"},
    "compact": {"table": "t", "replaced": [0], "files": [FILE]},
    "flush": {"table": "t", "files": {FILE: [1]}},
    "insert_row": {"table": "k", "row": {"id": 1}},
    "update_row": {"table": "k", "key": {"id": 1}, "row": {"id": 1}},
    "delete_row": {"table": "k", "key": {"id": 1}},
    "configure": {},
    "expire_snapshots": {"older_than_snapshot_id": 1},
    "new_file": {"table": "t"},
    "read": {"table": "t"},
    "read_name": {"name": "t"},
    "read_schema": {"schema": "s"},
    "read_rows": {"table": "k", "keys": [{"id": 1}]},
    "table": {"table": "t"},
    "shape": {"table": "t"},
    "check_schema": {"table": "t"},
}
STEPS_BY = {
    "add_column": {"name": "a", "type": "int64"},
    "drop_column": {"name": "id"},
    "rename_column": {"name": "id", "new_name": "b"},
    "set_type": {"name": "id", "type": "int64"},
    "set_nullable": {"name": "id", "nullable": True},
    "set_default": {"name": "id", "default": 1},
    "set_partition_by": {"keys": ["id"]},
    "set_comment": {"comment": "c"},
    "set_property": {"key": "conflict_granularity", "value": "ROW"},
}
NOT_ASKED = {
    "connect",
    "close",
    "claim_data_path",
    "contents",
    "changes_max",
    "change_rows",
    "head_snapshot_id",
    "last_seq",
    "settings",
    "table_at",
    "new_table_path",
    "known_table",
    "missing_table",
    "check_schema",
}


@pytest.fixture
def log(tmp_path: Path) -> InMemoryCommitLog:
    made = InMemoryCommitLog(data_path=tmp_path)
    with made.transaction() as tx:
        tx.create_table("t", {"id": "int64"})
        tx.create_table(
            "k", {"id": "int64", "at": "timestamptz", "many": "struct(at list(timestamptz))"}, primary_key=["id"]
        )
        tx.append("t", [FILE])
    return made


def parameters(of: Callable[..., object]) -> list[str]:
    return [name for name, each in inspect.signature(of).parameters.items() if each.kind is not each.VAR_KEYWORD]


def judged(call: Callable[[], object], what: str) -> None:
    """It works, or says what is wrong in an exception of the tree."""
    try:
        call()
    except CommitLogError:
        return
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error


def public(of: type) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_") and inspect.isfunction(getattr(of, name))}


def test_table_of_calls_then_has_them_all() -> None:
    assert public(CommitLog) - NOT_ASKED == STARTED_BY.keys()
    assert (
        public(Transaction)
        - {
            "proposal",
            "commit",
            "hand_over",
            "take_back",
            "discard",
            "add_written",
            "shape_of",
            "remove_unless_committed",
        }
        == BUILT_BY.keys()
    )
    assert public(Table) == HANDLED_BY.keys()
    assert public(TableAlteration) == STEPS_BY.keys()


@pytest.mark.parametrize("name", STARTED_BY)
def test_log_when_an_argument_is_of_a_wrong_kind_then_says_so(log: InMemoryCommitLog, name: str) -> None:
    call = getattr(log, name)
    for parameter in parameters(call):
        for wrong in WRONG:
            if parameter == "timeout" or (parameter == "follow" and wrong is True):
                continue
            given = {**STARTED_BY[name], parameter: wrong}

            def run(given: dict[str, Any] = given) -> None:
                answer = call(**given)
                if name in ("subscribe", "publish_many"):
                    list(answer)

            judged(run, f"{name}({parameter}={wrong!r})")


@pytest.mark.parametrize("name", HANDLED_BY)
def test_table_when_an_argument_is_of_a_wrong_kind_then_says_so(log: InMemoryCommitLog, name: str) -> None:
    call = getattr(log.table("t"), name)
    for parameter in parameters(call):
        for wrong in WRONG:
            judged(lambda: call(**{**HANDLED_BY[name], parameter: wrong}), f"{name}({parameter}={wrong!r})")  # noqa: B023


@pytest.mark.parametrize("name", BUILT_BY)
def test_transaction_when_an_argument_is_of_a_wrong_kind_then_says_so(log: InMemoryCommitLog, name: str) -> None:
    for parameter in parameters(getattr(Transaction, name))[1:]:
        for wrong in (*WRONG, [None], [[1]], {1: 2}, {1: ["a"]}, {"id": object()}, [("id",)], [("id", "=", object())]):

            def sent(given: dict[str, Any]) -> None:
                tx = log.transaction(base_snapshot_id=1)
                getattr(tx, name)(**given)
                if tx.changes:
                    log.submit(tx.proposal())

            judged(lambda: sent({**BUILT_BY[name], parameter: wrong}), f"{name}({parameter}={wrong!r})")  # noqa: B023


@pytest.mark.parametrize("name", STEPS_BY)
def test_alter_when_an_argument_is_of_a_wrong_kind_then_says_so(log: InMemoryCommitLog, name: str) -> None:
    for parameter in parameters(getattr(TableAlteration, name))[1:]:
        for wrong in WRONG:

            def sent(given: dict[str, Any]) -> None:
                tx = log.transaction(base_snapshot_id=1)
                getattr(tx.alter("t"), name)(**given)
                log.submit(tx.proposal())

            judged(lambda: sent({**STEPS_BY[name], parameter: wrong}), f"{name}({parameter}={wrong!r})")  # noqa: B023


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda log, tx: tx.append("t", files=FRAME), "files is a list of paths of Parquet files"),
        (lambda log, tx: tx.append("t", "a.parquet"), "files is a list of paths, not one path"),
        (lambda log, tx: tx.append(7, []), "the name of a table must be a text, not 7"),
        (lambda log, tx: log.table("\udcff"), "the name of a table holds the character U.DCFF, which no text here may hold"),
        (lambda log, tx: log.history(writer="\udcff"), "writer holds the character U.DCFF"),
        (lambda log, tx: log.table("a\0b"), "the name of a table holds the character U.0000, which no text here may hold"),
        (lambda log, tx: tx.create_table("n", ["id"]), "schema must be a list of ColumnSpecs; give an Arrow schema"),
        (lambda log, tx: tx.create_table("n", {"id": int}), "column id: its type must be the name of a DuckLake type"),
        (lambda log, tx: tx.alter("t").add_column("n", int), "column n: its type must be the name of a DuckLake type"),
        (lambda log, tx: tx.alter("t").set_type("id", None), "column id: its type must be the name of a DuckLake type"),
        (lambda log, tx: tx.create_table("n", {"id": "int64"}, primary_key="id"), "primary_key must be a list of names"),
        (lambda log, tx: tx.delete("t", {"0": [1]}), "a data file id must be a whole number from 0 on, not '0'"),
        (lambda log, tx: tx.delete("t", {0: ["1"]}), "positions of a file must be a list of ids, not one with '1'"),
        (lambda log, tx: tx.read("t", filter=3), r"filter must be a list of \(column, op, value\)"),
            (lambda log, tx: tx.read("t", filter="id ~ 3"), "the filter .* cannot be read at position 4"),
        (lambda log, tx: tx.insert_row("k", [1]), "a row must map the names of columns to values, not \\[1\\]"),
        (lambda log, tx: log.transaction(base_snapshot_id="3"), "base_snapshot_id must be a whole number from 0 on, not '3'"),
        (lambda log, tx: log.history(before=2**63), "before must be a whole number from 0 to 9223372036854775807, not 9223"),
        (lambda log, tx: log.transaction(isolation=None), "isolation is 'snapshot' or 'serializable', not None"),
        (lambda log, tx: log.outcome(3), "3 is no proposal id: it must be a UUID"),
        (lambda log, tx: log.submit(tx), "a proposal must be a Proposal, such as tx.proposal"),
        (lambda log, tx: tx.create_view("v", "SELEKT 1"), "DuckDB cannot read the sql of the view: Parser Error"),
        (lambda log, tx: tx.replace_view("v", "DROP TABLE t"), "must be one query"),
        (lambda log, tx: tx.create_view("v", "SELECT 1; SELECT 2"), "must be one query"),
        (lambda log, tx: tx.insert_row("k", {"id": 1, "AT": dt.datetime(2024, 1, 1)}), "AT of table main.k is a timestamptz"),
        (lambda log, tx: tx.insert_row("k", {"id": 1, "many": {"at": [dt.datetime(2024, 1, 1)]}}), "without a zone"),
        (lambda log, tx: tx.insert_row("k", {"id": 1, "many": {"at": [np.datetime64("2024-01-01")]}}), "without a zone"),
    ],
)  # fmt: skip
def test_call_when_wrong_then_one_clear_sentence(log: InMemoryCommitLog, call: Any, says: str) -> None:
    with pytest.raises(InvalidRequestError, match=says) as raised:
        call(log, log.transaction())
    assert "\n" not in str(raised.value)


def test_row_when_its_times_have_a_zone_or_need_none_then_taken(log: InMemoryCommitLog) -> None:
    with log.transaction(writer_id="zones") as tx:
        tx.create_table("zones", {"id": "int64", "at": "timestamptz", "local": "timestamp"}, primary_key=["id"])
        tx.insert_row(
            "zones", {"id": 1, "at": dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "local": dt.datetime(2024, 1, 1)}
        )
    assert tx.outcome.committed


def test_ids_when_they_are_the_keys_of_a_mapping_then_taken(log: InMemoryCommitLog) -> None:
    tx = log.transaction()
    tx.read("t", files={0: (1, 2)})
    tx.delete("t", {0: range(2)})
    (read,), (delete,) = tx.reads, tx.changes
    assert isinstance(read, m.TableRead)
    assert read.files == (0,)
    assert isinstance(delete, m.Delete)
    assert list(delete.positions[0].rows) == [0, 1]


def test_row_when_its_time_is_a_whole_number_of_numpys_then_one_of_pythons_is_sent(log: InMemoryCommitLog) -> None:
    with log.transaction() as tx:
        tx.insert_row("k", {"id": 77}, row_time_us=np.int64(5))  # type: ignore[arg-type]
    (change,) = tx.changes
    assert isinstance(change, m.InsertRow)
    assert type(change.row_time_us) is int


def test_snapshot_when_it_is_a_whole_number_of_numpys_then_read_as_pythons(log: InMemoryCommitLog) -> None:
    table, head = log.table("k"), log.head_snapshot_id()
    given: Any = np.int64(head)
    for read in (lambda at: table.scan(snapshot=at).count(), table.files, lambda at: table.diff(1, at), table.diff):
        assert read(given) == read(head)


def test_on_conflict_when_the_table_has_no_key_then_refused_with_a_word(log: InMemoryCommitLog) -> None:
    tx = log.transaction()
    with pytest.raises(InvalidChangeError, match="no primary key"):
        tx.create_table("n", {"id": "int64"}, properties={"on_conflict": "LAST_UPDATE_WINS"})
    with pytest.raises(InvalidChangeError, match="no primary key"):
        tx.alter("t").set_property("on_conflict", "LAST_UPDATE_WINS")
    tx.alter("k").set_property("on_conflict", "LAST_UPDATE_WINS")


class _ArrowSchema:
    def __arrow_c_schema__(self) -> object:
        return pa.schema([("id", pa.int64())]).__arrow_c_schema__()


@pytest.mark.parametrize(
    "schema",
    [
        FRAME,
        pa.schema([("id", pa.int64())]),
        pa.table({"id": [1]}),
        {"id": pa.int64()},
        {"id": "int64"},
        [m.ColumnSpec("id", "int64")],
        _ArrowSchema(),
    ],
)
def test_create_table_when_the_schema_is_of_another_library_then_taken(log: InMemoryCommitLog, schema: Any) -> None:
    tx = log.transaction()
    tx.create_table("n", schema)
    assert [(each.name, str(each.type)) for each in tx.table("n").definition.columns] == [("id", "int64")]


def test_errors_then_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = [line.split("-- ")[1].split()[0] for line in (errors.__doc__ or "").splitlines() if "+--" in line]
    there = {
        name for name, each in vars(errors).items() if inspect.isclass(each) and issubclass(each, CommitLogError)
    } - {"CommitLogError"}
    assert sorted(drawn) == sorted(there)


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema([("id", pa.int64()), ("v", pa.string())]),
        pl.Schema({"id": pl.Int64, "v": pl.String}),
        pl.DataFrame(schema={"id": pl.Int64, "v": pl.String}),
        pl.DataFrame({"id": [1], "v": ["a"]}).to_pandas(),
        {"id": "int64", "v": "varchar"},
        {"id": pa.int64(), "v": pa.string()},
        {"id": pl.Int64, "v": pl.String()},
        {"id": np.dtype("int64"), "v": "varchar"},
        [m.ColumnSpec("id", "int64"), m.ColumnSpec("v", "varchar")],
    ],
    ids=lambda schema: type(schema).__name__,
)
def test_create_table_when_its_columns_come_in_any_form_then_the_same(log: InMemoryCommitLog, schema: Any) -> None:
    tx = log.transaction()
    tx.create_table("n", schema)
    tx.alter("n").add_column("w", pl.Float32).add_column("x", pa.date32()).add_column("y", np.dtype("int8"))
    assert [str(column.type) for column in tx.table("n").definition.columns] == [
        "int64", "varchar", "float32", "date", "int8",
    ]  # fmt: skip


def test_rows_when_their_filter_gives_its_conditions_only_once_then_those_that_match_go(tmp_path: Path) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    log.append("n", [{"id": id_} for id_ in range(4)], create=True)
    log.table("n").delete(("id", "=", id_) for id_ in (1,))
    log.table("n").overwrite([{"id": 2}], where=iter([("id", "=", 2)]))
    assert sorted(row["id"] for row in log.table("n").scan().to_arrow().to_pylist()) == [0, 2, 3]


@pytest.mark.parametrize(
    "ask",
    [
        lambda log, text: log.table(text),
        lambda log, text: log.append(text, [{"id": 1}], create=True),
        lambda log, text: log.history(writer=text),
        lambda log, text: log.subscribe(group=text),
        lambda log, text: log.transaction(message=text),
        lambda log, text: log.table("t").scan(where=("v", "=", text)),
        lambda log, text: log.table("t").delete(("v", "in", ["x", text])),
    ],
)
def test_text_when_it_has_half_of_a_character_then_refused_before_anybody_is_asked(
    tmp_path: Path, ask: Callable[[CommitLog, str], object]
) -> None:
    with InMemoryCommitLog(data_path=tmp_path) as log:
        log.append("t", [{"v": "x"}], create=True)
        with pytest.raises(InvalidRequestError, match=r"U\+D800|surrogates not allowed"):
            ask(log, "a\ud800")


def test_group_when_its_name_is_longer_than_kafka_takes_then_says_so(tmp_path: Path) -> None:
    with (
        InMemoryCommitLog(data_path=tmp_path) as log,
        pytest.raises(InvalidRequestError, match="up to 5,000 characters"),
    ):
        log.subscribe(group="x" * 5_001)
