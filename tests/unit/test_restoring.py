"""A log made again in an empty broker, on a client that says whatever it can say of what it was given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from deliveries import Said, SayingProducer

from commitlog.config import Settings
from commitlog.errors import LogUnavailableError
from commitlog.ops.maintenance import restoring


def write(monkeypatch: pytest.MonkeyPatch, home: Path, said: list[Said], end: int) -> None:
    """Three messages, of whose topic it is found afterwards that it ends there."""
    monkeypatch.setattr(restoring, "topic_message_bytes_max", lambda settings, topic: 1_000)
    monkeypatch.setattr(restoring, "make_producer", lambda settings, **options: SayingProducer(*said))
    monkeypatch.setattr(restoring, "end_offsets", lambda settings, topic, partitions: dict.fromkeys(partitions, end))
    with restoring._Writing(Settings.load(environment={}, home=home), "results", 0) as writing:
        writing.fill_to(3)


@pytest.mark.parametrize("offsets", [(0, 1, 2), (0, -1001, 2), (0, 1, None)])
def test_records_when_all_are_there_then_written(
    offsets: tuple[int | None, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(monkeypatch, tmp_path, [(None, offset) for offset in offsets], end=3)


class Failing(SayingProducer):
    """Says at once what it has to say."""

    given = 0

    def produce(self, *record: object, **options: Any) -> None:
        self.given += 1
        super().produce(*record, **options)

    def poll(self, timeout_s: float) -> None:
        self.flush(timeout_s)


def test_records_when_one_could_not_be_written_then_no_more_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    producer = Failing((KafkaError(KafkaError._MSG_TIMED_OUT), None))
    monkeypatch.setattr(restoring, "topic_message_bytes_max", lambda settings, topic: 1_000)
    monkeypatch.setattr(restoring, "make_producer", lambda settings, **options: producer)
    settings = Settings.load(environment={}, home=tmp_path)
    with pytest.raises(LogUnavailableError, match="timed out"), restoring._Writing(settings, "results", 0) as writing:
        writing.fill_to(1_000)
    assert producer.given == 1


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([(None, 0), (None, 1), (None, None)], "it ends at 2 instead of 3"),
        ([(None, 0), (None, 1), (None, -1001)], "it ends at 2 instead of 3"),
        ([(None, 0), (None, 2), (None, 3)], "somebody else writes: offset 2 instead of 1"),
        ([(None, 0), (KafkaError(KafkaError._MSG_TIMED_OUT), None), (None, 1)], "timed out"),
        ([(None, 0), (None, 1)], "1 messages wait"),
    ],
)
def test_records_when_one_may_not_be_there_then_the_log_is_not_called_restored(
    said: list[Said], why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(LogUnavailableError, match=rf"has not taken all of results: .*{why}.* restore it again"):
        write(monkeypatch, tmp_path, said, end=2)
