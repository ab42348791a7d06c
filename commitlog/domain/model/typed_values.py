"""Values of DuckLake's column types: in the one form in which they are compared, and as text."""

from __future__ import annotations

import json
import math
import re
import struct
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation
from uuid import UUID

from commitlog.domain.model import RowValue
from commitlog.domain.model.types import FLOATS, INTEGER_BITS, TIMESTAMPS, ColumnType, fold
from commitlog.domain.model.values import NESTING_MAX, is_nested_deeper
from commitlog.domain.model.well_known_text import check_geometry

_INTEGER_RANGES = {
    name: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    for name, (signed, bits) in INTEGER_BITS.items()
}


def _boolean(value: RowValue, _: ColumnType) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise ValueError("is no boolean")


def _integer(value: RowValue, data_type: ColumnType) -> int:
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,40}", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError("is no integer")
    low, high = _INTEGER_RANGES[data_type.name]
    if not low <= value <= high:
        raise ValueError(f"is out of range for {data_type.name}")
    return value


_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_FLOAT_WORDS = {"nan": math.nan, "inf": math.inf, "infinity": math.inf, "-inf": -math.inf, "-infinity": -math.inf}


def _float(value: RowValue, _: ColumnType) -> float:
    if isinstance(value, str) and value.lower() in _FLOAT_WORDS:
        return _FLOAT_WORDS[value.lower()]
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("is no number")
    return float(value)


_FLOAT32_MAX = 3.4028235677973366e38
_FLOAT32 = struct.Struct("<f")


def nearest_float(data_type: ColumnType, value: float) -> float:
    """The value of a float column that is nearest to a number; infinity beyond its range."""
    number = float(value) if abs(value) <= sys.float_info.max else math.copysign(math.inf, value)
    if data_type.name != "float32" or not math.isfinite(number):
        return number
    if abs(number) >= _FLOAT32_MAX:
        return math.copysign(math.inf, number)
    nearest: float = _FLOAT32.unpack(_FLOAT32.pack(number))[0]
    return nearest


def _float32(value: RowValue, data_type: ColumnType) -> float:
    number = _float(value, data_type)
    if math.isfinite(number) and abs(number) >= _FLOAT32_MAX:
        raise ValueError("is out of range for float32")
    return number


_INTERVAL_UNITS = {
    "years?": "year", "mons?": "month", "months?": "month", "weeks?": "week", "days?": "day", "hours?": "hour",
    "minutes?": "minute", "mins?": "minute", "seconds?": "second", "secs?": "second", "milliseconds?": "millisecond",
    "microseconds?": "microsecond",
}  # fmt: skip
_CLOCK_UNITS = frozenset({"hour", "minute", "second", "millisecond", "microsecond"})
_INTERVAL_PART = re.compile(rf"([+-]?[0-9]{{1,9}}) ?({'|'.join(_INTERVAL_UNITS)})(?: |$)", re.IGNORECASE | re.ASCII)
_INTERVAL_CLOCK = re.compile(r"[+-]?[0-9]{1,8}:[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?")
_INTERVAL_WHOLE_MAX = 2**31 - 1
"""Of the months, and of the days: PostgreSQL and DuckDB hold 32 bits of each."""


def _interval(value: RowValue, data_type: ColumnType) -> str:
    """Each unit once, as PostgreSQL takes it, and a time of day beside no unit of its own; without a plus, which DuckDB does
    not read."""
    text = _text(value, data_type).strip(" ")
    given: dict[str, int] = {}
    at = 0
    while (part := _INTERVAL_PART.match(text, at)) is not None:
        unit = next(name for form, name in _INTERVAL_UNITS.items() if re.fullmatch(form, part[2], re.IGNORECASE))
        if unit in given:
            raise ValueError(f"is no interval: it gives its {unit}s twice")
        given[unit] = int(part[1])
        at = part.end()
    is_clock = _INTERVAL_CLOCK.fullmatch(text, at) is not None
    if not (is_clock or (given and at == len(text))) or (is_clock and not given.keys().isdisjoint(_CLOCK_UNITS)):
        raise ValueError("is no interval such as '3 days 04:05:06'")
    months = given.get("year", 0) * 12 + given.get("month", 0)
    days = given.get("week", 0) * 7 + given.get("day", 0)
    if max(abs(months), abs(days)) > _INTERVAL_WHOLE_MAX:
        raise ValueError("is out of range for interval")
    return text.replace("+", "")


_DIGITS_MAX = 200
EXACT = Context(prec=_DIGITS_MAX, Emax=MAX_EMAX, Emin=MIN_EMIN)


def _decimal(value: RowValue, data_type: ColumnType) -> Decimal:
    is_number = _NUMBER.fullmatch(value) is not None if isinstance(value, str) else isinstance(value, int | float)
    if not is_number or isinstance(value, bool):
        raise ValueError("is no decimal number")
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        raise ValueError("is no decimal number") from None
    if not number.is_finite() or len(number.as_tuple().digits) > _DIGITS_MAX:
        raise ValueError("is no finite decimal number of a length that fits")
    digits = number.normalize(EXACT).as_tuple()
    assert isinstance(digits.exponent, int)
    if number and (
        -digits.exponent > data_type.scale
        or len(digits.digits) + digits.exponent > data_type.precision - data_type.scale
    ):
        raise ValueError(f"does not fit {data_type.catalog_name}")
    return EXACT.plus(number.normalize(EXACT))


def _text(value: RowValue, _: ColumnType) -> str:
    if not isinstance(value, str):
        raise ValueError("is no text")
    return value


_ESCAPED = re.compile(r"\\x([0-9A-Fa-f]{2})")
_AS_IT_IS = frozenset(range(32, 127)) - frozenset(b"\\'\"")


def blob_bytes(text: str) -> bytes:
    """The bytes of a blob in DuckDB's text form: ``\\xAA`` for what is not printable."""
    parts = _ESCAPED.split(text)
    return b"".join(bytes.fromhex(part) if index % 2 else part.encode() for index, part in enumerate(parts))


def blob_text(data: bytes) -> str:
    """A blob's text form: each byte in the one way in which DuckDB writes it."""
    return "".join(chr(byte) if byte in _AS_IT_IS else f"\\x{byte:02X}" for byte in data)


def _blob(value: RowValue, data_type: ColumnType) -> str:
    text = _text(value, data_type)
    if not text.isascii() or "\\" in _ESCAPED.sub("", text):
        raise ValueError("is no blob: a byte that is not ASCII is \\x and two hex digits, a backslash \\x5C")
    return blob_text(blob_bytes(text))


def _geometry(value: RowValue, data_type: ColumnType) -> str:
    text = _text(value, data_type)
    check_geometry(text)
    return text


def _json(value: RowValue, _: ColumnType) -> RowValue:
    """Text is JSON's own; all else is what JSON is made of."""
    if isinstance(value, str):
        try:
            value.encode()
            found = _FROM_JSON.decode(value)
            # How deep it can be read at all depends on who reads it: what commits here may be too deep for a reader.
            if is_nested_deeper(found, NESTING_MAX):
                raise ValueError
            if "\\u" in value:
                # Which may say half a letter.
                _TO_JSON.encode(found).encode()
        except (ValueError, RecursionError):
            raise ValueError(f"is no JSON text of at most {NESTING_MAX} levels") from None
    return value


def _no_constant(name: str) -> object:
    raise ValueError(name)


# Made once: to make them takes longer than most texts do.
_FROM_JSON = json.JSONDecoder(parse_constant=_no_constant)
_TO_JSON = json.JSONEncoder(ensure_ascii=False)


_UUID_DIGITS = re.compile(r"[0-9a-fA-F]{32}")


def _uuid(value: RowValue, data_type: ColumnType) -> str:
    # Python's own reader takes whatever int() does for digits: signs, spaces, underscores and those of other scripts.
    digits = _text(value, data_type).removeprefix("urn:uuid:").strip("{}").replace("-", "")
    if not _UUID_DIGITS.fullmatch(digits):
        raise ValueError("is no uuid")
    return str(UUID(digits))


def _date(value: RowValue, _: ColumnType) -> date:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
        raise ValueError("is no date of the form 2024-01-31")
    return date.fromisoformat(value)


_CLOCK = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?")
_ZONE = re.compile(r"(Z|[+-][0-9]{2}(?::?[0-9]{2})?)$", re.IGNORECASE)
_ZONE_MINUTES_MAX = 15 * 60 + 59


def _clock_ns(text: str, *, is_zoned: bool) -> int:
    """``is_zoned``: whether the column holds a zone, which is cut off already."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        if _CLOCK.fullmatch(_ZONE.sub("", text).rstrip()):
            if is_zoned:
                raise ValueError("names two time zones")
            raise ValueError("names a time zone, which a column of its type does not hold: leave it out")
        raise ValueError("is no time of the form 12:30:00")
    hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("is no time of day")
    return ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + int((match[4] or "0").ljust(9, "0"))


def _zone_ns(text: str) -> tuple[str, int]:
    match = _ZONE.search(text)
    if match is None:
        return text, 0
    zone = match[1]
    rest = text[: match.start()].rstrip()
    if zone in "Zz":
        return rest, 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    if int(digits[2:]) > 59 or minutes > _ZONE_MINUTES_MAX:
        raise ValueError("has no time zone that there is")
    return rest, (-minutes if zone[0] == "-" else minutes) * 60_000_000_000


def _time(value: RowValue, data_type: ColumnType) -> int:
    if not isinstance(value, str):
        raise ValueError("is no time of the form 12:30:00")
    is_zoned = data_type.name == "timetz"
    clock, offset = _zone_ns(value) if is_zoned else (value, 0)
    return _clock_ns(clock, is_zoned=is_zoned) - offset


def timetz_text(text: str) -> str:
    """A time of day with its zone, UTC where it has none, in a form that every reader takes."""
    clock, offset = _zone_ns(text)
    hours, minutes = divmod(abs(offset) // 60_000_000_000, 60)
    return f"{_clock_text(_clock_ns(clock, is_zoned=True))}{'-' if offset < 0 else '+'}{hours:02}:{minutes:02}"


_EPOCH = date(1970, 1, 1).toordinal()
_FIRST_NS = (date.min.toordinal() - _EPOCH) * 86_400_000_000_000
_LAST_NS = (date.max.toordinal() + 1 - _EPOCH) * 86_400_000_000_000 - 1
_FIRST_TIMESTAMP_NS = (date(1677, 9, 22).toordinal() - _EPOCH) * 86_400_000_000_000
_LAST_TIMESTAMP_NS = 2**63 - 2
"""What DuckDB reads from text as a timestamp_ns (measured): no time of the day on which its 64 bits begin, nor their last."""


def _timestamp(value: RowValue, data_type: ColumnType) -> int:
    if not isinstance(value, str):
        raise ValueError("is no time of the form 2024-01-31 12:30:00")
    day, _, clock = value.replace("T", " ", 1).partition(" ")
    is_zoned = data_type.name == "timestamptz"
    clock, offset = _zone_ns(clock) if is_zoned else (clock, 0)
    days = _date(day, data_type).toordinal() - _EPOCH
    nanoseconds = days * 86_400_000_000_000 + (_clock_ns(clock, is_zoned=is_zoned) if clock else 0) - offset
    if not _FIRST_NS <= nanoseconds <= _LAST_NS:
        raise ValueError("is not within the years 1 to 9999")
    if data_type.name == "timestamp_ns" and not _FIRST_TIMESTAMP_NS <= nanoseconds <= _LAST_TIMESTAMP_NS:
        raise ValueError("is not within 1677-09-22 and 2262-04-11 23:47:16.854775806, as a timestamp_ns has to be")
    return nanoseconds


def _anything(value: RowValue, _: ColumnType) -> RowValue:
    return value


def _struct(value: RowValue, data_type: ColumnType) -> object:
    if not isinstance(value, dict):
        raise ValueError("is no struct")
    given = {fold(name): inner for name, inner in value.items()}
    if len(given) < len(value):
        raise ValueError("names one struct field twice")
    known = {fold(name) for name, _ in data_type.fields}
    for name in given:
        if name not in known:
            raise ValueError(f"has no struct field {name!r}")
    return {name: canonical_value(inner, given.get(fold(name))) for name, inner in data_type.fields}


def _list(value: RowValue, data_type: ColumnType) -> object:
    if not isinstance(value, list):
        raise ValueError("is no list")
    return [canonical_value(data_type.fields[0][1], item) for item in value]


def _map(value: RowValue, data_type: ColumnType) -> object:
    if not isinstance(value, dict):
        raise ValueError("is no map")
    given = {
        canonical_value(data_type.fields[0][1], k): canonical_value(data_type.fields[1][1], v) for k, v in value.items()
    }
    if len(given) < len(value):
        raise ValueError("gives one map key twice")
    return given


_READERS: dict[str, Callable[[RowValue, ColumnType], object]] = {
    "boolean": _boolean, "decimal": _decimal, "varchar": _text, "blob": _blob, "uuid": _uuid, "json": _json,
    "date": _date, "time": _time, "timetz": _time, "interval": _interval, "variant": _anything, "geometry": _geometry,
    "struct": _struct, "list": _list, "map": _map,
    **dict.fromkeys(INTEGER_BITS, _integer), "float32": _float32, "float64": _float, **dict.fromkeys(TIMESTAMPS, _timestamp),
}  # fmt: skip


def canonical_value(data_type: ColumnType, value: RowValue) -> object:
    """Return ``value`` in the one form in which values of the type are compared; None stays None.

    Raises ValueError with a phrase that continues "the value ...", such as "is no integer".
    """
    return None if value is None else _READERS[data_type.name](value, data_type)


_NUMBER_WORDS = frozenset(_FLOAT_WORDS)
WIDE_INTEGERS = frozenset({"int128", "uint64", "uint128"})
"""Whose values may be text, which those beyond 64 bits have to be."""
_NARROW_INTEGERS = frozenset(INTEGER_BITS) - WIDE_INTEGERS


def check_json_type(data_type: ColumnType, value: RowValue) -> None:
    """Raise ValueError for text where JSON has a type of its own; integers beyond 64 bits have to be text."""
    if isinstance(value, list | dict):
        for inner, item in _inside(data_type, value):
            check_json_type(inner, item)
    if not isinstance(value, str):
        return
    if data_type.name in _NARROW_INTEGERS or data_type.name == "boolean":
        raise ValueError(f"is text, not {'true or false' if data_type.name == 'boolean' else 'a number'}")
    if data_type.name in FLOATS and value.lower() not in _NUMBER_WORDS:
        raise ValueError("is text, not a number")


_FLOAT_DIGITS = 15
"""A number of so many digits is told by the float that is nearest to it."""


def is_told_exactly(data_type: ColumnType, value: float) -> bool:
    """Whether floats lie so close together here that one of them is nearest to no two values of a decimal column."""
    return math.isfinite(value) and math.ulp(value) <= 10.0**-data_type.scale


def is_one_value(data_type: ColumnType, value: RowValue | Decimal) -> bool:
    """Whether a value stands for one of its type alone: a number can be the nearest to several of a decimal column."""
    return not isinstance(value, float) or data_type.name != "decimal" or is_told_exactly(data_type, value)


def check_float_digits(data_type: ColumnType, value: RowValue) -> None:
    """Raise ValueError for a number that may stand for several decimals of the type; it must be a value of the type already."""
    if isinstance(value, float):
        if is_one_value(data_type, value):
            return
        if len(Decimal(str(value)).normalize(EXACT).as_tuple().digits) > _FLOAT_DIGITS:
            raise ValueError("has more digits than a float holds: give it as text")
    elif isinstance(value, list | dict):
        for inner, item in _inside(data_type, value):
            check_float_digits(inner, item)


def _inside(data_type: ColumnType, value: RowValue) -> list[tuple[ColumnType, RowValue]]:
    """What a nested value holds, each with its type; keys of a map aside, which JSON has as text whatever they are."""
    if isinstance(value, list) and data_type.name == "list":
        return [(data_type.fields[0][1], item) for item in value]
    if isinstance(value, dict) and data_type.name == "map":
        return [(data_type.fields[1][1], item) for item in value.values()]
    if isinstance(value, dict) and data_type.name == "struct":
        known = {fold(name): inner for name, inner in data_type.fields}
        return [(known[fold(name)], item) for name, item in value.items() if fold(name) in known]
    return []


SECOND_DIGITS = {
    "timestamp_s": 0, "timestamp_ms": 3, "timestamp": 6, "timestamptz": 6, "time": 6, "timetz": 6,
}  # fmt: skip
"""How many digits of a second a column of the type holds; of a timestamp_ns all nine."""


def check_second_digits(data_type: ColumnType, value: RowValue) -> None:
    """Raise ValueError for a time that is finer than a column of the type can hold; it must be a time already."""
    digits = SECOND_DIGITS.get(data_type.name)
    if digits is not None and value is not None:
        nanoseconds = canonical_value(data_type, value)
        assert isinstance(nanoseconds, int)
        if nanoseconds % 10 ** (9 - digits):
            raise ValueError(f"has more than the {digits} digits of a second that {data_type.catalog_name} holds")


def value_text(data_type: ColumnType, value: object) -> str:
    """The text of a canonical value, as a key is shown and as DuckLake stores bounds: '1', 'true', '2024-01-01'."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, int) and data_type.name in TIMESTAMPS:
        return _timestamp_text(value) + ("+00" if data_type.name == "timestamptz" else "")
    if isinstance(value, int) and data_type.name in ("time", "timetz"):
        return _clock_text(value % 86_400_000_000_000)
    return str(value)


def _clock_text(nanoseconds: int) -> str:
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    text = time(seconds // 3600, seconds // 60 % 60, seconds % 60).isoformat()
    return f"{text}.{fraction:09d}".rstrip("0") if fraction else text


def _timestamp_text(nanoseconds: int) -> str:
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    text = moment.strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0")
    return f"{text}.{fraction:09d}".rstrip("0") if fraction else text
