"""Lakes that stock clients write through the gateway and that are not as most are: in another schema, in very many files."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import duckdb
import pytest
from gateway_checks import faults
from gateway_sides import lake_through_gateway, writing

from commitlog.domain import model as m

FILES = 10_000


def test_a_catalog_in_a_schema_of_its_own_is_written_by_clients_who_say_so(
    new_database: Callable[[], AbstractContextManager[str]], tmp_path: Path
) -> None:
    with lake_through_gateway(new_database, tmp_path, schema='my "lake"') as (ours, _, url):
        with writing(url, "l", "METADATA_SCHEMA 'my \"lake\"'") as client:
            client.execute("CREATE TABLE l.t (a INTEGER); INSERT INTO l.t VALUES (1), (2); DELETE FROM l.t WHERE a = 1")
            assert client.execute("FROM l.t").fetchall() == [(2,)]
        assert ours.log.head == 3
        with pytest.raises(duckdb.Error), writing(url, "l"):
            pass  # There is no lake in the schema that is meant where none is said, and none is made.
        assert list(faults(ours)) == []


@pytest.mark.nightly
def test_a_commit_of_ten_thousand_files_is_one_proposal(
    new_database: Callable[[], AbstractContextManager[str]], tmp_path: Path
) -> None:
    with lake_through_gateway(new_database, tmp_path) as (ours, commits, url), writing(url, "l") as client:
        client.execute("CREATE TABLE l.t (a INTEGER, b INTEGER)")
        client.execute("ALTER TABLE l.t SET PARTITIONED BY (a)")
        client.execute(f"INSERT INTO l.t SELECT range, 2 * range FROM range({FILES})")
        (appended,) = commits.outcomes[-1].changes
        assert isinstance(appended, m.Append)
        assert len(appended.files) == FILES
        client.execute("DELETE FROM l.t WHERE b % 4 = 0")
        found = client.execute("SELECT count(*), sum(b) FROM l.t").fetchall()
        assert found == [(FILES // 2, sum(range(2, 2 * FILES, 4)))]
        assert list(faults(ours)) == []
