"""Proposes a schema to a log and waits for the answer; knows Kafka and a schema registry, and nothing of commitlog.

python propose.py BOOTSTRAP_SERVERS REGISTRY_URL LOG NAME_OF_THE_NEW_SCHEMA [OPTION_OF_KAFKAS_CLIENT=VALUE ...]
"""

import os
import sys
import time

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext


def uuid7() -> bytes:
    """A proposal's id: UUID version 7, made once, and sent again with the same bytes after a failure."""
    at_ms, chance = time.time_ns() // 1_000_000, bytearray(os.urandom(10))
    chance[0], chance[2] = 0x70 | chance[0] & 0x0F, 0x80 | chance[2] & 0x3F
    return at_ms.to_bytes(6, "big") + bytes(chance)


servers, url, log, name, *given = sys.argv[1:]
options = {"bootstrap.servers": servers, **dict(each.split("=", 1) for each in given)}
proposals, results = f"{log}.proposals.confluent", f"{log}.results.confluent"
registry = SchemaRegistryClient({"url": url})
serialize = AvroSerializer(registry, conf={"auto.register.schemas": False, "use.latest.version": True})
deserialize = AvroDeserializer(registry)

consumer = Consumer(
    {
        **options,
        "group.id": f"{log}.border.example",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
    }
)
consumer.subscribe([results])


def outcomes():
    """Every outcome so far, and those to come; None at the end, as often as it is reached."""
    while True:
        message = consumer.poll(30)
        if message is None:
            raise SystemExit("no outcome within 30 s")
        if message.error() is None:
            yield deserialize(message.value(), SerializationContext(results, MessageField.VALUE))
        elif message.error().code() == KafkaError._PARTITION_EOF:
            yield None
        else:
            raise SystemExit(message.error().str())


told = outcomes()
head = 0
while (outcome := next(told)) is not None:
    head = outcome["head_snapshot_id"]

proposal = {
    "proposal_id": uuid7(),
    "writer_id": "registry-example",
    "base_snapshot_id": head,
    "message": "by a schema registry",
    "changes": [("commitlog.CreateSchema", {"schema": name})],
}
producer = Producer({**options, "enable.idempotence": True})
value = serialize(proposal, SerializationContext(proposals, MessageField.VALUE))
producer.produce(proposals, key=proposal["writer_id"], value=value)
producer.flush()

answer = next(each for each in told if each is not None and each["proposal_id"] == proposal["proposal_id"])
print(answer["verdict"], answer["snapshot_id"], answer["reason"], answer["detail"])
consumer.close()
