"""The stock DuckDB client, opened on a catalog: the proof that any DuckLake reader sees what was committed.

The extensions are taken from their wheels and nothing is fetched, so it works without a network.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from commitlog.catalog.connecting import plain
from commitlog.config import without_password
from commitlog.errors import CatalogUnavailableError, ConfigurationError

if TYPE_CHECKING:
    import duckdb

LAKE = "lake"


@contextmanager
def open_lake(database_url: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection whose default catalog is the lake.

    Raises:
        ConfigurationError: DuckDB or one of its extensions is not installed.
        CatalogUnavailableError: DuckDB cannot open the catalog.
    """
    with open_duckdb("postgres_scanner", "ducklake") as connection:
        attach(connection, database_url, "ducklake:postgres:", f"{LAKE} (READ_ONLY)")
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
        raise ConfigurationError("DuckDB is not installed: pip install 'commitlog[duckdb]' brings it") from error
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
    raise ConfigurationError(
        f"DuckDB's extension {extension} is not installed: pip install 'commitlog[duckdb]' brings it"
    )


def connection_text(database_url: str) -> str:
    """A PostgreSQL URL as libpq's keywords and values, which is the form that DuckDB takes; every option is kept.

    Raises:
        ConfigurationError: it is no such URL.
    """
    try:
        options = conninfo_to_dict(database_url)
    except psycopg.Error:
        raise ConfigurationError(f"{without_password(database_url)} is no URL that PostgreSQL understands") from None
    return make_conninfo("", **options)


def attach(connection: duckdb.DuckDBPyConnection, database_url: str, kind: str, options: str) -> None:
    """Attach what is at a PostgreSQL URL.

    Args:
        connection: has the extensions that it takes.
        database_url: with its password, which no message shows.
        kind: "ducklake:postgres" for a lake; "" for the database itself.
        options: name and options, as SQL.

    Raises:
        CatalogUnavailableError: DuckDB cannot open it.
    """
    import duckdb

    try:
        connection.execute(f"ATTACH '{kind}{quoted(connection_text(database_url))}' AS {options}")
    except duckdb.Error as error:
        # Not chained: DuckDB's own message has the password.
        raise CatalogUnavailableError(without_password(database_url), detail=plain(error)) from None


def quoted(text: str) -> str:
    """Text inside the quotes of a SQL literal."""
    return text.replace("'", "''")
