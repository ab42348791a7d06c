"""docs/spark.md tells the options that there are, and its recipes are run as they stand there."""

from __future__ import annotations

import re
from datetime import datetime
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import pytest
from page_blocks import run_page
from people import settings_given
from pyspark.sql import SparkSession

from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.spark.source.options import options_page
from commitlog.spark.table_handle import SparkTable

PAGE = Path(__file__).parent.parent.parent / "docs" / "spark.md"
_MOMENT = 'timestamp="2026-03-01 00:00:00"'
_STREAM = 'spark.readStream.format("commitlog")'


def test_page_then_has_every_option_as_the_code_tells_it() -> None:
    assert options_page() in PAGE.read_text(), "put what options_page() gives in the place of the table"


def test_page_when_it_says_which_changes_need_to_be_told_the_rows_then_these_do() -> None:
    wheres = {
        name: signature(getattr(SparkTable, name)).parameters["where"] for name in ("delete", "update", "overwrite")
    }
    need = [f"`{name}`" for name, where in wheres.items() if where.default is Parameter.empty]
    assert f"{' and '.join(need)} need it" in PAGE.read_text()


@pytest.mark.usefixtures("environment", "log")
def test_recipes_when_they_are_run_then_do_what_they_say(spark: SparkSession, settings: Settings) -> None:
    recipes = PAGE.read_text().split("\n## Recipes\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```python\n(.*?)```", recipes, re.DOTALL)
    # The table was there in March, and Spark's workers have the settings in their environment.
    told = {_MOMENT: "timestamp=datetime.now()", _STREAM: f"{_STREAM}.options(**options)"}
    for given, here in told.items():
        assert sum(given in each for each in blocks) == 1
        blocks = [each.replace(given, here) for each in blocks]
    options = settings_given(settings)
    rides = spark.sql("SELECT id, CAST(id % 6 AS INT) AS day, CAST(id AS DOUBLE) AS miles FROM range(12)")
    updates = spark.sql("SELECT * FROM VALUES (8L, 2, 80D), (50L, 5, 500D) AS updates(id, day, miles)")
    events = spark.readStream.format("rate").load().selectExpr("value AS id", "1 AS day", "0D AS miles")
    names: dict[str, Any] = {"datetime": datetime, "options": options, "spark": spark}
    names |= {"rides": rides, "updates": updates, "events": events}
    try:
        for block in blocks:
            exec(compile(block, PAGE.name, "exec"), names)
        miles = {row.id: row.miles for row in names["t"].read().collect()}
        assert spark.table("rides").count() == len(miles) == 11
    finally:
        if isinstance(connected := names.get("log"), CommitLog):
            connected.close()
    assert (miles[1], miles[7], miles[8], miles[50]) == (1.0, 7 * 1.6, 80.0, 500.0)
    assert {3, 9}.isdisjoint(miles)
    assert names["rides"].columns == ["id", "day", "miles"]


@pytest.mark.usefixtures("environment", "log")
def test_tutorial_when_it_is_followed_then_does_what_it_says(spark: SparkSession) -> None:
    names: dict[str, Any] = {}
    try:
        assert len(list(run_page("tutorial-spark.md", names, {}))) >= 8
        assert names["spark"] is spark
    finally:
        if isinstance(connected := names.get("log"), CommitLog):
            connected.close()
