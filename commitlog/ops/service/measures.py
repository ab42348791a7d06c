"""The measures of a log, by the names that Prometheus knows them by: units last, counters end in `_total`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from commitlog import compiled
from commitlog.log.chain import Skip
from commitlog.log.sequencer import Phase, SequencerStatus
from commitlog.observing.durations import Durations
from commitlog.observing.lag import Lag
from commitlog.ops.service.counted import GatewayProgress
from commitlog.ops.service.supervisor import Supervised
from commitlog.relay.progress import RelayProgress

if TYPE_CHECKING:
    from commitlog.catalog.projector_status import ProjectorStatus
    from commitlog.sites.link import LinkProgress


@dataclass(frozen=True, slots=True)
class Measures:
    """Makes the measures of one log.

    Attributes:
        log: its name, a label of all of them.
    """

    log: str

    def of_service(self, service: str, *, is_ready: bool) -> Iterator[Metric]:
        """What every service tells."""
        yield self._gauge(
            "ready",
            "1 if the service has caught up, 0 if what it reads has waited for too long.",
            {service: is_ready},
            "service",
        )
        yield self._gauge(
            "build", "Always 1; the label says how the core runs (compiled or interpreted).", {compiled.form: 1}, "core"
        )

    def of_sequencer(self, status: SequencerStatus, lag: Lag) -> Iterator[Metric]:
        """What a sequencer tells of itself, and what waits for it."""
        phases = {phase.value: phase is status.phase for phase in Phase}
        yield self._gauge(
            "sequencer_phase",
            "1 for the phase that the sequencer is in; the active sequencer is in SERVING.",
            phases,
            "phase",
        )
        yield self._gauge(
            "sequencer_epoch",
            "Epoch of the active sequencer, as far as this one knows; each takeover adds one.",
            status.epoch,
        )
        yield self._gauge("decided_seq", "Seq of the last outcome in the log.", status.seq)
        yield self._gauge("decided_snapshot_id", "Head snapshot after that outcome.", status.head_snapshot_id)
        verdicts = {verdict.value: count for verdict, count in status.decided.items()}
        yield self._counter("decisions", "Outcomes that this process has appended to the log.", verdicts, "verdict")
        yield self._counter(
            "internal_errors", "Proposals refused as INTERNAL, because of a defect of commitlog.", status.internal
        )
        yield self._counter("batches", "Batches that this process has appended to the log.", status.batches)
        what = (
            "Time from when a batch's first proposal was made, by its writer's clock, until its outcome is in the log."
        )
        yield self._histogram("decision_seconds", what, status.accepted_after)
        yield self._counter(
            "doubts",
            "Times that the sequencer did not know what Kafka had stored, and reloaded the log.",
            status.doubts,
        )
        skipped = {skip.value: status.skipped.get(skip, 0) for skip in Skip}
        yield self._counter("skipped_records", "Records in the results that do not count, by cause.", skipped, "why")
        yield from self._lag("sequencer", "Proposals that are not decided yet.", lag)

    def of_projector(self, status: ProjectorStatus, lag: Lag) -> Iterator[Metric]:
        """What a projector tells of itself, and what waits for it."""
        if status.applied_seq >= 0:
            yield self._gauge("applied_seq", "Seq of the last outcome in the catalog.", status.applied_seq)
        if status.head_snapshot_id:
            yield self._gauge("applied_snapshot_id", "Head snapshot that readers see.", status.head_snapshot_id)
        yield self._gauge(
            "projector_standby", "1 while the projector waits for its turn to write the catalog.", status.is_standby
        )
        yield self._counter("projected_batches", "SQL transactions committed by this process.", status.batches)
        yield self._counter(
            "projector_restarts", "Times that the projector started over because PostgreSQL was lost.", status.restarts
        )
        settled = {kind.value: count for kind, count in status.site_conflicts.items()}
        yield self._counter(
            "site_conflicts",
            "Rows that several sites had written and that were resolved to one version.",
            settled,
            "kind",
        )
        moved = {action.value: count for action, count in status.rows_moved.items()}
        what = "Rows of several sites that were held back (HELD), or that later stood or were given up (RELEASED)."
        yield self._counter("site_rows_moved", what, moved, "action")
        what = "Time from the decision of a batch's first outcome until readers see it."
        yield self._histogram("visible_seconds", what, status.visible)
        yield from self._lag("projector", "Records in the results that the catalog does not hold yet.", lag)

    def of_checkpointer(self, *, replayed_seq: int, saved_seq: int) -> Iterator[Metric]:
        """What a checkpointer tells of itself."""
        yield self._gauge("replayed_seq", "Seq of the last outcome that the checkpointer has replayed.", replayed_seq)
        yield self._gauge("checkpoint_seq", "Seq of the last outcome in the newest checkpoint.", saved_seq)

    def of_link(self, progress: LinkProgress, lag: Lag) -> Iterator[Metric]:
        """What a link tells of itself, and what waits for it at the site that it reads."""
        by = progress.source
        yield self._gauge(
            "link_snapshot_id",
            "Last snapshot of the other site that was handled.",
            {by: progress.snapshot_id},
            "source",
        )
        yield self._counter(
            "link_snapshots", "Snapshots of the other site that were brought.", {by: progress.brought}, "source"
        )
        yield self._counter("link_row_changes", "Row changes in those snapshots.", {by: progress.row_changes}, "source")
        yield self._counter(
            "link_left_out",
            "Changes left out, as what they change is not replicated.",
            {by: progress.left_out},
            "source",
        )
        yield self._counter("link_files", "Data files that were brought.", {by: progress.files}, "source")
        yield self._counter("link_file_bytes", "Bytes in those data files.", {by: progress.file_bytes}, "source")
        if lag.records is not None and lag.seconds is not None:
            what = "Outcomes of the other site that are not handled yet."
            yield self._gauge("link_lag_records", what, {by: lag.records}, "source")
            yield self._gauge(
                "link_lag_seconds", "How long the oldest of them has waited.", {by: lag.seconds}, "source"
            )

    def of_gateway(self, progress: GatewayProgress) -> Iterator[Metric]:
        """What a gateway tells of itself."""
        yield self._gauge("gateway_sessions", "Connected DuckDB clients.", progress.sessions())
        answers = {answered.value: count for answered, count in progress.answers.items()}
        yield self._counter("gateway_commits", "Commits of clients, by the answer they got.", answers, "answer")
        yield self._histogram(
            "gateway_commit_seconds", "Time from a client's commit to its answer.", progress.durations
        )

    def of_carrier(self, *, programs: int, carried: int) -> Iterator[Metric]:
        """What a carrier tells of itself."""
        yield self._gauge("carrier_programs", "Programs that are connected to the carrier.", programs)
        yield self._counter("carrier_proposals", "Proposals that the carrier has taken to the log.", carried)

    def of_relay(self, progress: RelayProgress, proposals: Lag, outcomes: Lag) -> Iterator[Metric]:
        """What a relay tells of itself, and what waits for all of a log's relays."""
        yield self._gauge("relay_standby", "1 while another relay writes the outcomes.", progress.is_standby)
        yield self._counter("relay_proposals", "Proposals taken from the border into the log.", progress.proposals)
        yield self._counter(
            "relay_dead_letters", "Records at the border that are not proposals.", progress.dead_letters
        )
        yield self._counter("relay_receipts", "Receipt records written to the border.", progress.receipts)
        yield self._counter("relay_outcomes", "Outcomes written to the border.", progress.outcomes)
        yield from self._lag("relay_proposals", "Proposals at the border that are not in the log yet.", proposals)
        yield from self._lag("relay_outcomes", "Records in the results that are not at the border yet.", outcomes)

    def of_supervisor(self, services: Sequence[Supervised]) -> Iterator[Metric]:
        """What `serve` tells of the processes that it keeps running."""
        running = {each.name: each.pid is not None for each in services}
        starts = {each.name: each.starts for each in services}
        yield self._gauge("service_running", "1 if the process runs on this machine, 0 otherwise.", running, "service")
        yield self._counter("service_starts", "Times that the process was started.", starts, "service")

    def _histogram(self, name: str, what: str, durations: Durations) -> Metric:
        family = HistogramMetricFamily(f"commitlog_{name}", what, labels=["log"])
        family.add_metric([self.log], list(durations.up_to()), durations.sum_s)
        return family

    def _lag(self, service: str, what: str, lag: Lag) -> Iterator[Metric]:
        if lag.records is not None and lag.seconds is not None:
            yield self._gauge(f"{service}_lag_records", what, lag.records)
            yield self._gauge(f"{service}_lag_seconds", "How long the oldest of them has waited.", lag.seconds)

    def _gauge(self, name: str, what: str, values: Mapping[str, float] | float, label: str | None = None) -> Metric:
        return self._filled(GaugeMetricFamily(f"commitlog_{name}", what, labels=_labels(label)), values)

    def _counter(self, name: str, what: str, values: Mapping[str, int] | int, label: str | None = None) -> Metric:
        return self._filled(CounterMetricFamily(f"commitlog_{name}", what, labels=_labels(label)), values)

    def _filled(self, family: GaugeMetricFamily | CounterMetricFamily, values: Mapping[str, float] | float) -> Metric:
        if isinstance(values, Mapping):
            for key, value in values.items():
                family.add_metric([self.log, key], value)
        else:
            family.add_metric([self.log], values)
        return family


def _labels(label: str | None) -> list[str]:
    return ["log"] if label is None else ["log", label]
