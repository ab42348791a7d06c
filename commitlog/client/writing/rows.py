"""Rows in the forms in which programs have them: Arrow's, frames of pandas, Polars and whoever speaks Arrow, plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from commitlog.client.arguments import shown
from commitlog.client.files.given_files import Files, checked_files
from commitlog.client.tables.values import plain_time
from commitlog.domain.model import DataFile
from commitlog.domain.model.types import fold
from commitlog.errors import DataFileError, InvalidRequestError

if TYPE_CHECKING:
    import pyarrow as pa

    from commitlog.domain.model.definitions import TableDefinition

RowData: TypeAlias = "pa.Table | pa.RecordBatch | pa.RecordBatchReader | Iterable[Any] | Mapping[str, Any] | Any"
"""An Arrow table, batch, reader or iterable of batches; a frame; a list of dicts; a dict of columns."""

FORMS = "an Arrow table, batch, reader or batches, a frame of pandas or Polars, a list of dicts or a dict of columns"


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one schema, piece after piece; ``pieces`` may be gone through once where they are an iterator."""

    schema: pa.Schema
    pieces: Iterable[pa.Table]


@dataclass(frozen=True, slots=True)
class PlainRows:
    """Rows of plain Python values, whose types the table tells where they do not say it themselves."""

    columns: Mapping[str, Any]

    def arrow(self, table: TableDefinition | None) -> Rows:
        """As Arrow's.

        Raises:
            DataFileError: a column's values are of no one type, or not of the table's.
            InvalidRequestError: the columns are of different lengths.
        """
        import pyarrow as pa

        kinds = {} if table is None else {fold(column.name): column for column in table.columns}
        arrays = {name: _array(name, values, kinds.get(fold(name))) for name, values in self.columns.items()}
        _check_lengths(arrays)
        rows = pa.table(arrays)
        return Rows(rows.schema, (rows,))

    def one_by_one(self) -> list[dict[str, Any]]:
        """Each as a dict; values that are Python's own stay as they are.

        Raises:
            DataFileError: a column's values are of no one type.
            InvalidRequestError: the columns are of different lengths.
        """
        columns = {
            name: values
            if isinstance(values, list | tuple)
            else _array(name, values, None).to_pylist(maps_as_pydicts="strict")
            for name, values in self.columns.items()
        }
        _check_lengths(columns)
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def rows_or_files(data: RowData | None, files: Files | None) -> Rows | PlainRows | tuple[str | Path | DataFile, ...]:
    """What is to be appended: rows, or the data files that hold them.

    Raises:
        InvalidRequestError: it is neither, or both.
    """
    if (data is None) == (files is None):
        raise InvalidRequestError(f"give either rows, {FORMS}, or files=[...]")
    if files is not None:
        return checked_files(files)
    is_files = isinstance(data, list | tuple) and bool(data) and isinstance(data[0], str | Path | DataFile)
    if is_files or isinstance(data, str | Path):
        return checked_files(cast("Files", data))
    return rows_of(data)


def rows_of(data: RowData) -> Rows | PlainRows:
    """Rows from what a program gives.

    Raises:
        InvalidRequestError: it is none of the forms in which rows come.
    """
    given = given_rows(data)
    return PlainRows(_columns_of_rows(given)) if isinstance(given, list) else given


def given_rows(data: RowData) -> Rows | PlainRows | list[Any]:
    """The same, but rows that come one by one, each with columns of its own, are left as they are; only the first is looked at.

    Raises:
        InvalidRequestError: it is none of the forms in which rows come.
        DataFileError: a text is no UTF-8.
    """
    import pyarrow as pa

    if isinstance(data, pa.Table):
        return Rows(data.schema, (_checked(data),))
    if isinstance(data, pa.RecordBatch):
        return Rows(data.schema, (_checked(pa.Table.from_batches([data])),))
    if isinstance(data, Mapping):
        return PlainRows(_checked_columns(data))
    if type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns"):
        return rows_of(_of_pandas(data).replace_schema_metadata(None))
    if hasattr(data, "__arrow_c_stream__"):
        reader = data if isinstance(data, pa.RecordBatchReader) else _reader_of(data)
        return Rows(reader.schema, (_checked(pa.Table.from_batches([batch])) for batch in reader))
    if isinstance(data, str | bytes | Path) or not isinstance(data, Iterable):
        raise _no_rows(data)
    return _rows_of_items(data)


def _of_pandas(frame: Any) -> pa.Table:
    import pyarrow as pa

    from commitlog.client.writing.misread import check_times

    if not frame.columns.is_unique:
        twice = ", ".join({str(name): None for name in frame.columns[frame.columns.duplicated()]})
        raise DataFileError(f"the frame has more than one column {twice}: call .rename(...), or leave one out")
    is_index_kept = _is_index_kept(frame)
    try:
        rows = pa.Table.from_pandas(frame, preserve_index=is_index_kept)
    except (pa.ArrowInvalid, TypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        where, why = (
            error.args[::-1] if len(error.args) == 2 else (error, "give its values one type, as by .astype(...)")
        )
        raise DataFileError(f"the frame has a column that Arrow has no type for: {where}: {why}") from None
    columns = [frame.iloc[:, at] for at in range(frame.shape[1])]
    if is_index_kept:
        columns += [frame.index.get_level_values(at) for at in range(frame.index.nlevels)]
    for field, values in zip(rows.schema, columns, strict=True):
        check_times(field.name, values, field.type)
    return rows


def _reader_of(data: Any) -> pa.RecordBatchReader:
    """Arrow's stream of a frame.

    Raises:
        DataFileError: Arrow does not know the type of a column.
        InvalidRequestError: it is a single column, whose stream has no rows of columns.
    """
    import pyarrow as pa

    if type(data).__module__.partition(".")[0] == "polars" and hasattr(data, "columns"):
        for name in data.columns:
            if _holds_objects(data[name]):
                raise DataFileError(
                    f"the frame has a column that Arrow has no type for: {name} holds Python objects: leave it out, or give it "
                    "one type, as by .map_elements(..., return_dtype=...)"
                )
    try:
        return pa.RecordBatchReader.from_stream(data)
    except pa.ArrowInvalid as error:
        if hasattr(data, "columns"):
            raise DataFileError(
                f"the frame has a column that Arrow has no type for: {error}: cast it to another type first"
            ) from None
        hint = " (.to_frame() makes rows of one column)" if hasattr(data, "to_frame") else ""
        raise InvalidRequestError(f"rows are {FORMS}, not a single column, {type(data).__name__}{hint}") from None


def _holds_objects(series: Any) -> bool:
    """Whether it is a series of Polars' of which Arrow would be given nothing but where its values are in memory."""
    return str(getattr(series, "dtype", None)) == "Object"


def _is_index_kept(frame: Any) -> bool:
    """Whether the index of a pandas frame becomes columns: where it has names. Mere numbers of rows do not.

    Raises:
        InvalidRequestError: it holds something, but has no name for it, or that of a column.
    """
    index = frame.index
    if any(name in frame.columns for name in index.names if name is not None):
        raise InvalidRequestError(
            f"the frame has an index and a column that are both called {', '.join(map(str, index.names))}: call "
            ".reset_index(drop=True), which leaves the index out, or .rename_axis(...)"
        )
    if None not in index.names:
        return True
    if index.nlevels > 1 or (len(index) and index.dtype.kind not in "iu"):
        raise InvalidRequestError(
            "the frame has an index without a name, and rows are made of columns: call .reset_index(), or with drop=True to "
            "leave it out"
        )
    return False


def _rows_of_items(data: Iterable[Any]) -> Rows | PlainRows | list[Any]:
    import pyarrow as pa

    items = iter(data)
    for first in items:
        if isinstance(first, pa.RecordBatch | pa.Table):
            return Rows(first.schema, _as_tables(chain((first,), items), first.schema))
        if isinstance(first, Mapping):
            return [first, *items]
        raise _no_rows(first)
    return PlainRows({})


def _as_tables(batches: Iterator[Any], schema: pa.Schema) -> Iterator[pa.Table]:
    import pyarrow as pa

    for batch in batches:
        if not isinstance(batch, pa.RecordBatch | pa.Table):
            raise InvalidRequestError(f"after a batch of Arrow's there can only be others, not {shown(batch)}")
        if not batch.schema.equals(schema):
            raise DataFileError(
                f"batches must all have the columns of the first, {_names(schema)}, not {_names(batch.schema)}"
            )
        yield _checked(batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch]))


def _checked(rows: pa.Table) -> pa.Table:
    """The rows, whose texts are UTF-8: Arrow's readers of JSON and of Parquet take any bytes for a text, and of a file that has
    others nobody reads a row.

    Raises:
        DataFileError: they are not.
    """
    import pyarrow as pa

    for index, kind in enumerate(rows.schema.types):
        if not pa.types.is_primitive(kind) and _holds_texts(kind):
            _check_texts(rows.schema.names[index], rows.column(index))
    return rows


def _holds_texts(kind: pa.DataType) -> bool:
    import pyarrow as pa

    from commitlog.client.tables.arrow_types import fields_of

    if pa.types.is_dictionary(kind):
        return _holds_texts(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return True
    return any(_holds_texts(field.type) for field in fields_of(kind))


def _check_texts(name: str, values: pa.Array | pa.ChunkedArray) -> None:
    import pyarrow as pa

    try:
        for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
            chunk.validate(full=True)
    except pa.ArrowInvalid as error:
        raise DataFileError(f"column {name} ({values.type}): {error}") from None


def _names(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _columns_of_rows(rows: Sequence[Any]) -> dict[str, list[Any]]:
    """The columns of rows as dicts; what a row does not have is NULL in it."""
    names: dict[str, None] = {}
    for row in rows:
        if not isinstance(row, Mapping):
            raise no_dict(row)
        names |= dict.fromkeys(row)
    for name in names:
        _check_name(name)
    if rows and not names:
        raise InvalidRequestError(
            "the rows have no columns, by which they could be counted: give each one at least, such as {'id': None}"
        )
    return {name: [row.get(name) for row in rows] for name in names}


def no_dict(row: Any) -> InvalidRequestError:
    """What is wrong with a list of rows of which one is no dict."""
    return InvalidRequestError(f"a list of rows has dicts only, not {shown(row)}")


def _checked_columns(columns: Mapping[Any, Any]) -> Mapping[str, Any]:
    for name, values in columns.items():
        _check_name(name)
        if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__len__"):
            raise InvalidRequestError(
                f"a dict has columns, each a list of values, and {name!r} has {shown(values)}; rows are a list of dicts"
            )
    return columns


def _check_lengths(columns: Mapping[str, Any]) -> None:
    if len({len(values) for values in columns.values()}) > 1:
        counts = ", ".join(f"{name} {len(values)}" for name, values in columns.items())
        raise InvalidRequestError(f"the columns have different numbers of values: {counts}")


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise InvalidRequestError(f"the name of a column must be a text, not {shown(name)}")


def _no_rows(data: Any) -> InvalidRequestError:
    hint = " (call .collect() first)" if hasattr(data, "collect") else ""
    return InvalidRequestError(f"rows are {FORMS}, not {shown(data)}{hint}")


def _array(name: str, values: Any, column: Any) -> pa.Array:
    import pyarrow as pa

    from commitlog.client.writing.file_schema import file_schema
    from commitlog.client.writing.misread import check_times
    from commitlog.client.writing.nested_columns import nested_array

    if isinstance(values, pa.Array | pa.ChunkedArray):
        _check_texts(name, values)
        return values
    if hasattr(values, "__arrow_c_stream__") and not _holds_objects(values):
        return pa.chunked_array(values)
    if column is not None and column.children:
        return nested_array(name, values, column, partial(_array, name))
    kind = None if column is None else file_schema([column]).field(0).type
    try:
        array = pa.array(values)
    except (ValueError, TypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        plain = [plain_time(each) for each in values]
        if any(given is not each for given, each in zip(values, plain, strict=True)):
            return _array(name, plain, column)
        array = _typed(name, values, kind, error)
    check_times(name, values, array.type)
    # Python has one kind of float only.
    if kind == pa.float32() and array.type == pa.float64():
        return _narrowed(name, array)
    return _whole_times(name, values, array) if pa.types.is_timestamp(array.type) and array.type.unit == "us" else array


def _narrowed(name: str, array: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    narrow = array.cast(pa.float32())
    beyond = array.filter(pc.xor(pc.is_inf(narrow), pc.is_inf(array)))
    if len(beyond):
        raise DataFileError(
            f"column {name} (float32): the value {beyond[0]} is out of range for it: make the column a float64"
        )
    return narrow


def _whole_times(name: str, values: Any, array: pa.Array) -> pa.Array:
    """The times with their nanoseconds, which pandas' have and Arrow looks for in none but NumPy's."""
    import pyarrow as pa

    if not any(hasattr(each, "nanosecond") for each in set(map(type, values))):
        return array
    if not any(getattr(each, "nanosecond", 0) for each in values):
        return array
    try:
        return pa.array(values, pa.timestamp("ns", array.type.tz))
    except pa.ArrowInvalid as error:
        raise DataFileError(f"column {name}: {error}") from None


def _typed(name: str, values: Any, kind: pa.DataType | None, error: Exception) -> pa.Array:
    """Values whose type Arrow cannot tell, as the table's; never floats as integers, which Arrow would cut."""
    import pyarrow as pa

    if kind is not None and (
        not pa.types.is_integer(kind) or all(isinstance(each, Integral | None) for each in values)
    ):
        try:
            return pa.array(values, kind)
        except (ValueError, TypeError, pa.ArrowNotImplementedError, OverflowError) as typed:
            error = typed
    why = (
        "a whole number is out of range: it needs a column such as uint64 or decimal(38,0)"
        if isinstance(error, OverflowError)
        else error
    )
    raise DataFileError(f"column {name}{'' if kind is None else f' ({kind})'}: {why}") from None
