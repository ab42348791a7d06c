"""The races that the stock DuckLake client gets wrong among its own kind, played through commitlog.

Of each pair of racing proposals, computed from one snapshot, the log decides which commits, and the stock client then
reads the right rows. What it does wrong by itself is in each docstring (measured with duckdb 1.5.5, DuckLake 1.0).
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from deciding import change, create_table, delete, insert, keyed_table, read_table
from lakes import ROW_ID, TYPES, Lake, some

from commitlog.domain.model import Outcome, Verdict

GRANULARITIES = ("TABLE", "FILE", "ROW")


def make_table(lake: Lake, rows: int, granularity: str) -> None:
    """Table t with one file of rows 0, 1, ..., which is data file 0."""
    lake.commit({**create_table(), "properties": {"conflict_granularity": granularity}})
    lake.append("t", some(*range(rows)), TYPES)


def large_delete(lake: Lake, rows: list[int]) -> dict[str, Any]:
    """A delete file for data file 0."""
    path = lake.delete_file(str(lake.folder / "f1.parquet"), rows)
    entry = {"data_file_id": 0, "path": path, "path_is_relative": False, "rows": rows, "file_size_bytes": 900}
    return change("DELETE", delete_files=[entry])


def compaction(lake: Lake, rows: list[int]) -> dict[str, Any]:
    """Rewrite data file 0 with these of its rows."""
    named = [{**row, ROW_ID: row["id"]} for row in some(*rows)]
    ids = {ROW_ID: {"PARQUET:field_id": "2147483540"}}
    return change("COMPACT", replaced=[0], files=[lake.write("t", named, {**TYPES, ROW_ID: pa.int64()}, ids=ids)])


def race(
    lake: Lake, first: list[dict[str, Any]], second: list[dict[str, Any]], **fields: Any
) -> tuple[Outcome, Outcome]:
    """Two writers propose from the same snapshot; the answers, once both are projected."""
    base = lake.log.head
    outcomes = [
        lake.log.propose(*changes, base=base, writer_id=writer, **fields)
        for writer, changes in (("w1", first), ("w2", second))
    ]
    lake.project()
    return outcomes[0], outcomes[1]


def check_first_wins(outcomes: tuple[Outcome, Outcome]) -> None:
    first, second = outcomes
    assert first.verdict is Verdict.COMMITTED, first.detail
    assert (second.verdict, second.reason) == (Verdict.REJECTED, "CONFLICT"), second.detail
    assert {c.committed_snapshot_id for c in second.conflicts} == {first.snapshot_id}
    assert {c.committed_writer_id for c in second.conflicts} == {"w1"}


def check_ids(lake: Lake, expected: set[int]) -> None:
    """These rows and no others, however they are counted, each once."""
    ids = ", ".join(str(i) for i in sorted(expected))
    assert lake.rows("SELECT id, rowid FROM t") == sorted([(i, i) for i in expected], key=repr)
    assert lake.rows("SELECT count(*) FROM t") == [(len(expected),)]
    assert lake.rows(f"SELECT count(*) FROM t WHERE id NOT IN ({ids})") == [(0,)]


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_two_delete_files_for_a_file_that_has_one_then_one_commits(lake: Lake, granularity: str) -> None:
    """The stock client commits both: the file then has two live delete files and is scanned twice, so that rows come twice,
    deleted ones are back, and count(*) says a third number.
    """
    make_table(lake, 20, granularity)
    lake.commit(large_delete(lake, [0]))
    first, second = large_delete(lake, [0, 1, 2]), large_delete(lake, [0, 10, 11])
    check_first_wins(race(lake, [first], [second]))
    check_ids(lake, set(range(3, 20)))
    lake.commit(large_delete(lake, [0, 1, 2, 10, 11]))
    check_ids(lake, set(range(3, 20)) - {10, 11})


def test_two_deletes_by_position_of_a_file_that_has_a_delete_file_then_both_commit_where_rows_are_told_apart(
    lake: Lake,
) -> None:
    """The same race at granularity ROW: deletes of other rows do not conflict, those of one row do."""
    make_table(lake, 20, "ROW")
    lake.commit(large_delete(lake, [0]))
    outcomes = race(lake, [delete({0: [1, 2]})], [delete({0: [10, 11]})])
    assert [outcome.verdict for outcome in outcomes] == [Verdict.COMMITTED, Verdict.COMMITTED]
    check_ids(lake, set(range(3, 20)) - {10, 11})
    check_first_wins(race(lake, [delete({0: [5, 6]})], [delete({0: [6, 7]})]))
    check_ids(lake, set(range(7, 20)) - {10, 11} | {3, 4})


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("small_first", [True, False])
def test_small_and_large_delete_of_one_row_then_one_commits(lake: Lake, granularity: str, small_first: bool) -> None:
    """The stock client commits both, one inlined and one as a delete file: 44 of 50 deleted rows were back (#1215)."""
    make_table(lake, 60, granularity)
    small, large = delete({0: [3]}), large_delete(lake, list(range(50)))
    check_first_wins(race(lake, [small], [large]) if small_first else race(lake, [large], [small]))
    check_ids(lake, set(range(60)) - {3} if small_first else set(range(50, 60)))


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("small_first", [True, False])
def test_small_delete_and_compaction_then_one_commits(lake: Lake, granularity: str, small_first: bool) -> None:
    """The stock client commits both in either order, and the delete is silently lost."""
    make_table(lake, 5, granularity)
    small, compact = delete({0: [3]}), compaction(lake, [0, 1, 2, 3, 4])
    check_first_wins(race(lake, [small], [compact]) if small_first else race(lake, [compact], [small]))
    check_ids(lake, {0, 1, 2, 4} if small_first else {0, 1, 2, 3, 4})


@pytest.mark.parametrize(
    ("policy", "value"), [("ABORT", "first"), ("LAST_UPDATE_WINS", "second"), ("KEEP_EXISTING", "first")]
)
def test_upsert_of_one_key_twice_then_one_row(lake: Lake, policy: str, value: str) -> None:
    """The stock client commits both of two MERGEs that found no row to match: the key is there twice (#1393)."""
    lake.commit(keyed_table("t", on_conflict=policy))
    first, second = race(lake, [insert("t", 5, id=7, v="first")], [insert("t", 6, id=7, v="second")])
    if policy == "ABORT":
        check_first_wins((first, second))
    else:
        assert (first.verdict, second.verdict) == (Verdict.COMMITTED, Verdict.COMMITTED)
        assert [str(r.kind) for r in second.resolutions] == ["INSERT_INSERT"]
    assert lake.rows("SELECT id, v FROM t") == [(7, value)]
    assert lake.rows("SELECT count(*) FROM t WHERE id = 7") == [(1,)]


def test_upsert_twice_into_files_then_one_commits_under_serializable(lake: Lake) -> None:
    """The stock client's DELETE that matches nothing, with its INSERT, leaves no trace to conflict with: two rows of a key.

    Here the read of the key is in the proposal. An upsert of another key, which file statistics tell apart, commits.
    """
    make_table(lake, 3, "FILE")
    fields: dict[str, Any] = {"isolation": "SERIALIZABLE"}
    base = lake.log.head
    outcomes = []
    for key in (7, 7, 8):
        upsert = change("APPEND", files=[lake.write("t", some(key), TYPES)])
        outcomes.append(lake.log.propose(upsert, base=base, reads=[read_table("t", ("id", "=", key))], **fields))
    lake.project()
    assert [outcome.verdict for outcome in outcomes] == [Verdict.COMMITTED, Verdict.REJECTED, Verdict.COMMITTED]
    assert lake.rows("SELECT id FROM t") == [(0,), (1,), (2,), (7,), (8,)]


def test_write_skew_over_two_tables_then_one_commits_under_serializable(lake: Lake) -> None:
    """The stock client has snapshot isolation: each reads the table that the other writes, and both commit."""
    lake.commit(create_table("t"), create_table("u"))
    base = lake.log.head
    verdicts = []
    for read, written in (("t", "u"), ("u", "t")):
        file = lake.write(written, some(1), TYPES)
        outcome = lake.log.propose(
            change("APPEND", written, files=[file]), base=base, reads=[read_table(read)], isolation="SERIALIZABLE"
        )
        verdicts.append(outcome.verdict)
    lake.project()
    assert verdicts == [Verdict.COMMITTED, Verdict.REJECTED]
    assert lake.rows("SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM u)") == [(0, 1)]


@pytest.mark.parametrize("drop_first", [True, False])
def test_drop_and_rename_then_one_commits(lake: Lake, drop_first: bool) -> None:
    """The stock client commits both: the table is gone, and the one who renamed it was told that it worked."""
    make_table(lake, 3, "FILE")
    drop, rename = change("DROP_TABLE"), change("RENAME_TABLE", new_table="u")
    check_first_wins(race(lake, [drop], [rename]) if drop_first else race(lake, [rename], [drop]))
    tables = lake.rows("SELECT table_name FROM duckdb_tables() WHERE database_name = 'lake'")
    assert tables == ([] if drop_first else [("u",)])
    if not drop_first:
        assert lake.rows("SELECT id FROM u") == [(0,), (1,), (2,)]
