"""The gateway of a lake in an object store: what its client removes without having heard of its commit is back."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import pytest
from gateways import losing_clients, stock_client
from log_running import wait_until
from pyarrow import fs

from commitlog.client import CommitLog
from commitlog.config import Settings

ROWS = 2_000
"""More deletes of one file than go as positions: the client's delete file is named."""


@pytest.fixture
def settings(settings: Settings, endpoint: str) -> Settings:
    return replace(settings, data_path=f"s3://lake/{settings.log}")


def test_stock_client_when_its_connection_is_lost_at_commit_then_its_files_in_the_store_are_back(
    settings: Settings, gateway_url: str, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = fs.S3FileSystem(endpoint_override=endpoint)

    def made_by(whom: str) -> int:
        found = bucket.get_file_info(fs.FileSelector(f"lake/{settings.log}", recursive=True))
        return sum(each.base_name.startswith(whom) and each.base_name.endswith(".parquet") for each in found)

    lost = losing_clients(monkeypatch)
    with stock_client(gateway_url) as client:
        client.execute("CREATE TABLE t (id BIGINT)")
        statements = (f"INSERT INTO t SELECT range FROM range({2 * ROWS})", f"DELETE FROM t WHERE id < {ROWS}")
        for number, statement in enumerate(statements):
            client.execute("BEGIN")
            client.execute("CALL lake.set_commit_message('ann', 'at COMMIT')")
            client.execute(statement)
            with pytest.raises(duckdb.Error):
                client.execute("COMMIT")
            wait_until(lambda number=number: made_by("ducklake-") == number + 1, "what its client has removed")  # type: ignore[misc]
    assert lost == ["COMMIT", "COMMIT"]
    with stock_client(gateway_url) as other, CommitLog.connect(settings=settings) as log:
        assert log.wait_for_snapshot() == 3
        assert other.execute("SELECT count(*), min(id) FROM t").fetchall() == [(ROWS, ROWS)]
        other.execute("INSERT INTO t VALUES (1)")
        assert other.execute("SELECT count(*) FROM t").fetchall() == [(ROWS + 1,)]
        # Of a client that is well there is a second file for a moment alone.
        wait_until(lambda: made_by("commitlog-") <= len(lost), "the end of what nobody needs")
