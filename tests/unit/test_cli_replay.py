"""`commitlog replay`: one outcome for each line, in order, decided on an empty log."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from commitlog.ops.cli import cli
from commitlog.ops.cli import replay as cli_replay

MAIN = "from commitlog.ops.cli import main; main()"
FIRST_ID = "01934f3e-7c00-7000-8000-{:012x}"
CREATED_MS = 0x01934F3E7C00


def outcomes(*arguments: str, given: bytes = b"") -> list[dict[str, Any]]:
    done = CliRunner().invoke(cli, ["replay", *arguments], input=given)
    assert done.exit_code == 0, done.stderr
    return [json.loads(line) for line in done.stdout_bytes.split(b"\n") if line]


def line(number: int, *changes: dict[str, Any], base: int = 0, **fields: Any) -> bytes:
    proposal = {"proposal_id": FIRST_ID.format(number), "writer_id": "w", "base_snapshot_id": base, "changes": changes}
    return json.dumps({**proposal, **fields}).encode() + b"\n"


def create(table: str = "t", **fields: Any) -> dict[str, Any]:
    columns = [{"name": "id", "type": "int64"}]
    return {"kind": "CREATE_TABLE", "schema": "main", "table": table, "columns": columns, **fields}


def append(*paths: str, table: str = "t") -> dict[str, Any]:
    files = [{"path": path, "record_count": 10, "file_size_bytes": 100} for path in paths]
    return {"kind": "APPEND", "schema": "main", "table": table, "files": files}


def delete(data_file_id: int, rows: list[int]) -> dict[str, Any]:
    positions = [{"data_file_id": data_file_id, "rows": rows}]
    return {"kind": "DELETE", "schema": "main", "table": "t", "positions": positions}


def test_replay_when_blank_lines_are_between_then_offsets_are_line_numbers() -> None:
    found = outcomes("-", given=line(1, create()) + b"\n  \r\n" + line(2, append("a"), base=1))
    assert [each["source"] for each in found] == [{"partition": 0, "offset": 0}, {"partition": 0, "offset": 3}]
    assert [each["seq"] for each in found] == [1, 2]
    assert [each["verdict"] for each in found] == ["COMMITTED", "COMMITTED"]


def test_replay_when_a_file_begins_with_a_byte_order_mark_then_its_first_line_is_decided_too(tmp_path: Path) -> None:
    (tmp_path / "1").write_bytes(b"\xef\xbb\xbf" + line(1, create()))
    (tmp_path / "2").write_bytes(b"\xef\xbb\xbf" + line(2, append("a"), base=1))
    found = outcomes(str(tmp_path / "1"), str(tmp_path / "2"))
    assert [each["snapshot_id"] for each in found] == [1, 2]


def test_replay_when_a_line_is_a_byte_order_mark_alone_then_it_is_skipped_as_a_blank_one() -> None:
    found = outcomes("-", given=b"\xef\xbb\xbf\n" + line(1, create()) + b"\xef\xbb\xbf")
    assert [(each["source"]["offset"], each["verdict"]) for each in found] == [(1, "COMMITTED")]


def test_replay_when_the_last_line_has_no_newline_then_is_decided() -> None:
    assert [each["snapshot_id"] for each in outcomes("-", given=line(1, create()).rstrip())] == [1]


def test_replay_when_a_line_takes_more_bytes_than_the_log_takes_then_malformed_and_its_id_may_come_again() -> None:
    configure = {"kind": "CONFIGURE", "settings": {"proposal_bytes_max": 2000}}
    lines = [
        line(1, create()),
        line(2, configure, base=1),
        line(3, append("a"), base=2, message="x" * 2000),
        line(3, append("a"), base=2, message="x" * 1000),
    ]
    found = list(cli_replay.outcomes_of(iter(lines)))
    assert [str(each.verdict) for each in found] == ["COMMITTED", "COMMITTED", "REJECTED", "COMMITTED"]
    refused = found[2]
    assert (refused.reason, refused.writer_id, refused.proposal_id) == ("MALFORMED", "w", found[3].proposal_id)
    assert "bytes, the log's limit is 2,000" in str(refused.detail)


@pytest.mark.parametrize("broken", ["decide", "replay"])
def test_replay_when_a_line_makes_something_go_wrong_then_internal_in_its_place_and_the_rest_is_decided(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = getattr(cli_replay, broken)

    def broken_for_u(*args: Any, **fields: Any) -> Any:
        result = real(*args, **fields)
        proposal = getattr(args[1], "proposal", args[1])
        if proposal is not None and proposal.changes[0].table == "u":
            raise OverflowError("nobody expected this")
        return result

    monkeypatch.setattr(cli_replay, broken, broken_for_u)
    lines = [
        line(1, create()),
        line(2, append("a"), base=1),
        line(3, create("u"), base=2),
        line(4, append("b"), base=2),
    ]
    first, second, third, fourth = cli_replay.outcomes_of(iter(lines))
    assert [first.snapshot_id, second.snapshot_id, fourth.snapshot_id] == [1, 2, 3]
    assert (third.reason, third.head_snapshot_id, third.writer_id) == ("INTERNAL", 2, "w")
    assert "OverflowError" in str(third.detail)
    assert fourth.assigned.data_file_ids == (1,)


def test_replay_when_a_line_is_no_proposal_then_malformed_in_its_place() -> None:
    found = outcomes("-", given=b"\xff\xfe\n" + b"{}\n" + line(1, create()))
    assert [each["reason"] for each in found] == ["MALFORMED", "MALFORMED", None]


@pytest.mark.parametrize("separator", ["\u2028", "\x0b", "\x0c", "\x1c", "\x85"])
def test_replay_when_text_holds_another_line_separator_then_one_line(separator: str) -> None:
    given = line(1, create(), message="a|b").replace(b"|", separator.encode())
    assert len(outcomes("-", given=given)) == 1


def test_replay_when_created_at_is_given_then_the_clock_is_the_later_of_it_and_the_id() -> None:
    given = line(1, create(), created_at_ms=5) + line(2, append("a"), base=1, created_at_ms=CREATED_MS + 9)
    assert [each["decided_at_ms"] for each in outcomes("-", given=given)] == [CREATED_MS, CREATED_MS + 9]


def test_replay_when_several_files_are_given_then_they_are_one_log(tmp_path: Path) -> None:
    (tmp_path / "1").write_bytes(line(1, create()))
    (tmp_path / "2").write_bytes(line(2, append("a"), base=1))
    found = outcomes(str(tmp_path / "1"), str(tmp_path / "2"))
    assert [each["source"]["offset"] for each in found] == [0, 1]


HISTORY = (
    line(1, create(properties={"conflict_granularity": "FILE"}))
    + line(2, append("a", "b"), base=1)
    + line(3, delete(0, [1]), base=2)
    + line(4, delete(0, [2]), base=2)
    + line(5, delete(1, [2]), base=2)
)


@pytest.mark.parametrize(
    ("granularity", "verdicts"),
    [
        ("row", ["COMMITTED"] * 5),
        ("file", ["COMMITTED"] * 3 + ["REJECTED", "COMMITTED"]),
        ("table", ["COMMITTED"] * 3 + ["REJECTED"] * 2),
    ],
)
def test_replay_when_granularity_is_overridden_then_also_where_the_history_sets_it(
    granularity: str, verdicts: list[str]
) -> None:
    assert [each["verdict"] for each in outcomes("-", "--granularity", granularity, given=HISTORY)] == verdicts


@pytest.mark.parametrize(("granularity", "told"), [("table", "would have been refused"), ("row", "would have passed")])
def test_replay_when_an_override_decides_otherwise_then_says_of_which_table_and_why(
    granularity: str, told: str
) -> None:
    done = CliRunner().invoke(cli, ["replay", "-", "--granularity", granularity], input=HISTORY)
    lines = done.stderr.splitlines()
    (at,) = [number for number, each in enumerate(lines) if each.endswith(f"{told}: 1")]
    assert lines[at + 1].split() == ["1", "TABLE_DELETED_FROM", "main.t"]


def test_replay_when_isolation_is_overridden_then_reads_are_checked() -> None:
    read = {"kind": "TABLE", "schema": "main", "table": "t"}
    given = line(1, create()) + line(2, create("u"), base=1) + line(3, append("a"), base=2)
    given += line(4, append("b", table="u"), base=2, reads=[read])
    assert outcomes("-", given=given)[3]["verdict"] == "COMMITTED"
    assert outcomes("-", "--isolation", "serializable", given=given)[3]["reason"] == "CONFLICT"


@pytest.mark.parametrize("policy", ["KEEP_EXISTING", "keep_existing"])
def test_replay_when_on_conflict_is_overridden_then_rows_are_settled(policy: str) -> None:
    key = [{"name": "id", "type": "int64"}]
    table = {"kind": "CREATE_TABLE", "schema": "main", "table": "k", "columns": key, "primary_key": ["id"]}
    row = {"kind": "INSERT_ROW", "schema": "main", "table": "k", "row": {"id": 1}}
    given = line(1, table) + line(2, row, base=1) + line(3, row, base=1)
    assert outcomes("-", given=given)[2]["reason"] == "CONFLICT"
    settled = outcomes("-", "--on-conflict", policy, given=given)[2]
    assert (settled["verdict"], len(settled["resolutions"])) == ("COMMITTED", 1)


def test_replay_when_the_policy_is_unknown_then_says_which_there_are() -> None:
    done = CliRunner().invoke(cli, ["replay", "-", "--on-conflict", "RETRY"])
    assert done.exit_code == 2
    assert "LAST_UPDATE_WINS" in done.stderr


def test_replay_when_the_file_is_missing_then_one_clear_line() -> None:
    done = subprocess.run([sys.executable, "-c", MAIN, "replay", "nowhere.jsonl"], capture_output=True)
    assert done.returncode == 2
    assert b"nowhere.jsonl" in done.stderr
    assert b"Traceback" not in done.stderr


def test_replay_when_it_starts_then_without_kafka_sql_and_arrow() -> None:
    check = (
        "import sys; sys.argv[1:] = ['replay', '-']\n"
        "from commitlog.ops.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print([n for n in ('confluent_kafka', 'sqlalchemy', 'psycopg', 'pyarrow', 'fastavro', 'rich') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", check], input=line(1, create()), capture_output=True, check=True)
    assert done.stdout.splitlines()[-1] == b"[]"


def test_replay_when_the_reader_goes_away_then_ends_quietly() -> None:
    given = b"".join(line(number, create(f"t{number}"), base=number - 1) for number in range(1, 3000))
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, "replay", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert _finish(process, given) == b""
    assert process.returncode == 1


def _finish(process: subprocess.Popen[bytes], given: bytes) -> bytes:
    assert process.stdin is not None
    assert process.stderr is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
        stdin.write(given)
    with process.stderr as stderr:
        said = stderr.read()
    process.wait()
    return said
