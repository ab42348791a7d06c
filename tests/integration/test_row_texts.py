"""Texts of row values that decide takes: PostgreSQL takes every one of them, or the projector could not go on."""

from __future__ import annotations

import random

import psycopg

from commitlog.catalog.projecting.row_values import rows_table_column, to_rows_table
from commitlog.domain.model.typed_values import canonical_value
from commitlog.domain.model.types import parse_type

UNITS = ("year", "years", "mon", "MONTHS", "week", "Weeks", "day", "days", "hour", "mins", "minute", "secs", "seconds",
    "milliseconds", "microsecond", "day\u017f", "fortnights")  # fmt: skip
NUMBERS = ("1", "-3", "+7", "178956970", "178956971", "306783378", "999999999", "-999999999", "\u0663", "1.5", "")
CLOCKS = ("04:05", "-04:05:06.789", "99999999:59:59", "1:60", "1:00:60", "\u0660\u0664:\u0660\u0665", "24:00")
ZONES = ("", "Z", "+01", "-15:59", "+15:60", "+1600", "+\u0660\u0661", "+01:30", " +01")
TAKEN_MIN = 300


def intervals(rng: random.Random) -> str:
    parts = [
        f"{rng.choice(NUMBERS)}{rng.choice((' ', ' ', ''))}{rng.choice(UNITS)}" for _ in range(rng.choice((0, 1, 2, 4)))
    ]
    return rng.choice(("", "", " ", "\u2003")) + " ".join(parts + [rng.choice(CLOCKS)] * (rng.random() < 0.4))


def zoned(rng: random.Random) -> str:
    return rng.choice(
        ("00:00", "12:30:45.123456", "23:59:59.999999999", "24:00:00", "\u0661\u0662:\u0660\u0660")
    ) + rng.choice(ZONES)


def test_every_text_of_an_interval_or_a_time_that_decide_takes_then_postgresql_takes_it(postgres: str) -> None:
    rng = random.Random(5)
    made = [("interval", intervals(rng)) for _ in range(3_000)] + [("timetz", zoned(rng)) for _ in range(300)]
    taken = 0
    with psycopg.connect(postgres, autocommit=True) as conn:
        for name, text in made:
            kind = parse_type(name)
            try:
                canonical_value(kind, text)
            except ValueError:
                continue
            taken += 1
            conn.execute(f"SELECT %s::{rows_table_column(kind)}", (to_rows_table(kind, text),))  # type: ignore[arg-type]
    assert taken >= TAKEN_MIN
