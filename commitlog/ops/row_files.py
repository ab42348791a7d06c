"""Files of rows that are no lake's: CSV, Parquet and JSON lines, read batch after batch as rows of a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from io import BufferedReader
from itertools import islice
from json import JSONDecoder
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv, json

from commitlog.client.writing.file_schema import file_schema
from commitlog.domain.model.definitions import Column, TableDefinition
from commitlog.domain.model.json_lines import is_blank
from commitlog.domain.model.types import fold
from commitlog.errors import DataFileError, InvalidRequestError

BLOCK_BYTES = 16 * 2**20
"""How much of a CSV file or of JSON lines is read at a time."""
_FORMATS = {".csv": "CSV", ".tsv": "CSV", ".parquet": "Parquet", ".jsonl": "JSON", ".ndjson": "JSON", ".json": "JSON"}
_ZONE = r"[T ][\d:.]+(Z|[+-]\d\d(:?\d\d)?)$"
_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*")
_EXACT_MAX = float(2**53)
"""Up to here a float64 holds each whole number."""
_WHOLE_EXACTLY = JSONDecoder(parse_int=Decimal)
_CONVERT = "convert the file first, as by `iconv -f latin1 -t utf-8`"
_JSON_TYPES = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_timestamp,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_struct,
    pa.types.is_list,
)


@dataclass(frozen=True, slots=True)
class TextForm:
    """How CSV is written.

    Attributes:
        nulls: texts that stand for NULL where they are not quoted.
        delimiter: what separates columns; None is a comma, or what the ending of a path says.
        texts: the columns, of those that no table has yet, whose values are texts whatever they look like.
    """

    nulls: Sequence[str] = ("",)
    delimiter: str | None = None
    texts: Sequence[str] = ()


@dataclass(slots=True)
class _Digits:
    """The numbers of a column as its file writes them.

    Attributes:
        are_whole: all of them are digits alone, without a point or an exponent.
        low, high: the bounds of those that are.
        rounded: one of them that a float64 does not hold.
    """

    are_whole: bool = True
    low: Decimal = Decimal(0)
    high: Decimal = Decimal(0)
    rounded: Decimal | None = None

    def add(self, number: object) -> None:
        if not isinstance(number, Decimal):
            self.are_whole = False
            return
        self.low, self.high = min(self.low, number), max(self.high, number)
        if number != float(number):
            self.rounded = number

    def exact_type(self) -> pa.DataType | None:
        """The type that holds all of them, where they are whole and there is one."""
        if not self.are_whole:
            return None
        if self.low >= 0 and self.high < 2**64:
            return pa.uint64()
        return pa.decimal128(38, 0) if max(-self.low, self.high) < 10**38 else None


class RowFiles:
    """Files with the same columns, whose rows are those of one load.

    Args:
        paths: their endings tell what they are, ``.gz`` and the like behind that are unpacked.
        table: what they are loaded into, whose columns' types are taken; None takes those that the first file shows.
        form: how CSV is written.
        names: what messages call those that are not called as their paths.
        on_progress: is called with the path that is read, and how many rows have been.

    Raises:
        DataFileError: a file is missing, is not what its ending says, has other columns than the first, or numbers of whose
            digits a column that no table has yet would lose some.
        InvalidRequestError: the ending of a path tells nothing, or a column of texts is not there.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        table: TableDefinition | None,
        form: TextForm,
        names: Mapping[Path, str],
        on_progress: Callable[[Path, int], None],
    ) -> None:
        self._paths = paths
        self._form = form
        self._names = names
        self._on_progress = on_progress
        self.row_count = 0
        self._is_created = table is None
        self._known_digits: dict[tuple[Path, str], _Digits] = {}
        for path in paths:
            _format(path)
        first = paths[0]
        columns = self._open(first, {}).schema.names
        if table is None:
            types = {name: pa.string() for name in self._checked_texts(columns)}
        else:
            known = {fold(column.name): column for column in table.columns}
            types = {name: kind for name in columns if (kind := _text_type(known.get(fold(name)))) is not None}
        types |= self._times(first, types)
        if table is None:
            types |= self._large_numbers(first, types)
        is_json = _format(first) == "JSON"
        read = self._open(first, types).schema
        self._check_texts_are_utf8(first, read, types)
        self.schema = pa.schema([_wanted(field, types.get(field.name), is_json=is_json) for field in read])
        self._types = types if table is not None else dict(zip(self.schema.names, self.schema.types, strict=True))

    def _checked_texts(self, columns: Sequence[str]) -> Sequence[str]:
        for name in self._form.texts:
            if name not in columns:
                raise InvalidRequestError(
                    f"there is no column {name} to be texts: the file has {', '.join(columns[:20])}"
                )
        return self._form.texts

    def _check_texts_are_utf8(self, path: Path, read: pa.Schema, types: Mapping[str, pa.DataType]) -> None:
        """Of a column of CSV whose texts are no UTF-8 Arrow makes one of bytes."""
        found = [each.name for each in read if pa.types.is_binary(each.type) and each.name not in types]
        if found and _format(path) == "CSV":
            raise DataFileError(f"{self._name(path)} has texts in the column {found[0]} that are no UTF-8: {_CONVERT}")

    def _times(self, path: Path, types: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
        """The columns of times that Arrow sees otherwise than they are written, as the first rows tell: of JSON it drops their
        zone and takes those with a fraction for texts, and in CSV it takes any fraction for one of nanoseconds."""
        form, read = _format(path), self._open(path, types).schema
        if form == "JSON":
            found = {each.name: each.type for each in read if each.name not in types and _has_texts(each.type)}
            if not found:
                return {}
            rows = self._open(path, {**types, **found}).read_next_batch()
            return {name: _as_written(kind, rows.column(name)) for name, kind in found.items()}
        times = [each.name for each in read if pa.types.is_timestamp(each.type) and each.name not in types]
        if not times or form == "Parquet":
            return {}
        rows = self._open(path, types).read_next_batch()
        whole = {name: _whole_microseconds(rows.column(name)) for name in times}
        return {name: kind for name, kind in whole.items() if kind is not None}

    def _large_numbers(self, path: Path, types: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
        """The columns of whole numbers beyond an int64, which Arrow rounds to floats."""
        found = {}
        for rows in islice(self._open(path, types), 1):
            for field in self._perhaps_rounded(path, rows):
                kind = self._digits(path, field.name).exact_type()
                if kind is not None and pa.types.is_floating(field.type):
                    found[field.name] = kind
                else:
                    self._check_digits(path, field)
        return found

    def _perhaps_rounded(self, path: Path, rows: pa.RecordBatch) -> Sequence[pa.Field]:
        if _format(path) == "Parquet":
            return ()
        try:
            # Of a list of numbers that begins with NULL Arrow's reader of JSON makes one that is longer than its values.
            rows.validate()
        except pa.ArrowInvalid as error:
            raise self._unreadable(path, error) from None
        return [field for field, values in zip(rows.schema, rows.columns, strict=True) if _has_large(values)]

    def _check_digits(self, path: Path, field: pa.Field) -> None:
        rounded = self._digits(path, field.name).rounded
        if rounded is None:
            return
        if pa.types.is_nested(field.type):
            remedy = "write it as a text in the file"
        else:
            remedy = "create the table first, with a type that holds it, such as decimal(38,2)"
            if _format(path) == "CSV":
                remedy += f", or take it as a text: --text {field.name}"
        raise DataFileError(
            f"{self._name(path)} has {rounded} in the column {field.name}, of which a float64 would lose digits: {remedy}"
        )

    def _digits(self, path: Path, name: str) -> _Digits:
        found = self._known_digits.get((path, name))
        if found is None:
            found = self._known_digits[path, name] = _Digits()
            try:
                for number in self._numbers(path, name):
                    found.add(number)
            except (pa.ArrowException, OSError, ValueError) as error:
                raise self._unreadable(path, error) from None
        return found

    def _numbers(self, path: Path, name: str) -> Iterator[object]:
        """The values of a column, nested ones too; those that are digits alone as what they are exactly."""
        if _format(path) == "CSV":
            for batch in self._csv(path, {name: pa.string()}, [name]):
                for text in batch.column(name).drop_null().to_pylist():
                    yield Decimal(text) if _WHOLE.fullmatch(text) else text
            return
        with pa.input_stream(path) as stream:
            for line in BufferedReader(stream):
                if not is_blank(line):
                    yield from _flat(_WHOLE_EXACTLY.decode(line.decode("utf-8-sig")).get(name))

    def reader(self) -> pa.RecordBatchReader:
        """The rows of all files."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for path in self._paths:
            try:
                for batch in self._open(path, self._types):
                    self._check_texts(path, batch)
                    yield self._like_first(path, batch)
                    self.row_count += batch.num_rows
                    self._on_progress(path, self.row_count)
            except (pa.ArrowException, OSError) as error:
                raise self._unreadable(path, error) from None

    def _check_texts(self, path: Path, rows: pa.RecordBatch) -> None:
        """See that texts are UTF-8, which Arrow sees to in CSV alone."""
        if _format(path) == "CSV":
            return
        try:
            rows.validate(full=True)
        except pa.ArrowInvalid as error:
            raise DataFileError(f"{self._name(path)} cannot be read as {_format(path)}: {error}; {_CONVERT}") from None

    def _like_first(self, path: Path, batch: pa.RecordBatch) -> pa.RecordBatch:
        if set(batch.schema.names) != set(self.schema.names):
            raise DataFileError(
                f"{self._name(path)} has the columns {', '.join(batch.schema.names[:20])}, and "
                f"{self._name(self._paths[0])} has {', '.join(self.schema.names[:20])}: load them one by one"
            )
        for field in batch.schema:
            if _is_narrower(first := self.schema.field(field.name).type, field.type) and pa.types.is_floating(first):
                name = self._name(path)
                raise DataFileError(
                    f"{name} has numbers in the column {field.name} that are {field.type}, of which a {first}, as in "
                    f"{self._name(self._paths[0])}, would lose digits: name {name} first"
                )
        if self._is_created:
            for field in self._perhaps_rounded(path, batch):
                self._check_digits(path, field)
        return batch.select(self.schema.names).cast(self.schema)

    def _open(self, path: Path, types: Mapping[str, pa.DataType]) -> Any:
        try:
            opened = self._opened(path, types)
            # Names that are no UTF-8 are an error only when they are asked for: here it can be said of which file.
            list(opened.schema.names)
            return opened
        except FileNotFoundError:
            raise DataFileError(f"{self._name(path)} does not exist") from None
        except UnicodeDecodeError:
            raise DataFileError(
                f"{self._name(path)} cannot be read as {_format(path)}: the names of its columns are no UTF-8; {_CONVERT}"
            ) from None
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(path, error) from None

    def _opened(self, path: Path, types: Mapping[str, pa.DataType]) -> Any:
        match _format(path):
            case "CSV":
                return self._csv(path, types)
            case "JSON":
                return _json(path, types)
        file = pq.ParquetFile(path)
        return pa.RecordBatchReader.from_batches(file.schema_arrow.remove_metadata(), file.iter_batches())

    def _name(self, path: Path) -> str:
        return self._names.get(path, str(path))

    def _unreadable(self, path: Path, error: Exception) -> DataFileError:
        hint = " (it has to be an object a line, and no list of them)" if _format(path) == "JSON" else ""
        return DataFileError(
            f"{self._name(path)} cannot be read as {_format(path)}: {str(error).splitlines()[0]}{hint}"
        )

    def _csv(self, path: Path, types: Mapping[str, pa.DataType], only: Sequence[str] = ()) -> Any:
        return csv.open_csv(
            path,
            read_options=csv.ReadOptions(block_size=BLOCK_BYTES),
            parse_options=csv.ParseOptions(delimiter=self._form.delimiter or _separator(path), newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=dict(types),
                include_columns=list(only),
                null_values=list(self._form.nulls),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )


def _json(path: Path, types: Mapping[str, pa.DataType]) -> Any:
    parsed = {name: kind for name, kind in types.items() if any(is_one(kind) for is_one in _JSON_TYPES)}
    known = pa.schema((name, _as_texts(kind)) for name, kind in parsed.items())
    return json.open_json(
        pa.input_stream(path),
        read_options=json.ReadOptions(block_size=BLOCK_BYTES),
        parse_options=json.ParseOptions(explicit_schema=known if len(known) else None),
    )


def _as_texts(kind: pa.DataType) -> pa.DataType:
    """The type that values of JSON are read as first, with texts for days and for times that are to have no zone: Arrow's
    reader parses no days, and of times that have a zone it makes other ones without."""
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_as_texts(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(_as_texts(kind.value_type))
    return pa.string() if pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.tz is None) else kind


def _has_texts(kind: pa.DataType) -> bool:
    """Whether values of JSON are read as texts first, or have some in them."""
    if pa.types.is_struct(kind):
        return any(_has_texts(each.type) for each in kind)
    return _has_texts(kind.value_type) if pa.types.is_list(kind) else pa.types.is_string(_as_texts(kind))


def _as_written(kind: pa.DataType, values: pa.Array) -> pa.DataType:
    """The type of values whose times are texts still, with a zone where these name one."""
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_as_written(each.type, values.field(at))) for at, each in enumerate(kind)])
    if pa.types.is_list(kind):
        return pa.list_(_as_written(kind.value_type, values.flatten()))
    if pa.types.is_string(kind):
        return _fractional(values)
    return _zoned(values) if pa.types.is_timestamp(kind) else kind


def _has_large(values: pa.Array) -> bool:
    """Whether floats may be whole numbers that were rounded."""
    if pa.types.is_struct(values.type):
        return any(_has_large(each) for each in values.flatten())
    if pa.types.is_list(values.type):
        return _has_large(values.flatten())
    return pa.types.is_floating(values.type) and bool(pc.any(pc.greater_equal(pc.abs(values), _EXACT_MAX)).as_py())


def _flat(value: object) -> Iterator[object]:
    """What a value of JSON is made of, without the NULLs."""
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _flat(each)
    elif value is not None:
        yield value


def _zoned(texts: pa.Array) -> pa.DataType:
    """The type of times, with a zone where each names one; where only some do, they stay texts."""
    known = texts.drop_null()
    count = pc.sum(pc.match_substring_regex(known, _ZONE)).as_py()
    if not count:
        return pa.timestamp("us")
    return pa.timestamp("us", "UTC") if count == len(known) else pa.string()


def _fractional(texts: pa.Array) -> pa.DataType:
    """The type of texts, of which some may have made the others texts by the fraction of a second in them."""
    known = texts.drop_null()
    for kind in (_zoned(known), pa.timestamp("ns")) if len(known) else ():
        try:
            known.cast(kind)
            return kind
        except pa.ArrowInvalid:
            continue
    return pa.string()


def _whole_microseconds(times: pa.Array) -> pa.DataType | None:
    """The type of times in nanoseconds that need none."""
    if times.type.unit != "ns":
        return None
    kind = pa.timestamp("us", times.type.tz)
    return kind if times.cast(kind, safe=False).cast(times.type).equals(times) else None


def _wanted(field: pa.Field, known: pa.DataType | None, *, is_json: bool) -> pa.Field:
    """A column as it is given on: a day or time that JSON has as a text is one, and numbers are as wide as the table's; what
    has no value and no type is a text; whole seconds are no reason that the next file's may have no fractions."""
    if pa.types.is_null(field.type):
        return field.with_type(pa.string() if known is None else known)
    if known is None and pa.types.is_timestamp(field.type) and field.type.unit == "s":
        return field.with_type(pa.timestamp("us", field.type.tz))
    if known is not None and (_is_narrower(field.type, known) or (is_json and _as_texts(known) != known)):
        return field.with_type(known)
    return field


def _is_narrower(kind: pa.DataType, other: pa.DataType) -> bool:
    """Whether the other type has all numbers of this one, and more."""
    kinds = (pa.types.is_signed_integer, pa.types.is_unsigned_integer, pa.types.is_floating)
    return any(is_one(kind) and is_one(other) for is_one in kinds) and kind.bit_width < other.bit_width


def _separator(path: Path) -> str:
    return "\t" if ".tsv" in path.suffixes else ","


def _format(path: Path) -> str:
    found = next((_FORMATS[ending] for ending in reversed(path.suffixes) if ending in _FORMATS), None)
    if found is None:
        raise InvalidRequestError(
            f"{path} does not end with one of {', '.join(_FORMATS)}: what it holds is not known. Of standard input, --format "
            "says it: `commitlog load TABLE - --format csv < FILE`"
        )
    return found


def _text_type(column: Column | None) -> pa.DataType | None:
    """The type that a text is read as for a column; None leaves it to what the text looks like."""
    if column is None or column.children:
        return None
    if column.type.name == "uuid":
        return pa.string()
    return file_schema([column]).field(0).type
