"""The active sequencer's ports where it traces: each decision is a span, below its writer's and above the projector's.

Of each proposal that it is given, in order, it appends one outcome; so which span an outcome belongs to is known by its place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

from confluent_kafka import Message

from commitlog.log.codec import OutcomeRecord, decode_record
from commitlog.log.producing import KafkaResults
from commitlog.log.reports import Report
from commitlog.observing.headers import traceparent_in


class TracedResults:
    """`ports.ResultsLog` over Kafka, whose records name the span of their decision where the proposal's does.

    Args:
        results: what is appended to.
        spans: what makes spans.
        log: the log's name.
    """

    def __init__(self, results: KafkaResults, spans: ModuleType, log: str) -> None:
        self._results = results
        self._spans = spans
        self._log = log
        self._begun: deque[Any] = deque()

    def begin(self, message: Message) -> None:
        """Begin the span of a proposal that is given to the sequencer."""
        traceparent = traceparent_in(message.headers())
        self._begun.append(None if traceparent is None else self._spans.deciding(traceparent, log=self._log))

    def append(self, values: Sequence[bytes], on_report: Callable[[int, Report], None]) -> None:
        begun = {index: span for index in range(len(values)) if (span := self._begun.popleft()) is not None}
        for index, span in begun.items():
            self._describe(span, values[index])

        def report(index: int, what: Report) -> None:
            if index in begun:
                self._end(begun.pop(index), what)
            on_report(index, what)

        traceparents = {index: self._spans.traceparent_of(span) for index, span in begun.items()}
        self._results.append(values, report if begun else on_report, traceparents)

    def poll(self, timeout_s: float) -> None:
        self._results.poll(timeout_s)

    def read(self, start: int, end: int) -> Iterable[tuple[int, bytes | None]]:
        return self._results.read(start, end)

    def end_seen(self) -> int | None:
        return self._results.end_seen()

    def close(self) -> None:
        self._results.close()

    def _describe(self, span: Any, value: bytes) -> None:
        record = decode_record(value)
        assert isinstance(record, OutcomeRecord)
        outcome = record.outcome
        reason = None if outcome.reason is None else outcome.reason.value
        self._spans.answered(
            span, verdict=outcome.verdict.value, seq=outcome.seq, snapshot_id=outcome.snapshot_id, reason=reason
        )

    def _end(self, span: Any, report: Report) -> None:
        if report.error is not None:
            self._spans.failed(span, report.error)
        span.end()
