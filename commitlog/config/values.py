"""What each setting may be, and how it is shown to people."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from uuid import UUID

from commitlog.errors import ConfigurationError


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(f"{where} must be a text that is not empty, not {value!r}")
    return value.strip()


def _log_name(value: object, where: str) -> str:
    name = _text(value, where)
    is_plain = all(letter.isascii() and (letter.isalnum() or letter in "._-") for letter in name)
    if len(name) > 200 or not is_plain or name in (".", ".."):
        raise ConfigurationError(
            f"{where} must be up to 200 of a-z A-Z 0-9 . _ - (it names Kafka topics and folders), not {value!r}"
        )
    return name


def _uuid_text(value: object, where: str) -> str:
    try:
        return str(UUID(_text(value, where)))
    except ValueError:
        raise ConfigurationError(f"{where} must be a UUID, not {value!r}") from None


def _http_url(value: object, where: str) -> str:
    url = _text(value, where)
    if not url.startswith(("http://", "https://")):
        raise ConfigurationError(f"{where} must start with http:// or https://, as in http://localhost:8081")
    return url


_SERVER = re.compile(
    r"(?:(?:SASL_)?(?:PLAINTEXT|SSL)://)?(?:[\da-f]*(?::[\da-f]*){2,7}|(?:\[[^\]\s]+\]|[^][:/@;\s]+)(?::(\d{1,5}))?)",
    re.IGNORECASE,
)
"""Without brackets, librdkafka takes an address of IPv6 for a host without a port."""
_PORT_MAX = 65_535


def _servers(value: object, where: str) -> str:
    """Kafka's addresses. librdkafka takes nearly anything for one, and then says that nobody answers there."""
    servers = [each for part in _text(value, where).split(",") if (each := part.strip())] or [""]
    for server in servers:
        found = _SERVER.fullmatch(server)
        if found is None or int(found[1] or 0) > _PORT_MAX:
            raise ConfigurationError(
                f"{where} must be host:port, comma separated, as in kafka-1:9092,kafka-2:9092, not {server!r}"
            )
    return ",".join(servers)


_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(:\d*)?")


def _database_url(value: object, where: str) -> str:
    url = _text(value, where)
    if not url.startswith(("postgresql://", "postgres://")):
        raise ConfigurationError(
            f"{where} must start with postgresql://, as in postgresql://user:password@host:5432/name"
        )
    account, _, hosts = url.partition("://")[2].partition("/")[0].partition("?")[0].rpartition("@")
    if "@" in account or re.search(r"[#\s]", url) or not all(_HOST.fullmatch(host) for host in hosts.split(",")):
        raise ConfigurationError(
            f"{where} is not a URL that PostgreSQL understands: write special letters of its password as %40 for @, %2F for /, "
            "%3A for :, %23 for #, %3F for ?, %20 for a blank"
        )
    return url


def path_of(value: object, where: str) -> Path:
    """A path, made absolute so that every process means the same one."""
    if isinstance(value, Path):
        value = str(value)
    path = Path(_text(value, where))
    try:
        return path.expanduser().absolute()
    except RuntimeError:
        raise ConfigurationError(
            f"{where} is {path}: there is no home directory {path.parts[0]} here; give the path from /"
        ) from None
    except FileNotFoundError:
        raise ConfigurationError(
            f"{where} is {path}, and the working directory was removed: change to one that exists, or give the path from /"
        ) from None


def _place(value: object, where: str) -> str:
    """A directory, made absolute so that every process means the same one, or a URL as it is."""
    if isinstance(value, str) and value.startswith(("s3a://", "s3n://")):
        raise ConfigurationError(
            f"{where} is {value}: write it s3://, which DuckDB and Arrow know too, and give Spark "
            "spark.hadoop.fs.s3.impl=org.apache.hadoop.fs.s3a.S3AFileSystem"
        )
    if isinstance(value, str) and "://" in value:
        url = _text(value, where)
        scheme, _, path = url.partition("://")
        is_plain = scheme == scheme.lower() and not {"", ".", ".."}.intersection(path.rstrip("/").split("/"))
        if scheme not in ("file", "hdfs") and not is_plain:
            raise ConfigurationError(
                f"{where} is {value}: write it in its plain form, such as s3://bucket/folder, without empty parts, . and .."
            )
        return url
    return str(path_of(value, where))


def _optional(read: Callable[[object, str], object]) -> Callable[[object, str], object]:
    return lambda value, where: None if value is None else read(value, where)


def _path_or_off(value: object, where: str) -> Path | None:
    return None if value in (None, OFF) else path_of(value, where)


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


def option_text(value: object) -> str:
    """An option of librdkafka as it takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _names(value: object, where: str) -> str:
    """Names, comma separated, each once."""
    names = [name.strip() for name in _text(value, where).split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise ConfigurationError(f"{where} must be names, comma separated, each once, not {value!r}")
    return ",".join(names)


OFF = "off"
"""What is given for a setting that has a default and is to have no value."""
_PORT = _whole(0, _PORT_MAX)
READERS: Mapping[str, Callable[[object, str], object]] = {
    "log": _log_name,
    "log_id": _optional(_uuid_text),
    "bootstrap_servers": _servers,
    "database_url": _database_url,
    "reader_url": _optional(_database_url),
    "writer_url": _optional(_database_url),
    "data_path": _place,
    "home": path_of,
    "checkpoint_dir": path_of,
    "partitions": _whole(1, 1_000),
    "proposal_bytes_max": _whole(1_024, 64 * 1024 * 1024),
    "batch_records_max": _whole(1, 100_000),
    "batch_bytes_max": _whole(1_024, 1024 * 1024 * 1024),
    "batch_wait_ms": _whole(0, 100),
    "receipts_timeout_ms": _whole(1, 3_600_000),
    "catalog_timeout_ms": _whole(1, 3_600_000),
    "staleness_ms": _whole(0, 3_600_000),
    "projector_outcomes_max": _whole(1, 100_000),
    "kafka_port": _PORT,
    "postgres_port": _PORT,
    "ui_host": _text,
    "ui_port": _PORT,
    "ui_token": _optional(_text),
    "gateway_host": _text,
    "gateway_port": _PORT,
    "gateway_tls_cert": _optional(path_of),
    "gateway_tls_key": _optional(path_of),
    "carrier_socket": _path_or_off,
    "metrics_host": _text,
    "metrics_port": _whole(0, 65_530),
    "cache_dir": path_of,
    "java_home": _optional(path_of),
    "maven_url": _optional(_text),
    "links_from": _optional(_names),
    "registry_url": _optional(_http_url),
}
"""What makes a setting of a value, by its name; ConfigurationError says what is wrong with it, and where it is from."""


# --- showing ----------------------------------------------------------------------------------------------------------

_SECRETS = ("password", "secret", "key", "token", "jaas", "oauthbearer.config")
"""What stands in the names of librdkafka's options whose values nobody shows."""
SECRET_OPTIONS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
"""Of a connection to PostgreSQL, likewise."""


def masked(name: str, value: str) -> str:
    """A setting, or `kafka.` and an option of librdkafka, as it may be shown: ``***`` for what is secret of it."""
    is_secret = name.startswith("kafka.") and any(word in name for word in _SECRETS) and not name.endswith(".location")
    return "***" if is_secret or name == "ui_token" else without_password(value)


def without_password(text: str) -> str:
    """A URL, or a text that may hold URLs and connection strings, as it may be shown or logged: ``***`` for passwords."""
    return _NAMED_PASSWORD.sub(r"\1***", _URL_PASSWORD.sub(r"\1:***@", text))


# Up to the last @ of the word: what is no valid URL must not show the rest of a password either.
_URL_PASSWORD = re.compile(r"""(://[^\s:/@'"]*):[^\s'"]*@""")
_NAMED_PASSWORD = re.compile(
    rf"""(?i)((?:^|\W)(?:{"|".join(SECRET_OPTIONS)})\s*=\s*)(?:''[^']*''|'(?:\\.|[^'\\])*'|[^\s&'"]+)"""
)
