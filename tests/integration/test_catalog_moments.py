"""A read that takes several SQL statements sees one moment, whatever the projector does between them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from deciding import append, create_table, data_file, delete, delete_whole, insert, keyed_table
from lakes import Lake

from commitlog.catalog import census as counting
from commitlog.catalog import snapshot_diff
from commitlog.catalog.census import census
from commitlog.catalog.queries import Catalog
from commitlog.catalog.table_changes import TableChanges
from commitlog.errors import CatalogRefusedError, CatalogUnavailableError, SnapshotNotFoundError


@pytest.fixture
def lake(database_url: str, lake_dir: Path) -> Iterator[Lake]:
    """Three deleted rows at snapshot 3; at 4 their file is gone, and so is the keyed row of 5 at 6."""
    lake = Lake(database_url, lake_dir)
    lake.commit(create_table(), keyed_table())
    lake.commit(append(data_file(rows=10)))
    lake.commit(delete({0: [1, 2, 5]}))
    lake.commit(delete_whole(0))
    lake.commit(insert(id=1, v="a"))
    lake.commit({"kind": "DELETE_ROW", "schema": "main", "table": "k", "key": {"id": 1}})
    yield lake
    lake.close()


@pytest.fixture
def catalog(lake: Lake) -> Iterator[Catalog]:
    catalog = Catalog(lake.database_url)
    yield catalog
    catalog.close()


def expire_before(lake: Lake, patched: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    """Have all older snapshots expire just before a part of a read."""
    read = getattr(owner, name)

    def reading(*args: Any, **more: Any) -> Any:
        if lake.log.state.floor_snapshot_id < lake.log.head:
            lake.commit({"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": lake.log.head})
        return read(*args, **more)

    patched.setattr(owner, name, reading)


def test_files_at_when_snapshots_expire_between_its_statements_then_no_deleted_row_comes_back(
    lake: Lake, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = catalog.table_at("main", "t", 3)
    assert table is not None
    expire_before(lake, monkeypatch, Catalog, "_inlined_deletes")
    [file] = catalog.files_at(table, 3)
    assert list(file.deleted) == [1, 2, 5]
    assert catalog.files_at(table, 3) == []


def test_scan_when_snapshots_expire_in_the_middle_then_it_is_whole_and_the_next_one_is_refused(
    lake: Lake, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    from commitlog.spark.reading.scan import scan_at

    expire_before(lake, monkeypatch, Catalog, "column_names_ever")
    scan = scan_at(catalog, "t", 3)
    assert len(scan.files) == 1
    with pytest.raises(SnapshotNotFoundError):
        scan_at(catalog, "t", 3)


def test_changes_and_census_when_snapshots_expire_in_the_middle_then_they_are_whole(
    lake: Lake, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = catalog.table_at("main", "t", 3)
    assert table is not None
    with monkeypatch.context() as patched:
        expire_before(lake, patched, counting, "deletes_by_position")
        assert census(catalog, 3)[table.definition.table_id].rows_in_files == 7
    assert lake.log.state.floor_snapshot_id > 3
    with pytest.raises(SnapshotNotFoundError), catalog.at_once():
        catalog.check_snapshot(3)
    assert TableChanges(catalog, table, 6, 7).files(deletes=True) == []


def test_diff_when_snapshots_expire_before_it_reads_then_is_refused_and_in_the_middle_then_it_is_whole(
    lake: Lake, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        expire_before(lake, patched, snapshot_diff, "_schemas")
        [found] = snapshot_diff.differences(catalog, 5, 6)
        assert isinstance(found, snapshot_diff.TableDifference)
        assert (found.rows_before, found.rows_after) == (1, 0)
    first = lake.log.head
    lake.commit(insert(id=2, v="b"))
    with monkeypatch.context() as patched:
        expire_before(lake, patched, Catalog, "at_once")
        with pytest.raises(SnapshotNotFoundError):
            snapshot_diff.differences(catalog, first, first + 1)


def test_read_when_postgresql_refuses_or_is_away_then_one_sentence_of_ours(
    lake: Lake, other_database_url: str, database_url: str
) -> None:
    empty = Catalog(other_database_url)
    with pytest.raises(CatalogRefusedError, match=r"ducklake_snapshot.*commitlog init"):
        empty.head_snapshot_id()
    empty.close()
    nobody = database_url.replace(database_url.rpartition("/")[2], "no_such_database")
    with pytest.raises(CatalogUnavailableError, match="no_such_database"):
        Catalog(nobody).exists()


def test_read_then_it_writes_nothing(catalog: Catalog) -> None:
    with catalog.at_once() as conn, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        conn.execute("DELETE FROM ducklake_snapshot")
