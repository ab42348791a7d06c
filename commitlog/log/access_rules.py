"""Who may do what with a log's topics, as Kafka ACLs.

Kafka knows who sends a request, and forgets it: a record says nothing of its sender. So these rules decide who may propose,
read and serve; that a writer uses no other's ``writer_id`` they cannot decide, and neither can the sequencer. Writers that do
not trust each other have logs of their own.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from commitlog.config import Settings
from commitlog.errors import LogUnavailableError
from commitlog.log.connection import REQUEST_TIMEOUT_S, all_answered, answered, cluster_of, make_admin
from commitlog.log.topics import border_topics_of, relay_of, topics_of


class Role(StrEnum):
    """What somebody is to a log; each but BORDER may also do what a reader may.

    READER: follows the outcomes, and asks for them. WRITER: proposes. SERVICE: decides, projects, saves checkpoints and
    trims proposals (`commitlog serve`). OWNER: creates the log, changes its topics and trims results. RELAY: takes
    proposals from the border and gives outcomes to it. BORDER: proposes and reads there, and may nothing in the log itself.
    """

    READER = "reader"
    WRITER = "writer"
    SERVICE = "service"
    OWNER = "owner"
    RELAY = "relay"
    BORDER = "border"


class AccessRule(NamedTuple):
    """What is allowed on one topic, consumer group or transactional id, or on all whose names begin with ``name``.

    Kafka's client asks for a consumer's group even where that has no use for one: such a group is called ``<log>.unused``.
    """

    resource: str
    name: str
    is_prefix: bool
    operations: tuple[str, ...]


KNOWN_TIMEOUT_S = 30.0
_EVERY_RULE = AclBindingFilter(
    ResourceType.ANY,
    None,  # type: ignore[arg-type]
    ResourcePatternType.ANY,
    None,  # type: ignore[arg-type]
    None,  # type: ignore[arg-type]
    AclOperation.ANY,
    AclPermissionType.ANY,
)
_READING = ("READ", "DESCRIBE", "DESCRIBE_CONFIGS")


def access_rules(log: str, role: Role) -> tuple[AccessRule, ...]:
    """The rules that let somebody be what a role says, and nothing more."""
    if role is Role.BORDER:
        return tuple(_of_border(log))
    topics = topics_of(log)
    added: dict[Role, Mapping[str, tuple[str, ...]]] = {
        Role.READER: {},
        Role.WRITER: {topics.proposals: ("WRITE",)},
        Role.SERVICE: {
            # A CONFIGURE may raise what they take.
            topics.proposals: ("DELETE", "ALTER_CONFIGS"),
            topics.results: ("WRITE", "ALTER_CONFIGS"),
            topics.receipts: ("WRITE", "ALTER_CONFIGS"),
            topics.dead_letters: ("WRITE", "ALTER_CONFIGS"),
            topics.control: ("WRITE",),
        },
        Role.OWNER: dict.fromkeys(topics, ("CREATE", "ALTER", "ALTER_CONFIGS", "WRITE", "DELETE")),
        Role.RELAY: {topics.proposals: ("WRITE",)},
    }
    return (
        *(AccessRule("TOPIC", topic, False, (*_READING, *added[role].get(topic, ()))) for topic in topics),
        AccessRule("GROUP", f"{log}.subscribers.", True, ("READ", "DESCRIBE")),
        AccessRule("GROUP", f"{log}.unused", False, ("DESCRIBE",)),
        *(_of_relay(log) if role is Role.RELAY else ()),
        # Who trims results leaves what the border lacks.
        *((AccessRule("TOPIC", border_topics_of(log).results, False, _READING),) if role is Role.OWNER else ()),
    )


def _of_relay(log: str) -> Iterator[AccessRule]:
    """What a relay may beside a writer."""
    for topic in border_topics_of(log):
        yield AccessRule("TOPIC", topic, False, (*_READING, "CREATE", "ALTER_CONFIGS", "WRITE"))
    yield AccessRule("GROUP", relay_of(log), True, ("READ", "DESCRIBE"))
    yield AccessRule("TRANSACTIONAL_ID", relay_of(log), False, ("WRITE", "DESCRIBE"))


def _of_border(log: str) -> Iterator[AccessRule]:
    """What programs may for which a relay stands at the border."""
    topics = border_topics_of(log)
    for topic in topics:
        yield AccessRule("TOPIC", topic, False, (*_READING, *(("WRITE",) if topic == topics.proposals else ())))
    yield AccessRule("GROUP", f"{log}.border.", True, ("READ", "DESCRIBE"))


def principal_of(name: str) -> str:
    """A principal as Kafka writes it: of a name alone, the user of that name."""
    return name if ":" in name else f"User:{name}"


def commands(log: str, principals: Mapping[Role, Collection[str]]) -> Iterator[str]:
    """The rules as commands of Kafka's own tool, one each; the cluster's address and credentials have to be added."""
    for principal, rule in _each(log, principals):
        words = ["kafka-acls.sh", "--add", "--allow-principal", principal]
        words += [
            word
            for operation in rule.operations
            for word in ("--operation", "".join(part.title() for part in operation.split("_")))
        ]
        pattern = ["--resource-pattern-type", "prefixed"] if rule.is_prefix else []
        yield shlex.join([*words, f"--{rule.resource.lower().replace('_', '-')}", rule.name, *pattern])


def apply(settings: Settings, principals: Mapping[Role, Collection[str]]) -> int:
    """Add the rules to Kafka, wait until every broker knows them, and return how many they are; none is ever there twice.

    Raises:
        LogRefusedError: Kafka has no authorizer, or these credentials may not change its rules.
        LogUnavailableError: no broker has answered, or one has not heard of the rules yet.
    """
    # Several roles of one principal have rules in common, and Kafka's client takes none twice.
    bindings = {
        AclBinding(
            ResourceType[rule.resource],
            rule.name,
            ResourcePatternType.PREFIXED if rule.is_prefix else ResourcePatternType.LITERAL,
            principal,
            "*",
            AclOperation[operation],
            AclPermissionType.ALLOW,
        )
        for principal, rule in _each(settings.log, principals)
        for operation in rule.operations
    }
    admin = make_admin(settings)
    all_answered(settings, lambda: admin.create_acls(list(bindings), request_timeout=REQUEST_TIMEOUT_S))
    _wait_until_known(settings, bindings)
    return len(bindings)


def _wait_until_known(settings: Settings, bindings: Collection[AclBinding]) -> None:
    """Wait until every broker has the rules; each hears of them a moment after the controller.

    The client asks the broker that the cluster's metadata names as the controller, which is any of them, by chance.
    """
    deadline = settings.machine.now_s() + KNOWN_TIMEOUT_S
    knowing: set[int] = set()
    while True:
        cluster = cluster_of(settings)
        asked = cluster.controller_id
        if asked not in knowing and set(bindings) <= set(_rules_told(settings, _EVERY_RULE)):
            knowing.add(asked)
        unheard = cluster.brokers.keys() - knowing
        if not unheard:
            return
        if settings.machine.now_s() > deadline:
            detail = f"these brokers have not heard of the rules yet: {', '.join(map(str, sorted(unheard)))}"
            waited_ms = int(KNOWN_TIMEOUT_S * 1000)
            raise LogUnavailableError(settings.bootstrap_servers, waited_ms=waited_ms, detail=detail)
        settings.machine.sleep(0.02)


def _rules_told(settings: Settings, wanted: AclBindingFilter) -> Iterable[AclBinding]:
    """The rules matching ``wanted`` that the broker has which happens to be asked."""
    admin = make_admin(settings)
    told: Iterable[AclBinding] = answered(
        settings, lambda: admin.describe_acls(wanted, request_timeout=REQUEST_TIMEOUT_S).result()
    )
    return told


def writers_of_results(settings: Settings) -> tuple[str, ...]:
    """The principals that Kafka's rules allow to write results; nobody but the service and the owner should be among them.

    Raises:
        LogRefusedError: Kafka has no authorizer, or these credentials may not see its rules.
        LogUnavailableError: no broker has answered.
    """
    wanted = AclBindingFilter(
        ResourceType.TOPIC,
        topics_of(settings.log).results,
        ResourcePatternType.MATCH,
        None,  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
        AclOperation.ANY,
        AclPermissionType.ALLOW,
    )
    found = _rules_told(settings, wanted)
    writing = (AclOperation.WRITE, AclOperation.ALL)
    return tuple(sorted({str(each.principal) for each in found if each.operation in writing}))


def _each(log: str, principals: Mapping[Role, Collection[str]]) -> Iterator[tuple[str, AccessRule]]:
    for role, names in principals.items():
        for name in names:
            for rule in access_rules(log, role):
                yield principal_of(name), rule
