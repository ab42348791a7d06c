"""The stock DuckDB client, opened on a catalog: the proof that any DuckLake reader sees what was committed.

The extensions are taken from their wheels and nothing is fetched, so it works without a network.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from commitlog.errors import ConfigurationError

if TYPE_CHECKING:
    import duckdb

LAKE = "lake"


@contextmanager
def open_lake(database_url: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection whose default catalog is the lake.

    Raises:
        ConfigurationError: DuckDB or one of its extensions is not installed.
    """
    with open_duckdb("postgres_scanner", "ducklake") as connection:
        connection.execute(f"ATTACH 'ducklake:postgres:{quoted(connection_text(database_url))}' AS {LAKE} (READ_ONLY)")
        connection.execute(f"USE {LAKE}")
        yield connection


@contextmanager
def open_duckdb(*extensions: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection in memory with these extensions.

    Raises:
        ConfigurationError: DuckDB or one of its extensions is not installed.
    """
    try:
        import duckdb
    except ImportError as error:
        raise ConfigurationError("DuckDB is not installed: pip install 'commitlog[dev]' brings it") from error
    settings: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    with duckdb.connect(":memory:", config=settings) as connection:
        for extension in extensions:
            connection.execute(f"LOAD '{quoted(str(extension_file(extension)))}'")
        yield connection


def extension_file(extension: str) -> Path:
    """Where the wheel `duckdb-extension-<extension>` keeps its one file."""
    spec = find_spec(f"duckdb_extension_{extension}")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for path in Path(place).glob(f"extensions/*/{extension}.duckdb_extension"):
            return path
    raise ConfigurationError(f"DuckDB's extension {extension} is not installed: pip install 'commitlog[dev]' brings it")


def connection_text(database_url: str) -> str:
    """A PostgreSQL URL as libpq's keywords and values, which is the form that DuckDB takes."""
    url = urlsplit(database_url)
    parts = {
        "host": url.hostname,
        "port": str(url.port) if url.port else None,
        "user": url.username,
        "password": url.password,
        "dbname": url.path.lstrip("/"),
    }
    return " ".join(f"{name}={_value(unquote(value))}" for name, value in parts.items() if value)


def _value(text: str) -> str:
    if text and not any(letter in " '\\" for letter in text):
        return text
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quoted(text: str) -> str:
    """Text inside the quotes of a SQL literal."""
    return text.replace("'", "''")
