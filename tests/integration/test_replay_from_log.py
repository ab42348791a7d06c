"""`commitlog replay --from-log`: a real log's history decided again, and the comparison's numbers."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, NamedTuple

import pytest
from log_running import Ids, append, create_table, proposal, serving, wait_until, write_raw
from pyroaring import FrozenBitMap64

from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.domain.model.ids import partition_for
from commitlog.log.genesis import init_log
from commitlog.log.publisher import Publisher
from commitlog.log.topics import topics_of

MAIN = [sys.executable, "-c", "from commitlog.ops.cli import main; main()"]
KEYED = m.CreateTable("main", "k", (m.ColumnSpec("id", "int64"), m.ColumnSpec("v", "varchar")), primary_key=("id",))
READ = (m.TableRead("main", "t"),)
SEED = 20_261


class Replayed(NamedTuple):
    """What a replay printed: the outcomes, and the comparison's lines."""

    outcomes: list[dict[str, Any]]
    comparison: list[str]


def run(settings: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**settings.environment(), "COMMITLOG_LOG": "another-log-than-asked-for"}
    return subprocess.run(
        [*MAIN, "replay", *arguments], capture_output=True, text=True, env=environment, timeout=60, check=False
    )


def delete(data_file_id: int, *rows: int) -> m.Delete:
    return m.Delete("main", "t", (m.PositionDelete(data_file_id, FrozenBitMap64(rows)),))


def insert(**row: Any) -> m.InsertRow:
    return m.InsertRow("main", "k", row)


@pytest.fixture(scope="module")
def history(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A log of sixteen outcomes: eight refused, five of them for conflicts, one of them malformed."""
    home = tmp_path_factory.mktemp("what-if")
    settings = Settings.load(environment={}, log=f"{home.name}-log", bootstrap_servers=kafka, home=home, partitions=1)
    init_log(settings)
    ids = Ids(SEED)
    serializable: dict[str, Any] = {"isolation": m.Isolation.SERIALIZABLE, "reads": READ}
    first = proposal(ids, 0, create_table("t"), create_table("u"), KEYED)
    asked: list[tuple[m.Proposal, str]] = [
        (first, "COMMITTED"),
        (proposal(ids, 1, m.Append("main", "t", (m.DataFile("a", 10, 99), m.DataFile("b", 10, 99)))), "COMMITTED"),
        (proposal(ids, 2, delete(0, 1)), "COMMITTED"),
        (proposal(ids, 2, delete(0, 2)), "REJECTED"),
        (proposal(ids, 2, delete(0, 1)), "REJECTED"),
        (proposal(ids, 2, delete(1, 1)), "COMMITTED"),
        (proposal(ids, 2, append("c", "u"), **serializable), "REJECTED"),
        (proposal(ids, 2, append("d", "u"), reads=READ), "COMMITTED"),
        (proposal(ids, 4, insert(id=1, v="a")), "COMMITTED"),
        (proposal(ids, 4, insert(id=1, v="b")), "REJECTED"),
        (proposal(ids, 4, insert(id=2, v="c")), "COMMITTED"),
        (proposal(ids, 4, insert(id=1, v="d"), insert(id=2, v="d")), "REJECTED"),
        (proposal(ids, 4, m.DropTable("main", "nowhere")), "REJECTED"),
        (first, "COMMITTED"),
        (proposal(ids, 99, append("e")), "REJECTED"),
    ]
    with serving(settings) as sequencer, Publisher(settings) as publisher:
        for sent, verdict in asked:
            receipt = publisher.submit(sent)
            assert str(receipt.answered_verdict or receipt.verdict) == verdict, receipt.detail
        write_raw(settings, topics_of(settings.log).proposals, b"no proposal", partition=partition_for("w1", 1))
        wait_until(lambda: sequencer.status.seq == 16, "sixteen outcomes")
    return settings


def replayed(settings: Settings, *options: str) -> Replayed:
    done = run(settings, "--from-log", settings.log, *options)
    assert done.returncode == 0, done.stderr
    return Replayed([json.loads(line) for line in done.stdout.splitlines()], done.stderr.splitlines())


def test_replay_when_nothing_is_overridden_then_every_outcome_is_the_same(history: Settings) -> None:
    found = replayed(history)
    verdicts = [each["verdict"] for each in found.outcomes]
    assert [verdicts.count(each) for each in ("COMMITTED", "REJECTED", "DUPLICATE")] == [7, 8, 1]
    assert [each["seq"] for each in found.outcomes] == list(range(1, 17))
    assert [each["reason"] for each in found.outcomes if each["verdict"] == "REJECTED"].count("CONFLICT") == 5
    assert found.comparison == [
        "16 proposals: 16 decided the same way",
        "refused, would have passed: 0",
        "committed, would have been refused: 0",
    ]


@pytest.mark.parametrize(
    ("options", "comparison"),
    [
        (
            ["--granularity", "ROW"],
            [
                "16 proposals: 15 decided the same way",
                "refused, would have passed: 1",
                "       1  TABLE_DELETED_FROM  main.t",
                "committed, would have been refused: 0",
            ],
        ),
        (
            ["--granularity", "TABLE"],
            [
                "16 proposals: 15 decided the same way",
                "refused, would have passed: 0",
                "committed, would have been refused: 1",
                "       1  TABLE_DELETED_FROM  main.t",
            ],
        ),
        (
            ["--isolation", "SNAPSHOT"],
            [
                "16 proposals: 15 decided the same way",
                "refused, would have passed: 1",
                "       1  TABLE_DELETED_FROM  main.t",
                "committed, would have been refused: 0",
            ],
        ),
        (
            ["--isolation", "SERIALIZABLE"],
            [
                "16 proposals: 15 decided the same way",
                "refused, would have passed: 0",
                "committed, would have been refused: 1",
                "       1  TABLE_DELETED_FROM  main.t",
            ],
        ),
        (
            ["--on-conflict", "LAST_UPDATE_WINS"],
            [
                "16 proposals: 14 decided the same way",
                "refused, would have passed: 2",
                "       2  INSERT_INSERT  main.k",
                "committed, would have been refused: 0",
            ],
        ),
        (
            ["--granularity", "ROW", "--isolation", "SNAPSHOT", "--on-conflict", "KEEP_EXISTING"],
            [
                "16 proposals: 12 decided the same way",
                "refused, would have passed: 4",
                "       2  INSERT_INSERT  main.k",
                "       2  TABLE_DELETED_FROM  main.t",
                "committed, would have been refused: 0",
            ],
        ),
        (
            ["--on-conflict", "handler:none-such"],
            [
                "16 proposals: 16 decided the same way",
                "refused, would have passed: 0",
                "committed, would have been refused: 0",
                "row handler none-such is not installed here: its rows were judged as refused",
            ],
        ),
    ],
    ids=lambda value: " ".join(value) if value[0].startswith("--") else "",
)
def test_replay_when_rules_are_overridden_then_the_comparison_counts_what_would_differ(
    history: Settings, options: list[str], comparison: list[str]
) -> None:
    found = replayed(history, *options)
    assert found.comparison == comparison
    assert len(found.outcomes) == 16


def test_replay_when_a_verdict_differs_then_later_ones_still_stand_on_what_really_was(history: Settings) -> None:
    finer = replayed(history, "--granularity", "ROW").outcomes
    assert (finer[3]["verdict"], finer[3]["snapshot_id"]) == ("COMMITTED", 4)
    assert (finer[5]["verdict"], finer[5]["snapshot_id"]) == ("COMMITTED", 4)


# --- errors -----------------------------------------------------------------------------------------------------------


def test_replay_when_the_log_does_not_exist_then_says_so(history: Settings) -> None:
    done = run(history, "--from-log", "no-such-log")
    assert done.returncode not in (0, None)
    assert "no-such-log" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", ["", "a/b", "späß", "x" * 300])
def test_replay_when_the_name_can_be_no_log_then_says_what_a_name_is(history: Settings, name: str) -> None:
    done = run(history, "--from-log", name)
    assert done.returncode not in (0, None)
    assert "log must be" in done.stderr
    assert "Traceback" not in done.stderr


def test_replay_when_both_files_and_a_log_are_given_then_asks_for_one(history: Settings) -> None:
    done = run(history, "-", "--from-log", history.log)
    assert done.returncode == 2
    assert "either" in done.stderr
