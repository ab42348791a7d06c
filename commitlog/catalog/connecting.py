"""Connections to PostgreSQL; what it says becomes an error of ours: one sentence, without a password."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

import psycopg
from psycopg.conninfo import conninfo_to_dict

from commitlog.config import Settings, without_password
from commitlog.errors import CatalogRefusedError, CatalogUnavailableError, ConfigurationError

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

CONNECT_TIMEOUT_S = 10

OWN_SCHEMA = "commitlog"
"""Where our own tables are, beside DuckLake's."""
_NOT_AMONG_OURS = r"""
    SELECT set_config('search_path', regexp_replace(current_setting('search_path'), %(users)s, '', 'g'), false)
    WHERE current_user = %(own)s AND NOT EXISTS (
        SELECT FROM pg_class WHERE relname = 'ducklake_snapshot' AND relnamespace = to_regnamespace(%(own)s))
"""
"""For a role that is called as the schema of our own tables, PostgreSQL looks there first, and would make DuckLake's there:
nobody else would find them. Where they are there already they stay."""
_USERS_SCHEMA = r'^\s*"\$user"\s*,?\s*|\s*,\s*"\$user"'
_QUOTED = re.compile('"(.*)"')
_KEEPALIVES = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
"""Whoever waits for a server that is gone without a word is told of it in half a minute, rather than in two hours."""

# By SQLSTATE: the connection, a server that is read only, a transaction that took too long, what other sessions do,
# PostgreSQL's resources, its locks, its operator, its machine.
_WEATHER = ("08", "25006", "25P03", "25P04", "40", "53", "55", "57", "58")


def catalog_url(settings: Settings) -> str:
    """Where the catalog is.

    Raises:
        CatalogUnavailableError: the settings mean the embedded runtime of a home, which does not run.
    """
    if settings.is_stopped("database_url"):
        address = without_password(settings.database_url)
        raise CatalogUnavailableError(address, detail=f"nothing is running in {settings.home}")
    return settings.database_url


def connect(database_url: str, *, autocommit: bool = False, timeout_s: int = CONNECT_TIMEOUT_S) -> Connection:
    """A new connection; CatalogUnavailableError when there is none to be had."""
    with told_plainly(database_url):
        return connect_plainly(database_url, autocommit=autocommit, timeout_s=timeout_s)


def connect_plainly(
    database_url: str, *, autocommit: bool, timeout_s: int = CONNECT_TIMEOUT_S, **options: int
) -> Connection:
    """Like `connect`, but raises psycopg's own errors; of libpq's ``options`` the URL's own take precedence.

    Raises:
        ConfigurationError: the URL has an option that libpq does not know.
    """
    try:
        given = conninfo_to_dict(database_url)
    except psycopg.ProgrammingError as error:
        shown = without_password(database_url)
        # It quotes what it stopped at, which may be of the password.
        why = _QUOTED.sub(lambda quoted: quoted[0] if quoted[1] in shown else '"***"', plain(error))
        raise ConfigurationError(f"libpq does not understand {shown}: {why}") from None
    wanted: dict[str, Any] = {**_KEEPALIVES, **options, **given, "connect_timeout": timeout_s}
    conn = psycopg.connect("", autocommit=True, **wanted)
    try:
        if _session_of(conn) != conn.info.backend_pid:
            # The next session that a pooler gives knows nothing of what was prepared in this one.
            conn.prepare_threshold = None
        if OWN_SCHEMA in f"{conn.info.user} {given.get('options')}":
            conn.execute(_NOT_AMONG_OURS, {"own": OWN_SCHEMA, "users": _USERS_SCHEMA})
    except BaseException:
        conn.close()
        raise
    conn.autocommit = autocommit
    return conn


def is_pooled(conn: Connection) -> bool:
    """Whether a pooler stands between a connection of `connect` and PostgreSQL, so that its session may be another one each
    time."""
    return conn.prepare_threshold is None


def is_replica(conn: Connection) -> bool:
    """Whether it is to a server that follows another one, which can only be read, and where nobody is notified."""
    return conn.info.parameter_status("in_hot_standby") == "on"


def check_keeps_session(conn: Connection) -> None:
    """See that what is set in a session stays with it, and is no other client's.

    Raises:
        ConfigurationError: a pooler gives others the session as soon as a transaction has ended.
    """
    if not is_pooled(conn):
        return
    own = _session_of(conn)
    conn.commit()
    given: dict[str, Any] = {**conn.info.get_parameters(), "password": conn.info.password}
    # A pooler that has no session left lends none twice.
    with suppress(psycopg.OperationalError), psycopg.connect(**given, autocommit=True) as other:
        if _session_of(other) == own:
            raise ConfigurationError(
                f"PostgreSQL at {conn.info.host}:{conn.info.port} is behind a pooler that gives each transaction any session, "
                "as pgbouncer does with pool_mode=transaction: who writes the catalog needs a session of its own. Set "
                "COMMITLOG_DATABASE_URL to the address of PostgreSQL itself, or have the pooler pool by session"
            )


def _session_of(conn: Connection) -> int:
    """The process of PostgreSQL that answers; a pooler tells its clients of another one as they connect."""
    [(pid,)] = conn.execute("SELECT pg_backend_pid()").fetchall()
    return int(pid)


def current_schema(conn: Connection) -> str:
    """Where DuckLake's tables are, by the connection's search path."""
    [(name,)] = conn.execute("SELECT current_schema()").fetchall()
    return str(name)


def wait_for_database(settings: Settings, timeout_s: float) -> None:
    """Wait until PostgreSQL answers; raise CatalogUnavailableError when it does not in time."""
    url = catalog_url(settings)
    deadline = settings.machine.now_s() + timeout_s
    while True:
        try:
            connect(url, timeout_s=2).close()
            return
        except CatalogUnavailableError as error:
            if settings.machine.now_s() > deadline:
                raise CatalogUnavailableError(
                    error.address, waited_ms=int(timeout_s * 1000), detail=error.detail
                ) from error
            settings.machine.sleep(0.1)


@contextmanager
def told_plainly(database_url: str) -> Iterator[None]:
    """Raise CatalogUnavailableError or CatalogRefusedError for what psycopg raises in the block."""
    try:
        yield
    except psycopg.Error as error:
        address, detail = without_password(database_url), plain(error)
        if not is_weather(error):
            raise CatalogRefusedError(address, detail=detail) from error
        has_answered = error.diag.severity_nonlocalized == "ERROR"
        raise CatalogUnavailableError(address, detail=detail, has_answered=has_answered) from error


def is_weather(error: BaseException) -> bool:
    """Whether it will pass, so that the same can be tried again: it is not about what PostgreSQL was asked."""
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate.startswith(_WEATHER)


def is_too_much(error: BaseException) -> bool:
    """Whether PostgreSQL has no room for it, in memory or in its table of locks: less at a time may do."""
    return isinstance(error, psycopg.errors.OutOfMemory | MemoryError)


def plain(error: BaseException) -> str:
    """The first line of what an error says, without a password."""
    lines = str(error).strip().splitlines()
    return without_password(lines[0]) if lines else type(error).__name__
