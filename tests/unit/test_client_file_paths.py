"""What a transaction may name as files: below the table's folder, each once, and none that the table has already."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import FrozenBitMap64

from commitlog.client.files.lake import is_named_by_us
from commitlog.domain import model as m
from commitlog.errors import DataFileError, OutcomeUnknownError
from commitlog.ops.maintenance import storage
from commitlog.ops.maintenance.storage import footer_sizes, list_files, stored_file
from commitlog.testing import InMemoryCommitLog

NOWHERE = "gopher://lake/data"
FILE = m.DataFile("a.parquet", record_count=10, file_size_bytes=100)


@pytest.fixture
def log(tmp_path: Path) -> InMemoryCommitLog:
    log = InMemoryCommitLog(data_path=tmp_path / "lake")
    with log.transaction() as tx:
        tx.create_table("main.t", {"id": "int64"})
    return log


def write(path: str | Path, *ids: int) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), path)
    return str(path)


def test_files_when_there_is_no_store_of_their_scheme_then_says_which_there_are(log: InMemoryCommitLog) -> None:
    told = r"gopher://lake/data.* cannot be reached .*gopher.*: the URL of an object store begins with s3://"
    with pytest.raises(OSError, match=told):
        list_files(NOWHERE)
    assert stored_file(f"{NOWHERE}/a.parquet") is None
    with InMemoryCommitLog(data_path=NOWHERE) as nowhere, pytest.raises(OSError, match=told):
        nowhere.append("t", pa.table({"id": [1]}), create=True)
    with pytest.raises(DataFileError, match=told):
        log.append("main.t", [f"{NOWHERE}/a.parquet"])


def test_stored_file_when_its_store_is_not_reached_then_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreached(_: str) -> NoReturn:
        raise OSError("no region")

    monkeypatch.setattr(storage, "filesystem_of", unreached)
    with pytest.raises(OSError, match="no region"):
        stored_file("s3://lake/a.parquet")


def test_stored_file_when_a_url_may_mean_two_places_then_it_is_the_one_where_it_is(tmp_path: Path) -> None:
    names = [f"d={hour}%3A00.parquet" for hour in range(10)] + [f"d={hour} a.m..parquet" for hour in range(10)]
    paths = [f"file://{write(tmp_path / name, 1)}".replace(" ", "%20") for name in names]
    assert [path for path in paths if stored_file(path) is None] == []
    assert None not in footer_sizes(paths).values()


def test_append_when_a_file_is_to_stay_elsewhere_then_says_where_to_write_it(
    log: InMemoryCommitLog, tmp_path: Path
) -> None:
    elsewhere = [write(tmp_path / "x.parquet", 1), write(tmp_path / "lake/main/x.parquet", 1)]
    elsewhere.append(f"{tmp_path}/lake/main/t/../x.parquet")
    for path in elsewhere:
        with pytest.raises(DataFileError, match=r"not below the folder of table main\.t.*new_file.*foreign_paths"):
            log.transaction().append("main.t", [path], outside="reference")
    with pytest.raises(DataFileError, match="not below the folder"):
        log.transaction().append("main.t", [FILE.replace(path="s3://other/x.parquet", path_is_relative=False)])
    with log.transaction() as tx:
        tx.alter("main.t").set_property("foreign_paths", "true")
        tx.append("main.t", elsewhere[:2])
    assert tx.outcome.committed


@pytest.mark.parametrize(
    "path", ["../x.parquet", "a/../x.parquet", "./x.parquet", "/x.parquet", "a//x", "s3://b/x", "a/"]
)
def test_append_when_a_path_is_not_plain_then_refuses_it_whatever_the_table_takes(
    log: InMemoryCommitLog, path: str
) -> None:
    with log.transaction() as tx:
        tx.alter("main.t").set_property("foreign_paths", "true")
    with pytest.raises(DataFileError, match="plain form"):
        log.transaction().append("main.t", [FILE.replace(path=path)])
    delete = m.DeleteFile(0, path, FrozenBitMap64([1]), 100)
    with pytest.raises(DataFileError, match="plain form"):
        log.transaction().delete("main.t", delete_files=[delete])


def test_append_when_a_file_is_named_twice_then_refuses_it(log: InMemoryCommitLog) -> None:
    tx = log.transaction()
    path = write(tx.new_file("main.t"), 1)
    tx.append("main.t", [path])
    with pytest.raises(DataFileError, match="twice"):
        tx.append("main.T", [f"file://{path}"])
    with pytest.raises(DataFileError, match="twice"):
        log.transaction().append("main.t", [FILE, FILE])


def test_append_when_the_table_has_the_file_already_then_refuses_it(log: InMemoryCommitLog) -> None:
    with log.transaction() as tx:
        path = write(tx.new_file("main.t"), 1, 2)
        tx.append("main.t", [path])
    again = log.transaction()
    with pytest.raises(DataFileError, match=r"in table main\.t already, as data file 1"):
        again.append("main.t", [path])
    with log.transaction() as tx:
        tx.delete("main.t", whole_files=[1])
        tx.append("main.t", [path])
    with log.transaction() as tx:
        tx.delete("main.t", whole_files=[3])
    with log.transaction() as tx:
        tx.append("main.t", [path])
    assert tx.outcome.committed


def test_append_when_the_same_commit_is_made_again_then_it_is_answered(log: InMemoryCommitLog) -> None:
    path = write(log.transaction().new_file("main.t"), 1, 2)

    def load() -> bool:
        with log.transaction(writer_id="load", writer_seq=1) as tx:
            tx.append("main.t", [path])
        return tx.outcome.is_repeat

    assert [load(), load()] == [False, True]
    other = write(log.transaction().new_file("main.t"), 3)
    log.lose_next_answer()
    tx = log.transaction()
    tx.append("main.t", [other])
    with pytest.raises(OutcomeUnknownError):
        tx.commit()
    assert tx.commit().is_repeat


def test_new_file_when_asked_then_is_in_the_tables_folder_by_a_name_of_ours(
    log: InMemoryCommitLog, tmp_path: Path
) -> None:
    tx = log.transaction()
    tx.create_table("main.new", {"id": "int64"})
    for table in ("t", "new"):
        folder, _, name = tx.new_file(f"main.{table}").rpartition("/")
        assert folder == f"{tmp_path}/lake/main/{table}"
        assert is_named_by_us(name)
        assert Path(folder).is_dir()
    assert tx.new_file("main.t") != tx.new_file("main.t")


def test_append_when_a_name_has_letters_of_patterns_or_urls_then_reads_that_file(log: InMemoryCommitLog) -> None:
    folder = Path(log.transaction().new_file("main.t")).parent
    write(folder / "e1.parquet", 1, 2, 3)
    write(folder / "a b.parquet", 1, 2, 3)
    for name in ("e[12].parquet", "e?.parquet", "*.parquet", "a%20b.parquet", "{e1,e2}.parquet", "e#1.parquet"):
        with log.transaction() as tx:
            tx.append("main.t", [write(folder / name, 7)])
        change = log.outcomes[-1].proposal.changes[0]  # type: ignore[union-attr]
        assert isinstance(change, m.Append)
        assert [(file.path, file.record_count) for file in change.files] == [(name, 1)]
