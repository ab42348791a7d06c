"""The note of a trim, on a client that says whatever it can say of a record."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError
from deliveries import Said, SayingProducer

from commitlog.config import Settings
from commitlog.errors import LogUnavailableError
from commitlog.log import trims
from commitlog.log.codec import Trim

NOTE = Trim(b"genesis", bytes(16), 5, 1, bytes(32), 9, 3, "/archive", 0)


@pytest.fixture
def deleted(monkeypatch: pytest.MonkeyPatch) -> list[Trim]:
    """What was deleted by its note."""
    found: list[Trim] = []
    monkeypatch.setattr(trims, "create_trims_topic", lambda settings: None)
    monkeypatch.setattr(trims, "delete_before", lambda settings, trim: found.append(trim))
    return found


def write(monkeypatch: pytest.MonkeyPatch, home: Path, said: list[Said]) -> None:
    monkeypatch.setattr(trims, "make_producer", lambda settings, **options: SayingProducer(*said))
    trims.write_trim(Settings.load(environment={}, home=home), NOTE)


def test_trim_when_its_note_is_there_then_deletes(
    deleted: list[Trim], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(monkeypatch, tmp_path, [(None, 0)])
    assert deleted == [NOTE]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([(None, None)], "acknowledged without an offset"),
        ([(None, -1001)], "acknowledged without an offset"),
        ([(KafkaError(KafkaError._MSG_TIMED_OUT), None)], "timed out"),
        ([], "no answer"),
    ],
)
def test_trim_when_its_note_may_not_be_there_then_deletes_nothing(
    said: list[Said],
    why: str,
    deleted: list[Trim],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    with pytest.raises(LogUnavailableError, match=rf"has not noted the trim: .*{why}.* Nothing was deleted"):
        write(monkeypatch, tmp_path, said)
    assert deleted == []
