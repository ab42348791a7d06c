"""How a log's topics must be set, so that nothing is lost or refused: they are created so, and checked."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from commitlog.config import Settings
from commitlog.domain.model.definitions import counted
from commitlog.errors import ConfigurationError, LogRefusedError, LogUnavailableError
from commitlog.log.connection import FRAME_BYTES, REQUEST_TIMEOUT_S, all_answered, cluster_of, make_admin
from commitlog.log.topics import topics_of

OUTCOME_ROOM_BYTES = 64 * 1024
"""What an outcome may take beside twice its proposal, so that it always fits."""
REPLICAS = 3
"""Of each partition, where there are brokers enough."""
VISIBLE_TIMEOUT_S = 30.0
_NOT_ALLOWED = ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED")
_NO_TOPIC = "UNKNOWN_TOPIC_OR_PART"
FENCED, FENCED_PAUSE_S = "brokers are currently fenced", 0.2
HEARD_TIMEOUT_S, HEARD_PAUSE_S = 1.0, 0.005
RECEIPTS_KEPT_MS = 60 * 60 * 1000
HEARTBEATS_KEPT_MS = 10 * 60 * 1000


def outcome_bytes_max(proposal_bytes_max: int) -> int:
    """The largest message of the results and dead-letters topics."""
    return 2 * proposal_bytes_max + OUTCOME_ROOM_BYTES


_FOR_EVER = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


def _for(kept_ms: int) -> dict[str, str]:
    return {"cleanup.policy": "delete", "retention.ms": str(kept_ms), "segment.ms": str(kept_ms)}


def wanted_topics(log: str, partitions: int, proposal_bytes_max: int) -> dict[str, tuple[int, dict[str, str]]]:
    """Partitions and settings by topic. Proposals are kept until the checkpointer trims them."""
    names = topics_of(log)
    small = {"max.message.bytes": str(proposal_bytes_max + FRAME_BYTES)}
    large = {"max.message.bytes": str(outcome_bytes_max(proposal_bytes_max))}
    return {
        names.proposals: (partitions, {**_FOR_EVER, **small}),
        names.results: (1, {**_FOR_EVER, **large}),
        names.receipts: (partitions, {**_for(RECEIPTS_KEPT_MS), **large}),
        names.dead_letters: (1, {**_FOR_EVER, **large}),
        names.control: (1, _for(HEARTBEATS_KEPT_MS)),
    }


def with_trims(
    log: str, wanted: Mapping[str, tuple[int, dict[str, str]]], existing: Container[str]
) -> dict[str, tuple[int, dict[str, str]]]:
    """The topics of a log with the one where trims are noted, if there is one: without its notes what was trimmed is a loss."""
    trims = topics_of(log).trims
    return {**wanted, trims: (1, _FOR_EVER)} if trims in existing else dict(wanted)


def create_topics(settings: Settings, partitions: int, proposal_bytes_max: int, *, is_new: bool = False) -> None:
    """Creates those of the log's topics that are not there, and checks the others.

    is_new: there is no such log yet, so that somebody else has made them.

    Raises:
        ConfigurationError: a topic is there with settings under which the log could lose or refuse something.
        LogUnavailableError: no broker has answered.
    """
    ensure_topics(settings, wanted_topics(settings.log, partitions, proposal_bytes_max))
    check_topics(settings, partitions, proposal_bytes_max, is_new=is_new)


def ensure_topics(settings: Settings, wanted: Mapping[str, tuple[int, dict[str, str]]]) -> None:
    """Creates the topics that are not there, with these partitions and settings, replicated as safely as the cluster can.

    Raises:
        ConfigurationError: one cannot be created.
        LogUnavailableError: no broker has answered.
    """
    existing = partition_counts(settings)
    if wanted.keys() <= existing.keys():
        return
    safe = _safe(settings)
    missing = [
        NewTopic(name, num_partitions=count, replication_factor=REPLICAS if safe else -1, config={**config, **safe})
        for name, (count, config) in wanted.items()
        if name not in existing
    ]
    for topic in missing:
        _create_one(settings, topic)
    _wait_until_visible(settings, [topic.topic for topic in missing])


def create_trims_topic(settings: Settings) -> None:
    """Creates the topic where trims are noted, where it is not there; raises as `ensure_topics`."""
    ensure_topics(settings, {topics_of(settings.log).trims: (1, _FOR_EVER)})


def _safe(settings: Settings) -> dict[str, str]:
    """How topics are set where there are brokers enough to keep each record several times."""
    brokers = len(cluster_of(settings).brokers)
    return {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"} if brokers >= REPLICAS else {}


def _create_one(settings: Settings, topic: NewTopic) -> None:
    admin, name, machine = make_admin(settings), topic.topic, settings.machine
    deadline = machine.now_s() + VISIBLE_TIMEOUT_S
    while True:
        try:
            all_answered(settings, lambda: admin.create_topics([topic], request_timeout=REQUEST_TIMEOUT_S))
            return
        except LogRefusedError as error:
            # Another `init` at the same moment is as good, and so is an attempt of ours whose answer was lost.
            if error.code == "TOPIC_ALREADY_EXISTS":
                return
            # Brokers that have just been started, or were slow to say that they live, are let in again soon.
            if FENCED not in error.detail or machine.now_s() > deadline:
                may = ". `commitlog acl apply --owner` lets an owner" if error.code in _NOT_ALLOWED else ""
                raise ConfigurationError(f"the topic {name} cannot be created: {error.detail}{may}") from None
        machine.sleep(FENCED_PAUSE_S)


def _wait_until_visible(settings: Settings, names: list[str]) -> None:
    """Until every broker that can be asked knows the topics: the next request may be any one's."""
    brokers = cluster_of(settings).brokers.values()
    admins = [make_admin(settings)]
    if len(brokers) > 1:
        admins = [make_admin(replace(settings, bootstrap_servers=f"{each.host}:{each.port}")) for each in brokers]
    deadline = settings.machine.now_s() + VISIBLE_TIMEOUT_S
    while not all(_all_lead(each, names) for each in admins):
        if settings.machine.now_s() > deadline:
            waited_ms = int(VISIBLE_TIMEOUT_S * 1000)
            detail = f"new topics have no leader yet: {', '.join(names)}"
            raise LogUnavailableError(settings.bootstrap_servers, waited_ms=waited_ms, detail=detail)
        settings.machine.sleep(0.02)


def _all_lead(admin: AdminClient, names: list[str]) -> bool:
    """Whether a broker knows who leads each partition; one that does not answer leads nobody astray."""
    try:
        known = admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics
    except KafkaException:
        return True
    return all(name in known and all(each.leader >= 0 for each in known[name].partitions.values()) for name in names)


def partition_counts(settings: Settings) -> dict[str, int]:
    """How many partitions each topic of the cluster has."""
    return {name: len(topic.partitions) for name, topic in cluster_of(settings).topics.items()}


def missing_topics(settings: Settings, wanted: Iterable[str]) -> list[str]:
    """Those of the topics that are not there; of one that these credentials may not look at Kafka says another thing."""
    known, missing = partition_counts(settings), list[str]()
    for name in wanted:
        try:
            if name not in known:
                described(settings, [name])
        except LogRefusedError as error:
            if error.code == _NO_TOPIC:
                missing.append(name)
    return missing


def check_topics(settings: Settings, partitions: int, proposal_bytes_max: int = 0, *, is_new: bool = False) -> None:
    """Checks that the topics are there and set so that nothing is lost or refused.

    is_new: as in `create_topics`.

    Raises:
        ConfigurationError: which topic, what is wrong with it, and what to do.
        LogUnavailableError: no broker has answered.
    """
    wanted = wanted_topics(settings.log, partitions, proposal_bytes_max)
    existing = partition_counts(settings)
    for name, (count, _) in wanted.items():
        if name not in existing:
            raise ConfigurationError(f"there is no topic {name}: `commitlog init` creates what a log lacks")
        if existing[name] != count and is_new:
            has = counted(existing[name], "partition")
            raise ConfigurationError(
                f"the topic {name} has {has}, the log {settings.log}, which is not there yet, would have {count}: delete that "
                "topic, unless a log that had it is to be restored (docs/retention.md), and `commitlog init` makes it"
                f"{_or_so_many(settings, name, existing[name])}"
            )
        if existing[name] != count:
            raise ConfigurationError(
                f"the topic {name} has {counted(existing[name], 'partition')}, the log {settings.log} has {count}, which "
                "cannot be changed: docs/retention.md says how its topics are made as they were"
            )
    if wrong := wrong_settings(settings, with_trims(settings.log, wanted, existing)):
        raise ConfigurationError("\n".join(f"{each.what}: {each.command}" for each in wrong))


def _or_so_many(settings: Settings, topic: str, has: int) -> str:
    """What else helps a new log whose topic has another number of partitions: to take that number."""
    is_chosen = topic in (topics_of(settings.log).proposals, topics_of(settings.log).receipts)
    return f"; or give the log as many (COMMITLOG_PARTITIONS={has})" if is_chosen else ""


class WrongSetting(NamedTuple):
    """A topic's setting under which a log loses or refuses something, and the command that mends it."""

    what: str
    command: str


def wrong_settings(settings: Settings, wanted: Mapping[str, tuple[int, dict[str, str]]]) -> list[WrongSetting]:
    """How topics are set otherwise than they must be; raises as `described`."""
    found = described(settings, wanted)
    return [wrong for name, given in found.items() for wrong in _wrong_settings(name, wanted[name][1], given)]


def repartitioned(settings: Settings, wanted: Mapping[str, tuple[int, dict[str, str]]]) -> list[WrongSetting]:
    """Topics that have another number of partitions than the log was made with, which Kafka does not take back."""
    known = partition_counts(settings)
    return [
        WrongSetting(
            f"the topic {name} has {counted(known[name], 'partition')}, the log {count}: its service is not started again "
            "once it has ended",
            "docs/retention.md says how its topics are made as they were",
        )
        for name, (count, _) in wanted.items()
        if known.get(name, count) != count
    ]


def _wrong_settings(topic: str, wanted: Mapping[str, str], found: Mapping[str, str | None]) -> Iterator[WrongSetting]:
    for key, value in wanted.items():
        actual = found.get(key)
        if key == "segment.ms" or actual is None or actual == value:
            continue
        if value != "-1" and actual.lstrip("-").isdigit() and (actual == "-1" or int(actual) >= int(value)):
            continue
        yield WrongSetting(
            f"the topic {topic} has {key}={actual}, a log needs {value}",
            command_setting(topic, key, value),
        )


def command_setting(topic: str, key: str, value: str) -> str:
    """The command of Kafka's own tool that sets something of a topic."""
    return f"kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config {key}={value}"


def allow_proposal_bytes(settings: Settings, proposal_bytes_max: int) -> None:
    """Lets the topics take proposals of a size that CONFIGURE has raised; never takes room away.

    Whoever is answered then proposes as much: a broker is waited for that has not heard of it yet, but no longer than a standby
    waits for a sequencer.

    Raises:
        LogRefusedError: these credentials may not, or nobody may on this broker; the message says what to set.
        LogUnavailableError: no broker has answered.
    """
    wanted, names = wanted_topics(settings.log, 1, proposal_bytes_max), topics_of(settings.log)
    del wanted[names.control]
    # Last: what comes larger must find its answer a place.
    wanted[names.proposals] = wanted.pop(names.proposals)
    allow_messages(settings, wanted, role="service")


def allow_messages(settings: Settings, wanted: Mapping[str, tuple[int, dict[str, str]]], *, role: str) -> None:
    """Lets topics take messages as large as they should, one after another; raises as `allow_proposal_bytes`.

    role: whose credentials may, where Kafka has rules.
    """
    sizes = {name: int(config["max.message.bytes"]) for name, (_, config) in wanted.items()}
    narrow = _too_narrow(settings, sizes)
    if not narrow:
        return
    admin = make_admin(settings)
    try:
        for change in [_raised(name, sizes[name]) for name in narrow]:
            all_answered(
                settings,
                lambda change=change: admin.incremental_alter_configs(  # type: ignore[misc]
                    [change], request_timeout=REQUEST_TIMEOUT_S
                ),
            )
    except LogRefusedError as error:
        needed = ", ".join(f"{name} needs max.message.bytes={sizes[name]}" for name in narrow)
        detail = (
            f"messages may be larger than topics take: {needed}. `commitlog acl apply --{role}` lets a {role} set that, or set "
            f"it by kafka-configs.sh ({error.detail})"
        )
        raise LogRefusedError(settings.bootstrap_servers, error.code, detail=detail) from None
    deadline = settings.machine.now_s() + HEARD_TIMEOUT_S
    while _too_narrow(settings, sizes) and settings.machine.now_s() < deadline:
        settings.machine.sleep(HEARD_PAUSE_S)


def _too_narrow(settings: Settings, wanted: Mapping[str, int]) -> list[str]:
    """The topics that do not take messages of the wanted sizes, in bytes."""
    found = described(settings, wanted)
    return [name for name, size in wanted.items() if int(found[name]["max.message.bytes"] or 0) < size]


def described(settings: Settings, names: Iterable[str]) -> dict[str, dict[str, str | None]]:
    """The settings of topics; LogUnavailableError when no broker answers."""
    admin, resources = make_admin(settings), [ConfigResource(ResourceType.TOPIC, name) for name in names]
    found = all_answered(settings, lambda: admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_S))
    return {str(each.name): {key: entry.value for key, entry in entries.items()} for each, entries in found.items()}


def topic_message_bytes_max(settings: Settings, *topics: str) -> int:
    """The largest batch that each of some topics takes."""
    try:
        return min(int(each["max.message.bytes"] or 0) for each in described(settings, topics).values())
    except LogRefusedError as error:
        raise ConfigurationError(f"{', '.join(topics)} cannot be looked at: {error.detail}") from None


def _raised(topic: str, bytes_max: int) -> ConfigResource:
    entry = ConfigEntry("max.message.bytes", str(bytes_max), incremental_operation=AlterConfigOpType.SET)
    return ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
