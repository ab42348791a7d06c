"""The command that asks the lake a question in SQL."""

from __future__ import annotations

import click

from commitlog.config import Settings
from commitlog.errors import InvalidRequestError
from commitlog.ops.cli.options import current_catalog, json_option, print_json, print_table, settings_options


@click.command("sql")
@click.argument("query")
@json_option
@settings_options
def sql_command(settings: Settings, query: str, as_json: bool) -> None:
    """Run QUERY with the stock DuckDB client, which sees all that was committed before; it can only read."""
    from commitlog.ops.duckdb_client import open_lake

    with current_catalog(settings), open_lake(settings.database_url) as connection:
        import duckdb

        try:
            answer = connection.execute(query)
            columns = [column[0] for column in answer.description or ()]
            rows = answer.fetchall()
        except duckdb.Error as error:
            raise InvalidRequestError(f"DuckDB says: {error}") from None
    if as_json:
        for row in rows:
            print_json(dict(zip(columns, row, strict=True)))
    else:
        print_table(columns, rows)
