"""The stock DuckDB client, opened on a catalog: the proof that any DuckLake reader sees what was committed.

The extensions are taken from their wheels and nothing is fetched, so it works without a network.
"""

from __future__ import annotations

from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from commitlog.catalog.connecting import connect, plain
from commitlog.catalog.queries import Catalog
from commitlog.client.reading.duckdb_files import reach_files
from commitlog.config import SECRET_OPTIONS, without_password
from commitlog.errors import ConfigurationError

if TYPE_CHECKING:
    import duckdb

LAKE = "lake"


def open_lake(
    database_url: str, snapshot_id: int | None = None, *, may_write: bool = False
) -> duckdb.DuckDBPyConnection:
    """A connection whose default catalog is the lake; a ``with`` block closes it at its end.

    Args:
        database_url: the catalog's, for a login that may read it.
        snapshot_id: as of which snapshot; None is the newest of each query's own time.
        may_write: the URL leads through a gateway, which takes the client's commits; else it only reads.

    Raises:
        ConfigurationError: DuckDB or one of its extensions is not installed, or cannot open the catalog.
        CatalogUnavailableError: PostgreSQL does not answer, or takes no connection.
    """
    with closing(Catalog(database_url)) as catalog:
        data_path = catalog.data_path()
    connection = open_duckdb("postgres_scanner", "ducklake")
    try:
        reach_files(connection, data_path, lambda extension: _load(connection, extension_file(extension)))
        how = [] if may_write else ["READ_ONLY"]
        how += [] if snapshot_id is None else [f"SNAPSHOT_VERSION {snapshot_id:d}"]
        attach(connection, database_url, "ducklake:postgres:", f"{LAKE} ({', '.join(how)})" if how else LAKE)
        connection.execute(f"USE {LAKE}")
    except BaseException:
        connection.close()
        raise
    return connection


def attach_statement(database_url: str, *, may_write: bool = False) -> str:
    """The statement by which any DuckDB client attaches the lake; without a password, which would be seen by others.

    may_write: the URL leads through a gateway, which takes the client's commits.

    Raises:
        ConfigurationError: it is no URL of PostgreSQL.
    """
    options = {name: value for name, value in _options(database_url).items() if name not in SECRET_OPTIONS}
    read_only = "" if may_write else " (READ_ONLY)"
    return f"ATTACH 'ducklake:postgres:{quoted(make_conninfo('', **options))}' AS {LAKE}{read_only};"


def open_duckdb(*extensions: str) -> duckdb.DuckDBPyConnection:
    """A connection in memory with these extensions; a ``with`` block closes it at its end.

    Raises:
        ConfigurationError: DuckDB or one of its extensions is not installed.
    """
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise ConfigurationError("DuckDB is not installed: pip install 'commitlog[duckdb]' brings it") from error
    settings: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    files = [extension_file(extension) for extension in extensions]
    connection = duckdb.connect(":memory:", config=settings)
    for file in files:
        _load(connection, file)
    return connection


def _load(connection: duckdb.DuckDBPyConnection, file: Path) -> None:
    connection.execute(f"LOAD '{quoted(str(file))}'")


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
    return make_conninfo("", **_options(database_url))


def _options(database_url: str) -> dict[str, Any]:
    try:
        return conninfo_to_dict(database_url)
    except psycopg.Error:
        raise ConfigurationError(f"{without_password(database_url)} is not a URL that PostgreSQL understands") from None


def attach(connection: duckdb.DuckDBPyConnection, database_url: str, kind: str, options: str) -> None:
    """Attach what is at a PostgreSQL URL.

    Args:
        connection: has the extensions that it takes.
        database_url: with its password, which no message shows.
        kind: "ducklake:postgres" for a lake; "" for the database itself.
        options: name and options, as SQL.

    Raises:
        CatalogUnavailableError: PostgreSQL does not answer, or takes no connection.
        ConfigurationError: it does, and DuckDB cannot open it.
    """
    import duckdb

    try:
        connection.execute(f"ATTACH '{kind}{quoted(connection_text(database_url))}' AS {options}")
        return
    except duckdb.Error as error:
        failure = plain(error)
    # Out here: DuckDB's own message, which has the password, is no part of what is raised.
    check_answers(database_url)
    raise ConfigurationError(f"DuckDB cannot open {without_password(database_url)}: {failure}")


def check_answers(database_url: str) -> None:
    """What DuckDB could not do may be PostgreSQL's fault, or its own: it says both in the same words.

    Raises:
        CatalogUnavailableError: PostgreSQL does not answer, or takes no connection.
    """
    connect(database_url).close()


def quoted(text: str) -> str:
    """Text inside the quotes of a SQL literal."""
    return text.replace("'", "''")
