"""Options of `format("commitlog")` that there are not, and what is said of them."""

from __future__ import annotations

import pytest

from commitlog.errors import ConfigurationError
from commitlog.spark.source.options import _HERE, SourceOptions


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("versionAsOf", "has no option versionAsOf: snapshot is that"),
        ("timestampAsOf", "timestamp is that"),
        ("replaceWhere", r"overwrite\(df, where=...\) does that"),
        ("readChangeFeed", "changes is that"),
        ("snapshott", "did you mean snapshot?"),
        ("colour", "there are table, topic, snapshot"),
    ],
)
def test_options_when_one_is_of_another_format_or_misspelt_then_are_told_what_is_there_instead(
    name: str, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        SourceOptions({"table": "main.rides", name: "1"})


def test_options_of_other_formats_then_none_is_one_of_ours() -> None:
    for name in _HERE:
        with pytest.raises(ConfigurationError, match="has no option"):
            SourceOptions({name: "1"})
