"""No change makes the core or the projector slower unnoticed: their cost, in turns of a yardstick, against a baseline.

What is measured is printed (pytest -rP), and fails only when it is a quarter worse three times in a row. After a change that
makes something faster, or slower for a reason: `make baseline`, and say why.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from ratios import LOG_ID, core_ratios, projector_ratio

from commitlog import compiled
from commitlog.catalog.guard import mark_projector
from commitlog.catalog.migrations import create_catalog

BASELINE = Path(__file__).with_name("baseline.json")
WORSE_MAX = 1.25
ATTEMPTS = 3
WRITES_BASELINE = os.environ.get("COMMITLOG_TEST_BASELINE") == "write"

Ratios = dict[str, float]


def compare(baseline: Ratios, measure: Callable[[], Ratios], say: Callable[[str], None]) -> Ratios:
    """Measure until nothing is too much worse; the best of each figure, and what is still too much worse."""
    best: Ratios = {}
    for _ in range(ATTEMPTS):
        best = {name: min(value, best.get(name, value)) for name, value in measure().items()}
        if all(value <= baseline[name] * WORSE_MAX for name, value in best.items()):
            break
    for name, value in best.items():
        say(
            f"{name}: {value:.2f} turns of the yardstick, the baseline {baseline[name]:.2f}, {value / baseline[name]:.2f} x"
        )
    return {name: value for name, value in best.items() if value > baseline[name] * WORSE_MAX}


def _check(measure: Callable[[], Ratios]) -> None:
    known = json.loads(BASELINE.read_text(encoding="utf-8"))
    if WRITES_BASELINE:
        rounds = [measure() for _ in range(ATTEMPTS)]
        medians = {name: round(statistics.median(each[name] for each in rounds), 3) for name in rounds[0]}
        known[compiled.form] = {**known.get(compiled.form, {}), **medians}
        BASELINE.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        return
    assert compare(known[compiled.form], measure, print) == {}


def test_core_when_measured_beside_the_yardstick_then_no_slower_than_the_baseline() -> None:
    _check(core_ratios)


def test_projector_when_measured_beside_the_yardstick_then_no_slower_than_the_baseline(database_url: str) -> None:
    with psycopg.connect(database_url) as conn:
        mark_projector(conn)
        create_catalog(conn, log_id=LOG_ID, data_path="/lake/", created_at=datetime(2024, 1, 1, tzinfo=UTC))
        conn.commit()

        def measure() -> Ratios:
            with conn.transaction(force_rollback=True):
                return projector_ratio(conn)

        _check(measure)


@pytest.mark.parametrize(
    ("values", "worse"), [((13.0, 12.6, 12.4), {}), ((13.0, 12.6, 12.6), {"x": 12.6}), ((9.0,), {})]
)
def test_compare_when_worse_in_every_attempt_then_told_with_the_best(values: tuple[float, ...], worse: Ratios) -> None:
    measured, said = iter(values), list[str]()
    assert compare({"x": 10.0}, lambda: {"x": next(measured)}, said.append) == worse
    assert len(said) == 1
    assert list(measured) == []
