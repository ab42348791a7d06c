"""Clean removes what nobody needs, each kind once, and never what a snapshot, the log or a waiting proposal names."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from click.testing import CliRunner, Result
from live_lakes import DAY_S, FIRST_FILE, LiveLake, live_lake
from log_running import Ids, save_checkpoint, write_raw
from pyarrow import fs
from pyroaring import FrozenBitMap64

from commitlog.client import CommitLog
from commitlog.client.files.lake import MARKER, new_name
from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.errors import (
    CatalogMismatchError,
    CatalogRefusedError,
    ConfigurationError,
    DataFileError,
    ProposalRejectedError,
)
from commitlog.log.checkpoint import Checkpointer, checkpoint_dir_of
from commitlog.log.codec import encode_proposal
from commitlog.log.genesis import find_genesis
from commitlog.ops.cli import cli
from commitlog.ops.maintenance import clean as cleaning_module
from commitlog.ops.maintenance import storage
from commitlog.ops.maintenance.clean import Cleaning, Removable
from commitlog.ops.maintenance.doctor import examine
from commitlog.ops.service.serve import prepare

WEEK_MS = 7 * DAY_S * 1000
SECOND_FILE = FIRST_FILE + 2


@pytest.fixture
def lake(settings: Settings) -> Iterator[LiveLake]:
    with live_lake(settings) as lake:
        lake.age(*lake.folder.rglob("*.parquet"))
        yield lake


def ours(lake: LiveLake, folder: str = "main/t") -> Path:
    """A file as our Spark writer names it."""
    return lake.write(f"{folder}/{new_name()}/part-00000-{uuid4()}-c000.snappy.parquet")


def refused(lake: LiveLake, *paths: Path) -> None:
    tx = lake.log.transaction()
    tx.append("main.t", files=[str(path) for path in paths])
    tx.create_table("main.k", schema={"id": "int64"})
    with pytest.raises(ProposalRejectedError):
        tx.commit()


def removable(lake: LiveLake, older_than_ms: int = 0, *, include_foreign: bool = False) -> dict[str, str]:
    with Cleaning(lake.settings, older_than_ms=older_than_ms, include_foreign=include_foreign) as cleaning:
        return {each.place: each.why for each in cleaning.removable()}


def remove_all(lake: LiveLake, older_than_ms: int = 0, *, include_foreign: bool = False) -> list[Removable]:
    with Cleaning(lake.settings, older_than_ms=older_than_ms, include_foreign=include_foreign) as cleaning:
        return list(cleaning.remove(cleaning.removable()))


def live(lake: LiveLake) -> set[Path]:
    return {path for path in lake.folder.rglob("*") if path.is_file()}


def enqueue(lake: LiveLake, proposal: m.Proposal) -> None:
    """Put a proposal into the topic past the sequencer's reach: it is stopped by the caller."""
    write_raw(lake.settings, f"{lake.settings.log}.proposals", encode_proposal(proposal))


def test_clean_when_there_is_one_of_each_kind_then_removes_these_and_nothing_else(lake: LiveLake) -> None:
    kept = live(lake)
    of_refused = ours(lake)
    refused(lake, of_refused)
    of_nobody = [
        ours(lake),
        lake.write(f"main/t/{new_name()}.parquet"),
        lake.write(f"main/k/{new_name()}-deletes.parquet"),
        lake.write(f"gone/table/{new_name()}.parquet"),
    ]
    checksum = of_nobody[0].parent / f".{of_nobody[0].name}.crc"
    checksum.touch()
    strangers = [
        lake.write("export/report.parquet"),
        lake.write(f"{new_name()}/x.parquet"),
        lake.write(f"main/t/{uuid4()}.parquet"),
        lake.write(f"main/t/{uuid4()}/part-0.parquet"),
        lake.folder / "README",
    ]
    strangers[-1].touch()
    young = ours(lake)
    lake.age(of_refused, *of_nobody, *strangers, checksum)

    assert removable(lake, WEEK_MS).keys() == {str(path) for path in of_nobody}, "the refusal itself is young"
    assert removable(lake).keys() == {str(path) for path in [of_refused, *of_nobody, young]}
    removed = remove_all(lake, WEEK_MS)
    assert {each.place for each in removed} == {str(path) for path in of_nobody}
    assert not checksum.parent.exists()
    remove_all(lake)
    remove_all(lake, include_foreign=True)
    assert live(lake) == kept | set(strangers), "what the log has never named is not the log's"
    assert [result.check for result in examine(lake.settings) if not result.is_well] == []


def test_clean_when_results_were_trimmed_then_the_archive_says_what_was_refused(lake: LiveLake, tmp_path: Path) -> None:
    mine = lake.write("main/t/mine.parquet")
    refused(lake, mine)
    lake.age(mine)
    for number in range(2):
        lake.append("main.t", f"main/t/later-{number}.parquet")
    lake.settle()
    save_checkpoint(lake.settings)
    archive = ["archive", "--to", str(tmp_path / "archive"), "--range", "1", "--trim", "--keep", "0s", "--json"]
    done = CliRunner().invoke(cli, archive, env=lake.settings.environment())
    assert json.loads(done.output.splitlines()[-1])["trimmed"] > 0, done.output
    (why,) = removable(lake, include_foreign=True).values()
    assert why.startswith("not made by commitlog's writers; refused: INVALID, proposal ")
    shutil.rmtree(checkpoint_dir_of(lake.settings))
    assert removable(lake) == {}, "it runs where no service keeps its checkpoints, too"


def test_clean_when_somebodys_own_file_was_refused_then_it_goes_only_when_asked_for(lake: LiveLake) -> None:
    mine = lake.write("main/t/mine.parquet")
    refused(lake, mine)
    lake.age(mine)
    assert removable(lake) == {}
    looked: dict[str, tuple[int, int]] = {}

    def on_progress(doing: str, done: int, total: int) -> None:
        looked[doing] = (done, total)

    with Cleaning(lake.settings, older_than_ms=0, on_progress=on_progress) as cleaning:
        assert cleaning.kept() == {"not made by commitlog's writers": 1}
    assert looked.keys() <= {"replaying the log", "looking for files in the log"}
    assert all(0 <= done <= total for done, total in looked.values())
    assert looked
    remove_all(lake)
    assert mine.exists()
    assert removable(lake, WEEK_MS, include_foreign=True) == {}, "the refusal is young"
    (why,) = removable(lake, include_foreign=True).values()
    assert why.startswith("not made by commitlog's writers; refused: INVALID, proposal ")
    assert [each.is_foreign for each in remove_all(lake, include_foreign=True)] == [True]
    assert not mine.exists()


def test_clean_and_doctor_when_proposals_name_other_stores_then_nobody_asks_these(
    lake: LiveLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would be asked with the rights of whoever runs the command."""
    asked: list[str] = []
    monkeypatch.setattr(storage, "filesystem_of", lambda path: asked.append(path) or fs.SubTreeFileSystem("/", local))
    local = fs.LocalFileSystem()
    places = [m.DataFile(f"s3://elsewhere/{name}.parquet", 10, 1000, path_is_relative=False) for name in "abc"]
    with lake.log.transaction() as tx:
        tx.alter("main.t").set_property("foreign_paths", "true")
    with lake.log.transaction() as tx:
        tx.append("main.t", files=places[:2])
    first = tx.outcome.assigned.data_file_ids[0]
    late = lake.log.transaction()
    late.append("main.t", files=places[2:])
    late.create_table("main.k", schema={"id": "int64"})
    with pytest.raises(ProposalRejectedError):
        late.commit()
    with lake.log.transaction() as tx:
        tx.delete("main.t", whole_files=[first])
    with lake.log.transaction() as tx:
        tx.expire_snapshots(tx.base_snapshot_id)
    lake.settle()
    assert lake.sql("SELECT count(*) FROM ducklake_files_scheduled_for_deletion WHERE path LIKE 's3://%'") == [(1,)]
    remove_all(lake, include_foreign=True)
    found = [finding.what for result in examine(lake.settings, footers=100) for finding in result.findings]
    assert any("1 live file in another store than the lake, not checked" in what for what in found)
    assert asked == []


def test_clean_when_the_data_path_is_another_logs_or_nobodys_then_removes_nothing(lake: LiveLake) -> None:
    marker = lake.folder / MARKER
    path = ours(lake)
    lake.age(path)
    told = json.loads(marker.read_text())
    assert told["log"] == lake.settings.log
    with Cleaning(lake.settings, older_than_ms=0) as cleaning:
        found = cleaning.removable()
        marker.write_text(json.dumps({"log_id": str(UUID(int=7)), "log": "theirs"}))
        with pytest.raises(ConfigurationError, match="belongs to log theirs"):
            list(cleaning.remove(found))
    with pytest.raises(ConfigurationError, match="belongs to log theirs"):
        removable(lake)
    (finding,) = [result for result in examine(lake.settings) if not result.is_well]
    assert finding.check == "data path"
    with CommitLog.connect(settings=lake.settings) as another, pytest.raises(ConfigurationError, match="log theirs"):
        another.transaction().append("main.t", files=[str(path)])
    marker.unlink()
    with pytest.raises(ConfigurationError, match="commitlog init"):
        removable(lake)
    (finding,) = [result for result in examine(lake.settings) if not result.is_well]
    assert "is missing" in finding.findings[0].what
    marker.write_text(json.dumps(told))
    assert list(removable(lake)) == [str(path)]


def test_clean_when_another_log_has_a_folder_within_then_leaves_that_alone(lake: LiveLake, ids: Ids) -> None:
    theirs, mine = ours(lake, "theirs/main/t"), ours(lake)
    (lake.folder / "theirs" / MARKER).write_text(json.dumps({"log_id": str(UUID(int=7)), "log": "theirs"}))
    lake.age(theirs, mine, lake.folder / "theirs" / MARKER)
    assert list(removable(lake)) == [str(mine)]
    # It was named here, such as by a link between sites that see the same storage.
    named = m.DataFile(str(theirs), 10, 1000, path_is_relative=False)
    answer = lake.log.submit(m.Proposal(ids.next(), "link", 0, (m.Append("main", "t", (named,)),)))
    assert not answer.committed
    assert list(removable(lake, include_foreign=True)) == [str(mine)]
    lake.sql(f"INSERT INTO ducklake_files_scheduled_for_deletion VALUES (90, '{theirs}', false, now())")
    assert list(removable(lake, include_foreign=True)) == [str(mine)]


def test_init_when_the_data_path_is_another_logs_then_creates_nothing(lake: LiveLake, other_database_url: str) -> None:
    ours(lake)
    log = f"{lake.settings.log}-two"
    second = replace(lake.settings, log=log, database_url=other_database_url)
    with pytest.raises(ConfigurationError, match=f"belongs to log {lake.settings.log} .*for log {log}"):
        prepare(second)
    assert find_genesis(second) is None
    prepare(lake.settings)


def test_clean_when_this_machines_clock_is_ahead_then_no_file_is_older_for_it(
    lake: LiveLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ours(lake)
    ahead_ns = time.time_ns() + 60 * DAY_S * 10**9
    monkeypatch.setattr(cleaning_module.time, "time_ns", lambda: ahead_ns)
    assert removable(lake, WEEK_MS) == {}
    lake.age(path)
    assert list(removable(lake, WEEK_MS)) == [str(path)]


def test_clean_when_the_log_is_long_then_reads_only_its_end(lake: LiveLake, monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[int] = []

    def note(cleaning: Cleaning, outcome: m.Outcome) -> None:
        noted.append(outcome.seq)

    monkeypatch.setattr(Cleaning, "_note", note)
    last = lake.sql("SELECT max(seq) FROM commitlog.outcomes")[0][0]
    assert removable(lake) == {}
    assert noted == [], "all of it is in the catalog, and older than the limit"
    lake.sql(f"UPDATE commitlog.outcomes SET decided_at = now() + interval '1 hour' WHERE seq >= {last - 1}")
    removable(lake)
    assert noted == [last - 1, last]
    noted.clear()
    (lake.folder / "main/t/b.parquet").rename(lake.folder / "b.away")
    removable(lake)
    assert noted == list(range(1, last + 1)), "the catalog's paths may be wrong"


def test_clean_when_a_proposal_commits_between_batches_then_keeps_its_file(
    lake: LiveLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning_module, "BATCH_FILES", 1)
    paths = sorted((ours(lake) for _ in range(4)), key=str)
    lake.age(*paths)
    with Cleaning(lake.settings, older_than_ms=0) as cleaning:
        removing = cleaning.remove(cleaning.removable())
        assert next(removing).place == str(paths[0])
        with lake.log.transaction() as tx:
            tx.append("main.t", files=[str(paths[2])])
        assert [each.place for each in removing] == [str(paths[1]), str(paths[3])]
    assert [path.exists() for path in paths] == [False, False, True, False]


def test_clean_when_snapshots_expired_then_their_files_go_and_the_rows_with_them(
    lake: LiveLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign, gone, rewritten = lake.folder / "main/t/b.parquet", ours(lake), ours(lake)
    with lake.log.transaction() as tx:
        tx.append("main.t", files=[str(gone), str(rewritten)])
    lake.settle()
    whole = [row[0] for row in lake.sql("SELECT data_file_id FROM ducklake_data_file WHERE path ~ '^(b|commitlog-)'")]
    with lake.log.transaction() as tx:
        tx.delete("main.t", whole_files=whole)
    lake.settle()
    assert removable(lake) == {}, "a snapshot that is kept still has them"
    with lake.log.transaction() as tx:
        tx.expire_snapshots(lake.log.head_snapshot_id())
    lake.settle()
    lake.write(str(rewritten.relative_to(lake.folder)), range(5))
    future = lake.sql("SELECT extract(epoch FROM max(schedule_start)) + 5 FROM ducklake_files_scheduled_for_deletion")
    os.utime(rewritten, (float(future[0][0]), float(future[0][0])))
    assert removable(lake, WEEK_MS) == {}
    assert removable(lake, 10**30) == {}, "no file is so old"
    monkeypatch.setenv("PGTZ", "Asia/Tokyo")
    found = removable(lake)
    assert list(found) == [str(gone)], "what was written anew since it expired stays"
    went = datetime.strptime(found[str(gone)], "expired: its last snapshot went at %Y-%m-%d %H:%M UTC")
    assert abs(datetime.now(UTC).replace(tzinfo=None) - went) < timedelta(hours=1)
    remove_all(lake)
    assert not gone.exists()
    assert rewritten.exists()
    assert len(lake.sql("SELECT 1 FROM ducklake_files_scheduled_for_deletion")) == 2
    with Cleaning(lake.settings, older_than_ms=0) as cleaning:
        assert cleaning.kept() == {"expired, but not made by commitlog's writers": 1}
    rewritten.unlink()
    assert [each.size_bytes for each in remove_all(lake)] == [None]
    assert foreign.exists()
    assert [each.place for each in remove_all(lake, include_foreign=True)] == [str(foreign)]
    assert not foreign.exists()
    assert lake.sql("SELECT 1 FROM ducklake_files_scheduled_for_deletion") == []


def test_clean_when_the_projector_is_behind_then_keeps_what_the_log_committed(lake: LiveLake, ids: Ids) -> None:
    base = lake.log.head_snapshot_id()
    lake.pause()
    in_tables = [ours(lake, f"main/{table}") for table in ("t", "t", "t", "k", "n")]
    names = [str(path.relative_to(path.parent.parent)) for path in in_tables]
    appended, deletes, compacted, flushed, of_new = names
    create = m.CreateTable("main", "n", (m.ColumnSpec("id", "int64"),))
    for changes in (
        [m.Append("main", "t", (m.DataFile(appended, 10, 1000),))],
        [m.Delete("main", "t", delete_files=(m.DeleteFile(SECOND_FILE, deletes, FrozenBitMap64([0]), 1000),))],
        [m.Compact("main", "t", (FIRST_FILE,), (m.DataFile(compacted, 8, 1000),))],
        [m.Flush("main", "k", (m.DataFile(flushed, 2, 1000, row_ids=(0, 1)),))],
        [create, m.Append("main", "n", (m.DataFile(of_new, 10, 1000),))],
    ):
        answer = lake.log.submit(m.Proposal(ids.next(), "w", base, tuple(changes)))
        assert answer.committed, answer.detail
    lake.age(*in_tables)
    with Cleaning(lake.settings, older_than_ms=0) as cleaning:
        assert cleaning.removable() == []
        assert cleaning.kept() == {"committed by the log, and not in the catalog": len(names)}


@pytest.mark.parametrize("decided", [True, False])
def test_clean_when_an_expired_file_is_appended_again_then_keeps_it(lake: LiveLake, ids: Ids, decided: bool) -> None:
    path = ours(lake)
    with lake.log.transaction() as tx:
        tx.append("main.t", files=[str(path)])
    (whole,) = tx.outcome.assigned.data_file_ids
    with lake.log.transaction() as tx:
        tx.delete("main.t", whole_files=[whole])
    with lake.log.transaction() as tx:
        tx.expire_snapshots(tx.base_snapshot_id)
    lake.settle()
    assert list(removable(lake)) == [str(path)]
    lake.pause()
    file = m.DataFile(str(path.relative_to(lake.folder / "main/t")), 10, 1000)
    again = m.Proposal(ids.next(), "again", lake.log.head_snapshot_id(), (m.Append("main", "t", (file,)),))
    if decided:
        assert lake.log.submit(again).committed
    else:
        lake.stop_sequencer()
        enqueue(lake, again)
    assert removable(lake) == {}


@pytest.mark.parametrize(("relative", "trimmed"), [(False, True), (True, False)])
def test_clean_when_a_refused_files_proposal_waits_again_then_keeps_it(
    lake: LiveLake, ids: Ids, relative: bool, trimmed: bool
) -> None:
    path = ours(lake)
    refused(lake, path)
    lake.age(path)
    assert list(removable(lake)) == [str(path)]
    if trimmed:
        Checkpointer(lake.settings).checkpoint_now()
    lake.stop_sequencer()
    named = str(path.relative_to(lake.folder / "main/t")) if relative else f"file://{path}"
    file = m.DataFile(named, 10, 1000, path_is_relative=relative)
    # Of a table that one before it may create, or give this name.
    proposal = m.Proposal(ids.next(), "later", lake.log.head_snapshot_id(), (m.Append("main", "later", (file,)),))
    enqueue(lake, proposal)
    with Cleaning(lake.settings, older_than_ms=0) as cleaning:
        assert cleaning.removable() == []
        assert cleaning.kept() == {"a proposal that names it is not decided yet": 1}


def test_clean_when_something_is_proposed_after_it_looked_then_keeps_it(lake: LiveLake) -> None:
    first, second, third = ours(lake), ours(lake), ours(lake)
    # A heartbeat on its way that is older than they are would have them be younger than now.
    lake.age(first, second, third)
    with Cleaning(lake.settings, older_than_ms=0) as cleaning:
        found = cleaning.removable()
        assert len(found) == 3
        with lake.log.transaction() as tx:
            tx.append("main.t", files=[str(first)])
        lake.write(str(second.relative_to(lake.folder)), range(3))
        os.utime(second, (1, 1))
        assert [each.place for each in cleaning.remove(found)] == [str(third)]
    assert first.exists()
    assert second.exists()
    assert not third.exists()


def test_listing_when_a_store_has_keys_that_are_no_paths_then_leaves_them_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Store:
        def get_file_info(self, _: fs.FileSelector) -> list[fs.FileInfo]:
            names = (
                "main/t/a.parquet",
                "main/t/x//b.parquet",
                "main/./c.parquet",
                "main/../d.parquet",
                "e f%20.parquet",
            )
            return [fs.FileInfo(f"bucket/lake/{name}", fs.FileType.File, size=1, mtime_ns=0) for name in names]

    monkeypatch.setattr(storage, "filesystem_of", lambda _: (Store(), "bucket/lake"))
    listed = storage.list_files("s3://bucket/lake")
    assert [*listed] == ["s3://bucket/lake/main/t/a.parquet", "s3://bucket/lake/e f%20.parquet"]


def test_listing_when_files_and_folders_go_meanwhile_then_leaves_them_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "lake" / "main" / "t"
    (table / "_temporary").mkdir(parents=True)
    for name in ("a.parquet", "b.parquet", "_temporary/c.parquet"):
        (table / name).touch()
    scandir = os.scandir

    @contextmanager
    def slow(folder: str) -> Iterator[Iterator[os.DirEntry[str]]]:
        with scandir(folder) as entries:
            found = list(entries)
        if Path(folder) == table:
            for gone in ("b.parquet", "_temporary"):
                (table / gone).rename(tmp_path / gone)
        yield iter(found)

    monkeypatch.setattr(os, "scandir", slow)
    assert [*storage.list_files(str(tmp_path / "lake"))] == [str(table / "a.parquet")]


def test_clean_when_a_store_lists_parts_of_a_second_and_tells_none_of_one_file_then_removes_it(
    lake: LiveLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(path: str) -> storage.StoredFile | None:
        found = storage.stored_file(path)
        return None if found is None else replace(found, modified_ms=(found.modified_ms or 0) // 1000 * 1000)

    file = ours(lake)
    os.utime(file, (1_000_000_000.789, 1_000_000_000.789))
    monkeypatch.setattr(cleaning_module, "stored_file", told)
    assert [each.place for each in remove_all(lake)] == [str(file)]


def test_clean_when_paths_are_written_otherwise_then_still_the_same_file(lake: LiveLake, tmp_path: Path) -> None:
    by_link, dotted, escaped = ours(lake), ours(lake), lake.write(f"main/t/{new_name()}/a b.parquet")
    (tmp_path / "link").symlink_to(lake.folder)
    target = lake.write(f"main/t/{new_name()}.parquet")
    (lake.folder / "named.parquet").symlink_to(target)
    names = [
        str(tmp_path / "link" / by_link.relative_to(lake.folder)),
        str(dotted.parent / ".." / dotted.parent.name / dotted.name),
        f"file://{str(escaped).replace(' ', '%20')}",
        str(lake.folder / "named.parquet"),
    ]
    files = tuple(m.DataFile(name, 10, 1000, path_is_relative=False) for name in names)
    with lake.log.transaction() as tx:
        tx.alter("main.t").set_property("foreign_paths", "true")
        tx.append("main.t", files=files)
    lake.settle()
    assert removable(lake) == {}
    lake.sql("UPDATE ducklake_data_file SET path = 'x' || path WHERE data_file_id > 3")
    with Cleaning(lake.settings, older_than_ms=0) as cleaning:
        assert cleaning.removable() == [], "the log's word is enough"


def test_clean_when_a_scheduled_file_is_in_use_again_or_outside_of_the_data_path_then_it_is_not_touched(
    lake: LiveLake, tmp_path: Path
) -> None:
    a = lake.folder / "main/t/a.parquet"
    lake.sql("INSERT INTO ducklake_files_scheduled_for_deletion VALUES (90, 'main/t/a.parquet', true, '2000-01-01')")
    os.utime(a, (1, 1))
    assert removable(lake) == {}
    lake.sql("INSERT INTO ducklake_files_scheduled_for_deletion VALUES (1, 'main/t/lost.parquet', true, '2000-01-01')")
    assert removable(lake) == {}, "by its id it is live"
    either = lake.write(f"main/t/{new_name()}/a%20b.parquet")
    shutil.copy(either, either.with_name("a b.parquet"))
    lake.age(either, either.with_name("a b.parquet"), days=20_000)
    lake.sql(f"INSERT INTO ducklake_files_scheduled_for_deletion VALUES (92, 'file://{either}', false, '2000-01-01')")
    assert removable(lake) == {}, "nobody knows which of the two it is"
    outside = tmp_path / "outside.parquet"
    outside.touch()
    lake.sql(
        f"INSERT INTO ducklake_files_scheduled_for_deletion VALUES (90, '{outside}', false, '2000-01-01'), "
        "(91, '../outside.parquet', true, '2000-01-01')"
    )
    with Cleaning(lake.settings, older_than_ms=0) as cleaning:
        assert list(cleaning.remove(cleaning.removable())) == []
        assert cleaning.kept() == {"outside of the data path (remove it yourself), or in another log's folder": 2}
    assert outside.exists()


def test_clean_when_the_lake_is_not_seen_or_the_catalog_is_damaged_then_removes_nothing(lake: LiveLake) -> None:
    ours(lake)
    lake.pause()
    files = {name: lake.folder / f"main/t/{name}.parquet" for name in ("a", "b")}
    for name, path in files.items():
        path.rename(lake.folder / f"{name}.away")
    with pytest.raises(DataFileError, match="nothing is removed"):
        removable(lake)
    for name, path in files.items():
        (lake.folder / f"{name}.away").rename(path)
    lake.sql("DELETE FROM ducklake_data_file WHERE path LIKE 'b%'")
    with pytest.raises(CatalogMismatchError, match="doctor"):
        removable(lake)
    lake.sql("UPDATE commitlog.applied SET hash = '\\x00'")
    with pytest.raises(CatalogMismatchError, match="doctor"):
        removable(lake)


@pytest.mark.parametrize(
    ("statement", "error", "told"),
    [
        ("UPDATE ducklake_data_file SET table_id = NULL WHERE path LIKE 'b%'", CatalogMismatchError, "doctor"),
        ("DELETE FROM ducklake_metadata WHERE key = 'data_path'", CatalogMismatchError, "no data_path"),
        (
            "INSERT INTO ducklake_files_scheduled_for_deletion VALUES (7, 'x', true, NULL)",
            CatalogMismatchError,
            "without an id, a path or a time",
        ),
        (
            "INSERT INTO ducklake_files_scheduled_for_deletion VALUES (7, 'x', true, 'infinity')",
            CatalogRefusedError,
            "",
        ),
        ("ALTER TABLE ducklake_delete_file RENAME TO taken_away", CatalogRefusedError, "ducklake_delete_file"),
    ],
)
def test_clean_when_the_catalog_holds_what_commitlog_never_writes_then_says_so_and_removes_nothing(
    lake: LiveLake, statement: str, error: type[Exception], told: str
) -> None:
    path = ours(lake)
    lake.age(path)
    lake.pause()
    lake.sql(statement)
    done = CliRunner().invoke(cli, ["clean", "--yes"], env=lake.settings.environment())
    assert type(done.exception) is error, done.output
    assert told in str(done.exception)
    assert path.exists()


def test_clean_when_called_then_asks_shows_and_removes(lake: LiveLake) -> None:
    path = ours(lake)
    lake.age(path)

    def run(*arguments: str, given: str = "") -> Result:
        return CliRunner().invoke(cli, ["clean", *arguments], input=given, env=lake.settings.environment())

    shown = run("--dry-run")
    assert shown.exit_code == 0, shown.output
    assert str(path) in shown.stdout
    nothing = run("--older-than", "60d", "--yes").stdout.splitlines()
    assert [nothing[0].partition(" bytes")[0], nothing[-1]] == ["0 files, 0", "0 removed"]
    assert run(given="n\n").stdout.endswith("0 removed\n")
    assert run("--json").exit_code == 2
    assert run("--older-than", "soon").exit_code == 2
    assert path.exists()
    assert "at least 1h" in run("--older-than", "59m", "--yes").output
    assert run("--older-than", "0d", "--yes").exit_code == 2
    assert path.exists()
    (line,) = run("--json", "--yes").stdout.splitlines()
    told = json.loads(line)
    assert (told["path"], told["removed"]) == (str(path), True)
    assert not path.exists()
