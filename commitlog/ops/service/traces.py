"""Where a service's spans go: what OpenTelemetry's own variables say, by its own libraries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from importlib.util import find_spec

from commitlog.config import traces_exporters
from commitlog.errors import ConfigurationError

_BY_HTTP = {"otlp": "otlp_proto_http"}


@contextmanager
def traced(service: str) -> Iterator[bool]:
    """Have this process's spans exported as long as the block runs; gives whether there are any.

    Raises:
        ConfigurationError: OTEL_TRACES_EXPORTER names what is not installed.
    """
    names = traces_exporters()
    if not names:
        yield False
        return
    if find_spec("opentelemetry.sdk") is None:
        raise ConfigurationError("OTEL_TRACES_EXPORTER asks for spans: pip install 'commitlog[tracing]'")
    from opentelemetry import trace
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = Resource.create({"service.name": f"commitlog-{service}"}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=named)
    for name in names:
        provider.add_span_processor(BatchSpanProcessor(_exporter(name)()))
    trace.set_tracer_provider(provider)
    try:
        yield True
    finally:
        provider.shutdown()


def _exporter(name: str) -> type:
    known = {each.name: each for each in entry_points(group="opentelemetry_traces_exporter")}
    found = known.get(_BY_HTTP.get(name, name))
    if found is None:
        raise ConfigurationError(
            f"OTEL_TRACES_EXPORTER is {name!r}, but the exporters installed here are: "
            f"{', '.join(sorted(known)) or 'none'}. Install the one that it needs, such as 'commitlog[tracing]' for "
            "otlp"
        )
    exporter: type = found.load()
    return exporter
