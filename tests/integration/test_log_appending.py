"""What an append of the sequencer costs the broker."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from commitlog.config import Settings
from commitlog.log.genesis import init_log
from commitlog.log.producing import KafkaResults
from commitlog.log.reports import Report
from commitlog.log.topics import topics_of
from tests.integration.log_running import wait_until

BATCHES = 20
RECORDS = 50


def test_batches_when_each_is_waited_for_then_one_request_takes_each(settings: Settings) -> None:
    init_log(settings)
    told: list[dict[str, Any]] = []
    watched: Any = {"statistics.interval.ms": 50, "stats_cb": lambda text: told.append(json.loads(text))}
    topic = topics_of(settings.log).proposals
    results = KafkaResults(
        dataclasses.replace(settings, kafka={**settings.kafka, **watched}), topic, batch_bytes_max=1_000_000
    )
    reports: list[Report] = []

    def requests() -> int:
        return sum(broker["req"].get("Produce", 0) for broker in told[-1]["brokers"].values()) if told else 0

    def all_is_told() -> bool:
        # The records and the requests are not counted at the same moment.
        results.poll(0)
        return requests() >= BATCHES and told[-1]["txmsgs"] == BATCHES * RECORDS

    try:
        for number in range(1, BATCHES + 1):
            results.append([b"a record"] * RECORDS, lambda index, report: reports.append(report))
            while len(reports) < number * RECORDS:
                results.poll(0.01)
        wait_until(all_is_told, "what librdkafka counts")
    finally:
        results.close()
    assert [report.offset for report in reports] == [*range(BATCHES * RECORDS)]
    # Whoever is kept from the core for five milliseconds while handing a batch over splits that one.
    assert requests() < BATCHES * 1.5
