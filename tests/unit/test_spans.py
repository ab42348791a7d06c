"""A span goes with a record where it was sampled, and costs whoever reads the record nothing where it was not."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler

from commitlog.observing.spans import traceparent_of


@pytest.mark.parametrize(("sampler", "is_sampled"), [(ALWAYS_ON, True), (ALWAYS_OFF, False)])
def test_span_when_it_was_not_sampled_then_has_no_header(sampler: Sampler, is_sampled: bool) -> None:
    header = traceparent_of(TracerProvider(sampler=sampler).get_tracer("tests").start_span("commitlog submit"))
    assert (header is not None) == is_sampled
    assert header is None or int(header.rpartition("-")[2], 16) & 1
