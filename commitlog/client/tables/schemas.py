"""The columns of a table that is to be created, in the forms in which programs have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from commitlog.client.arguments import checked_items, checked_text, shown
from commitlog.domain.model import ColumnSpec
from commitlog.domain.model.types import parse_type
from commitlog.errors import InvalidRequestError

if TYPE_CHECKING:
    import pyarrow as pa

Columns: TypeAlias = "pa.Schema | Mapping[str, Any] | Iterable[ColumnSpec] | Any"
"""An Arrow schema; names to types; ColumnSpecs; or a frame or schema of pandas, Polars or another library of Arrow's."""


def columns_from(schema: Columns) -> tuple[ColumnSpec, ...]:
    """The columns that a schema asks for.

    Raises:
        InvalidRequestError: it is no schema.
        DataFileError: a column's type has no DuckLake type; the message names it.
    """
    from commitlog.client.tables.arrow_types import columns_of

    arrow = _arrow_schema(schema)
    if arrow is not None:
        return columns_of(arrow)
    if isinstance(schema, Mapping):
        return tuple(
            ColumnSpec(checked_text("the name of a column", name), type_name(name, kind))
            for name, kind in schema.items()
        )
    forms = "ColumnSpecs; give an Arrow schema, {name: type}, or a frame of pandas or Polars, too"
    return checked_items("schema", schema, ColumnSpec, forms)


def _arrow_schema(given: Any) -> pa.Schema | None:
    import pyarrow as pa

    if isinstance(given, pa.Schema):
        return given
    if isinstance(getattr(given, "schema", None), pa.Schema):
        return given.schema
    if type(given).__module__.partition(".")[0] == "pandas" and hasattr(given, "columns"):
        return pa.Schema.from_pandas(given, preserve_index=False).remove_metadata()
    if hasattr(given, "__arrow_c_schema__"):
        return pa.schema(given)
    if hasattr(given, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(given).schema
    return None


def type_name(column: str, given: Any) -> str:
    """The DuckLake type of a column, from its name, or from an Arrow, Polars or numpy type.

    Raises:
        InvalidRequestError: it is none of these, or has no DuckLake type.
    """
    if isinstance(given, str):
        return _in_one_line(given)
    from commitlog.client.tables.arrow_types import type_text

    arrow = _arrow_type(given)
    text = None if arrow is None else type_text(arrow)
    if text is None:
        raise InvalidRequestError(
            f"column {column}: its type must be the name of a DuckLake type such as 'int64', or an Arrow, Polars or numpy type "
            f"that has one, not {shown(given)}"
        )
    return text


def _in_one_line(text: str) -> str:
    """A type's name without the lines and tabs of a long one, of which the log takes none; what is no type stays as it is."""
    if text.isprintable():
        return text
    try:
        return str(parse_type(text))
    except ValueError:
        return text


def _arrow_type(given: Any) -> pa.DataType | None:
    import pyarrow as pa

    if isinstance(given, pa.DataType):
        return given
    library = getattr(given, "__module__", type(given).__module__).partition(".")[0]
    if library == "polars":
        import polars as pl

        return pa.schema(pl.Schema({"it": given})).field(0).type
    if library == "numpy":
        with suppress(pa.ArrowNotImplementedError):
            return pa.from_numpy_dtype(given)
    return None
