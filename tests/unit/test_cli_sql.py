"""`commitlog sql`: the forms in which answers are printed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from cli_logs import CliLog
from click.testing import CliRunner, Result

from commitlog.client.reading.duckdb_client import open_duckdb
from commitlog.ops.cli import cli
from commitlog.testing import InMemoryCommitLog

Sql = Callable[..., Result]

TIMES = (
    "SELECT DATE 'infinity' AS d, TIMESTAMP '-infinity' AS t, TIMESTAMPTZ 'infinity' AS z, INTERVAL '1 month 2 days' AS i, "
    "TIMESTAMP_NS '2026-03-01 00:00:00.123456789' AS n, [DATE '9999-12-31'] AS l, {'n': INTERVAL 1 MONTH, 's': 'x'} AS s, "
    "MAP {'k': TIMESTAMP '2026-03-01'} AS m, [TIMESTAMP 'infinity']::TIMESTAMP[1] AS a"
)
FLOATS = "SELECT 1.5::DOUBLE AS f, 'nan'::DOUBLE AS n, ['inf'::FLOAT, '-inf'::FLOAT] AS i"
BLOBS = r"SELECT '\xFFa'::BLOB AS b, ['\x00'::BLOB] AS l, {'d': DATE '2026-03-01'} AS s, NULL AS z"


@pytest.fixture
def sql(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Sql:
    """The command on a DuckDB without a lake."""
    monkeypatch.setattr("commitlog.ops.cli.sql.current_catalog", lambda _: nullcontext())
    monkeypatch.setattr("commitlog.client.reading.duckdb_client.open_lake", lambda *_: open_duckdb())
    monkeypatch.setenv("COMMITLOG_HOME", str(tmp_path))

    def run(*arguments: str, charset: str = "utf-8") -> Result:
        return CliRunner(charset=charset).invoke(cli, ["sql", *arguments], catch_exceptions=False)

    return run


def no_constant(name: str) -> Any:
    raise AssertionError(f"{name} is not JSON")


def of_json(done: Result) -> Any:
    return json.loads(done.stdout, parse_constant=no_constant)


def test_sql_when_numbers_are_not_finite_then_json_has_them_as_the_texts_of_the_log(sql: Sql) -> None:
    assert of_json(sql(FLOATS, "--json")) == {"f": 1.5, "n": "nan", "i": ["inf", "-inf"]}
    assert of_json(sql("SELECT MAP {'nan'::DOUBLE: 1, 2.5: 2} AS m", "--json")) == {"m": {"nan": 1, "2.5": 2}}


def test_sql_when_there_are_blobs_then_they_are_as_duckdb_writes_them(sql: Sql) -> None:
    assert of_json(sql(BLOBS, "--json")) == {"b": "\\xFFa", "l": ["\\x00"], "s": {"d": "2026-03-01"}, "z": None}
    assert sql(BLOBS, "--csv").stdout == 'b,l,s,z\n\\xFFa,"[""\\\\x00""]","{""d"": ""2026-03-01""}",\n'
    assert sql(BLOBS).stdout.splitlines()[1].split("  ")[0] == "\\xFFa"


def test_sql_when_python_has_no_such_time_then_it_is_as_duckdb_writes_it(sql: Sql) -> None:
    assert of_json(sql(TIMES, "--json")) == {
        "d": "infinity",
        "t": "-infinity",
        "z": "infinity",
        "i": "1 month 2 days",
        "n": "2026-03-01 00:00:00.123456789",
        "l": ["9999-12-31"],
        "s": {"n": "1 month", "s": "x"},
        "m": {"k": "2026-03-01T00:00:00"},
        "a": ["infinity"],
    }
    assert sql(f"SELECT d, n, i, a FROM ({TIMES})", "--csv").stdout == (
        'd,n,i,a\ninfinity,2026-03-01 00:00:00.123456789,1 month 2 days,"[""infinity""]"\n'
    )


def test_sql_when_python_has_the_times_then_they_are_as_in_all_json(sql: Sql) -> None:
    query = (
        "SET TimeZone = 'Europe/Berlin'; SELECT TIMESTAMP '2026-03-01 04:05:06.5' AS t, "
        "[TIMESTAMPTZ '2026-03-01 01:00:00+01'] AS z, DATE '2026-03-01' AS d ORDER BY t"
    )
    assert of_json(sql(query, "--json")) == {
        "t": "2026-03-01T04:05:06.500000",
        "z": ["2026-03-01T00:00:00.000000Z"],
        "d": "2026-03-01",
    }


def test_sql_when_csv_has_empty_texts_then_load_tells_them_from_null(
    sql: Sql, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = sql("SELECT * FROM (VALUES (1, '', 'a\"b'), (2, NULL, 'c,d'), (3, 'x', NULL)) AS t(n, v, w)", "--csv")
    assert given.stdout == 'n,v,w\n1,"","a""b"\n2,,"c,d"\n3,x,\n'
    assert sql("SELECT NULL AS v", "--csv").stdout == 'v\n""\n', "a row, if not the same one"
    with InMemoryCommitLog(data_path=tmp_path / "lake") as log:
        CliLog(log, monkeypatch).run("load", "t", "-", "--create", given=given.stdout)
        rows = log.table("t").scan().to_arrow().to_pylist()
    assert [row["v"] for row in rows] == ["", None, "x"]


def test_sql_when_columns_have_one_name_then_json_numbers_them(sql: Sql) -> None:
    assert of_json(sql("SELECT 1 AS a, 2 AS a, 3 AS a, 4 AS a_1", "--json")) == {"a": 1, "a_2": 2, "a_3": 3, "a_1": 4}
    assert sql("SELECT 1 AS a, 2 AS a", "--csv").stdout == "a,a\n1,2\n"


def test_sql_when_the_terminal_is_not_utf_8_then_csv_still_is(sql: Sql) -> None:
    done = sql("SELECT '\u00fc\u96ea' AS t", "--csv", charset="latin-1")
    assert done.stdout_bytes.decode() == "t\n\u00fc\u96ea\n"


@pytest.mark.parametrize("query", ["", " ;", "-- nothing"])
def test_sql_when_the_query_has_no_statement_then_says_so(sql: Sql, query: str) -> None:
    done = sql("--", query)
    assert done.exit_code == 2
    assert "QUERY contains no statement: give one" in done.stderr


@pytest.mark.parametrize("width", [60, sys.maxsize], ids=["terminal", "pipe"])
def test_sql_when_a_column_is_called_like_markup_then_its_name_is_shown(
    sql: Sql, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setattr("commitlog.ops.cli.options.shown_width", lambda: width)
    assert sql('SELECT 1 AS "[/x]", 2 AS "a[bold]"').stdout.splitlines()[0].split() == ["[/x]", "a[bold]"]


def test_sql_when_there_is_no_terminal_then_a_row_is_one_line_as_long_as_its_texts(sql: Sql) -> None:
    done = sql("SELECT * FROM (VALUES ('東京', repeat('x', 3000)), ('Nara', 'y'), ('Oslo', NULL)) t(city, note)")
    assert done.stdout.splitlines() == ["city  note", f"東京  {'x' * 3000}", "Nara  y", "Oslo  NULL"]


def test_sql_when_there_is_no_terminal_and_a_text_has_lines_then_they_stay_in_their_column(sql: Sql) -> None:
    done = sql("SELECT * FROM (VALUES (e'a\\nb', 1), ('c', 2)) t(note, n)")
    assert done.stdout.splitlines() == ["note  n", "a     1", "b", "c     2"]
