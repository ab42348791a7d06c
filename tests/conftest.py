"""The servers that tests run against: one real broker, one real PostgreSQL and one Spark session for the whole run.

Each starts when the first test asks for it. What is missing fails the test that needs it; nothing is skipped. Tests
share the servers and nothing else: every test has its own log, database and lake.

`make test` runs with three workers, which wait for servers now and then, and each of which has a broker and a PostgreSQL. What
uses the Spark session is one worker's, and so is what starts Spark itself, and what starts servers at certain addresses; all
other files go to whoever is free, the largest first, and then tests without servers one by one.

With COMMITLOG_TEST_CONTAINERS=1 the broker and PostgreSQL are containers instead of embedded servers.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import tempfile
import threading
import urllib.request
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import psutil
import psycopg
import pytest
from psycopg import sql

from commitlog import compiled
from commitlog.config import Settings
from commitlog.local import EmbeddedBroker, EmbeddedPostgres
from commitlog.local.broker import stop_orphaned_broker
from commitlog.local.passwords import PASSWORD_MARK
from commitlog.local.postgres import stop_orphaned_postgres
from commitlog.local.processes import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONTAINERS = os.environ.get("COMMITLOG_TEST_CONTAINERS") == "1"
KAFKA_IMAGE = "apache/kafka:4.3.1"
POSTGRES_IMAGE = "postgres:18"
DIRECTORY_PREFIX = "commitlog-test-"
MEMORY_DISK, PLENTY_BYTES = Path("/dev/shm"), 8 << 30
TESTS = Path(__file__).parent
WITHOUT_SERVERS = ("unit", "scenarios", "simulation")
OWN_SERVERS = (
    "test_access",
    "test_compose",
    "test_demo",
    "test_fencing_campaign",
    "test_local_runtime",
    "test_outages",
    "test_readme",
    "test_torture",
)
"""Tests that start servers, some at an address that others of these want, too."""
OWN_DRIVERS = ("test_connect", "test_killed", "test_object_store", "test_older_spark")
"""Tests of Spark that start it themselves, instead of using the run's session."""

PASSWORD = re.compile(f"{PASSWORD_MARK}[0-9a-f]{{32}}")
"""As the embedded servers make them."""

NewDatabase = Callable[[], AbstractContextManager[str]]


# Logs in memory, a gateway, and a browser, are for the tests of all folders.
sys.path[:0] = [str(TESTS / folder) for folder in ("browser", "integration", "unit")]
# Of what servers take to start, Java's second compiler is half, and few of them live to gain by it.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")


def _connect_cheaply(*args: Any, config: dict[str, Any] | None = None, **kwargs: Any) -> duckdb.DuckDBPyConnection:
    """DuckDB without what costs each of hundreds of clients half a second of CPU to open a lake: the signatures of its
    extensions, and a second thread, which turns round and round while the first one waits for PostgreSQL. Clients that tests
    start as processes of their own are as they come."""
    return _duckdb_connect(
        *args, config={**(config or {}), "allow_unsigned_extensions": "true", "threads": 1}, **kwargs
    )


_duckdb_connect, duckdb.connect = duckdb.connect, _connect_cheaply


def pytest_report_header() -> str:
    """Which form of the core is tested."""
    return f"commitlog's core: {compiled.described()}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With several workers, tests that share Spark, or start servers at an address that others want, are one worker's."""
    from xdist.scheduler import LoadScopeScheduling

    class ByServers(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            folder, _, name = nodeid.removeprefix("tests/").partition("/")
            if folder in WITHOUT_SERVERS:
                return nodeid
            if name.startswith(OWN_SERVERS):
                return "own servers"
            if folder == "spark":
                # One by one they would come last of all with servers, and the last of them takes minutes on a slow machine.
                return "own drivers" if name.startswith(OWN_DRIVERS) else "Spark"
            return nodeid.partition("::")[0]

        def _assign_work_unit(self, node: Any) -> None:
            # What a crashed worker had comes again, also what it had done: whoever is given only that would wait for ever.
            done = [scope for scope, unit in self.workqueue.items() if all(unit.values())]
            for scope in done:
                del self.workqueue[scope]
            if self.workqueue:
                super()._assign_work_unit(node)
            else:
                node.shutdown()

    return ByServers(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What only sources can show is left to the run that tests the interpreted form."""
    marker = item.get_closest_marker("interpreted")
    if marker is not None and compiled.form == compiled.COMPILED:
        pytest.skip(f"only interpreted: {marker.args[0]}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that printed or logged a password, of any server that the run has started, fails whatever else it shows."""
    report = yield
    for name, text in report.sections:
        found = PASSWORD.search(text)
        if found is not None and report.passed:
            report.outcome = "failed"
            report.longrepr = f"{report.nodeid} printed a password ({name}): {text[: found.start()][-300:]}***"
    return report


@pytest.fixture(scope="session")
def servers_dir() -> Iterator[Path]:
    """The directory of this run's servers, in whose logs no password may be. What a killed run left there is stopped and
    removed."""
    _clear_dead_runs()
    directory = Path(tempfile.mkdtemp(prefix=f"{DIRECTORY_PREFIX}{os.getpid()}-", dir=_servers_home()))
    yield directory
    logs = [file for ending in ("log", "out") for file in directory.rglob(f"*.{ending}") if file.is_file()]
    telling = [file for file in logs if PASSWORD.search(file.read_text(encoding="utf-8", errors="replace"))]
    shutil.rmtree(directory)
    assert telling == []


@pytest.fixture(scope="session")
def kafka(servers_dir: Path) -> Iterator[str]:
    """The bootstrap servers of the run's broker."""
    if CONTAINERS:
        with _kafka_container() as bootstrap_servers:
            yield bootstrap_servers
    else:
        with EmbeddedBroker(servers_dir / "kafka", is_open=True) as broker:
            yield broker.bootstrap_servers


@pytest.fixture(scope="session")
def postgres(servers_dir: Path) -> Iterator[str]:
    """The URL of the maintenance database of the run's PostgreSQL, as superuser."""
    if CONTAINERS:
        from testcontainers.postgres import PostgresContainer

        with PostgresContainer(POSTGRES_IMAGE, username="postgres", dbname="postgres", driver=None) as server:
            yield server.get_connection_url()
    else:
        with EmbeddedPostgres(servers_dir / "postgres") as server:
            yield server.url


@pytest.fixture(scope="session")
def new_database(postgres: str) -> NewDatabase:
    """Makes an empty database, which is dropped at the end; gives its URL."""

    @contextlib.contextmanager
    def made() -> Iterator[str]:
        name = f"test_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield f"{postgres.rpartition('/')[0]}/{name}"
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    return made


@pytest.fixture
def database_url(new_database: NewDatabase) -> Iterator[str]:
    """The URL of an empty database of this test's own."""
    with new_database() as url:
        yield url


@pytest.fixture
def other_database_url(new_database: NewDatabase) -> Iterator[str]:
    """The URL of another one."""
    with new_database() as url:
        yield url


@pytest.fixture
def log_name() -> str:
    """The name of a log of this test's own."""
    return f"log-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def lake_dir(tmp_path: Path) -> Path:
    """An empty directory for data files."""
    directory = tmp_path / "lake"
    directory.mkdir()
    return directory


@pytest.fixture
def settings(kafka: str, database_url: str, log_name: str, lake_dir: Path, tmp_path: Path) -> Settings:
    """Settings of a log, a catalog and a lake of this test's own, untouched by the environment."""
    return Settings.load(
        environment={},
        log=log_name,
        bootstrap_servers=kafka,
        database_url=database_url,
        data_path=lake_dir,
        home=tmp_path / "home",
    )


@pytest.fixture
def environment(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A working directory of its own, and the settings where a user has them."""
    names = ("log", "bootstrap_servers", "database_url", "data_path", "home")
    found = {f"COMMITLOG_{name.upper()}": str(getattr(settings, name)) for name in names}
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return found


@pytest.fixture
def deciding(settings: Settings) -> Iterator[None]:
    """The log decides and projects, by a sequencer and a projector in threads."""
    from commitlog.catalog.projector import Projector
    from commitlog.log.codec import decode_statistics
    from commitlog.log.genesis import init_log
    from commitlog.log.sequencer import Sequencer

    init_log(settings)
    stop = threading.Event()
    projector = Projector(settings, decode_statistics=decode_statistics)
    threads = [
        threading.Thread(target=Sequencer(settings, stop=stop).run, name="sequencer"),
        threading.Thread(target=projector.run, args=(stop,), name="projector"),
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(timeout=120)
            assert not thread.is_alive(), f"the {thread.name} did not stop"


@pytest.fixture(scope="session")
def store() -> Iterator[str]:
    """The URL of the run's S3 server."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", free_port(), verbose=False)
    server.start()
    yield f"http://127.0.0.1:{server._server.port}"
    server.stop()


@pytest.fixture
def endpoint(store: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An S3 server with an empty bucket `lake`; what the AWS clients of this process and its children use."""
    from pyarrow import fs

    for name, value in {
        "AWS_ENDPOINT_URL": store,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    urllib.request.urlopen(f"{store}/moto-api/reset", data=b"").close()
    fs.S3FileSystem(endpoint_override=store, allow_bucket_creation=True).create_dir("lake")
    return store


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The run's Spark session: two local threads, UTC, reachable from this machine only."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    directory = tmp_path_factory.mktemp("spark")
    java_options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Duser.timezone=UTC"
    session = (
        SparkSession.builder.master("local[2]")
        .appName("commitlog-tests")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", java_options)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .getOrCreate()
    )
    yield session
    session.stop()


def _servers_home() -> Path:
    """In memory where there is plenty of it: each test's own database is hundreds of files, which are removed again, and some
    disks make new ones the slower the more were removed in the last minutes."""
    free = min(shutil.disk_usage(MEMORY_DISK).free, psutil.virtual_memory().available) if MEMORY_DISK.is_dir() else 0
    return MEMORY_DISK if free >= PLENTY_BYTES else Path(tempfile.gettempdir())


def _clear_dead_runs() -> None:
    for home in (MEMORY_DISK, Path(tempfile.gettempdir())):
        for directory in home.glob(f"{DIRECTORY_PREFIX}*"):
            pid = directory.name.removeprefix(DIRECTORY_PREFIX).partition("-")[0]
            if pid.isdigit() and not psutil.pid_exists(int(pid)):
                stop_orphaned_broker(directory / "kafka")
                stop_orphaned_postgres(directory / "postgres")
                shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def _kafka_container() -> Iterator[str]:
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.waiting_utils import wait_for_logs

    # A broker tells clients where it is, so the port must be known before it starts.
    port = free_port()
    options = {
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_NODE_ID": "1",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    }
    container = DockerContainer(KAFKA_IMAGE).with_bind_ports(9092, port)
    for name, value in options.items():
        container = container.with_env(name, value)
    with container:
        wait_for_logs(container, "Kafka Server started", timeout=60)
        yield f"127.0.0.1:{port}"
