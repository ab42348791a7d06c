"""The kinds of columns that histories use, with random values in the two forms that the two sides take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

Value = tuple[str, Any]
"""A value as SQL of DuckDB, and as JSON of a row."""


@dataclass(frozen=True)
class Kind:
    """A column type: its name in DuckLake and in DuckDB, values, what it may be widened to, transforms of its partitions.

    by_duckdb_only: pyarrow writes Parquet that is not read back as this type.
    """

    name: str
    sql: str
    draw: Callable[[Random], Value]
    wider: str | None = None
    transforms: tuple[str, ...] = ()
    by_duckdb_only: bool = False
    default: str | None = None
    in_rows: bool = True

    @property
    def is_nested(self) -> bool:
        return "(" in self.name and not self.name.startswith("decimal")


def _integer(low: int, high: int) -> Callable[[Random], Value]:
    def draw(random: Random) -> Value:
        number = random.choice([low, high, 0, *(random.randint(-20, 20) for _ in range(5))])
        number = min(max(number, low), high)
        return str(number), number if number < 2**63 else str(number)

    return draw


def _signed(bits: int) -> Callable[[Random], Value]:
    return _integer(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _unsigned(bits: int) -> Callable[[Random], Value]:
    return _integer(0, 2**bits - 1)


def _float(random: Random) -> Value:
    text = random.choice(["nan", "inf", "-inf", "0.0", *(str(random.randint(-40, 40) / 4) for _ in range(8))])
    return f"'{text}'", float(text) if "n" not in text else text


def _decimal(digits: int) -> Callable[[Random], Value]:
    def draw(random: Random) -> Value:
        text = f"{random.randint(-(10**digits), 10**digits) / 100:.2f}"
        return text, text

    return draw


def _boolean(random: Random) -> Value:
    value = random.random() < 0.5
    return str(value).lower(), value


def _date(random: Random) -> Value:
    text = f"{random.choice([1969, 1970, 2023, 2024])}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"
    return f"'{text}'", text


def _clock(random: Random) -> str:
    return f"{random.randint(0, 23):02}:{random.randint(0, 59):02}:{random.randint(0, 59):02}"


def _time(random: Random) -> Value:
    text = _clock(random)
    return f"'{text}'", text


def _timestamp(suffix: str = "", zone: str = "") -> Callable[[Random], Value]:
    def draw(random: Random) -> Value:
        text = f"{_date(random)[1]} {_clock(random)}{random.choice(['', suffix])}{zone}"
        return f"'{text}'", text

    return draw


WORDS = ("", "a", "b", "bb", "it's", 'say "no"', "Zoë", "100%", "x" * 40, "[1]", "{a: 1}", "NULL", "nan", "\\x", "-1")


def _text(random: Random) -> Value:
    word = random.choice(WORDS)
    return "'" + word.replace("'", "''") + "'", word


def _blob(random: Random) -> Value:
    word = random.choice(["", "a", "\\x00", "\\xFFz", "ab"])
    return f"'{word}'", word


def _uuid(random: Random) -> Value:
    text = f"{random.choice(['0', '7', '8', 'f'])}{random.getrandbits(28):07x}-0000-4000-8000-{random.getrandbits(48):012x}"
    return f"'{text}'", text


def _json(random: Random) -> Value:
    text = random.choice(['{"a": 1}', "[1, 2]", "null", '"x"', "7"])
    return f"'{text}'", text


def _interval(random: Random) -> Value:
    text = random.choice(["3 days", "1 year 2 months", "04:05:06"])
    return f"'{text}'", text


def _list(random: Random) -> Value:
    items = [random.choice([None, random.randint(-9, 9)]) for _ in range(random.randint(0, 3))]
    return "[" + ", ".join("NULL" if item is None else str(item) for item in items) + "]", items


def _struct(random: Random) -> Value:
    number = random.choice([None, random.randint(-9, 9)])
    # Plain words: the stock client loses backslashes and quotes of its own inlined rows when text is nested.
    word = random.choice([None, "", "a", "bb", "Zoë", "two words"])
    text = "NULL" if word is None else f"'{word}'"
    return f"{{'a': {'NULL' if number is None else number}, 'b': {text}}}", {"a": number, "b": word}


def _map(random: Random) -> Value:
    keys = random.sample(["k", "l", "m"], random.randint(0, 2))
    entries = {key: random.choice([None, random.randint(-9, 9)]) for key in keys}
    inner = ", ".join(f"'{key}': {'NULL' if value is None else value}" for key, value in entries.items())
    return f"MAP {{{inner}}}", entries


def _deep(random: Random) -> Value:
    parts = [_struct(random) for _ in range(random.randint(0, 2))]
    return "[" + ", ".join(text for text, _ in parts) + "]", [value for _, value in parts]


_TIMES = ("identity", "year", "month", "day", "hour")
KINDS = {
    kind.name: kind
    for kind in (
        Kind("int8", "TINYINT", _signed(8), wider="int16", default="7"),
        Kind("int16", "SMALLINT", _signed(16), wider="int32", default="-7"),
        Kind("int32", "INTEGER", _signed(32), wider="int64", transforms=("identity", "bucket(3)"), default="70"),
        Kind("int64", "BIGINT", _signed(64), transforms=("identity", "bucket(4)"), default="700"),
        Kind("uint8", "UTINYINT", _unsigned(8), wider="uint16"),
        Kind("uint16", "USMALLINT", _unsigned(16), wider="uint32"),
        Kind("uint32", "UINTEGER", _unsigned(32), wider="uint64"),
        Kind("uint64", "UBIGINT", _unsigned(64)),
        Kind("float32", "FLOAT", _float, wider="float64", default="1.5"),
        Kind("float64", "DOUBLE", _float, default="-2.5"),
        Kind("decimal(9,2)", "DECIMAL(9,2)", _decimal(8), wider="decimal(18,2)", default="1.50"),
        Kind("decimal(18,2)", "DECIMAL(18,2)", _decimal(14)),
        Kind("boolean", "BOOLEAN", _boolean, default="true"),
        Kind("date", "DATE", _date, transforms=("identity", "year", "month", "day"), default="2024-02-29"),
        Kind("time", "TIME", _time),
        Kind("timestamp", "TIMESTAMP", _timestamp(".123456"), transforms=_TIMES, default="2024-02-29 01:02:03"),
        Kind("timestamp_ms", "TIMESTAMP_MS", _timestamp(".123"), by_duckdb_only=True),
        Kind("timestamp_s", "TIMESTAMP_S", _timestamp(), by_duckdb_only=True),
        Kind("timestamp_ns", "TIMESTAMP_NS", _timestamp(".123456789"), by_duckdb_only=True),
        Kind("timestamptz", "TIMESTAMPTZ", _timestamp(".5", "+00")),
        Kind("varchar", "VARCHAR", _text, transforms=("identity", "bucket(2)"), default="it's"),
        Kind("blob", "BLOB", _blob),
        Kind("uuid", "UUID", _uuid, by_duckdb_only=True),
        Kind("json", "JSON", _json, by_duckdb_only=True),
        Kind("interval", "INTERVAL", _interval, by_duckdb_only=True),
        Kind("list(int64)", "BIGINT[]", _list),
        Kind("struct(a int64, b varchar)", "STRUCT(a BIGINT, b VARCHAR)", _struct),
        Kind("map(varchar, int64)", "MAP(VARCHAR, BIGINT)", _map),
        Kind("list(struct(a int64, b varchar))", "STRUCT(a BIGINT, b VARCHAR)[]", _deep, in_rows=False),
    )
}


def draw(kind: Kind, random: Random, *, nullable: bool) -> Value:
    """A value, or now and then NULL."""
    if nullable and random.random() < 0.25:
        return f"(NULL)::{kind.sql}", None
    text, value = kind.draw(random)
    return f"({text})::{kind.sql}", value
