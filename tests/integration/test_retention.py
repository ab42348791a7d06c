"""Results that were archived are trimmed, and every part goes on; a backup is restored into an empty broker and database."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions
from log_running import (
    Ids,
    append,
    create_table,
    delete_topics,
    proposal,
    save_checkpoint,
    seed_of,
    serving,
    wait_until,
    write_raw,
)

from commitlog.catalog.projector import Projector
from commitlog.client import CommitLog
from commitlog.client.access.log_access import OutcomeState
from commitlog.client.outcomes import archive as archive_module
from commitlog.client.outcomes import archive_files
from commitlog.client.outcomes.archive import back_up
from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.errors import (
    CatalogMismatchError,
    ConfigurationError,
    LogIntegrityError,
    LogLossError,
    OutcomeNotFoundError,
    ResultsTrimmedError,
)
from commitlog.log import results as results_module
from commitlog.log.chain import LogPosition
from commitlog.log.checkpoint import CHECKPOINTS_KEPT, CheckpointName, checkpoint_dir_of, load_checkpoints
from commitlog.log.codec import decode_statistics, encode_trim
from commitlog.log.connection import first_offsets, make_admin
from commitlog.log.genesis import init_log, require_genesis
from commitlog.log.publisher import Publisher
from commitlog.log.results import ResultRecord, ResultsReader, read_messages, results_end
from commitlog.log.topic_settings import create_topics, create_trims_topic, partition_counts
from commitlog.log.topics import topics_of
from commitlog.log.trims import last_trim
from commitlog.ops.cli import cli
from commitlog.ops.maintenance import restoring, trimming
from commitlog.ops.maintenance.doctor import DURABILITY, examine
from commitlog.ops.service import serve
from commitlog.ops.service.health import log_health
from commitlog.ops.service.runtime import prepared_services
from commitlog.ops.service.serve import prepare

RANGE = "4"
CATALOG = """
    SELECT json_agg(to_jsonb(s) - 'snapshot_time' ORDER BY snapshot_id)::text FROM ducklake_snapshot s
    UNION ALL SELECT json_agg(to_jsonb(f) ORDER BY data_file_id)::text FROM ducklake_data_file f
    UNION ALL SELECT json_agg(to_jsonb(a) - 'applied_at' ORDER BY seq)::text FROM commitlog.applied a"""


def run(settings: Settings, *arguments: str, code: int = 0) -> Result:
    ran = CliRunner().invoke(cli, arguments, env=settings.environment())
    assert ran.exit_code == code, (ran.output, ran.exception)
    return ran


def decide(settings: Settings, count: int, *, base: int | None = None, is_projected: bool = True) -> list[m.Receipt]:
    """Some commits by a sequencer of their own, also in the catalog unless that is left behind."""
    ids, answers = Ids(seed_of(f"retention {count}")), []
    with serving(settings) as sequencer, Publisher(settings) as publisher:
        for _ in range(count):
            head = sequencer.status.head_snapshot_id
            change = create_table() if head == 0 else append(f"{ids.next().hex()}.parquet")
            answers.append(publisher.publish(proposal(ids, head if base is None else base, change)).wait(30))
    if is_projected:
        project(settings)
    return answers


def project(settings: Settings) -> None:
    Projector(settings, decode_statistics=decode_statistics).project_to_end()


def trim(settings: Settings, archive: Path, *options: str) -> dict[str, object]:
    ran = run(settings, "archive", "--to", str(archive), "--range", RANGE, "--trim", "--keep", "0s", "--json", *options)
    told: dict[str, object] = json.loads(ran.output.splitlines()[-1])
    return told


def first_offset(settings: Settings) -> int:
    return first_offsets(settings, topics_of(settings.log).results, [0])[0]


def catalog_of(settings: Settings) -> list[object]:
    with psycopg.connect(settings.database_url) as conn:
        return [row[0] for row in conn.execute(CATALOG)]


@pytest.fixture
def small(settings: Settings) -> Settings:
    return dataclasses.replace(settings, partitions=2)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "archive"


@pytest.fixture
def trimmed(small: Settings, archive: Path) -> Iterator[Settings]:
    """A log of fourteen outcomes, of which the first eleven are only in the archive."""
    prepare(small)
    decide(small, 13)
    save_checkpoint(small)
    decide(small, 1)
    done = trim(small, archive)
    assert done["first_seq"] == done["trimmed"] == 11
    assert first_offset(small) == 12, "genesis, takeover, ten outcomes"
    return small


def test_trim_when_a_part_needs_more_then_it_is_not_trimmed_and_named(small: Settings, archive: Path) -> None:
    prepare(small)
    decide(small, 14, is_projected=False)
    assert trim(small, archive)["held_by"] == {"who": "the newest checkpoint", "seq": -1}
    save_checkpoint(small)
    assert trim(small, archive)["held_by"] == {"who": "the catalog", "seq": 0}
    project(small)
    with CommitLog.connect(settings=small) as log, log.subscribe(0, follow=False, group="slow") as slow:
        for _ in range(6):
            next(slow)
    done = trim(small, archive)
    assert (done["first_seq"], done["held_by"]) == (3, {"who": "the group slow of subscribers", "seq": 6})
    with CommitLog.connect(settings=small) as log, log.subscribe(0, follow=False, group="slow") as slow:
        assert [each.seq for each in slow] == list(range(7, 15)), "what it needs is there"
    kept = run(small, "archive", "--to", str(archive), "--range", RANGE, "--trim", "--json").output
    assert json.loads(kept.splitlines()[-1])["trimmed"] == 0, "younger than a week"
    progress: list[tuple[int, int]] = []
    done_now = trimming.trim(small, str(archive), keep_ms=0, on_progress=lambda *told: progress.append(told))
    assert (done_now.seq, progress[0], progress[-1]) == (11, (0, 11), (11, 11))
    assert trim(small, archive)["trimmed"] == 0, "done already"


def test_trim_when_the_archive_is_not_what_was_archived_then_nothing_is_deleted(small: Settings, archive: Path) -> None:
    prepare(small)
    decide(small, 9)
    save_checkpoint(small)
    run(small, "archive", "--to", str(archive), "--range", RANGE)
    ranges = sorted(archive.glob("snapshots=*/outcomes.parquet"))
    shutil.copy(ranges[1], ranges[0])
    ran = run(small, "archive", "--to", str(archive), "--range", RANGE, "--trim", "--keep", "0s", code=1)
    assert isinstance(ran.exception, LogIntegrityError)
    assert first_offset(small) == 0


def test_trims_of_a_log_that_is_gone_then_no_other_log_takes_them_for_its_own(
    trimmed: Settings, archive: Path, log_name: str, other_database_url: str, tmp_path: Path
) -> None:
    noted = last_trim(trimmed)
    assert noted is not None
    delete_topics(trimmed, *topics_of(trimmed.log)[:5])
    with pytest.raises(
        ConfigurationError, match=f"tells of a log {trimmed.log} that is gone; its outcomes up to 11 are"
    ):
        init_log(trimmed)
    other = dataclasses.replace(
        trimmed, log=f"{log_name}-other", database_url=other_database_url, data_path=str(tmp_path / "other")
    )
    prepare(other)
    create_trims_topic(other)
    write_raw(other, topics_of(other.log).trims, encode_trim(noted))
    refused = run(other, "archive", "--to", str(tmp_path / "a"), "--trim", "--keep", "0s", code=1).exception
    assert "tells of another log" in str(refused)
    assert first_offset(other) == 0


def test_trimmed_log_then_every_part_goes_on_and_says_where_the_rest_is(trimmed: Settings, archive: Path) -> None:
    # Noted by an earlier trim, whose process has ended, and written only now.
    noted = last_trim(trimmed)
    assert noted is not None
    late = noted._replace(seq=7, results_offset=8)
    write_raw(trimmed, topics_of(trimmed.log).trims, encode_trim(late))
    assert last_trim(trimmed) == noted
    [again] = decide(trimmed, 1, base=13)
    assert again.verdict is m.Verdict.COMMITTED
    [old] = decide(trimmed, 1, base=1)
    assert old.seq == 16, "an old base is answered"
    with CommitLog.connect(settings=trimmed) as log:
        assert log.last_seq() == 16
        assert [each.seq for each in log.subscribe(11, follow=False)] == [12, 13, 14, 15, 16]
        assert [each.seq for each in log.subscribe(13, follow=False)] == [14, 15, 16]
        assert len(log.history(20)) == 16
        for after in (0, 5):
            with pytest.raises(ResultsTrimmedError, match=f"before outcome 11 were archived at {archive} and trimmed"):
                list(log.subscribe(after, follow=False))
    assert run(trimmed, "verify", "--chain").output.endswith("the log is as it was written\n"), (
        "the archive, then the topic"
    )
    assert log_health(trimmed).decided_seq == 16
    found = {each.check: each for each in examine(trimmed, storage=False)}
    assert all(found[check].not_checked is None and found[check].is_well for check in found if check != DURABILITY)
    # And when more is gone than was trimmed, nobody takes it for a trim.
    below = [TopicPartition(topics_of(trimmed.log).results, 0, 14)]
    for future in make_admin(trimmed).delete_records(below).values():
        future.result()
    with pytest.raises(
        LogLossError, match=r"starts at offset 14.*not only those up to 11, which were archived"
    ) as lost:
        ResultsReader(trimmed)
    assert not isinstance(lost.value, ResultsTrimmedError)


def test_trimmed_log_when_somebody_writes_into_its_notes_then_it_goes_on(trimmed: Settings) -> None:
    noted = last_trim(trimmed)
    write_raw(trimmed, topics_of(trimmed.log).trims, b"somebody's", None)
    assert noted is not None
    assert last_trim(trimmed) == noted
    assert decide(trimmed, 1)[0].snapshot_id is not None


def test_trimmed_log_when_a_key_or_an_id_comes_again_then_its_verdict_is_told(small: Settings, archive: Path) -> None:
    prepare(small)
    ids = Ids(seed_of("a key of a trimmed log"))
    refused = proposal(ids, 2, create_table())
    with serving(small), Publisher(small) as publisher:
        publisher.publish(proposal(ids, 0, create_table())).wait(30)
        publisher.publish(proposal(ids, 1, append("1.parquet"), writer="load", writer_seq=1)).wait(30)
        publisher.publish(refused).wait(30)
    decide(small, 11)
    save_checkpoint(small)
    decide(small, 1)
    assert trim(small, archive)["trimmed"] == 12
    with CommitLog.connect(settings=small) as log:
        again = log.transaction(key="load:1")
        assert again.is_repeat
        assert (again.outcome.verdict, again.outcome.snapshot_id, again.outcome.seq) == (m.Verdict.COMMITTED, 2, 2)
        assert log.run(lambda tx: pytest.fail("it was committed before"), key="load:1").snapshot_id == 2
        told = log.outcome(refused.proposal_id).outcome
        assert told is not None
        assert (told.verdict, told.reason, told.seq) == (m.Verdict.REJECTED, m.Reason.INVALID, 3)
        assert "REJECTED, INVALID" in log.explain(refused.proposal_id)


def test_trimmed_log_when_it_is_read_again_then_the_archive_gives_what_was_trimmed(
    trimmed: Settings, archive: Path
) -> None:
    told = run(trimmed, "replay", "--from-log", trimmed.log).output
    decided = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    assert [each["seq"] for each in decided] == list(range(1, 15))
    archive.rename(archive.with_name("elsewhere"))
    for command in (("replay", "--from-log", trimmed.log), ("verify", "--chain")):
        lacking = run(trimmed, *command, code=1).exception
        assert "is not seen from this machine: run it where that archive is" in str(lacking)


def test_reader_when_it_is_overtaken_by_a_trim_then_it_is_told_of_the_archive(small: Settings, archive: Path) -> None:
    prepare(small)
    decide(small, 13)
    save_checkpoint(small)
    with ResultsReader(small) as slow:
        assert len(slow.read(records_max=1, timeout_s=30.0)) == 1
        slow._reader.move(0, 1)
        decide(small, 1)
        assert trim(small, archive)["first_seq"] == 11
        slow._reader.move(0, 1)
        with pytest.raises(ResultsTrimmedError, match="after outcome 0: those before outcome 11 were archived at "):
            wait_until(lambda: bool(slow.read()), "it is told")


def test_reader_when_a_trim_comes_as_it_begins_then_it_is_told_of_the_archive(
    trimmed: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As it was a moment before.
    monkeypatch.setattr(results_module, "first_offsets", lambda *_: {0: 0})
    with pytest.raises(ResultsTrimmedError, match="after outcome 0: those before outcome 11 were archived at "):
        ResultsReader(trimmed, after=LogPosition(require_genesis(trimmed).log_id, 0, 0, bytes(32), 0))


def test_trimmed_log_when_checkpoints_and_catalog_are_lost_then_they_are_made_from_the_archive(
    trimmed: Settings, other_database_url: str
) -> None:
    shutil.rmtree(checkpoint_dir_of(trimmed))
    with pytest.raises(ResultsTrimmedError, match="checkpointer --from-archive"), serving(trimmed):
        pass
    run(trimmed, "checkpointer", "--from-archive")
    [saved] = load_checkpoints(trimmed)
    assert saved.position.seq == 11
    assert decide(trimmed, 1)[0].snapshot_id == 15
    expected = catalog_of(trimmed)
    run(trimmed, "catalog", "rebuild")
    assert catalog_of(trimmed) == expected
    empty = dataclasses.replace(trimmed, database_url=other_database_url)
    with pytest.raises(ResultsTrimmedError, match="catalog rebuild"):
        project(empty)
    run(empty, "catalog", "rebuild")
    assert catalog_of(empty) == expected


def test_trimmed_log_when_no_checkpoint_can_be_read_then_one_from_the_archive_stays_though_it_is_older(
    trimmed: Settings,
) -> None:
    folder = checkpoint_dir_of(trimmed)
    [known] = folder.iterdir()
    name = CheckpointName.parse(known)
    assert name is not None
    for seq in range(name.seq, name.seq + CHECKPOINTS_KEPT):
        (folder / name._replace(seq=seq).file_name()).write_bytes(b"of a disk that is broken")
    run(trimmed, "checkpointer", "--from-archive")
    [saved] = load_checkpoints(trimmed)
    assert saved.position.seq == 11 < name.seq
    assert decide(trimmed, 1)[0].snapshot_id is not None


@pytest.mark.parametrize(
    "begin", [prepared_services, partial(serve.prepare_machine, standby=True)], ids=["up", "serve"]
)
def test_trimmed_log_when_a_machine_has_no_checkpoint_then_what_serves_there_makes_it_from_the_archive(
    trimmed: Settings, archive: Path, caplog: pytest.LogCaptureFixture, begin: Callable[[Settings], object]
) -> None:
    shutil.rmtree(checkpoint_dir_of(trimmed))
    elsewhere = archive.with_name("elsewhere")
    archive.rename(elsewhere)
    begin(trimmed)
    assert "no sequencer can be started here: the archive at " in caplog.text, "all else can"
    elsewhere.rename(archive)
    begin(trimmed)
    [saved] = load_checkpoints(trimmed)
    assert saved.position.seq == 11
    [made] = checkpoint_dir_of(trimmed).iterdir()
    before = made.stat()
    begin(trimmed)
    assert made.stat() == before, "once"
    assert decide(trimmed, 1)[0].snapshot_id == 15


def test_trimmed_log_when_the_catalog_is_lost_then_what_serves_makes_it_from_the_archive(
    trimmed: Settings, archive: Path, other_database_url: str
) -> None:
    empty = dataclasses.replace(trimmed, database_url=other_database_url)
    elsewhere = archive.with_name("elsewhere")
    archive.rename(elsewhere)
    with pytest.raises(LogIntegrityError, match="is not seen from this machine: run it where that archive is"):
        prepare(empty)
    lacking = run(empty, "catalog", "rebuild", code=1).exception
    assert "is not seen from this machine: run it where that archive is" in str(lacking)
    elsewhere.rename(archive)
    prepare(empty)
    assert catalog_of(empty) == catalog_of(trimmed)
    prepare(empty)
    assert decide(empty, 1)[0].snapshot_id == 15
    assert [each.check for each in examine(empty, storage=False) if not each.is_well and each.check != DURABILITY] == []


def test_trimmed_log_when_no_checkpoint_is_here_then_doctor_reads_the_archive(trimmed: Settings, archive: Path) -> None:
    shutil.rmtree(checkpoint_dir_of(trimmed))
    found = [each for each in examine(trimmed, storage=False) if each.check != DURABILITY]
    assert found
    assert [each for each in found if not each.is_well] == []
    archive.rename(archive.with_name("elsewhere"))
    with pytest.raises(LogIntegrityError, match="is not seen from this machine: run it where that archive is"):
        list(examine(trimmed, storage=False))


def test_backup_when_restored_into_an_empty_broker_and_database_then_the_log_goes_on(
    small: Settings, archive: Path, other_database_url: str
) -> None:
    prepare(small)
    decide(small, 6)
    save_checkpoint(small)
    run(small, "backup", "--to", str(archive), "--range", RANGE)
    decide(small, 5)
    assert "the archive at" in str(run(small, "backup", "--to", str(archive), "--range", "3", code=1).exception)
    noted = run(small, "backup", "--to", str(archive)).output.split()[-1]
    assert (
        f"the next range of {RANGE} snapshots is not closed yet" in run(small, "archive", "--to", str(archive)).output
    )
    expected = catalog_of(small)
    # A broker that has nothing of the log: here, its topics are deleted.
    delete_topics(small, *topics_of(small.log)[:5])
    empty = dataclasses.replace(small, database_url=other_database_url)
    assert "outcome 11, snapshot 11" in run(empty, "restore", "--from", str(archive)).output
    prepare(empty)
    assert run(empty, "verify", "--chain", "--expect", noted).exit_code == 0
    assert catalog_of(empty) == expected
    assert decide(empty, 2)[-1].snapshot_id == 13
    [old] = decide(empty, 1, base=2)
    assert old.verdict is m.Verdict.COMMITTED, "an old base is answered"
    [beyond] = decide(empty, 1, base=99)
    assert beyond.reason is m.Reason.BASE_UNKNOWN
    # The checkpoint and the catalog of before fit again: offsets are what they were.
    project(small)
    assert catalog_of(small) == catalog_of(empty)
    assert len(list(read_messages(empty, 0, results_end(empty)))) == results_end(empty)


@pytest.mark.parametrize(("proposal_bytes_max", "commits", "message"), [(4_000_000, 1, 700_000), (2_000, 1_500, 500)])
def test_restore_when_an_outcome_is_large_or_the_topics_take_little_at_once_then_all_is_there(
    small: Settings, archive: Path, ids: Ids, proposal_bytes_max: int, commits: int, message: int
) -> None:
    sized = dataclasses.replace(small, proposal_bytes_max=proposal_bytes_max)
    init_log(sized)
    with serving(sized), Publisher(sized) as publisher:
        pending = [
            publisher.publish(proposal(ids, 0, create_table(f"t{i}"), message=secrets.token_hex(message)))
            for i in range(commits)
        ]
        assert {each.wait(60).verdict for each in pending} == {m.Verdict.COMMITTED}
    run(sized, "backup", "--to", str(archive))
    delete_topics(sized, *topics_of(sized.log)[:5])
    assert f"restored up to outcome {commits:,}" in run(sized, "restore", "--from", str(archive)).output
    with serving(sized), Publisher(sized) as publisher:
        assert publisher.submit(proposal(ids, commits, create_table("more"))).snapshot_id == commits + 1


def test_restore_when_catalog_and_checkpoint_are_ahead_of_it_then_each_way_out_leads_on(
    small: Settings, archive: Path
) -> None:
    prepare(small)
    decide(small, 6)
    run(small, "backup", "--to", str(archive), "--range", RANGE)
    expected = catalog_of(small)
    decide(small, 5)
    save_checkpoint(small)
    project(small)
    with CommitLog.connect(settings=small) as before:
        assert before.head_snapshot_id() == 11
        delete_topics(small, *topics_of(small.log)[:5])
        run(small, "restore", "--from", str(archive))
        with CommitLog.connect(settings=small) as after:
            for log in (before, after):
                for _ in range(2):
                    with pytest.raises(CatalogMismatchError, match=r"up to offset 14 .* ends at offset 8: .* rebuild"):
                        log.tables()
        assert list(load_checkpoints(small)) == [], "those beyond the backup are of a log that is gone"
        with pytest.raises(LogLossError, match="ends at offset 8, but outcome 11 was read from offset") as lost:
            project(small)
        assert "docs/retention.md" in str(lost.value)
        [position] = [each for each in examine(small, storage=False) if each.check == "position"]
        assert not position.is_well
        run(small, "catalog", "rebuild")
        assert catalog_of(small) == expected
        assert before.head_snapshot_id() == 6
        assert before.tables() == ["main.t"]
    with CommitLog.connect(settings=small) as log, pytest.raises(OutcomeNotFoundError, match="it ends at 6"):
        list(log.subscribe(11, follow=False))
    assert decide(small, 1)[0].snapshot_id == 7


def test_restore_when_the_catalog_tells_of_a_key_that_the_log_lost_then_nobody_is_answered_by_what_took_its_place(
    small: Settings, archive: Path
) -> None:
    prepare(small)
    decide(small, 6)
    run(small, "backup", "--to", str(archive), "--range", RANGE)
    with serving(small), CommitLog.connect(settings=small) as log:
        project(small)
        proposed = log.transaction(key="load:1", base_snapshot_id=6)
        proposed.create_schema("lost")
        lost = proposed.commit()
        project(small)
        assert log.run(pytest.fail, key="load:1").snapshot_id == lost.snapshot_id == 7
    delete_topics(small, *topics_of(small.log)[:5])
    run(small, "restore", "--from", str(archive))
    with pytest.raises(LogIntegrityError, match="does not hold the outcome 7"):
        decide(small, 1)
    with CommitLog.connect(settings=small) as log:
        for ask in (lambda: log.run(pytest.fail, key="load:1"), lambda: log.outcome(lost.proposal_id)):
            with pytest.raises(CatalogMismatchError, match=r"as outcome 7, which is another one in the log .* rebuild"):
                ask()
        run(small, "catalog", "rebuild")
        assert log.outcome(lost.proposal_id).state is OutcomeState.NEVER_SEEN


def test_restore_when_groups_of_subscribers_had_positions_then_it_says_that_they_have_none_and_how_they_begin(
    small: Settings, archive: Path
) -> None:
    prepare(small)
    decide(small, 4)

    def handled(**more: int) -> list[int]:
        with CommitLog.connect(settings=small) as log, log.subscribe(group="g", follow=False, **more) as outcomes:
            return [each.seq for each in outcomes]

    assert (handled(), handled()) == ([1, 2, 3, 4], [])
    run(small, "backup", "--to", str(archive))
    delete_topics(small, *topics_of(small.log)[:5])
    told = " ".join(run(small, "restore", "--from", str(archive)).output.split())
    assert "no position in this broker, and begin after their after_seq (4 or less)" in told
    assert handled(after_seq=3) == [4]
    assert handled() == []


def test_backup_when_it_holds_what_the_log_does_not_then_it_stays_as_it_is(
    small: Settings, archive: Path, log_name: str, ids: Ids
) -> None:
    other = dataclasses.replace(small, log=f"{log_name}-other")
    for settings, count in ((small, 3), (other, 1)):
        init_log(settings)
        with serving(settings), Publisher(settings) as publisher:
            for each in range(count):
                publisher.submit(proposal(ids, each, create_table(f"t{each}")))
    run(small, "backup", "--to", str(archive))
    kept = {path: path.read_bytes() for path in archive.rglob("*.parquet")}
    for command in (("backup",), ("archive", "--range", "1")):
        refused = run(other, *command, "--to", str(archive), code=1).exception
        assert f"ends with outcome 3, which the log {other.log} does not have" in str(refused)
    assert {path: path.read_bytes() for path in archive.rglob("*.parquet")} == kept
    assert "backed up to outcome 3" in run(small, "backup", "--to", str(archive)).output


def test_checkpointer_when_there_is_no_such_log_then_says_that_and_of_another_that_nothing_was_trimmed(
    small: Settings,
) -> None:
    prepare(small)
    for log, told in (
        ("unknown", "there is no log 'unknown'"),
        (small.log, "were trimmed: the service starts without"),
    ):
        refused = run(dataclasses.replace(small, log=log), "checkpointer", "--from-archive", code=1).exception
        assert told in str(refused)


def test_results_when_created_anew_then_no_part_takes_them_for_the_log(small: Settings, archive: Path) -> None:
    prepare(small)
    decide(small, 3)
    run(small, "backup", "--to", str(archive), "--range", RANGE)
    expected = catalog_of(small)
    delete_topics(small, topics_of(small.log).results)
    with pytest.raises(ConfigurationError, match=rf"belongs to another log {small.log} .*docs/retention\.md"):
        prepare(small)
    with pytest.raises(ConfigurationError, match="there is no log"):
        CommitLog.connect(settings=small).close()
    create_topics(small, 2, small.proposal_bytes_max)
    with pytest.raises(LogLossError, match="ends at offset 0, but outcome 3 was read from offset"):
        project(small)
    with pytest.raises(ConfigurationError, match="no genesis yet"), serving(small):
        pass
    delete_topics(small, *topics_of(small.log)[:5])
    run(small, "restore", "--from", str(archive))
    project(small)
    assert catalog_of(small) == expected
    assert decide(small, 1)[0].snapshot_id == 4


def check_backed_up_and_restored(small: Settings, archive: Path) -> None:
    """Of a log of three outcomes, whose topics are no more what they were."""
    run(small, "backup", "--to", str(archive), "--range", RANGE)
    delete_topics(small, *topics_of(small.log)[:5])
    run(small, "restore", "--from", str(archive))
    assert decide(small, 2)[-1].snapshot_id == 5


def test_proposals_when_created_anew_then_what_is_left_is_backed_up_and_restored(
    small: Settings, archive: Path
) -> None:
    prepare(small)
    decide(small, 3)
    delete_topics(small, topics_of(small.log).proposals)
    create_topics(small, 2, small.proposal_bytes_max)
    with pytest.raises(LogLossError, match=r"the topic was made anew.*docs/retention\.md"), serving(small):
        pass
    check_backed_up_and_restored(small, archive)


def test_partitions_when_some_were_added_then_a_backup_is_restored_into_topics_as_they_were(
    small: Settings, archive: Path
) -> None:
    prepare(small)
    decide(small, 3)
    topic = topics_of(small.log).proposals
    make_admin(small).create_partitions([NewPartitions(topic, 5)])[topic].result()
    wait_until(lambda: partition_counts(small)[topic] == 5, "the partitions are there")
    with pytest.raises(ConfigurationError, match=r"has 5 partitions, .* has 2, .*docs/retention\.md"), serving(small):
        pass
    check_backed_up_and_restored(small, archive)


def test_restore_when_it_is_killed_then_nobody_serves_what_is_there(
    small: Settings, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(writing: restoring._Writing, value: bytes) -> None:
        if writing.offset == 4:
            raise KeyboardInterrupt
        write(writing, value)

    prepare(small)
    decide(small, 6)
    run(small, "backup", "--to", str(archive))
    delete_topics(small, *topics_of(small.log)[:5])
    write = restoring._Writing.write
    monkeypatch.setattr(restoring._Writing, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        restoring.restore(small, str(archive))
    with (
        pytest.raises(LogLossError, match=r"ends at offset 0, but proposals up to .*docs/retention\.md"),
        serving(small),
    ):
        pass
    assert results_end(small) == 4


def test_restore_when_there_is_something_or_nothing_then_it_says_so(small: Settings, archive: Path) -> None:
    assert "there is no backup at" in str(run(small, "restore", "--from", str(archive), code=1).exception)
    prepare(small)
    assert "is restored where nothing of it is" in str(run(small, "restore", "--from", str(archive), code=1).exception)
    decide(small, 1)
    topics = topics_of(small.log)
    delete_topics(small, topics.results, topics.proposals)
    refused = run(small, "restore", "--from", str(archive), code=1).exception
    assert f"there are records in {topics.receipts}" in str(refused), "they tell of what no backup may have"


def test_archive_when_it_is_not_whole_then_restore_and_backup_say_what_is_wrong_and_heed_no_strangers(
    small: Settings, archive: Path
) -> None:
    prepare(small)
    decide(small, 9)
    (archive / "strangers").mkdir(parents=True)
    pq.write_table(pa.table({"a": [1]}), archive / "strangers" / "outcomes.parquet")
    run(small, "backup", "--to", str(archive), "--range", RANGE)
    delete_topics(small, *topics_of(small.log)[:5])
    end = archive / "end" / "outcomes.parquet"
    whole, last = end.read_bytes(), sorted(archive.glob("snapshots=*"))[-1]
    end.write_bytes(whole[: len(whole) // 2])
    for command in (("restore", "--from"), ("backup", "--to")):
        refused = run(small, *command, str(archive), code=1).exception
        assert isinstance(refused, LogIntegrityError)
        assert f"{end} is not as `commitlog archive` or `backup` has written it" in str(refused)
    end.write_bytes(whole)
    last.rename(archive.parent / last.name)
    refused = run(small, "restore", "--from", str(archive), code=1).exception
    assert "is not whole: its end comes after outcome 7, its ranges end with outcome 3" in str(refused)
    (archive.parent / last.name).rename(last)
    assert "restored up to outcome 9" in run(small, "restore", "--from", str(archive)).output


def test_archive_when_a_range_before_others_is_missing_then_says_which_and_writes_nothing(
    small: Settings, archive: Path
) -> None:
    prepare(small)
    decide(small, 13)
    run(small, "archive", "--to", str(archive), "--range", RANGE)
    shutil.rmtree(sorted(archive.glob("snapshots=*"))[1])
    decide(small, 4)
    kept = sorted(archive.rglob("*"))
    for command in (("archive", "--to"), ("backup", "--to"), ("restore", "--log", "elsewhere", "--from")):
        refused = run(small, *command, str(archive), code=1).exception
        assert f"the archive at {archive} is not whole: the file of snapshots 4 to 7 is missing" in str(refused)
    assert sorted(archive.rglob("*")) == kept


def test_archive_when_outcomes_are_large_then_they_are_written_as_they_are_read_and_an_open_range_leaves_nothing(
    small: Settings, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(small)
    decide(small, 9)
    raw = [record.raw for record in archive_module.whole_history(small)]
    monkeypatch.setattr(archive_files, "ROW_GROUP_BYTES", 2 * max(map(len, raw)))
    run(small, "archive", "--to", str(archive), "--range", RANGE)
    files = sorted(archive.rglob("*.parquet"))
    assert sorted(path for path in archive.rglob("*") if path.is_file()) == files
    assert [path.parent for path in files] == sorted(archive.glob("*"))
    assert len(files) == 2
    assert all(pq.ParquetFile(path).num_row_groups > 1 for path in files)
    archived = [record.raw for record in archive_module.archived_records(str(archive))]
    assert archived == raw[: len(archived)]
    run(small, "backup", "--to", str(archive))
    assert [record.raw for record in archive_module.archived_records(str(archive), with_end=True)] == raw
    delete_topics(small, *topics_of(small.log)[:5])
    assert "restored up to outcome 9" in run(small, "restore", "--from", str(archive)).output


def test_backup_when_another_one_is_made_at_the_same_time_then_both_are_whole(
    small: Settings, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(small)
    decide(small, 9)
    told: dict[str, tuple[int, int]] = {}

    def on_progress(doing: str, done: int, total: int) -> None:
        told[doing] = (done, total)

    back_up(small, str(archive), range_snapshots=int(RANGE), on_progress=on_progress)
    assert [done == total > 0 for done, total in told.values()] == [True, True]
    decide(small, 1)
    backed_up: list[int] = []

    def row(record: ResultRecord) -> dict[str, object]:
        """While the first one writes, the log goes on, and another one does all of its work."""
        if not backed_up:
            backed_up.append(0)
            decide(small, 5)
            backed_up.append(back_up(small, str(archive)).seq)
        return made(record)

    made = archive_files._row
    monkeypatch.setattr(archive_files, "_row", row)
    assert back_up(small, str(archive)).seq == 10
    assert backed_up == [0, 15]
    delete_topics(small, *topics_of(small.log)[:5])
    told.clear()
    assert restoring.restore(small, str(archive), on_progress=on_progress).seq == 15
    first, second, *filled = told
    assert (first, second) == ("checking the backup", "writing the results")
    assert [told[each][0] == told[each][1] for each in filled] == [True] * len(filled) != []
    assert {path.name for path in archive.rglob("*") if path.is_file()} == {"outcomes.parquet"}


def test_backup_when_a_range_is_closed_meanwhile_then_it_is_restored_whole(
    small: Settings, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(small)
    decide(small, 6)
    run(small, "archive", "--to", str(archive), "--range", RANGE)
    found = archive_module.archived_position

    def position(to: str) -> LogPosition | None:
        at = found(to)
        decide(small, 5)
        archive_module.archive(small, to)
        return at

    monkeypatch.setattr(archive_module, "archived_position", position)
    assert back_up(small, str(archive)).seq == 11
    delete_topics(small, *topics_of(small.log)[:5])
    assert "restored up to outcome 11" in run(small, "restore", "--from", str(archive)).output


@pytest.mark.parametrize("place", ["s3://bucket/my archive", "nowhere://bucket/archive"])
def test_archive_when_its_place_is_none_then_says_so(small: Settings, place: str) -> None:
    for command in (("archive", "--to"), ("restore", "--from")):
        refused = run(small, *command, place, code=1).exception
        assert isinstance(refused, ConfigurationError)
        assert f"{place} is no place for an archive" in str(refused)


def test_archive_when_its_place_is_a_file_or_nothing_is_there_then_says_so(small: Settings, tmp_path: Path) -> None:
    prepare(small)
    file, nowhere = tmp_path / "file", tmp_path / "nowhere"
    file.touch()
    for command in (("archive", "--to"), ("backup", "--to"), ("verify", "--archive")):
        refused = run(small, *command, str(file), code=1).exception
        assert isinstance(refused, ConfigurationError)
        assert f"{file} is a file: an archive is a folder, or an object store's URL" in str(refused)
    for chain in ((), ("--chain",)):
        refused = run(small, "verify", "--archive", str(nowhere), *chain, code=1).exception
        assert isinstance(refused, ConfigurationError)
        assert f"there is no archive at {nowhere}" in str(refused)


def test_archive_when_it_lacks_what_was_trimmed_then_says_where_that_is(trimmed: Settings, archive: Path) -> None:
    other = archive.with_name("other")
    for command in ("archive", "backup"):
        refused = str(run(trimmed, command, "--to", str(other), code=1).exception)
        assert f"the archive at {other} has no closed range, and those before outcome 11 were trimmed" in refused
        assert f"archived at {archive}. Nothing was written" in refused
    shutil.copytree(archive, other)
    assert "backed up to outcome 14" in run(trimmed, "backup", "--to", str(other)).output


def test_archive_when_it_is_of_a_log_that_had_the_name_before_then_says_so_and_it_stays(
    trimmed: Settings, log_name: str, tmp_path: Path
) -> None:
    other = dataclasses.replace(trimmed, log=f"{log_name}-other")
    init_log(other)
    decide(other, 3, is_projected=False)
    run(other, "archive", "--to", str(tmp_path / "before"), "--range", "2")
    there = sorted((tmp_path / "before").iterdir())
    refused = run(trimmed, "archive", "--to", str(tmp_path / "before"), "--range", "2", code=1).exception
    assert f"which the log {trimmed.log} does not have (outcome 1 is of another log than {trimmed.log} is now)" in str(
        refused
    )
    assert sorted((tmp_path / "before").iterdir()) == there


def test_archive_when_others_were_killed_then_removes_what_they_left_and_nothing_that_may_be_in_the_making(
    small: Settings, archive: Path
) -> None:
    prepare(small)
    decide(small, 5)
    run(small, "archive", "--to", str(archive), "--range", RANGE)
    left, new = (archive / f"snapshots=000000000004-000000000007.{uuid4()}.part" for _ in range(2))
    own = archive / "mine.part"
    for path in (left, new, own):
        path.write_bytes(b"PAR1")
    for path in (left, own):
        os.utime(path, (0, 0))
    run(small, "archive", "--to", str(archive))
    assert sorted(path.name for path in archive.iterdir()) == sorted(
        [own.name, new.name, "snapshots=000000000000-000000000003"]
    )


def test_archive_when_its_disk_is_full_then_names_the_file_and_leaves_nothing_of_it(
    small: Settings, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_full(record: ResultRecord) -> dict[str, object]:
        raise OSError(errno.ENOSPC, "full")

    prepare(small)
    decide(small, 5)
    with monkeypatch.context() as patched:
        patched.setattr(archive_files, "_row", is_full)
        failed = run(small, "backup", "--to", str(archive), "--range", RANGE, code=1).exception
    assert isinstance(failed, OSError)
    assert str(failed.filename).startswith(f"{archive}/snapshots=")
    assert [path for path in archive.rglob("*") if path.is_file()] == []
    assert "backed up to outcome 5" in run(small, "backup", "--to", str(archive), "--range", RANGE).output
