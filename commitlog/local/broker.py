"""A Kafka broker of one node, run from its jars: the real thing, with settings for one machine.

Everything it writes is in its own directory, so that a directory is a cluster: start it again and the topics are there.
It listens on 127.0.0.1 only, asks for a password (`broker_access`), and its ports may differ from start to start. A broker
that outlived a killed parent, or what makes its storage, is found by its command line and stopped before the next one starts.
"""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from commitlog.config import Settings
from commitlog.errors import LocalRuntimeError
from commitlog.local.broker_access import BrokerAccess
from commitlog.local.jars import Progress, class_archive, ensure_jars
from commitlog.local.java import find_java
from commitlog.local.passwords import write_private
from commitlog.local.processes import HOST, find_processes, free_port, is_listening, stop_processes
from commitlog.local.server import EmbeddedServer

_DATA, _CONFIGURATION, _LOGGING = "data", "server.properties", "log4j2.xml"
"""Kafka is told of its files by names below its working directory: in a path it would take a comma for the end of one, and
letters beyond Latin-1 for others, and keep its data somewhere else."""

CHECKED_ARCHIVE = ("-XX:+IgnoreUnrecognizedVMOptions", "-XX:+VerifySharedSpaces")
"""With which Java notices that an archive of classes was damaged, if both who makes it and who uses it has them."""

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
{listeners}advertised.listeners=CLIENTS://{host}:{port}
inter.broker.listener.name=CLIENTS
log.dirs={data}
auto.create.topics.enable=false
default.replication.factor=1
min.insync.replicas=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
# What waits for work wakes up three times a second to look for it: no more threads than a small machine can use.
num.network.threads=1
num.io.threads=2
group.coordinator.threads=1
share.coordinator.threads=1
log.cleaner.dedupe.buffer.size=16777216
# No record without meaning twice a second: it is for controllers that others follow.
metadata.max.idle.interval.ms=0
# A broker that was killed is let in again when its session is over.
broker.heartbeat.interval.ms=1000
broker.session.timeout.ms=3000
"""

_LOG4J = """\
<Configuration status="ERROR">
  <Appenders>
    <RollingFile name="file" fileName="broker.log" filePattern="broker.log.%i">
      <PatternLayout pattern="%d %p %c: %m%n"/>
      <SizeBasedTriggeringPolicy size="10MB"/>
      <DefaultRolloverStrategy max="2"/>
    </RollingFile>
  </Appenders>
  <Loggers><Root level="INFO"><AppenderRef ref="file"/></Root></Loggers>
</Configuration>
"""


class EmbeddedBroker(EmbeddedServer):
    """A broker whose whole state is one directory.

    Args:
        directory: its configuration, log and data; made when it is not there.
        port: for clients; 0, or a port that is taken, means any free one.
        is_open: asks nobody for a password, for tests that have no secrets.
        settings: where Java and the jars are; None loads them.
        progress: is told about downloads.
    """

    NAME, WHAT = "Kafka", "a broker"
    ENDED_BY, STOP_TIMEOUT_S = signal.SIGTERM, 15.0

    def __init__(
        self,
        directory: Path,
        *,
        port: int = 0,
        is_open: bool = False,
        settings: Settings | None = None,
        progress: Progress = lambda line: None,
    ) -> None:
        super().__init__(directory, port=port, progress=progress)
        self._is_open = is_open
        self._controller_port = 0
        self._access = BrokerAccess(self._directory)
        self._settings = settings or Settings.load()

    @property
    def bootstrap_servers(self) -> str:
        """Its address for clients, while it runs."""
        return f"{HOST}:{self._port}"

    @property
    def client_options(self) -> Mapping[str, str]:
        """The options of librdkafka, beside the address, without which nobody reaches it: the password among them."""
        return {} if self._is_open else self._access.client_options()

    @property
    def log_file(self) -> Path:
        """Where the broker writes what it does."""
        return self._directory / "broker.log"

    def _stop_orphaned(self) -> None:
        stop_orphaned_broker(self._directory)

    def _begin(self) -> subprocess.Popen[bytes]:
        self._take_port()
        java = find_java(self._settings.java_home)
        jars = ensure_jars(self._settings.cache_dir, java, maven_url=self._settings.maven_url, progress=self._progress)
        if not (self._directory / _DATA / "meta.properties").exists():
            self._format(java, jars)
        self._write_configuration()
        return self._run(java, jars)

    def _write_configuration(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._controller_port = free_port()
        listeners = self._access.listeners(*self._ports(), is_open=self._is_open)
        properties = _PROPERTIES.format(host=HOST, port=self._port, listeners=listeners, data=_DATA)
        write_private(self._directory / _CONFIGURATION, properties)
        (self._directory / _LOGGING).write_text(_LOG4J, encoding="utf-8")

    def _format(self, java: Path, jars: Sequence[Path]) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # After a blank, an id that begins with a dash would be taken for an option.
        arguments = ["format", "--ignore-formatted", f"--cluster-id={cluster_id}"]
        if not self._is_open:
            arguments.append(f"@{self._access.make()}")
        self._write_configuration()
        command = self._command(java, jars, "-Xmx64m", "-XX:TieredStopAtLevel=1", *self._kept_classes(java))
        with self._output().open("wb") as output:
            formatted = subprocess.run(
                [*command, "kafka.tools.StorageTool", *arguments, "--config", _CONFIGURATION],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._directory,
                check=False,
            )
        if formatted.returncode != 0:
            raise LocalRuntimeError(f"Kafka's storage in {self._directory} could not be made:", log_file=self._output())
        self._access.made()

    def _run(self, java: Path, jars: Sequence[Path]) -> subprocess.Popen[bytes]:
        command = self._command(java, jars, "-Xms256m", "-Xmx768m", *self._class_options(java))
        with self._output().open("wb") as output:
            return subprocess.Popen(
                [*command, "kafka.Kafka", _CONFIGURATION],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._directory,
                # Ctrl-C is for whoever runs us: it stops the clients first and the broker last.
                start_new_session=True,
            )

    def _command(self, java: Path, jars: Sequence[Path], *options: str) -> list[str]:
        return [
            # By the locale Java reads the name of the working directory, too.
            *("env", "LC_ALL=C.UTF-8"),
            str(java),
            *options,
            _marker(self._directory),
            "-XX:+UseSerialGC",
            "-XX:-UsePerfData",
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={_LOGGING}",
            *("-cp", os.pathsep.join(str(jar) for jar in jars)),
        ]

    def _class_options(self, java: Path) -> tuple[str, ...]:
        return self._kept_classes(java)

    def _kept_classes(self, java: Path) -> tuple[str, ...]:
        archive = class_archive(self._settings.cache_dir, java)
        return (*CHECKED_ARCHIVE, f"-XX:SharedArchiveFile={archive}") if archive.exists() else ()

    def _ports(self) -> tuple[int, int]:
        return self._port, self._controller_port

    def _output(self) -> Path:
        return self._directory / "broker.out"

    def _failure_log(self) -> Path:
        return self.log_file if self.log_file.exists() else self._output()

    def _answers(self) -> bool:
        if not is_listening(self._port):
            return False
        try:
            return bool(self._admin().list_topics(timeout=5).brokers)
        except KafkaException:
            return False

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0, **self.client_options})


def stop_orphaned_broker(directory: Path) -> bool:
    """Stops the broker, or what makes its storage, in a directory whose lock is free; True when there was one."""
    orphans = find_processes(lambda process: is_broker_of(process, directory))
    stop_processes(orphans, signal.SIGTERM, timeout_s=EmbeddedBroker.STOP_TIMEOUT_S)
    return bool(orphans)


def is_broker_of(process: psutil.Process, directory: Path) -> bool:
    """Whether a process is the broker in a directory, or makes its storage."""
    return _marker(directory.resolve()) in process.cmdline()


def _marker(directory: Path) -> str:
    return f"-Dcommitlog.broker={directory}"
