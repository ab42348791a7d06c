"""Files from outside the lake, appended by copies, by moving them, or where they are."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commitlog.client import CommitLog
from commitlog.errors import DataFileError, InvalidRequestError, ProposalRejectedError

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A file that is none of the lake's."""
    path = tmp_path / "rows.parquet"
    pq.write_table(ROWS, path)
    return path


def files_in(log: CommitLog, table: str) -> list[Path]:
    folder = log.table(table).at().path
    assert folder is not None
    return sorted(Path(folder).rglob("*.parquet"))


@pytest.mark.parametrize("how", [None, "copy", "move"])
def test_append_when_a_file_is_from_outside_then_it_is_brought_into_the_tables_folder(
    log: CommitLog, table: str, outside: Path, how: str | None
) -> None:
    for _ in range(1 if how == "move" else 2):
        assert log.table(table).append(files=[outside], outside=how, create=True) is not None
    found = files_in(log, table)
    assert [pq.read_table(file) for file in found] == [ROWS] * len(found)
    assert outside.exists() == (how != "move")
    # A copy is a file of its own: who writes over the source changes no table.
    assert how == "move" or not any(file.samefile(outside) for file in found)
    assert len(found) == (1 if how == "move" else 2)


@pytest.mark.parametrize("how", ["copy", "move"])
def test_append_when_it_is_refused_then_the_source_stays_and_what_was_brought_is_gone(
    log: CommitLog, table: str, outside: Path, how: str
) -> None:
    with log.transaction() as tx:
        tx.create_table(table, ROWS.schema)
    with pytest.raises(ProposalRejectedError):
        log.append(table, files=[outside], outside=how, decide_before_ms=1)
    pq.write_table(pa.table({"id": ["x"]}), other := outside.parent / "other.parquet")
    with pytest.raises(DataFileError, match=r"other\.parquet does not fit .*expected int64"):
        log.append(table, files=[outside, other], outside=how)
    with pytest.raises(DataFileError, match="does not exist"):
        log.append(table, files=[outside.parent / "none.parquet"], outside=how)
    tx = log.transaction()
    tx.append(table, files=[outside], outside=how)
    tx.__exit__(KeyError, KeyError(), None)
    assert outside.exists()
    assert files_in(log, table) == []


def test_append_when_the_source_of_a_moved_file_is_still_there_then_who_writes_over_it_changes_no_table(
    log: CommitLog, table: str, outside: Path
) -> None:
    with log.transaction() as tx:
        tx.create_table(table, ROWS.schema)
    tx = log.transaction()
    tx.append(table, files=[outside], outside="move")
    assert log.submit_async(tx).result(60).committed
    pq.write_table(ROWS.slice(1), outside)
    assert log.table(table).scan().to_arrow() == ROWS


def test_append_when_a_moved_files_source_cannot_be_removed_then_the_commit_is_told_as_one(
    log: CommitLog, table: str, outside: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tx = log.transaction()
    with tx:
        tx.create_table(table, ROWS.schema)
        tx.append(table, files=[outside], outside="move")
        outside.unlink()
        outside.mkdir()
    assert tx.outcome.committed
    assert len(files_in(log, table)) == 1
    assert f"{outside} is needed by nobody any more, and cannot be removed" in caplog.text


@pytest.mark.parametrize("how", ["copy", "move"])
def test_append_when_a_transaction_names_a_file_from_outside_twice_then_refused_for_one_table_alone(
    log: CommitLog, table: str, outside: Path, how: str
) -> None:
    with log.transaction() as tx:
        for each in (table, f"{table}_b"):
            tx.create_table(each, ROWS.schema)
        with pytest.raises(DataFileError, match="is named twice in this transaction: its rows would be there twice"):
            tx.append(table, files=[outside, str(outside)], outside=how)
        tx.append(table, files=[outside], outside=how)
        with pytest.raises(DataFileError, match="is named twice in this transaction: its rows would be there twice"):
            tx.append(table, files=[str(outside)], outside=how)
        tx.append(f"{table}_b", files=[outside], outside=how)
    assert len(files_in(log, table)) == len(files_in(log, f"{table}_b")) == 1
    assert log.table(table).scan().count() == 3


def test_append_when_a_link_is_moved_then_the_table_has_a_copy_and_what_it_leads_to_stays(
    log: CommitLog, table: str, outside: Path
) -> None:
    (link := outside.parent / "link.parquet").symlink_to(outside)
    log.append(table, files=[link], outside="move", create=True)
    [file] = files_in(log, table)
    assert not link.is_symlink()
    assert not file.samefile(outside)
    assert pq.read_table(file) == ROWS


def test_append_when_a_file_is_to_stay_outside_then_the_table_has_to_allow_it(
    log: CommitLog, table: str, outside: Path
) -> None:
    with log.transaction() as tx:
        tx.create_table(table, ROWS.schema)
    with pytest.raises(DataFileError, match="foreign_paths"):
        log.append(table, files=[outside], outside="reference")
    with log.transaction() as tx:
        tx.alter(table).set_property("foreign_paths", "true")
    assert log.append(table, files=[outside]) is not None
    log.wait_for_snapshot()
    with pytest.raises(DataFileError, match=r"in table .* already"):
        log.append(table, files=[outside], outside="reference")
    assert files_in(log, table) == []
    assert log.append(table, files=[outside], outside="copy") is not None
    assert len(files_in(log, table)) == 1


def test_append_when_a_lakes_own_file_is_to_be_moved_then_refused(log: CommitLog, table: str) -> None:
    log.append(f"{table}_a", ROWS, create=True)
    [file] = files_in(log, f"{table}_a")
    with pytest.raises(DataFileError, match="copy it"):
        log.append(f"{table}_b", files=[file], outside="move", create=True)
    assert log.append(f"{table}_b", files=[file], create=True) is not None
    assert file.exists()


def test_append_when_told_wrongly_what_becomes_of_files_then_says_so(log: CommitLog, table: str, outside: Path) -> None:
    with pytest.raises(InvalidRequestError, match="outside is 'copy', 'move' or 'reference', not 'steal'"):
        log.append(table, files=[outside], outside="steal")
    with pytest.raises(InvalidRequestError, match="is for files="):
        log.append(table, ROWS, outside="copy", create=True)


def test_append_when_a_file_has_finer_times_than_the_column_then_a_filter_finds_them_as_they_are_read(
    log: CommitLog, table: str, outside: Path
) -> None:
    with log.transaction() as tx:
        tx.create_table(table, {"at": "timestamp"})
    pq.write_table(pa.table({"at": pa.array([1_456_789, 1_456_999], pa.timestamp("ns"))}), outside)
    log.append(table, files=[outside], outside="copy")
    for asked, count in (("=", 2), ("<=", 2), (">", 0)):
        assert log.table(table).scan(where=[("at", asked, "1970-01-01 00:00:00.001456")]).count() == count


def test_scan_when_a_file_has_times_beyond_the_columns_unit_then_says_so(
    log: CommitLog, table: str, outside: Path
) -> None:
    with log.transaction() as tx:
        tx.create_table(table, {"id": "int64", "at": "timestamp_ns"})
    rows = pa.table({"id": [1, 2], "at": pa.array([datetime(2024, 1, 1), datetime(9999, 1, 1)], pa.timestamp("us"))})
    pq.write_table(rows, outside, write_statistics=False)
    log.append(table, files=[outside], outside="copy")
    for asked in (None, "at < '2000-01-01'"):
        with pytest.raises(DataFileError, match=r"cannot be read as the table's columns: .* out of bounds timestamp"):
            log.table(table).scan(where=asked).to_arrow()
    with pytest.raises(DataFileError, match="out of bounds timestamp"):
        log.table(table).delete("at < '2000-01-01'")
    assert log.table(table).scan(where="id = 1").to_arrow()["id"].to_pylist() == [1]
    pq.write_table(rows, outside)
    with pytest.raises(DataFileError, match="found 9999-01-01 00:00:00"):
        log.append(table, files=[outside], outside="copy")


class Metres(pa.ExtensionType):  # type: ignore[misc]
    """A type of a program's own."""

    def __init__(self) -> None:
        super().__init__(pa.int64(), "test.metres")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, _: pa.DataType, __: bytes) -> Metres:
        return cls()


def test_append_when_a_type_is_a_programs_own_then_taken_as_what_it_is_stored_as(log: CommitLog, table: str) -> None:
    rows = pa.table({"height": pa.ExtensionArray.from_storage(Metres(), pa.array([1, None]))})
    log.append(table, rows, create=True)
    log.append(table, rows)
    assert log.table(table).scan().to_arrow().column("height").to_pylist() == [1, None] * 2


def test_append_when_arrows_types_are_extensions_of_nested_ones_then_rows_and_files_are_taken_as_what_they_are_stored_as(
    log: CommitLog, table: str, outside: Path
) -> None:
    spans = pd.DataFrame({"span": pd.interval_range(pd.Timestamp(2026, 1, 1), periods=2)})
    storage = pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2))
    vectors = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), (2,)), storage)
    rows = pa.Table.from_pandas(spans).append_column("vector", vectors)
    pq.write_table(rows, outside)
    log.append(f"{table}_of_pandas", spans, create=True)
    log.append(table, rows, create=True)
    log.append(table, files=[outside], outside="copy")
    found = log.table(table).scan().to_arrow().to_pylist()
    told = [{"left": each.left, "right": each.right} for each in spans["span"]]
    assert [row["span"] for row in found] == told * 2
    assert [row["vector"] for row in found] == storage.to_pylist() * 2
    assert [row["span"] for row in log.table(f"{table}_of_pandas").scan().to_arrow().to_pylist()] == told
