"""What every log does for its writers and readers, in memory and on a broker alike."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from making import ANYWHERE, KEYED, ROWS, append, create, parquet, rejected

from commitlog.client import CommitLog, OutcomeState, Transaction
from commitlog.client.ids import uuid7
from commitlog.domain.model import ConflictKind, CreateSchema, Reason, Verdict
from commitlog.errors import (
    DataFileError,
    InvalidRequestError,
    KeyReusedError,
    ProposalRejectedError,
    ProposalTooLargeError,
    SnapshotNotFoundError,
    TableNotFoundError,
)

# --- committing -------------------------------------------------------------------------------------------------------


def test_transaction_when_it_ends_well_then_has_a_snapshot(log: CommitLog, table: str, tmp_path: Path) -> None:
    with log.transaction(message="daily load", author="ann", extra="{}") as tx:
        tx.create_table(table, ROWS.schema, properties=ANYWHERE)
        tx.append(table, [parquet(tmp_path), parquet(tmp_path)])
    assert tx.outcome.verdict is Verdict.COMMITTED
    assert tx.outcome.snapshot_id is not None
    assert tx.outcome.snapshot_id > tx.base_snapshot_id
    assert len(tx.outcome.assigned.data_file_ids) == 2


def test_transaction_when_its_block_raises_then_nothing_is_sent(log: CommitLog, table: str) -> None:
    tx = log.transaction()
    tx.create_table(table, ROWS.schema, properties=ANYWHERE)
    with pytest.raises(ValueError, match="no table name"), tx:
        tx.drop_table("no.such.name")
    assert log.outcome(tx.proposal_id).state is OutcomeState.NEVER_SEEN
    with pytest.raises(ValueError, match="no outcome yet"):
        _ = tx.outcome


def test_transaction_when_opened_after_a_commit_then_sees_it(log: CommitLog, table: str, tmp_path: Path) -> None:
    for _ in range(3):
        create_or_append = log.transaction()
        create_or_append.create_table(table, ROWS.schema, properties=ANYWHERE, if_not_exists=True)
        create_or_append.append(table, [parquet(tmp_path)])
        made = create_or_append.commit().snapshot_id
        assert made is not None
        assert log.transaction().base_snapshot_id >= made


def test_look_ups_when_another_program_has_just_committed_then_see_it(
    log: CommitLog, other: CommitLog, table: str
) -> None:
    for number in range(10):
        name = f"{table}_{number}"
        create(log, name)
        at = number % 3
        if at == 0:
            assert other.table(name).definition.name == name
        elif at == 1:
            assert other.transaction().table(name).definition.name == name
        else:
            newest = other.wait_for_snapshot()
            assert other.table(name).at(newest).definition.name == name


def test_table_when_at_a_snapshot_beyond_the_head_then_says_so_at_once(log: CommitLog, table: str) -> None:
    head = log.head_snapshot_id()
    with pytest.raises(SnapshotNotFoundError, match=f"to {head}"):
        log.table(table).at(head + 1)
    with pytest.raises(SnapshotNotFoundError, match=f"to {head}"):
        log.transaction(base_snapshot_id=head + 1).table(table)


def test_transaction_when_many_writers_create_and_append_then_all_commit(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    transactions = [log.transaction(writer_id=f"{table}-{number}") for number in range(8)]
    for tx in transactions:
        tx.create_table(table, ROWS.schema, properties=ANYWHERE, if_not_exists=True)
        tx.append(table, [parquet(tmp_path)])
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda tx: tx.commit(), transactions))
    assert len({outcome.snapshot_id for outcome in outcomes}) == 8


def test_transaction_when_a_table_is_altered_and_renamed_then_files_are_judged_by_the_new_one(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    create(log, table)
    with log.transaction() as tx:
        tx.alter(table).rename_column("day", "weekday").add_column("n", "int64", default=7)
    renamed = pa.table({"id": [1], "weekday": ["a"], "n": [1]})
    append(log, table, tmp_path, renamed)
    with log.transaction() as tx:
        tx.rename_table(table, f"{table}_b")
    append(log, f"{table}_b", tmp_path, renamed)
    with pytest.raises(DataFileError, match="day not in the table"):
        append(log, f"{table}_b", tmp_path)
    with pytest.raises(TableNotFoundError, match=table):
        append(log, table, tmp_path)


def test_table_when_asked_at_an_older_snapshot_then_as_it_was(log: CommitLog, table: str) -> None:
    create(log, table)
    before = log.transaction().base_snapshot_id
    with log.transaction() as tx:
        tx.alter(table).add_column("n", "int64")
    assert [c.name for c in log.table(table).at(before).definition.columns] == ["id", "day"]
    assert [c.name for c in log.table(table).definition.columns] == ["id", "day", "n"]


def test_table_when_it_has_nested_columns_then_they_come_back_whole(log: CommitLog, table: str) -> None:
    kinds = {"s": 'struct(x int64, "y z" list(varchar))', "m": "map(varchar, decimal(10,2))", "u": "uuid"}
    with log.transaction() as tx:
        tx.create_table(table, kinds)
    found = log.table(table).definition
    assert {column.name: str(column.type) for column in found.columns} == kinds
    assert [column.column_id for column in found.all_columns()] == list(range(1, 9))


@pytest.mark.parametrize("name", ['it\'s "odd", really', "späß/../x", "x" * 255, "a.b", "SELECT"])
def test_create_table_when_its_name_is_odd_then_works(log: CommitLog, name: str, tmp_path: Path) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    with log.transaction() as tx:
        tx.create_table(quoted, ROWS.schema, properties=ANYWHERE)
        tx.append(quoted, [parquet(tmp_path)])
    append(log, quoted, tmp_path)
    assert log.table(quoted).definition.name == name


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_delete_when_the_file_was_deleted_from_then_the_conflict_names_the_other(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    create(log, table)
    file = append(log, table, tmp_path)
    first, second = log.transaction(writer_id="ann"), log.transaction(writer_id="bob")
    first.delete(table, {file: [0]})
    second.delete(table, {file: [1]})
    committed = first.commit()
    (conflict,) = rejected(second).conflicts
    assert conflict.kind is ConflictKind.TABLE_DELETED_FROM  # type: ignore[attr-defined]
    assert conflict.committed_writer_id == "ann"  # type: ignore[attr-defined]
    assert conflict.committed_snapshot_id == committed.snapshot_id  # type: ignore[attr-defined]
    assert conflict.object.data_file_id == file  # type: ignore[attr-defined]


def test_read_when_serializable_then_a_filter_tells_appends_apart(log: CommitLog, table: str, tmp_path: Path) -> None:
    create(log, table)
    create(log, f"{table}_sums")
    narrow, wide = (log.transaction(isolation="serializable") for _ in range(2))
    append(log, table, tmp_path)
    narrow.read(table, filter=[("id", ">", 3)])
    wide.read(table, filter=[("id", ">=", 3)])
    for tx in (narrow, wide):
        tx.append(f"{table}_sums", [parquet(tmp_path)])
    assert narrow.commit().committed
    (conflict,) = rejected(wide).conflicts
    assert conflict.kind is ConflictKind.TABLE_APPENDED  # type: ignore[attr-defined]


def test_run_when_the_first_attempt_conflicts_then_is_called_on_the_new_head(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    create(log, table)
    file = append(log, table, tmp_path)
    bases: list[int] = []

    def delete_one(tx: Transaction) -> None:
        bases.append(tx.base_snapshot_id)
        if len(bases) == 1:
            with log.transaction() as other:
                other.delete(table, {file: [0]})
        tx.delete(table, {file: [len(bases)]})

    outcome = log.run(delete_one)
    assert outcome.committed
    assert len(bases) == 2
    assert bases[1] > bases[0]


def test_run_when_it_has_an_id_of_its_own_then_a_conflict_is_its_one_verdict(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    create(log, table)
    file = append(log, table, tmp_path)
    calls: list[int] = []

    def delete_one(tx: Transaction) -> None:
        calls.append(1)
        with log.transaction() as other:
            other.delete(table, {file: [len(calls)]})
        tx.delete(table, {file: [0]})

    with pytest.raises(ProposalRejectedError, match="CONFLICT"):
        log.run(delete_one, proposal_id=uuid7())
    assert len(calls) == 1


def test_run_when_the_request_is_invalid_then_is_not_tried_again(log: CommitLog, table: str) -> None:
    calls: list[int] = []

    def drop(tx: Transaction) -> None:
        calls.append(1)
        tx.drop_table(table)

    with pytest.raises(ProposalRejectedError, match="INVALID"):
        log.run(drop)
    assert len(calls) == 1


def test_base_when_from_the_future_then_refused(log: CommitLog, table: str) -> None:
    tx = log.transaction(base_snapshot_id=log.head_snapshot_id() + 1_000_000)
    tx.create_table(table, ROWS.schema, properties=ANYWHERE)
    assert "BASE_UNKNOWN" in str(rejected(tx))


def test_decide_before_when_it_has_passed_then_too_late(log: CommitLog, table: str) -> None:
    tx = log.transaction(decide_before_ms=1)
    tx.create_table(table, ROWS.schema, properties=ANYWHERE)
    assert "TOO_LATE" in str(rejected(tx))


def test_append_when_the_table_is_unknown_then_says_which(log: CommitLog, tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError, match="nowhere"):
        append(log, "nowhere", tmp_path)


def test_append_when_a_file_is_missing_then_nothing_is_sent(log: CommitLog, table: str) -> None:
    create(log, table)
    with pytest.raises(DataFileError, match="does not exist"), log.transaction() as tx:
        tx.append(table, ["gone.parquet"])
    assert log.outcome(tx.proposal_id).state is OutcomeState.NEVER_SEEN


def test_commit_when_there_are_no_changes_then_says_so(log: CommitLog) -> None:
    with pytest.raises(ValueError, match="nothing to commit"), log.transaction():
        pass


def test_commit_when_over_the_size_limit_then_nothing_is_sent(log: CommitLog, table: str) -> None:
    tx = log.transaction()
    allowed = log.settings.proposal_bytes_max
    tx.create_view(table, "SELECT " + "1" * allowed)
    with pytest.raises(ProposalTooLargeError, match=f"{allowed:,}"):
        tx.commit()
    assert log.outcome(tx.proposal_id).state is OutcomeState.NEVER_SEEN


def test_limit_when_configured_anew_then_connections_go_by_what_it_is_now(
    log: CommitLog, other: CommitLog, table: str
) -> None:
    create(log, table)
    allowed = log.settings.reads_max

    def reading_more() -> Transaction:
        tx = other.transaction()
        for number in range(allowed + 1):
            tx.read_name(f"{table}_{number}")
        tx.alter(table).set_comment("read")
        return tx

    with pytest.raises(InvalidRequestError, match=f"limit of {allowed:,}"):
        reading_more().commit()
    with log.transaction() as tx:
        tx.configure(reads_max=allowed + 1)
    assert reading_more().commit().committed
    assert other.settings.reads_max == allowed + 1
    with log.transaction() as tx:
        tx.configure(reads_max=allowed)
    assert other.settings.reads_max == allowed


def test_commit_when_a_name_is_too_long_then_says_how_long_it_may_be(log: CommitLog) -> None:
    with pytest.raises(ValueError, match="255"), log.transaction() as tx:
        tx.create_table("n" * 300, ROWS.schema)


def test_dry_run_when_it_would_conflict_then_says_so_and_nothing_is_sent(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    create(log, table)
    file = append(log, table, tmp_path)
    first, second = log.transaction(), log.transaction()
    for tx in (first, second):
        tx.delete(table, {file: [0]})
    assert log.dry_run(second).verdict is Verdict.COMMITTED
    first.commit()
    would_be = log.dry_run(second)
    assert (would_be.verdict, would_be.reason) == (Verdict.REJECTED, Reason.CONFLICT)
    assert log.outcome(second.proposal_id).state is OutcomeState.NEVER_SEEN
    error = rejected(second)
    assert tuple(error.conflicts) == would_be.conflicts


def test_create_table_when_its_row_handler_is_not_installed_then_refused(log: CommitLog, table: str) -> None:
    tx = log.transaction()
    tx.create_table(table, KEYED, primary_key=["id"], properties={"on_conflict": "handler:none-such"})
    assert "row handler none-such is not installed" in str(rejected(tx))


# --- repeats, writers -------------------------------------------------------------------------------------------------


def test_submit_when_the_id_comes_again_then_the_first_answer(log: CommitLog, table: str) -> None:
    tx = log.transaction()
    tx.create_table(table, ROWS.schema, properties=ANYWHERE)
    proposal = tx.proposal()
    first, second = log.submit(proposal), log.submit(proposal)
    assert (first.is_repeat, second.is_repeat) == (False, True)
    assert second.committed
    assert second.snapshot_id == first.snapshot_id


def test_submit_when_the_log_has_forgotten_the_id_then_the_first_answer_all_the_same(
    log: CommitLog, table: str
) -> None:
    create(log, table)
    window = {name: getattr(log.settings, name) for name in ("duplicate_window_outcomes", "duplicate_window_ms")}
    with log.transaction() as tx:
        tx.configure(**dict.fromkeys(window, 0))
    early, late = log.transaction(), log.transaction()
    for tx in (early, late):
        tx.alter(table).set_comment("early")
    sent = early.proposal()
    first = log.submit(sent)
    decided = [first]
    # An id is forgotten by a later millisecond: a log in memory decides all of these in one. ``late`` goes with a younger one.
    while len(decided) < 4 or decided[-1].decided_at_ms == decided[1].decided_at_ms:
        with log.transaction() as tx:
            tx.alter(table).set_comment(str(len(decided)))
        decided.append(tx.outcome)
    again, never = log.submit(sent), log.submit(late.proposal())
    assert (again.snapshot_id, again.committed, again.is_repeat) == (first.snapshot_id, True, True)
    assert (never.committed, never.reason) == (False, Reason.PROPOSAL_EXPIRED)
    with pytest.raises(KeyReusedError):
        log.submit(sent.replace(changes=(CreateSchema(f"s_{table}"),)))
    with log.transaction() as tx:
        tx.configure(**window)


def test_submit_when_a_refused_id_comes_again_then_refused_with_its_conflicts(log: CommitLog, table: str) -> None:
    early = log.transaction()
    create(log, table)
    early.create_table(table, ROWS.schema, properties=ANYWHERE)
    first, second = log.submit(early.proposal()), log.submit(early.proposal())
    assert second.is_repeat
    assert (second.verdict, second.reason, second.detail) == (first.verdict, Reason.CONFLICT, first.detail)
    assert second.conflicts == first.conflicts
    assert len(first.conflicts) == 1


def test_writer_seq_when_it_has_committed_then_another_id_repeats_it(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    create(log, table)
    made = []
    for _ in range(2):
        with log.transaction(writer_id=table, writer_seq=7) as tx:
            tx.append(table, [parquet(tmp_path)])
        made.append(tx.outcome)
    assert [outcome.is_repeat for outcome in made] == [False, True]
    assert made[1].snapshot_id == made[0].snapshot_id


def test_writer_seq_when_refused_then_it_is_not_used_up(log: CommitLog, table: str) -> None:
    tx = log.transaction(writer_id=table, writer_seq=1)
    tx.drop_table(table)
    assert "INVALID" in str(rejected(tx))
    with log.transaction(writer_id=table, writer_seq=1) as again:
        again.create_table(table, ROWS.schema, properties=ANYWHERE)
    assert not again.outcome.is_repeat


def test_open_writer_when_opened_again_then_the_older_one_is_fenced(log: CommitLog, table: str) -> None:
    first, second = log.open_writer(table), log.open_writer(table)
    assert second == first + 1
    stale = log.transaction(writer_id=table, writer_epoch=first)
    stale.create_table(table, ROWS.schema, properties=ANYWHERE)
    assert "WRITER_FENCED" in str(rejected(stale))
    with log.transaction(writer_id=table, writer_epoch=second) as tx:
        tx.create_table(table, ROWS.schema, properties=ANYWHERE)
    assert tx.outcome.committed


# --- rows -------------------------------------------------------------------------------------------------------------


def test_rows_when_two_writers_update_one_then_the_second_is_refused(log: CommitLog, table: str) -> None:
    with log.transaction() as tx:
        tx.create_table(table, KEYED, primary_key=["id"])
        tx.insert_row(table, {"id": 1, "v": "a"})
        tx.insert_row(table, {"id": 2})
    first, second, other = log.transaction(), log.transaction(), log.transaction()
    first.update_row(table, {"id": 1}, {"id": 1, "v": "b"})
    second.update_row(table, {"id": 1}, {"id": 1, "v": "c"})
    other.delete_row(table, {"id": 2})
    assert first.commit().committed
    (conflict,) = rejected(second).conflicts
    assert conflict.kind is ConflictKind.UPDATE_UPDATE  # type: ignore[attr-defined]
    assert other.commit().committed


def test_rows_when_the_last_update_wins_then_the_resolution_is_in_the_outcome(log: CommitLog, table: str) -> None:
    with log.transaction() as tx:
        tx.create_table(table, KEYED, primary_key=["id"], properties={"on_conflict": "LAST_UPDATE_WINS"})
    first, second = log.transaction(), log.transaction()
    first.insert_row(table, {"id": 1, "v": "late"}, row_time_us=9)
    second.insert_row(table, {"id": 1, "v": "early"}, row_time_us=5)
    first.commit()
    second.commit()
    outcome = log.outcome(second.proposal_id).outcome
    assert outcome is not None
    assert [each.action.value for each in outcome.resolutions] == ["SKIPPED"]
    assert outcome.resolutions[0].committed_row == {"id": 1, "v": "late"}
