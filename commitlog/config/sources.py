"""Where the values of settings come from: each source is a layer, the first of which that has a value is heard."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import cast

from commitlog.config.values import READERS, path_of
from commitlog.errors import ConfigurationError

PREFIX = "COMMITLOG_"
KAFKA_PREFIX = "COMMITLOG_KAFKA_"
PROFILE = "COMMITLOG_PROFILE"
CONFIG_FILE = "commitlog.toml"
_NO_SETTINGS = ("CONFIG", "PROFILE", "GENESIS", "CORE")
"""Of people's variables, those that are none."""
SUPERVISED = "COMMITLOG_SUPERVISED"
"""Set for the processes of a supervisor; no setting."""
RUN_FILE = "run.json"
PORTS_FILE = "ports.json"
DEFAULT_LOG = "main"
HOME = ".commitlog"
_VARIABLE = "environment variable {}"


@dataclass(frozen=True, slots=True)
class Layer:
    """One source: its values by setting, and how a message names the place of one."""

    values: Mapping[str, object]
    place: str

    def where(self, name: str) -> str:
        """The place of one, for messages."""
        return self.place.replace("{}", variable_of(name) if self.place == _VARIABLE else name)


def environment_layer(environment: Mapping[str, str]) -> Layer:
    """What variables say; ConfigurationError where one is misspelt, or that of the genesis cannot be read."""
    _check_spelling(environment)
    values: dict[str, object] = {
        name: environment[variable_of(name)] for name in READERS if variable_of(name) in environment
    }
    values["kafka"] = {
        variable.removeprefix(KAFKA_PREFIX).lower().replace("_", "."): value
        for variable, value in environment.items()
        if variable.startswith(KAFKA_PREFIX) and variable != variable_of("kafka_port")
    }
    genesis = environment.get(PREFIX + "GENESIS")
    if genesis is not None:
        values["genesis"] = _json_object(genesis, f"environment variable {PREFIX}GENESIS")
    return Layer(values, _VARIABLE)


def _check_spelling(environment: Mapping[str, str]) -> None:
    """See that no variable is ignored that is nearly one of ours; others may be anybody's."""
    known = [variable_of(name) for name in (*READERS, *_NO_SETTINGS)]
    for variable in sorted(environment.keys() - known):
        if variable.startswith(PREFIX) and not variable.startswith(KAFKA_PREFIX):
            name = variable.removeprefix(PREFIX)
            # One letter may be wrong: what Kubernetes sets for a Service, such as COMMITLOG_DATABASE_PORT, differs by more.
            letters = max(5, len(name))
            likeness = (letters - 1) / letters
            meant = get_close_matches(name, [each.removeprefix(PREFIX) for each in known], 1, likeness)
            if meant:
                raise ConfigurationError(
                    f"environment variable {variable} is not a setting: did you mean {variable_of(meant[0])}?"
                )


def file_layer(config_file: Path | None, environment: Mapping[str, str]) -> Layer:
    """What the file says that is given, or that is there; ConfigurationError where it cannot be read or says too much."""
    named = config_file or named_file(environment)
    path = named or Path(CONFIG_FILE)
    if named is None and not path.is_file():
        return Layer({}, "")
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"the configuration file {path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from error
    profiles = values.get("profile", {})
    if not isinstance(profiles, dict) or not all(isinstance(each, dict) for each in profiles.values()):
        raise ConfigurationError(f"{path}: profile has settings below a name, as in [profile.prod]")
    for place, settings in ((str(path), values.keys() - {"profile"}), *_of_profiles(path, profiles)):
        if unknown := sorted(settings - READERS.keys() - {"kafka", "genesis"}):
            raise ConfigurationError(f"{place}: unknown setting {', '.join(unknown)}; known are {', '.join(READERS)}")
    return Layer(values, f"{path}: {{}}")


def named_file(environment: Mapping[str, str]) -> Path | None:
    """The configuration file that the environment names."""
    return Path(environment[PREFIX + "CONFIG"]) if environment.get(PREFIX + "CONFIG") else None


def _of_profiles(path: Path, profiles: Mapping[str, Mapping[str, object]]) -> Iterator[tuple[str, Set[str]]]:
    return ((f"{path}: profile.{name}", settings.keys()) for name, settings in profiles.items())


def profile_layer(file: Layer, name: str | None, named_by: str) -> list[Layer]:
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
    return [Layer(profiles[name], file.where(f"profile.{name}.{{}}"))]


def run_layer(home: Path, chosen: list[Layer]) -> Layer:
    """What runs in a home, as far as those that were chosen before do not mean another log, database or cluster."""
    path = home / RUN_FILE
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return Layer({}, "")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    values = _json_object(text, str(path), "; remove it: `commitlog up` writes it anew")
    if _first(chosen, "log") not in (None, values.get("log")):
        values.pop("data_path", None)  # it is that log's own
        values.pop("log_id", None)
    if _first(chosen, "database_url") is not None:
        values.pop("reader_url", None)  # they are for another database
        values.pop("writer_url", None)
    servers = _first(chosen, "bootstrap_servers")
    if servers is not None:
        values.pop("log_id", None)  # it may be another cluster's
    if servers not in (None, values.get("bootstrap_servers")):
        values.pop("kafka", None)  # the password is for another cluster
    return Layer(values, f"{path}: {{}}")


def _first(layers: list[Layer], name: str) -> object:
    return next((layer.values[name] for layer in layers if name in layer.values), None)


def defaults(home: Path, layers: list[Layer], environment: Mapping[str, str]) -> dict[str, object]:
    """What a setting is that nobody gives."""
    log = str(_first(layers, "log") or DEFAULT_LOG).strip()
    return {
        "log": DEFAULT_LOG,
        "log_id": None,
        "bootstrap_servers": "127.0.0.1:9092",
        "database_url": "postgresql://postgres@127.0.0.1:5432/commitlog",
        "reader_url": None,
        "writer_url": None,
        "data_path": str(home / "data" / log),
        "home": str(home),
        "checkpoint_dir": str(home / "checkpoints"),
        "partitions": 4,
        "proposal_bytes_max": 4_000_000,
        "batch_records_max": 5_000,
        "batch_bytes_max": 32 * 1024 * 1024,
        "batch_wait_ms": 4,
        "receipts_timeout_ms": 30_000,
        "catalog_timeout_ms": 30_000,
        "staleness_ms": 0,
        "projector_outcomes_max": 10_000,
        "kafka_port": 9092,
        "postgres_port": 5432,
        "ui_host": "127.0.0.1",
        "ui_port": 8642,
        "ui_token": None,
        "gateway_host": "127.0.0.1",
        "gateway_port": 5442,
        "gateway_tls_cert": None,
        "gateway_tls_key": None,
        "carrier_socket": str(home / "services" / log / "carrier.sock"),
        "metrics_host": "127.0.0.1",
        "metrics_port": 9464,
        "cache_dir": str(_caches(home, environment) / "commitlog"),
        "java_home": environment.get("JAVA_HOME") or None,
        "maven_url": None,
        "links_from": None,
        "registry_url": None,
    }


def _caches(home: Path, environment: Mapping[str, str]) -> Path:
    if environment.get("XDG_CACHE_HOME"):
        return Path(environment["XDG_CACHE_HOME"])
    try:
        return Path.home() / ".cache"
    except RuntimeError:
        # A user that has no name here, as in some containers.
        return home / "cache"


def default_values() -> Mapping[str, object]:
    """The defaults by setting; one that depends on another, or on the user, names it in angle brackets or by ``~``."""
    found = defaults(Path("<home>"), [Layer({"log": "<log>"}, "")], {"XDG_CACHE_HOME": "~/.cache"})
    return {**found, "home": HOME}


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + name.upper()


def home_of(layers: list[Layer]) -> Path:
    """Where the embedded servers are; other defaults are below it."""
    for layer in layers:
        if "home" in layer.values:
            return path_of(layer.values["home"], layer.where("home"))
    return path_of(HOME, "home")


def section_of(section: str, layers: list[Layer], sources: dict[str, str]) -> dict[str, object]:
    """The options of a section from all layers; notes in ``sources`` where each is from."""
    merged: dict[str, object] = {}
    for layer in layers:
        table = layer.values.get(section, {})
        if not isinstance(table, Mapping):
            raise ConfigurationError(f"{layer.where(section)} must be a table of options, not {table!r}")
        for name, value in _options(table) if section == "kafka" else table.items():
            if name not in merged:
                merged[name] = value
                sources[f"{section}.{name}"] = layer.where(section)
    return merged


def _options(table: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    """The options of librdkafka; TOML takes the dots of one without quotes for tables in tables."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _options(value, f"{before}{name}.")
        else:
            yield before + name, value


def _json_object(text: str | bytes, where: str, advice: str = "") -> dict[str, object]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{where} is not valid JSON: {error}{advice}") from error
    if not isinstance(values, dict):
        raise ConfigurationError(f"{where} is not a JSON object{advice}")
    return values
