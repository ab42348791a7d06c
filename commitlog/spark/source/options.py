"""The options of `format("commitlog")`, read once: Spark gives them in lower case, and passes on what nobody knows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches

from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from commitlog.config import Settings, masked
from commitlog.errors import ConfigurationError

SETTINGS = frozenset({"profile", *Settings.__slots__})
"""What names a log among the options, beside what is passed through to Kafka's client."""
_OWN = {
    "table": "which table, `schema.table` or `table`; `load` and `save` take it too",
    "profile": "the settings of `[profile.NAME]` in `commitlog.toml` on the driver",
    "topic": "`results`, instead of a table: every outcome of the log as a row",
    "snapshot": "read: the snapshot of this id; without it, each query reads the newest at its start",
    "timestamp": "read: the newest snapshot at this moment (ISO 8601 with its time zone, such as `2026-03-01T00:00:00Z`)",
    "startingSnapshot": "stream from a table: an id (what was committed after it), `latest` (what comes from now on), `full` "
    "(the table as it is, then what comes), `earliest` (all that the log still knows); without it, all from the beginning",
    "maxFilesPerTrigger": "stream from a table: at most so many files in a batch; a batch is at least one whole snapshot",
    "maxRowsPerTrigger": "stream from a table: at most so many rows in a batch, likewise",
    "snapshotsPerTrigger": "stream from a table: at most so many snapshots in a batch",
    "changes": "stream from a table: `true` gives deleted rows too, with the columns `_change` and `_snapshot_id`",
    "startingOffset": "stream from `results`: a Kafka offset; without it, the first",
    "recordsPerTrigger": "stream from `results`: at most about so many outcomes in a batch",
    "key": "batch write: names it, such as `nightly:2026-03-02`, so that doing it again commits nothing",
    "createTable": "write: `true` creates the table for the rows' columns if there is none; each may be NULL",
    "partitionBy": "write that creates: the partition keys, such as `day, bucket(16, id)`",
    "mergeSchema": "batch write: `true` adds the columns that the table lacks",
    "ifExists": "batch write to a table that is there: `append`, `error` or `ignore`; Spark allows no Python source to use its "
    "own modes of these names",
    "onSchemaChange": "write whose table is altered meanwhile: `fail`, or `retry`, which goes on if the files fit: columns "
    "that were added have their default, or NULL",
}
"""Each with what it means, for `docs/spark.md`; beside them are the settings, and what begins with `kafka.`"""
_HERE = {
    "versionasof": "snapshot is that",
    "snapshot-id": "snapshot is that",
    "timestampasof": "timestamp is that",
    "as-of-timestamp": "timestamp is that",
    "replacewhere": "commitlog.spark.table(spark, name).overwrite(df, where=...) does that",
    "partitionoverwritemode": "commitlog.spark.table(spark, name).overwrite(df, partitions='dynamic') does that",
    "overwriteschema": "alter the table before, in a log.transaction()",
    "startingversion": "startingSnapshot is an id after which it begins",
    "startingtimestamp": "startingSnapshot is an id after which it begins, and the table's history() has their times",
    "readchangefeed": "changes is that",
    "readchangedata": "changes is that",
    "skipchangecommits": "a row that is changed comes once more, one that is deleted not at all; changes tells them apart",
    "ignorechanges": "a row that is changed comes once more, one that is deleted not at all; changes tells them apart",
    "ignoredeletes": "a row that is changed comes once more, one that is deleted not at all; changes tells them apart",
    "maxbytespertrigger": "maxFilesPerTrigger and maxRowsPerTrigger limit batches",
    "txnappid": "key names a write, such as load:7",
    "txnversion": "key names a write, such as load:7",
}
"""Options of other table formats, and what is there instead."""
_SPARKS = frozenset({"path", "checkpointlocation", "queryname"})
_IN_TABLE = "option."
"""What Spark puts before the options of a table that CREATE TABLE has made."""
_NOT_KEPT = (
    "what CREATE TABLE makes keeps its options only without a list of columns and without AS SELECT, and Spark gives them to "
    "no INSERT whose columns have the names and types of the table's: write INSERT INTO made WITH (profile = ..., "
    "`table` = ...) SELECT ..."
)
_OF_TABLE = frozenset(
    {"owner", "provider", "location", "comment", "external", "is_managed_location", "collation", "path"}
)
"""Spark's own properties of such a table, which come with its options."""
_KEPT = "commitlog.options"
_RAW_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
"""The key by which Spark keeps what a column's type was said to be. It takes that off the columns of a table when it makes an
INSERT's rows fit them: a column that still has it was read, from whichever table."""
_NESTED = (ArrayType, MapType, StructType)
_BETWEEN_KEYS = re.compile(r",(?![^(]*\))")
_KAFKA = "kafka."
"""What stands before an option of librdkafka, such as ``kafka.sasl.mechanism``."""
_KNOWN = {name.lower(): name for name in (*_OWN, *SETTINGS)}


class SourceOptions:
    """The options of one read or write.

    Raises:
        ConfigurationError: one is not known, the message names the nearest that is; or one of a table that CREATE TABLE makes
            is secret.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower().removeprefix(_IN_TABLE): value for name, value in given.items()}
        self.creates_table = "owner" in self._given
        ignored = _SPARKS | _OF_TABLE if self.creates_table else _SPARKS
        for name in given:
            folded = name.lower().removeprefix(_IN_TABLE)
            if folded not in _KNOWN and folded not in ignored and not folded.startswith(_KAFKA):
                raise ConfigurationError(f"format('commitlog') has no option {name}: {_hint(folded)}")
        if self.creates_table:
            self._refuse_secrets()

    def _refuse_secrets(self) -> None:
        secret = sorted(name for name, value in self._given.items() if masked(name, value) != value)
        if secret:
            raise ConfigurationError(
                f"CREATE TABLE keeps its options in Spark's catalog, and {' and '.join(secret)} has a password or a key: leave "
                "it out, and give the option profile, which names a part [profile.NAME] of commitlog.toml on the driver, or "
                "the option home (of `commitlog up`), or set COMMITLOG_... in the driver's environment"
            )

    def text(self, name: str) -> str | None:
        """An option's text; None when it is not given."""
        return self._given.get(name.lower())

    def required(self, name: str, example: str) -> str:
        """An option that must be given."""
        value = self.text(name)
        if not value:
            raise ConfigurationError(f"format('commitlog') needs the option {name}, such as {example}")
        return value

    def number(self, name: str) -> int | None:
        """An option that is a number; None when it is not given."""
        value = self.text(name)
        if value is not None and not value.isdigit():
            raise ConfigurationError(f"the option {name} is a number, not {value!r}")
        return None if value is None else int(value)

    def at_least_one(self, name: str) -> int | None:
        """An option that is a number, and not 0; None when it is not given."""
        value = self.number(name)
        if value == 0:
            raise ConfigurationError(f"the option {name} is 1 or more, or left out for no limit")
        return value

    def flag(self, name: str) -> bool:
        """An option that is true or false; false when it is not given."""
        value = (self.text(name) or "false").lower()
        if value not in ("true", "false"):
            raise ConfigurationError(f"the option {name} is true or false, not {value!r}")
        return value == "true"

    @property
    def table(self) -> str:
        """The table's name: the option `table`, or what `load` and `save` were given.

        Raises:
            ConfigurationError: there is none, or there are two.
        """
        named, path = self.text("table"), None if self.creates_table else self.text("path")
        if named and path and named != path:
            raise ConfigurationError(f"the table is named twice: by the option table {named}, and by the path {path}")
        return named or path or self.required("table", f"main.flights ({_NOT_KEPT})")

    @property
    def follows_results(self) -> bool:
        """Whether outcomes are read, instead of a table.

        Raises:
            ConfigurationError: the option topic is not `results`.
        """
        topic = self.text("topic")
        if topic not in (None, "results"):
            raise ConfigurationError(f"the option topic is results, or the option table is given; not {topic!r}")
        return topic is not None

    def choice(self, name: str, *words: str) -> str:
        """An option that is one of some words; the first one when it is not given."""
        value = (self.text(name) or words[0]).lower()
        if value not in words:
            raise ConfigurationError(f"the option {name} is one of {', '.join(words)}, not {value!r}")
        return value

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The keys of the option `partitionBy`, such as ``day, bucket(16, id)``."""
        return tuple(each.strip() for each in _BETWEEN_KEYS.split(self.text("partitionBy") or "") if each.strip())

    def kept_in(self, schema: StructType) -> StructType:
        """The schema of a table that CREATE TABLE makes, with the options: Spark gives them to no later query.

        Raises:
            ConfigurationError: all columns are nested.
        """
        known = {name: value for name, value in self._given.items() if name in _KNOWN or name.startswith(_KAFKA)}
        kept = json.dumps(known)
        fields = [_keeping(each, kept) for each in schema.fields]
        if fields == schema.fields:
            raise ConfigurationError(
                "CREATE TABLE cannot keep options where all columns are arrays, maps or structs: use CREATE TEMPORARY VIEW"
            )
        return StructType(fields)

    def with_kept(self, schema: StructType, *, is_written: bool = False) -> SourceOptions:
        """These options, with those that the schema of a table in Spark's catalog has kept; where it is written, those of the
        table that rows go to, not of the one that they may come from."""
        fields = [each for each in schema.fields if not (is_written and _RAW_TYPE in each.metadata)]
        kept = next((each.metadata[_KEPT] for each in fields if _KEPT in each.metadata), "{}")
        return SourceOptions({**json.loads(kept), **self._given})

    @property
    def is_pinned(self) -> bool:
        """Whether a snapshot or a moment is named, at which the table is read whenever it is."""
        return self.text("snapshot") is not None or self.text("timestamp") is not None

    @property
    def settings(self) -> dict[str, str]:
        """The settings of commitlog among them, and what is passed through to Kafka's client, as ``kafka.sasl.mechanism``."""
        return {name: value for name, value in self._given.items() if name in SETTINGS or name.startswith(_KAFKA)}


def _keeping(field: StructField, kept: str) -> StructField:
    """A column with the options and its type, as Spark would keep that. A nested one has neither: Spark may not be able to read
    the names in its type again, and without that nobody could tell that the column was read."""
    if isinstance(field.dataType, _NESTED):
        return field
    raw_type = field.dataType.simpleString()
    return StructField(field.name, field.dataType, field.nullable, {**field.metadata, _RAW_TYPE: raw_type, _KEPT: kept})


def _hint(name: str) -> str:
    if name in _HERE:
        return _HERE[name]
    near = get_close_matches(name, _KNOWN, n=1)
    return f"did you mean {_KNOWN[near[0]]}?" if near else "there are " + ", ".join(_OWN)


def options_page() -> str:
    """The table of the options, as `docs/spark.md` has it."""
    lines = ["| option | meaning |", "|---|---|", *(f"| `{name}` | {meaning} |" for name, meaning in _OWN.items())]
    return "\n".join(lines) + "\n"
