"""The SQL of a view, looked at before it is sent, where DuckDB is installed: nobody else reads it until a query does."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from commitlog.client.arguments import checked_text
from commitlog.domain.model import InvalidCode
from commitlog.errors import InvalidChangeError

DUCKDB = "duckdb"
PARSED_MAX = 1_000_000
"""Longer SQL is over any proposal's limit."""


def checked_view(sql: str, dialect: str) -> str:
    """The query of a view.

    Raises:
        InvalidRequestError: it is no text.
        InvalidChangeError: it is in DuckDB's dialect, and DuckDB cannot parse it, or it is no single query.
    """
    checked_text("the sql of a view", sql)
    if checked_text("dialect", dialect) != DUCKDB or len(sql) > PARSED_MAX or find_spec(DUCKDB) is None:
        return sql
    import duckdb

    try:
        statements = _parser().cursor().extract_statements(sql)
    except duckdb.Error as error:
        raise InvalidChangeError(
            InvalidCode.VIEW_SQL_INVALID, f"DuckDB cannot read the sql of the view: {str(error).splitlines()[0]}"
        ) from None
    if [each.type for each in statements] != [duckdb.StatementType.SELECT]:
        raise InvalidChangeError(
            InvalidCode.VIEW_SQL_INVALID, "the sql of a view must be one query, such as SELECT ... FROM ..."
        )
    return sql


@lru_cache(maxsize=1)
def _parser() -> Any:
    import duckdb

    return duckdb.connect(":memory:")
