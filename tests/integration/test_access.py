"""Who may do what, on a Kafka with its authorizer and TLS: each role does its own, and is refused everything else."""

from __future__ import annotations

import json
import re
import secrets
import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from log_running import Ids, create_table, proposal, serving, wait_until
from registry_server import RegistryServer
from registry_server import serving as serving_registry
from secured_servers import Certificates, SecuredBroker, make_certificates

from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.domain.model import Configure, Verdict
from commitlog.errors import ConfigurationError, LogRefusedError, LogUnavailableError, OutcomeUnknownError
from commitlog.log import sequencer
from commitlog.log.access_rules import Role, access_rules, apply
from commitlog.log.codec import encode_proposal
from commitlog.log.codec.confluent import framed, schema_text
from commitlog.log.connection import answered, end_offsets, make_admin, make_consumer, make_producer
from commitlog.log.genesis import init_log
from commitlog.log.results import ResultsReader
from commitlog.log.topic_settings import allow_proposal_bytes
from commitlog.log.topics import border_topics_of, relay_of, topics_of
from commitlog.ops.cli import cli
from commitlog.relay.progress import outcomes_backlog
from commitlog.relay.relay import run_relay

LOG = "guarded"
TOPICS = topics_of(LOG)
BORDER = border_topics_of(LOG)
WITHIN_S = 60.0
DENIED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)


@pytest.fixture(scope="module")
def certificates(servers_dir: Path) -> Certificates:
    return make_certificates(servers_dir / "certificates")


@pytest.fixture(scope="module")
def broker(servers_dir: Path, certificates: Certificates) -> Iterator[SecuredBroker]:
    with SecuredBroker(servers_dir / "secured", certificates) as broker:
        yield broker


@pytest.fixture(scope="module")
def super_user(broker: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings.load(
        environment={},
        log=LOG,
        bootstrap_servers=broker.bootstrap_servers,
        kafka=broker.client_options,
        home=tmp_path_factory.mktemp("home"),
        partitions=2,
    )


@pytest.fixture(scope="module")
def of_role(broker: SecuredBroker, super_user: Settings) -> dict[Role, Settings]:
    """Settings of one user of each role; the owner has made the log."""
    users = {role: f"the-{role}" for role in Role}
    assert apply(super_user, {role: [user] for role, user in users.items()}) > 0
    made = {
        role: replace(super_user, kafka=broker.options_of(user, secrets.token_hex(16))) for role, user in users.items()
    }
    init_log(made[Role.OWNER])
    return made


def failure(act: Callable[[], object]) -> KafkaError:
    with pytest.raises(KafkaException) as raised:
        act()
    error = raised.value.args[0]
    assert isinstance(error, KafkaError)
    return error


def denial(settings: Settings, topic: str) -> int | None:
    """What Kafka answers to a record of anybody's producer: an error's code, or nothing."""
    answers: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers, **settings.kafka, "log_level": 0})
    producer.produce(topic, b"x", partition=0, on_delivery=lambda error, _: answers.append(error))
    with suppress(KafkaException):
        producer.flush(20)
    [answer] = answers
    return None if answer is None else answer.code()


def admin(settings: Settings) -> AdminClient:
    return AdminClient({"bootstrap.servers": settings.bootstrap_servers, **settings.kafka, "log_level": 0})


def test_roles_when_each_does_its_own_then_a_proposal_is_decided_and_read(
    of_role: dict[Role, Settings], ids: Ids
) -> None:
    with serving(of_role[Role.SERVICE]), CommitLog.connect(settings=of_role[Role.WRITER]) as log:
        outcome = log.submit(proposal(ids, 0, create_table(f"t{secrets.token_hex(4)}")))
        assert outcome.verdict is Verdict.COMMITTED
        with ResultsReader(of_role[Role.READER]) as reader:
            told = [record.value for records in reader.read_to_end() for record in records]
        assert len(told) >= 2
        with CommitLog.connect(settings=of_role[Role.READER]) as following:
            assert next(iter(following.subscribe(group="dashboards"))).seq == 1


def test_service_when_a_writer_raises_what_a_proposal_may_be_then_topics_take_it_and_who_may_not_is_told_what_to_set(
    of_role: dict[Role, Settings], ids: Ids
) -> None:
    raised = of_role[Role.OWNER].proposal_bytes_max + 1
    with serving(of_role[Role.SERVICE]), CommitLog.connect(settings=of_role[Role.WRITER]) as log:
        base = log.submit(proposal(ids, 0, Configure({"proposal_bytes_max": raised}))).head_snapshot_id
        assert log.submit(proposal(ids, base, create_table(f"t{secrets.token_hex(4)}"))).verdict is Verdict.COMMITTED
    with pytest.raises(LogRefusedError, match=rf"{TOPICS.results} needs max\.message\.bytes=\d+.*.acl apply --service"):
        allow_proposal_bytes(of_role[Role.WRITER], raised + 1)


def test_reader_when_it_proposes_then_refused_at_once_and_nothing_is_written(
    of_role: dict[Role, Settings], ids: Ids
) -> None:
    before = end_offsets(of_role[Role.READER], TOPICS.proposals, range(2))
    with CommitLog.connect(settings=of_role[Role.READER]) as log, pytest.raises(LogRefusedError, match="AUTHORIZATION"):
        log.submit(proposal(ids, 0, create_table()))
    assert end_offsets(of_role[Role.READER], TOPICS.proposals, range(2)) == before
    assert denial(of_role[Role.READER], TOPICS.proposals) in DENIED


@pytest.mark.parametrize("role", [Role.READER, Role.WRITER])
@pytest.mark.parametrize("topic", [TOPICS.results, TOPICS.receipts, TOPICS.control, TOPICS.dead_letters])
def test_those_who_do_not_serve_when_they_write_what_the_service_tells_then_refused(
    of_role: dict[Role, Settings], role: Role, topic: str
) -> None:
    assert denial(of_role[role], topic) in DENIED


def test_service_when_it_proposes_creates_or_deletes_then_refused(of_role: dict[Role, Settings]) -> None:
    service = of_role[Role.SERVICE]
    assert denial(service, TOPICS.proposals) in DENIED
    creating, deleting = admin(service), admin(of_role[Role.WRITER])
    assert failure(lambda: creating.create_topics([NewTopic("x", 1)])["x"].result(timeout=20)).code() in DENIED
    assert failure(lambda: deleting.delete_topics([TOPICS.results])[TOPICS.results].result(timeout=20)).code() in DENIED


def test_init_when_it_is_not_the_owners_then_says_who_may(broker: SecuredBroker, super_user: Settings) -> None:
    apply(replace(super_user, log="unmade"), {Role.SERVICE: ["unmade"]})
    service = replace(super_user, log="unmade", kafka=broker.options_of("unmade", secrets.token_hex(16)))
    with pytest.raises(ConfigurationError, match=r"cannot be created: .*`commitlog acl apply --owner` lets an owner$"):
        init_log(service)


def test_writer_of_one_log_when_it_asks_another_then_it_learns_nothing(
    of_role: dict[Role, Settings], super_user: Settings
) -> None:
    init_log(replace(super_user, log="unknown"))
    assert denial(of_role[Role.WRITER], "unknown.proposals") in DENIED
    with pytest.raises(ConfigurationError, match=r"there is no log 'unknown'.*or these credentials may not see it"):
        CommitLog.connect(settings=replace(of_role[Role.WRITER], log="unknown"))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"sasl.password": "guessed"}, r"does not let this process in.*SASL authentication error.*Check kafka\.sasl"),
        ({"sasl.username": "nobody"}, r"does not let this process in.*SASL authentication error"),
        ({"sasl.mechanism": "PLAIN"}, r"does not let this process in.*mechanisms: SCRAM-SHA-256"),
        (
            {"ssl.ca.location": "strangers"},
            r"by TLS.*is not trusted: unable to get local issuer.*kafka\.ssl\.ca\.location",
        ),
        (
            {"security.protocol": "PLAINTEXT"},
            r"does not answer on them.*security\.protocol is PLAINTEXT.*it wants TLS.*another directory.*COMMITLOG_HOME",
        ),
    ],
)
def test_client_when_password_user_or_certificate_is_wrong_then_told_so_and_nothing_secret(
    of_role: dict[Role, Settings],
    wrong: dict[str, str],
    why: str,
    certificates: Certificates,
    caplog: pytest.LogCaptureFixture,
) -> None:
    known = of_role[Role.WRITER]
    options = {name: str(certificates.strangers) if value == "strangers" else value for name, value in wrong.items()}
    settings = replace(known, kafka={**known.kafka, **options}, receipts_timeout_ms=3_000)
    with pytest.raises(LogUnavailableError, match=why) as raised:
        CommitLog.connect(settings=settings)
    for told in (str(raised.value), repr(settings), caplog.text):
        assert known.kafka["sasl.password"] not in told
        assert "guessed" not in told


@contextmanager
def tls_server(certificates: Certificates) -> Iterator[str]:
    """Where somebody shows a certificate to each who comes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.certificate, certificates.key)

    class Shows(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                context.wrap_socket(self.request, server_side=True).close()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Shows) as server:
        serving_it = threading.Thread(target=server.serve_forever)
        serving_it.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            serving_it.join()


def told_of_nobody(settings: Settings) -> str:
    """What a client says that nobody has answered for a while; of a busy machine it has heard no cause yet."""
    with pytest.raises(LogUnavailableError) as raised:
        answered(settings, lambda: make_admin(settings).list_topics(timeout=1), timeout_s=2)
    return str(raised.value)


@pytest.mark.parametrize(
    ("host", "ends_in_days", "why"),
    [
        ("127.0.0.1", -1, r"127\.0\.0\.1:\d+ shows a certificate that is not trusted: certificate has expired"),
        ("localhost", 1, r"localhost:\d+ shows a certificate that is not trusted: Hostname mismatch"),
    ],
)
def test_client_when_the_certificate_has_ended_or_is_another_hosts_then_told_so(
    super_user: Settings, tmp_path: Path, host: str, ends_in_days: int, why: str
) -> None:
    made = make_certificates(tmp_path, ends_in_days=ends_in_days)
    options = {"security.protocol": "SSL", "ssl.ca.location": str(made.authority)}
    with tls_server(made) as address:
        servers = address.replace("127.0.0.1", host)
        settings = replace(super_user, bootstrap_servers=servers, kafka=options)
        wait_until(lambda: re.search(why, told_of_nobody(settings)), why, deadline_s=WITHIN_S)


def test_client_when_a_host_has_no_address_or_an_option_is_none_of_kafkas_then_told_so(super_user: Settings) -> None:
    nowhere = replace(super_user, bootstrap_servers="kafka.invalid:9092")
    why = r"cannot be found.*'kafka\.invalid:9092'.*COMMITLOG_BOOTSTRAP_SERVERS"
    wait_until(lambda: re.search(why, told_of_nobody(nowhere)), why, deadline_s=WITHIN_S)
    for wrong in ({"sasl.pasword": "x"}, {"security.protocol": "SASL_SSL "}, {"ssl.ca.location": "/nowhere.pem"}):
        settings = replace(super_user, kafka={**super_user.kafka, **wrong})
        for make in (make_admin, make_consumer, make_producer):
            with pytest.raises(ConfigurationError, match=r"sasl\.pasword|security\.protocol|ssl\.ca\.location"):
                make(settings)


def revoke(super_user: Settings, role: Role, operation: str, topic: str) -> None:
    """Take a right away, by an administrator's mistake."""
    principal, asking = f"User:the-{role}", admin(super_user)
    allowing = (AclOperation[operation], AclPermissionType.ALLOW)
    rule = AclBindingFilter(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, principal, "*", *allowing)
    assert len(asking.delete_acls([rule])[rule].result(timeout=20)) == 1


def give_back(super_user: Settings, role: Role) -> None:
    assert apply(super_user, {role: [f"the-{role}"]}) > 0


def commits(log: CommitLog, ids: Ids) -> bool:
    """Whether a proposal is answered, soon."""
    try:
        outcome = log.submit(proposal(ids, 0, create_table(f"t{secrets.token_hex(4)}")), timeout_ms=20_000)
    except (LogRefusedError, OutcomeUnknownError):
        return False
    return outcome.verdict is Verdict.COMMITTED


def test_writer_when_it_may_not_read_answers_for_a_while_then_nothing_is_sent_and_afterwards_it_goes_on(
    of_role: dict[Role, Settings], super_user: Settings, ids: Ids
) -> None:
    writer, refused = of_role[Role.WRITER], proposal(ids, 0, create_table())
    with serving(of_role[Role.SERVICE]), CommitLog.connect(settings=writer) as log:
        assert commits(log, ids)
        revoke(super_user, Role.WRITER, "READ", TOPICS.receipts)
        try:
            wait_until(lambda: not commits(log, ids), "the answers to be refused", deadline_s=WITHIN_S)
            with pytest.raises(LogRefusedError, match=rf"may not read {TOPICS.receipts}"):
                log.submit(refused)
        finally:
            give_back(super_user, Role.WRITER)
        # Of one writer what was sent first is decided first.
        wait_until(lambda: commits(log, ids), "answers again", deadline_s=WITHIN_S)
        with CommitLog.connect(settings=super_user) as looking:
            decided = {outcome.proposal_id for outcome in looking.subscribe(follow=False)}
        assert len(decided) >= 2
        assert refused.proposal_id not in decided


def test_service_when_it_may_not_write_results_for_a_while_then_says_what_it_lacks_and_goes_on(
    of_role: dict[Role, Settings], super_user: Settings, ids: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequencer, "DOUBT_PAUSE_S_MAX", 0.2)
    told: list[str] = []
    stop = threading.Event()
    with ThreadPoolExecutor(1) as threads, CommitLog.connect(settings=of_role[Role.WRITER]) as log:
        running = threads.submit(sequencer.run_sequencer, of_role[Role.SERVICE], stop=stop, on_doubt=told.append)
        try:
            assert commits(log, ids)
            assert not told
            revoke(super_user, Role.SERVICE, "WRITE", TOPICS.results)
            try:
                wait_until(lambda: bool(told) or not commits(log, ids), "it may not write", deadline_s=WITHIN_S)
                wait_until(lambda: bool(told), "what it lacks is told", deadline_s=WITHIN_S)
            finally:
                give_back(super_user, Role.SERVICE)
            assert "TOPIC_AUTHORIZATION_FAILED" in told[-1]
            assert "commitlog acl apply" in told[-1]
            wait_until(lambda: commits(log, ids), "answers again", deadline_s=WITHIN_S)
        finally:
            stop.set()
        assert running.result(WITHIN_S) == 0


def test_acl_commands_then_say_and_give_the_same_rights(super_user: Settings, broker: SecuredBroker) -> None:
    other = replace(super_user, log="told")
    arguments = ["--writer", "etl", "--service", "User:CN=service,O=lake"]
    run = CliRunner(env=other.environment())
    printed = run.invoke(cli, ["acl", "print", *arguments, "--json"], catch_exceptions=False)
    rules = [json.loads(line) for line in printed.output.splitlines()]
    assert {rule["principal"] for rule in rules} == {"User:etl", "User:CN=service,O=lake"}
    shown = run.invoke(cli, ["acl", "print", *arguments], catch_exceptions=False).output
    assert (
        "--operation Read --operation Describe --operation DescribeConfigs --operation Write --topic told.proposals"
        in shown
    )
    assert "'User:CN=service,O=lake'" not in shown
    assert "--resource-pattern-type prefixed" in shown
    applied = run.invoke(cli, ["acl", "apply", *arguments, "--json"], catch_exceptions=False)
    count = sum(len(rule["operations"]) for rule in rules)
    told: dict[str, Any] = json.loads(applied.output)
    assert told == {"kafka_rules": count, "grants": 0, "writers_of_results": ["User:CN=service,O=lake"]}
    assert run.invoke(cli, ["acl", "apply"]).exit_code != 0
    writer = replace(other, kafka=broker.options_of("etl", secrets.token_hex(16)))
    with pytest.raises(LogRefusedError):
        apply(writer, {Role.OWNER: ["etl"]})


def test_acl_apply_when_one_principal_has_several_roles_then_it_may_what_each_may(super_user: Settings) -> None:
    both = replace(super_user, log="both")
    may = {
        (rule.resource, rule.name, operation)
        for role in (Role.SERVICE, Role.WRITER)
        for rule in access_rules("both", role)
        for operation in rule.operations
    }
    assert apply(both, {Role.SERVICE: ["gateway"], Role.WRITER: ["gateway", "User:gateway"]}) == len(may)
    assert apply(both, {Role.WRITER: ["gateway"]}) < len(may)


def test_relay_when_it_has_its_role_then_a_program_at_the_border_is_answered_and_may_no_more(
    of_role: dict[Role, Settings], ids: Ids
) -> None:
    border, registry = of_role[Role.BORDER], RegistryServer()
    framing = registry.add(f"{BORDER.proposals}-value", schema_text("proposal.avsc"))
    proposed = proposal(ids, 0, create_table(f"t{secrets.token_hex(4)}"))
    sent = framed(encode_proposal(proposed), framing)
    with serving(of_role[Role.SERVICE]), serving_registry(registry) as url:
        relay, stop = replace(of_role[Role.RELAY], registry_url=url), threading.Event()
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(run_relay, relay, stop=stop)
            try:
                wait_until(lambda: outcomes_backlog(relay).readers() == 1, "the relay is there", deadline_s=WITHIN_S)
                producer = Producer({"bootstrap.servers": border.bootstrap_servers, **border.kafka})
                producer.produce(BORDER.proposals, sent)
                assert producer.flush(WITHIN_S) == 0
                found = read_by_group(border, f"{LOG}.border.x", BORDER.results, proposed.proposal_id)
            finally:
                stop.set()
            running.result(WITHIN_S)
    assert found
    for topic in (*TOPICS, BORDER.results, BORDER.receipts, BORDER.dead_letters):
        assert denial(border, topic) in DENIED


def read_by_group(settings: Settings, group: str, topic: str, wanted: bytes) -> bool:
    """Whether a record with these bytes comes to a consumer of a group in time."""
    consumer = Consumer(
        {
            "bootstrap.servers": settings.bootstrap_servers,
            **settings.kafka,
            "group.id": group,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    deadline = time.monotonic() + WITHIN_S
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None and wanted in (message.value() or b""):
                return True
        return False
    finally:
        consumer.close()


def test_rules_then_only_service_and_owner_write_what_is_told() -> None:
    for role in Role:
        topics = (rule for rule in access_rules(LOG, role) if rule.resource == "TOPIC")
        writes = {rule.name for rule in topics if "WRITE" in rule.operations}
        assert (
            writes
            == {
                Role.READER: set(),
                Role.WRITER: {TOPICS.proposals},
                Role.SERVICE: set(TOPICS) - {TOPICS.proposals, TOPICS.trims},
                Role.OWNER: set(TOPICS),
                Role.RELAY: {TOPICS.proposals, *BORDER},
                Role.BORDER: {BORDER.proposals},
            }[role]
        )


def test_rules_then_only_service_and_owner_delete_and_groups_of_others_are_nobodys() -> None:
    deletes = {Role.SERVICE: {TOPICS.proposals}, Role.OWNER: set(TOPICS)}
    subscribers = f"{LOG}.subscribers."
    groups = {Role.RELAY: {subscribers, relay_of(LOG)}, Role.BORDER: {f"{LOG}.border."}}
    for role in Role:
        rules = access_rules(LOG, role)
        assert {each.name for each in rules if "DELETE" in each.operations} == deletes.get(role, set())
        reading = {each.name for each in rules if each.resource == "GROUP" and "READ" in each.operations}
        assert reading == groups.get(role, {subscribers})


def test_rules_then_who_trims_results_sees_what_the_border_has_of_them() -> None:
    assert {rule.name for rule in access_rules(LOG, Role.OWNER) if "READ" in rule.operations} >= {BORDER.results}
