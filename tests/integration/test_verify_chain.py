"""`commitlog verify --chain` on a real broker: copies of a log, each with something changed, and the hash that was noted."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Sequence
from typing import NamedTuple

from click.testing import CliRunner, Result
from confluent_kafka import Message, Producer
from log_running import Ids, append, create_table, proposal, seed_of, serving

from commitlog.catalog.projector import Projector
from commitlog.config import Settings
from commitlog.log.codec import decode_statistics
from commitlog.log.connection import make_producer
from commitlog.log.publisher import Publisher
from commitlog.log.results import read_messages, results_end
from commitlog.log.topic_settings import create_topics
from commitlog.log.topics import topics_of
from commitlog.ops.cli import cli
from commitlog.ops.service.serve import prepare

COPIES = 3


class Change(NamedTuple):
    """What is done to one record: to which part of it."""

    offset: int
    part: str
    place: int


def run(settings: Settings, *arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments, env=settings.environment())


def a_log(settings: Settings) -> list[Message]:
    """Some outcomes of two epochs."""
    prepare(settings)
    ids = Ids(seed_of("chain"))
    for count in (4, 5):
        with serving(settings) as sequencer, Publisher(settings) as publisher:
            base = sequencer.status.head_snapshot_id
            sent = [proposal(ids, base, *([create_table()] if base == 0 and n == 0 else [append(f"{count}-{n}")]))
                    for n in range(count)]  # fmt: skip
            for each in sent:
                publisher.publish(each).wait(30)
    return list(read_messages(settings, 0, results_end(settings)))


def copied(settings: Settings, name: str, records: Sequence[Message], change: Change) -> Settings:
    """Another log of the same records, but for a bit."""
    copy = dataclasses.replace(settings, log=name)
    create_topics(copy, copy.partitions, copy.proposal_bytes_max)
    producer: Producer = make_producer(copy)
    for offset, message in enumerate(records):
        value, key, headers = message.value() or b"", message.key(), message.headers()
        if offset == change.offset:
            if change.part == "key":
                key = b"k"
            elif change.part == "headers":
                headers = [("h", b"v")]
            else:
                place = change.place % len(value)
                value = value[:place] + bytes([value[place] ^ 1 << change.place % 8]) + value[place + 1 :]
        producer.produce(topics_of(name).results, value=value, key=key, headers=headers, partition=0)
    assert producer.flush(30) == 0
    return copy


def test_verify_chain_when_a_byte_was_changed_anywhere_then_its_place_is_named(settings: Settings) -> None:
    settings = dataclasses.replace(settings, partitions=2)
    records, chance = a_log(settings), random.Random(seed_of("flips"))
    noted = run(settings, "log", "--head-hash")
    assert noted.exit_code == 0, noted.output
    expect = noted.output.strip()
    assert expect.startswith("9:")
    well = run(settings, "verify", "--chain", "--expect", expect)
    assert (well.exit_code, well.output.splitlines()[-1]) == (0, "the log is as it was written"), well.output
    changes = [Change(chance.randrange(len(records)), "value", chance.randrange(10_000)) for _ in range(COPIES)]
    changes += [Change(3, "key", 0), Change(len(records) - 1, "headers", 0), Change(len(records) - 1, "value", 777)]
    for number, change in enumerate(changes):
        copy = copied(settings, f"{settings.log}-{number}", records, change)
        looked = run(copy, "verify", "--chain", "--no-catalog", "--expect", expect, "--json")
        assert looked.exit_code == 1, (change, looked.output)
        if change.offset == 0 and not looked.output.startswith("{"):
            continue  # Not even the log's name is to be had.
        found = json.loads(looked.output)["breaks"]
        assert any(each["first_offset"] <= change.offset <= each["last_offset"] for each in found), (change, found)


def test_verify_chain_when_the_catalog_knows_another_end_then_it_is_the_witness(settings: Settings) -> None:
    settings = dataclasses.replace(settings, partitions=2)
    records = a_log(settings)
    Projector(settings, decode_statistics=decode_statistics).project_to_end()
    # The last outcome has no successor that would vouch for it.
    last = Change(len(records) - 1, "value", len(records[-1].value() or b"") - 1)
    copy = copied(settings, f"{settings.log}-copy", records, last)
    looked = run(copy, "verify", "--chain")
    assert looked.exit_code == 1
    assert "outcome 9 has the hash" in looked.output
    assert "the catalog knows it with" in looked.output


def test_verify_chain_when_the_hash_is_none_then_it_says_what_to_give(settings: Settings) -> None:
    for given in ("abc", "9:abc", "9:" + "x" * 64, "x:" + "0" * 64):
        looked = run(settings, "verify", "--chain", "--expect", given)
        assert (looked.exit_code, type(looked.exception).__name__) == (1, "ConfigurationError")
    assert "needs --chain" in run(settings, "verify", "--expect", "9:abc").output
