"""The client where the log in memory cannot follow it: no answer, no broker, no catalog, and a long log."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from interrupting import each_interrupted
from log_running import Ids, all_records, create_table, proposal, seed_of, serving, wait_until

from commitlog import compiled
from commitlog.catalog import projector
from commitlog.catalog.projector import Projector
from commitlog.catalog.queries import Catalog, Shown
from commitlog.catalog.reader import CatalogReader
from commitlog.client import CommitLog, OutcomeState, SubmittedOutcome
from commitlog.client.access import results_lookup
from commitlog.client.access.log_end import LogEnd
from commitlog.client.access.results_lookup import FoundOutcome, ResultsLookup
from commitlog.client.subscribing import Subscription
from commitlog.config import Settings
from commitlog.domain.model import Proposal, Reason
from commitlog.errors import (
    CatalogBehindError,
    CatalogMismatchError,
    CatalogUnavailableError,
    ConfigurationError,
    InvalidRequestError,
    LogLossError,
    OutcomeUnknownError,
    WriterBusyError,
)
from commitlog.log.codec import decode_statistics
from commitlog.log.genesis import init_log
from commitlog.log.results import READ_BYTES_MAX, ResultRecord, ResultsReader, results_end
from commitlog.log.topics import topics_of

PATIENCE_S = 60.0


def project(settings: Settings) -> None:
    Projector(settings, decode_statistics=decode_statistics).project_to_end()


@pytest.fixture
def made(settings: Settings) -> Settings:
    """A log with its catalog, and nobody who decides."""
    init_log(settings)
    project(settings)
    return settings


@pytest.fixture
def log(made: Settings) -> Iterator[CommitLog]:
    with CommitLog.connect(settings=made, writer_id="w1") as connected:
        yield connected


def test_connect_when_there_is_no_such_log_then_says_how_to_make_it(settings: Settings) -> None:
    with pytest.raises(ConfigurationError, match="commitlog init"):
        CommitLog.connect(settings=settings)


def test_connect_when_given_settings_and_arguments_then_says_not_both(settings: Settings) -> None:
    with pytest.raises(TypeError, match="not both"):
        CommitLog.connect(settings=settings, log="other")


def test_commit_when_nobody_decides_then_unknown_and_later_one_verdict(made: Settings, log: CommitLog) -> None:
    tx = log.transaction(timeout_ms=1_000)
    tx.create_table("t", {"id": "int64"})
    with pytest.raises(OutcomeUnknownError, match=str(tx.proposal_id)) as raised:
        tx.commit()
    assert raised.value.proposal_id == tx.proposal_id
    assert log.outcome(tx.proposal_id).state is OutcomeState.UNDECIDED
    with serving(made):
        repeated = log.submit(tx.proposal())
        assert repeated.committed
        assert repeated.snapshot_id == 1
    # Decided, and not yet in the catalog.
    assert log.outcome(tx.proposal_id).state is OutcomeState.DECIDED
    project(made)
    assert log.outcome(tx.proposal_id).state is OutcomeState.DECIDED


def test_writer_seq_when_the_one_before_is_unanswered_then_the_next_waits_for_its_verdict(
    made: Settings, log: CommitLog
) -> None:
    first, second = (log.transaction(writer_seq=number, timeout_ms=1_000) for number in (1, 2))
    first.create_schema("a")
    second.create_schema("b")
    with pytest.raises(OutcomeUnknownError, match=str(first.proposal_id)):
        first.commit()
    with pytest.raises(WriterBusyError, match=f"{first.proposal_id}, is still unanswered"):
        second.commit()
    assert log.outcome(second.proposal_id).state is OutcomeState.NEVER_SEEN
    with serving(made):
        log.submit(first.proposal(), timeout_ms=30_000)
        assert second.commit().committed


def test_transaction_when_the_catalog_is_another_logs_then_says_so(
    made: Settings, kafka: str, lake_dir: Path, tmp_path: Path
) -> None:
    other = Settings.load(
        environment={},
        log=f"{made.log}-other",
        bootstrap_servers=kafka,
        database_url=made.database_url,
        data_path=lake_dir,
        home=tmp_path / "other",
    )
    init_log(other)
    with (
        CommitLog.connect(settings=other) as log,
        pytest.raises(CatalogMismatchError, match="COMMITLOG_DATABASE_URL"),
    ):
        log.transaction()


def test_transaction_when_there_is_no_catalog_then_asks_for_a_projector(
    settings: Settings,
) -> None:
    init_log(settings)
    with (
        CommitLog.connect(settings=replace(settings, catalog_timeout_ms=100)) as log,
        pytest.raises(CatalogUnavailableError, match=r"cannot serve the request now .*`commitlog projector` running"),
    ):
        log.transaction()


def test_looking_up_when_postgres_has_gone_then_names_it_and_submitting_goes_on(made: Settings, log: CommitLog) -> None:
    assert log.head_snapshot_id() == 0
    name = made.database_url.rpartition("/")[2]
    with psycopg.connect(made.database_url.rpartition("/")[0] + "/postgres", autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS false'.encode())
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
        with pytest.raises(CatalogUnavailableError, match="PostgreSQL at"):
            log.table("t").at()
        with pytest.raises(CatalogUnavailableError, match="PostgreSQL at"):
            log.table("t").at()
        with serving(made):
            assert log.submit(proposal(Ids(1), 0, create_table())).committed
            with pytest.raises(CatalogUnavailableError, match="PostgreSQL at"):
                log.transaction()
        connection.execute(f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS true'.encode())


@contextmanager
def held_back(settings: Settings) -> Iterator[Callable[[], object]]:
    """A projector that runs, and cannot write until it is let go: somebody else holds the row that says how far it is."""
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool, psycopg.connect(settings.database_url) as holding:
        holding.execute("SELECT seq FROM commitlog.applied FOR UPDATE")
        running = pool.submit(Projector(settings, decode_statistics=decode_statistics).run, stop)
        try:
            yield holding.rollback
        finally:
            holding.rollback()
            stop.set()
        running.result()


def test_head_when_the_projector_is_held_back_then_another_program_waits_and_is_told_who_is_behind(
    made: Settings,
) -> None:
    with (
        serving(made),
        CommitLog.connect(settings=made) as writer,
        CommitLog.connect(settings=replace(made, catalog_timeout_ms=300)) as hasty,
        CommitLog.connect(settings=replace(made, staleness_ms=600_000)) as content,
        CommitLog.connect(settings=made) as patient,
        ThreadPoolExecutor(2) as asking,
    ):
        # A sequencer that has just begun may have written records that are no outcomes.
        project(made)
        assert content.head_snapshot_id() == 0
        with held_back(made) as let_go:
            tx = writer.transaction(base_snapshot_id=0)
            tx.create_table("t", {"id": "int64"})
            made_snapshot = tx.commit().snapshot_id
            with pytest.raises(
                CatalogBehindError, match=r"still behind the log after 0\.3 s.*made no progress"
            ) as raised:
                hasty.transaction()
            assert raised.value.next_offset is not None
            assert raised.value.next_offset < raised.value.end_offset
            assert content.head_snapshot_id() == 0
            waiting = asking.submit(lambda: patient.table("t").definition)
            told_of = asking.submit(lambda: content.tables(snapshot=made_snapshot))
            for each in (waiting, told_of):
                with pytest.raises(FutureTimeoutError):
                    each.result(timeout=0.3)
            let_go()
            assert waiting.result(timeout=60).name == "t"
            assert told_of.result(timeout=60) == ["main.t"]
            assert patient.transaction().base_snapshot_id == made_snapshot
            assert content.wait_for_snapshot() == made_snapshot


def test_head_when_the_catalog_is_behind_then_told_whether_it_has_moved_meanwhile(
    made: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(made), CommitLog.connect(settings=replace(made, catalog_timeout_ms=2_000)) as log:
        project(made)
        assert log.head_snapshot_id() == 0
        for name in ("t", "u"):
            # Of the first one the catalog knows, which this process has not looked at since; of the second one it does not.
            project(made)
            with log.transaction(base_snapshot_id=0) as tx:
                tx.create_table(name, {"id": "int64"})
        with pytest.raises(CatalogBehindError, match="The projector made no progress: check that one is running"):
            log.head_snapshot_id()
        offsets = itertools.count(1)
        monkeypatch.setattr(
            log._access._connections.watch._catalog,  # type: ignore[attr-defined]
            "shown",
            lambda: Shown(next(offsets), 0, 0, 0),
        )
        with pytest.raises(CatalogBehindError, match="The projector is making progress: wait"):
            log._access._connections.read_to(1_000, 2_000)  # type: ignore[attr-defined]


def test_head_when_the_log_ends_with_what_is_no_outcome_then_the_catalog_gets_there(made: Settings) -> None:
    with CommitLog.connect(settings=made) as log:
        for _ in range(3):
            with serving(made):
                assert log.submit(proposal(Ids(seed_of("ends")), 0)).reason is Reason.INVALID
            project(made)
            assert log.head_snapshot_id() == 0


def test_connection_when_it_only_reads_then_nothing_is_made_for_sending(made: Settings) -> None:
    with serving(made), CommitLog.connect(settings=made) as log:
        project(made)
        made_so_far = log._access._connections  # type: ignore[attr-defined]
        assert (log.head_snapshot_id(), log.history(), log.last_seq()) == (0, [], 0)
        assert made_so_far._publisher is None
        with log.transaction() as tx:
            tx.create_table("t", {"id": "int64"})
        assert made_so_far._publisher is made_so_far.publisher()


def test_append_when_no_schema_has_changed_then_asks_neither_the_log_nor_the_catalog(
    made: Settings, log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: object) -> NoReturn:
        raise AssertionError("was asked")

    def new_file() -> str:
        pq.write_table(pa.table({"id": [1]}), path := log.new_file("t"))
        return path

    with serving(made):
        assert log.submit(proposal(Ids(1), 0, create_table())).committed
        project(made)
        assert log.append("t", [new_file()]).committed
        monkeypatch.setattr(LogEnd, "offset", asked)
        monkeypatch.setattr(CatalogReader, "connected", asked)
        assert log.append("t", [new_file()]).committed


def test_publish_many_when_the_clients_queue_is_full_then_waits_for_room(made: Settings) -> None:
    ids = Ids(8)
    with serving(made), CommitLog.connect(settings=replace(made, kafka={"queue.buffering.max.messages": "3"})) as log:
        answers = list(log.publish_many([proposal(ids, 0, create_table(f"t{number}")) for number in range(40)]))
    assert all(isinstance(each, SubmittedOutcome) for each in answers)


def test_lookup_when_the_log_is_long_then_finds_every_place(made: Settings, log: CommitLog) -> None:
    chance, ids = random.Random(7), Ids(7)
    sent = 0
    with serving(made):
        # Bursts of many sizes make transactions of many sizes, so that offsets and seqs drift apart unevenly.
        while sent < 400:
            burst = [
                proposal(ids, 0, create_table(f"t{chance.randrange(200)}")) for _ in range(chance.randrange(1, 40))
            ]
            sent += len(list(log.publish_many(burst)))
    records = all_records(made)[1:]
    lookup = ResultsLookup(made)
    try:
        last = lookup.last()
        assert last is not None
        assert (last.seq, last.position.results_offset) == (sent, records[-1].offset)
        for record in chance.sample(records, 40):
            found = lookup.by_seq(record.outcome.seq)
            assert found is not None
            assert (found.outcome, found.position.results_offset, found.position.hash) == (
                record.outcome,
                record.offset,
                record.hash,
            )
        for record in records:
            if record.outcome.snapshot_id is not None and chance.random() < 0.2:
                made_by = lookup.by_snapshot(record.outcome.snapshot_id)
                assert made_by is not None
                assert made_by.outcome == record.outcome
        assert lookup.by_seq(sent + 1) is None
        assert lookup.by_seq(0) is not None
    finally:
        lookup.close()


def test_results_when_they_are_large_then_some_are_decoded_at_once(made: Settings, log: CommitLog) -> None:
    ids, chance = Ids(10), random.Random(10)
    with serving(made):
        of_each = [
            proposal(ids, 0, create_table(f"t{number}")).replace(message=chance.randbytes(200_000).hex())
            for number in range(30)
        ]
        assert len(list(log.publish_many(of_each))) == 30
    with ResultsReader(made) as reader:
        assert next(filter(None, reader.read_to_end(records_max=1)))[0].seq == 0
        # Much is fetched meanwhile.
        expected = all_records(made)
        found = list(reader.read_to_end())
    assert [record for records in found for record in records] == expected[1:]
    assert max(sum(len(record.raw) for record in records) for records in found) < READ_BYTES_MAX + 500_000


def seqs_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What look-ups read from now on."""
    read: list[int] = []
    found_of = results_lookup._found

    def counted(record: ResultRecord, reader: ResultsReader) -> FoundOutcome:
        read.append(record.seq)
        return found_of(record, reader)

    monkeypatch.setattr(results_lookup, "_found", counted)
    return read


def test_lookup_when_outcomes_are_large_then_none_but_the_one_that_is_looked_for_is_read(
    made: Settings, log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids, large = Ids(9), "x" * 70_000
    with serving(made):
        of_each = [proposal(ids, 0, create_table(f"t{number}")).replace(message=large) for number in range(30)]
        assert len(list(log.publish_many(of_each))) == 30
    project(made)
    read = seqs_read(monkeypatch)
    with closing(Catalog(made.database_url)) as catalog, closing(ResultsLookup(made, catalog)) as lookup:
        for seq in (2, 20, 21, 7):
            assert (found := lookup.by_seq(seq)) is not None
            assert found.seq == seq
        assert lookup.by_snapshot(12) is not None
        last = lookup.last()
        assert last is not None
        assert (last.seq, read) == (30, [2, 20, 21, 7, 12, 30])


def test_lookup_of_the_end_when_an_old_outcome_was_looked_up_then_does_not_read_what_lies_between(
    made: Settings, log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In small, what a long log is: places to begin at, many of them between an old outcome and the end.
    monkeypatch.setattr(projector, "MILEPOST_EVERY", 10)
    ids = Ids(8)
    with serving(made):
        sent = len(list(log.publish_many([proposal(ids, 0, create_table(f"t{number}")) for number in range(200)])))
    project(made)
    read = seqs_read(monkeypatch)
    with closing(Catalog(made.database_url)) as catalog, closing(ResultsLookup(made, catalog)) as lookup:
        assert lookup.by_seq(5) is not None
        read.clear()
        last = lookup.last()
        assert last is not None
        assert last.seq == sent
        assert len(read) <= 20
    # Without places to begin at it reads on, rather than all of the log anew.
    with closing(ResultsLookup(made)) as lookup:
        assert lookup.by_seq(150) is not None
        read.clear()
        last = lookup.last()
        assert last is not None
        assert (last.seq, read) == (sent, list(range(151, sent + 1)))


def test_lookup_of_the_end_when_the_last_outcome_alone_is_large_then_nothing_is_read_again(
    made: Settings, log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = Ids(11)
    with closing(Catalog(made.database_url)) as catalog, closing(ResultsLookup(made, catalog)) as lookup, serving(made):
        small = [proposal(ids, 0, create_table(f"t{number}")) for number in range(30)]
        assert len(list(log.publish_many(small))) == 30
        project(made)
        assert lookup.last() is not None
        read = seqs_read(monkeypatch)
        assert log.submit(proposal(ids, 0, create_table("large")).replace(message="x" * 70_000)).committed
        project(made)
        last = lookup.last()
        assert last is not None
        assert (last.seq, read) == (31, [31])


def test_lookup_of_the_end_when_it_is_far_behind_what_is_known_then_the_last_alone_is_decoded(
    made: Settings, log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In small, what a projector that has stopped leaves.
    monkeypatch.setattr(results_lookup, "FAR", 20)
    ids = Ids(12)

    def send(count: int) -> None:
        burst = [proposal(ids, 0, create_table(f"t{number}")) for number in range(count)]
        with serving(made):
            assert len(list(log.publish_many(burst))) == count

    def read_to_end(lookup: ResultsLookup) -> list[int]:
        read.clear()
        last = lookup.last()
        assert last is not None
        record = all_records(made)[-1]
        assert (last.outcome, last.position.results_offset) == (record.outcome, record.offset)
        return [*read]

    read = seqs_read(monkeypatch)
    send(10)
    project(made)
    send(90)
    with closing(Catalog(made.database_url)) as catalog, closing(ResultsLookup(made, catalog)) as lookup:
        assert read_to_end(lookup) == [100]
        send(30)
        assert read_to_end(lookup) == [130]
        send(5)
        assert read_to_end(lookup) == [*range(131, 136)]
    # So it is where no place to begin at is known.
    with closing(ResultsLookup(made)) as lookup:
        assert read_to_end(lookup) == [135]
        found = lookup.by_seq(7)
        assert found is not None
        assert found.seq == 7


@pytest.mark.parametrize("far", [5, results_lookup.FAR])
def test_lookup_of_the_end_when_it_is_nothing_that_anybody_is_given_then_says_so_and_not_that_kafka_is_away(
    made: Settings, log: CommitLog, monkeypatch: pytest.MonkeyPatch, far: int
) -> None:
    monkeypatch.setattr(results_lookup, "FAR", far)
    ids = Ids(13)
    with serving(made):
        assert len(list(log.publish_many([proposal(ids, 0, create_table(f"t{number}")) for number in range(9)]))) == 9
    stranger = Producer({"bootstrap.servers": made.bootstrap_servers, "transactional.id": made.log})
    before = results_end(made)
    stranger.init_transactions(30)
    stranger.begin_transaction()
    stranger.produce(topics_of(made.log).results, b"nothing of ours", partition=0)
    stranger.commit_transaction(30)
    # The record, and what ends the transaction.
    wait_until(lambda: results_end(made) == before + 2, "the transaction's end is there")
    with closing(ResultsLookup(made)) as lookup, pytest.raises(LogLossError, match="what was between is gone"):
        lookup.last()


@pytest.mark.parametrize(
    ("where", "last_seq"),
    [
        ("commitlog.client.access.results_lookup._found", lambda log, tried: log.last_seq()),
        ("commitlog.log.replica.replay", lambda log, tried: log.dry_run(tried).seq - 1),
    ],
)
def test_question_when_a_signal_has_ended_the_one_before_then_nothing_is_left_out(
    made: Settings,
    log: CommitLog,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    last_seq: Callable[[CommitLog, Proposal], int],
) -> None:
    ids, signals = Ids(seed_of(where)), list[BaseException]()
    module, name = where.rsplit(".", 1)
    as_ever = getattr(import_module(module), name)

    def interrupted(*args: Any) -> Any:
        if signals:
            raise signals.pop()
        return as_ever(*args)

    monkeypatch.setattr(where, interrupted)
    tried = proposal(ids, 0, create_table("tried"))
    with serving(made):
        for number in range(1, 4):
            assert log.submit(proposal(ids, 0, create_table(f"t{number}"))).committed
            signals += [KeyboardInterrupt()] * (number > 1)
            with nullcontext() if number == 1 else pytest.raises(KeyboardInterrupt):
                last_seq(log, tried)
            assert last_seq(log, tried) == number


def test_submit_async_when_a_signal_ends_it_anywhere_then_the_next_one_is_called_back(
    made: Settings, log: CommitLog
) -> None:
    ids, numbers = Ids(seed_of("a signal anywhere")), count()

    def submit() -> Future[SubmittedOutcome]:
        return log.submit_async(proposal(ids, 0, create_table(f"t{next(numbers)}")))

    def submit_and_wait() -> None:
        assert submit().result(60).committed

    with serving(made):
        submit_and_wait()
        for place in each_interrupted(submit):
            another = threading.Thread(target=submit_and_wait, daemon=True)
            another.start()
            another.join(120)
            assert not another.is_alive(), place
        # What the last one sent is decided before: closing the log waits for whom it is to call back.
        submit_and_wait()
    assert next(numbers) > 150 or compiled.form == compiled.COMPILED


def test_log_when_it_is_closed_then_subscriptions_end_and_closing_again_is_nothing(
    made: Settings, log: CommitLog
) -> None:
    ids = Ids(seed_of("closed"))
    with serving(made):
        assert log.submit(proposal(ids, 0, create_table())).committed
        project(made)
        log.dry_run(proposal(ids, 1, create_table("u")))
        outcomes = log.subscribe()
        assert next(outcomes).seq == 1
        access, scan = log.access, log.table("t").scan()
        for _ in range(2):
            log.close()
        assert list(outcomes) == []
    for call in (
        lambda: log.submit(proposal(ids, 2, create_table("u"))),
        lambda: log.append("u", [{"id": 1}]),
        lambda: log.table("t").scan().count(),
        scan.to_arrow,
        access.contents,
        log.head_snapshot_id,
        log.tables,
        log.history,
    ):
        with pytest.raises(InvalidRequestError, match="the log was closed"):
            call()


def test_log_when_it_is_closed_before_it_has_sent_anything_then_it_sends_nothing_afterwards(
    made: Settings, log: CommitLog
) -> None:
    ids = Ids(seed_of("closed early"))
    log.close()
    with pytest.raises(InvalidRequestError, match="the log was closed"):
        log.submit(proposal(ids, 0, create_table()))


def test_log_when_the_process_forks_then_the_child_connects_anew_and_the_parent_goes_on(
    made: Settings, log: CommitLog
) -> None:
    with serving(made):
        assert log.submit(proposal(Ids(seed_of("fork")), 0, create_table())).committed
        project(made)
        assert log.head_snapshot_id() == 1
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with log.transaction(base_snapshot_id=1) as tx:
                    tx.create_table("made_by_child", {"id": "int64"})
                assert log.outcome(tx.proposal_id).state is OutcomeState.DECIDED
                log.close()
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        assert log.last_seq() == 2
        project(made)
        assert log.table("made_by_child").definition.name == "made_by_child"


@pytest.mark.parametrize("group", [None, "kept"])
def test_subscription_when_the_process_forks_then_it_is_the_parents_alone(
    made: Settings, log: CommitLog, group: str | None
) -> None:
    ids = Ids(seed_of("subscribed"))
    with serving(made):
        for number in range(2):
            assert log.submit(proposal(ids, 0, create_table(f"t{number}"))).committed

    def ask(outcomes: Subscription) -> None:
        with pytest.raises(InvalidRequestError, match=r"call log\.subscribe here"), outcomes:
            next(outcomes)
        assert [each.seq for each in log.subscribe(follow=False)] == [1, 2]

    with log.subscribe(follow=False, group=group) as outcomes:
        assert next(outcomes).seq == 1
        child = multiprocessing.get_context("fork").Process(target=ask, args=(outcomes,))
        child.start()
        child.join(PATIENCE_S)
        child.kill()
        assert child.exitcode == 0
        assert next(outcomes).seq == 2
