"""What services tell Prometheus: by names that the dashboard and the alerts know, too; and whether they are ready."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import struct
import sys
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partialmethod
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml
from deciding import delete_row, insert, update
from deciding_sites import C, brought, log_of_node_a
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from commitlog.catalog.projector_status import ProjectorStatus
from commitlog.config import Settings
from commitlog.domain.model import Outcome, Verdict
from commitlog.errors import ConfigurationError, LogUnavailableError, OutcomeUnknownError
from commitlog.gateway.committing import Answer
from commitlog.local import processes
from commitlog.log.chain import Skip
from commitlog.log.sequencer import EXIT_FENCED, Phase, SequencerStatus
from commitlog.observing.durations import Durations
from commitlog.observing.lag import LAG_S_MAX, Lag
from commitlog.ops.metrics_page import metrics_page
from commitlog.ops.service import health, serve
from commitlog.ops.service import listening as listening_place
from commitlog.ops.service.counted import CountedCommits, GatewayProgress
from commitlog.ops.service.endpoint import endpoint
from commitlog.ops.service.listening import listening, measures_note, noted
from commitlog.ops.service.measures import Measures
from commitlog.ops.service.notes import Notes
from commitlog.ops.service.serve import wanted_services
from commitlog.ops.service.supervisor import (
    EXIT_LINK_STOPPED,
    LINK,
    RELAY,
    Restarts,
    Service,
    Supervised,
    Supervisor,
)
from commitlog.ops.service.watched import (
    WatchedCarrier,
    WatchedCheckpointer,
    WatchedGateway,
    WatchedPage,
    WatchedProjector,
    WatchedRelay,
    WatchedSequencer,
)
from commitlog.ops.service.whole import WatchedWhole
from commitlog.relay.progress import RelayProgress
from commitlog.sites.link import LinkProgress

ROOT = Path(__file__).resolve().parents[2]
ALERTS = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text(encoding="utf-8"))["groups"]
DASHBOARD = json.loads((ROOT / "deploy/grafana/commitlog.json").read_text(encoding="utf-8"))
HISTOGRAMS = {"commitlog_decision_seconds", "commitlog_visible_seconds", "commitlog_gateway_commit_seconds"}
NAME = re.compile(r"\b(?:commitlog|process)_[a-z_]+")


def durations(*seconds: float) -> Durations:
    found = Durations()
    for each in seconds:
        found.add(each)
    return found


SERVING = SequencerStatus(
    Phase.SERVING,
    epoch=3,
    seq=40,
    head_snapshot_id=30,
    next_offsets={0: 20, 1: 20},
    decided={Verdict.COMMITTED: 30, Verdict.REJECTED: 9, Verdict.DUPLICATE: 1},
    accepted_after=durations(0.0009, 0.03, 90, -1),
    skipped=Counter({Skip.GAP: 2}),
)


def outcomes_of_sites() -> list[Outcome]:
    """Two rows that both sites had changed, one that is held back, and its release by a link and by this site."""
    log = log_of_node_a()
    brought(log, update(1, v="b", w="x"), insert(id=2, v="b", w="x"), tick=1)
    brought(log, update(1, v="c", w="x"), by=C, tick=1)
    log.commit(delete_row(1))
    brought(log, insert(id=3, v="b", w="x"), tick=2)
    brought(log, delete_row(3), tick=3)
    return log.outcomes


class PlayedCommits:
    """Answers as it is told to."""

    def __init__(self, *answers: Answer | Exception) -> None:
        self._answers = list(answers)

    async def commit(self, text: str, user: str) -> Answer:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def gateway_with_commits() -> GatewayProgress:
    """Of a gateway with two clients, who committed twice, were refused once, and once nobody knew."""
    progress = GatewayProgress(sessions=lambda: 2)
    told = (Answer(), Answer(warning="not shown yet"), Answer(refusal="no"), OutcomeUnknownError(UUID(int=1)))
    commits = CountedCommits(PlayedCommits(*told), progress)
    for answer in told:
        with nullcontext() if isinstance(answer, Answer) else pytest.raises(OutcomeUnknownError):
            assert asyncio.run(commits.commit("COMMIT", "etl")) is answer
    return progress


class WatchedOne:
    """A service that says what it is told to."""

    def __init__(self, problem: str | None = None, *, service: str = "sequencer") -> None:
        self.service = service
        self.lag = Lag(lambda: {0: 1, 1: 0}, lambda done: {0: 3, 1: 1})
        self.lags = (self.lag,)
        self.says = problem

    def measures(self, measures: Measures) -> Iterator[Metric]:
        self.lag.look()
        yield from measures.of_sequencer(SERVING, self.lag)
        projecting = ProjectorStatus(applied_seq=40, head_snapshot_id=30)
        projecting.note_sites(outcomes_of_sites())
        yield from measures.of_projector(projecting, self.lag)
        yield from measures.of_checkpointer(replayed_seq=40, saved_seq=20)
        yield from measures.of_carrier(programs=3, carried=8)
        yield from measures.of_link(LinkProgress("tokyo", "paris", snapshot_id=9, brought=4, row_changes=7), self.lag)
        yield from measures.of_gateway(gateway_with_commits())
        relaying = RelayProgress(proposals=5, dead_letters=2, outcomes=6, is_standby=False)
        yield from measures.of_relay(relaying, self.lag, self.lag)
        yield from measures.of_supervisor([Supervised("sequencer", 7, 2), Supervised("projector", None, 5)])

    def problem(self) -> str | None:
        return self.says


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint ends when it is to, not half a second later, as servers do that are seldom asked."""
    monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", partialmethod(ThreadingHTTPServer.serve_forever, 0.01))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(environment={}, home=tmp_path, log="flights", metrics_port=0)


def read(address: str | urllib.request.Request) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def connected(address: str) -> socket.socket:
    host, _, port = address.removeprefix("http://").rstrip("/").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


@pytest.fixture
def told(settings: Settings) -> dict[tuple[str, ...], float]:
    """All that is told, by name and the values of its labels but the log's."""
    with endpoint(settings, WatchedOne()) as address:
        text = read(f"{address}metrics")[1]
    families = list(text_string_to_metric_families(text))
    assert {each.name for each in families if each.type == "histogram"} == HISTOGRAMS
    samples = [each for family in families for each in family.samples]
    assert {each.labels["log"] for each in samples if each.name.startswith("commitlog")} == {"flights"}
    return {(s.name, *(v for k, v in sorted(s.labels.items()) if k != "log")): s.value for s in samples}


def test_metrics_when_nothing_was_counted_then_every_counter_is_there_to_rise_from_0() -> None:
    of, lag = Measures("flights"), Lag(lambda: {0: 0}, lambda done: {0: 0})
    told = [
        *of.of_sequencer(SequencerStatus(), lag),
        *of.of_projector(ProjectorStatus(), lag),
        *of.of_link(LinkProgress("tokyo", "paris"), lag),
        *of.of_gateway(GatewayProgress()),
        *of.of_relay(RelayProgress(), lag, lag),
    ]
    counters = {each.name: [sample.value for sample in each.samples] for each in told if each.type == "counter"}
    assert "commitlog_site_conflicts" in counters
    assert [name for name, values in counters.items() if not values or any(values)] == []


def test_metrics_when_asked_for_then_tell_what_the_services_know(told: dict[tuple[str, ...], float]) -> None:
    assert told["commitlog_sequencer_phase", "SERVING"] == 1
    assert told["commitlog_sequencer_phase", "STANDBY"] == 0
    assert told["commitlog_decisions_total", "REJECTED"] == 9
    assert told["commitlog_skipped_records_total", "GAP"] == 2
    assert told["commitlog_sequencer_lag_records",] == told["commitlog_projector_lag_records",] == 3
    assert (told["commitlog_applied_seq",], told["commitlog_checkpoint_seq",]) == (40, 20)
    assert (told["commitlog_link_snapshots_total", "tokyo"], told["commitlog_link_row_changes_total", "tokyo"]) == (
        4,
        7,
    )
    assert told["commitlog_link_lag_records", "tokyo"] == 3
    assert told["commitlog_site_conflicts_total", "UPDATE_UPDATE"] == 2
    assert told["commitlog_site_conflicts_total", "UNIQUE"] == 2
    assert told["commitlog_site_rows_moved_total", "HELD"] == 2
    assert told["commitlog_site_rows_moved_total", "RELEASED"] == 2
    assert (told["commitlog_relay_proposals_total",], told["commitlog_relay_dead_letters_total",]) == (5, 2)
    assert (told["commitlog_relay_standby",], told["commitlog_relay_outcomes_lag_records",]) == (0, 3)
    answers = [told["commitlog_gateway_commits_total", each] for each in ("COMMITTED", "REFUSED", "UNKNOWN")]
    assert (told["commitlog_gateway_sessions",], answers) == (2, [2, 1, 1])
    assert told["commitlog_gateway_commit_seconds_count",] == 4
    assert told["commitlog_ready", "sequencer"] == 1
    assert (told["commitlog_service_running", "sequencer"], told["commitlog_service_running", "projector"]) == (1, 0)
    assert told["commitlog_service_starts_total", "projector"] == 5
    assert told["process_resident_memory_bytes",] > 0


def test_histograms_when_asked_for_then_tell_how_many_took_no_longer(told: dict[tuple[str, ...], float]) -> None:
    within = {key[1]: count for key, count in told.items() if key[0] == "commitlog_decision_seconds_bucket"}
    assert (within["0.001"], within["0.025"], within["0.05"], within["60.0"], within["+Inf"]) == (2, 2, 3, 3, 4)
    assert told["commitlog_decision_seconds_count",] == 4
    assert told["commitlog_decision_seconds_sum",] == pytest.approx(90.0309)
    assert told["commitlog_visible_seconds_count",] == 0


def test_alerts_when_they_name_measures_then_those_are_told(told: dict[tuple[str, ...], float]) -> None:
    names = {key[0] for key in told}
    rules = [rule for group in ALERTS for rule in group["rules"]]
    assert len(rules) >= 8
    for rule in rules:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "action"}
        used = set(NAME.findall(rule["expr"]))
        assert used, rule
        assert used <= names, rule


def test_alert_of_what_keeps_ending_then_two_machines_that_run_a_link_in_turns_do_not_raise_it() -> None:
    [rule] = [rule for group in ALERTS for rule in group["rules"] if rule["alert"] == "CommitlogKeepsEnding"]
    alone, link = re.findall(
        r'increase\(commitlog_service_starts_total\{service(!~|=~)"link-\.\*"\}\[15m\]\) > (\d+)', rule["expr"]
    )
    assert [alone[0], link[0]] == ["!~", "=~"]
    assert LINK == "link-"
    begins_after_s = Restarts().delay_s(EXIT_FENCED, 60)
    assert Restarts().delay_s(EXIT_LINK_STOPPED, 1) == begins_after_s
    in_turns, stopped = 900 / (2 * begins_after_s), 900 / (begins_after_s + 10)
    assert in_turns < int(link[1]) < stopped


def test_dashboard_when_it_names_measures_then_those_are_told(told: dict[tuple[str, ...], float]) -> None:
    names = {key[0] for key in told}
    used = {name for panel in DASHBOARD["panels"] for each in panel["targets"] for name in NAME.findall(each["expr"])}
    assert len(used) >= 15
    assert used <= names
    assert set(NAME.findall(DASHBOARD["templating"]["list"][1]["query"]["query"])) <= names


def test_page_of_metrics_when_printed_then_lists_those_that_are_told(told: dict[tuple[str, ...], float]) -> None:
    of_histogram = ("_bucket", "_count", "_sum")
    names = {key[0] for key in told if key[0].startswith("commitlog_") and not key[0].endswith(of_histogram)}
    assert set(re.findall(r"^\| `(commitlog_[a-z_]+)`", metrics_page(), re.MULTILINE)) == names | HISTOGRAMS


@pytest.mark.parametrize(
    ("path", "problem", "status", "text"),
    [
        ("livez", "it is LOADING", 200, "ok"),
        ("readyz", None, 200, "ok"),
        ("readyz", "it is LOADING", 503, "it is LOADING"),
        ("elsewhere", None, 404, "/metrics"),
    ],
)
def test_endpoint_when_asked_then_answers(
    settings: Settings, path: str, problem: str | None, status: int, text: str
) -> None:
    with endpoint(settings, WatchedOne(problem)) as address:
        found = read(address + path)
        assert found[0] == status
        assert text in found[1]
        assert read(urllib.request.Request(address + path, method="HEAD")) == (status, ""), "as balancers ask"


def test_endpoint_when_who_asked_has_gone_then_nothing_is_written_beside_the_log(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    asked, gone = threading.Event(), threading.Event()

    class Slow(WatchedOne):
        def problem(self) -> str | None:
            asked.set()
            assert gone.wait(60)
            return None

    with endpoint(settings, Slow()) as address, connected(address) as client:
        client.sendall(b"GET /readyz HTTP/1.1\r\n\r\n")
        assert asked.wait(60)
        # It is cut, as by a Prometheus that waits no longer.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        answering = [each for each in threading.enumerate() if "process_request" in each.name]
        gone.set()
        for each in answering:
            each.join(60)
    assert answering
    assert capsys.readouterr().err == ""


def test_endpoint_when_a_connection_says_nothing_then_it_is_closed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commitlog.ops.service.endpoint.SILENCE_S", 0.1)
    with endpoint(settings, WatchedOne()) as address, connected(address) as silent, connected(address) as half:
        half.sendall(b"GET /met")
        assert (silent.recv(1), half.recv(1)) == (b"", b"")


def test_endpoint_when_the_home_takes_no_note_of_it_then_the_service_goes_on(settings: Settings) -> None:
    settings.home.mkdir(parents=True, exist_ok=True)
    (settings.home / "services").touch()
    with endpoint(settings, WatchedOne()) as address:
        assert read(f"{address}livez")[0] == 200


@pytest.mark.parametrize(
    ("service", "first", "port"),
    [("sequencer", 9464, 9464), ("serve", 9464, 9468), ("other", 9464, 0), ("serve", 0, 0), ("serve", 2**16 - 4, 0)],
)
def test_endpoint_when_it_begins_then_at_the_port_of_its_service(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, service: str, first: int, port: int
) -> None:
    asked: list[int] = []

    def anywhere(host: str, port: int, **options: Any) -> socket.socket:
        asked.append(port)
        return listening(host, 0)

    monkeypatch.setattr("commitlog.ops.service.endpoint.listening", anywhere)
    with endpoint(replace(settings, metrics_port=first), WatchedOne(service=service)):
        assert asked == [port]


def test_endpoint_when_its_port_is_taken_then_the_service_goes_on_at_another(settings: Settings) -> None:
    with endpoint(settings, WatchedOne()) as first:
        taken = Settings.load(
            environment={}, home=settings.home, metrics_port=int(first.rstrip("/").rpartition(":")[2])
        )
        with endpoint(taken, WatchedOne()) as second:
            assert first != second
            assert read(f"{second}livez")[0] == 200


@pytest.mark.parametrize(
    ("status", "seconds", "problem"),
    [
        (SequencerStatus(Phase.LOADING), None, "it is LOADING"),
        (SERVING, 0.0, None),
        (SERVING, LAG_S_MAX + 1, "proposals have waited for 11 s"),
    ],
)
def test_sequencer_when_it_has_not_caught_up_then_is_not_ready(
    settings: Settings, status: SequencerStatus, seconds: float | None, problem: str | None
) -> None:
    class Made:
        def __init__(self) -> None:
            self.status = status

    watched = WatchedSequencer(settings)
    watched.is_made(Made())  # type: ignore[arg-type]
    watched.lag.problem, watched.lag.seconds = None, seconds
    assert (watched.problem() or "").startswith(problem or "")
    assert (watched.problem() is None) == (problem is None)


def test_services_when_they_run_then_each_is_looked_at(settings: Settings) -> None:
    watched = [WatchedSequencer, WatchedProjector, WatchedCheckpointer, WatchedGateway, WatchedPage, WatchedCarrier]
    assert [each.name for each in wanted_services(settings)] == [each.service for each in watched]
    bordered = replace(settings, registry_url="http://registry:8081")
    assert [each.name for each in wanted_services(bordered)] == [
        *(each.service for each in watched),
        WatchedRelay.service,
    ]


def test_services_when_a_relay_is_asked_for_and_its_extra_is_not_there_then_says_what_to_install(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    bordered = replace(settings, registry_url="http://registry:8081", sources={"registry_url": "commitlog.toml"})
    monkeypatch.setattr(serve, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"registry_url \(commitlog.toml\).*'commitlog\[registry\]'"):
        serve.wanted_services(bordered)


def test_whole_when_one_of_its_services_is_not_ready_then_it_is_not_and_says_which(settings: Settings) -> None:
    stays = (sys.executable, "-c", "import time; time.sleep(600)")
    supervisor = Supervisor([Service("sequencer", (), program=stays)], settings.environment(), say=lambda _: None)
    whole, sequencer = WatchedWhole(settings, supervisor), WatchedOne("it is LOADING")
    assert whole.problem() == "sequencer: not running; it is being restarted"
    supervisor.check()
    try:
        assert whole.problem() == "sequencer: it has not started yet"
        with endpoint(settings, sequencer), endpoint(settings, whole) as address:
            assert read(f"{address}readyz") == (503, "sequencer: it is LOADING\n")
            sequencer.says = None
            assert read(f"{address}readyz") == (200, "ok\n")
            assert (
                'commitlog_service_starts_total{log="flights",service="sequencer"} 1.0' in read(f"{address}metrics")[1]
            )
    finally:
        supervisor.stop()


def test_status_when_a_service_that_only_tells_of_itself_is_not_ready_or_stuck_then_it_says_so(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(settings: Settings) -> None:
        raise LogUnavailableError("127.0.0.1:1", waited_ms=1, detail="nobody there")

    monkeypatch.setattr(health, "require_genesis", away)
    monkeypatch.setattr(listening_place, "ANSWER_TIMEOUT_S", 0.1)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # It is for other machines.

    def told() -> list[str]:
        return [each for each in health.log_health(settings).problems if "nobody there" not in each]

    assert told() == []
    checkpointer = WatchedOne("it cannot write", service="checkpointer")
    with endpoint(settings, checkpointer), listening("127.0.0.1", 0) as silent:
        with noted(settings, measures_note("gateway"), "127.0.0.1", silent):
            assert told() == [
                "checkpointer: it cannot write",
                "gateway: no answer within 0 s; if it is stuck, end its process "
                f"(`kill -9 {os.getpid()}`), which what runs it starts again",
            ]
            with monkeypatch.context() as stopped:
                stopped.setattr(processes, "is_stopped", lambda pid: pid == os.getpid())
                assert told()[1:] == [
                    f"gateway: a signal has stopped its process: `kill -CONT {os.getpid()}` lets it go on"
                ]
        Notes(settings).leave("checkpointer", "the disk is full")
        assert told() == ["checkpointer: the disk is full"]
        Notes(settings).clear("checkpointer")
        checkpointer.says = None
        assert told() == []


def test_status_when_a_service_is_there_and_does_not_answer_then_it_does_not_say_that_it_is_restarted(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening_place, "ANSWER_TIMEOUT_S", 0.1)
    with listening("127.0.0.1", 0) as silent, noted(settings, measures_note("serve"), "127.0.0.1", silent):
        assert "`commitlog serve` restarts it" in health._who_starts(settings, "sequencer")
        with noted(settings, measures_note("sequencer"), "127.0.0.1", silent):
            told = health._who_starts(settings, "sequencer")
            assert told.startswith("one runs on this machine and is not ready: no answer within 0 s; if it is stuck")


def test_whole_when_its_relay_is_not_ready_then_it_is_still(settings: Settings) -> None:
    supervisor = Supervisor([RELAY], settings.environment(), say=lambda _: None)
    assert WatchedWhole(settings, supervisor).problem() is None


@pytest.mark.parametrize(
    ("partitions", "proposals_s", "outcomes_s", "problem"),
    [
        (0, 0.0, 0.0, "it has not started yet"),
        (4, 0.0, 0.0, None),
        (4, LAG_S_MAX + 1, 0.0, "proposals have waited at the border for 11 s"),
        (4, 0.0, LAG_S_MAX + 1, "decided outcomes have not reached the border for 11 s"),
    ],
)
def test_relay_when_something_waits_for_it_then_is_not_ready_and_says_what(
    settings: Settings, partitions: int, proposals_s: float, outcomes_s: float, problem: str | None
) -> None:
    watched = WatchedRelay(settings)
    watched.progress.partitions = partitions
    for lag, seconds in ((watched.proposals, proposals_s), (watched.outcomes, outcomes_s)):
        lag.problem, lag.seconds = None, seconds
    assert (watched.problem() or "").startswith(problem or "")
    assert (watched.problem() is None) == (problem is None)
