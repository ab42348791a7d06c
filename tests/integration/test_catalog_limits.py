"""What a default PostgreSQL has no room for: outcomes are shared out and split, and the one that does not go is named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
from deciding import DecidedLog, alter, append, change, create_table, data_file, delete, insert, keyed_table
from lakes import Lake
from projecting import Projecting, records_of
from psycopg import sql

from commitlog.catalog import outside_files, snapshot_diff, together
from commitlog.catalog.census import census
from commitlog.catalog.projecting import expiry
from commitlog.catalog.projector import LOSSES_MAX, Session
from commitlog.catalog.queries import Catalog
from commitlog.catalog.shares import LOCKS_MAX
from commitlog.catalog.snapshot_diff import Shape, TableDifference, compared, differences
from commitlog.catalog.table_changes import ReadersCatalog
from commitlog.catalog.writing import ROWS_WAITING_MAX
from commitlog.domain.model import Effect, Outcome
from commitlog.errors import ProjectionError
from commitlog.log.results import ResultRecord


@pytest.fixture
def projecting(database_url: str, lake_dir: Path) -> Projecting:
    return Projecting(database_url, lake_dir)


def broken(outcome: Outcome, how: str) -> Outcome:
    """The outcome as no sequencer decides it: PostgreSQL does not take its text, or we do not know its table."""
    if how == "text":
        assert outcome.proposal is not None
        return outcome.replace(proposal=outcome.proposal.replace(message="a\0b"))
    return outcome.replace(effects=(Effect(object_id=9_999),))


@pytest.mark.parametrize("how", ["text", "table"])
def test_apply_when_one_outcome_cannot_be_projected_then_all_before_it_are_and_it_is_named_each_time(
    projecting: Projecting, how: str
) -> None:
    log = DecidedLog()
    log.commit(create_table())
    for number in range(40):
        log.commit(append(data_file(path=f"f{number}.parquet")))
    good = log.outcomes[24]
    log.outcomes[24] = broken(good, how)
    records = records_of(log)
    for _ in range(2):
        with pytest.raises(ProjectionError, match=r"outcome 25 \(snapshot 25, proposal .* by writer 'w1'.*APPEND"):
            projecting.apply_rest(records)
        assert projecting.applied_seq() == 24
    log.outcomes[24] = good
    projecting.apply_rest(records_of(log))
    assert projecting.applied_seq() == 41


def test_apply_when_the_connection_is_lost_at_the_same_outcome_again_and_again_then_it_is_named(
    projecting: Projecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = DecidedLog()
    log.commit(create_table())
    for number in range(8):
        log.commit(append(data_file(path=f"f{number}.parquet")))
    records = records_of(log)
    deadly = 5
    project = Session._apply_together

    def dying(session: Session, given: list[ResultRecord], next_offset: int) -> None:
        if any(isinstance(r.value, Outcome) and r.value.seq == deadly for r in given):
            with session.catalog.conn.transaction():
                session.catalog.conn.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        project(session, given, next_offset)

    monkeypatch.setattr(Session, "_apply_together", dying)
    losses = 0
    while True:
        with pytest.raises((psycopg.OperationalError, ProjectionError)) as raised:
            projecting.apply_rest(records)
        if raised.type is ProjectionError:
            break
        losses += 1
        assert losses <= 2 * LOSSES_MAX
    assert "outcome 5 (" in str(raised.value)
    assert projecting.applied_seq() == 4


def test_apply_when_many_small_changesets_make_tables_then_no_sql_transaction_takes_more_locks_than_it_may(
    projecting: Projecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = DecidedLog()
    for number in range(60):
        log.commit(*[create_table(f"t{number}_{each}") for each in range(10)])
    held: list[int] = []
    write_position = Session._write_position

    def looking(session: Session, *position: Any) -> None:
        row = session.catalog.conn.execute("SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid()").fetchone()
        held.append(0 if row is None else row[0])
        write_position(session, *position)

    monkeypatch.setattr(Session, "_write_position", looking)
    projecting.apply_rest(records_of(log))
    assert projecting.applied_seq() == 60
    assert max(held) <= LOCKS_MAX
    assert sum(held) > 1.5 * LOCKS_MAX, "there were too few tables to tell"


def test_project_when_a_changeset_has_more_rows_than_wait_at_once_then_memory_holds_some_and_all_are_written(
    database_url: str, lake_dir: Path
) -> None:
    lake = Lake(database_url, lake_dir)
    lake.commit(create_table(), keyed_table())
    positions = ROWS_WAITING_MAX * 2 + 5
    lake.commit(append(data_file(rows=positions + 1)))
    most = 0
    count = type(lake.projection.buffer)._count

    def counting(buffer: Any, *more: int) -> None:
        nonlocal most
        count(buffer, *more)
        most = max(most, sum(map(len, (*buffer._rows.values(), *buffer._texts.values()))))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(lake.projection.buffer), "_count", counting)
        lake.commit(delete({0: list(range(positions))}), base=lake.log.head)
    assert most <= ROWS_WAITING_MAX
    rows = lake.conn.execute("SELECT count(*), count(DISTINCT row_id) FROM ducklake_inlined_delete_1").fetchone()
    assert rows == (positions, positions)
    lake.close()


def test_project_when_rows_are_sent_in_the_middle_of_a_changeset_then_what_ends_in_it_ends(
    database_url: str, lake_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commitlog.catalog.writing.ROWS_WAITING_MAX", 3)
    lake = Lake(database_url, lake_dir)
    lake.commit(create_table(), keyed_table())
    for number in range(6):
        lake.log.commit(insert(id=number, v="a"))
        lake.log.commit(append(data_file(path=f"f{number}.parquet")))
    for number in range(6):
        lake.log.commit(change("UPDATE_ROW", "k", key={"id": number}, row={"id": number, "v": "b"}))
    files = sorted(lake.log.state.tables[1].live_files)
    lake.log.commit(change("DELETE", whole_files=files[:4]))
    lake.project()
    assert lake.rows("SELECT id, v FROM k") == [(number, "b") for number in range(6)]
    left = lake.conn.execute("SELECT count(*) FROM ducklake_data_file WHERE end_snapshot IS NULL").fetchone()
    assert left == (2,)
    lake.close()


def test_project_when_a_refused_proposal_names_what_no_index_takes_or_what_is_shown_as_one_name_then_goes_on(
    projecting: Projecting, database_url: str
) -> None:
    chance = Random(1)
    long = "".join(chr(chance.randrange(0x10000, 0x20000)) for _ in range(10_000))
    log = DecidedLog()
    log.commit(create_table())
    log.refused("INVALID", append(table=long), append(table=long + "x"), change("DROP_TABLE", long, schema=long))
    log.refused("INVALID", append(table="a\0"), append(table="a\\x00"))
    projecting.apply_rest(records_of(log))
    with psycopg.connect(database_url) as conn:
        rows = conn.execute("SELECT schema_name, table_name FROM commitlog.refused_tables").fetchall()
    assert sorted(rows) == [("main", "a\\x00"), ("main", long[:300]), (long[:300], long[:300])]


def test_project_when_names_have_percent_signs_then_no_placeholder_is_seen_in_them(
    database_url: str, lake_dir: Path
) -> None:
    lake = Lake(database_url, lake_dir)
    names = ["discount %", "%s", "a%(b)s", "%\u00e9", "%%"]
    columns = [{"name": name, "type": "int64", "nullable": name != "%s"} for name in names]
    lake.commit({**create_table("100%"), "columns": columns, "primary_key": ["%s"]})
    lake.commit(insert("100%", **dict.fromkeys(names, 7)))
    lake.commit(change("ALTER_TABLE", "100%", alterations=[{"op": "RENAME_COLUMN", "name": "%%", "new_name": "%t"}]))
    lake.commit(change("UPDATE_ROW", "100%", key={"%s": 7}, row={"%s": 7, "%t": 8, "discount %": 9}))
    assert lake.rows('SELECT "%s", "%t", "discount %" FROM "100%"') == [(7, 8, 9)]
    lake.close()


def test_expire_when_more_tables_hold_ended_rows_than_are_emptied_at_once_then_the_next_ones_empty_the_rest(
    database_url: str, lake_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "EMPTIED_MAX", 3)
    monkeypatch.setattr(together, "TOGETHER", 2)
    lake = Lake(database_url, lake_dir)
    tables = [f"k{number}" for number in range(8)]
    lake.commit(*[keyed_table(name) for name in tables])
    for name in tables:
        lake.commit(insert(name, id=1, v="a"))
        lake.commit(change("UPDATE_ROW", name, key={"id": 1}, row={"id": 1, "v": "b"}))
    lake.commit(*[change("DROP_TABLE", name) for name in tables[:4]])

    left = []
    for _ in range(4):
        lake.commit({"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": lake.log.head})
        left.append((sum(_rows_in(lake.conn, name) for name in _rows_tables(lake.conn)), _registered(lake.conn)))
    # Of each of 8 tables an ended row and a live one; 4 of them are gone.
    assert left == [(16 - 3 - 6, 8 - 3), (16 - 4 - 8, 4), (4, 4), (4, 4)]
    assert lake.rows(f"SELECT v FROM {tables[5]}") == [("b",)]
    lake.close()


def test_expire_then_tables_that_hold_nothing_to_forget_are_not_locked(database_url: str, lake_dir: Path) -> None:
    lake = Lake(database_url, lake_dir)
    lake.commit(*[keyed_table(f"k{number}") for number in range(50)])
    lake.commit(insert("k7", id=1, v="a"))
    lake.log.commit({"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": 2})
    with lake.conn.transaction():
        lake.projection.project(lake.log.outcomes[lake.projected :])
        assert _locks(lake.conn) == 0
    lake.close()


def test_counts_of_all_tables_then_no_more_of_them_are_locked_than_are_looked_at_together(
    database_url: str, lake_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(together, "TOGETHER", 20)
    lake = Lake(database_url, lake_dir)
    lake.commit(*[keyed_table(f"k{number}") for number in range(50)], create_table())
    lake.commit(insert("k7", id=1, v="a"), insert("k7", id=2, v="b"), insert("k31", id=1, v="a"))
    lake.commit(append(data_file(rows=10)))
    [file] = lake.log.outcomes[-1].assigned.data_file_ids
    lake.commit(delete({file: [1, 2, 5]}))
    before, head = 1, lake.log.head
    with closing(Catalog(database_url)) as catalog, catalog.at_once() as conn:
        changed = {each.after: each for each in differences(catalog, before, head) if isinstance(each, TableDifference)}
        counted = {
            table_id: (each.rows_in_files, each.rows_elsewhere) for table_id, each in census(catalog, head).items()
        }
        assert _locks(conn) == 0
    assert {named.name: each.rows_after for named, each in changed.items() if named} == {"k7": 2, "k31": 1, "t": 7}
    assert sorted(counted.values())[-3:] == [(0, 1), (0, 2), (7, 0)]
    with lake.conn.transaction():
        shown = lake.conn.execute(
            "SELECT table_name, record_count FROM commitlog.tables WHERE record_count > 0"
        ).fetchall()
        assert dict(shown) == {"k7": 2, "k31": 1, "t": 7}
        assert _locks(lake.conn) == 0
    lake.close()


def test_rows_in_no_file_when_their_table_was_altered_often_then_only_what_holds_some_is_read(
    database_url: str, lake_dir: Path
) -> None:
    lake = Lake(database_url, lake_dir)
    lake.commit(keyed_table())
    lake.commit(insert(id=1, v="a"))
    for number in range(30):
        lake.commit(alter("ADD_COLUMN", "k", column={"name": f"c{number}", "type": "int64"}))
        if number == 15:
            lake.commit(insert(id=2, v="b"))
    before = lake.log.head
    lake.commit(insert(id=3, v="c"))
    with closing(ReadersCatalog(database_url)) as catalog, catalog.at_once() as conn:
        table = catalog.table_at("main", "k", before)
        assert table is not None
        table_id = table.definition.table_id
        assert [row[1] for row in catalog.rows_at(table_id, lake.log.head)] == [1, 2, 3]
        assert [row[1] for row in catalog.rows_at(table_id, before)] == [1, 2]
        assert [row[1] for _, row in catalog.rows_by_id_at(table_id, before)] == [1, 2]
        assert catalog.row_count_at(table_id, before) == 2
        assert len(catalog.changes(table, 0, before).rows(deletes=True)) == 2
        assert _locks(conn) == 3
    lake.close()


def test_diff_when_tables_are_many_then_only_those_that_changed_are_looked_at(
    database_url: str, lake_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(database_url, lake_dir)
    lake.commit(*[keyed_table(f"k{number}") for number in range(20)], create_table())
    lake.commit(*[insert(f"k{number}", id=1, v="a") for number in range(20)])
    lake.commit(append(data_file(rows=10)))
    [file] = lake.log.outcomes[-1].assigned.data_file_ids
    before = lake.log.head
    lake.commit(insert("k7", id=2, v="b"), change("DROP_TABLE", "k8"), delete({file: [1, 2]}))
    lake.commit(change("RENAME_TABLE", "k9", new_table="m9"))
    looks: list[sql.Composed] = []

    def counted(conn: Any, asked: Iterable[sql.Composed]) -> Iterator[tuple[Any, ...]]:
        given = list(asked)
        looks.extend(given)
        return together.looked_at(conn, given)

    named: list[set[str]] = []

    def noted(*shapes: Shape) -> Any:
        named.extend({table.named.name for table in shape.tables.values()} for shape in shapes)
        return compared(*shapes)

    monkeypatch.setattr(outside_files, "looked_at", counted)
    monkeypatch.setattr(snapshot_diff, "compared", noted)
    with closing(Catalog(database_url)) as catalog:
        found = [each for each in differences(catalog, before, lake.log.head) if isinstance(each, TableDifference)]
    assert [((each.after or each.before).name, each.rows_before, each.rows_after) for each in found] == [
        ("k7", 1, 2),
        ("k8", 1, 0),
        ("m9", 1, 1),
        ("t", 10, 8),
    ]
    assert named == [{"k7", "k8", "k9", "t"}, {"k7", "m9", "t"}]
    # Of each of the four, which of them may have rows beside files, and of the one with deletes by position, at both snapshots.
    assert len(looks) <= 2 * 5
    lake.close()


def _rows_tables(conn: Any) -> list[str]:
    """The inlined data tables."""
    found = conn.execute(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^ducklake_inlined_data_[0-9]'"
    )
    return [name for (name,) in found.fetchall()]


def _rows_in(conn: Any, table: str) -> int:
    return int(conn.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()[0])


def _registered(conn: Any) -> int:
    return int(conn.execute("SELECT count(*) FROM ducklake_inlined_data_tables").fetchone()[0])


def _locks(conn: Any) -> int:
    """How many inlined data tables this session has locked."""
    row = conn.execute(
        "SELECT count(DISTINCT relation) FROM pg_locks JOIN pg_class c ON c.oid = relation WHERE pid = pg_backend_pid() "
        "AND c.relkind = 'r' AND c.relname ~ '^ducklake_inlined_data_[0-9]'"
    ).fetchone()
    return int(row[0])
