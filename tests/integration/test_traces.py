"""Spans from a transaction until readers see it: one trace, by headers alone, which nobody pays for who does not trace."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from log_running import wait_until
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from test_watched import running

from commitlog import CommitLog
from commitlog.catalog.projector import Projector
from commitlog.config import Settings
from commitlog.errors import OutcomeUnknownError, ProposalRejectedError
from commitlog.log.codec import decode_statistics, hash_record
from commitlog.log.results import read_messages, results_end
from commitlog.log.sequencer import run_sequencer
from commitlog.observing.headers import HEADER
from commitlog.ops.service.serve import prepare
from commitlog.testing import InMemoryCommitLog

_provider = TracerProvider()


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """What this test's spans are exported to: a process has one provider, so there is one for all tests here."""
    exporter = InMemorySpanExporter()
    processor = SimpleSpanProcessor(exporter)
    _provider.add_span_processor(processor)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", _provider)
    yield exporter
    processor.shutdown()


def spans_of(exporter: InMemorySpanExporter) -> dict[str, list[ReadableSpan]]:
    found: dict[str, list[ReadableSpan]] = {}
    for span in exporter.get_finished_spans():
        found.setdefault(span.name.removeprefix("commitlog "), []).append(span)
    return found


def is_below(child: ReadableSpan, parent: ReadableSpan) -> bool:
    assert parent.context is not None
    return child.parent is not None and (child.parent.trace_id, child.parent.span_id) == (
        parent.context.trace_id,
        parent.context.span_id,
    )


def test_transaction_when_all_trace_then_one_way_from_its_beginning_until_it_is_visible(
    settings: Settings, exporter: InMemorySpanExporter
) -> None:
    prepare(settings)
    projector = Projector(settings, decode_statistics=decode_statistics, traced=True)
    with (
        running(lambda stop: run_sequencer(settings, stop=stop, traced=True)),
        running(projector.run),
        CommitLog.connect(settings=settings, writer_id="ann") as log,
    ):
        with log.transaction() as tx:
            tx.create_schema("seen")
        with pytest.raises(ProposalRejectedError), log.transaction() as tx:
            tx.drop_table("seen.missing")
        log.submit_async(log.transaction(base_snapshot_id=1)).result(60)
        wait_until(lambda: len(spans_of(exporter).get("visible", [])) == 3, "all to be visible")
    found = spans_of(exporter)
    [transaction, refused], submits, decides, visibles = (
        found["transaction"],
        *(sorted(found[name], key=lambda span: span.start_time or 0) for name in ("submit", "decide", "visible")),
    )
    assert len(submits) == len(decides) == len(visibles) == 3
    assert is_below(submits[0], transaction)
    assert is_below(submits[1], refused)
    for submit, decide, visible in zip(submits, decides, visibles, strict=True):
        assert is_below(decide, submit)
        assert is_below(visible, decide)
    assert [span.attributes and span.attributes["commitlog.verdict"] for span in decides][:2] == [
        "COMMITTED",
        "REJECTED",
    ]
    assert submits[1].attributes is not None
    assert submits[1].attributes["commitlog.reason"] == "INVALID"
    assert visibles[0].attributes is not None
    assert (visibles[0].attributes["commitlog.seq"], visibles[0].attributes["commitlog.snapshot_id"]) == (1, 1)
    assert (transaction.status.status_code, refused.status.status_code) == (StatusCode.UNSET, StatusCode.ERROR)


def test_records_when_a_span_is_in_their_headers_then_hashed_as_without(
    settings: Settings, exporter: InMemorySpanExporter
) -> None:
    prepare(settings)
    with (
        running(lambda stop: run_sequencer(settings, stop=stop, traced=True)),
        CommitLog.connect(settings=settings) as log,
    ):
        log.submit(log.transaction(base_snapshot_id=0).proposal())
    # Readers check the chain of hashes, of values alone.
    Projector(settings, decode_statistics=decode_statistics).project_to_end()
    *_, last = read_messages(settings, 0, results_end(settings))
    assert [name for name, _ in last.headers() or ()] == [HEADER]
    value = last.value()
    assert value is not None
    assert HEADER.encode() not in value
    assert hash_record(value)


def test_services_when_they_do_not_trace_then_leave_headers_alone(
    settings: Settings, exporter: InMemorySpanExporter
) -> None:
    prepare(settings)
    with running(lambda stop: run_sequencer(settings, stop=stop)), CommitLog.connect(settings=settings) as log:
        log.submit(log.transaction(base_snapshot_id=0).proposal())
    assert [message.headers() for message in read_messages(settings, 0, results_end(settings))][-1] is None
    assert set(spans_of(exporter)) == {"submit"}


def test_answer_when_it_does_not_come_then_its_span_says_so(exporter: InMemorySpanExporter) -> None:
    log = InMemoryCommitLog()
    log.lose_next_answer()
    with pytest.raises(OutcomeUnknownError), log.transaction() as tx:
        tx.create_schema("s")
    found = spans_of(exporter)
    assert [span.status.status_code for name in ("submit", "transaction") for span in found[name]] == [
        StatusCode.ERROR,
        StatusCode.ERROR,
    ]


def test_program_when_it_does_not_trace_then_nothing_of_opentelemetry_is_imported() -> None:
    code = """if True:
        import sys
        from commitlog.testing import InMemoryCommitLog
        with InMemoryCommitLog().transaction() as tx:
            tx.create_schema("s")
        from commitlog.ops.cli.service import sequencer_command
        assert not [name for name in sys.modules if name.startswith("opentelemetry")]
        """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_service_when_the_exporter_is_named_by_the_environment_then_spans_go_there() -> None:
    code = """if True:
        from commitlog.observing.tracing import spans
        from commitlog.ops.service.traces import traced
        with traced("sequencer") as is_traced:
            assert is_traced
            with spans().current("something", seq=7):
                pass
        """
    environment = {**os.environ, "OTEL_TRACES_EXPORTER": "console", "OTEL_RESOURCE_ATTRIBUTES": "site=here"}
    told = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, timeout=120, capture_output=True, text=True
    ).stdout
    assert '"commitlog something"' in told
    assert '"commitlog-sequencer"' in told
    assert '"site": "here"' in told


def test_service_when_the_exporter_is_unknown_then_says_what_there_is(tmp_path: object) -> None:
    command = [sys.executable, "-m", "commitlog", "sequencer"]
    environment = {**os.environ, "OTEL_TRACES_EXPORTER": "otlp,elsewhere"}
    ended = subprocess.run(command, env=environment, check=False, timeout=120, capture_output=True, text=True)
    assert ended.returncode != 0
    assert "OTEL_TRACES_EXPORTER is 'elsewhere'" in ended.stderr
    assert "otlp_proto_http" in ended.stderr
    assert "Traceback" not in ended.stderr
