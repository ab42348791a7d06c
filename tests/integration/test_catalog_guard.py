"""The guard: what a stock client may not write, what a reader may see, and that it comes back wherever it is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import LiteralString, NamedTuple

import duckdb
import psycopg
import pyarrow as pa
import pytest
from deciding import change, create_table, delete, insert, keyed_table
from lakes import Lake
from psycopg import sql

from commitlog.catalog.alterations import alterations
from commitlog.catalog.grants import carry_over
from commitlog.catalog.guard import (
    PROJECTOR_ROLE,
    READER_ROLE,
    REFUSAL,
    ROLES,
    WRITER_ROLE,
    closed_tables,
    ensure_guard,
    install_guard,
    missing_roles,
    unguarded_tables,
)
from commitlog.catalog.queries import Catalog
from commitlog.catalog.tables import OWN
from commitlog.client.reading.duckdb_client import connection_text, extension_file, open_lake, quoted
from commitlog.errors import ConfigurationError

TYPES = {"id": pa.int64(), "v": pa.string()}


@pytest.fixture
def lake(database_url: str, tmp_path: Path) -> Iterator[Lake]:
    lake = Lake(database_url, tmp_path / "lake")
    lake.commit(create_table(), keyed_table())
    lake.append("t", [{"id": n, "v": str(n)} for n in range(50)], TYPES)
    yield lake
    lake.close()


@contextmanager
def stock_client(database_url: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """The stock client, attached to write."""
    settings: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    with duckdb.connect(":memory:", config=settings) as connection:
        for extension in ("postgres_scanner", "ducklake"):
            connection.execute(f"LOAD '{extension_file(extension)}'")
        connection.execute(f"ATTACH 'ducklake:postgres:{quoted(connection_text(database_url))}' AS lake")
        connection.execute("USE lake")
        yield connection


def contents(lake: Lake) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every DuckLake table."""
    with psycopg.connect(lake.database_url) as conn:
        names = conn.execute("SELECT relname FROM pg_class WHERE relname LIKE 'ducklake%' AND relkind = 'r'").fetchall()
        return {
            name: sorted(conn.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(name))).fetchall(), key=repr)
            for (name,) in names
        }


@contextmanager
def member_of(database_url: str, role: str) -> Iterator[str]:
    """The URL of a user that has a role and nothing else."""
    name = f"user_{abs(hash(database_url)) % 10**8}_{role}"
    user = sql.Identifier(name)
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'secret' IN ROLE {}").format(user, sql.Identifier(role)))
    host = database_url.partition("@")[2]
    try:
        yield f"postgresql://{name}:secret@{host}"
    finally:
        with psycopg.connect(database_url, autocommit=True) as conn:
            conn.execute(sql.SQL("DROP OWNED BY {}; DROP ROLE {}").format(user, user))


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("INSERT INTO t VALUES (1, 'small')", "commitlog submit"),
        ("INSERT INTO t SELECT range, 'x' FROM range(1000)", "commitlog submit"),
        ("INSERT INTO k VALUES (1, 'x')", "commitlog submit"),
        ("DELETE FROM t WHERE id = 3", "commitlog submit"),
        ("DELETE FROM t WHERE id < 40", "commitlog submit"),
        ("UPDATE t SET v = 'x'", "commitlog submit"),
        ("TRUNCATE t", "commitlog submit"),
        ("DROP TABLE t", "commitlog submit"),
        ("ALTER TABLE t ADD COLUMN w INTEGER", "commitlog submit"),
        ("CREATE SCHEMA s", "commitlog submit"),
        ("CREATE VIEW w AS SELECT 1", "commitlog submit"),
        ("CREATE MACRO m() AS 1", "commitlog submit"),
        ("COMMENT ON TABLE t IS 'x'", "commitlog submit"),
        ("CALL ducklake_expire_snapshots('lake', versions => [1])", "EXPIRE_SNAPSHOTS"),
        ("CALL lake.set_option('parquet_compression', 'zstd')", "CONFIGURE"),
        ("CALL ducklake_flush_inlined_data('lake')", "commitlog submit"),
        ("CALL ducklake_rewrite_data_files('lake', delete_threshold => 0)", "commitlog submit"),
    ],
)
def test_stock_client_when_it_commits_then_refused_at_once_and_nothing_changes(
    lake: Lake, statement: str, told: str
) -> None:
    lake.commit(insert(id=1, v="x"))
    lake.commit(delete({0: [7]}))
    before = contents(lake)
    with stock_client(lake.database_url) as client, pytest.raises(duckdb.Error) as refused:
        client.execute(statement)
    assert REFUSAL in str(refused.value)
    assert told in str(refused.value)
    assert contents(lake) == before


def test_refusal_when_a_stock_client_reads_it_then_it_holds_no_word_that_makes_it_try_again(lake: Lake) -> None:
    with psycopg.connect(lake.database_url) as conn:
        source = conn.execute("SELECT prosrc FROM pg_proc WHERE proname = 'refuse_foreign_commit'").fetchone()
    assert source is not None
    assert not re.search("primary key|unique|conflict|concurrent", source[0].lower())


def test_guard_when_installed_then_every_table_has_it_also_those_that_come_later(lake: Lake) -> None:
    lake.commit(create_table("later"))
    lake.commit(delete({0: [1]}))
    names = set(contents(lake))
    assert {"ducklake_inlined_delete_1"} < {name for name in names if "inlined" in name}
    names |= {f"commitlog.{table.name}" for table in OWN.sorted_tables}
    assert unguarded_tables(lake.conn) == []
    with psycopg.connect(lake.database_url) as conn:
        for name in sorted(names):
            for statement in ("DELETE FROM {}", "TRUNCATE {}"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match="commitlog"), conn.transaction():
                    conn.execute(sql.SQL(statement).format(sql.Identifier(*name.split("."))))


def test_guard_when_replication_is_played_then_it_refuses_all_the_same(lake: Lake) -> None:
    with psycopg.connect(lake.database_url) as conn:
        conn.execute("SET session_replication_role = replica")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="commitlog"):
            conn.execute("DELETE FROM ducklake_data_file")


def test_guard_when_somebody_with_every_grant_says_that_he_is_the_projector_then_refused(lake: Lake) -> None:
    with member_of(lake.database_url, READER_ROLE) as url:
        user = sql.Identifier(url.partition("//")[2].partition(":")[0])
        with psycopg.connect(lake.database_url, autocommit=True) as conn:
            for schema in ("public", "commitlog"):
                conn.execute(sql.SQL("GRANT ALL ON ALL TABLES IN SCHEMA {} TO {}").format(sql.Identifier(schema), user))
        before = contents(lake)
        options = f"{url}?options=-c%20commitlog.projector%3Don"
        with stock_client(options) as client, pytest.raises(duckdb.Error, match="is no member of commitlog_projector"):
            client.execute("INSERT INTO t VALUES (1, 'x')")
        with psycopg.connect(options, autocommit=True) as conn:
            for table in ("ducklake_data_file", "commitlog.outcomes", "commitlog.query_snapshots"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match="no member"):
                    conn.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(*table.split("."))))
        assert contents(lake) == before


@pytest.mark.parametrize(
    "shadow",
    [
        "CREATE TEMP TABLE pg_roles AS SELECT 'commitlog_projector'::name AS rolname, current_user::regrole::oid AS oid",
        "CREATE TEMP TABLE pg_namespace AS SELECT 'commitlog'::name AS nspname, current_user::regrole::oid AS nspowner",
    ],
)
def test_guard_when_somebody_has_tables_named_as_postgres_own_then_it_asks_those_of_postgres(
    lake: Lake, shadow: LiteralString
) -> None:
    with member_of(lake.database_url, READER_ROLE) as url:
        user = sql.Identifier(url.partition("//")[2].partition(":")[0])
        with psycopg.connect(lake.database_url, autocommit=True) as conn:
            conn.execute(sql.SQL("GRANT ALL ON ALL TABLES IN SCHEMA public TO {}").format(user))
        with psycopg.connect(f"{url}?options=-c%20commitlog.projector%3Don", autocommit=True) as conn:
            conn.execute(shadow)
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="no member"):
                conn.execute("DELETE FROM ducklake_data_file")


def test_guard_when_somebody_empties_its_function_then_noticed_and_brought_back(lake: Lake) -> None:
    lake.conn.execute(
        "CREATE OR REPLACE FUNCTION commitlog.refuse_foreign_commit() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN RETURN NULL; END'"
    )
    assert "ducklake_snapshot" in unguarded_tables(lake.conn)
    install_guard(lake.conn)
    assert unguarded_tables(lake.conn) == []


def test_install_when_the_lakes_schema_is_shared_then_what_others_make_there_stays_closed(lake: Lake) -> None:
    lake.conn.execute("CREATE TABLE salaries (id BIGINT)")
    lake.conn.commit()
    with (
        member_of(lake.database_url, READER_ROLE) as url,
        psycopg.connect(url) as conn,
        pytest.raises(psycopg.Error, match="denied"),
    ):
        conn.execute("SELECT * FROM salaries")


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (
            "ALTER TABLE ducklake_tag ADD COLUMN note TEXT",
            "columns of ducklake_tag are not as commitlog made them: note",
        ),
        ("ALTER TABLE ducklake_snapshot ALTER schema_version TYPE INTEGER", "columns of ducklake_snapshot"),
        ("ALTER TABLE commitlog.outcomes DROP COLUMN detail CASCADE", "columns of outcomes"),
        ("DROP INDEX ducklake_data_file_by_table", "the index ducklake_data_file_by_table is gone"),
        ("ALTER TABLE ducklake_snapshot DROP CONSTRAINT ducklake_snapshot_pkey", "primary key of ducklake_snapshot"),
        ("CREATE RULE r AS ON INSERT TO ducklake_tag DO INSTEAD NOTHING", "rule r on ducklake_tag"),
        ("ALTER TABLE ducklake_tag ADD CONSTRAINT c CHECK (key <> 'x')", "constraint c on ducklake_tag"),
        ("CREATE TABLE heir () INHERITS (ducklake_tag)", "heir heir of ducklake_tag"),
        ("DROP VIEW commitlog.writers", "view commitlog.writers is gone"),
        (
            "CREATE OR REPLACE VIEW commitlog.commits AS SELECT s.snapshot_id, s.snapshot_time, o.proposal_id, o.writer_id, "
            "o.seq, o.change_kinds, c.changes_made, c.author, c.commit_message AS message, c.commit_extra_info AS extra "
            "FROM ducklake_snapshot s LEFT JOIN ducklake_snapshot_changes c USING (snapshot_id) "
            "LEFT JOIN commitlog.outcomes o USING (snapshot_id) WHERE o.seq <> 7",
            "view commitlog.commits is not as commitlog made it",
        ),
        (
            "ALTER VIEW commitlog.writers RENAME COLUMN rejected TO refused",
            "view commitlog.writers is not as commitlog",
        ),
        (
            "CREATE OR REPLACE FUNCTION commitlog.rows_outside_files(catalog oid, wanted bigint) RETURNS bigint "
            "LANGUAGE sql AS 'SELECT 0::bigint'",
            "function commitlog.rows_outside_files",
        ),
        ("ALTER TABLE ducklake_tag ENABLE ROW LEVEL SECURITY", "row policies on ducklake_tag"),
        (
            "CREATE TRIGGER t BEFORE UPDATE ON ducklake_tag FOR EACH ROW EXECUTE FUNCTION "
            "suppress_redundant_updates_trigger()",
            "trigger t on ducklake_tag",
        ),
    ],
)
def test_alterations_when_somebody_changes_the_tables_then_told(lake: Lake, statement: str, told: str) -> None:
    assert list(alterations(lake.conn)) == []
    lake.conn.execute(statement.encode())
    found = [each for each in alterations(lake.conn) if told in each.what]
    assert found
    assert found[0].is_note == ("policies" in told or "trigger" in told)


def test_guard_when_somebody_removed_it_then_installing_brings_it_back(lake: Lake) -> None:
    lake.conn.execute("DROP TRIGGER commitlog_guard ON ducklake_tag")
    lake.conn.execute("ALTER TABLE ducklake_view DISABLE TRIGGER commitlog_guard")
    lake.conn.execute("DROP TRIGGER commitlog_guard ON ducklake_snapshot")
    lake.conn.execute(
        "CREATE TRIGGER commitlog_guard BEFORE INSERT OR UPDATE OR DELETE ON ducklake_snapshot FOR EACH STATEMENT "
        "EXECUTE FUNCTION commitlog.refuse_foreign_commit()"
    )
    lake.conn.execute(f"REVOKE SELECT ON ducklake_tag FROM {READER_ROLE}".encode())
    assert unguarded_tables(lake.conn) == ["ducklake_snapshot", "ducklake_tag", "ducklake_view"]
    assert closed_tables(lake.conn, READER_ROLE) == ["ducklake_tag"]
    install_guard(lake.conn)
    assert unguarded_tables(lake.conn) == []
    assert closed_tables(lake.conn, READER_ROLE) == []
    assert missing_roles(lake.conn) == []


@contextmanager
def owner_of(database_url: str) -> Iterator[str]:
    """The URL of a user that owns the database and may nothing else."""
    host, _, database = database_url.partition("@")[2].rpartition("/")
    owner = sql.Identifier(f"owner_of_{database}")
    with psycopg.connect(database_url, autocommit=True) as conn:
        for role in missing_roles(conn):
            conn.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(role)))
        conn.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'secret'").format(owner))
        conn.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(sql.Identifier(database), owner))
    try:
        yield f"postgresql://owner_of_{database}:secret@{host}/{database}"
    finally:
        with psycopg.connect(database_url, autocommit=True) as conn:
            conn.execute(sql.SQL("REASSIGN OWNED BY {} TO CURRENT_USER; DROP OWNED BY {}").format(owner, owner))
            conn.execute(sql.SQL("DROP ROLE {}").format(owner))


def test_install_when_the_owner_may_not_create_roles_and_somebody_else_has_then_writers_read_too(
    database_url: str, tmp_path: Path
) -> None:
    with owner_of(database_url) as owner:
        with psycopg.connect(database_url, autocommit=True) as conn:
            conn.execute(sql.SQL("REVOKE {} FROM {}").format(sql.Identifier(READER_ROLE), sql.Identifier(WRITER_ROLE)))
        with closing(Lake(owner, tmp_path / "lake")) as lake:
            lake.commit(create_table())
            assert unguarded_tables(lake.conn) == []
            assert {role: closed_tables(lake.conn, role) for role in ROLES} == {role: [] for role in ROLES}


@pytest.mark.parametrize("role", [READER_ROLE, WRITER_ROLE])
def test_reader_role_when_the_stock_client_attaches_with_it_then_it_reads_all_also_what_is_made_later(
    lake: Lake, role: str
) -> None:
    lake.commit(create_table("later"), keyed_table("rows"))
    lake.commit(insert(table="rows", id=1, v="x"))
    lake.commit(delete({0: [1, 2]}))
    lake.append("later", [{"id": 1, "v": "x"}], TYPES)
    with member_of(lake.database_url, role) as url:
        with open_lake(url) as client:
            assert client.execute("SELECT count(*) FROM t").fetchone() == (48,)
            assert client.execute("SELECT * FROM rows").fetchall() == [(1, "x")]
            assert client.execute("SELECT * FROM later").fetchall() == [(1, "x")]
            assert len(client.execute("SELECT * FROM ducklake_snapshots('lake')").fetchall()) == lake.log.head + 1
        with stock_client(url) as client, pytest.raises(duckdb.Error, match=r"permission denied|commitlog"):
            client.execute("INSERT INTO later VALUES (2, 'y')")
        with psycopg.connect(url) as conn:
            assert conn.execute("SELECT count(*) FROM commitlog.outcomes").fetchone() == (len(lake.log.outcomes),)


def test_reader_role_when_many_processes_ask_for_the_snapshot_of_a_query_then_all_are_told_what_the_first_proposed(
    lake: Lake,
) -> None:
    with member_of(lake.database_url, READER_ROLE) as reader:
        asking = [Catalog(reader) for _ in range(8)]
        with ThreadPoolExecutor(8) as pool:
            told = set(pool.map(lambda at: asking[at].agreed_snapshot("one", lambda: at), range(8)))
        assert len(told) == 1
        assert asking[0].agreed_snapshot("two", lambda: 42) == 42
        for each in asking:
            each.close()
        replica = Catalog(f"{reader}{'&' if '?' in reader else '?'}options=-c%20default_transaction_read_only%3Don")
        assert replica.agreed_snapshot("two", lambda: 43) == 42
        with pytest.raises(ConfigurationError, match=r"can only be read.*name one"):
            replica.agreed_snapshot("three", lambda: 43)
        replica.close()


def test_projector_role_when_a_member_projects_then_readers_see_what_it_made(lake: Lake) -> None:
    with member_of(lake.database_url, PROJECTOR_ROLE) as projector:
        mine = Lake.__new__(Lake)
        mine.__dict__.update(lake.__dict__)
        mine.reconnect(projector)
        ensure_guard(mine.conn)
        mine.conn.commit()
        mine.commit(create_table("later"), keyed_table("rows"))
        mine.commit(insert(table="rows", id=1, v="x"), change("DELETE", positions=[{"data_file_id": 0, "rows": [1]}]))
        mine.conn.close()
        with member_of(lake.database_url, READER_ROLE) as reader, open_lake(reader) as client:
            assert client.execute("SELECT count(*) FROM t").fetchone() == (49,)
            assert client.execute("SELECT * FROM rows").fetchall() == [(1, "x")]
        assert unguarded_tables(lake.conn) == []
        assert closed_tables(lake.conn, PROJECTOR_ROLE) == []


class Owned(NamedTuple):
    """A lake whose owner may nothing else, and a login that may run its projector."""

    owner: str
    projector: str
    lake: Lake


@pytest.fixture
def owned(database_url: str, tmp_path: Path) -> Iterator[Owned]:
    with (
        owner_of(database_url) as owner,
        member_of(database_url, PROJECTOR_ROLE) as projector,
        closing(Lake(owner, tmp_path / "lake")) as lake,
    ):
        yield Owned(owner, projector, lake)


def test_projector_role_when_a_member_has_made_tables_then_the_catalogs_owner_projects_again_and_makes_them_anew(
    owned: Owned,
) -> None:
    owner, projector, lake = owned
    for number, login in enumerate((projector, owner)):
        lake.conn.close()
        lake.reconnect(login)
        lake.commit(*([] if number else [keyed_table()]), insert(id=number, v="x"))
    with open_lake(owner) as client:
        assert client.execute("FROM k ORDER BY id").fetchall() == [(0, "x"), (1, "x")]
    # As a rebuild does.
    lake.conn.execute("CREATE SCHEMA second CREATE TABLE ducklake_inlined_data_1_1 (id BIGINT)")
    carry_over(lake.conn, [("public", "ducklake_inlined_data_1_1")], "second")
    lake.conn.execute("DROP TABLE public.ducklake_inlined_data_1_1")


def test_install_when_a_member_has_made_tables_with_an_older_version_then_the_owner_brings_the_guard_up_and_they_are_opened(
    owned: Owned,
) -> None:
    owner, projector, lake = owned
    name = sql.Identifier(owner.partition("//")[2].partition(":")[0])
    lake.conn.close()
    lake.reconnect(projector)
    lake.commit(keyed_table(), insert(id=0, v="x"))
    lake.conn.execute(sql.SQL("REVOKE ALL ON ducklake_inlined_data_1_1 FROM {}").format(name))
    lake.conn.commit()
    with psycopg.connect(owner, autocommit=True) as conn:
        conn.execute("ALTER FUNCTION commitlog.refuse_foreign_commit() RESET ALL")
        ensure_guard(conn)
        assert unguarded_tables(conn) == []
    ensure_guard(lake.conn)
    lake.conn.close()
    lake.reconnect(owner)
    lake.commit(insert(id=1, v="x"))
