"""Three brokers of Kafka as docker-compose.yml's profile `three` has them, run from their jars: TLS, passwords, the authorizer.

What the file says is what they are told, by the class that Kafka's own image reads its environment with; only addresses and
folders are this machine's.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from commitlog.config import Settings
from commitlog.local.jars import ensure_jars
from commitlog.local.java import find_java
from commitlog.local.processes import free_port

ROOT = Path(__file__).resolve().parents[2]
BROKERS = ("kafka-1", "kafka-2", "kafka-3")
START_TIMEOUT_S = 240.0
_VARIABLE = re.compile(r"\$\{(\w+)(?::[-?][^}]*)?\}")
_ADDRESS = re.compile(r"([\w.-]*):(\d{4})\b")
_LOGGING = """\
Configuration:
  Appenders: {File: {name: FILE, fileName: broker.log, append: true, PatternLayout: {pattern: "%d %p %c: %m%n"}}}
  Loggers: {Root: {level: INFO, AppenderRef: {ref: FILE}}}
"""


def make_secrets(directory: Path) -> dict[str, str]:
    """Passwords and certificates below a directory, by the script that an operator runs; the variables of its `.env`."""
    assert shutil.which("openssl"), "openssl is needed: apt-get install openssl"
    folder = directory / "deploy" / "compose"
    folder.mkdir(parents=True)
    script = Path(shutil.copy(ROOT / "deploy/compose/secrets.sh", folder))
    subprocess.run([script], check=True)
    lines = (directory / ".env").read_text(encoding="ascii").splitlines()
    return dict(line.split("=", 1) for line in lines)


class ThreeBrokers:
    """The brokers, each a folder and a process.

    Args:
        directory: everything that they write; the secrets, too.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._variables = make_secrets(directory)
        self._services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
        self._ports: dict[tuple[str, str], int] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        settings = Settings.load(environment={})
        self._java = find_java(settings.java_home)
        jars = ensure_jars(settings.cache_dir, self._java)
        self._class_path = os.pathsep.join(map(str, jars))

    @property
    def bootstrap_servers(self) -> str:
        """Where clients outside of the containers' network reach them."""
        return ",".join(f"127.0.0.1:{self._port(name, f'9{name[-1]}94')}" for name in BROKERS)

    def options_of(self, user: str, variable: str) -> Mapping[str, str]:
        """What librdkafka is told of a user whose password a variable has; as the services in the file are."""
        told = self._services["commitlog-1"]["environment"]
        names = {key: key.removeprefix("COMMITLOG_KAFKA_").lower().replace("_", ".") for key in told}
        options = {names[key]: str(told[key]) for key in told if key.startswith("COMMITLOG_KAFKA_")}
        own = {"sasl.username": user, "sasl.password": self._variables[variable]}
        return {**options, **own, "ssl.ca.location": str(self._tls / "authority.pem")}

    def admin(self) -> AdminClient:
        """Asks as the super user."""
        options = self.options_of("admin", "KAFKA_ADMIN_PASSWORD")
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0, **options})

    def start(self, name: str) -> None:
        """Start one of them; an earlier one of this name has ended."""
        folder = self._directory / name
        if not folder.exists():
            self._prepare(name, folder)
        with (folder / "out").open("ab") as output:
            self._processes[name] = subprocess.Popen(
                [*self._command(folder, "-Xmx400m"), "kafka.Kafka", str(folder / "config/server.properties")],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """kill -9."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def wait_until_all_hold_all(self) -> None:
        """Until every partition has three copies in sync."""
        admin, deadline = self.admin(), time.monotonic() + START_TIMEOUT_S
        while not self._all_hold_all(admin):
            ended = [name for name, process in self._processes.items() if process.poll() is not None]
            assert not ended, f"{ended} ended: {(self._directory / ended[0] / 'out').read_text()[-2000:]}"
            assert time.monotonic() < deadline, "three copies in sync"
            time.sleep(0.1)

    def leader_of(self, topic: str) -> str:
        """Who leads the topic's first partition."""
        return f"kafka-{self.admin().list_topics(topic, timeout=60).topics[topic].partitions[0].leader}"

    def __enter__(self) -> ThreeBrokers:
        try:
            for name in BROKERS:
                self.start(name)
            self.wait_until_all_hold_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._processes):
            self.kill(name)

    @property
    def _tls(self) -> Path:
        return self._directory / "deploy" / "compose" / "secrets"

    def _all_hold_all(self, admin: AdminClient) -> bool:
        try:
            known = admin.list_topics(timeout=5)
        except KafkaException:
            return False
        partitions = [each for topic in known.topics.values() for each in topic.partitions.values()]
        return len(known.brokers) == len(BROKERS) and all(len(each.isrs) == len(BROKERS) for each in partitions)

    def _prepare(self, name: str, folder: Path) -> None:
        """Its configuration and its storage, as the image makes them at a container's first start."""
        (folder / "defaults").mkdir(parents=True)
        (folder / "mounted").mkdir()
        (folder / "config").mkdir()
        for template in ("log4j2.yaml", "tools-log4j2.yaml"):
            (folder / "defaults" / template).write_text(_LOGGING, encoding="ascii")
        (folder / "defaults" / "server.properties").touch()
        arguments = [f"--{kind}-configs-dir={folder / where}" for kind, where in _FOLDERS.items()]
        made = subprocess.run(
            [*self._command(folder, "-Xmx100m"), "kafka.docker.KafkaDockerWrapper", "setup", *arguments],
            env={"PATH": os.environ["PATH"], **self._environment(name, folder)},
            cwd=folder,
            capture_output=True,
            text=True,
        )
        assert made.returncode == 0, made.stdout + made.stderr

    def _environment(self, name: str, folder: Path) -> dict[str, str]:
        service: dict[str, Any] = self._services[name]
        mounted = {target: source for source, target, *_ in (each.split(":") for each in service["volumes"])}
        told = {}
        for key, value in service["environment"].items():
            text = _VARIABLE.sub(lambda found: self._variables[found[1]], str(value))
            for target, source in mounted.items():
                here = self._directory / source if source.startswith("./") else folder / "data"
                text = text.replace(target, str(here))
            if key.endswith(("_LISTENERS", "_VOTERS")):
                text = _ADDRESS.sub(lambda found: f"127.0.0.1:{self._port(found[1] or name, found[2])}", text)
            told[key] = text
        return told

    def _port(self, host: str, port: str) -> int:
        """The port of this machine that stands for a container's."""
        outside = next((name for name in BROKERS if port == f"9{name[-1]}94"), host)
        return self._ports.setdefault((outside, port), free_port())

    def _command(self, folder: Path, *options: str) -> list[str]:
        small = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
        logging = f"-Dlog4j2.configurationFile={folder / 'defaults/log4j2.yaml'}"
        return [str(self._java), *options, *small, logging, "-cp", self._class_path]


_FOLDERS = {"default": "defaults", "mounted": "mounted", "final": "config"}
