"""What is asked of Kafka's clients so that nobody waits for their timers."""

from __future__ import annotations

import dataclasses
import os
import ssl
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from interrupting import each_interrupted

from commitlog.config import Settings
from commitlog.errors import LogUnavailableError
from commitlog.log.certificates import distrusted
from commitlog.log.connection import make_producer, ready_producer, told_by
from commitlog.log.reading import take
from commitlog.machine import Machine


class FakeConsumer:
    """Notes for how long it was asked to wait."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    def consume(self, records_max: int, timeout_s: float) -> list[object]:
        self.waited.append(timeout_s)
        return []


class FakeProducer:
    """Has a number for its batches once it hears of topics while it is connected, as librdkafka has."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._is_connected = self.has_number = False

    def list_topics(self, topic: str | None, timeout: float) -> None:
        self.has_number = self.has_number or self._is_connected
        self._is_connected = True


class FakeMachine(Machine):
    """Whose Kafka is the one above."""

    Producer = FakeProducer

    @property
    def kafka(self) -> Any:
        """Its clients."""
        return self


@pytest.mark.parametrize(("timeout_s", "waited_s"), [(0, 0), (0.000_4, 0.001), (0.001, 0.001), (0.05, 0.05)])
def test_take_when_less_than_librdkafka_counts_is_waited_for_then_it_waits_all_the_same(
    timeout_s: float, waited_s: float
) -> None:
    consumer: Any = FakeConsumer()
    assert take(consumer, 1, timeout_s) == []
    assert consumer.waited == [waited_s]


def test_ready_producer_then_its_first_record_waits_for_no_number(tmp_path: Path) -> None:
    settings = dataclasses.replace(
        Settings.load(environment={}, home=tmp_path), bootstrap_servers="here:1", machine=FakeMachine()
    )
    producer: Any = ready_producer(settings, "main.proposals", linger_ms=0)
    assert producer.has_number


@pytest.mark.parametrize("code", [0, -194])
def test_make_producer_when_no_thread_can_be_made_then_says_so_and_not_that_kafka_refuses(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_room(_: object) -> None:
        raise KafkaException(KafkaError(code, "Failed to create producer: Failed to create thread"))

    machine = FakeMachine()
    monkeypatch.setattr(machine, "Producer", without_room, raising=False)
    settings = dataclasses.replace(Settings.load(environment={}, home=tmp_path), machine=machine)
    with pytest.raises(LogUnavailableError, match=r"no client of Kafka: Failed to create .* thread\. Raise its limits"):
        make_producer(settings)


def test_told_by_when_a_signal_ends_it_anywhere_then_the_client_can_still_tell() -> None:
    places = 0
    answer: Future[int] = Future()
    answer.set_result(1)
    for place in each_interrupted(lambda: told_by(answer, answer.result)):
        places += 1
        teller = threading.Thread(target=answer.add_done_callback, args=(lambda _: None,), daemon=True)
        teller.start()
        teller.join(60)
        assert not teller.is_alive(), place
    assert places > 2


FORKS = """
import dataclasses, os, sys
from commitlog.config import Settings
from commitlog.log.connection import ADMINS_KEPT, make_admin

settings = Settings.load(environment={})

def know_brokers(first_port):
    for port in range(first_port, first_port + ADMINS_KEPT):
        make_admin(dataclasses.replace(settings, bootstrap_servers=f"127.0.0.1:{port}"))

know_brokers(1)
child = os.fork()
if child == 0:
    know_brokers(101)
    os._exit(0)
status = os.waitpid(child, 0)[1]
print(status, flush=True)
os._exit(0)
"""


def test_make_admin_when_the_process_was_forked_then_no_client_of_the_parent_is_ended() -> None:
    run = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=True, timeout=120)
    assert run.stdout.split() == ["0"]


def test_distrusted_when_python_is_as_strict_as_3_13_then_certificates_are_judged_as_librdkafka_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context = ssl.create_default_context()
    context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    monkeypatch.setattr(ssl, "create_default_context", lambda **_: context)
    assert distrusted("no port", None) is None
    assert context.verify_flags == ssl.VERIFY_X509_TRUSTED_FIRST


CONNECTS = "import sys; from commitlog import CommitLog; CommitLog.connect(home=sys.argv[1])"


@pytest.mark.parametrize("options", [[], ["-O"]], ids=["plain", "without asserts"])
def test_connect_when_nothing_runs_then_says_so_at_once(options: list[str], tmp_path: Path) -> None:
    (tmp_path / "ports.json").write_text("{}")
    line = [sys.executable, *options, "-c", CONNECTS, str(tmp_path)]
    environment = {name: value for name, value in os.environ.items() if name != "COMMITLOG_BOOTSTRAP_SERVERS"}
    run = subprocess.run(line, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (
        f"LogUnavailableError: Kafka at 127.0.0.1:9092 does not answer: nothing is running in {tmp_path}" in run.stderr
    )
