"""What is said of names that nothing has."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from commitlog.errors import InvalidRequestError, TableNotFoundError
from commitlog.ops.cli import history
from commitlog.testing import InMemoryCommitLog

ROWS = pa.table({"id": [1]})


@pytest.fixture
def log(tmp_path: Path) -> InMemoryCommitLog:
    log = InMemoryCommitLog(data_path=tmp_path)
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
        lambda: tx.append(name, ROWS),
    ):
        with pytest.raises(TableNotFoundError, match=says):
            ask()


def test_table_when_it_came_after_the_snapshot_then_says_so(log: InMemoryCommitLog) -> None:
    for at in (1, "1980-01-01"):
        with pytest.raises(
            TableNotFoundError, match=r"taxi\.trips at snapshot \d - it was created later, .* history\(\) says"
        ):
            log.table("taxi.trips").scan(snapshot=at)


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
    runner = CliRunner()
    assert "taxi.trips" in runner.invoke(history.log_command, ["--table", "taxi.trips"]).output
    assert "nothing like" in runner.invoke(history.log_command, ["--table", "taxi.trips", "--writer", "w"]).output
    typo = runner.invoke(history.log_command, ["--table", "taxi.tripz"])
    assert "did you mean taxi.trips?" in str(typo.exception)
