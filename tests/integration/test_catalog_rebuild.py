"""commitlog catalog rebuild: equal to the live catalog row by row, resumable, switched at once under projector and readers."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from catalog_shape import shape
from click.testing import CliRunner
from log_running import wait_until
from psycopg import errors
from test_catalog_history import contents
from test_projector import applied_head, projecting, running, sequencing

from commitlog.catalog import rebuild as rebuild_module
from commitlog.catalog import together
from commitlog.catalog.projector import Projector
from commitlog.catalog.rebuild import SECOND_SCHEMA, Rebuild, RebuildProgress
from commitlog.catalog.tables import READERS_INDEXES
from commitlog.client import CommitLog, Transaction
from commitlog.client.reading.duckdb_client import open_lake
from commitlog.config import Settings
from commitlog.domain.model import DataFile
from commitlog.errors import CatalogMismatchError, CatalogUnavailableError
from commitlog.log.codec import decode_statistics
from commitlog.log.genesis import init_log
from commitlog.ops.cli import cli


class Writer:
    """Commits of every kind that leaves tables of its own in the catalog: files, keyed rows, deletes, views, columns."""

    def __init__(self, log: CommitLog) -> None:
        self.log = log
        self.rows = self.head = 0
        with self.transaction() as tx:
            tx.create_schema("s")
            tx.create_table("s.k", {"id": "int64", "v": "varchar"}, primary_key=["id"])
            tx.create_table("t", {"id": "int64"})
            tx.create_view("v", "SELECT 1 AS one")

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Upon the last commit, whatever the catalog shows."""
        with self.log.transaction(base_snapshot_id=self.head) as tx:
            yield tx
        assert tx.outcome.snapshot_id is not None
        self.head = tx.outcome.snapshot_id

    def commit(self, count: int) -> None:
        """So many rounds of a row, the row changed, and a file; then one more column."""
        for _ in range(count):
            with self.transaction() as tx:
                tx.insert_row("s.k", {"id": self.rows, "v": f"v{self.rows}"})
            with self.transaction() as tx:
                tx.update_row("s.k", {"id": self.rows}, {"id": self.rows, "v": "changed"})
                tx.append("t", [DataFile(f"f{self.rows}.parquet", 10, 1000)])
            self.rows += 1
        with self.transaction() as tx:
            tx.alter("t").add_column(f"c{self.rows}", "varchar")


@contextmanager
def writing(settings: Settings) -> Iterator[Writer]:
    init_log(settings)
    with running(sequencing(settings)), CommitLog.connect(settings=settings) as log:
        yield Writer(log)


def rebuild(settings: Settings, **more: Any) -> Rebuild:
    return Rebuild(settings, decode_statistics=decode_statistics, **more)


def rows_of(url: str) -> dict[str, list[str]]:
    """All rows of all tables, but for when the last of them was applied."""
    return {name: rows for name, rows in contents(url).items() if name != "commitlog.applied"}


def one(url: str, query: str) -> Any:
    with psycopg.connect(url) as conn:
        row = conn.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def catalog_oid(url: str) -> int:
    return int(one(url, "SELECT 'commitlog.applied'::regclass::oid::bigint"))


def indexes_in(url: str, schema: str) -> set[str]:
    return set(one(url, f"SELECT array_agg(indexname::text) FROM pg_indexes WHERE schemaname = '{schema}'"))


def project(settings: Settings) -> None:
    Projector(settings, decode_statistics=decode_statistics).project_to_end()


@contextmanager
def reading(settings: Settings) -> Iterator[list[int]]:
    """A stock client that stays attached and counts keyed rows all the time; what it has seen, in order."""
    seen: list[int] = []

    def read(stop: threading.Event) -> None:
        with open_lake(settings.database_url) as client:
            while not stop.is_set():
                count, ids = client.execute("SELECT count(*), count(DISTINCT id) FROM s.k").fetchall()[0]
                assert count == ids
                seen.append(count)

    with running(read):
        wait_until(lambda: bool(seen), "a first answer")
        yield seen
    assert seen == sorted(seen)


def test_rebuild_while_everything_runs_then_equal_and_projector_and_readers_go_on(settings: Settings) -> None:
    url = settings.database_url
    with writing(settings) as writer, running(projecting(replace(settings, projector_outcomes_max=3))):
        writer.commit(3)
        wait_until(lambda: applied_head(url) == writer.head, "the catalog's head")
        live, made_of, oid = rows_of(url), shape(url), catalog_oid(url)
        rebuild(settings).run()
        assert rows_of(url) == live
        assert shape(url) == made_of
        assert catalog_oid(url) != oid
        with reading(settings) as seen:
            with running(lambda stop: _rebuild_again_and_again(settings, stop)):
                writer.commit(8)
            wait_until(lambda: applied_head(url) == writer.head, "the catalog's head")
            wait_until(lambda: seen[-1] == writer.rows, "the last row")
        live, made_of = rows_of(url), shape(url)
    rebuild(settings).run()
    assert rows_of(url) == live
    assert shape(url) == made_of


def _rebuild_again_and_again(settings: Settings, stop: threading.Event) -> None:
    while not stop.is_set():
        rebuild(settings).run()


def test_rebuild_when_interrupted_then_goes_on_where_it_was(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild_module, "RECORDS_MAX", 3)
    monkeypatch.setattr(rebuild_module, "NEAR_RECORDS", 0)
    with writing(settings) as writer, running(projecting(settings)):
        writer.commit(4)
        wait_until(lambda: applied_head(settings.database_url) == writer.head, "the catalog's head")
    live = rows_of(settings.database_url)

    def stop_after(seq: int) -> list[int]:
        told: list[int] = []

        def note(progress: RebuildProgress) -> None:
            told.append(progress.applied_seq)
            if progress.applied_seq >= seq:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            rebuild(settings, on_progress=note).run()
        return told

    assert stop_after(2)[0] <= 2
    assert rows_of(settings.database_url) == live
    assert stop_after(6)[0] > 2
    told: list[int] = []
    rebuild(settings, on_progress=lambda progress: told.append(progress.applied_seq)).run()
    assert told[0] > 6
    assert rows_of(settings.database_url) == live
    stop_after(6)
    rebuild(settings, on_progress=lambda progress: told.append(progress.applied_seq)).run(restart=True)
    assert min(told) <= 2
    assert rows_of(settings.database_url) == live


def test_rebuild_when_interrupted_before_readers_have_their_indexes_then_the_next_one_makes_them(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    init_log(settings)
    project(settings)
    made_of = shape(settings.database_url)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(rebuild_module, "ensure_readers_indexes", interrupted)
        with pytest.raises(KeyboardInterrupt):
            rebuild(settings).run()
    there = indexes_in(settings.database_url, SECOND_SCHEMA)
    assert not there & READERS_INDEXES
    # A compaction asks how its table was partitioned at its base, and a table that is dropped ends this.
    assert "ducklake_partition_info_by_table" in there
    rebuild(settings).run()
    assert shape(settings.database_url) == made_of


def test_rebuild_when_another_one_runs_then_says_so_and_when_that_ends_in_time_then_goes_on(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    init_log(settings)
    project(settings)
    trying = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%try_advisory_lock%' AND pid <> pg_backend_pid()"
    with ThreadPoolExecutor(1) as pool, psycopg.connect(settings.database_url) as other:
        other.execute("SELECT pg_advisory_lock(hashtext('commitlog.rebuild'))")
        monkeypatch.setattr(rebuild_module, "ENDED_TIMEOUT_S", 0)
        with pytest.raises(CatalogUnavailableError, match="another rebuild of this catalog runs"):
            rebuild(settings).run()
        monkeypatch.setattr(rebuild_module, "ENDED_TIMEOUT_S", 60)
        rebuilding = pool.submit(rebuild(settings).run)
        wait_until(lambda: one(settings.database_url, trying) > 0, "the rebuild to try")
        other.close()
        assert rebuilding.result() == 0


def test_rebuild_when_the_live_catalog_is_damaged_then_all_is_well_and_the_projector_has_forgotten_it(
    settings: Settings,
) -> None:
    url = settings.database_url
    with writing(settings) as writer:
        with running(projecting(settings)):
            writer.commit(3)
            writer.log.wait_for_snapshot()
        with psycopg.connect(url) as conn:
            conn.execute("SET commitlog.projector = 'on'")
            conn.execute("DELETE FROM ducklake_data_file WHERE data_file_id % 2 = 0")
            conn.execute("UPDATE ducklake_table_stats SET record_count = 7, next_row_id = 77, file_size_bytes = 7")
            conn.execute("DELETE FROM ducklake_snapshot WHERE snapshot_id = 2")
        with running(projecting(settings)):
            writer.commit(1)
            rebuild(settings).run()
            writer.commit(2)
            wait_until(lambda: applied_head(url) == writer.head, "the catalog's head")
    found = rows_of(url)
    rebuild(settings).run()
    assert rows_of(url) == found
    assert one(url, "SELECT record_count FROM commitlog.tables WHERE table_name = 't'") == 10 * writer.rows


def test_rebuild_when_there_is_no_catalog_then_makes_it(settings: Settings) -> None:
    with writing(settings) as writer:
        pass
    rebuild(settings).run()
    assert applied_head(settings.database_url) == writer.head
    made = rows_of(settings.database_url)
    project(settings)
    assert rows_of(settings.database_url) == made


def test_rebuild_when_a_foreign_lake_or_another_logs_catalog_is_there_then_refuses(
    settings: Settings, log_name: str
) -> None:
    init_log(settings)
    url = settings.database_url
    with psycopg.connect(url) as conn:
        conn.execute("CREATE TABLE ducklake_snapshot (snapshot_id bigint)")
    with pytest.raises(CatalogMismatchError, match="did not make"):
        rebuild(settings).run()
    with psycopg.connect(url) as conn:
        conn.execute("DROP TABLE ducklake_snapshot")
    other = replace(settings, log=f"{log_name}-other")
    init_log(other)
    project(other)
    with pytest.raises(CatalogMismatchError, match="another log"):
        rebuild(settings).run()
    rebuild(other).run()
    assert applied_head(url) == 0


def test_rebuild_when_a_reader_holds_the_tables_then_says_so_and_goes_on_later(settings: Settings) -> None:
    init_log(settings)
    project(settings)
    oid = catalog_oid(settings.database_url)
    with psycopg.connect(settings.database_url) as reader:
        reader.execute("SELECT * FROM ducklake_snapshot")
        with pytest.raises(CatalogUnavailableError, match=r"cannot serve the request now .* run the command again"):
            rebuild(settings, switch_timeout_s=0).run()
        assert catalog_oid(settings.database_url) == oid
    rebuild(settings).run()
    assert catalog_oid(settings.database_url) != oid


def test_rebuild_when_somebody_made_a_view_of_the_catalog_then_names_it_and_changes_nothing(settings: Settings) -> None:
    init_log(settings)
    project(settings)
    url = settings.database_url
    before = rows_of(url)
    with psycopg.connect(url) as conn:
        conn.execute("CREATE VIEW my_report AS SELECT count(*) FROM commitlog.outcomes")
    with pytest.raises(CatalogMismatchError, match="my_report"):
        rebuild(settings).run()
    assert rows_of(url) == before
    assert one(url, "SELECT count FROM my_report") == 0


def test_rebuild_then_a_stock_client_is_refused_as_before(settings: Settings) -> None:
    init_log(settings)
    project(settings)
    rebuild(settings).run()
    with psycopg.connect(settings.database_url) as conn, pytest.raises(errors.InsufficientPrivilege):
        conn.execute("INSERT INTO ducklake_snapshot VALUES (1, now(), 0, 1, 0)")


def test_rebuild_command_then_tells_how_far_it_is(settings: Settings) -> None:
    with writing(settings) as writer, running(projecting(settings)):
        writer.commit(1)
        wait_until(lambda: applied_head(settings.database_url) == writer.head, "the catalog's head")
    done = CliRunner(env=settings.environment()).invoke(cli, ["catalog", "rebuild"], catch_exceptions=False)
    assert done.exit_code == 0
    assert "rebuilt up to outcome 4" in done.output
    done = CliRunner(env=settings.environment()).invoke(cli, ["catalog", "rebuild", "--json"], catch_exceptions=False)
    assert json.loads(done.stdout)["outcomes"] == 4
    assert one(settings.database_url, f"SELECT to_regnamespace('{SECOND_SCHEMA}')") is None


@pytest.fixture
def role(postgres: str) -> Iterator[str]:
    name = f"rebuild_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres, autocommit=True) as conn:
        conn.execute(f"CREATE ROLE {name}".encode())
        yield name
        conn.execute(f"DROP ROLE {name}".encode())


def test_rebuild_then_owners_grants_triggers_and_row_policies_of_users_are_as_before(
    settings: Settings, role: str
) -> None:
    with writing(settings) as writer, running(projecting(settings)):
        writer.commit(1)
    project(settings)
    url = settings.database_url
    granted = (
        f"GRANT SELECT ON ducklake_data_file, commitlog.tables TO {role} WITH GRANT OPTION",
        f"GRANT SELECT (schema_id), UPDATE (schema_name) ON ducklake_schema TO {role}",
        "GRANT SELECT ON commitlog.outcomes, ducklake_inlined_data_2_1 TO PUBLIC",
        f"ALTER TABLE ducklake_view OWNER TO {role}",
        f"ALTER TABLE ducklake_tag OWNER TO {role}",
        "CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        "CREATE TRIGGER told AFTER INSERT ON ducklake_view FOR EACH ROW WHEN (NEW.view_id > 5) EXECUTE FUNCTION noted()",
        "CREATE TRIGGER quiet AFTER DELETE ON commitlog.outcomes FOR EACH STATEMENT EXECUTE FUNCTION noted()",
        "ALTER TABLE commitlog.outcomes DISABLE TRIGGER quiet",
        "ALTER TABLE ducklake_view ENABLE ROW LEVEL SECURITY",
        f"CREATE POLICY few ON ducklake_view AS RESTRICTIVE FOR SELECT TO {role}, PUBLIC USING (view_name <> 'x''y')",
        "CREATE POLICY none ON commitlog.outcomes FOR INSERT TO PUBLIC WITH CHECK (verdict = 'COMMITTED')",
    )
    with psycopg.connect(url) as conn:
        for statement in granted:
            conn.execute(statement.encode())
    before = {name: privileges(url, name) for name in _PRIVILEGES}
    assert any(role in line for line in before["column"])
    assert (len(before["policy"]), sum("told" in line or "quiet" in line for line in before["trigger"])) == (2, 2)
    oid = catalog_oid(url)
    rebuild(settings).run()
    assert catalog_oid(url) != oid
    assert {name: privileges(url, name) for name in before} == before
    with psycopg.connect(url) as conn:
        conn.execute(f"REASSIGN OWNED BY {role} TO CURRENT_USER".encode())
        conn.execute(f"DROP OWNED BY {role}".encode())


_PRIVILEGES = {
    "table": """SELECT concat_ws(' ', c.oid::regclass, a.grantee::regrole, privilege_type, is_grantable)
                FROM pg_class c, aclexplode(c.relacl) a WHERE a.grantee <> c.relowner AND {where}""",
    "column": """SELECT concat_ws(' ', c.oid::regclass, attname, grantee::regrole, privilege_type, is_grantable)
                 FROM pg_class c JOIN pg_attribute t ON t.attrelid = c.oid, aclexplode(attacl) WHERE {where}""",
    "owner": "SELECT concat_ws(' ', c.oid::regclass, c.relowner::regrole) FROM pg_class c WHERE {where}",
    "security": "SELECT concat_ws(' ', c.oid::regclass, relrowsecurity, relforcerowsecurity) FROM pg_class c WHERE {where}",
    "policy": "SELECT p::text FROM pg_policies p",
    "trigger": """SELECT concat_ws(' ', tgenabled, pg_get_triggerdef(t.oid))
                  FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid WHERE NOT tgisinternal AND {where}""",
}


def privileges(url: str, kind: str) -> list[str]:
    """Who owns or may use what of the catalog."""
    where = "c.relkind IN ('r', 'v') AND c.relnamespace::regnamespace::text IN ('public', 'commitlog')"
    with psycopg.connect(url) as conn:
        return sorted(row for (row,) in conn.execute(_PRIVILEGES[kind].format(where=where).encode()).fetchall())


def test_rebuild_when_there_are_many_tables_then_those_without_rows_take_no_locks_and_those_that_went_are_gone(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(together, "TOGETHER", 7)
    with writing(settings) as writer, running(projecting(settings)):
        with writer.transaction() as tx:
            for number in range(60):
                tx.create_table(f"many{number}", {"id": "int64", "v": "varchar"})
        with writer.transaction() as tx:
            for number in range(30):
                tx.drop_table(f"many{number}")
        writer.commit(2)
        with writer.transaction() as tx:
            tx.expire_snapshots(writer.head)
    project(settings)
    url = settings.database_url
    inlined = "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname ~ 'ducklake_inlined_data_[0-9]'"
    assert one(url, inlined) > 60
    before, held = rows_of(url), []
    exchange = rebuild_module._exchange

    def looking(live: Any, *more: Any) -> None:
        exchange(live, *more)
        held.append(live.execute("SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation IN "
                                 "(SELECT oid FROM pg_class WHERE relname ~ 'ducklake_inlined_')").fetchone()[0])  # fmt: skip

    monkeypatch.setattr(rebuild_module, "_exchange", looking)
    rebuild(settings).run()
    # The keyed table's rows are in one table of inlined rows, and in its successor.
    assert held[0] <= 6
    registered = "SELECT count(*) FROM ducklake_inlined_data_tables"
    assert one(url, inlined) == one(url, registered) < 60
    assert {name: rows for name, rows in rows_of(url).items() if rows} == {
        n: rows for n, rows in before.items() if rows
    }
    assert one(url, f"SELECT to_regnamespace('{SECOND_SCHEMA}')") is None
    with open_lake(url) as client:
        assert client.execute("SELECT count(*), min(v), max(v) FROM s.k").fetchall() == [(2, "changed", "changed")]
        assert client.execute("SELECT count(*) FROM many40").fetchall() == [(0,)]


def test_rebuild_when_one_died_after_its_switch_then_what_it_left_is_not_in_the_way(settings: Settings) -> None:
    with writing(settings) as writer, running(projecting(settings)):
        writer.commit(1)
    project(settings)
    found = rows_of(settings.database_url)
    with psycopg.connect(settings.database_url) as conn:
        conn.execute(f"CREATE SCHEMA {SECOND_SCHEMA}".encode())
        conn.execute(f"CREATE TABLE {SECOND_SCHEMA}.ducklake_inlined_data_2_1 (row_id bigint)".encode())
    rebuild(settings).run()
    assert rows_of(settings.database_url) == found
