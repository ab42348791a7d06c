"""The demo's DuckDB client: as it is installed, it writes through the gateway, and is refused once."""

from __future__ import annotations

from collections.abc import Callable

from commitlog.client import CommitLog
from commitlog.client.reading.duckdb_client import open_lake
from commitlog.config import Settings
from commitlog.ops.service.gateway import awaited_gateway, through_gateway

TABLE = "remarks"
_SAID_BEFORE = 'Failed to execute query "COMMIT": ERROR:'


def write_with_duckdb(settings: Settings, log: CommitLog, say: Callable[[str], None]) -> None:
    """Have a DuckDB client create a table and insert; then a column is added under it, and its next insert is refused.

    Args:
        settings: of what runs.
        log: adds the column.
        say: is told what is done, one line at a time.
    """
    import duckdb

    gateway = awaited_gateway(settings, settings.home / "logs" / "gateway.log")
    with open_lake(through_gateway(settings, gateway), may_write=True) as client:

        def run(statement: str) -> None:
            say(f"D {statement};")
            client.execute(statement)

        run(f"CREATE TABLE {TABLE} (month INTEGER, remark VARCHAR)")
        run(f"INSERT INTO {TABLE} VALUES (2, 'a blizzard')")
        run("BEGIN")
        run(f"INSERT INTO {TABLE} VALUES (3, 'fog')")
        with log.transaction() as change:
            change.alter(TABLE).add_column("source", "varchar")
        try:
            run("COMMIT")
            raise AssertionError("an insert into a table that was altered since its base must be refused")
        except duckdb.Error as refusal:
            say(str(refusal).rpartition(_SAID_BEFORE)[2].strip())
        run(f"INSERT INTO {TABLE} VALUES (3, 'fog', 'the tower')")
        counted = client.execute(f"SELECT count(*) FROM {TABLE}").fetchone()
        if counted != (2,):
            raise AssertionError(f"two inserts of one row each were committed, and DuckDB reads {counted}")
