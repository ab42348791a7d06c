"""Spans by OpenTelemetry's API; see `tracing`, which alone imports this."""

from __future__ import annotations

from contextlib import AbstractContextManager
from uuid import UUID

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from commitlog.observing.headers import HEADER

Value = str | int | bytes | None
_PROPAGATOR = TraceContextTextMapPropagator()


def current(name: str, **attributes: Value) -> AbstractContextManager[object]:
    """A span that is the current one within the block."""
    return _tracer().start_as_current_span(f"commitlog {name}", attributes=_named(**attributes))


def submitting(*, proposal_id: bytes, writer_id: str) -> Span:
    """From sending a proposal until its answer, below what the program is in."""
    attributes = _named(proposal_id=proposal_id, writer_id=writer_id)
    return _tracer().start_span("commitlog submit", kind=SpanKind.PRODUCER, attributes=attributes)


def deciding(traceparent: str, *, log: str) -> Span:
    """From when a sequencer has a proposal until the log holds its outcome."""
    return _after(traceparent, "commitlog decide", log=log)


def visible(traceparent: str, *, log: str, seq: int, decided_at_ms: int, snapshot_id: int | None) -> None:
    """From an outcome's decision, by the sequencer's clock, until now, when readers see it."""
    span = _after(
        traceparent, "commitlog visible", decided_at_ms * 1_000_000, log=log, seq=seq, snapshot_id=snapshot_id
    )
    span.end()


def traceparent_of(span: Span) -> str | None:
    """A span as a header; None for one that is none, or was not sampled: nobody traces what comes of it then."""
    if not span.get_span_context().trace_flags.sampled:
        return None
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier, trace.set_span_in_context(span, Context()))
    return carrier.get(HEADER)


def answered(span: Span, *, verdict: str, seq: int, snapshot_id: int | None, reason: str | None) -> None:
    """Say what was decided."""
    span.set_attributes(_named(verdict=verdict, seq=seq, snapshot_id=snapshot_id, reason=reason))


def failed(span: Span, why: str) -> None:
    """Say that what the span is of did not go well."""
    span.set_status(Status(StatusCode.ERROR, why))


def _after(traceparent: str, name: str, start_ns: int | None = None, **attributes: Value) -> Span:
    parent = _PROPAGATOR.extract({HEADER: traceparent}, Context())
    return _tracer().start_span(name, parent, SpanKind.CONSUMER, _named(**attributes), start_time=start_ns)


def _tracer() -> trace.Tracer:
    # The provider may come later than the first span: OpenTelemetry's own tracers know that.
    return trace.get_tracer("commitlog")


def _named(**attributes: Value) -> dict[str, str | int]:
    """With names of our own; ids as people write them."""
    return {
        f"commitlog.{name}": str(UUID(bytes=value)) if isinstance(value, bytes) else value
        for name, value in attributes.items()
        if value is not None
    }
