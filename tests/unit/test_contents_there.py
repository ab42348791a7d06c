"""Tables without a primary key at several sites: what is appended at one comes to all, and what stops a link (rules.md 6)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import logs_of_sites
import pytest

from commitlog.client import Transaction
from commitlog.client.files import copying
from commitlog.client.files.copying import copy_whole, lasting_name
from commitlog.client.files.lake import is_named_by_us, new_name
from commitlog.domain import model as m
from commitlog.domain.model.definitions import FOREIGN_PATHS, REPLICATED
from commitlog.errors import (
    DataFileError,
    LinkStoppedError,
    ResultsTrimmedError,
    SiteWentBackError,
    TableNotBroughtError,
)
from commitlog.sites.link import Link, LinkProgress
from commitlog.testing import InMemoryCommitLog

pytestmark = pytest.mark.no_cover

COLUMNS = {"id": "int64", "v": "varchar"}
Sites = Callable[..., InMemoryCommitLog]


@pytest.fixture
def site(tmp_path: Path) -> Sites:
    """Makes a site with a lake of its own."""

    return lambda name, priority=0: logs_of_sites.site(name, priority, data_path=tmp_path / name)


@pytest.fixture
def a(site: Sites) -> InMemoryCommitLog:
    log = site("a")
    with log.transaction() as tx:
        tx.create_table("main.t", COLUMNS)
    return log


@pytest.fixture
def b(site: Sites, a: InMemoryCommitLog) -> InMemoryCommitLog:
    log = site("b")
    bring(a, log)
    return log


def bring(source: InMemoryCommitLog, target: InMemoryCommitLog) -> LinkProgress:
    return Link(source, target).run(follow=False)


def append(log: InMemoryCommitLog, *ids: int, table: str = "main.t", **more: Any) -> None:
    log.table(table).append([{"id": each, "v": "x", **more} for each in ids])


def ids(log: InMemoryCommitLog, table: str = "main.t") -> list[int]:
    return sorted(row["id"] for row in log.table(table).scan().to_arrow().to_pylist())


def alter(log: InMemoryCommitLog, *steps: m.Alteration, table: str = "t") -> None:
    with log.transaction() as tx:
        tx._add(m.AlterTable("main", table, steps))


def leave_out(log: InMemoryCommitLog, table: str = "t") -> None:
    alter(log, m.Alteration(m.AlterOp.SET_PROPERTY, key=REPLICATED, value="false"), table=table)


def adding(name: str) -> m.Alteration:
    return m.Alteration(m.AlterOp.ADD_COLUMN, column=m.ColumnSpec(name, "varchar"))


def last_files(log: InMemoryCommitLog) -> tuple[m.DataFile, ...]:
    proposal = log.outcomes[-1].proposal
    assert proposal is not None
    return tuple(file for each in proposal.changes if isinstance(each, m.Append) for file in each.files)


def place_of(log: InMemoryCommitLog) -> Path:
    [file] = last_files(log)
    folder = log.table("main.t").at().path
    assert folder is not None
    return Path(folder) / file.path


def test_link_when_files_are_appended_then_copies_them_and_both_sites_hold_the_same_rows(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    append(a, 1, 2)
    written = place_of(a)
    append(b, 3)
    progress = bring(a, b)
    assert (progress.brought, progress.files, progress.file_bytes) == (1, 1, written.stat().st_size)
    assert bring(b, a).files == 1
    assert ids(a) == ids(b) == [1, 2, 3]
    copy = place_of(a)
    assert copy.is_relative_to(written.parent)
    assert is_named_by_us(copy.name)
    assert (bring(a, b).brought, bring(b, a).brought) == (0, 0)


def test_link_when_the_table_takes_files_from_elsewhere_then_names_them_where_they_are(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    alter(b, m.Alteration(m.AlterOp.SET_PROPERTY, key=FOREIGN_PATHS, value="true"))
    append(a, 1)
    bring(a, b)
    assert [(each.path, each.path_is_relative) for each in last_files(b)] == [(str(place_of(a)), False)]
    assert ids(b) == [1]
    with a.transaction() as tx:
        tx.create_table("main.u", COLUMNS, properties={FOREIGN_PATHS: "true"})
        tx.append("main.u", [{"id": 2, "v": "x"}])
    bring(a, b)
    assert not last_files(b)[0].path_is_relative
    assert ids(b, "main.u") == [2]


def test_link_when_one_transaction_makes_a_table_and_appends_then_its_files_are_copied_to_where_it_will_be(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    with a.transaction() as tx:
        tx.create_table("main.U", COLUMNS)
        tx.append("main.U", [{"id": 1, "v": "x"}])
        tx.append("main.U", [{"id": 2, "v": "x"}])
    bring(a, b)
    assert len({each.path for each in last_files(b)}) == 2
    assert ids(b, "main.u") == [1, 2]


@pytest.mark.parametrize(("is_there", "if_not_exists"), [(False, False), (False, True), (True, True)])
def test_link_when_a_schema_is_made_with_its_table_and_files_then_these_are_copied_to_where_they_will_be(
    a: InMemoryCommitLog, b: InMemoryCommitLog, is_there: bool, if_not_exists: bool
) -> None:
    if is_there:
        with b.transaction() as tx:
            tx.create_schema("SALES")
    append(a, 1, 2)
    written = place_of(a)
    folder = Path(a._memory._genesis.data_path) / "Sales" / "T"
    folder.mkdir(parents=True)
    shutil.copy(written, folder)
    with a.transaction() as tx:
        tx.create_schema("Sales", if_not_exists=if_not_exists)
        tx.create_table("sales.T", COLUMNS)
        tx.append("SALES.t", files=last_files(a))
    bring(a, b)
    assert ids(a, "sales.t") == ids(b, "sales.t") == [1, 2]


def test_link_when_nobody_knows_where_the_files_of_a_new_table_will_be_then_says_so(
    a: InMemoryCommitLog, b: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(b._memory, "new_table_path", lambda *_, **__: None)
    with a.transaction() as tx:
        tx.create_table("main.u", COLUMNS)
        tx.append("main.u", [{"id": 1, "v": "x"}])
    with pytest.raises(TableNotBroughtError, match=r"where the files of table main\.u will be is not known"):
        bring(a, b)


def test_link_when_a_transaction_appends_and_swaps_names_then_the_files_come_to_the_same_table(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    with a.transaction() as tx:
        tx.create_table("main.next", {"w": "varchar", **COLUMNS})
    append(a, 1)
    with a.transaction() as tx:
        tx.append("main.next", [{"id": 2, "v": "x", "w": "y"}])
        tx.rename_table("main.t", "old")
        tx.rename_table("main.next", "t")
        tx.rename_table("main.old", "next")
    bring(a, b)
    for table in ("main.t", "main.next"):
        rows = [log.table(table).scan().to_arrow().to_pylist() for log in (a, b)]
        assert rows[0] == rows[1]
    assert (ids(b), ids(b, "main.next")) == ([2], [1])


def test_link_when_a_transaction_appends_and_alters_the_table_then_brings_both(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    with a.transaction() as tx:
        tx.append("main.t", [{"id": 1, "v": "x"}])
        tx.alter("main.t").rename_column("v", "w")
    with a.transaction() as tx:
        tx.append("main.t", [{"id": 2, "w": "x"}])
        tx.alter("main.t").drop_column("w").add_column("w", "varchar")
    with a.transaction() as tx:
        tx.alter("main.t").rename_column("w", "v")
        tx.append("main.t", [{"id": 3, "v": "x"}])
    bring(a, b)
    rows = [sorted(map(str, log.table("main.t").scan().to_arrow().to_pylist())) for log in (a, b)]
    assert rows[0] == rows[1]


def test_link_when_a_third_site_is_beyond_then_files_are_passed_on(
    site: Sites, a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    append(a, 1)
    with a.transaction() as tx:
        tx.insert_row("main.t", {"id": 2, "v": "in no file"})
    c = site("c")
    bring(a, b)
    assert bring(b, c).files == 1
    append(c, 3)
    bring(c, b)
    bring(b, a)
    assert ids(a) == ids(b) == ids(c) == [1, 2, 3]
    assert bring(a, c).brought == 0


def test_link_when_a_snapshot_came_through_a_site_that_left_a_table_out_then_the_same_files_have_the_same_names(
    site: Sites, a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    with a.transaction() as tx:
        tx.create_table("main.u", COLUMNS)
    c = site("c")
    bring(a, b)
    bring(a, c)
    append(a, 1, table="main.u")
    bring(a, c)
    leave_out(c)
    with a.transaction() as tx:
        tx.append("main.t", [{"id": 2, "v": "x"}])
        tx.append("main.u", [{"id": 3, "v": "x"}])
        tx.append("main.u", [{"id": 4, "v": "x"}])
    bring(a, c)

    def the_makers_own_link_is_faster(_: LinkProgress) -> None:
        if ids(b, "main.u") == [1]:
            bring(a, b)

    Link(c, b).run(follow=False, told=the_makers_own_link_is_faster)
    assert ids(a, "main.u") == ids(b, "main.u") == ids(c, "main.u") == [1, 3, 4]


def test_link_when_it_died_after_the_copy_then_takes_the_file_that_is_there(
    a: InMemoryCommitLog, b: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(a, 1)
    link = Link(a, b)

    class DiedError(Exception):
        pass

    def die(progress: LinkProgress) -> None:
        if progress.files:
            raise DiedError

    with pytest.raises(DiedError):
        link.run(follow=False, told=die)
    assert ids(b) == []
    monkeypatch.setattr(copying, "_write", lambda *_: pytest.fail("it is copied again"))
    assert bring(a, b).files == 1
    assert ids(b) == [1]


def test_link_when_the_file_is_gone_or_another_one_then_stops_and_goes_on_when_it_is_there_again(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    append(a, 1)
    place = place_of(a)
    content = place.read_bytes()
    place.unlink()
    with pytest.raises(TableNotBroughtError, match=r"stops at snapshot 3 of a: .* does not exist any more") as stopped:
        bring(a, b)
    assert (stopped.value.snapshot_id, stopped.value.table) == (3, "main.t")
    place.write_bytes(content + b"more")
    with pytest.raises(TableNotBroughtError, match="it is another file now"):
        bring(a, b)
    assert list(place.parent.parent.parent.joinpath("b").rglob("*.parquet")) == []
    place.write_bytes(content)
    bring(a, b)
    assert ids(b) == [1]


def test_link_when_a_store_does_not_take_a_file_then_asks_nobody_to_leave_the_table_out_and_goes_on_later(
    a: InMemoryCommitLog, b: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(a, 1)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(copying, "_write", full)
    with pytest.raises(
        TableNotBroughtError, match=r"No space left on device\. Nothing is lost: .* start the link"
    ) as stopped:
        bring(a, b)
    assert REPLICATED not in str(stopped.value)
    monkeypatch.undo()
    bring(a, b)
    assert ids(b) == [1]


def test_link_when_a_file_takes_long_then_tells_how_far_it_is_meanwhile_and_can_be_stopped(
    a: InMemoryCommitLog, b: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who hears nothing of a link for two minutes takes it for stuck."""
    monkeypatch.setattr(copying, "_CHUNK_BYTES", 64)
    append(a, 1)
    told: list[int] = []
    Link(a, b).run(follow=False, told=lambda progress: told.append(progress.files))
    assert told.count(0) > 2 * place_of(a).stat().st_size // 64
    append(a, 2)

    class StoppedError(Exception):
        pass

    def stop(_: LinkProgress) -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        Link(a, b).run(follow=False, told=stop)
    folder = b.table("main.t").at().path
    assert folder is not None
    assert len(list(Path(folder).iterdir())) == 1
    bring(a, b)
    assert ids(b) == [1, 2]


def test_copy_when_the_store_is_slow_then_no_more_than_a_part_of_the_file_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store takes in the background what it is given, which is in memory till then."""
    monkeypatch.setattr(copying, "_CHUNK_BYTES", 4)
    monkeypatch.setattr(copying, "_BEHIND_BYTES", 8)
    place, waits, waited = tmp_path / "a.parquet", [0], []
    place.write_bytes(b"c" * 30)

    class Slow:
        def __enter__(self) -> Slow:
            return self

        def __exit__(self, *_: object) -> None: ...

        def write(self, chunk: bytes) -> None:
            waits[0] += len(chunk)
            waited.append(waits[0])

        def flush(self) -> None:
            waits[0] = 0

        def open_output_stream(self, _: str) -> Slow:
            return self

    local, _ = copying.filesystem_of(str(place))
    with pytest.raises(DataFileError, match="had 31"):
        copying._write(local, str(place), Slow(), "b", "a", 31, lambda: None)  # type: ignore[arg-type]
    assert max(waited) == 8


@pytest.mark.parametrize("how", ["delete", "overwrite"])
def test_link_when_rows_are_taken_out_then_stops_until_the_table_is_left_where_it_is(
    site: Sites, a: InMemoryCommitLog, b: InMemoryCommitLog, how: str
) -> None:
    c = site("c")
    append(a, 1, 2)
    bring(a, b)
    if how == "delete":
        a.table("main.t").delete("id = 1")
    else:
        a.table("main.t").overwrite([{"id": 2, "v": "y"}], "id = 2")
    append(a, 3)
    with a.transaction() as tx:
        tx.create_table("main.k", COLUMNS, primary_key=["id"])
        tx.insert_row("main.k", {"id": 1, "v": "k"})
    with pytest.raises(TableNotBroughtError, match=r"takes rows out of table main\.t.*set the property replicated of"):
        bring(a, b)
    leave_out(b)
    assert bring(a, b).files == 0
    assert (ids(b), ids(b, "main.k")) == ([1, 2], [1])
    assert bring(a, b).brought == 0
    # Whoever is beyond leaves it, too; and so does the site itself, for what was set goes there as well.
    bring(b, c)
    assert (ids(c), ids(c, "main.k")) == ([1, 2], [1])
    append(c, 4)
    assert bring(c, b).left_out == 1
    bring(b, a)
    append(a, 5)
    assert bring(a, b).left_out == 1


def test_link_when_it_cannot_bring_a_table_whose_name_has_dots_or_quotes_then_names_it_as_commands_take_it(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    name = '"s.1"."a ""quoted"" name"'
    with a.transaction() as tx:
        tx.create_schema("s.1")
        tx.create_table(name, COLUMNS)
    append(a, 1, 2, table=name)
    bring(a, b)
    a.table(name).delete("id = 1")
    with pytest.raises(TableNotBroughtError) as stopped:
        bring(a, b)
    assert f"set the property replicated of table {name} to false" in str(stopped.value)
    with b.transaction() as tx:
        tx.alter(stopped.value.table).set_property(REPLICATED, "false")
    bring(a, b)


def test_link_when_a_keyed_table_is_left_where_it_is_then_brings_no_row_of_it_to_there_and_goes_on(
    site: Sites, a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    with a.transaction() as tx:
        tx.create_table("main.k", COLUMNS, primary_key=["id"])
        tx.insert_row("main.k", {"id": 1, "v": "x"})
    bring(a, b)
    leave_out(b, "k")
    for change in (
        lambda tx: tx.insert_row("main.k", {"id": 2, "v": "x"}),
        lambda tx: tx.update_row("main.k", {"id": 2}, {"id": 2, "v": "y"}),
        lambda tx: tx.delete_row("main.k", {"id": 1}),
    ):
        with a.transaction() as tx:
            change(tx)
    append(a, 3)
    assert bring(a, b).brought == 4
    assert (ids(b, "main.k"), ids(b)) == ([1], [3])
    assert bring(a, b).brought == 0
    bring(b, a)
    with a.transaction() as tx:
        tx.insert_row("main.k", {"id": 4, "v": "x"})
    assert bring(a, b).left_out == 1


def test_link_when_a_keyed_table_was_dropped_there_then_goes_on_past_its_rows_by_one_that_is_not_replicated(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    with a.transaction() as tx:
        tx.create_table("main.k", COLUMNS, primary_key=["id"])
    bring(a, b)
    with b.transaction() as tx:
        tx.drop_table("main.k")
    with a.transaction() as tx:
        tx.insert_row("main.k", {"id": 1, "v": "x"})
    with pytest.raises(LinkStoppedError, match=r"table main\.k does not exist"):
        bring(a, b)
    with b.transaction() as tx:
        tx.create_table("main.k", {"whatever": "int64"}, properties={REPLICATED: "false"})
    assert bring(a, b).brought == 1
    with b.transaction() as tx:
        tx.drop_table("main.k")
    bring(b, a)
    assert a.tables() == b.tables() == ["main.t"]


def test_link_when_the_target_leaves_a_table_where_it_is_while_it_runs_then_its_next_rows_stay(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    with a.transaction() as tx:
        tx.create_table("main.k", COLUMNS, primary_key=["id"])
    link = Link(a, b)
    for number in (1, 2):
        with a.transaction() as tx:
            tx.insert_row("main.k", {"id": number, "v": "x"})
        link.run(follow=False)
        leave_out(b, "k")
    assert (ids(a, "main.k"), ids(b, "main.k")) == ([1, 2], [1])


def test_link_when_one_site_leaves_a_table_and_the_other_says_to_bring_it_then_it_is_left_at_both(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    leave_out(b)
    alter(a, m.Alteration(m.AlterOp.SET_PROPERTY, key=REPLICATED, value="true"))
    bring(a, b)
    bring(b, a)
    append(a, 1)
    append(b, 2)
    assert (bring(a, b).left_out, bring(b, a).left_out) == (1, 1)
    assert (ids(a), ids(b)) == ([1], [2])


def test_link_when_a_table_is_made_to_stay_then_brings_nothing_of_it(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    with a.transaction() as tx:
        tx.create_table("main.u", COLUMNS, properties={REPLICATED: "false"})
        tx.create_table("main.n", COLUMNS, primary_key=["id"], properties={REPLICATED: "false"})
    append(a, 1, table="main.u")
    with a.transaction() as tx:
        tx.insert_row("main.n", {"id": 1, "v": "x"})
        tx.drop_table("main.u")
    progress = bring(a, b)
    assert (progress.brought, progress.left_out) == (0, 5)
    assert b.tables() == ["main.t"]


def test_link_when_files_are_compacted_at_one_site_then_the_other_keeps_its_own(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    append(a, 1)
    append(a, 2)
    bring(a, b)
    with b.transaction() as tx:
        [table] = [each for each in b._memory._state.tables.values() if each.name == "t"]
        live = list(table.live_files)
        path = tx.new_file("main.t")
        copy_of_rows(b, path)
        tx.compact("main.t", replaced=live, files=[path])
    assert bring(b, a).brought == 0
    append(a, 3)
    bring(a, b)
    assert ids(a) == ids(b) == [1, 2, 3]


def copy_of_rows(log: InMemoryCommitLog, path: str) -> None:
    import pyarrow.parquet as pq

    pq.write_table(log.table("main.t").scan().to_arrow(), path)


def test_link_when_columns_come_together_with_files_that_have_them_then_brings_both(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    with a.transaction() as tx:
        tx.alter("main.t").add_column("w", "varchar")
        tx.append("main.t", [{"id": 1, "v": "x", "w": "new"}])
    with a.transaction() as tx:
        tx.rename_table("main.t", "u")
        tx.alter("main.u").add_column("y", "varchar")
        tx.append("main.u", [{"id": 2, "v": "x", "y": "newer"}])
    bring(a, b)
    rows = sorted(b.table("main.u").scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert [(row["w"], row["y"]) for row in rows] == [("new", None), (None, "newer")]


@pytest.mark.parametrize("together", [False, True])
def test_link_when_both_sites_added_columns_then_refuses_files_whose_columns_are_others_there(
    a: InMemoryCommitLog, b: InMemoryCommitLog, together: bool
) -> None:
    alter(b, adding("z"))
    if together:
        with a.transaction() as tx:
            tx.alter("main.t").add_column("w", "varchar")
            tx.append("main.t", [{"id": 1, "v": "x", "w": "new"}])
    else:
        alter(a, adding("w"))
        append(a, 1, w="new")
    with pytest.raises(TableNotBroughtError, match=r"column w of table main\.t has another number .*\(3 is z there\)"):
        bring(a, b)
    leave_out(b)
    bring(a, b)
    assert ids(b) == []


def remade(name: str) -> tuple[m.Alteration, ...]:
    return m.Alteration(m.AlterOp.DROP_COLUMN, name=name), adding(name)


def renamed(*names: tuple[str, str]) -> tuple[m.Alteration, ...]:
    return tuple(m.Alteration(m.AlterOp.RENAME_COLUMN, name=old, new_name=new) for old, new in names)


@pytest.mark.parametrize("key", [(), ("id",)])
@pytest.mark.parametrize("how", ["table made anew", "name of another table", "column made anew", "columns swapped"])
def test_link_when_a_name_means_something_else_there_by_now_then_stops_until_it_has_its_meaning_again(
    a: InMemoryCommitLog, b: InMemoryCommitLog, key: tuple[str, ...], how: str
) -> None:
    columns = {**COLUMNS, "w": "varchar"}
    with a.transaction() as tx:
        tx.create_table("main.k", columns, primary_key=key)
    bring(a, b)
    append(b, 5)
    bring(b, a)
    if how == "columns swapped":
        alter(b, *renamed(("v", "x"), ("w", "v"), ("x", "w")), table="k")
    else:
        make_anew(b, how, columns, key)
    since = b.head_snapshot_id()
    with a.transaction() as tx:
        tx.insert_row("main.k", {"id": 1, "v": "x", "w": "y"})
    with pytest.raises(TableNotBroughtError, match=rf"is another one at b since its snapshot {since}, of which"):
        bring(a, b)
    if how == "columns swapped":
        alter(b, *renamed(("v", "x"), ("w", "v"), ("x", "w")), table="k")
        bring(a, b)
        assert b.table("main.k").scan().to_arrow().to_pylist() == [{"id": 1, "v": "x", "w": "y"}]
    else:
        leave_out(b, "k")
        bring(a, b)
        assert ids(b, "main.k") == []


@pytest.mark.parametrize("how", ["table", "column"])
def test_link_when_a_name_was_given_back_there_long_after_it_was_taken_then_goes_on(
    a: InMemoryCommitLog, b: InMemoryCommitLog, how: str
) -> None:
    with a.transaction() as tx:
        tx.create_table("main.k", COLUMNS, primary_key=["id"])
    bring(a, b)
    rename_to_and_back(b, how, "k", meanwhile=12)
    with a.transaction() as tx:
        tx.insert_row("main.k", {"id": 1, "v": "x"})
    bring(a, b)
    assert {"id": 1, "v": "x"} in b.table("main.k").scan().to_arrow().to_pylist()


@pytest.mark.parametrize("how", ["table", "column"])
def test_links_when_both_sites_gave_the_same_new_name_then_both_go_on_once_both_have_given_the_old_one_back(
    a: InMemoryCommitLog, b: InMemoryCommitLog, how: str
) -> None:
    for log in (a, b):
        with log.transaction() as tx:
            rename(tx, how, "t", "v", "new")
    with pytest.raises(LinkStoppedError):
        bring(a, b)
    with pytest.raises(LinkStoppedError):
        bring(b, a)
    for log in (a, b):
        with log.transaction() as tx:
            rename(tx, how, "new" if how == "table" else "t", "new", "t" if how == "table" else "v")
    bring(a, b)
    bring(b, a)
    with a.transaction() as tx:
        rename(tx, how, "t", "v", "new")
    bring(a, b)
    assert (bring(a, b).brought, bring(b, a).brought) == (0, 0)
    assert a.tables() == b.tables() == (["main.new"] if how == "table" else ["main.t"])


def make_anew(log: InMemoryCommitLog, how: str, columns: Mapping[str, str], key: tuple[str, ...]) -> None:
    """Have another column be called v in the table k, or another table be called k."""
    if how == "column made anew":
        alter(log, *remade("v"), table="k")
        return
    with log.transaction() as tx:
        if how == "table made anew":
            tx.drop_table("main.k")
        else:
            tx.rename_table("main.k", "old")
        tx.create_table("main.k", columns, primary_key=key)


def rename(tx: Transaction, how: str, table: str, column: str, new: str) -> None:
    """Give a table, or a column of it, another name."""
    if how == "table":
        tx.rename_table(f"main.{table}", new)
    else:
        tx.alter(f"main.{table}").rename_column(column, new)


def rename_to_and_back(log: InMemoryCommitLog, how: str, table: str, meanwhile: int) -> None:
    """Give a table, or its column v, another name, write so many rows, and give the old name back."""
    with log.transaction() as tx:
        rename(tx, how, table, "v", "other")
    table_now = "other" if how == "table" else table
    for number in range(meanwhile):
        with log.transaction() as tx:
            tx.insert_row(f"main.{table_now}", {"id": 100 + number})
    with log.transaction() as tx:
        rename(tx, how, table_now, "other", table if how == "table" else "v")


@pytest.mark.parametrize("how", ["table made anew", "name of another table", "column made anew"])
@pytest.mark.parametrize("key", [(), ("id",)])
def test_link_when_what_has_a_name_there_by_now_is_out_of_its_way_then_goes_on_and_the_name_can_be_given_again(
    a: InMemoryCommitLog, b: InMemoryCommitLog, key: tuple[str, ...], how: str
) -> None:
    with a.transaction() as tx:
        tx.create_table("main.k", COLUMNS, primary_key=key)
    bring(a, b)
    make_anew(b, how, COLUMNS, key)
    with b.transaction() as tx:
        tx.insert_row("main.k", {"id": 1, "v": "of the new one"})
    with a.transaction() as tx:
        tx.insert_row("main.k", {"id": 2, "v": "x"})
    with pytest.raises(TableNotBroughtError, match="is another one at b"):
        bring(a, b)
    with b.transaction() as tx:
        rename(tx, "column" if "column" in how else "table", "k", "v", "new")
        if how == "table made anew":
            tx.create_table("main.k", COLUMNS, primary_key=key, properties={REPLICATED: "false"})
    bring(a, b)
    if how == "table made anew":
        with b.transaction() as tx:
            tx.drop_table("main.k")
    with b.transaction() as tx:
        if how == "column made anew":
            rename(tx, "column", "k", "new", "v")
        else:
            rename(tx, "table", "new", "v", "k")
    bring(b, a)
    rows = {
        "table made anew": {"main.k": [(1, "of the new one")]},
        "name of another table": {"main.k": [(1, "of the new one")], "main.old": [(2, "x")]},
        "column made anew": {"main.k": [(1, "of the new one"), (2, None)]},
    }
    for log in (a, b):
        found = {
            name: sorted((row["id"], row["v"]) for row in log.table(name).scan().to_arrow().to_pylist())
            for name in log.tables()
            if name != "main.t"
        }
        assert found == rows[how]
    assert (bring(a, b).brought, bring(b, a).brought) == (0, 0)


@pytest.mark.parametrize("how", ["dropped", "renamed", "altered", "column dropped", "referred to"])
def test_link_when_what_is_changed_is_another_table_or_column_there_then_stops_and_that_stays_as_it_is(
    a: InMemoryCommitLog, b: InMemoryCommitLog, how: str
) -> None:
    with a.transaction() as tx:
        tx.create_table("main.k", COLUMNS, primary_key=["id"])
    bring(a, b)
    if how == "column dropped":
        alter(b, *remade("v"), table="k")
    else:
        with b.transaction() as tx:
            tx.drop_table("main.k")
            tx.create_table("main.k", COLUMNS, primary_key=["id"])
    with b.transaction() as tx:
        tx.insert_row("main.k", {"id": 1, "v": "of b alone"})
    with a.transaction() as tx:
        if how == "dropped":
            tx.drop_table("main.k")
        elif how == "renamed":
            tx.rename_table("main.k", "u")
        elif how == "altered":
            tx.alter("main.k").add_column("w", "varchar")
        elif how == "column dropped":
            tx.alter("main.k").drop_column("v")
        else:
            reference = m.ForeignKeySpec(("k",), "main", "k", ("id",))
            tx.create_table("main.c", {"id": "int64", "k": "int64"}, primary_key=["id"], foreign_keys=[reference])
    since = b.head_snapshot_id() - 1
    with pytest.raises(
        TableNotBroughtError, match=rf"main\.k, or a column of it, is another one at b since .* {since}, of"
    ):
        bring(a, b)
    assert b.table("main.k").scan().to_arrow().to_pylist() == [{"id": 1, "v": "of b alone"}]
    assert sorted(b.tables()) == ["main.k", "main.t"]
    leave_out(b, "k")
    bring(a, b)
    assert b.table("main.k").scan().to_arrow().to_pylist() == [{"id": 1, "v": "of b alone"}]
    assert bring(a, b).brought == 0


@pytest.mark.parametrize("by", ["itself", "a third site"])
def test_link_when_the_snapshot_that_gave_a_name_anew_was_archived_there_then_stops_all_the_same(
    site: Sites, a: InMemoryCommitLog, b: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    maker = b if by == "itself" else site("c")
    if maker is not b:
        bring(b, maker)
    with maker.transaction() as tx:
        tx.drop_table("main.t")
        tx.create_table("main.t", COLUMNS)
    if maker is not b:
        bring(maker, b)
    append(a, 1)

    def gone(seq: int) -> m.Outcome:
        raise ResultsTrimmedError("b", seq=b.last_seq(), archive="/archive", asked_seq=seq)

    monkeypatch.setattr(b._memory, "outcome_at", gone)
    with pytest.raises(TableNotBroughtError, match="is another one at b since its snapshot"):
        bring(a, b)


def test_link_when_a_table_that_is_left_where_it_is_is_renamed_and_dropped_then_its_rows_stay(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    append(b, 1)
    leave_out(b)
    with a.transaction() as tx:
        tx.rename_table("main.t", "u")
    append(a, 2, table="main.u")
    alter(a, adding("w"), table="u")
    with a.transaction() as tx:
        tx.drop_table("main.u")
    assert bring(a, b).brought == 4
    assert b.table("main.u").scan().to_arrow().to_pylist() == [{"id": 1, "v": "x"}]
    assert bring(a, b).brought == 0


def test_links_when_both_sites_dropped_a_table_then_both_go_on(a: InMemoryCommitLog, b: InMemoryCommitLog) -> None:
    append(b, 1)
    bring(b, a)
    for log in (a, b):
        with log.transaction() as tx:
            tx.drop_table("main.t")
    assert (bring(b, a).brought, bring(a, b).brought) == (1, 1)
    assert a.tables() == b.tables() == []
    assert (bring(b, a).brought, bring(a, b).brought) == (0, 0)


def test_links_when_both_sites_dropped_a_schema_then_both_go_on(a: InMemoryCommitLog, b: InMemoryCommitLog) -> None:
    with a.transaction() as tx:
        tx.create_schema("s")
        tx.create_table("s.t", COLUMNS)
    bring(a, b)
    for log in (a, b):
        with log.transaction() as tx:
            tx.drop_schema("s", cascade=True)
    assert (bring(b, a).brought, bring(a, b).brought) == (1, 1)
    assert (bring(b, a).brought, bring(a, b).brought) == (0, 0)


def test_links_when_both_sites_dropped_a_table_and_one_made_it_anew_then_that_stays_once_it_was_out_of_the_way(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    append(b, 1)
    bring(b, a)
    with a.transaction() as tx:
        tx.drop_table("main.t")
    with b.transaction() as tx:
        tx.drop_table("main.t")
        tx.create_table("main.t", COLUMNS)
    append(b, 2)
    bring(b, a)
    with pytest.raises(TableNotBroughtError, match=r"table main\.t, or a column of it, is another one at b"):
        bring(a, b)
    with b.transaction() as tx:
        tx.rename_table("main.t", "x")
    bring(a, b)
    with b.transaction() as tx:
        tx.rename_table("main.x", "t")
    bring(b, a)
    assert ids(a) == ids(b) == [2]


def test_link_when_a_table_was_dropped_there_by_a_site_that_had_only_been_told_of_it_then_goes_on(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    for log in (b, a):
        with log.transaction() as tx:
            tx.drop_table("main.t")
    assert bring(a, b).brought == 1
    assert bring(a, b).brought == 0


@pytest.mark.parametrize("if_exists", [False, True])
def test_link_when_a_table_was_renamed_there_that_is_dropped_then_the_target_says_so(
    a: InMemoryCommitLog, b: InMemoryCommitLog, if_exists: bool
) -> None:
    append(b, 1)
    bring(b, a)
    with b.transaction() as tx:
        tx.rename_table("main.t", "u")
    with a.transaction() as tx:
        tx.drop_table("main.t", if_exists=if_exists)
    with pytest.raises(LinkStoppedError, match=r"table main\.t does not exist"):
        bring(a, b)
    assert ids(b, "main.u") == [1]


def test_link_when_a_schema_is_dropped_that_has_more_tables_there_then_stops_until_these_are_gone(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    with a.transaction() as tx:
        tx.create_schema("s")
        tx.create_table("s.t", COLUMNS)
    bring(a, b)
    with b.transaction() as tx:
        tx.create_table("s.mine", COLUMNS, properties={REPLICATED: "false"})
    with b.transaction() as tx:
        tx.create_table("s.new", COLUMNS)
    with a.transaction() as tx:
        tx.drop_schema("s", cascade=True)
    for table in ("s.mine", "s.new"):
        with pytest.raises(LinkStoppedError, match="schema s is not empty"):
            bring(a, b)
        assert "s.t" in b.tables()
        with b.transaction() as tx:
            tx.drop_table(table)
    bring(a, b)
    assert b.tables() == ["main.t"]
    assert bring(a, b).brought == 0


def test_link_when_the_table_is_split_by_another_column_there_then_files_say_nothing_of_that(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    with a.transaction() as tx:
        tx.create_table("main.p", {"id": "int64", "v": "varchar", "w": "varchar"}, partition_by=["v"])
        tx.append("main.p", [{"id": 1, "v": "x", "w": "y"}])
    bring(a, b)
    assert last_files(b)[0].partition_values == ("x",)
    with b.transaction() as tx:
        tx.alter("main.p").set_partition_by(["w"])
    append(a, 2, table="main.p", w="y")
    bring(a, b)
    assert last_files(b)[0].partition_values is None
    assert [row["id"] for row in b.table("main.p").scan(where="w = 'y'").to_arrow().to_pylist()] == [1, 2]
    assert bring(a, b).brought == 0
    bring(b, a)
    append(a, 3, table="main.p", w="y")
    bring(a, b)
    assert last_files(b)[0].partition_values == ("y",)


@pytest.mark.parametrize("key", [(), ("id",)])
@pytest.mark.parametrize("new", [None, "z"])
def test_link_when_a_column_was_dropped_there_then_rows_come_without_it(
    site: Sites, a: InMemoryCommitLog, b: InMemoryCommitLog, key: tuple[str, ...], new: str | None
) -> None:
    with a.transaction() as tx:
        tx.create_table("main.k", {**COLUMNS, "w": "varchar"}, primary_key=key)
    bring(a, b)
    for number in (1, 2):
        with b.transaction() as tx:
            tx.insert_row("main.k", {"id": number, "v": "x", "W": "y"})
    alter(a, m.Alteration(m.AlterOp.DROP_COLUMN, name="v"), *([] if new is None else [adding(new)]), table="k")
    assert bring(b, a).brought == 2
    assert bring(b, a).brought == 0
    bring(a, b)
    c = site("c")
    bring(a, c)
    bring(b, c)
    for log in (a, b, c):
        rows = sorted(log.table("main.k").scan().to_arrow().to_pylist(), key=lambda row: row["id"])
        assert rows == [{"id": number, "w": "y"} | ({} if new is None else {new: None}) for number in (1, 2)]


@pytest.mark.parametrize("later", [False, True])
def test_link_when_a_column_was_dropped_there_by_a_site_that_had_only_been_told_of_it_then_rows_come_without_it(
    a: InMemoryCommitLog, b: InMemoryCommitLog, later: bool
) -> None:
    with a.transaction() as tx:
        tx.create_table("main.k", {"id": "int64"} if later else COLUMNS, primary_key=["id"])
    if later:
        alter(a, adding("v"), table="k")
    bring(a, b)
    alter(b, m.Alteration(m.AlterOp.DROP_COLUMN, name="v"), table="k")
    for number in (1, 2):
        with a.transaction() as tx:
            tx.insert_row("main.k", {"id": number, "v": "x"})
        bring(a, b)
        alter(b, adding(f"w{number}"), table="k")
    assert b.table("main.k").scan().to_arrow().to_pylist() == [
        {"id": number, "w1": None, "w2": None} for number in (1, 2)
    ]
    bring(b, a)
    assert a.table("main.k").scan().to_arrow().to_pylist() == b.table("main.k").scan().to_arrow().to_pylist()
    with a.transaction() as tx:
        tx.alter("main.k").add_column("v", "varchar")
        tx.insert_row("main.k", {"id": 3, "v": "kept"})
    bring(a, b)
    assert b.table("main.k").scan(where="id = 3").to_arrow().to_pylist() == [
        {"id": 3, "w1": None, "w2": None, "v": "kept"}
    ]


def test_link_when_the_target_alters_the_table_each_time_before_it_decides_then_is_tried_again_until_it_comes(
    a: InMemoryCommitLog, b: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a.transaction() as tx:
        tx.create_table("main.k", COLUMNS, primary_key=["id"])
    bring(a, b)
    with a.transaction() as tx:
        tx.insert_row("main.k", {"id": 1, "v": "x"})
    wait, names = b.wait_for_snapshot, iter("xyz")

    def alter_then(*given: Any) -> int:
        head = wait(*given)
        for name in islice(names, 1):
            alter(b, adding(name), table="k")
        return head

    monkeypatch.setattr(b, "wait_for_snapshot", alter_then)
    assert bring(a, b).brought == 1
    assert next(names, None) is None
    assert b.table("main.k").scan().to_arrow().to_pylist() == [{"id": 1, "v": "x", "x": None, "y": None, "z": None}]


def test_link_when_a_column_was_dropped_there_before_its_table_got_another_name_then_rows_come_without_it(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    with a.transaction() as tx:
        tx.create_table("main.k", COLUMNS, primary_key=["id"])
    bring(a, b)
    alter(b, m.Alteration(m.AlterOp.DROP_COLUMN, name="v"), table="k")
    with a.transaction() as tx:
        tx.rename_table("main.k", "n")
    with a.transaction() as tx:
        tx.insert_row("main.n", {"id": 1, "v": "x"})
    assert bring(a, b).brought == 2
    assert b.table("main.n").scan().to_arrow().to_pylist() == [{"id": 1}]


RENAMED = ["table", "table twice", "column", "both", "table, and a column is dropped"]


def give_new_names(log: InMemoryCommitLog, how: str) -> dict[str, str | None]:
    """To table main.t, its column v, or both; what these columns are called from then on, None where they are dropped."""
    table = "t"
    if how != "column":
        for table in ("x", "Y") if how == "table twice" else ("Y",):
            with log.transaction() as tx:
                tx.rename_table("main.x" if table == "Y" and how == "table twice" else "main.t", table)
    if how in ("column", "both"):
        alter(log, *renamed(("v", "w")), table=table)
    elif "dropped" in how:
        alter(log, m.Alteration(m.AlterOp.DROP_COLUMN, name="v"), table=table)
    return {"id": "id", "v": "w" if how in ("column", "both") else None if "dropped" in how else "v"}


def write(log: InMemoryCommitLog, number: int, key: tuple[str, ...]) -> None:
    """A row as a table of main.t's kind takes it: in a file where it has no primary key."""
    if not key:
        append(log, number)
        return
    with log.transaction() as tx:
        tx.insert_row("main.t", {"id": number, "v": "x"})


def by_new_names(now: dict[str, str | None], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{new: row[old] for old, new in now.items() if new is not None} for row in rows]


def rows_of_only_table(log: InMemoryCommitLog) -> list[dict[str, Any]]:
    [name] = log.tables()
    return sorted(log.table(name).scan().to_arrow().to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("how", RENAMED)
@pytest.mark.parametrize("key", [(), ("id",)])
def test_links_when_a_table_or_column_was_renamed_at_one_site_then_what_others_wrote_before_they_knew_comes_to_it(
    site: Sites, key: tuple[str, ...], how: str
) -> None:
    a, b = site("a", 1), site("b", 2)
    with a.transaction() as tx:
        tx.create_table("main.t", COLUMNS, primary_key=key)
        tx.insert_row("main.t", {"id": 1, "v": "old"})
    bring(a, b)
    bring(b, a)
    now = give_new_names(b, how)
    with a.transaction() as tx:
        tx.insert_row("main.t", {"id": 2, "v": "row"})
    if key:
        with a.transaction() as tx:
            tx.update_row("main.t", {"id": 1}, {"id": 1, "v": "changed"})
        with a.transaction() as tx:
            tx.insert_row("main.t", {"id": 4, "v": "x"})
        with a.transaction() as tx:
            tx.delete_row("main.t", {"id": 4})
    write(a, 3, key)
    expected = [
        {"id": 1, "v": "changed" if key else "old"},
        {"id": 2, "v": "row"},
        {"id": 3, "v": "x"},
    ]
    bring(a, b)
    assert rows_of_only_table(b) == by_new_names(now, expected)
    bring(b, a)
    assert rows_of_only_table(a) == rows_of_only_table(b)
    assert a.tables() == b.tables()
    assert (bring(a, b).brought, bring(b, a).brought) == (0, 0)


@pytest.mark.parametrize("how", RENAMED)
@pytest.mark.parametrize("key", [(), ("id",)])
@pytest.mark.parametrize("ways", ["ab bc ca", "ac cb ba", "bc ac cb ca ab ba"])
def test_links_of_three_sites_when_one_gives_new_names_then_what_another_wrote_comes_by_whichever_way(
    site: Sites, key: tuple[str, ...], how: str, ways: str
) -> None:
    logs = {name: site(name, number) for number, name in enumerate("abc")}
    links = [(logs[source], logs[target]) for source, target in ways.split()]
    with logs["a"].transaction() as tx:
        tx.create_table("main.t", COLUMNS, primary_key=key)
    for _ in range(2):
        for source, target in links:
            bring(source, target)
    now = give_new_names(logs["b"], how)
    write(logs["a"], 1, key)
    with logs["a"].transaction() as tx:
        tx.alter("main.t").add_column("more", "varchar")
        tx.insert_row("main.t", {"id": 2, "v": "x", "more": "y"})
    write(logs["a"], 3, key)
    for _ in range(3):
        for source, target in links:
            bring(source, target)
    expected = [{"id": number, "v": "x", "more": "y" if number == 2 else None} for number in (1, 2, 3)]
    for log in logs.values():
        assert rows_of_only_table(log) == by_new_names(now | {"more": "more"}, expected)
        assert log.tables() == logs["b"].tables()
    assert [bring(source, target).brought for source, target in links] == [0] * len(links)


def test_link_when_a_column_was_renamed_there_then_alterations_and_partitions_come_by_its_new_name(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    alter(a, m.Alteration(m.AlterOp.ADD_COLUMN, column=m.ColumnSpec("n", "int32")))
    bring(a, b)
    alter(b, *renamed(("n", "number")))
    alter(
        a,
        m.Alteration(m.AlterOp.SET_TYPE, name="n", type="int64"),
        m.Alteration(m.AlterOp.SET_COMMENT, name="n", comment="how many"),
        m.Alteration(m.AlterOp.SET_PARTITION_BY, partition_by=(m.PartitionSpec("n"),)),
    )
    append(a, 1, n=5)
    bring(a, b)
    assert last_files(b)[0].partition_values == (5,)
    column = b.table("main.t").at().definition.column("number")
    assert (column.type.name, column.comment) == ("int64", "how many")
    bring(b, a)
    assert a.table("main.t").scan(where="number = 5").to_arrow().to_pylist() == [{"id": 1, "v": "x", "number": 5}]
    assert bring(a, b).brought == 0


def test_link_when_a_table_that_is_left_where_it_is_was_renamed_there_then_it_stays(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    append(b, 1)
    leave_out(b)
    with b.transaction() as tx:
        tx.rename_table("main.t", "u")
    append(a, 2)
    alter(a, adding("w"))
    assert bring(a, b).brought == 2
    assert b.table("main.u").scan().to_arrow().to_pylist() == [{"id": 1, "v": "x"}]
    assert bring(a, b).brought == 0


@pytest.mark.parametrize("how", ["table", "column", "column anew"])
def test_link_when_a_name_meant_one_thing_before_its_site_knew_and_another_one_after_then_each_row_comes_to_what_it_meant(
    a: InMemoryCommitLog, b: InMemoryCommitLog, how: str
) -> None:
    with a.transaction() as tx:
        tx.create_table("main.k", COLUMNS, primary_key=["id"])
    bring(a, b)
    with a.transaction() as tx:
        tx.insert_row("main.k", {"id": 1, "v": "of the first"})
    with b.transaction() as tx:
        if how == "table":
            tx.rename_table("main.k", "first")
            tx.create_table("main.k", COLUMNS, primary_key=["id"])
        elif how == "column":
            tx.alter("main.k").rename_column("v", "first").add_column("v", "varchar")
        else:
            tx.alter("main.k").drop_column("v").add_column("v", "varchar")
    bring(b, a)
    with a.transaction() as tx:
        tx.insert_row("main.k", {"id": 2, "v": "of the second"})
    with b.transaction() as tx:
        rename(tx, how.split()[0], "k", "v", "second")
    assert bring(a, b).brought == 2
    bring(b, a)
    found = {name: b.table(name).scan().to_arrow().to_pylist() for name in b.tables() if name != "main.t"}
    assert (
        found
        == {
            "table": {
                "main.first": [{"id": 1, "v": "of the first"}],
                "main.second": [{"id": 2, "v": "of the second"}],
            },
            "column": {
                "main.k": [
                    {"id": 1, "first": "of the first", "second": None},
                    {"id": 2, "first": None, "second": "of the second"},
                ]
            },
            "column anew": {"main.k": [{"id": 1, "second": None}, {"id": 2, "second": "of the second"}]},
        }[how]
    )
    assert found == {name: a.table(name).scan().to_arrow().to_pylist() for name in a.tables() if name != "main.t"}


def make_two(log: InMemoryCommitLog) -> None:
    for name in ("one", "two"):
        with log.transaction() as tx:
            tx.create_table(f"main.{name}", COLUMNS, primary_key=["id"])


def swap(log: InMemoryCommitLog) -> None:
    for old, new in (("one", "x"), ("two", "one"), ("x", "two")):
        with log.transaction() as tx:
            tx.rename_table(f"main.{old}", new)


@pytest.mark.parametrize("rows_before", [0, 4, 12])
@pytest.mark.parametrize("rows_between", [0, 4, 12])
def test_link_when_two_names_were_swapped_and_swapped_back_there_then_stops_for_who_knew_the_first_swap_alone(
    a: InMemoryCommitLog, b: InMemoryCommitLog, rows_before: int, rows_between: int
) -> None:
    make_two(b)

    def write_rows(count: int, first: int) -> None:
        for number in range(count):
            with b.transaction() as tx:
                tx.insert_row("main.one", {"id": first + number})

    write_rows(rows_before, 100)
    swap(b)
    bring(b, a)
    with a.transaction() as tx:
        tx.insert_row("main.one", {"id": 1, "v": "of the second"})
    write_rows(rows_between, 200)
    swap(b)
    since = b.head_snapshot_id() - 1
    with pytest.raises(TableNotBroughtError, match=rf"is another one at b since its snapshot {since}"):
        bring(a, b)
    swap(b)
    bring(a, b)
    bring(b, a)
    for log in (a, b):
        assert {"id": 1, "v": "of the second"} in log.table("main.one").scan().to_arrow().to_pylist()
        assert 1 not in ids(log, "main.two")


@pytest.mark.parametrize("is_running", [False, True])
def test_link_when_two_names_were_swapped_and_swapped_back_there_then_stops_also_where_it_brought_rows_before(
    a: InMemoryCommitLog, b: InMemoryCommitLog, is_running: bool
) -> None:
    make_two(b)
    bring(b, a)
    link = Link(a, b)
    with a.transaction() as tx:
        tx.insert_row("main.one", {"id": 1, "v": "of the first"})
    if is_running:
        link.run(follow=False)
    swap(b)
    bring(b, a)
    with a.transaction() as tx:
        tx.insert_row("main.one", {"id": 2, "v": "of the second"})
    swap(b)
    with pytest.raises(TableNotBroughtError, match="is another one at b"):
        link.run(follow=False)
    assert (ids(b, "main.one"), ids(b, "main.two")) == ([1], [])


def test_link_when_a_name_was_lost_twice_while_it_runs_then_rows_leave_out_what_had_it_last(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    with a.transaction() as tx:
        tx.create_table("main.k", COLUMNS, primary_key=["id"])
    bring(a, b)
    link = Link(a, b)
    for number, lost in enumerate((renamed(("v", "w"))[0], m.Alteration(m.AlterOp.DROP_COLUMN, name="v"))):
        with a.transaction() as tx:
            tx.insert_row("main.k", {"id": number, "v": "x"})
        alter(b, lost, table="k")
        link.run(follow=False)
        alter(b, adding("v"), table="k")
        bring(b, a)
    assert b.table("main.k").scan().to_arrow().to_pylist() == [
        {"id": 0, "w": "x", "v": None},
        {"id": 1, "w": None, "v": None},
    ]


def test_link_when_a_third_site_swapped_two_names_and_its_target_swapped_them_back_then_stops(
    a: InMemoryCommitLog, b: InMemoryCommitLog, site: Sites
) -> None:
    c = site("c")
    bring(a, c)
    make_two(b)
    bring(b, a)
    bring(b, c)
    swap(c)
    bring(c, a)
    bring(c, b)
    with a.transaction() as tx:
        tx.insert_row("main.one", {"id": 1, "v": "of the second"})
    swap(b)
    with pytest.raises(
        TableNotBroughtError, match=rf"is another one at b since its snapshot {b.head_snapshot_id() - 1}"
    ):
        bring(a, b)
    assert ids(b, "main.one") == ids(b, "main.two") == []


def test_link_when_a_column_was_made_anew_after_its_table_was_renamed_there_then_stops(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    with b.transaction() as tx:
        tx.rename_table("main.t", "u")
    alter(b, *remade("v"), table="u")
    since = b.head_snapshot_id()
    with a.transaction() as tx:
        tx.insert_row("main.t", {"id": 1, "v": "x"})
    with pytest.raises(
        TableNotBroughtError, match=rf"or a column of it, is another one at b since its snapshot {since}"
    ):
        bring(a, b)
    assert ids(b, "main.u") == []


def test_link_when_a_table_was_renamed_there_after_the_snapshot_that_the_link_goes_by_then_brings_its_rows(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    link = Link(a, b)
    with b.transaction() as tx:
        tx.rename_table("main.t", "u")
    for number in (1, 2, 3):
        append(a, number)
    assert link.run(follow=False).brought == 3
    assert ids(b, "main.u") == [1, 2, 3]


@pytest.mark.parametrize("steps", [(adding("v"),), renamed(("w", "v"))], ids=["added", "renamed"])
def test_link_when_a_transaction_gives_a_dropped_columns_name_anew_then_its_rows_come_with_the_values(
    a: InMemoryCommitLog, b: InMemoryCommitLog, steps: tuple[m.Alteration, ...]
) -> None:
    with a.transaction() as tx:
        tx.create_table("main.k", {**COLUMNS, "w": "varchar"}, primary_key=["id"])
    bring(a, b)
    append(b, 1)
    bring(b, a)
    alter(a, m.Alteration(m.AlterOp.DROP_COLUMN, name="v"), table="k")
    bring(a, b)
    with a.transaction() as tx:
        tx._add(m.AlterTable("main", "k", steps))
        tx.insert_row("main.k", {"id": 1, "v": "kept"})
    bring(a, b)
    for log in (a, b):
        assert [row["v"] for row in log.table("main.k").scan().to_arrow().to_pylist()] == ["kept"]


@pytest.mark.parametrize(
    "more",
    [
        (),
        (adding("w"),),
        (adding("v"), m.Alteration(m.AlterOp.SET_COMMENT, name="v", comment="another one")),
    ],
    ids=["alone", "beside another", "made anew"],
)
def test_links_when_both_sites_dropped_a_column_then_both_go_on(
    site: Sites, a: InMemoryCommitLog, b: InMemoryCommitLog, more: tuple[m.Alteration, ...]
) -> None:
    dropping = m.Alteration(m.AlterOp.DROP_COLUMN, name="v")
    commented = m.Alteration(m.AlterOp.SET_COMMENT, name="v", comment="to be dropped")
    alter(b, dropping)
    alter(a, commented)
    alter(a, dropping, *more)
    assert (bring(a, b).brought, bring(a, b).brought) == (2, 0)
    if adding("v") not in more:
        assert bring(b, a).brought == 1
    [there, here] = [log.table("main.t").at().definition for log in (b, a)]
    assert [(each.name, each.comment) for each in there.columns] == [(each.name, each.comment) for each in here.columns]
    c = site("c")
    bring(b, c)
    bring(a, c)
    assert [each.name for each in c.table("main.t").at().definition.columns] == [each.name for each in here.columns]


def test_links_when_a_column_by_which_one_site_splits_was_dropped_at_the_other_then_go_on_once_it_splits_otherwise(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    alter(a, m.Alteration(m.AlterOp.SET_PARTITION_BY, partition_by=(m.PartitionSpec("v"),)))
    alter(b, m.Alteration(m.AlterOp.DROP_COLUMN, name="v"))
    bring(a, b)
    with pytest.raises(LinkStoppedError, match="a partition key"):
        bring(b, a)
    alter(a, m.Alteration(m.AlterOp.SET_PARTITION_BY, partition_by=(m.PartitionSpec("id"),)))
    bring(b, a)
    bring(a, b)
    [here, there] = [log.table("main.t").at().definition for log in (a, b)]
    assert [each.name for each in here.columns] == [each.name for each in there.columns] == ["id"]
    assert [each.column_id for each in there.partition_by] == [here.column("id").column_id]


def test_link_when_a_column_was_made_anew_and_renamed_there_then_rows_come_by_its_name_there(
    site: Sites, a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    c = site("c")
    with a.transaction() as tx:
        tx.create_table("main.k", COLUMNS, primary_key=["id"])
    bring(a, b)
    bring(b, c)
    alter(c, *remade("v"), table="k")
    bring(c, b)
    with b.transaction() as tx:
        tx.insert_row("main.k", {"id": 1, "v": "of the new one"})
    bring(c, a)
    alter(a, *renamed(("v", "u")), table="k")
    bring(b, a)
    assert a.table("main.k").scan().to_arrow().to_pylist() == [{"id": 1, "u": "of the new one"}]


def test_link_when_names_were_given_by_snapshots_that_the_other_site_knew_then_goes_on(
    site: Sites, a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    c = site("c")
    with a.transaction() as tx:
        tx.create_table("main.k", COLUMNS, primary_key=["id"])
    alter(a, *remade("v"), table="k")
    bring(a, b)
    alter(b, adding("w"), table="k")
    alter(b, *remade("v"), table="k")
    bring(b, a)
    for log in (a, b):
        with log.transaction() as tx:
            tx.insert_row("main.k", {"id": 1 + (log is a), "v": "x", "w": "y"})
    bring(a, b)
    bring(b, c)
    bring(b, a)
    assert ids(a, "main.k") == ids(b, "main.k") == ids(c, "main.k") == [1, 2]


def test_link_when_a_column_was_widened_there_then_brings_files_of_the_narrower_one(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    alter(a, m.Alteration(m.AlterOp.ADD_COLUMN, column=m.ColumnSpec("n", "int32")))
    bring(a, b)
    alter(b, m.Alteration(m.AlterOp.SET_TYPE, name="n", type="int64"))
    append(a, 1, n=5)
    bring(a, b)
    assert b.table("main.t").scan().to_arrow().to_pylist() == [{"id": 1, "v": "x", "n": 5}]


def test_link_when_a_file_names_its_columns_then_their_numbers_do_not_matter(
    a: InMemoryCommitLog, b: InMemoryCommitLog, tmp_path: Path
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    alter(b, adding("z"))
    alter(a, adding("w"))
    path = tmp_path / "plain.parquet"
    pq.write_table(pa.table({"id": [1], "v": ["x"], "w": ["by name"]}), path)
    with a.transaction() as tx:
        tx.append("main.t", files=[path])
    bring(a, b)
    assert b.table("main.t").scan().to_arrow().to_pylist() == [{"id": 1, "v": "x", "z": None, "w": "by name"}]


@pytest.mark.parametrize("step", [m.Alteration(m.AlterOp.DROP_COLUMN, name="v"), *renamed(("v", "w"))])
def test_link_when_a_file_names_a_column_that_was_dropped_or_renamed_there_then_comes_without_it_or_by_its_new_name(
    a: InMemoryCommitLog, b: InMemoryCommitLog, tmp_path: Path, step: m.Alteration
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    alter(b, step)
    path = tmp_path / "plain.parquet"
    pq.write_table(pa.table({"id": [1], "v": ["x"]}), path)
    with a.transaction() as tx:
        tx.append("main.t", files=[path])
    bring(a, b)
    assert b.table("main.t").scan().to_arrow().to_pylist() == [
        {"id": 1} if step.new_name is None else {"id": 1, step.new_name: "x"}
    ]
    bring(b, a)
    assert a.table("main.t").scan().to_arrow().to_pylist() == b.table("main.t").scan().to_arrow().to_pylist()
    assert bring(a, b).brought == 0


@pytest.mark.parametrize("first", [m.Alteration(m.AlterOp.DROP_COLUMN, name="v"), *renamed(("v", "w"))])
def test_link_when_a_file_names_a_column_that_is_another_one_there_then_stops(
    a: InMemoryCommitLog, b: InMemoryCommitLog, tmp_path: Path, first: m.Alteration
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    alter(b, first, adding("v"))
    path = tmp_path / "plain.parquet"
    pq.write_table(pa.table({"id": [1], "v": ["x"]}), path)
    with a.transaction() as tx:
        tx.append("main.t", files=[path])
    with pytest.raises(TableNotBroughtError, match="is another one at b"):
        bring(a, b)
    alter(b, *renamed(("v", "u")))
    bring(a, b)
    [row] = b.table("main.t").scan().to_arrow().to_pylist()
    assert row == ({"id": 1, "u": None} if first.new_name is None else {"id": 1, "w": "x", "u": None})


def test_link_when_the_column_that_comes_is_there_then_the_target_says_so_itself(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    alter(b, adding("w"))
    with a.transaction() as tx:
        tx.alter("main.t").add_column("w", "varchar")
        tx.append("main.t", [{"id": 1, "v": "x", "w": "new"}])
    with pytest.raises(LinkStoppedError, match="already has a column"):
        bring(a, b)


def test_link_when_the_table_is_gone_there_then_the_target_says_so_itself(
    a: InMemoryCommitLog, b: InMemoryCommitLog
) -> None:
    with b.transaction() as tx:
        tx.drop_table("main.t")
    append(a, 1)
    with pytest.raises(LinkStoppedError, match=r"table main\.t does not exist"):
        bring(a, b)
    with b.transaction() as tx:
        tx.create_table("main.t", COLUMNS, properties={REPLICATED: "false"})
    bring(a, b)
    with b.transaction() as tx:
        tx.drop_table("main.t")
    bring(b, a)
    assert a.tables() == b.tables() == []


@pytest.mark.parametrize("rows", [(1,), (1, 2, 3)], ids=["alike", "other"])
def test_link_when_the_source_says_other_files_under_its_last_snapshot_then_it_went_back(
    site: Sites, a: InMemoryCommitLog, b: InMemoryCommitLog, rows: tuple[int, ...]
) -> None:
    append(a, 1)
    bring(a, b)
    restored = site("a")
    with restored.transaction() as tx:
        tx.create_table("main.t", COLUMNS)
    append(restored, *rows)
    with pytest.raises(SiteWentBackError):
        bring(restored, b)


def test_copy_when_the_same_is_there_then_it_stays_and_another_file_is_not_overwritten(tmp_path: Path) -> None:
    place, path = tmp_path / "a.parquet", tmp_path / "b" / lasting_name("a", 1)
    place.write_bytes(b"content")
    copy_whole(str(place), str(path), 7)
    made = path.stat().st_ino
    copy_whole(str(place), str(path), 7)
    assert path.stat().st_ino == made
    for other in (b"con", b"c0ntent"):
        path.write_bytes(other)
        with pytest.raises(DataFileError, match=r"is no copy of .* remove it if no snapshot of the table names it"):
            copy_whole(str(place), str(path), 7)
        assert path.read_bytes() == other
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_copy_when_what_was_written_is_not_what_was_read_then_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, path = tmp_path / "a.parquet", tmp_path / "b.parquet"
    place.write_bytes(b"content")
    monkeypatch.setattr(copying, "_hash_of", lambda *_: b"")
    with pytest.raises(DataFileError, match="its hash differs"):
        copy_whole(str(place), str(path), 7)
    assert not path.exists()


def test_copy_when_the_folder_cannot_be_written_then_says_why(tmp_path: Path) -> None:
    place, file = tmp_path / "a.parquet", tmp_path / "file"
    place.write_bytes(b"content")
    file.write_bytes(b"")
    with pytest.raises(DataFileError, match="cannot be copied to"):
        copy_whole(str(place), str(file / "b.parquet"), 7)


def test_name_of_a_copy_when_it_is_of_the_same_file_then_is_the_same_and_one_of_ours() -> None:
    assert lasting_name("a", 1, "t", 0) == lasting_name("a", 1, "t", 0)
    assert len({lasting_name("a", 1, "t", 0), lasting_name("a", 1, "t", 1), lasting_name("a", 11, "t", 0)}) == 3
    assert is_named_by_us(lasting_name("a", 1))
    assert is_named_by_us(f"{new_name()}.parquet")


def test_link_when_many_files_are_appended_then_their_snapshots_are_on_their_way_together(
    a: InMemoryCommitLog, b: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in range(5):
        append(a, key)
    runs: list[int] = []
    publish_many = b.publish_many

    def noted(sent: Iterable[m.Proposal], **more: Any) -> Iterator[Any]:
        run = list(sent)
        runs.append(len(run))
        return publish_many(run, **more)

    monkeypatch.setattr(b, "publish_many", noted)
    assert bring(a, b).files == 5
    assert runs == [4]
    assert ids(b) == [0, 1, 2, 3, 4]


def test_copy_when_the_store_is_no_folder_then_has_its_name_when_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyarrow import fs

    store = fs._MockFileSystem()
    store.create_dir("lake")
    local = copying.filesystem_of

    def opened(place: str) -> tuple[fs.FileSystem, str]:
        return (store, place.removeprefix("mock://")) if place.startswith("mock://") else local(place)

    monkeypatch.setattr(copying, "filesystem_of", opened)
    place, back = tmp_path / "a.parquet", tmp_path / "back.parquet"
    place.write_bytes(b"content")
    copy_whole(str(place), "mock://lake/b.parquet", 7)
    copy_whole("mock://lake/b.parquet", str(back), 7)
    assert back.read_bytes() == b"content"
    with pytest.raises(DataFileError, match="it is another file now"):
        copy_whole(str(place), "mock://lake/c.parquet", 8)
    with pytest.raises(DataFileError, match="does not exist any more"):
        copy_whole("mock://lake/c.parquet", str(tmp_path / "none.parquet"), 8)
