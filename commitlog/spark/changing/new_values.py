"""The values that UPDATE and MERGE give columns, as programs write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from commitlog.domain.model.definitions import TableDefinition
from commitlog.errors import InvalidRequestError


def named(values: Mapping[str, Any], table: TableDefinition) -> dict[str, Any]:
    """The values that were given by the names of the table's columns.

    Raises:
        InvalidChangeError: it has no such column.
        InvalidRequestError: one is given two values.
    """
    found = {table.column(name).name: value for name, value in values.items()}
    if len(found) < len(values):
        raise InvalidRequestError(f"a column is given two values: {', '.join(values)}; case makes no difference")
    return found


def new_value(given: Any) -> Expression:
    """A value as Spark's expression: a text is SQL, as conditions are; what is neither that nor a Column is a plain value."""
    if isinstance(given, Expression):
        return given
    return sf.expr(given) if isinstance(given, str) else sf.lit(given)


@contextmanager
def explaining_text(*more: str) -> Iterator[None]:
    """Tell whom Spark does not understand what a text among the values is taken for, and ``more``."""
    try:
        yield
    except AnalysisException as error:
        error.add_note(
            "Texts given as columns' values are SQL: for the text itself write sf.lit('New York'), or \"'New York'\" in quotes."
        )
        for each in more:
            error.add_note(each)
        raise
