"""Rows of tables with a primary key, changed by stock clients: as in DuckDB's own table, and by key in the log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from random import Random
from typing import Any

import duckdb
import pytest
from gateway_checks import faults
from gateway_sides import DecidedCommits, lake_through_gateway, writing
from kinds import KINDS, Kind
from sides import Ours, quote

from commitlog.domain import model as m

COLUMNS = {"id": KINDS["int64"], **{f"c{n}": kind for n, kind in enumerate(KINDS.values()) if kind.in_rows}}
STEPS = 60
SIDES = ("l.k", "memory.k")


@pytest.fixture(scope="module")
def lake(
    new_database: Callable[[], AbstractContextManager[str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Ours, DecidedCommits, str]]:
    with lake_through_gateway(new_database, tmp_path_factory.mktemp("keyed")) as lake:
        yield lake


@pytest.fixture
def table(lake: tuple[Ours, DecidedCommits, str]) -> Iterator[str]:
    """A keyed table `k` of a text under a number, and the URL by which it is written."""
    ours, _, url = lake
    create(ours, {"id": KINDS["int64"], "v": KINDS["varchar"]})
    yield url
    ours.commit([{"kind": "DROP_TABLE", "schema": "main", "table": "k"}])


def create(ours: Ours, columns: dict[str, Kind]) -> None:
    specs = [{"name": name, "type": kind.name, "nullable": name != "id"} for name, kind in columns.items()]
    change = {"kind": "CREATE_TABLE", "schema": "main", "table": "k", "columns": specs, "primary_key": ["id"]}
    ours.commit([{**change, "properties": {"foreign_paths": "true"}}])


def flush(ours: Ours) -> None:
    """Take the rows that are in no file into one."""
    definition = ours.definition("main", "k")
    with ours.conn.transaction():
        named = "SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = %s"
        found = [
            row_id
            for (name,) in ours.conn.execute(named, (definition.table_id,)).fetchall()
            for (row_id,) in ours.conn.execute(
                f"SELECT row_id FROM {name} WHERE end_snapshot IS NULL".encode()
            ).fetchall()
        ]
    if not found:
        return
    ours.client.attach("ours")
    listed = ", ".join(map(str, sorted(found)))
    query = f"SELECT *, rowid AS _ducklake_internal_row_id FROM ours.k WHERE rowid IN ({listed}) ORDER BY rowid"
    file = ours.write(definition, query, by_duckdb=True, with_ids=True)
    ours.client.detach("ours")
    change = {"kind": "FLUSH", "schema": "main", "table": "k"}
    ours.commit([{**change, "files": [{**file, "row_ids": sorted(found)}]}])


def drawn(random: Random, key: int) -> str:
    values = [str(key), *(kind.draw(random)[0] for name, kind in COLUMNS.items() if name != "id")]
    kinds = [f"({value})::{kind.sql}" for value, kind in zip(values, COLUMNS.values(), strict=True)]
    return f"({', '.join(kinds)})"


def step(random: Random) -> str:
    """What one transaction does, with a place for the table."""
    keys = random.sample(range(12), random.randint(1, 4))
    rows = ", ".join(drawn(random, key) for key in keys)
    listed = ", ".join(map(str, keys))
    sets = ", ".join(f"{name} = s.{name}" for name in COLUMNS if name != "id")
    names = ", ".join(COLUMNS)
    merge = f"MERGE INTO {{t}} USING (VALUES {rows}) s({names}) ON {{t}}.id = s.id WHEN MATCHED THEN UPDATE SET {sets}"
    column = random.choice(list(COLUMNS)[1:])
    value = COLUMNS[column].draw(random)[0]
    return random.choice(
        [
            f"{merge} WHEN NOT MATCHED THEN INSERT",
            f"{merge} WHEN NOT MATCHED THEN INSERT",
            f"DELETE FROM {{t}} WHERE id IN ({listed})",
            f"UPDATE {{t}} SET {column} = ({value})::{COLUMNS[column].sql} WHERE id IN ({listed})",
            f"UPDATE {{t}} SET {column} = NULL",
            f"BEGIN; DELETE FROM {{t}} WHERE id IN ({listed}); INSERT INTO {{t}} VALUES {rows}; COMMIT",
            f"BEGIN; DELETE FROM {{t}} WHERE id IN ({listed}); INSERT INTO {{t}} VALUES {rows}; "
            f"UPDATE {{t}} SET {column} = NULL WHERE id = {keys[0]}; DELETE FROM {{t}} WHERE id = {keys[-1]}; COMMIT",
            f"UPDATE {{t}} SET id = {random.randint(100, 10**9)} WHERE id = {keys[0]}",
            "UPDATE {t} SET id = id + 1",
            f"BEGIN; DELETE FROM {{t}} WHERE id = {keys[0]} + 1; UPDATE {{t}} SET id = {keys[0]} + 1 WHERE id = {keys[0]}; "
            f"INSERT INTO {{t}} SELECT {keys[0]}, * EXCLUDE id FROM {{t}} WHERE id = {keys[0]} + 1; COMMIT",
            "DELETE FROM {t} WHERE id >= 100",
            "TRUNCATE {t}" if random.random() < 0.2 else merge,
        ]
    )


def rows(client: duckdb.DuckDBPyConnection, place: str) -> list[Any]:
    return sorted(map(repr, client.execute(f"SELECT * FROM {place}").fetchall()))


def test_a_table_with_a_key_when_stock_clients_change_it_at_random_then_as_in_duckdbs_own(
    lake: tuple[Ours, DecidedCommits, str],
) -> None:
    ours, commits, url = lake
    create(ours, COLUMNS)
    random, told = Random(5), []
    with writing(url, "l") as client:
        columns = ", ".join(f"{quote(name)} {kind.sql}" for name, kind in COLUMNS.items())
        client.execute(f"CREATE TABLE memory.k ({columns})")
        for _ in range(STEPS):
            told.append(step(random))
            for place in SIDES:
                client.execute(told[-1].replace("{t}", place))
            assert rows(client, SIDES[0]) == rows(client, SIDES[1]), told
            if random.random() < 0.2:
                flush(ours)
    assert list(faults(ours)) == []
    kinds = {type(change) for changes in commits.proposed for change in changes}
    assert kinds == {m.InsertRow, m.UpdateRow, m.DeleteRow}
    ours.commit([{"kind": "DROP_TABLE", "schema": "main", "table": "k"}])


def test_a_row_that_is_updated_keeps_its_id_wherever_it_lies(
    lake: tuple[Ours, DecidedCommits, str], table: str
) -> None:
    with writing(table, "l") as client:
        client.execute("INSERT INTO l.k VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        flush(lake[0])
        client.execute("INSERT INTO l.k VALUES (4, 'd')")
        ids = client.execute("SELECT id, rowid FROM l.k ORDER BY id").fetchall()
        client.execute("UPDATE l.k SET v = 'z' WHERE id IN (2, 4)")
        client.execute("BEGIN; DELETE FROM l.k WHERE id = 3; INSERT INTO l.k VALUES (3, 'again'); COMMIT")
        assert client.execute("SELECT id, rowid FROM l.k ORDER BY id").fetchall() == ids
        assert rows(client, "l.k") == ["(1, 'a')", "(2, 'z')", "(3, 'again')", "(4, 'z')"]


def test_two_clients_that_change_rows_by_key_then_only_the_same_row_is_refused(table: str) -> None:
    with writing(table, "l") as one, writing(table, "l") as two:
        one.execute("INSERT INTO l.k VALUES (1, 'a'), (2, 'b')")
        one.execute("BEGIN; UPDATE l.k SET v = 'one' WHERE id = 1")
        two.execute("UPDATE l.k SET v = 'two' WHERE id = 2")
        one.execute("COMMIT")
        assert rows(one, "l.k") == ["(1, 'one')", "(2, 'two')"]
        for statement in ("UPDATE l.k SET v = 'three' WHERE id = 1", "DELETE FROM l.k WHERE id = 1"):
            one.execute(f"BEGIN; {statement}")
            two.execute(f"UPDATE l.k SET v = '{len(statement)}' WHERE id = 1")
            with pytest.raises(duckdb.Error, match=r"main\.k"):
                one.execute("COMMIT")
        one.execute("BEGIN; INSERT INTO l.k VALUES (7, 'one')")
        two.execute("INSERT INTO l.k VALUES (7, 'two')")
        with pytest.raises(duckdb.Error, match=r"main\.k"):
            one.execute("COMMIT")
        assert rows(one, "l.k")[-1] == "(7, 'two')"


def test_what_the_key_forbids_is_refused_in_the_logs_words(table: str) -> None:
    with writing(table, "l") as client:
        client.execute("INSERT INTO l.k VALUES (1, 'a')")
        for statement, said in (
            ("INSERT INTO l.k VALUES (1, 'b')", "already"),
            ("INSERT INTO l.k VALUES (2, 'a'), (2, 'b')", "twice"),
            ("BEGIN; ALTER TABLE l.k ADD COLUMN w INTEGER; INSERT INTO l.k VALUES (5, 'e', 1); COMMIT", "split"),
        ):
            with pytest.raises(duckdb.Error, match=said):
                client.execute(statement)
        assert rows(client, "l.k") == ["(1, 'a')"]


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("timestamp", "TIMESTAMP 'infinity'", "the value 'infinity' is no date"),
        ("timestamptz", "TIMESTAMPTZ '20000-01-01 00:00:00+00'", "the value '20000-01-01 00:00:00.000000Z' is no date"),
        ("date", "DATE '0044-03-15 (BC)'", "the value '-0043-03-15' is no date"),
        ("list(date)", "[DATE 'infinity']", 'infinity"] is no date'),
        ("time", "TIME '24:00:00'", "is no time of the form"),
        ("list(time)", "[TIME '24:00:00']", "is no time of the form"),
        ("struct(t time)", "{t: TIME '24:00:00'}", "is no time of the form"),
    ],
)
def test_a_time_that_the_log_does_not_hold_is_refused_in_its_words(
    lake: tuple[Ours, DecidedCommits, str], kind: str, value: str, said: str
) -> None:
    ours, _, url = lake
    columns = [{"name": "id", "type": "int64", "nullable": False}, {"name": "v", "type": kind}]
    ours.commit([{"kind": "CREATE_TABLE", "schema": "main", "table": "k", "columns": columns, "primary_key": ["id"]}])
    with writing(url, "l") as client:
        with pytest.raises(duckdb.Error, match=re.escape(said)):
            client.execute(f"INSERT INTO l.k VALUES (1, {value})")
        client.execute("INSERT INTO l.k VALUES (1, NULL)")
        assert rows(client, "l.k") == ["(1, None)"]
    ours.commit([{"kind": "DROP_TABLE", "schema": "main", "table": "k"}])


def test_rows_that_refer_to_others_of_their_table_go_in_whatever_order_they_came(
    lake: tuple[Ours, DecidedCommits, str],
) -> None:
    ours, _, url = lake
    columns = [
        {"name": "id", "type": "int64", "nullable": False},
        *({"name": n, "type": "int64"} for n in ("u", "boss")),
    ]
    boss = {"columns": ["boss"], "ref_schema": "main", "ref_table": "k", "ref_columns": ["id"]}
    change = {"kind": "CREATE_TABLE", "schema": "main", "table": "k", "columns": columns, "primary_key": ["id"]}
    ours.commit([{**change, "unique": [["u"]], "foreign_keys": [boss], "properties": {"foreign_paths": "true"}}])
    with writing(url, "l") as client:
        client.execute("INSERT INTO l.k VALUES (1, 1, NULL), (2, 2, 1), (3, 3, 2), (4, 4, 1)")
        flush(ours)
        client.execute("INSERT INTO l.k VALUES (5, 5, 3)")
        client.execute("BEGIN; UPDATE l.k SET boss = NULL, u = 3 WHERE id = 4; DELETE FROM l.k WHERE id <> 4; COMMIT")
        assert rows(client, "l.k") == ["(4, 3, None)"]
        client.execute("INSERT INTO l.k VALUES (7, 7, 9), (9, 9, 4)")
        client.execute("DELETE FROM l.k")
        assert rows(client, "l.k") == []
    ours.commit([{"kind": "DROP_TABLE", "schema": "main", "table": "k"}])


def test_rows_that_refer_to_another_tables_come_and_go_in_one_transaction_in_whatever_order(
    lake: tuple[Ours, DecidedCommits, str],
) -> None:
    ours, _, url = lake
    columns = [
        {"name": "id", "type": "int64", "nullable": False},
        *({"name": n, "type": "int64"} for n in ("u", "of")),
    ]
    change = {"kind": "CREATE_TABLE", "schema": "main", "columns": columns, "primary_key": ["id"]}
    of = {"columns": ["of"], "ref_schema": "main", "ref_table": "parent", "ref_columns": ["u"]}
    ours.commit([{**change, "table": "parent", "unique": [["u"]]}, {**change, "table": "child", "foreign_keys": [of]}])
    with writing(url, "l") as client:
        client.execute(
            "BEGIN; INSERT INTO l.child VALUES (1, 1, 10), (2, 2, 20); INSERT INTO l.parent VALUES (1, 10, 0), (2, 20, 0); "
            "COMMIT"
        )
        client.execute(
            "BEGIN; INSERT INTO l.parent VALUES (3, 30, 0); UPDATE l.child SET of = 30 WHERE id = 1; "
            "DELETE FROM l.parent WHERE id = 1; COMMIT"
        )
        assert rows(client, "l.child") == ["(1, 1, 30)", "(2, 2, 20)"]
        client.execute("BEGIN; DELETE FROM l.child WHERE of = 20; DELETE FROM l.parent WHERE u = 20; COMMIT")
        assert rows(client, "l.parent") == ["(3, 30, 0)"]
        with pytest.raises(duckdb.Error, match="still refers to"):
            client.execute("DELETE FROM l.parent")
        client.execute(
            "BEGIN; INSERT INTO l.parent VALUES (4, 40, 0), (5, 50, 0); INSERT INTO l.child VALUES (5, 0, 50); COMMIT"
        )
        # Of what no order allows the log tells, not of what an order does.
        with pytest.raises(duckdb.Error, match="of table parent already has the same"):
            client.execute(
                "BEGIN; DELETE FROM l.parent WHERE u = 50; UPDATE l.parent SET u = 70 - u WHERE u < 50; "
                "UPDATE l.child SET of = NULL WHERE of = 30; DELETE FROM l.child WHERE of = 50; COMMIT"
            )
        client.execute("BEGIN; TRUNCATE l.parent; TRUNCATE l.child; COMMIT")
        assert rows(client, "l.parent") == rows(client, "l.child") == []
    ours.commit([{"kind": "DROP_TABLE", "schema": "main", "table": name} for name in ("child", "parent")])


def test_rows_in_no_file_of_a_table_without_a_key_are_changed_after_what_the_refusal_says(
    lake: tuple[Ours, DecidedCommits, str],
) -> None:
    ours, _, url = lake
    columns = [{"name": "id", "type": "int64"}]
    change = {"kind": "INSERT_ROW", "schema": "main", "table": "a-plain"}
    ours.commit([{"kind": "CREATE_TABLE", "schema": "main", "table": "a-plain", "columns": columns}])
    ours.commit([{**change, "row": {"id": 1}}, {**change, "row": {"id": 2}}])
    with writing(url, "l") as client:
        client.execute('USE l; INSERT INTO "a-plain" VALUES (3)')
        for statement in ("DELETE FROM {} WHERE id = 1", "UPDATE {} SET id = 4 WHERE id = 2", "TRUNCATE {}"):
            with pytest.raises(duckdb.Error, match="that are in no file, and no key") as refused:
                client.execute(statement.format('"a-plain"'))
        client.execute(str(refused.value).rpartition("take its place, ")[2])
        client.execute('DELETE FROM "a-plain" WHERE id = 1')
        assert rows(client, '"a-plain"') == ["(2,)", "(3,)"]
    ours.commit([{"kind": "DROP_TABLE", "schema": "main", "table": "a-plain"}])
