"""`commitlog submit`: forms to begin with, and what is filled in."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from cli_logs import CliLog

from commitlog.client.proposal_examples import example_kinds
from commitlog.domain.model.json_lines import parse_proposal
from commitlog.errors import InvalidRequestError, MalformedRecordError, ResultsTrimmedError
from commitlog.testing import InMemoryCommitLog

UNSEEN = "01934f3e-7c00-7000-8000-000000000001"


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> CliLog:
    return CliLog(InMemoryCommitLog(), monkeypatch)


def line(table: str, **fields: object) -> str:
    create = {"kind": "CREATE_TABLE", "schema": "main", "table": table, "columns": [{"name": "id", "type": "int64"}]}
    return json.dumps({"writer_id": "w", "changes": [create], **fields}) + "\n"


def test_example_when_sent_one_after_another_then_each_is_committed(cli: CliLog) -> None:
    for kind in example_kinds():
        example = cli.run("submit", "--example", kind.lower()).stdout
        (answer,) = cli.json("submit", "-", given=example)
        assert answer["verdict"] == "COMMITTED", kind
        assert cli.log.history(1)[0].change_kinds[-1] == kind


def test_example_when_printed_then_is_not_said_to_be_sent_as_it_is(cli: CliLog) -> None:
    """Its file is not there, and its ids are those of an empty log: sent to another one it is refused, or breaks a table."""
    said = cli.run("submit", "--example", "append").stderr
    assert "names, ids and files with your own" in said
    assert "submit -" not in said


def test_submit_when_a_line_has_no_id_and_no_base_then_they_are_filled_in(cli: CliLog) -> None:
    append = {"kind": "APPEND", "schema": "main", "table": "t", "files": []}
    append["files"] = [{"path": "a.parquet", "record_count": 1, "file_size_bytes": 9}]
    given = line("t") + json.dumps({"writer_id": "w", "changes": [append]}) + "\n"
    first, second = cli.json("submit", "-", given=given)
    assert first["proposal_id"] != second["proposal_id"]
    assert [each.base_snapshot_id for each in cli.log.history()] == [1, 0]
    again = cli.json("submit", "-", given=line("u", base_snapshot_id=2) + line("v", base_snapshot_id=0) + line("w"))
    assert [each["snapshot_id"] for each in again] == [3, 4, 5]
    assert [each.base_snapshot_id for each in cli.log.history(3)] == [4, 0, 2]


def test_submit_when_fields_are_missing_then_all_are_named_and_what_came_before_was_sent(cli: CliLog) -> None:
    with pytest.raises(
        MalformedRecordError, match=r"line 2: these fields are missing: proposal\.writer_id, proposal\.changes;"
    ):
        cli.run("submit", "-", given=line("t") + "{}\n" + line("u"))
    assert cli.log.last_seq() == 1


@pytest.mark.parametrize("base", [None, 0])
@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (
            {"message": "\ud800"},
            r"the proposal cannot be written: a text of it holds the character U\+D800, which no text here may hold",
        ),
        ({"message": "x" * 5_000_000}, "the proposal takes 5,000,... bytes, the log's limit is 4,000,000"),
        ({"reads": [{"kind": "NAME", "schema": "s"}] * 1001}, "1,001 reads are more than the log's limit of 1,000; .*"),
    ],
)
def test_submit_when_a_line_cannot_be_sent_then_it_is_named_and_what_came_before_was_sent(
    cli: CliLog, wrong: dict[str, object], why: str, base: int | None
) -> None:
    based = {} if base is None else {"base_snapshot_id": base}
    given = line("t", **based) + "\n" + line("u", **based) + line("v", **based, **wrong) + line("w", **based)
    with pytest.raises(MalformedRecordError, match=f"^line 4: {why}; it and the lines after it were not sent$"):
        cli.run("submit", "-", given=given)
    assert cli.log.head_snapshot_id() == 2


def test_package_when_run_as_a_module_then_is_the_command_line() -> None:
    done = subprocess.run([sys.executable, "-m", "commitlog", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("commitlog ")


def test_outcome_and_explain_when_asked_then_lines_without_a_head_also_by_the_seq(cli: CliLog) -> None:
    (answer,) = cli.json("submit", "-", given=line("t"))
    assert cli.lines("outcome", answer["proposal_id"])[:3] == [
        "state      DECIDED",
        "verdict    COMMITTED",
        "snapshot   1",
    ]
    assert cli.lines("explain", "1") == cli.lines("explain", answer["proposal_id"])
    with pytest.raises(InvalidRequestError, match="no outcome 2: the log ends with outcome 1"):
        cli.run("explain", "2")


def test_explain_when_the_bytes_were_no_proposal_then_by_the_seq_what_is_known_of_them(cli: CliLog) -> None:
    cli.log.access.send(parse_proposal(line("t", proposal_id=UNSEEN, base_snapshot_id=0)), b"junk")  # type: ignore[arg-type]
    told = cli.lines("explain", "1")
    assert told[0] == "Proposal without an id by writer unknown"
    assert "REJECTED, MALFORMED" in told[1]
    (plain,) = cli.json("explain", "1")
    assert (plain["proposal_id"], plain["story"]) == (None, told)


def test_explain_when_results_were_trimmed_then_by_the_seq_as_by_the_id(
    cli: CliLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    (answer,) = cli.json("submit", "-", given=line("t"))

    def trimmed(seq: int) -> None:
        raise ResultsTrimmedError("main", seq=9, archive="s3://kept", asked_seq=seq - 1)

    monkeypatch.setattr(cli.log, "outcome_at", trimmed)
    assert cli.lines("explain", "1") == cli.lines("explain", answer["proposal_id"])
    with pytest.raises(InvalidRequestError, match="outcome 0 is what the log began with: no proposal made it"):
        cli.run("explain", "0")


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1"])
def test_submit_when_the_time_to_wait_is_none_then_says_so(cli: CliLog, seconds: str) -> None:
    assert "is not a valid timeout" in cli.run("submit", "-", "--timeout", seconds, given=line("t"), code=2).stderr
    assert cli.log.last_seq() == 0


def test_explain_when_the_id_was_never_seen_then_the_exit_code_of_outcome(cli: CliLog) -> None:
    cli.run("outcome", UNSEEN, code=4)
    assert "was never seen" in cli.run("explain", UNSEEN, code=4).stdout
    (told,) = cli.json("explain", UNSEEN, code=4)
    assert told["proposal_id"] == UNSEEN
