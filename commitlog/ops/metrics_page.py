"""The manual's page of metrics, printed from what the services' measures say of themselves."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from commitlog.catalog.projector_status import ProjectorStatus
from commitlog.log.sequencer import SequencerStatus
from commitlog.observing.durations import BOUNDS_S
from commitlog.observing.lag import LAG_S_MAX, Lag
from commitlog.ops.service.counted import GatewayProgress
from commitlog.ops.service.measures import Measures
from commitlog.ops.service.supervisor import Supervised
from commitlog.relay.progress import RelayProgress
from commitlog.sites.link import LinkProgress

_BOUNDS = ", ".join(f"{each:g}" for each in BOUNDS_S)
_HEAD = f"""\
# Metrics

What each service reports to Prometheus at `/metrics` ([Looking after a log](running.md) says at which port). All metrics have
the label `log`, the log's name. Not listed are `process_*`, which Prometheus' client reports for every process. Counters count
from the start of the process. A histogram is three metrics, `_bucket`, `_sum` and `_count`, with the buckets {_BOUNDS} s
and beyond. Times between two processes are measured by the clocks of both. A lag that is not known is not reported; a service
whose lag is more than {LAG_S_MAX:g} s is not ready.

This page is printed by `commitlog manual metrics`.
"""


def metrics_page() -> str:
    """The page "Metrics", in Markdown."""
    lines = [_HEAD]
    for heading, measures in _measures():
        lines += [f"## {heading}\n", "| metric | type | labels | what it is |", "|---|---|---|---|"]
        lines += [f"| `{_name(each)}` | {each.type} | {_labels(each)} | {each.documentation} |" for each in measures]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _measures() -> Iterator[tuple[str, list[Metric]]]:
    """Every measure, by who tells it."""
    of, lag = Measures("flights"), Lag(lambda: {0: 0}, lambda done: {0: 0})
    lag.look()
    yield "Of every service", list(of.of_service("sequencer", is_ready=True))
    yield "Of a sequencer", list(of.of_sequencer(SequencerStatus(), lag))
    yield "Of a projector", list(of.of_projector(ProjectorStatus(applied_seq=1, head_snapshot_id=1), lag))
    yield "Of a checkpointer", list(of.of_checkpointer(replayed_seq=1, saved_seq=1))
    yield "Of a carrier", list(of.of_carrier(programs=1, carried=1))
    yield "Of a link between sites", list(of.of_link(LinkProgress("tokyo", "paris"), lag))
    yield "Of a gateway", list(of.of_gateway(GatewayProgress()))
    yield "Of a relay", list(of.of_relay(RelayProgress(), lag, lag))
    yield "Of `commitlog serve` itself", list(of.of_supervisor([Supervised("sequencer", 1, 1)]))


def _name(measure: Metric) -> str:
    return f"{measure.name}_total" if measure.type == "counter" else measure.name


def _labels(measure: Metric) -> str:
    found: dict[str, list[str]] = {}
    for sample in measure.samples:
        for label, value in sample.labels.items():
            if label not in ("log", "le") and value not in found.setdefault(label, []):
                found[label].append(value)
    # One value is this process's own, and says nothing of others.
    return "; ".join(
        f"`{label}`" + (f": {', '.join(values)}" if len(values) > 1 else "") for label, values in found.items()
    )
