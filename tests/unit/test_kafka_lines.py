"""What Kafka's clients say of a broker that does not answer: librdkafka says it several times a second."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import pytest

from commitlog.config import Settings
from commitlog.log.connection import make_consumer

NOBODY = "127.0.0.1:1"
REPEATED = 5


def test_client_when_no_broker_answers_then_one_line_says_so_however_often_it_tries(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = logging.getLogger("commitlog.kafka")
    once: Any = logger.filters[0]
    monkeypatch.setattr(once, "_said_at", -math.inf)
    monkeypatch.setattr(once, "_left_out", 0)
    settings = Settings.load(environment={"HOME": str(tmp_path)}, bootstrap_servers=NOBODY)
    consumer = make_consumer(settings, reconnect_backoff_ms=10, reconnect_backoff_max_ms=50)
    while once._left_out < REPEATED:
        consumer.poll(0.01)
    consumer.close()
    [line] = caplog.messages
    assert NOBODY in line
    left_out = once._left_out
    monkeypatch.setattr(once, "_said_at", -math.inf)
    logger.warning("still nobody")
    assert caplog.messages[1:] == [f"still nobody ({left_out} lines since the last one left out)"]
