"""Settings, and the only place that reads the environment.

Where values come from is in `sources`, what they may be in `values`.

A setting is taken from the first of these that has it, so that a person can always override what a file says:

1. an argument (`Settings.load(log="orders")`, or an option of the command line),
2. the environment: `COMMITLOG_<NAME>`, for example `COMMITLOG_DATABASE_URL`; `COMMITLOG_KAFKA_SASL_MECHANISM` is the
   librdkafka option `sasl.mechanism`,
3. `commitlog.toml` in the working directory, or the file that `COMMITLOG_CONFIG` names,
4. the running embedded home: `<home>/run.json`, which `commitlog up` writes,
5. the default.

A profile is a part of the file, `[profile.prod]`, whose settings come right behind what names it: the argument `profile`, or
`COMMITLOG_PROFILE`.

What can change a verdict is no setting of a process: it is in the log. `partitions`, `proposal_bytes_max` and
`[genesis]` only supply the first values when a log is created.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from commitlog import compiled
from commitlog.config.sources import (
    CONFIG_FILE,
    KAFKA_PREFIX,
    PREFIX,
    PROFILE,
    Layer,
    defaults,
    environment_layer,
    file_layer,
    home_of,
    named_file,
    profile_layer,
    run_layer,
    section_of,
)
from commitlog.config.sources import PORTS_FILE as PORTS_FILE
from commitlog.config.sources import RUN_FILE as RUN_FILE
from commitlog.config.sources import SUPERVISED as SUPERVISED
from commitlog.config.sources import default_values as default_values
from commitlog.config.sources import variable_of as variable_of
from commitlog.config.values import OFF, READERS, option_text
from commitlog.config.values import SECRET_OPTIONS as SECRET_OPTIONS
from commitlog.config.values import masked as masked
from commitlog.config.values import without_password as without_password
from commitlog.errors import ConfigurationError
from commitlog.machine import THIS_MACHINE, Machine

SettingValue = str | int | float | bool | None
_DEFAULT = "default of {}"


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a process needs to know before it can read the log. Made by `Settings.load`.

    Attributes:
        log: name of the log; its topics are `<log>.proposals`, `<log>.results` and so on.
        log_id: UUID of the log, if another log may have the same name; None is whichever log has the name. `up` gives it
            to programs that find its servers by the home.
        bootstrap_servers: Kafka's addresses, `host:port`, comma separated.
        kafka: options passed through to librdkafka (TLS, SASL, ...).
        database_url: the catalog's PostgreSQL, `postgresql://user:password@host:port/database`.
        reader_url: the same database with a login in the role `commitlog_reader`, for those who only read the lake with
            DuckDB; None is `database_url`. `up` makes such a login.
        writer_url: the same database with a login in the role `commitlog_writer`, for those who write through the gateway;
            its host and port are PostgreSQL's, not the gateway's. None is `reader_url`. `up` makes such a login.
        data_path: where the lake's data files are: a directory, or an object store's URL, that no other log uses.
        home: the directory for the embedded servers and this machine's state.
        checkpoint_dir: where the sequencer's checkpoints are; never under `data_path`.
        partitions: partitions of the proposals topic of a log that is created.
        proposal_bytes_max: largest encoded proposal of a log that is created, in bytes.
        genesis: other first values of a log that is created, by the names of the log's settings.
        batch_records_max: most proposals that are decided and appended together.
        batch_bytes_max: most bytes of outcomes that are appended together.
        batch_wait_ms: how long a proposal may wait for those of other busy writers, to be decided and appended together.
        receipts_timeout_ms: how long a client waits for its receipt before the outcome counts as unknown.
        catalog_timeout_ms: how long a reader waits for the catalog to hold what was committed before it asked.
        staleness_ms: how old the state that readers see may be, so that they need not ask the log each time; 0 is the newest.
        projector_outcomes_max: most outcomes that one SQL transaction projects.
        kafka_port: port of the embedded broker; another free one is taken if it is in use.
        postgres_port: port of the embedded PostgreSQL; another free one is taken if it is in use.
        ui_host: address that the web page listens on; any other than this machine's own needs a token.
        ui_port: port of the web page; if it is not set, the page's last port, or another free one if that is in use.
        ui_token: token that visitors of the web page must present, at least 16 characters; None admits anybody on this machine.
        gateway_host: address that the gateway listens on; for any other than this machine's own, set a certificate.
        gateway_port: port of the gateway; if it is not set, its last port, or another free one if that is in use.
        gateway_tls_cert: file with the gateway's certificate and those that signed it, as PEM; with None, clients connect
            without TLS.
        gateway_tls_key: file with the certificate's key, as PEM; None if the key is in the certificate's file.
        carrier_socket: file of the socket by which programs of this machine propose through its carrier, beside which is the
            one by which a sequencer of this machine answers it; "off" has neither programs nor services use one.
        metrics_host: address at which services serve `/metrics` and `/readyz`.
        metrics_port: port of the sequencer's metrics; projector, checkpointer, web page, `serve`, the gateway, the relay
            and the carrier have the next ones, and a service whose port is taken has another free one.
        cache_dir: directory for this user's downloaded jars, and for what Java keeps of them.
        java_home: the Java to run the broker with; None is the one on PATH.
        maven_url: a mirror of Maven Central; None is Maven Central.
        links_from: profiles of `commitlog.toml`, comma separated: `serve` and `up` run a link from each of their logs to
            this one.
        registry_url: URL of the schema registry for `commitlog relay`, `http://user:password@host:8081`; if it is set,
            `serve` and `up` run a relay.
        sources: for each setting where its value came from, for messages.
        config_file: where the profiles of other logs are.
        machine: what the process runs on; no setting that anybody gives.
    """

    log: str
    log_id: str | None
    bootstrap_servers: str
    database_url: str = field(repr=False)
    reader_url: str | None = field(repr=False)
    writer_url: str | None = field(repr=False)
    data_path: str
    home: Path
    checkpoint_dir: Path
    kafka: Mapping[str, str] = field(repr=False)
    genesis: Mapping[str, SettingValue]
    partitions: int
    proposal_bytes_max: int
    batch_records_max: int
    batch_bytes_max: int
    batch_wait_ms: int
    receipts_timeout_ms: int
    catalog_timeout_ms: int
    staleness_ms: int
    projector_outcomes_max: int
    kafka_port: int
    postgres_port: int
    ui_host: str
    ui_port: int
    ui_token: str | None = field(repr=False)
    gateway_host: str
    gateway_port: int
    gateway_tls_cert: Path | None
    gateway_tls_key: Path | None
    carrier_socket: Path | None
    metrics_host: str
    metrics_port: int
    cache_dir: Path
    java_home: Path | None
    maven_url: str | None = field(repr=False)
    links_from: str | None
    registry_url: str | None = field(repr=False)
    sources: Mapping[str, str] = field(repr=False, compare=False)
    config_file: Path = field(default=Path(CONFIG_FILE), repr=False, compare=False)
    machine: Machine = field(default=THIS_MACHINE, repr=False, compare=False)

    @classmethod
    def load(
        cls,
        *,
        config_file: Path | None = None,
        environment: Mapping[str, str] | None = None,
        profile: str | None = None,
        **arguments: object,
    ) -> Settings:
        """Reads all sources and checks every value.

        Args:
            config_file: instead of `commitlog.toml`; it must exist.
            environment: instead of the process's environment.
            profile: which `[profile.NAME]` of the file has settings for this, before those of the environment.
            arguments: settings by name; None is the same as not given.

        Raises:
            ConfigurationError: a value is wrong, or a file is; the message names the setting and its source.
        """
        surroundings = os.environ if environment is None else environment
        unknown = sorted(arguments.keys() - READERS.keys() - {"kafka", "genesis"})
        if unknown:
            raise ConfigurationError(f"unknown setting {', '.join(unknown)}; known are {', '.join(READERS)}")
        file = file_layer(config_file, surroundings)
        layers = [
            Layer({name: value for name, value in arguments.items() if value is not None}, "argument {}"),
            *profile_layer(file, profile, "argument profile"),
            environment_layer(surroundings),
            *([] if profile else profile_layer(file, surroundings.get(PROFILE), PROFILE)),
            file,
        ]
        home = home_of(layers)
        layers.append(run_layer(home, layers))
        layers.append(Layer(defaults(home, layers, surroundings), _DEFAULT))
        path = config_file or named_file(surroundings) or Path(CONFIG_FILE)
        # Where the working directory was removed there is no such file, and all that services are told is absolute.
        with suppress(FileNotFoundError):
            path = path.absolute()
        return replace(_settings(layers), config_file=path)

    def of_profile(self, name: str) -> Settings:
        """Those of another log, which is a profile in the same file; nothing of what this one is given holds for it.

        Raises:
            ConfigurationError: there is no such profile, or a value in it is wrong.
        """
        # One that was given is there; without any the profile is what is missing, and that is said.
        file = self.config_file if self.config_file.exists() else None
        return Settings.load(config_file=file, environment={}, profile=name)

    def link_sources(self) -> tuple[str, ...]:
        """The profiles of `links_from`."""
        return tuple(self.links_from.split(",")) if self.links_from else ()

    def at_home(self, home: Path) -> Settings:
        """These settings with all that lies in the home in another one: a log and its programs that know of no other."""
        return replace(
            self,
            home=home,
            data_path=str(home / "data"),
            checkpoint_dir=home / "checkpoints",
            carrier_socket=home / "carrier.sock",
        )

    def served_by(
        self,
        home: Path,
        *,
        bootstrap_servers: str,
        database_url: str,
        reader_url: str | None = None,
        writer_url: str | None = None,
        kafka: Mapping[str, str],
    ) -> Settings:
        """These settings with the addresses of the servers that run in a home now, and Kafka's password."""
        addresses = {
            "bootstrap_servers": bootstrap_servers,
            "database_url": database_url,
            "reader_url": reader_url,
            "writer_url": writer_url,
        }
        told = [*addresses, *(f"kafka.{name}" for name in kafka)]
        sources = {**self.sources, **dict.fromkeys(told, f"what runs in {home}")}
        return replace(self, **addresses, kafka={**self.kafka, **kafka}, sources=sources)  # type: ignore[arg-type]

    def is_default(self, name: str) -> bool:
        """Whether nobody has given a setting."""
        return self.sources[name] == _DEFAULT.format(name)

    def is_stopped(self, address: str) -> bool:
        """Whether a server of the home is meant, which `up` has run there and does not now: then whoever listens at the default
        address is another one. ``address`` is the setting, "bootstrap_servers" or "database_url".
        """
        return self.is_default(address) and (self.home / PORTS_FILE).exists()

    def environment(self) -> dict[str, str]:
        """The process's environment for a child that must see exactly these settings, whatever files it finds; a port that
        nobody has chosen does not look chosen to it."""
        kept = (compiled.SWITCH,)
        child = {name: value for name, value in os.environ.items() if name in kept or not name.startswith(PREFIX)}
        # What these settings leave out, a commitlog.toml in the working directory would say.
        child[variable_of("config")] = os.devnull
        for name in READERS:
            value = getattr(self, name)
            if name == "carrier_socket" or (
                value is not None and not (name.endswith("_port") and self.is_default(name))
            ):
                child[variable_of(name)] = OFF if value is None else str(value)
        child.update({KAFKA_PREFIX + name.upper().replace(".", "_"): value for name, value in self.kafka.items()})
        child[PREFIX + "GENESIS"] = json.dumps(dict(self.genesis))
        return child

    def shown(self) -> Iterator[tuple[str, str | None, str]]:
        """(name, value, source) of each setting, for people; passwords are masked, and None is what is not set."""
        for name in READERS:
            value = getattr(self, name)
            yield name, None if value is None else masked(name, str(value)), self.sources[name]
        for name, value in self.kafka.items():
            yield f"kafka.{name}", masked(f"kafka.{name}", value), self.sources[f"kafka.{name}"]
        for name, first in self.genesis.items():
            yield f"genesis.{name}", str(first), self.sources[f"genesis.{name}"]


def s3_endpoint(environment: Mapping[str, str] | None = None) -> str | None:
    """Where S3 is when it is not AWS's, by the variable that AWS's own clients and Arrow take."""
    surroundings = os.environ if environment is None else environment
    return surroundings.get("AWS_ENDPOINT_URL") or None


def traces_exporters() -> tuple[str, ...]:
    """Where spans go, by the variable that OpenTelemetry's own libraries take; nowhere unless it is set."""
    given = os.environ.get("OTEL_TRACES_EXPORTER", "").split(",")
    return tuple(name for each in given if (name := each.strip()) not in ("", "none"))


def is_supervised() -> bool:
    """Whether a supervisor runs this process, which is to end with it."""
    return SUPERVISED in os.environ


def wants_no_colour() -> bool:
    """Whether the environment asks programs for no colours (https://no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))


def _settings(layers: list[Layer]) -> Settings:
    values: dict[str, object] = {}
    sources: dict[str, str] = {}
    for name, read in READERS.items():
        layer = next(layer for layer in layers if name in layer.values)
        sources[name] = layer.where(name)
        values[name] = read(layer.values[name], sources[name])
    for section in ("kafka", "genesis"):
        found = section_of(section, layers, sources)
        values[section] = {name: option_text(value) for name, value in found.items()} if section == "kafka" else found
    settings = Settings(**values, sources=sources)  # type: ignore[arg-type]
    _check_together(settings)
    return settings


def check_checkpoints_apart(settings: Settings) -> None:
    """See that the sequencer's checkpoints are not where all writers can write.

    Raises:
        ConfigurationError: they are below the data files.
    """
    data_path = settings.data_path
    folder = unquote(urlsplit(data_path).path) if data_path.startswith("file:") else data_path
    if Path(os.path.normpath(settings.checkpoint_dir)).is_relative_to(os.path.normpath(folder)):
        raise ConfigurationError(
            f"checkpoint_dir ({settings.sources['checkpoint_dir']}) is {settings.checkpoint_dir}, under data_path, "
            f"{data_path}, where every writer can write; choose a directory that only the service can write to"
        )


def _check_together(settings: Settings) -> None:
    check_checkpoints_apart(settings)
    if "bootstrap.servers" in settings.kafka:
        raise ConfigurationError(
            f"{settings.sources['kafka.bootstrap.servers']}: give the brokers' addresses as bootstrap_servers"
        )


assert READERS.keys() | {"kafka", "genesis", "sources", "config_file", "machine"} == {
    each.name for each in fields(Settings)
}
