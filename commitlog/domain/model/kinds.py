"""The names of the log: kinds of changes, reads and conflicts, verdicts and reasons; and the plain values beneath them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple, TypeAlias

RULES_VERSION = 1
"""Version of the rules by which this code decides. A log that carries a newer one is refused."""

BIGINT_MIN, BIGINT_MAX = -(2**63), 2**63 - 1
TIME_US_MIN, TIME_US_MAX = -210_866_803_200_000_000, 9_224_318_015_999_999_999
"""The times that a PostgreSQL timestamp holds, in microseconds since 1970: 4713 BC to 294276 AD."""
MAIN_SCHEMA_ID = 0

ProposalId: TypeAlias = bytes
"""The 16 bytes of a UUID. ``json_form.format_id`` and ``parse_id`` turn it into text and back."""

Scalar: TypeAlias = bool | int | float | str | None
RowValue: TypeAlias = "Scalar | list[RowValue] | dict[str, RowValue]"
Row: TypeAlias = Mapping[str, RowValue]
"""A full row image, column name to value; values as JSON has them (dates, times, uuids and decimals as text)."""


class ChangeKind(StrEnum):
    """What a change does. The names are those of the log and of JSON and are never reused."""

    CREATE_SCHEMA = "CREATE_SCHEMA"
    DROP_SCHEMA = "DROP_SCHEMA"
    CREATE_TABLE = "CREATE_TABLE"
    DROP_TABLE = "DROP_TABLE"
    RENAME_TABLE = "RENAME_TABLE"
    ALTER_TABLE = "ALTER_TABLE"
    CREATE_VIEW = "CREATE_VIEW"
    REPLACE_VIEW = "REPLACE_VIEW"
    DROP_VIEW = "DROP_VIEW"
    APPEND = "APPEND"
    DELETE = "DELETE"
    COMPACT = "COMPACT"
    INSERT_ROW = "INSERT_ROW"
    UPDATE_ROW = "UPDATE_ROW"
    DELETE_ROW = "DELETE_ROW"
    FLUSH = "FLUSH"
    EXPIRE_SNAPSHOTS = "EXPIRE_SNAPSHOTS"
    CONFIGURE = "CONFIGURE"


class AlterOp(StrEnum):
    """One step of an ALTER_TABLE."""

    ADD_COLUMN = "ADD_COLUMN"
    DROP_COLUMN = "DROP_COLUMN"
    RENAME_COLUMN = "RENAME_COLUMN"
    SET_TYPE = "SET_TYPE"
    SET_NULLABLE = "SET_NULLABLE"
    SET_DEFAULT = "SET_DEFAULT"
    SET_PARTITION_BY = "SET_PARTITION_BY"
    SET_COMMENT = "SET_COMMENT"
    SET_PROPERTY = "SET_PROPERTY"


class Isolation(StrEnum):
    """SNAPSHOT checks only writes; SERIALIZABLE also that everything read is unchanged since the base."""

    SNAPSHOT = "SNAPSHOT"
    SERIALIZABLE = "SERIALIZABLE"


class Granularity(StrEnum):
    """How fine deletes and compactions of one table are told apart."""

    TABLE = "TABLE"
    FILE = "FILE"
    ROW = "ROW"


class ReadKind(StrEnum):
    """What an entry of a read set covers."""

    TABLE = "TABLE"
    NAME = "NAME"
    ROWS = "ROWS"


class FilterOp(StrEnum):
    """Comparison of a column with a literal in a read's filter."""

    EQ = "="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "in"
    BETWEEN = "between"
    IS_NULL = "is_null"
    IS_NOT_NULL = "is_not_null"


class Verdict(StrEnum):
    """The answer to a proposal."""

    COMMITTED = "COMMITTED"
    REJECTED = "REJECTED"
    DUPLICATE = "DUPLICATE"


class Reason(StrEnum):
    """Why a proposal was refused, in order of precedence: the first that applies is the answer (rules.md 2)."""

    MALFORMED = "MALFORMED"
    PROPOSAL_EXPIRED = "PROPOSAL_EXPIRED"
    WRITER_FENCED = "WRITER_FENCED"
    TOO_LATE = "TOO_LATE"
    BASE_UNKNOWN = "BASE_UNKNOWN"
    BASE_EXPIRED = "BASE_EXPIRED"
    INVALID = "INVALID"
    CONFLICT = "CONFLICT"
    INTERNAL = "INTERNAL"


class ConflictKind(StrEnum):
    """What the committed side did that the proposal cannot live with."""

    SCHEMA_CREATED = "SCHEMA_CREATED"
    SCHEMA_DROPPED = "SCHEMA_DROPPED"
    ENTRY_CREATED = "ENTRY_CREATED"
    TABLE_CREATED = "TABLE_CREATED"
    TABLE_DROPPED = "TABLE_DROPPED"
    TABLE_RENAMED = "TABLE_RENAMED"
    TABLE_ALTERED = "TABLE_ALTERED"
    TABLE_APPENDED = "TABLE_APPENDED"
    TABLE_DELETED_FROM = "TABLE_DELETED_FROM"
    TABLE_COMPACTED = "TABLE_COMPACTED"
    TABLE_ROWS_CHANGED = "TABLE_ROWS_CHANGED"
    TABLE_FLUSHED = "TABLE_FLUSHED"
    TABLE_REFERENCED = "TABLE_REFERENCED"
    VIEW_CREATED = "VIEW_CREATED"
    VIEW_DROPPED = "VIEW_DROPPED"
    VIEW_REPLACED = "VIEW_REPLACED"
    ROW_CHANGED = "ROW_CHANGED"
    INSERT_INSERT = "INSERT_INSERT"
    INSERT_UPDATE = "INSERT_UPDATE"
    UPDATE_UPDATE = "UPDATE_UPDATE"
    UPDATE_DELETE = "UPDATE_DELETE"
    UPDATE_KEY = "UPDATE_KEY"
    DELETE_DELETE = "DELETE_DELETE"
    MULTIPLE_UNIQUE = "MULTIPLE_UNIQUE"
    UNIQUE = "UNIQUE"
    FOREIGN_KEY = "FOREIGN_KEY"


class ResolutionAction(StrEnum):
    """What became of the proposed change to a row that met a committed one."""

    APPLIED = "APPLIED"
    SKIPPED = "SKIPPED"
    HANDLED = "HANDLED"


class Position(NamedTuple):
    """A place in a Kafka topic."""

    partition: int
    offset: int
