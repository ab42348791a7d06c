"""Settings, and the only place that reads the environment.

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
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import cast
from uuid import UUID

from commitlog import compiled
from commitlog.errors import ConfigurationError
from commitlog.machine import THIS_MACHINE, Machine

PREFIX = "COMMITLOG_"
KAFKA_PREFIX = "COMMITLOG_KAFKA_"
PROFILE = "COMMITLOG_PROFILE"
CONFIG_FILE = "commitlog.toml"
RUN_FILE = "run.json"
PORTS_FILE = "ports.json"
DEFAULT_LOG = "main"
HOME = ".commitlog"

SettingValue = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a process needs to know before it can read the log. Made by `Settings.load`.

    Attributes:
        log: name of the log; its topics are `<log>.proposals`, `<log>.results` and so on.
        log_id: the one log that is meant, as a UUID, where another one may have its name; None is whichever has it. `up`
            tells it to whoever finds its servers by the home.
        bootstrap_servers: Kafka's addresses, `host:port`, comma separated.
        kafka: options passed through to librdkafka (TLS, SASL, ...).
        database_url: the catalog's PostgreSQL, `postgresql://user:password@host:port/database`.
        reader_url: the same database for those who only read the lake with DuckDB, for a login in the role
            `commitlog_reader`; None is `database_url`. `up` makes such a login.
        data_path: where the lake's data files are; a directory or an object store's URL, of this log alone. Without one it
            is `<home>/data/<log>`.
        home: the directory of the embedded runtime and of this machine's state.
        checkpoint_dir: where the sequencer's checkpoints are; never under `data_path`.
        partitions: partitions of the proposals topic of a log that is created.
        proposal_bytes_max: largest encoded proposal of a log that is created, in bytes.
        genesis: other first values of a log that is created, by the names of the log's settings.
        batch_records_max: most proposals that are decided and appended together.
        batch_bytes_max: most bytes of outcomes that are appended together.
        receipts_timeout_ms: how long a client waits for its receipt before the outcome counts as unknown.
        catalog_timeout_ms: how long a reader waits for the catalog to hold what was committed before it asked.
        staleness_ms: how old what a reader sees may be, so that it need not ask the log each time; 0 is the newest.
        projector_outcomes_max: most outcomes that one SQL transaction projects.
        kafka_port: port of the embedded broker; another free one is taken if it is in use.
        postgres_port: port of the embedded PostgreSQL; another free one is taken if it is in use.
        ui_host: where the web page listens; at another address than this machine's own it needs a token.
        ui_port: port of the web page; unless it is chosen, another free one is taken if it is in use.
        ui_token: whoever looks at the web page must have it, at least 16 characters; None is anybody on this machine.
        metrics_host: where services tell their measures and whether they are ready.
        metrics_port: the sequencer's port for that; projector, checkpointer, web page and `serve` have the next ones, and a
            service whose port is taken has another free one.
        cache_dir: where this user's downloaded jars are.
        java_home: the Java to run the broker with; None looks on PATH.
        maven_url: a mirror of Maven Central; None is Maven Central.
        sources: for each setting where its value came from, for messages.
        machine: what the process runs on; no setting that anybody gives.
    """

    log: str
    log_id: str | None
    bootstrap_servers: str
    database_url: str = field(repr=False)
    reader_url: str | None = field(repr=False)
    data_path: str
    home: Path
    checkpoint_dir: Path
    kafka: Mapping[str, str] = field(repr=False)
    genesis: Mapping[str, SettingValue]
    partitions: int
    proposal_bytes_max: int
    batch_records_max: int
    batch_bytes_max: int
    receipts_timeout_ms: int
    catalog_timeout_ms: int
    staleness_ms: int
    projector_outcomes_max: int
    kafka_port: int
    postgres_port: int
    ui_host: str
    ui_port: int
    ui_token: str | None = field(repr=False)
    metrics_host: str
    metrics_port: int
    cache_dir: Path
    java_home: Path | None
    maven_url: str | None = field(repr=False)
    sources: Mapping[str, str] = field(repr=False, compare=False)
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
        unknown = sorted(arguments.keys() - _READERS.keys() - {"kafka", "genesis"})
        if unknown:
            raise ConfigurationError(f"unknown setting {', '.join(unknown)}; known are {', '.join(_READERS)}")
        file = _file_layer(config_file, surroundings)
        layers = [
            _Layer({name: value for name, value in arguments.items() if value is not None}, "argument {}"),
            *_profile_layer(file, profile, "argument profile"),
            _environment_layer(surroundings),
            *([] if profile else _profile_layer(file, surroundings.get(PROFILE), PROFILE)),
            file,
        ]
        home = _home(layers)
        layers.append(_run_layer(home, layers))
        layers.append(_Layer(_defaults(home, layers, surroundings), "default of {}"))
        return _settings(layers)

    def served_by(
        self,
        home: Path,
        *,
        bootstrap_servers: str,
        database_url: str,
        reader_url: str | None = None,
        kafka: Mapping[str, str],
    ) -> Settings:
        """These settings with the addresses of the servers that run in a home now, and Kafka's password."""
        addresses = {"bootstrap_servers": bootstrap_servers, "database_url": database_url, "reader_url": reader_url}
        told = [*addresses, *(f"kafka.{name}" for name in kafka)]
        sources = {**self.sources, **dict.fromkeys(told, f"what runs in {home}")}
        return replace(self, **addresses, kafka={**self.kafka, **kafka}, sources=sources)  # type: ignore[arg-type]

    def is_stopped(self, address: str) -> bool:
        """Whether a server of the home is meant, which `up` has run there and does not now: then whoever listens at the default
        address is another one. ``address`` is the setting, "bootstrap_servers" or "database_url".
        """
        return self.sources[address].startswith("default") and (self.home / PORTS_FILE).exists()

    def environment(self) -> dict[str, str]:
        """The process's environment for a child that must see exactly these settings, whatever files it finds; a port that
        nobody has chosen does not look chosen to it."""
        kept = (compiled.SWITCH,)
        child = {name: value for name, value in os.environ.items() if name in kept or not name.startswith(PREFIX)}
        for name in _READERS:
            value = getattr(self, name)
            is_left_out = name.endswith("_port") and self.sources[name].startswith("default")
            if value is not None and not is_left_out:
                child[variable_of(name)] = str(value)
        child.update({KAFKA_PREFIX + name.upper().replace(".", "_"): value for name, value in self.kafka.items()})
        child[PREFIX + "GENESIS"] = json.dumps(dict(self.genesis))
        return child

    def shown(self) -> Iterator[tuple[str, str, str]]:
        """(name, value, source) of each setting, for people; passwords are masked."""
        for name in _READERS:
            value = getattr(self, name)
            yield name, masked(name, str(value)) if value else str(value), self.sources[name]
        for name, value in self.kafka.items():
            yield f"kafka.{name}", masked(f"kafka.{name}", value), self.sources[f"kafka.{name}"]
        for name, first in self.genesis.items():
            yield f"genesis.{name}", str(first), self.sources[f"genesis.{name}"]


_SECRETS = ("password", "secret", "key", "token", "jaas", "oauthbearer.config")
"""What stands in the names of librdkafka's options whose values nobody shows."""


def masked(name: str, value: str) -> str:
    """A setting, or `kafka.` and an option of librdkafka, as it may be shown: ``***`` for what is secret of it."""
    is_secret = name.startswith("kafka.") and any(word in name for word in _SECRETS) and not name.endswith(".location")
    return "***" if is_secret or name == "ui_token" else without_password(value)


def s3_endpoint(environment: Mapping[str, str] | None = None) -> str | None:
    """Where S3 is when it is not AWS's, by the variable that AWS's own clients and Arrow take."""
    surroundings = os.environ if environment is None else environment
    return surroundings.get("AWS_ENDPOINT_URL") or None


def traces_exporters() -> tuple[str, ...]:
    """Where spans go, by the variable that OpenTelemetry's own libraries take; nowhere unless it is set."""
    given = os.environ.get("OTEL_TRACES_EXPORTER", "").split(",")
    return tuple(name for each in given if (name := each.strip()) not in ("", "none"))


def without_password(text: str) -> str:
    """A URL, or a text that may hold URLs and connection strings, as it may be shown or logged: ``***`` for passwords."""
    return _NAMED_PASSWORD.sub(r"\1***", _URL_PASSWORD.sub(r"\1:***@", text))


# Up to the last @ of the word: what is no valid URL must not show the rest of a password either.
_URL_PASSWORD = re.compile(r"""(://[^\s:/@'"]*):[^\s'"]*@""")
_NAMED_PASSWORD = re.compile(r"""(?i)((?:^|\W)(?:ssl)?password\s*=\s*)(?:''[^']*''|'(?:\\.|[^'\\])*'|[^\s&'"]+)""")


@dataclass(frozen=True, slots=True)
class _Layer:
    """One source: its values by setting, and how a message names the place of one."""

    values: Mapping[str, object]
    place: str

    def where(self, name: str) -> str:
        return self.place.format(variable_of(name) if self.place.startswith("environment") else name)


def _environment_layer(environment: Mapping[str, str]) -> _Layer:
    values: dict[str, object] = {
        name: environment[variable_of(name)] for name in _READERS if variable_of(name) in environment
    }
    values["kafka"] = {
        variable.removeprefix(KAFKA_PREFIX).lower().replace("_", "."): value
        for variable, value in environment.items()
        if variable.startswith(KAFKA_PREFIX) and variable != variable_of("kafka_port")
    }
    genesis = environment.get(PREFIX + "GENESIS")
    if genesis is not None:
        values["genesis"] = _json_object(genesis, f"environment variable {PREFIX}GENESIS")
    return _Layer(values, "environment variable {}")


def _file_layer(config_file: Path | None, environment: Mapping[str, str]) -> _Layer:
    named = config_file or (Path(environment[PREFIX + "CONFIG"]) if environment.get(PREFIX + "CONFIG") else None)
    path = named or Path(CONFIG_FILE)
    if named is None and not path.is_file():
        return _Layer({}, "")
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"the configuration file {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from error
    profiles = values.get("profile", {})
    if not isinstance(profiles, dict) or not all(isinstance(each, dict) for each in profiles.values()):
        raise ConfigurationError(f"{path}: profile has settings below a name, as in [profile.prod]")
    for place, settings in ((str(path), values.keys() - {"profile"}), *_of_profiles(path, profiles)):
        if unknown := sorted(settings - _READERS.keys() - {"kafka", "genesis"}):
            raise ConfigurationError(f"{place}: unknown setting {', '.join(unknown)}; known are {', '.join(_READERS)}")
    return _Layer(values, f"{path}: {{}}")


def _of_profiles(path: Path, profiles: Mapping[str, Mapping[str, object]]) -> Iterator[tuple[str, Set[str]]]:
    return ((f"{path}: profile.{name}", settings.keys()) for name, settings in profiles.items())


def _profile_layer(file: _Layer, name: str | None, named_by: str) -> list[_Layer]:
    """What a profile says, of which the argument or the environment has the name; nothing where neither has."""
    if not name:
        return []
    profiles = cast("Mapping[str, Mapping[str, object]]", file.values.get("profile", {}))
    if name not in profiles:
        there = f"has {', '.join(profiles) or 'none'}" if file.place else f"is not there in {Path.cwd()}"
        raise ConfigurationError(
            f"{named_by} is {name!r}, and {file.where('profile') or CONFIG_FILE} {there}: write [profile.{name}] into "
            f"{CONFIG_FILE} in the working directory, or into the file that {PREFIX}CONFIG names"
        )
    return [_Layer(profiles[name], file.where(f"profile.{name}.{{}}"))]


def _run_layer(home: Path, chosen: list[_Layer]) -> _Layer:
    path = home / RUN_FILE
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return _Layer({}, "")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    values = _json_object(text, str(path))
    if _log(chosen) not in (None, values.get("log")):
        values.pop("data_path", None)  # it is that log's own
        values.pop("log_id", None)
    if any("database_url" in layer.values for layer in chosen):
        values.pop("reader_url", None)  # it is for another database
    servers = next((each.values["bootstrap_servers"] for each in chosen if "bootstrap_servers" in each.values), None)
    if servers is not None:
        values.pop("log_id", None)  # it may be another cluster's
    if servers not in (None, values.get("bootstrap_servers")):
        values.pop("kafka", None)  # the password is for another cluster
    return _Layer(values, f"{path}: {{}}")


def _log(layers: list[_Layer]) -> object:
    return next((layer.values["log"] for layer in layers if "log" in layer.values), None)


def _defaults(home: Path, layers: list[_Layer], environment: Mapping[str, str]) -> dict[str, object]:
    caches = Path(environment["XDG_CACHE_HOME"]) if environment.get("XDG_CACHE_HOME") else Path.home() / ".cache"
    log = str(_log(layers) or DEFAULT_LOG).strip()
    return {
        "log": DEFAULT_LOG,
        "log_id": None,
        "bootstrap_servers": "127.0.0.1:9092",
        "database_url": "postgresql://postgres@127.0.0.1:5432/commitlog",
        "reader_url": None,
        "data_path": str(home / "data" / log),
        "home": str(home),
        "checkpoint_dir": str(home / "checkpoints"),
        "partitions": 4,
        "proposal_bytes_max": 1024 * 1024,
        "batch_records_max": 5_000,
        "batch_bytes_max": 32 * 1024 * 1024,
        "receipts_timeout_ms": 30_000,
        "catalog_timeout_ms": 30_000,
        "staleness_ms": 0,
        "projector_outcomes_max": 5_000,
        "kafka_port": 9092,
        "postgres_port": 5432,
        "ui_host": "127.0.0.1",
        "ui_port": 8642,
        "ui_token": None,
        "metrics_host": "127.0.0.1",
        "metrics_port": 9464,
        "cache_dir": str(caches / "commitlog"),
        "java_home": environment.get("JAVA_HOME") or None,
        "maven_url": None,
    }


def default_values() -> Mapping[str, object]:
    """The defaults by setting; one that depends on another, or on the user, names it in angle brackets or by ``~``."""
    found = _defaults(Path("<home>"), [_Layer({"log": "<log>"}, "")], {"XDG_CACHE_HOME": "~/.cache"})
    return {**found, "home": HOME}


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + name.upper()


def _home(layers: list[_Layer]) -> Path:
    for layer in layers:
        if "home" in layer.values:
            return _path(layer.values["home"], layer.where("home"))
    return Path(HOME).absolute()


def _settings(layers: list[_Layer]) -> Settings:
    values: dict[str, object] = {}
    sources: dict[str, str] = {}
    for name, read in _READERS.items():
        layer = next(layer for layer in layers if name in layer.values)
        sources[name] = layer.where(name)
        values[name] = read(layer.values[name], sources[name])
    for section in ("kafka", "genesis"):
        merged = _merged(section, layers, sources)
        if section == "kafka":
            merged = {name: _option_text(value) for name, value in merged.items()}
        values[section] = merged
    settings = Settings(**values, sources=sources)  # type: ignore[arg-type]
    _check_together(settings)
    return settings


def _merged(section: str, layers: list[_Layer], sources: dict[str, str]) -> dict[str, object]:
    merged: dict[str, object] = {}
    for layer in layers:
        table = layer.values.get(section, {})
        if not isinstance(table, Mapping):
            raise ConfigurationError(f"{layer.where(section)} must be a table of options, not {table!r}")
        for name, value in table.items():
            if name not in merged:
                merged[name] = value
                sources[f"{section}.{name}"] = layer.where(section)
    return merged


def _check_together(settings: Settings) -> None:
    if settings.checkpoint_dir.is_relative_to(Path(settings.data_path)):
        raise ConfigurationError(
            f"checkpoint_dir ({settings.sources['checkpoint_dir']}) is under data_path, where every writer can write; "
            "choose a directory that only the service can write to"
        )
    if "bootstrap.servers" in settings.kafka:
        raise ConfigurationError(
            f"{settings.sources['kafka.bootstrap.servers']}: give the brokers' addresses as bootstrap_servers"
        )


def _json_object(text: str, where: str) -> dict[str, object]:
    try:
        values = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"{where} is not valid JSON: {error}") from error
    if not isinstance(values, dict):
        raise ConfigurationError(f"{where} is no JSON object")
    return values


def _option_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(f"{where} must be a text that is not empty, not {value!r}")
    return value.strip()


def _log_name(value: object, where: str) -> str:
    name = _text(value, where)
    if len(name) > 200 or not all(letter.isascii() and (letter.isalnum() or letter in "._-") for letter in name):
        raise ConfigurationError(
            f"{where} must be up to 200 of a-z A-Z 0-9 . _ - (it names Kafka topics), not {value!r}"
        )
    return name


def _uuid_text(value: object, where: str) -> str:
    try:
        return str(UUID(_text(value, where)))
    except ValueError:
        raise ConfigurationError(f"{where} must be a UUID, not {value!r}") from None


_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(:\d*)?")


def _database_url(value: object, where: str) -> str:
    url = _text(value, where)
    if not url.startswith(("postgresql://", "postgres://")):
        raise ConfigurationError(
            f"{where} must start with postgresql://, as in postgresql://user:password@host:5432/name"
        )
    account, _, hosts = url.partition("://")[2].partition("/")[0].partition("?")[0].rpartition("@")
    if "@" in account or "#" in url or not all(_HOST.fullmatch(host) for host in hosts.split(",")):
        raise ConfigurationError(
            f"{where} is no URL that PostgreSQL understands: write special letters of its password as %40 for @, %2F for /, "
            "%3A for :, %23 for #, %3F for ?"
        )
    return url


def _path(value: object, where: str) -> Path:
    if isinstance(value, Path):
        value = str(value)
    return Path(_text(value, where)).expanduser().absolute()


def _place(value: object, where: str) -> str:
    """A directory, made absolute so that every process means the same one, or a URL as it is."""
    if isinstance(value, str) and value.startswith(("s3a://", "s3n://")):
        raise ConfigurationError(
            f"{where} is {value}: write it s3://, which DuckDB and Arrow know too, and give Spark "
            "spark.hadoop.fs.s3.impl=org.apache.hadoop.fs.s3a.S3AFileSystem"
        )
    if isinstance(value, str) and "://" in value:
        return _text(value, where)
    return str(_path(value, where))


def _optional(read: Callable[[object, str], object]) -> Callable[[object, str], object]:
    return lambda value, where: None if value is None else read(value, where)


def _whole(low: int, high: int) -> Callable[[object, str], object]:
    def read(value: object, where: str) -> int:
        try:
            number = int(value) if isinstance(value, str) else value
        except ValueError:
            number = None
        if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
            raise ConfigurationError(f"{where} must be a whole number from {low:,} to {high:,}, not {value!r}")
        return number

    return read


_PORT = _whole(0, 65_535)
_READERS: Mapping[str, Callable[[object, str], object]] = {
    "log": _log_name,
    "log_id": _optional(_uuid_text),
    "bootstrap_servers": _text,
    "database_url": _database_url,
    "reader_url": _optional(_database_url),
    "data_path": _place,
    "home": _path,
    "checkpoint_dir": _path,
    "partitions": _whole(1, 1_000),
    "proposal_bytes_max": _whole(1_024, 64 * 1024 * 1024),
    "batch_records_max": _whole(1, 100_000),
    "batch_bytes_max": _whole(1_024, 1024 * 1024 * 1024),
    "receipts_timeout_ms": _whole(1, 3_600_000),
    "catalog_timeout_ms": _whole(1, 3_600_000),
    "staleness_ms": _whole(0, 3_600_000),
    "projector_outcomes_max": _whole(1, 100_000),
    "kafka_port": _PORT,
    "postgres_port": _PORT,
    "ui_host": _text,
    "ui_port": _PORT,
    "ui_token": _optional(_text),
    "metrics_host": _text,
    "metrics_port": _whole(0, 65_531),
    "cache_dir": _path,
    "java_home": _optional(_path),
    "maven_url": _optional(_text),
}

assert _READERS.keys() | {"kafka", "genesis", "sources", "machine"} == {each.name for each in fields(Settings)}
