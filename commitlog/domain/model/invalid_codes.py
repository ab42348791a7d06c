"""Why a change can never be: a code for programs beside the text for people, one for all that a program would treat alike.

The names are a promise, like the kinds of changes. ``MEANINGS`` is printed as a page of the manual (``commitlog manual``).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class InvalidCode(StrEnum):
    """What an INVALID proposal asked for that cannot be; ``MEANINGS`` says each in a sentence."""

    NOTHING_TO_COMMIT = "NOTHING_TO_COMMIT"
    CHANGE_NOT_ALONE = "CHANGE_NOT_ALONE"
    OPEN_WRITER_NOT_ALONE = "OPEN_WRITER_NOT_ALONE"
    EPOCH_NOT_GIVEN = "EPOCH_NOT_GIVEN"
    ID_FROM_FUTURE = "ID_FROM_FUTURE"
    PARTITION_WRONG = "PARTITION_WRONG"
    SNAPSHOT_BEYOND_HEAD = "SNAPSHOT_BEYOND_HEAD"

    TOO_MANY_CHANGES = "TOO_MANY_CHANGES"
    TOO_MANY_OBJECTS = "TOO_MANY_OBJECTS"
    TOO_MANY_ALTERED_COLUMNS = "TOO_MANY_ALTERED_COLUMNS"
    TOO_MANY_FILES = "TOO_MANY_FILES"
    TOO_MANY_POSITIONS = "TOO_MANY_POSITIONS"
    TOO_MANY_BUCKET_VALUES = "TOO_MANY_BUCKET_VALUES"
    TOO_MANY_READS = "TOO_MANY_READS"
    TOO_MANY_READ_KEYS = "TOO_MANY_READ_KEYS"
    TOO_MANY_KEYED_ROWS = "TOO_MANY_KEYED_ROWS"
    ROW_TOO_WIDE = "ROW_TOO_WIDE"
    TABLE_TOO_LARGE = "TABLE_TOO_LARGE"

    NUMBER_NEGATIVE = "NUMBER_NEGATIVE"
    TIME_OUT_OF_RANGE = "TIME_OUT_OF_RANGE"
    TEXT_UNSTORABLE = "TEXT_UNSTORABLE"
    NAME_EMPTY = "NAME_EMPTY"
    NAME_TOO_LONG = "NAME_TOO_LONG"
    VALUE_INVALID = "VALUE_INVALID"
    VALUE_TOO_NESTED = "VALUE_TOO_NESTED"

    SCHEMA_MISSING = "SCHEMA_MISSING"
    TABLE_MISSING = "TABLE_MISSING"
    VIEW_MISSING = "VIEW_MISSING"
    NOT_SEEN_AT_BASE = "NOT_SEEN_AT_BASE"
    NOT_A_TABLE = "NOT_A_TABLE"
    NOT_A_VIEW = "NOT_A_VIEW"
    SCHEMA_EXISTS = "SCHEMA_EXISTS"
    NAME_TAKEN = "NAME_TAKEN"
    DROPPED_IN_CHANGESET = "DROPPED_IN_CHANGESET"
    CREATED_IN_CHANGESET = "CREATED_IN_CHANGESET"
    MAIN_SCHEMA_STAYS = "MAIN_SCHEMA_STAYS"
    SCHEMA_NOT_EMPTY = "SCHEMA_NOT_EMPTY"
    TABLE_REFERENCED = "TABLE_REFERENCED"
    VIEW_SQL_INVALID = "VIEW_SQL_INVALID"

    COLUMN_UNKNOWN = "COLUMN_UNKNOWN"
    COLUMN_EXISTS = "COLUMN_EXISTS"
    COLUMN_IN_USE = "COLUMN_IN_USE"
    COLUMNS_MISSING = "COLUMNS_MISSING"
    TYPE_UNKNOWN = "TYPE_UNKNOWN"
    TYPE_NOT_WIDENED = "TYPE_NOT_WIDENED"
    DEFAULT_INVALID = "DEFAULT_INVALID"
    KEY_INVALID = "KEY_INVALID"
    PRIMARY_KEY_MISSING = "PRIMARY_KEY_MISSING"
    FOREIGN_KEY_INVALID = "FOREIGN_KEY_INVALID"
    EXCLUSION_UNSUPPORTED = "EXCLUSION_UNSUPPORTED"
    PARTITION_KEY_INVALID = "PARTITION_KEY_INVALID"
    PROPERTY_UNKNOWN = "PROPERTY_UNKNOWN"
    PROPERTY_VALUE_INVALID = "PROPERTY_VALUE_INVALID"
    POLICY_UNKNOWN = "POLICY_UNKNOWN"
    HANDLER_MISSING = "HANDLER_MISSING"
    SETTING_UNKNOWN = "SETTING_UNKNOWN"
    SETTING_VALUE_INVALID = "SETTING_VALUE_INVALID"

    TABLE_KEYED = "TABLE_KEYED"
    FILE_UNKNOWN = "FILE_UNKNOWN"
    FILE_NAMED_TWICE = "FILE_NAMED_TWICE"
    PATH_INVALID = "PATH_INVALID"
    PATH_OUTSIDE_TABLE = "PATH_OUTSIDE_TABLE"
    PATH_GIVEN_TWICE = "PATH_GIVEN_TWICE"
    PARTITION_VALUES_INVALID = "PARTITION_VALUES_INVALID"
    POSITION_INVALID = "POSITION_INVALID"
    POSITION_DELETED = "POSITION_DELETED"
    DELETE_FILE_INVALID = "DELETE_FILE_INVALID"
    ROW_COUNT_DIFFERS = "ROW_COUNT_DIFFERS"

    ROWS_NOT_INLINABLE = "ROWS_NOT_INLINABLE"
    COLUMN_GIVEN_TWICE = "COLUMN_GIVEN_TWICE"
    NULL_NOT_ALLOWED = "NULL_NOT_ALLOWED"
    KEY_INCOMPLETE = "KEY_INCOMPLETE"
    ROW_CHANGED_TWICE = "ROW_CHANGED_TWICE"
    ROW_EXISTS = "ROW_EXISTS"
    ROW_MISSING = "ROW_MISSING"
    PARENT_MISSING = "PARENT_MISSING"
    ROW_REFERENCED = "ROW_REFERENCED"
    ROW_NOT_INLINED = "ROW_NOT_INLINED"
    ROW_FLUSHED_TWICE = "ROW_FLUSHED_TWICE"
    ORIGIN_INVALID = "ORIGIN_INVALID"
    NODE_UNNAMED = "NODE_UNNAMED"
    NODE_FIXED = "NODE_FIXED"
    DIGEST_INVALID = "DIGEST_INVALID"
    DIGEST_AHEAD = "DIGEST_AHEAD"


_C = InvalidCode
MEANINGS: Mapping[str, Mapping[InvalidCode, str]] = {
    "The proposal": {
        _C.NOTHING_TO_COMMIT: "The changeset, or a change of it, is empty: no changes, files, rows, alterations, settings.",
        _C.CHANGE_NOT_ALONE: "COMPACT, FLUSH, EXPIRE_SNAPSHOTS or CONFIGURE beside another kind of change: propose them apart.",
        _C.OPEN_WRITER_NOT_ALONE: "A proposal with open_writer asks for an epoch and takes neither changes nor a writer_seq.",
        _C.EPOCH_NOT_GIVEN: "The log never gave this writer that epoch: ask for one with open_writer.",
        _C.ID_FROM_FUTURE: "The id's time is later than the sequencer's by more than clock_skew_ms_max: set the clock right.",
        _C.PARTITION_WRONG: "The proposal came in another partition than its writer_id's.",
        _C.SNAPSHOT_BEYOND_HEAD: "EXPIRE_SNAPSHOTS names a snapshot that is not there yet.",
    },
    "Limits of the log": {
        _C.TOO_MANY_CHANGES: "More changes than changes_max: split the changeset.",
        _C.TOO_MANY_OBJECTS: "More schemas, tables and views than changeset_objects_max: split the changeset.",
        _C.TOO_MANY_ALTERED_COLUMNS: "Its ALTER_TABLEs look at too many columns: put what becomes of a table into one of them.",
        _C.TOO_MANY_FILES: "More files than files_max: split the changeset.",
        _C.TOO_MANY_POSITIONS: "More positions than inlined_positions_max or changeset_positions_max: use delete files.",
        _C.TOO_MANY_BUCKET_VALUES: "Files of unknown bucket take more values than changeset_bucket_values_max.",
        _C.TOO_MANY_READS: "More reads than reads_max.",
        _C.TOO_MANY_READ_KEYS: "A ROWS read has more keys than read_keys_max.",
        _C.TOO_MANY_KEYED_ROWS: "The log would hold more rows of keyed tables than keyed_rows_max.",
        _C.ROW_TOO_WIDE: "A row outside of files would be wider than inlined_row_bytes_max.",
        _C.TABLE_TOO_LARGE: "The table would have more rows or bytes than a 64-bit number can count.",
    },
    "Numbers, text, values": {
        _C.NUMBER_NEGATIVE: "An id, a count or a size is negative.",
        _C.TIME_OUT_OF_RANGE: "PostgreSQL cannot hold the time.",
        _C.TEXT_UNSTORABLE: "A text holds U+0000, a lone surrogate or another character that no text of a log may hold.",
        _C.NAME_EMPTY: "A name is empty.",
        _C.NAME_TOO_LONG: "A name is longer than name_length_max.",
        _C.VALUE_INVALID: "A value is none of its column's type, or one that PostgreSQL or a stock reader cannot hold.",
        _C.VALUE_TOO_NESTED: "A value is nested too deep.",
    },
    "Names": {
        _C.SCHEMA_MISSING: "There is no such schema at the base.",
        _C.TABLE_MISSING: "There is no such table at the base.",
        _C.VIEW_MISSING: "There is no such view at the base.",
        _C.NOT_SEEN_AT_BASE: "What is named was created after the base: propose from a newer one.",
        _C.NOT_A_TABLE: "The name is a view's.",
        _C.NOT_A_VIEW: "The name is a table's.",
        _C.SCHEMA_EXISTS: "A schema of that name is there already, or was at the base.",
        _C.NAME_TAKEN: "A table or view of that name is there already, or was at the base.",
        _C.DROPPED_IN_CHANGESET: "An earlier change of the changeset dropped it or renamed it away.",
        _C.CREATED_IN_CHANGESET: "The changeset creates what it drops, renames or alters.",
        _C.MAIN_SCHEMA_STAYS: "The schema main cannot be dropped.",
        _C.SCHEMA_NOT_EMPTY: "The schema has entries: drop it with cascade, or them before.",
        _C.TABLE_REFERENCED: "A foreign key of another table refers to the table.",
        _C.VIEW_SQL_INVALID: "The view's SQL is missing, or no query that DuckDB can read.",
    },
    "Definitions": {
        _C.COLUMN_UNKNOWN: "The table has no such column.",
        _C.COLUMN_EXISTS: "The table has a column of that name already.",
        _C.COLUMN_IN_USE: "The column is one of a key or partition: it is not dropped, renamed or made nullable.",
        _C.COLUMNS_MISSING: "A table needs at least one column.",
        _C.TYPE_UNKNOWN: "No such type.",
        _C.TYPE_NOT_WIDENED: "The new type is no widening of the old one.",
        _C.DEFAULT_INVALID: "The default is no value of its column's type, one of a nested type, or the text NULL.",
        _C.KEY_INVALID: "A key or constraint has no columns, one of them twice, or one whose values have no exact equality.",
        _C.PRIMARY_KEY_MISSING: "What is asked for takes a primary key, and the table has none.",
        _C.FOREIGN_KEY_INVALID: "A foreign key does not fit the columns that it refers to.",
        _C.EXCLUSION_UNSUPPORTED: "Exclusion constraints are not supported.",
        _C.PARTITION_KEY_INVALID: "A partition key is given twice, or its transform is unknown or does not fit its column.",
        _C.PROPERTY_UNKNOWN: "No such table property.",
        _C.PROPERTY_VALUE_INVALID: "The table property does not take that value.",
        _C.POLICY_UNKNOWN: "on_conflict does not take that value.",
        _C.HANDLER_MISSING: "The row handler is not installed where the log is decided.",
        _C.SETTING_UNKNOWN: "No such setting of the log.",
        _C.SETTING_VALUE_INVALID: "The setting does not take that value.",
    },
    "Files": {
        _C.TABLE_KEYED: "A keyed table takes row changes and FLUSH, and no APPEND, DELETE or COMPACT.",
        _C.FILE_UNKNOWN: "The table does not hold a data file of that id.",
        _C.FILE_NAMED_TWICE: "The changeset names a data file twice.",
        _C.PATH_INVALID: "A path is empty or not in normal form: relative, no scheme, no empty, . or .. part.",
        _C.PATH_OUTSIDE_TABLE: "A path may lie outside of its table's folder, and the table lacks the property foreign_paths.",
        _C.PATH_GIVEN_TWICE: "The changeset gives a path twice.",
        _C.PARTITION_VALUES_INVALID: "A file's partition values do not fit the table's partition keys.",
        _C.POSITION_INVALID: "Positions in a data file are negative, given twice or beyond its end.",
        _C.POSITION_DELETED: "A position of a data file was deleted before.",
        _C.DELETE_FILE_INVALID: "A delete file lacks positions of the one before it, repeats inlined ones, or adds none.",
        _C.ROW_COUNT_DIFFERS: "The new files hold another number of rows than what they replace, or than they give ids for.",
    },
    "Rows": {
        _C.ROWS_NOT_INLINABLE: "PostgreSQL cannot hold rows of the table outside of files.",
        _C.COLUMN_GIVEN_TWICE: "A row, or the name mapping of a file, gives one column twice.",
        _C.NULL_NOT_ALLOWED: "NULL in a column that takes none.",
        _C.KEY_INCOMPLETE: "A key is not exactly the table's key columns.",
        _C.ROW_CHANGED_TWICE: "The changeset changes a key twice.",
        _C.ROW_EXISTS: "A row with this key or UNIQUE value is there already.",
        _C.ROW_MISSING: "There is no row with this key.",
        _C.PARENT_MISSING: "There is no row that the foreign key refers to.",
        _C.ROW_REFERENCED: "Another row still refers to the row.",
        _C.ROW_NOT_INLINED: "FLUSH names a row that does not lie outside of files.",
        _C.ROW_FLUSHED_TWICE: "FLUSH names a row twice.",
        _C.ORIGIN_INVALID: "The origin of a replicated change has no node, a negative tick or priority, or another than its "
        "proposal.",
        _C.NODE_UNNAMED: "A link brings a change, and the log has no node name.",
        _C.NODE_FIXED: "A log that is a node is to be another one, or to have another priority.",
        _C.DIGEST_INVALID: "The digest of a replicated proposal leaves its node out, names one twice, or has wrong numbers.",
        _C.DIGEST_AHEAD: "A replicated change was made with knowledge of snapshots that the log has not.",
    },
}
"""Each code in a sentence that says what to do where that is not plain, by headings of the manual's page."""
