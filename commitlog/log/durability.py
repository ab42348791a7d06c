"""Whether Kafka keeps what it has acknowledged: what a production topic needs beyond what a log cannot do without.

For a log that was made on fewer than three brokers this is only good to know: an embedded one, or a test's, has nobody to
copy to.
"""

from __future__ import annotations

from typing import NamedTuple

from confluent_kafka import TopicCollection

from commitlog.config import Settings
from commitlog.domain.model import Genesis
from commitlog.domain.model.definitions import counted
from commitlog.log.connection import REQUEST_TIMEOUT_S, all_answered, cluster_of, make_admin
from commitlog.log.topic_settings import (
    REPLICAS,
    command_setting,
    described,
    repartitioned,
    wanted_topics,
    with_trims,
    wrong_settings,
)
from commitlog.log.topics import topics_of

IN_SYNC_MIN = 2
IN_SYNC_SETTING = "min.insync.replicas"
UNCLEAN_SETTING = "unclean.leader.election.enable"


class Weakness(NamedTuple):
    """One thing by which acknowledged records could get lost; ``is_note`` where the cluster is too small for better."""

    what: str
    advice: str
    is_note: bool


def weaknesses(settings: Settings, genesis: Genesis) -> list[Weakness]:
    """What a log's topics lack of replication 3, all replicas in sync, acknowledgements by two and clean elections only,
    and how one is set so that it loses records by itself, or its service is not started again.

    Args:
        settings: which log, and where.
        genesis: what it was made with.

    Raises:
        LogRefusedError: a topic is not there, or may not be looked at.
        LogUnavailableError: no broker has answered.
    """
    cluster = cluster_of(settings)
    wanted = wanted_topics(settings.log, genesis.partitions, genesis.settings.proposal_bytes_max)
    brokers, kept = len(cluster.brokers), with_trims(settings.log, wanted, cluster.topics)
    # A service looks when it begins; they may have been set otherwise since.
    wrong = (*wrong_settings(settings, kept), *repartitioned(settings, wanted))
    found = [Weakness(each.what, each.command, is_note=False) for each in wrong]
    topics = topics_of(settings.log)
    # Where trims are noted it is told what else were a loss of results.
    lasting = (topics.proposals, topics.results, topics.trims)
    copies = {name: _copies(settings, name) for name in lasting if name in kept}
    # A broker that is away is not among those that Kafka names.
    if brokers < REPLICAS and min(each.replicas for each in copies.values()) < REPLICAS:
        what = f"Kafka has {counted(brokers, 'broker')}: a lost disk, or a power loss, can lose what was acknowledged"
        advice = f"use {REPLICAS} brokers in production; on fewer set flush.messages=1 on proposals and results, or accept it"
        return [*found, Weakness(what, advice, is_note=True)]
    for name, values in described(settings, copies).items():
        replicas, in_sync = copies[name]
        if replicas < REPLICAS:
            advice = f"reassign its partitions to {REPLICAS} replicas each (kafka-reassign-partitions.sh)"
            found.append(Weakness(f"the topic {name} has {counted(replicas, 'replica')}", advice, is_note=False))
        elif in_sync < replicas:
            what = f"of the {replicas} replicas of the topic {name} {in_sync} hold all that was acknowledged"
            advice = (
                "start the broker that is away; if another one has taken its place, reassign its partitions to brokers that "
                "run (kafka-reassign-partitions.sh)"
            )
            found.append(Weakness(what, advice, is_note=False))
        if int(values.get(IN_SYNC_SETTING) or 1) < IN_SYNC_MIN:
            found.append(_setting(name, IN_SYNC_SETTING, values, str(IN_SYNC_MIN)))
        if values.get(UNCLEAN_SETTING) == "true":
            found.append(_setting(name, UNCLEAN_SETTING, values, "false"))
    return found


class _Copies(NamedTuple):
    """How many brokers are to hold a partition, and how many hold all of it now."""

    replicas: int
    in_sync: int


def _copies(settings: Settings, topic: str) -> _Copies:
    """Of the partitions that have the fewest."""
    admin, topics = make_admin(settings), TopicCollection([topic])
    found = all_answered(settings, lambda: admin.describe_topics(topics, request_timeout=REQUEST_TIMEOUT_S))
    partitions = found[topic].partitions
    return _Copies(min(len(each.replicas) for each in partitions), min(len(each.isr) for each in partitions))


def _setting(topic: str, key: str, values: dict[str, str | None], wanted: str) -> Weakness:
    what = f"the topic {topic} has {key}={values.get(key)}, a log in production needs {wanted}"
    return Weakness(what, command_setting(topic, key, wanted), is_note=False)
