"""The checker of `commitlog bench torture` finds what is planted, and names it."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from commitlog.domain import model as m
from commitlog.ops.cli import cli
from commitlog.ops.torture.checking import Evidence, judge
from commitlog.ops.torture.faults import FAULTS, planned
from commitlog.ops.torture.ledger import Answer, Ledger, Written, all_written

ENDS = {0: 2, 1: 2}
TABLE = "main.events"


def outcome(seq: int, partition: int, offset: int, *, writer_seq: int) -> m.Outcome:
    proposal = m.Proposal(bytes([seq]) * 16, "w", 0, (), writer_seq=writer_seq)
    return m.Outcome(
        seq, 1, m.Position(partition, offset), 5, m.Verdict.COMMITTED, seq, bytes([seq]) * 16, "w",
        snapshot_id=seq, proposal=proposal,
    )  # fmt: skip


def receipt_of(told: m.Outcome) -> m.Receipt:
    return m.Receipt(
        told.source, told.seq, told.proposal_id, told.verdict, told.snapshot_id, told.head_snapshot_id,
        None, None, m.Assigned(), 5,
    )  # fmt: skip


OUTCOMES = [outcome(seq, *divmod(seq - 1, 2), writer_seq=seq) for seq in (1, 2, 3, 4)]
WRITTEN = [Written("append", "w", seq, {}, [Answer(seq, "COMMITTED", seq)]) for seq in (1, 2, 3, 4)]
GOOD = Evidence(
    OUTCOMES,
    ENDS,
    [receipt_of(each) for each in OUTCOMES],
    WRITTEN,
    rows={TABLE: Counter({("w", seq): 1 for seq in (1, 2, 3, 4)})},
    expected={TABLE: ("append",)},
)


def kinds(evidence: Evidence) -> set[str]:
    return {each.kind for each in judge(evidence)}


def test_judge_when_every_promise_was_kept_then_nothing_is_wrong() -> None:
    assert judge(GOOD) == []


def without(seq: int) -> Evidence:
    return replace(GOOD, outcomes=[each for each in OUTCOMES if each.seq != seq])


def with_outcome(number: int, made: m.Outcome) -> Evidence:
    outcomes = [*OUTCOMES[:number], made, *OUTCOMES[number + 1 :]]
    return replace(GOOD, outcomes=outcomes, receipts=[receipt_of(each) for each in outcomes])


def with_written(made: Written) -> Evidence:
    return replace(GOOD, written=[*WRITTEN[:3], made])


def with_rows(**rows: int) -> Evidence:
    return replace(GOOD, rows={TABLE: Counter({("w", seq): rows.get(f"row_{seq}", 1) for seq in (1, 2, 3, 4)})})


PLANTED: dict[str, tuple[Evidence, set[str]]] = {
    "an outcome is gone, its proposal acknowledged and its writer told": (
        without(2),
        {"gap", "orphan", "contradiction", "lost"},
    ),
    "the last one is": (without(4), {"orphan", "contradiction", "lost"}),
    "an acknowledged proposal was never decided": (replace(GOOD, ends={0: 2, 1: 3}), {"orphan"}),
    "a proposal was decided twice": (
        replace(
            GOOD,
            outcomes=[*OUTCOMES, more := OUTCOMES[3].replace(seq=5, snapshot_id=5)],
            receipts=[*GOOD.receipts, receipt_of(more)],
        ),
        {"twice"},
    ),
    "a writer's number was committed twice": (
        with_outcome(3, outcome(4, 1, 1, writer_seq=3)),
        {"twice", "contradiction"},
    ),
    "a snapshot is left out": (with_outcome(3, OUTCOMES[3].replace(snapshot_id=6)), {"gap", "contradiction", "lost"}),
    "a snapshot is there twice": (
        with_outcome(3, OUTCOMES[3].replace(snapshot_id=3)),
        {"twice", "contradiction", "lost"},
    ),
    "a verdict that nobody was told": (replace(GOOD, receipts=GOOD.receipts[:3]), {"unanswered"}),
    "a receipt that says what the log does not": (
        replace(GOOD, receipts=[*GOOD.receipts, GOOD.receipts[0].replace(snapshot_id=2)]),
        {"contradiction"},
    ),
    "a receipt of an outcome that was never accepted": (
        replace(GOOD, receipts=[*GOOD.receipts, receipt_of(OUTCOMES[3].replace(seq=9))]),
        {"contradiction"},
    ),
    "a writer without an answer": (with_written(Written("append", "w", 4, {})), {"unanswered"}),
    "a writer told of what was never there": (
        with_written(Written("append", "w", 4, {}, [Answer(9, "COMMITTED", 9)])),
        {"lost"},
    ),
    "a writer told that it was refused": (
        with_written(Written("append", "w", 4, {}, [Answer(4, "REJECTED", None)])),
        {"contradiction", "twice"},
    ),
    "a writer told of another's snapshot": (
        with_written(Written("append", "w", 4, {}, [Answer(3, "COMMITTED", 3)])),
        {"contradiction"},
    ),
    "an error that no writer should see": (
        with_written(replace(WRITTEN[3], failures=["AssertionError: "])),
        {"failure"},
    ),
    "rows that readers do not find": (with_rows(row_2=0), {"lost"}),
    "rows that readers find twice": (with_rows(row_2=2), {"twice"}),
    "a catalog that differs": (replace(GOOD, findings=["files: 1 live file missing"]), {"catalog"}),
    "a service that did not come back": (replace(GOOD, failures=["not well again"]), {"failure"}),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_judge_when_something_is_planted_then_it_is_named(planted: str) -> None:
    evidence, expected = PLANTED[planted]
    assert kinds(evidence) == expected


# --- ledgers ----------------------------------------------------------------------------------------------------------


def test_ledger_when_its_process_was_killed_then_the_next_one_knows_what_has_no_answer(tmp_path: Path) -> None:
    with Ledger(tmp_path, "append", "w") as ledger:
        ledger.begin({"base": 3})
        ledger.answer([Answer(1, "COMMITTED", 1)])
        ledger.begin({"base": 4})
    with Ledger(tmp_path, "append", "w") as ledger:
        assert (ledger.number, ledger.unanswered) == (2, {"base": 4})
        ledger.answer([Answer(2, "REJECTED", None)])
    with Ledger(tmp_path, "append", "w") as ledger:
        assert ledger.unanswered is None
    assert [(each.writer, each.number, each.answers) for each in all_written(tmp_path)] == [
        ("w", 1, [(1, "COMMITTED", 1)]),
        ("w", 2, [(2, "REJECTED", None)]),
    ]


@pytest.mark.parametrize("cut", [1, 10, 40])
def test_ledger_when_its_last_line_was_cut_off_then_what_it_began_was_never_sent(tmp_path: Path, cut: int) -> None:
    with Ledger(tmp_path, "append", "w") as ledger:
        ledger.begin({})
        ledger.answer([Answer(1, "COMMITTED", 1)])
    with (tmp_path / "append.w.ledger").open("a") as file:
        file.write(json.dumps({"begun": {"base": 7}, "number": 2, "at_s": 1.0})[:cut])
    with Ledger(tmp_path, "append", "w") as ledger:
        assert (ledger.number, ledger.unanswered) == (1, None)
        ledger.begin({"base": 8})
        ledger.answer([Answer(2, "COMMITTED", 2)])
    assert [each.number for each in all_written(tmp_path)] == [1, 2]


# --- plans ------------------------------------------------------------------------------------------------------------

GROUPS = {fault.group for fault in FAULTS}


@pytest.mark.parametrize("seed", range(5))
def test_plan_when_there_is_room_then_it_has_every_group_and_the_seed_says_which(seed: int) -> None:
    plan = planned(FAULTS, 10, random.Random(seed))
    assert len(plan) == 10
    assert {fault.group for fault in plan} == GROUPS
    assert plan == planned(FAULTS, 10, random.Random(seed))
    assert plan != planned(FAULTS, 10, random.Random(seed + 100))


def test_plan_when_a_kind_is_to_come_mostly_then_it_is_every_other_one_and_the_others_come_too() -> None:
    plan = planned(FAULTS, 400, random.Random(5), ["restart the broker"])
    assert 150 < sum(fault.name == "restart the broker" for fault in plan) < 250
    assert len({fault.name for fault in plan}) > 15


def test_bench_torture_when_a_kind_is_not_known_then_it_says_which_there_are() -> None:
    result = CliRunner().invoke(cli, ["bench", "torture", "--mostly", "rain"])
    assert result.exit_code == 2
    assert "there is no fault 'rain', but: kill the active sequencer" in " ".join(result.output.split())
