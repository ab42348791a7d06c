"""Our own views as a user asks them, and that the page about them tells exactly what they have."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from deciding import (
    change,
    compact,
    create_table,
    delete,
    delete_row,
    delete_whole,
    insert,
    keyed_table,
    make_id,
    update,
)
from deciding_sites import KEYED, brought, node
from lakes import TYPES, Lake

from commitlog.catalog.table_changes import ReadersCatalog
from commitlog.catalog.tables import VIEWS
from commitlog.domain.model import KnownNode

PAGE = Path(__file__).parents[2] / "docs" / "catalog-views.md"


def sections() -> dict[str, tuple[list[tuple[str, str]], list[str]]]:
    """By view: its columns with their types, and the example queries."""
    found = {}
    for text in PAGE.read_text(encoding="utf-8").split("\n## commitlog.")[1:]:
        rows = re.findall(r"^\| (\w+) \| ([^|]+) \| [^|]+\|$", text, re.MULTILINE)
        examples = [each for block in re.findall(r"```sql\n(.*?)```", text, re.DOTALL) for each in block.split(";")]
        found[text.split("\n")[0]] = (rows[1:], [each for each in examples if each.strip()])
    return found


def asked(lake: Lake, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(lake.database_url) as conn:
        return conn.execute(query.encode(), parameters or None).fetchall()


def test_page_when_read_then_has_every_view_with_its_columns_in_order(lake: Lake) -> None:
    told = sections()
    assert set(told) == {*VIEWS, "outcomes"}
    for view, (columns, _) in told.items():
        found = asked(
            lake,
            "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 "
            "ORDER BY attnum",
            f"commitlog.{view}",
        )
        assert columns == found, view


def test_page_when_its_examples_are_run_then_they_answer(lake: Lake) -> None:
    lake.commit(create_table())
    for view, (_, examples) in sections().items():
        assert examples, view
        for example in examples:
            asked(lake, example)


def test_tables_when_rows_come_and_go_then_counts_what_a_reader_counts(lake: Lake) -> None:
    def check() -> None:
        counted = dict(asked(lake, "SELECT table_name, record_count FROM commitlog.tables"))
        with lake.reader() as client:
            for table, count in counted.items():
                assert client.execute(f"SELECT count(*) FROM {table}").fetchone() == (count,), table

    lake.commit(create_table(), keyed_table(), create_table("empty"))
    check()
    for start in (0, 10, 20):
        lake.append("t", [{"id": n, "v": "x"} for n in range(start, start + 10)], TYPES)
    lake.commit(insert(id=1, v="x"), insert(id=2, v="y"), insert(id=3, v="z"))
    check()
    lake.commit(delete({0: [1, 2], 1: [0]}))
    path = str(lake.folder / "f2.parquet")
    size = {"file_size_bytes": 1}
    deleted = lake.delete_file(path, [3, 4, 5])
    size["file_size_bytes"] = Path(deleted).stat().st_size
    entry = {"data_file_id": 1, "path": deleted, "path_is_relative": False, "rows": [3, 4, 5], **size}
    lake.commit(change("DELETE", "t", delete_files=[entry]))
    lake.commit(update(1, v="w"), delete_row(2))
    check()
    assert asked(lake, "SELECT record_count, data_file_count FROM commitlog.tables ORDER BY table_id") == [
        (24, 3),
        (2, 0),
        (0, 0),
    ]
    lake.commit(delete_whole(0))
    check()
    lake.commit({"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": lake.log.head})
    check()
    lake.commit(change("DROP_TABLE", "t"), change("RENAME_TABLE", "k", new_table="k2"))
    check()
    assert [row[0] for row in asked(lake, "SELECT table_name FROM commitlog.tables ORDER BY 1")] == ["empty", "k2"]


def test_divergent_rows_when_held_back_and_released_then_listed_and_readers_see_what_stands(lake: Lake) -> None:
    def check(*held: tuple[str, str, str], stand: list[tuple[int, str]]) -> None:
        lake.project()
        query = "SELECT row_key, kind, met_row ->> 'v' FROM commitlog.divergent_rows ORDER BY 1"
        assert asked(lake, query) == list(held)
        assert lake.rows("SELECT id, v FROM k") == stand

    lake.commit(keyed_table("k", KEYED, unique=[["w"]]))
    lake.commit(node("a", 1))
    lake.commit(insert(id=1, v="a", w="x"))
    brought(lake.log, insert(id=2, v="b", w="x"), insert(id=3, v="b", w="y"), tick=1)
    check(("2", "UNIQUE", "a"), stand=[(1, "a"), (3, "b")])
    brought(lake.log, insert(id=4, v="z", w="y"), by={"node": "z", "priority": 0}, tick=1)
    check(("2", "UNIQUE", "a"), ("3", "UNIQUE", "z"), stand=[(1, "a"), (4, "z")])
    lake.commit(delete_row(1))
    check(("3", "UNIQUE", "z"), stand=[(2, "b"), (4, "z")])
    lake.commit(delete_row(3), insert(id=5, v="a"))
    check(stand=[(2, "b"), (4, "z"), (5, "a")])
    brought(lake.log, insert(id=6, w="x"), tick=2)
    lake.commit(change("DROP_TABLE", "k"))
    assert asked(lake, "SELECT * FROM commitlog.divergent_rows") == []


def test_sites_when_others_are_taken_over_then_lists_how_far_and_knows_it_of_any_place(lake: Lake) -> None:
    query = "SELECT node, priority, is_here, next_tick FROM commitlog.sites ORDER BY 1"
    lake.commit(keyed_table("k", KEYED))
    assert asked(lake, query) == []
    lake.commit(node("m", 1))
    brought(lake.log, insert(id=1, v="b"), tick=4)
    before = lake.log.state.next_seq
    brought(lake.log, insert(id=2, v="z"), by={"node": "z", "priority": 7}, tick=9)
    brought(lake.log, insert(id=3, v="b"), tick=6)
    brought(lake.log, insert(id=1, v="b"), tick=4)
    lake.project()
    assert asked(lake, query) == [("b", 2, False, 7), ("m", 1, True, None), ("z", 7, False, 10)]
    with contextlib.closing(ReadersCatalog(lake.database_url)) as catalog:
        assert catalog.own_node() == lake.log.state.node
        assert catalog.digest() == lake.log.state.digest
        assert catalog.digest(before) == {"b": KnownNode("b", 5, 2)}
        assert catalog.last_by("link:none") is None
        # What a site that made nothing tells one that joins is no snapshot of its own.
        lake.commit({"kind": "CREATE_SCHEMA", "schema": "s"}, writer_id="link:b", writer_seq=7)
        assert catalog.last_by("link:b") == (7, lake.log.state.next_seq - 1)
        assert (catalog.taken_over_by("b", 4), catalog.taken_over_by("b", 5)) == (before - 1, None)


def test_outcomes_when_snapshots_expire_then_still_answer_by_proposal_id(lake: Lake) -> None:
    lake.commit(create_table())
    lake.log.refused("INVALID", compact([5], 1))
    lake.log.propose(create_table(), id=make_id(1))
    lake.commit(create_table("u"))
    lake.commit({"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": lake.log.head})
    query = "SELECT seq, verdict, original_seq FROM commitlog.outcomes WHERE proposal_id = %s ORDER BY seq"
    assert asked(lake, query, UUID(make_id(1))) == [(1, "COMMITTED", None), (3, "DUPLICATE", 1)]
    assert asked(lake, query, UUID(make_id(2))) == [(2, "REJECTED", None)]
    indexed = asked(lake, "SELECT indexdef FROM pg_indexes WHERE tablename = 'outcomes'")
    assert {"proposal_id", "snapshot_id"} <= {name for (text,) in indexed for name in re.findall(r"\((\w+)\)", text)}
    assert asked(lake, "SELECT snapshot_id, writer_id, change_kinds FROM commitlog.commits ORDER BY 1") == [
        (2, "w1", "CREATE_TABLE"),
        (3, "w1", "EXPIRE_SNAPSHOTS"),
    ]
    assert asked(lake, "SELECT writer_id, committed, rejected, duplicates FROM commitlog.writers") == [("w1", 3, 1, 1)]
    assert asked(lake, "SELECT head_snapshot_id FROM commitlog.lag") == []
