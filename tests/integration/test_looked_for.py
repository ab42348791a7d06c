"""Proposals that are looked for while they are decided and trimmed."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from log_running import Ids, create_table, projecting, proposal, serving

from commitlog import CommitLog
from commitlog.client.access import kafka_access, proposals_lookup
from commitlog.client.access.log_access import OutcomeState
from commitlog.client.access.proposals_lookup import Searched, find_queued
from commitlog.client.ids import id_at
from commitlog.config import Settings
from commitlog.domain.model import ProposalId
from commitlog.errors import OutcomeUnknownError
from commitlog.log.connection import end_offsets, make_admin
from commitlog.log.genesis import init_log, require_genesis
from commitlog.log.publisher import Publisher
from commitlog.log.reading import TopicLossError, read_through
from commitlog.log.topics import topics_of


def trim(settings: Settings, partition: int, offset: int) -> None:
    below = [TopicPartition(topics_of(settings.log).proposals, partition, offset)]
    for future in make_admin(settings).delete_records(below).values():
        future.result()


@pytest.fixture
def sent(settings: Settings, ids: Ids) -> list[ProposalId]:
    """Three proposals of a log that nobody serves yet, in one partition."""
    init_log(settings)
    made = [proposal(ids, 0, create_table(f"t{number}")) for number in range(3)]
    with Publisher(settings) as publisher:
        pending = [publisher.publish(each) for each in made]
        for each in pending:
            with pytest.raises(OutcomeUnknownError):
                each.wait(0.2)
    return [each.proposal_id for each in made]


def partition_of(settings: Settings) -> int:
    ends = end_offsets(settings, topics_of(settings.log).proposals, range(settings.partitions))
    [partition] = [each for each, end in ends.items() if end == 3]
    return partition


def test_proposals_when_trimmed_while_they_are_looked_for_then_the_others_are_found(
    settings: Settings, sent: list[ProposalId], monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = partition_of(settings)
    real = proposals_lookup.end_offsets

    def trimmed(*arguments: object) -> object:
        ends = real(*arguments)  # type: ignore[arg-type]
        trim(settings, partition, 2)
        return ends

    monkeypatch.setattr(proposals_lookup, "end_offsets", trimmed)
    genesis = require_genesis(settings)
    of = genesis.partitions, genesis.settings.clock_skew_ms_max
    assert [find_queued(settings, *of, each).found for each in sent] == [False, False, True]
    topic, start, end = topics_of(settings.log).proposals, {partition: 0}, {partition: 3}
    with pytest.raises(TopicLossError, match="no offset 0 any more"):
        list(read_through(settings, topic, start, end))
    assert len(list(read_through(settings, topic, start, end, skips_trimmed=True))) == 1
    trim(settings, partition, 3)
    assert list(read_through(settings, topic, start, end, skips_trimmed=True)) == []


def test_proposal_when_the_clock_that_made_its_id_was_ahead_then_it_is_found(settings: Settings, ids: Ids) -> None:
    genesis = init_log(settings)
    skew_ms = genesis.settings.clock_skew_ms_max
    ahead_ms = time.time_ns() // 1_000_000 + skew_ms
    sent = proposal(ids, 0, create_table()).replace(proposal_id=id_at(ahead_ms, 0, 0))
    with Publisher(settings) as publisher, pytest.raises(OutcomeUnknownError):
        publisher.submit(sent, timeout_s=0.2)
    assert find_queued(settings, genesis.partitions, skew_ms, sent.proposal_id).found


def test_outcome_when_it_is_decided_and_trimmed_while_it_is_looked_for_then_it_is_found_all_the_same(
    settings: Settings, sent: list[ProposalId], monkeypatch: pytest.MonkeyPatch
) -> None:
    def decided_and_trimmed(settings: Settings, *asked: Any) -> Searched:
        with serving(settings), closing(Publisher(settings)):
            pass
        trim(settings, partition_of(settings), 3)
        return find_queued(settings, *asked)

    monkeypatch.setattr(kafka_access, "find_queued", decided_and_trimmed)
    with projecting(settings), CommitLog.connect(settings=settings) as log:
        found = log.outcome(sent[1])
    assert found.state is OutcomeState.DECIDED
    assert found.outcome is not None
    assert found.outcome.proposal_id == sent[1]
