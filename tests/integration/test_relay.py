"""The relay at a log's border: programs with Confluent's own serializers propose, are answered, and read every outcome once.

The registry is a small one of these tests' own (`registry_server`), the broker is real.
"""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from log_running import delete_topics, projecting, save_checkpoint, wait_until, write_raw
from log_running import serving as serving_log
from registry_server import RegistryServer, serving

from commitlog import CommitLog
from commitlog.client.ids import new_proposal_id
from commitlog.config import Settings
from commitlog.errors import ConfigurationError, FencedError, LogIntegrityError, RegistryUnavailableError
from commitlog.log.codec.framing import schemas_dir
from commitlog.log.connection import make_admin
from commitlog.log.genesis import init_log
from commitlog.log.topics import border_topics_of, relay_of, topics_of
from commitlog.ops.cli import cli
from commitlog.ops.service.health import log_health
from commitlog.ops.service.listening import measures_note, running_at
from commitlog.ops.service.supervisor import RELAY, Supervisor
from commitlog.relay.outward import TRANSACTION_TIMEOUT_S, last_at_border
from commitlog.relay.progress import RelayProgress, outcomes_backlog
from commitlog.relay.registry import Registry
from commitlog.relay.relay import run_relay
from commitlog.relay.topics import ensure_border_topics

PROGRAM = Path(__file__).resolve().parents[2] / "docs/registry/propose.py"
PROPOSAL = json.loads((schemas_dir() / "proposal.avsc").read_text(encoding="utf-8"))
WITHIN_S = 60.0


@pytest.fixture
def registry() -> RegistryServer:
    return RegistryServer()


@pytest.fixture
def bordered(settings: Settings, registry: RegistryServer) -> Iterator[Settings]:
    """Settings that name the registry, of a log with the topics at its border."""
    genesis = init_log(settings)
    ensure_border_topics(settings, genesis.partitions)
    with serving(registry) as url:
        yield replace(settings, registry_url=url, sources={**settings.sources, "registry_url": "the test"})


class Relay:
    """A relay in a thread, and what ended it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.progress = RelayProgress()
        self._stop = threading.Event()
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="relay")
        self._thread.start()

    def _run(self) -> None:
        try:
            run_relay(self._settings, stop=self._stop, progress=self.progress)
        except BaseException as error:
            self.failure = error

    def ended(self) -> BaseException | None:
        self._thread.join(WITHIN_S)
        assert not self._thread.is_alive()
        return self.failure

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if (failure := self.ended()) is not None:
            raise failure


def proposal(name: str, **more: Any) -> dict[str, Any]:
    made = {"proposal_id": new_proposal_id(), "writer_id": "w", "base_snapshot_id": 0, "changes": []}
    return {**made, "changes": [("commitlog.CreateSchema", {"schema": name, "if_not_exists": False})], **more}


def send(settings: Settings, *values: bytes | None) -> None:
    producer = Producer(
        {"bootstrap.servers": settings.bootstrap_servers, "enable.idempotence": True, "message.max.bytes": 10_000_000}
    )
    for value in values:
        producer.produce(border_topics_of(settings.log).proposals, key=b"w", value=value)
    assert producer.flush(WITHIN_S) == 0


def serialized(settings: Settings, proposed: dict[str, Any], schema: Any = PROPOSAL) -> bytes:
    topic = border_topics_of(settings.log).proposals
    with SchemaRegistryClient({"url": settings.registry_url}) as client:
        value = AvroSerializer(client, json.dumps(schema))(proposed, SerializationContext(topic, MessageField.VALUE))
    assert value is not None
    return bytes(value)


@contextmanager
def following(settings: Settings, topic: str) -> Iterator[Callable[[int], list[Message]]]:
    """Waits until a topic has so many records for readers of transactions, and gives all of them."""
    consumer = Consumer(
        {"bootstrap.servers": settings.bootstrap_servers, "group.id": "t", "isolation.level": "read_committed"}
    )
    partitions = consumer.list_topics(topic, timeout=WITHIN_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    found: list[Message] = []

    def wait_for(count: int) -> list[Message]:
        deadline = time.monotonic() + WITHIN_S
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} records came to {topic}"
            found.extend(consumer.consume(count, 0.2))
        found.extend(consumer.consume(100, 0.2))
        return found

    try:
        yield wait_for
    finally:
        consumer.close()


def deserialized(settings: Settings, message: Message) -> dict[str, Any]:
    context = SerializationContext(str(message.topic()), MessageField.VALUE)
    with SchemaRegistryClient({"url": settings.registry_url}) as client:
        value: dict[str, Any] = AvroDeserializer(client)(message.value(), context)
    return value


@pytest.mark.usefixtures("deciding")
def test_program_when_it_knows_only_a_registry_then_proposes_and_is_answered(bordered: Settings) -> None:
    command = [sys.executable, str(PROGRAM), bordered.bootstrap_servers, str(bordered.registry_url), bordered.log, "s"]

    def run() -> str:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S * 2, check=False)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.strip()

    with Relay(bordered), CommitLog.connect(settings=bordered) as log:
        with log.transaction() as tx:
            tx.create_table("main.t", {"id": "int64"})
        assert run() == "COMMITTED 2 None None"
        assert run().startswith("REJECTED None INVALID schema s ")
        refused, made = log.history(2)
        assert (made.writer_id, made.message, made.snapshot_id) == ("registry-example", "by a schema registry", 2)
        assert refused.verdict == "REJECTED"


@pytest.mark.usefixtures("deciding")
def test_values_when_they_are_no_proposals_then_kept_with_the_reason_and_the_next_one_is_decided(
    bordered: Settings, registry: RegistryServer
) -> None:
    topics = border_topics_of(bordered.log)
    stranger = registry.add("x", '{"type": "record", "name": "Order", "fields": []}')
    as_json = registry.add("y", "{}", "JSON")
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}
    field = {"name": "price", "type": decimal}
    unreadable = "decimal scale must be less than or equal to the precision of 2"
    unread = registry.add("z", json.dumps({"type": "record", "name": "Proposal", "fields": [field]}))
    bad: dict[bytes | None, str] = {
        b"\0" + (999).to_bytes(4, "big") + b"body": "the registry knows no schema with the id 999",
        b"\0" + stranger.to_bytes(4, "big"): "the schema is of Order, not of commitlog.Proposal",
        b"\0" + as_json.to_bytes(4, "big"): f"the schema with the id {as_json} is JSON, not Avro's",
        b"\0" + unread.to_bytes(4, "big"): f"the schema cannot be read: SchemaParseException {unreadable}",
        b"\xc3\x01 and more": "no record in Confluent's framing: it starts with c30120616e, not 00 and a schema's id",
        None: "no record in Confluent's framing: it starts with nothing, not 00 and a schema's id",
    }
    send(bordered, *bad, serialized(bordered, proposal("after")))
    with Relay(bordered), following(bordered, topics.dead_letters) as letters:
        with following(bordered, topics.receipts) as receipts:
            [answer] = deserialized(bordered, receipts(1)[0])["receipts"]
        kept = letters(len(bad))
    assert (answer["verdict"], answer["snapshot_id"]) == ("COMMITTED", 1)
    assert {each.value(): _header(each, "exception.message") for each in kept} == bad
    assert {_header(each, "topic") for each in kept} == {topics.proposals}
    assert {each.key() for each in kept} == {b"w"}


def test_proposals_when_the_log_takes_little_at_once_then_each_is_decided_and_outcomes_of_larger_ones_come_too(
    settings: Settings, registry: RegistryServer
) -> None:
    narrow = replace(settings, proposal_bytes_max=2_000)
    init_log(narrow)
    with serving(registry) as url, serving_log(narrow), projecting(narrow), CommitLog.connect(settings=narrow) as log:
        bordered = replace(narrow, registry_url=url, sources={**narrow.sources, "registry_url": "the test"})
        topics = ensure_border_topics(bordered, narrow.partitions)
        many = [serialized(bordered, proposal(f"s{i}", message=secrets.token_hex(800))) for i in range(60)]
        send(bordered, *many)
        with Relay(bordered), following(bordered, topics.results) as outcomes:
            assert len(outcomes(len(many))) == len(many)
            with log.transaction() as tx:
                tx.configure(proposal_bytes_max=3_000_000)
            assert len(outcomes(len(many) + 1)) == len(many) + 1
            send(bordered, serialized(bordered, proposal("large", message=secrets.token_hex(1_250_000))))
            assert len(outcomes(len(many) + 2)) == len(many) + 2


def _header(message: Message, name: str) -> str:
    value = dict(message.headers() or ())[f"__connect.errors.{name}"]
    assert isinstance(value, bytes)
    return value.decode()


@pytest.mark.usefixtures("deciding")
def test_proposal_when_its_schema_is_another_version_then_read_by_avros_rules(bordered: Settings) -> None:
    fewer = {**PROPOSAL, "fields": [each for each in PROPOSAL["fields"] if each["name"] not in ("replicated", "extra")]}
    send(bordered, serialized(bordered, proposal("s", author="somebody"), fewer))
    with Relay(bordered), following(bordered, border_topics_of(bordered.log).results) as outcomes:
        outcomes(1)
    with CommitLog.connect(settings=bordered) as log:
        assert [(each.verdict, each.author) for each in log.history()] == [("COMMITTED", "somebody")]


@pytest.mark.usefixtures("deciding")
def test_relay_when_begun_again_then_each_outcome_is_there_once_and_repeats_have_their_first_answer(
    bordered: Settings,
) -> None:
    first = serialized(bordered, proposal("s"))
    with following(bordered, border_topics_of(bordered.log).results) as outcomes:
        send(bordered, first)
        with Relay(bordered):
            outcomes(1)
        send(bordered, first, serialized(bordered, proposal("t", base_snapshot_id=1)))
        with Relay(bordered):
            told = [deserialized(bordered, each) for each in outcomes(3)]
    assert [each["seq"] for each in told] == [1, 2, 3]
    assert [each["verdict"] for each in told] == ["COMMITTED", "DUPLICATE", "COMMITTED"]
    assert told[1]["original_seq"] == 1


@pytest.mark.usefixtures("deciding")
def test_relay_when_somebody_has_written_what_it_gives_then_it_goes_on_all_the_same(bordered: Settings) -> None:
    own, border = topics_of(bordered.log), border_topics_of(bordered.log)
    with CommitLog.connect(settings=bordered) as log, following(bordered, border.results) as outcomes:
        with log.transaction() as tx:
            tx.create_schema("a")
        with Relay(bordered):
            assert len(outcomes(1)) == 1
        for topic in (own.receipts, border.results):
            write_raw(bordered, topic, b"somebody's", None)
        with log.transaction() as tx:
            tx.create_schema("b")
        with Relay(bordered):
            given = outcomes(4)
    ours = [deserialized(bordered, each) for each in given if (each.value() or b"").startswith(b"\0")]
    assert [each["seq"] for each in ours] == [1, 2]


@pytest.mark.usefixtures("deciding")
def test_relay_when_another_one_runs_then_the_one_whose_turn_it_is_gives_outcomes_and_the_other_goes_on_after_it(
    bordered: Settings,
) -> None:
    with following(bordered, border_topics_of(bordered.log).results) as outcomes:
        with Relay(bordered) as first:
            send(bordered, serialized(bordered, proposal("s0")))
            outcomes(1)
            second = Relay(bordered)
            wait_until(lambda: outcomes_backlog(bordered).readers() == 2, "the relay is there", deadline_s=WITHIN_S)
            send(bordered, serialized(bordered, proposal("s1", base_snapshot_id=1)))
            outcomes(2)
            assert first.progress.is_standby != second.progress.is_standby
        with second:
            send(bordered, serialized(bordered, proposal("s2", base_snapshot_id=2)))
            told = [deserialized(bordered, each) for each in outcomes(3)]
            assert not second.progress.is_standby
    assert [each["snapshot_id"] for each in told] == [1, 2, 3]
    assert first.progress.outcomes + second.progress.outcomes == 3


@pytest.mark.usefixtures("deciding")
def test_relay_when_another_gives_outcomes_before_it_has_heard_then_ends_and_none_is_there_twice(
    bordered: Settings,
) -> None:
    with following(bordered, border_topics_of(bordered.log).results) as outcomes:
        relay = Relay(bordered)
        send(bordered, serialized(bordered, proposal("s0")))
        outcomes(1)
        other = Producer({"bootstrap.servers": bordered.bootstrap_servers, "transactional.id": relay_of(bordered.log)})
        other.init_transactions(WITHIN_S)
        send(bordered, serialized(bordered, proposal("s1", base_snapshot_id=1)))
        assert isinstance(relay.ended(), FencedError)
        with Relay(bordered):
            told = [deserialized(bordered, each) for each in outcomes(2)]
    assert [each["snapshot_id"] for each in told] == [1, 2]


@pytest.mark.usefixtures("deciding")
def test_relay_when_results_are_trimmed_then_what_the_border_lacks_stays(bordered: Settings, tmp_path: Path) -> None:
    topic = border_topics_of(bordered.log).results
    create_schemas(bordered, "a")
    with following(bordered, topic) as outcomes:
        with Relay(bordered):
            outcomes(1)
        create_schemas(bordered, "b", "c")
        assert trim(bordered, tmp_path)["held_by"] == {"who": f"the relay to {topic}", "seq": 1}
        with Relay(bordered):
            assert [deserialized(bordered, each)["seq"] for each in outcomes(3)] == [1, 2, 3]
    assert trim(bordered, tmp_path)["first_seq"] == 2


@pytest.mark.usefixtures("deciding")
def test_relay_when_results_were_trimmed_before_there_was_a_border_then_it_begins_with_what_is_left(
    settings: Settings, registry: RegistryServer, tmp_path: Path
) -> None:
    create_schemas(settings, "a", "b", "c")
    assert trim(settings, tmp_path)["first_seq"] == 2
    with serving(registry) as url:
        bordered = replace(settings, registry_url=url, sources={**settings.sources, "registry_url": "the test"})
        ensure_border_topics(bordered, bordered.partitions)
        with Relay(bordered), following(bordered, border_topics_of(bordered.log).results) as outcomes:
            assert [deserialized(bordered, each)["seq"] for each in outcomes(1)] == [3]


@pytest.mark.usefixtures("deciding")
@pytest.mark.parametrize("are_all_gone", [False, True])
def test_relay_when_its_border_lets_outcomes_go_then_goes_on_after_the_last_or_says_that_there_is_none(
    bordered: Settings, are_all_gone: bool
) -> None:
    border = border_topics_of(bordered.log).results
    with following(bordered, border) as outcomes:
        create_schemas(bordered, "a", "b", "c")
        with Relay(bordered):
            last = outcomes(3)[-1].offset()
        assert last is not None
        deleted = make_admin(bordered).delete_records([TopicPartition(border, 0, -1 if are_all_gone else last)])
        next(iter(deleted.values())).result()
        create_schemas(bordered, "d")
        if are_all_gone:
            failure = Relay(bordered).ended()
            assert isinstance(failure, ConfigurationError)
            assert re.search(rf"{border} holds no outcome any more.*retention\.ms=-1.*made anew", str(failure))
        else:
            with Relay(bordered):
                assert [deserialized(bordered, each)["seq"] for each in outcomes(4)] == [1, 2, 3, 4]


@pytest.mark.usefixtures("deciding")
def test_border_when_a_relay_writes_there_just_now_then_its_last_outcome_is_the_last_that_is_committed(
    bordered: Settings,
) -> None:
    border = border_topics_of(bordered.log).results
    create_schemas(bordered, "a")
    with Relay(bordered), following(bordered, border) as outcomes:
        outcomes(1)
    writing = Producer({"bootstrap.servers": bordered.bootstrap_servers, "transactional.id": f"{bordered.log}.another"})
    writing.init_transactions(WITHIN_S)
    writing.begin_transaction()
    writing.produce(border, value=b"not committed")
    assert writing.flush(WITHIN_S) == 0
    begun_at = time.monotonic()
    last = last_at_border(bordered, init_log(bordered).log_id)
    assert last is not None
    assert (last.seq, time.monotonic() - begun_at < TRANSACTION_TIMEOUT_S) == (1, True)
    writing.abort_transaction(WITHIN_S)


@pytest.mark.parametrize("since", [0, 2])
def test_relay_when_the_log_was_restored_without_what_it_has_given_then_says_so_and_begins_anew_once_that_is_deleted(
    bordered: Settings, tmp_path: Path, since: int
) -> None:
    border = border_topics_of(bordered.log).results

    def command(*arguments: str) -> None:
        ran = CliRunner().invoke(cli, [*arguments, str(tmp_path / "backup")], env=bordered.environment())
        assert ran.exit_code == 0, (ran.output, ran.exception)

    with serving_log(bordered), projecting(bordered):
        create_schemas(bordered, "a", "b")
        command("backup", "--to")
        create_schemas(bordered, "lost")
        with Relay(bordered), following(bordered, border) as outcomes:
            outcomes(3)
    delete_topics(bordered, *topics_of(bordered.log)[:5])
    command("restore", "--from")
    run_cli = CliRunner().invoke(cli, ["catalog", "rebuild"], env=bordered.environment())
    assert run_cli.exit_code == 0, run_cli.output
    with serving_log(bordered), projecting(bordered):
        create_schemas(bordered, *"cd"[:since])
        failure = Relay(bordered).ended()
        assert isinstance(failure, LogIntegrityError)
        assert re.search(r"outcome 3 .*was read from.*docs/retention\.md", str(failure))
        delete_topics(bordered, border)
        ensure_border_topics(bordered, bordered.partitions)
        with Relay(bordered), following(bordered, border) as outcomes:
            assert [deserialized(bordered, each)["seq"] for each in outcomes(2 + since)] == [*range(1, 3 + since)]


def create_schemas(settings: Settings, *schemas: str) -> None:
    with CommitLog.connect(settings=settings) as log:
        for schema in schemas:
            with log.transaction() as tx:
                tx.create_schema(schema)
        log.wait_for_snapshot()


def trim(settings: Settings, folder: Path) -> dict[str, Any]:
    """Archive three snapshots a file, and delete what nobody needs of them."""
    settings = replace(settings, checkpoint_dir=folder / "checkpoints")
    save_checkpoint(settings)
    command = ["archive", "--to", str(folder / "archive"), "--range", "3", "--trim", "--keep", "0s", "--json"]
    done = CliRunner().invoke(cli, command, env=settings.environment())
    told: dict[str, Any] = json.loads(done.output.splitlines()[-1])
    return told


@pytest.mark.usefixtures("deciding")
def test_relay_when_the_service_runs_it_then_others_see_how_far_it_is(bordered: Settings, tmp_path: Path) -> None:
    settings = replace(bordered, home=tmp_path)
    topics = border_topics_of(settings.log)
    send(settings, serialized(settings, proposal("s")), b"no proposal")
    away = log_health(settings)
    assert away.relay is not None
    assert (away.relay.running, away.relay.proposals) == (0, 2)
    assert "no relay is active: run `commitlog serve` or `commitlog up`" in away.problems
    supervisor = Supervisor([RELAY], settings.environment(), say=lambda _: None)
    supervisor.check()
    try:
        with following(settings, topics.results) as outcomes, following(settings, topics.dead_letters) as letters:
            outcomes(1)
            letters(1)
        wait_until(
            lambda: str(log_health(settings).relay) == "1 runs; all is taken over",
            "the relay is there",
            deadline_s=WITHIN_S,
        )
        address = running_at(settings, measures_note(RELAY.name))
        label = f'{{log="{settings.log}"}}'
        counts = {"proposals_total": 1, "dead_letters_total": 1, "outcomes_total": 1, "receipts_total": 1, "standby": 0}
        lines = {
            f"commitlog_relay_{name}{label} {count:.1f}"
            for name, count in {**counts, "proposals_lag_records": 0, "outcomes_lag_records": 0}.items()
        }
        wait_until(
            lambda: lines <= set(_read(f"{address}metrics").splitlines()),
            "the relay tells of all that it has given",
            deadline_s=WITHIN_S,
        )
    finally:
        supervisor.stop()


def _read(address: str) -> str:
    with urllib.request.urlopen(address, timeout=WITHIN_S) as answer:
        return str(answer.read().decode())


@pytest.mark.usefixtures("deciding")
def test_registry_when_it_is_away_then_what_came_waits_for_it(bordered: Settings, registry: RegistryServer) -> None:
    known = serialized(bordered, proposal("s"))
    unseen = serialized(
        bordered, proposal("t", base_snapshot_id=1), {**PROPOSAL, "doc": "another text, and so another id"}
    )
    with following(bordered, border_topics_of(bordered.log).results) as outcomes:
        relay = Relay(bordered)
        send(bordered, known)
        outcomes(1)
        registry.is_away = True
        send(bordered, unseen)
        assert isinstance(relay.ended(), RegistryUnavailableError)
        registry.is_away = False
        with Relay(bordered):
            told = [deserialized(bordered, each) for each in outcomes(2)]
    assert [each["seq"] for each in told] == [1, 2]


class OtherServer(RegistryServer):
    """A server that is no registry, or a proxy in front of one."""

    def __init__(self, status: int, given: Any) -> None:
        super().__init__()
        self._given = status, given

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        return self._given


@pytest.mark.parametrize(
    ("status", "given"),
    [
        pytest.param(404, {"message": "no such page"}, id="knows no such path"),
        pytest.param(200, ["another", "service"], id="answers with something else"),
        pytest.param(200, {}, id="answers without an id"),
    ],
)
def test_registry_when_the_url_is_another_servers_then_says_so(settings: Settings, status: int, given: Any) -> None:
    with (
        serving(OtherServer(status, given)) as url,
        Registry(replace(settings, registry_url=url)) as registry,
        pytest.raises(ConfigurationError, match="registry_url"),
    ):
        registry.id_of("t", '"string"')


def test_registry_when_a_proxy_does_not_find_it_then_no_schema_is_called_unknown(settings: Settings) -> None:
    with (
        serving(OtherServer(404, {"message": "no such page"})) as url,
        Registry(replace(settings, registry_url=url)) as registry,
        pytest.raises(ConfigurationError, match="registry_url"),
    ):
        registry.schema_of(1)


def test_relay_when_no_registry_is_named_then_says_what_to_set(settings: Settings) -> None:
    init_log(settings)
    with pytest.raises(ConfigurationError, match="registry_url"):
        run_relay(settings, stop=threading.Event())
