"""How DuckDB reaches the files of a lake: in a folder by itself, in S3 by its extensions and a secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commitlog.config import s3_endpoint
from commitlog.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb

FOR_S3 = ("httpfs", "aws")


def reach_files(connection: duckdb.DuckDBPyConnection, data_path: str, load: Callable[[str], None]) -> None:
    """Let a connection attach a lake whose files are there, and read them.

    In S3 it takes the credentials that Arrow takes too: those of AWS's own clients (``AWS_ACCESS_KEY_ID`` and so on, a
    profile, the machine's role), ``AWS_REGION``, and ``AWS_ENDPOINT_URL`` for an object store of somebody else's.

    Args:
        connection: DuckDB.
        data_path: where the lake's files are.
        load: loads an extension.

    Raises:
        ConfigurationError: an extension is not installed, or there are no credentials.
    """
    if not data_path.startswith("s3://"):
        return
    for extension in FOR_S3:
        load(extension)
    import duckdb

    try:
        connection.execute(secret_statement(s3_endpoint()))
    except duckdb.Error as error:
        raise ConfigurationError(
            f"the lake's files are at {data_path}, and DuckDB finds no credentials for S3: give AWS_ACCESS_KEY_ID and "
            f"AWS_SECRET_ACCESS_KEY, or AWS_PROFILE ({str(error).splitlines()[0]})"
        ) from None


def secret_statement(endpoint: str | None) -> str:
    """The statement that makes DuckDB's secret; with an endpoint, as ``http://host:port``, buckets are folders of it."""
    place = ""
    if endpoint is not None:
        scheme, _, host = endpoint.rpartition("://")
        text = host.rstrip("/").replace("'", "''")
        place = f", ENDPOINT '{text}', URL_STYLE 'path', USE_SSL {'false' if scheme == 'http' else 'true'}"
    return f"CREATE SECRET commitlog_s3 (TYPE s3, PROVIDER credential_chain{place})"
