"""What is said of names that nothing has."""

from __future__ import annotations

import inspect
import re
import time
from contextlib import nullcontext
from difflib import get_close_matches
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from commitlog.client.table import Table
from commitlog.client.tables import missing
from commitlog.client.tables.names import TableName
from commitlog.client.tables.others_names import ARGUMENTS_OF_TABLES
from commitlog.errors import DataFileError, InvalidRequestError, TableNotFoundError
from commitlog.ops.cli import cli, history
from commitlog.testing import InMemoryCommitLog

ROWS = pa.table({"id": [1]})


@pytest.fixture
def log(tmp_path: Path) -> InMemoryCommitLog:
    clock_ms = count(time.time_ns() // 1_000_000, 1_000)  # A second later each time.
    log = InMemoryCommitLog(data_path=tmp_path, clock_ms=lambda: next(clock_ms))
    with log.transaction() as tx:
        tx.create_schema("taxi")
    log.append("taxi.trips", ROWS, create=True)
    return log


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("taxi.trisp", r"no table taxi.trisp at snapshot 2 - did you mean taxi.trips\?"),
        ("trips", r"no table main.trips at snapshot 2 - did you mean taxi.trips\?"),
        ("taix.trips", r"no table taix.trips at snapshot 2 - there is no schema taix \(there is taxi, main\)"),
        ("taxi.zones", r"no table taxi.zones at snapshot 2; "),
    ],
)
def test_table_when_there_is_none_then_says_what_may_have_been_meant(
    log: InMemoryCommitLog, name: str, says: str
) -> None:
    table = log.table(name)
    tx = log.transaction()
    for ask in (
        lambda: table.definition,
        lambda: table.scan().count(),
        lambda: table.append(ROWS),
        lambda: table.delete("id = 1"),
        lambda: table.upsert({"id": 1}),
        lambda: table.files(),
        lambda: tx.append(name, ROWS),
    ):
        with pytest.raises(TableNotFoundError, match=says):
            ask()


class ManyTables:
    """A hundred thousand tables of one schema."""

    def schemas(self, snapshot_id: int) -> list[str]:
        return ["main"]

    def tables(self, snapshot_id: int) -> list[tuple[str, str, int]]:
        return [("main", f"rides_of_driver_{number}_by_day", number) for number in range(100_000)]

    def table_at(self, schema: str, table: str, snapshot_id: int) -> None:
        return None

    def snapshots(self, *, limit: int | None = None) -> list[SimpleNamespace]:
        return [SimpleNamespace(snapshot_id=1)]


def test_table_when_there_are_very_many_then_a_name_is_compared_with_those_next_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = []

    def noted(name: str, others: list[str], n: int) -> list[str]:
        compared.append(len(others))
        return get_close_matches(name, others, n)

    monkeypatch.setattr(missing, "get_close_matches", noted)
    error = missing.missing_table(TableName("main", "rides_of_driver_77x_by_day"), 1, ManyTables())
    assert "did you mean main.rides_of_driver_77_by_day" in str(error)
    assert compared == [2_000]


def test_table_when_it_came_after_the_snapshot_then_says_so(log: InMemoryCommitLog) -> None:
    for at in (1, log.history()[-1].decided_at):
        with pytest.raises(
            TableNotFoundError, match=r"taxi\.trips at snapshot \d - it was created later, .* history\(\) says"
        ):
            log.table("taxi.trips").scan(snapshot=at)


def test_append_when_neither_table_nor_schema_is_there_then_says_how_each_is_made(log: InMemoryCommitLog) -> None:
    with pytest.raises(TableNotFoundError, match=r"no schema taix .*create=True.*tx\.create_schema"):
        log.append("taix.trips", ROWS)


def test_rename_when_the_new_name_has_the_schema_too_then_says_that_it_is_the_name_alone(
    log: InMemoryCommitLog,
) -> None:
    with (
        pytest.raises(InvalidRequestError, match=r"the name alone, 'rides', not 'Taxi\.rides'"),
        log.transaction() as tx,
    ):
        tx.rename_table("taxi.trips", "Taxi.rides")
    with log.transaction() as tx:
        tx.rename_table("taxi.trips", "rides.of.taxis")
    assert log.tables() == ['taxi."rides.of.taxis"']


def test_append_when_its_schema_is_not_there_then_says_which_are(log: InMemoryCommitLog, tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    for given in ({"data": ROWS}, {"files": [tmp_path / "rows.parquet"]}):
        with pytest.raises(
            InvalidRequestError, match=r"no schema taix \(there is taxi, main\): tx.create_schema\('taix'\)"
        ):
            log.append("taix.zones", create=True, **given)
    with log.transaction() as tx:
        tx.create_schema("taix")
    assert log.append("taix.zones", ROWS, create=True) is not None


def test_log_when_its_table_has_a_typo_then_says_so(log: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "reading_log", lambda settings: nullcontext(log))
    ask = partial(CliRunner().invoke, history.log_command, **cli.context_settings)
    assert "taxi.trips" in ask(["--table", "taxi.trips"]).output
    assert "no outcome matches" in ask(["--table", "taxi.trips", "--writer", "w"]).output
    typo = ask(["--table", "taxi.tripz"])
    assert "did you mean taxi.trips?" in str(typo.exception)


def test_rows_when_they_are_in_no_file_and_have_no_key_then_what_is_said_gives_them_one(log: InMemoryCommitLog) -> None:
    table = log.table("taxi.trips")
    with log.transaction() as tx:
        tx.insert_row("taxi.trips", {"id": 2})
    for change in (lambda: table.delete("id = 2"), lambda: table.restore(2)):
        with pytest.raises(DataFileError, match="no file, and no key by which") as refused:
            change()
        copying, renaming = str(refused.value).split("copy it, ")[1].split(", and have the copy take its name")
        statements = [copying, *re.findall(r"tx\.\w+\([^)]*\)", renaming)]
        assert len(statements) == 3
    eval(copying, {"log": log})
    with log.transaction() as tx:
        for each in statements[1:]:
            eval(each, {"tx": tx})
    assert table.scan().to_arrow().to_pylist() == [{"id": 1}, {"id": 2}]
    table.delete("id = 2")
    assert table.scan().to_arrow().to_pylist() == [{"id": 1}]


def test_argument_when_it_is_called_as_elsewhere_then_says_what_it_is_called_here(log: InMemoryCommitLog) -> None:
    table = log.table("taxi.trips")
    with pytest.raises(TypeError, match=r"Table\.scan\(\) has no argument 'filter': give where= instead"):
        table.scan(filter="id = 1")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'wehre'"):
        table.scan(wehre="id = 1")  # type: ignore[call-arg]
    for method, words in ARGUMENTS_OF_TABLES.items():
        assert not words.keys() & inspect.signature(getattr(Table, method)).parameters.keys()
