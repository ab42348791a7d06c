"""`commitlog load`: files of rows appended to a table."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from commitlog.client import CommitLog
from commitlog.errors import CommitLogError, DataFileError, InvalidRequestError, KeyReusedError, TableNotFoundError
from commitlog.ops.cli import cli
from commitlog.testing import InMemoryCommitLog

Load = Callable[..., Result]


@pytest.fixture
def log(tmp_path: Path) -> InMemoryCommitLog:
    return InMemoryCommitLog(data_path=tmp_path / "lake")


@pytest.fixture
def load(log: InMemoryCommitLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    monkeypatch.setattr(CommitLog, "connect", lambda **_: nullcontext(log))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, stdin: str | None = None) -> Result:
        runner = CliRunner(env={"COMMITLOG_HOME": str(tmp_path / "home")})
        return runner.invoke(cli, ["load", *arguments], input=stdin)

    return run


def rows(log: CommitLog, table: str) -> list[dict[str, Any]]:
    return sorted(log.table(table).scan().to_arrow().to_pylist(), key=lambda row: str(row))


def write(path: Path, text: str) -> str:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return str(path)


CSV = 'id,name,day\n1,"a, b",2026-03-01\n2,,2026-03-02\n3,"",\n'
ROWS = [
    {"id": 1, "name": "a, b", "day": date(2026, 3, 1)},
    {"id": 2, "name": None, "day": date(2026, 3, 2)},
    {"id": 3, "name": "", "day": None},
]


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "rows.tsv", "rows.parquet"])
def test_load_when_the_table_is_to_be_created_then_has_the_columns_of_the_file(
    log: InMemoryCommitLog, load: Load, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    if name.endswith("parquet"):
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    else:
        write(path, CSV.replace(",", "\t").replace("a\t b", "a, b") if "tsv" in name else CSV)
    done = load("main.t", str(path), "--create", "--partition-by", "day")
    shown = "3 rows into main.t: snapshot 1\ncreated with the columns id int64, name varchar, day date\n"
    assert (done.exit_code, done.stdout) == (0, shown)
    assert rows(log, "main.t") == ROWS
    assert len(log.table("main.t").files()) == 3


def test_load_when_the_table_is_there_then_its_types_are_taken(
    log: InMemoryCommitLog, load: Load, tmp_path: Path
) -> None:
    with log.transaction() as tx:
        tx.create_table("t", {"ID": "int32", "name": "varchar", "day": "date", "amount": "decimal(9,2)"})
    csv = write(tmp_path / "a.csv", "amount,id,name\n1.10,7,008\n")
    more = write(tmp_path / "b.csv", "name,id,amount\nNA,8,2\n")
    lines = write(tmp_path / "c.jsonl", '{"id": 9, "name": "x"}\n{"name": "y", "id": 10}\n')
    assert json.loads(load("t", csv, more, "--json", "--message", "two").stdout)["rows"] == 2
    assert load("t", lines).exit_code == 0
    found = [(row["ID"], row["name"], str(row["amount"])) for row in rows(log, "t")]
    assert sorted(found) == [(7, "008", "1.10"), (8, "NA", "2.00"), (9, "x", "None"), (10, "y", "None")]
    proposal = log.outcomes[1].proposal
    assert proposal is not None
    assert proposal.message == "two"


def test_load_when_json_lines_have_dates_then_they_are_those_of_the_table(
    log: InMemoryCommitLog, load: Load, tmp_path: Path
) -> None:
    with log.transaction() as tx:
        tx.create_table("t", {"id": "int64", "day": "date", "paid": "decimal(9,2)", "nothing": "int32"})
    lines = '{"id": 1, "day": "2026-03-01", "paid": 0.1, "nothing": null}\n{"id": 2, "day": null}\n'
    assert load("t", write(tmp_path / "a.jsonl", lines)).exit_code == 0
    assert rows(log, "t") == [
        {"id": 1, "day": date(2026, 3, 1), "paid": Decimal("0.10"), "nothing": None},
        {"id": 2, "day": None, "paid": None, "nothing": None},
    ]
    wrong = load("t", write(tmp_path / "b.jsonl", '{"id": 3, "day": "the first of March"}\n')).exception
    assert isinstance(wrong, DataFileError)
    assert "b.jsonl cannot be read as JSON" in str(wrong)
    pq.write_table(pa.table({"id": [4], "day": ["2026-03-01"]}), tmp_path / "c.parquet")
    assert isinstance(load("t", str(tmp_path / "c.parquet")).exception, DataFileError)


@pytest.mark.parametrize("zone", ["", "Z"])
@pytest.mark.parametrize(("ending", "text"), [("csv", "at\n{}\n"), ("jsonl", '{{"at": "{}"}}\n')])
def test_load_when_the_first_times_are_whole_seconds_then_the_next_may_have_fractions(
    log: InMemoryCommitLog, load: Load, tmp_path: Path, ending: str, text: str, zone: str
) -> None:
    for day, at in enumerate(("2026-03-01T10:00:00", "2026-03-02T10:00:00.5")):
        file = write(tmp_path / f"{day}.{ending}", text.format(at + zone))
        found = load("main.t", file, *([] if day else ["--create"]))
        assert found.exit_code == 0, found.output
    times = [row["at"].replace(tzinfo=None) for row in rows(log, "main.t")]
    assert times == [datetime(2026, 3, 1, 10), datetime(2026, 3, 2, 10, 0, 0, 500_000)]


@pytest.mark.parametrize("text", ["id,none\n1,\n2,\n", '{"id": 1, "none": null}\n{"id": 2, "none": null}\n'])
def test_load_when_a_column_of_a_created_table_has_no_value_then_it_is_a_text(
    log: InMemoryCommitLog, load: Load, tmp_path: Path, text: str
) -> None:
    path = write(tmp_path / f"rows.{'csv' if text.startswith('id') else 'jsonl'}", text)
    assert load("t", path, "--create").exit_code == 0
    assert [str(column.type) for column in log.table("t").definition.columns] == ["int64", "varchar"]


def test_load_when_its_key_is_known_then_commits_nothing(log: InMemoryCommitLog, load: Load, tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv", CSV)
    assert load("t", path, "--create", "--key", "nightly:2026-03-02").exit_code == 0
    again = load("t", path, "--create", "--key", "nightly:2026-03-02")
    assert again.stdout == "already loaded, as snapshot 1: nothing to do\n"
    more = load("t", write(tmp_path / "more.csv", CSV + "4,d,\n"), "--key", "nightly:2026-03-02")
    assert isinstance(more.exception, KeyReusedError)
    assert "3 rows came into main.t first, 4 now" in str(more.exception)
    assert len(rows(log, "t")) == 3


def test_load_when_rows_come_by_standard_input_then_as_those_of_a_file(
    log: InMemoryCommitLog, load: Load, tmp_path: Path
) -> None:
    assert load("t", "-", "--create", stdin=CSV).exit_code == 0
    lines = '{"id": 4, "name": "d"}\n'
    assert load("t", "-", "--format", "jsonl", stdin=lines).stdout == "1 row into t: snapshot 2\n"
    assert rows(log, "t") == sorted([*ROWS, {"id": 4, "name": "d", "day": None}], key=str)
    assert "nothing to commit" in load("t", "-", write(tmp_path / "none.csv", "id\n"), stdin="id\n").stdout
    with pytest.raises(InvalidRequestError, match="only once"):
        raise load("t", "-", "-", stdin=CSV).exception or AssertionError


def test_load_when_lines_of_json_begin_with_a_byte_order_mark_then_large_numbers_are_read_exactly_too(
    log: InMemoryCommitLog, load: Load, tmp_path: Path
) -> None:
    assert load("t", write(tmp_path / "1.jsonl", '\ufeff{"n": 12345678901234567890}\n'), "--create").exit_code == 0
    assert [int(row["n"]) for row in rows(log, "t")] == [12345678901234567890]


def test_load_when_told_how_csv_is_written_then_reads_it_so_and_says_what_it_took(
    log: InMemoryCommitLog, load: Load, tmp_path: Path
) -> None:
    given = write(tmp_path / "rows.csv", "zip;n\n01234;NA\n-;7\n")
    done = load("t", given, "--create", "--delimiter", ";", "--text", "zip", "--null", "NA", "--null", "-")
    assert done.stdout.splitlines()[-1] == "created with the columns zip varchar, n int64"
    assert rows(log, "t") == [{"zip": "01234", "n": None}, {"zip": None, "n": 7}]
    write(tmp_path / "more.csv", "zip\tn\n7\t8\n")
    assert load("t", "more.csv", "--delimiter", "tab").stdout == "1 row into t: snapshot 2\n"


def test_load_when_a_file_has_no_rows_then_says_so(log: InMemoryCommitLog, load: Load, tmp_path: Path) -> None:
    write(tmp_path / "rows.csv", CSV)
    load("t", "rows.csv", "--create")
    assert load("t", write(tmp_path / "none.csv", "id,name\n")).stdout == "no rows: nothing to commit\n"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["t", "rows.csv"], TableNotFoundError, "--create"),
        (["t", "none.csv", "--create"], DataFileError, "none.csv does not exist"),
        (["a b", "rows.csv", "--create"], DataFileError, "table main.a b will be .*submit --example CREATE_TABLE"),
        (
            ["main.a.b", "rows.csv", "--create"],
            InvalidRequestError,
            r"no table name: .* shell .*: 'main\.\"like.this\"'$",
        ),
        (
            ["t", "rows.txt", "--create"],
            InvalidRequestError,
            r"rows.txt does not end with one of \.csv.* - --format csv <",
        ),
        (["t", "bad.parquet", "--create"], DataFileError, "bad.parquet cannot be read as Parquet"),
        (["t", "bad.csv", "--create"], DataFileError, "bad.csv cannot be read as CSV"),
        (
            ["t", "bad.jsonl", "--create"],
            DataFileError,
            "bad.jsonl cannot be read as JSON.* an object a line, and no list",
        ),
        (["t", "rows.csv", "other.csv", "--create"], DataFileError, "other.csv has the columns x, and rows.csv has id"),
        (["t", "rows.csv", "--partition-by", "day"], InvalidRequestError, "--create"),
        (["t", "rows.csv", "--create", "--key", ""], InvalidRequestError, "key"),
        (["t", "-", "--create"], DataFileError, "^standard input cannot be read as CSV"),
        (["t", "latin.csv", "--create"], DataFileError, "latin.csv has texts in the column name that are no UTF-8"),
        (["t", "header.csv", "--create"], DataFileError, "header.csv cannot be read as CSV: .* no UTF-8"),
        (["t", "latin.jsonl", "--create"], DataFileError, "latin.jsonl cannot be read as JSON"),
        (["t", "nulls.jsonl", "--create"], DataFileError, "nulls.jsonl cannot be read as JSON"),
        (
            ["t", "rows.csv", "--create", "--delimiter", "::"],
            InvalidRequestError,
            "--delimiter must be one ASCII character",
        ),
        (
            ["t", "rows.csv", "--create", "--delimiter", "ß"],
            InvalidRequestError,
            "--delimiter must be one ASCII character",
        ),
        (
            ["t", "rows.csv", "--create", "--text", "nmae"],
            InvalidRequestError,
            "no column nmae .*: the file has id, name",
        ),
    ],
)
def test_load_when_it_cannot_be_then_says_why_and_leaves_nothing(
    log: InMemoryCommitLog,
    load: Load,
    tmp_path: Path,
    arguments: list[str],
    error: type[CommitLogError],
    message: str,
) -> None:
    write(tmp_path / "rows.csv", CSV)
    write(tmp_path / "other.csv", "x\n1\n")
    write(tmp_path / "bad.csv", "a,b\n1,2\n1,2,3\n")
    write(tmp_path / "nulls.jsonl", '{"x": [null, 0.5]}\n')
    (tmp_path / "latin.csv").write_text("id,name\n1,caf\xe9\n", encoding="latin-1")
    (tmp_path / "header.csv").write_text("id,caf\xe9\n1,2\n", encoding="latin-1")
    (tmp_path / "latin.jsonl").write_text('{"name": "a"}\n{"name": "caf\xe9"}\n{"name": "z"}\n', encoding="latin-1")
    for name in ("bad.parquet", "bad.jsonl"):
        write(tmp_path / name, "{nothing")
    done = load(*arguments)
    assert isinstance(done.exception, error)
    with pytest.raises(error, match=message):
        raise done.exception
    assert log.outcomes == ()
    assert not list((tmp_path / "lake").rglob("*.parquet"))


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("rows.csv", "at\n2026-03-01T01:00:00.5\n2026-03-01T01:00:00\n", "timestamp"),
        ("rows.csv", "at\n2026-03-01T01:00:00.000001Z\n", "timestamptz"),
        ("rows.csv", "at\n2026-03-01T01:00:00.0000001\n", "timestamp_ns"),
        ("rows.jsonl", '{"at": "2026-03-01T01:00:00"}\n{"at": null}\n', "timestamp"),
        ("rows.jsonl", '{"at": "2026-03-01"}\n', "timestamp"),
        ("rows.jsonl", '{"at": "2026-03-01T01:00:00Z"}\n{"at": "2026-03-01T01:00:00-0230"}\n', "timestamptz"),
        ("rows.jsonl", '{"at": "2026-03-01T01:00:00Z"}\n{"at": "2026-03-01T01:00:00"}\n', "varchar"),
        ("rows.jsonl", '{"at": "2026-03-01T01:00:00.123"}\n{"at": null}\n', "timestamp"),
        ("rows.jsonl", '{"at": "2026-03-01 01:00:00"}\n{"at": "2026-03-01T01:00:00.000001"}\n', "timestamp"),
        ("rows.jsonl", '{"at": "2026-03-01T01:00:00.5Z"}\n{"at": "2026-03-01T01:00:00+01:00"}\n', "timestamptz"),
        ("rows.jsonl", '{"at": "2026-03-01T01:00:00.0000001"}\n', "timestamp_ns"),
        ("rows.jsonl", '{"at": ["2026-03-01T01:00:00.5", null]}\n{"at": []}\n', "list(timestamp)"),
        ("rows.jsonl", '{"at": []}\n{"at": ["x"]}\n', "list(varchar)"),
        ("rows.jsonl", '{"at": "2026-03-01T01:00:00.5Z"}\n{"at": "2026-03-01T01:00:00.5"}\n', "varchar"),
        ("rows.jsonl", '{"at": "2026-03-01T01:00:00.5"}\n{"at": "2026-13-01T01:00:00.5"}\n', "varchar"),
        ("rows.jsonl", '{"at": "2026-03-01T01:00:00.5"}\n{"at": "unknown"}\n', "varchar"),
    ],
)
def test_load_when_the_file_has_times_then_they_are_as_it_has_them(
    log: InMemoryCommitLog, load: Load, tmp_path: Path, name: str, text: str, expected: str
) -> None:
    path = write(tmp_path / name, text)
    assert load("main.t", path, "--create").exit_code == 0
    table = log.table("main.t")
    assert [str(column.type) for column in table.definition.columns] == [expected]
    found = table.scan().to_arrow().column(0).to_pylist()
    if "-0230" in text:
        assert found == [datetime(2026, 3, 1, 1, tzinfo=UTC), datetime(2026, 3, 1, 3, 30, tzinfo=UTC)]
    # Once created, the table says what its files' times are.
    assert load("main.t", path).exit_code == 0


def test_load_when_json_has_times_within_others_then_they_keep_their_zones(
    log: InMemoryCommitLog, load: Load, tmp_path: Path
) -> None:
    lines = (
        {"zoned": ["2026-03-01T01:00:00+02:00"], "plain": "2026-03-01T01:00:00", "some": "2026-03-01T01:00:00Z"},
        {"zoned": ["2026-03-01T01:00:00Z", None], "plain": None, "some": "2026-03-01T01:00:00"},
        None,
    )
    file = write(tmp_path / "rows.jsonl", "".join(json.dumps({"s": each}) + "\n" for each in lines))
    assert load("t", file, "--create").exit_code == 0
    [column] = log.table("t").definition.columns
    assert str(column.type) == "struct(zoned list(timestamptz), plain timestamp, some varchar)"
    before, at = datetime(2026, 2, 28, 23, tzinfo=UTC), datetime(2026, 3, 1, 1)
    expected = [
        {"zoned": [before], "plain": at, "some": "2026-03-01T01:00:00Z"},
        {"zoned": [at.replace(tzinfo=UTC), None], "plain": None, "some": "2026-03-01T01:00:00"},
        None,
    ]
    assert log.table("t").scan().to_arrow().column(0).to_pylist() == expected
    done = load("t", file)
    assert done.exit_code == 0, done.exception
    assert log.table("t").scan().to_arrow().column(0).to_pylist() == expected * 2


@pytest.mark.parametrize(("ending", "text"), [("csv", "at\n{}\n"), ("jsonl", '{{"at": "{}"}}\n')])
def test_load_when_times_name_a_zone_and_the_column_has_none_then_refused(
    log: InMemoryCommitLog, load: Load, tmp_path: Path, ending: str, text: str
) -> None:
    zoned = write(tmp_path / f"zoned.{ending}", text.format("2026-03-01T01:00:00+02:00"))
    plain = write(tmp_path / f"plain.{ending}", text.format("2026-03-01T01:00:00"))
    with pytest.raises(DataFileError, match=r"zoned.* expected no zone offset"):
        raise load("t", plain, zoned, "--create").exception or AssertionError
    assert load("t", plain, "--create").exit_code == 0
    with pytest.raises(DataFileError, match=r"zoned.* expected no zone offset"):
        raise load("t", zoned).exception or AssertionError
    assert rows(log, "t") == [{"at": datetime(2026, 3, 1, 1)}]


@pytest.mark.parametrize(
    ("narrow", "number", "wide", "problem"),
    [
        (pa.float32(), 0.1, pa.float64(), r"wide\.parquet has numbers in the column n that are double.* lose digits"),
        (pa.int32(), 2**40, pa.int64(), r"wide\.parquet .* not in range"),
    ],
)
def test_load_when_the_first_file_has_narrower_numbers_then_those_of_the_next_lose_no_digit(
    log: InMemoryCommitLog,
    load: Load,
    tmp_path: Path,
    narrow: pa.DataType,
    number: float,
    wide: pa.DataType,
    problem: str,
) -> None:
    first, second = str(tmp_path / "narrow.parquet"), str(tmp_path / "wide.parquet")
    pq.write_table(pa.table({"n": pa.array([1], narrow)}), first)
    pq.write_table(pa.table({"n": pa.array([number], wide)}), second)
    with pytest.raises(DataFileError, match=problem):
        raise load("t", first, second, "--create").exception or AssertionError
    assert load("t", second, first, "--create").exit_code == 0
    done = load("t", first, second)
    assert done.exit_code == 0, done.exception
    assert [row["n"] for row in rows(log, "t")].count(number) == 2


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (["12345678901234567890", "7"], "uint64"),
        (["18446744073709551616", "0"], "decimal(38,0)"),
        (["12345678901234567890", "-7"], "decimal(38,0)"),
        (["-12345678901234567890123456789012345678", "0"], "decimal(38,0)"),
        (["1.989e30", "5e-11"], "float64"),
        (["1.5e20", "100000000000000000000"], "float64"),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_load_when_a_created_column_has_large_numbers_then_no_digit_is_lost(
    log: InMemoryCommitLog, load: Load, tmp_path: Path, ending: str, written: list[str], expected: str
) -> None:
    lines = ["n", *written] if ending == "csv" else [f'{{"n": {each}}}' for each in written]
    done = load("t", write(tmp_path / f"rows.{ending}", "\n".join(lines) + "\n"), "--create")
    assert done.exit_code == 0, done.exception
    assert done.stdout.splitlines()[-1] == f"created with the columns n {expected}"
    exact: type[Any] = Decimal if expected != "float64" else float
    assert sorted(row["n"] for row in rows(log, "t")) == sorted(exact(each) for each in written)


@pytest.mark.parametrize(
    ("name", "lines", "remedy"),
    [
        ("a.csv", ["n,m", "1.5,", "12345678901234567890,"], "--text n"),
        ("a.csv", ["n,m", f"{'9' * 39},"], "--text n"),
        ("a.csv", ["n", "1.5", *["0.5"] * 30, "9007199254740993"], "--text n"),
        ("a.jsonl", ['{"n": 0.5}', '{"n": 9007199254740993}'], r"such as decimal\(38,2\)$"),
        ("a.jsonl", ['{"n": {"x": [0.5, 18446744073709551617, null], "y": "1"}}'], "write it as a text in the file"),
    ],
)
def test_load_when_no_type_for_a_created_column_keeps_all_digits_then_refused(
    log: InMemoryCommitLog,
    load: Load,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    lines: list[str],
    remedy: str,
) -> None:
    # Blocks so small that a number after many others is not among the rows that tell the types.
    monkeypatch.setattr("commitlog.ops.row_files.BLOCK_BYTES", 64)
    path = write(tmp_path / name, "\n".join(lines) + "\n")
    with pytest.raises(DataFileError, match=rf"{name} has \d+ in the column n, .* lose digits: .*{remedy}"):
        raise load("t", path, "--create").exception or AssertionError
    assert log.outcomes == ()
    if name == "a.csv":
        assert load("t", path, "--create", "--text", "n").exit_code == 0


def test_load_when_only_the_second_file_has_numbers_that_would_lose_digits_then_refused(
    log: InMemoryCommitLog, load: Load, tmp_path: Path
) -> None:
    first, second = write(tmp_path / "a.csv", "n\n1.5\n"), write(tmp_path / "b.csv", "n\n9007199254740993\n")
    with pytest.raises(DataFileError, match=r"b\.csv has 9007199254740993 in the column n"):
        raise load("t", first, second, "--create").exception or AssertionError
    with log.transaction() as tx:
        tx.create_table("t", {"n": "float64"})
    assert load("t", first, second).exit_code == 0
