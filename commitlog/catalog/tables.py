"""The tables of the catalog: DuckLake 1.0 to the letter, and our own in schema ``commitlog``.

Stock clients insert positionally, so the order of the columns is part of the contract. DuckLake's tables carry no schema
name: the connection's search path says where they are. Source: the DDL that the client itself creates (DuckLake 1.0).
"""

from __future__ import annotations

from typing import Any, LiteralString

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from commitlog.catalog.connecting import OWN_SCHEMA as OWN_SCHEMA
from commitlog.catalog.taken_over import DIGEST

DUCKLAKE = MetaData()
OWN = MetaData(schema=OWN_SCHEMA)

_TIME = DateTime(timezone=True)
_TYPES: dict[str, Any] = {"i": BigInteger(), "s": String(), "b": Boolean(), "t": _TIME, "u": Uuid()}

DUCKLAKE_COLUMNS: dict[str, str] = {
    "column": "column_id:i begin_snapshot:i end_snapshot:i table_id:i column_order:i column_name:s column_type:s "
    "initial_default:s default_value:s nulls_allowed:b parent_column:i default_value_type:s default_value_dialect:s",
    "column_mapping": "mapping_id:i table_id:i type:s",
    "column_tag": "table_id:i column_id:i begin_snapshot:i end_snapshot:i key:s value:s",
    "data_file": "data_file_id:i! table_id:i begin_snapshot:i end_snapshot:i file_order:i path:s path_is_relative:b "
    "file_format:s record_count:i file_size_bytes:i footer_size:i row_id_start:i partition_id:i encryption_key:s "
    "mapping_id:i partial_max:i",
    "delete_file": "delete_file_id:i! table_id:i begin_snapshot:i end_snapshot:i data_file_id:i path:s path_is_relative:b "
    "format:s delete_count:i file_size_bytes:i footer_size:i encryption_key:s partial_max:i",
    "file_column_stats": "data_file_id:i table_id:i column_id:i column_size_bytes:i value_count:i null_count:i min_value:s "
    "max_value:s contains_nan:b extra_stats:s",
    "file_partition_value": "data_file_id:i table_id:i partition_key_index:i partition_value:s",
    "file_variant_stats": "data_file_id:i table_id:i column_id:i variant_path:s shredded_type:s column_size_bytes:i "
    "value_count:i null_count:i min_value:s max_value:s contains_nan:b extra_stats:s",
    "files_scheduled_for_deletion": "data_file_id:i path:s path_is_relative:b schedule_start:t",
    "inlined_data_tables": "table_id:i table_name:s schema_version:i",
    "macro": "schema_id:i macro_id:i macro_name:s begin_snapshot:i end_snapshot:i",
    "macro_impl": "macro_id:i impl_id:i dialect:s sql:s type:s",
    "macro_parameters": "macro_id:i impl_id:i column_id:i parameter_name:s parameter_type:s default_value:s "
    "default_value_type:s",
    "metadata": "key:s+ value:s+ scope:s scope_id:i",
    "name_mapping": "mapping_id:i column_id:i source_name:s target_field_id:i parent_column:i is_partition:b",
    "partition_column": "partition_id:i table_id:i partition_key_index:i column_id:i transform:s",
    "partition_info": "partition_id:i table_id:i begin_snapshot:i end_snapshot:i",
    "schema": "schema_id:i! schema_uuid:u begin_snapshot:i end_snapshot:i schema_name:s path:s path_is_relative:b",
    "schema_versions": "begin_snapshot:i schema_version:i table_id:i",
    "snapshot": "snapshot_id:i! snapshot_time:t schema_version:i next_catalog_id:i next_file_id:i",
    "snapshot_changes": "snapshot_id:i! changes_made:s author:s commit_message:s commit_extra_info:s",
    "sort_expression": "sort_id:i table_id:i sort_key_index:i expression:s dialect:s sort_direction:s null_order:s",
    "sort_info": "sort_id:i table_id:i begin_snapshot:i end_snapshot:i",
    "table": "table_id:i table_uuid:u begin_snapshot:i end_snapshot:i schema_id:i table_name:s path:s path_is_relative:b",
    "table_column_stats": "table_id:i column_id:i contains_null:b contains_nan:b min_value:s max_value:s extra_stats:s",
    "table_stats": "table_id:i record_count:i next_row_id:i file_size_bytes:i",
    "tag": "object_id:i begin_snapshot:i end_snapshot:i key:s value:s",
    "view": "view_id:i view_uuid:u begin_snapshot:i end_snapshot:i schema_id:i view_name:s dialect:s sql:s column_aliases:s",
}
"""Column name and type of every DuckLake table; ``!`` marks the primary key, ``+`` a column that is not null."""


def _define(name: str, text: str) -> Table:
    columns: list[Column[Any]] = []
    for item in text.split():
        column, code = item.split(":")
        columns.append(
            Column(column, _TYPES[code[0]], primary_key="!" in code, nullable=not code[1:], autoincrement=False)
        )
    return Table(f"ducklake_{name}", DUCKLAKE, *columns)


TABLES = {name: _define(name, text) for name, text in DUCKLAKE_COLUMNS.items()}

Index("ducklake_data_file_by_table", TABLES["data_file"].c.table_id, TABLES["data_file"].c.begin_snapshot)
Index("ducklake_data_file_by_end", TABLES["data_file"].c.table_id, TABLES["data_file"].c.end_snapshot)
Index("ducklake_delete_file_by_file", TABLES["delete_file"].c.data_file_id)
Index("ducklake_delete_file_by_table", TABLES["delete_file"].c.table_id)
Index("ducklake_file_column_stats_by_file", TABLES["file_column_stats"].c.data_file_id)
Index("ducklake_file_partition_value_by_file", TABLES["file_partition_value"].c.data_file_id)
Index("ducklake_column_by_table", TABLES["column"].c.table_id)
Index("ducklake_column_tag_by_table", TABLES["column_tag"].c.table_id)
Index("ducklake_inlined_data_tables_by_table", TABLES["inlined_data_tables"].c.table_id)
Index("ducklake_name_mapping_by_mapping", TABLES["name_mapping"].c.mapping_id)
Index("ducklake_partition_column_by_table", TABLES["partition_column"].c.table_id)
Index("ducklake_partition_info_by_table", TABLES["partition_info"].c.table_id)
Index("ducklake_schema_versions_by_table", TABLES["schema_versions"].c.table_id)
Index("ducklake_table_by_id", TABLES["table"].c.table_id)
Index("ducklake_table_by_name", func.lower(TABLES["table"].c.table_name))
Index("ducklake_table_stats_by_table", TABLES["table_stats"].c.table_id, unique=True)
Index("ducklake_tag_by_object", TABLES["tag"].c.object_id)
Index("ducklake_view_by_id", TABLES["view"].c.view_id)
Index(
    "ducklake_table_column_stats_by_column",
    TABLES["table_column_stats"].c.table_id,
    TABLES["table_column_stats"].c.column_id,
    unique=True,
)

_BY_KEY: LiteralString = "verdict = 'COMMITTED' AND writer_seq IS NOT NULL"

applied = Table(
    "applied",
    OWN,
    Column("only_row", SmallInteger, primary_key=True, autoincrement=False),
    Column("log_id", Uuid, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("results_offset", BigInteger, nullable=False),
    Column("applied_at", _TIME, nullable=False),
    Column("next_offset", BigInteger, nullable=False),
)
"""How far the results topic is applied: one row, written in the SQL transaction of the outcomes themselves.

``results_offset`` is the last outcome's; before ``next_offset`` everything was read, also records that are no outcomes, so
that a reader who has asked for the log's end can tell whether the catalog is there.
"""

mileposts = Table(
    "mileposts",
    OWN,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("results_offset", BigInteger, nullable=False),
    Column("head_snapshot_id", BigInteger, nullable=False),
)
"""Accepted outcomes at which reading the results may begin, one in a thousand and the genesis: a record alone does not say
that it was accepted."""

outcomes = Table(
    "outcomes",
    OWN,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("proposal_id", Uuid),
    Column("writer_id", Text),
    Column("writer_epoch", BigInteger),
    Column("writer_seq", BigInteger),
    Column("base_snapshot_id", BigInteger),
    Column("isolation", Text),
    Column("change_kinds", Text),
    Column("verdict", Text, nullable=False),
    Column("snapshot_id", BigInteger),
    Column("head_snapshot_id", BigInteger, nullable=False),
    Column("reason", Text),
    Column("detail", Text),
    Column("conflict_count", Integer, nullable=False),
    Column("conflicts", JSONB),
    Column("resolutions", JSONB),
    Column("original_seq", BigInteger),
    Column("decided_at", _TIME, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("source_partition", Integer, nullable=False),
    Column("source_offset", BigInteger, nullable=False),
    Index("outcomes_by_proposal", "proposal_id"),
    Index("outcomes_by_snapshot", "snapshot_id"),
    # A writer's name has a bound only where it has committed.
    Index("outcomes_by_key", "writer_id", "writer_seq", postgresql_where=text(_BY_KEY)),
)
"""Every verdict, for good, with its reason and conflicts."""

refused_tables = Table(
    "refused_tables",
    OWN,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("schema_name", Text, primary_key=True),
    Column("table_name", Text, primary_key=True),
)
"""Which tables and views a proposal named that was refused without a conflict, by the ``seq`` of its outcome."""

own_node = Table(
    "own_node",
    OWN,
    Column("only_row", SmallInteger, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("priority", BigInteger, nullable=False),
)
"""What the log is among several sites: one row, or none."""

taken_over = Table(
    "taken_over",
    OWN,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("node", Text, primary_key=True),
    Column("tick", BigInteger, nullable=False),
    Column("priority", BigInteger, nullable=False),
    Index("taken_over_by_tick", "node", "tick"),
)
"""Which snapshots of other nodes came by which outcome, also a second time: before any outcome, the highest ``tick`` of a
node is what the log has of it."""

table_definitions = Table(
    "table_definitions",
    OWN,
    Column("table_id", BigInteger, primary_key=True, autoincrement=False),
    Column("definition", JSONB, nullable=False),
)
"""What DuckLake has no place for: keys, properties, the next column id, as of the last snapshot."""

earlier_properties = Table(
    "earlier_properties",
    OWN,
    Column("table_id", BigInteger, primary_key=True, autoincrement=False),
    Column("end_snapshot", BigInteger, primary_key=True, autoincrement=False),
    Column("properties", JSONB, nullable=False),
)
"""Which properties a table had before a snapshot that changed them."""

flushed_rows = Table(
    "flushed_rows",
    OWN,
    Column("table_id", BigInteger, primary_key=True, autoincrement=False),
    Column("row_id", BigInteger, primary_key=True, autoincrement=False),
    Column("data_file_id", BigInteger, nullable=False),
    Column("position", BigInteger, nullable=False),
)
"""Where a keyed row stands that FLUSH moved into a file, so that a later change can delete it there by position."""

log_settings = Table(
    "log_settings",
    OWN,
    Column("only_row", SmallInteger, primary_key=True, autoincrement=False),
    Column("settings", JSONB, nullable=False),
)
"""The log's settings by name, as the last CONFIGURE has left them. One row."""

catalog_version = Table(
    "catalog_version",
    OWN,
    Column("only_row", SmallInteger, primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
    Column("prepared", Integer, nullable=False),
)
"""The migrations done: ``version`` wholly, those up to ``prepared`` as far as an older service may still run."""

READERS_INDEXES = frozenset(
    {
        "ducklake_data_file_by_end",
        "ducklake_file_column_stats_by_file",
        "ducklake_name_mapping_by_mapping",
        "ducklake_partition_column_by_table",
        "ducklake_schema_versions_by_table",
        "ducklake_table_by_name",
        "outcomes_by_key",
        "outcomes_by_proposal",
        "outcomes_by_snapshot",
    }
)
"""What is looked up by readers alone, not for a change that is projected: a catalog that nobody reads yet does without."""

ROWS_OUTSIDE_FILES: LiteralString = """
    CREATE OR REPLACE FUNCTION commitlog.rows_outside_files(catalog oid, wanted bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE AS $$
    DECLARE
        place text := (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = catalog);
        deletes text := format('%I.%I', place, 'ducklake_inlined_delete_' || wanted);
        rows_table text;
        found bigint;
        total bigint := 0;
    BEGIN
        FOR rows_table IN EXECUTE
            format('SELECT table_name FROM %I.ducklake_inlined_data_tables WHERE table_id = $1', place) USING wanted
        LOOP
            BEGIN
                EXECUTE format('SELECT count(*) FROM %I.%I WHERE end_snapshot IS NULL', place, rows_table) INTO found;
                RAISE EXCEPTION USING ERRCODE = 'UNDO0';
            EXCEPTION WHEN SQLSTATE 'UNDO0' THEN
                total := total + found;
            END;
        END LOOP;
        IF to_regclass(deletes) IS NOT NULL THEN
            BEGIN
                EXECUTE format('SELECT count(*) FROM %s d JOIN %I.ducklake_data_file f ON f.data_file_id = d.file_id '
                               'WHERE f.end_snapshot IS NULL', deletes, place) INTO found;
                RAISE EXCEPTION USING ERRCODE = 'UNDO0';
            EXCEPTION WHEN SQLSTATE 'UNDO0' THEN
                total := total - found;
            END;
        END IF;
        RETURN total;
    END $$"""
"""How many rows more a table has than its files say: its inlined rows, less the inlined deletes of its live files.

It finds the tables beside the one that ``catalog`` is the oid of, so it serves a catalog in any schema. There can be more of
them than PostgreSQL has locks: what is undone gives its locks back.
"""

VIEWS: dict[str, LiteralString] = {
    "commits": """
        SELECT s.snapshot_id, s.snapshot_time, o.proposal_id, o.writer_id, o.seq, o.change_kinds, c.changes_made,
               c.author, c.commit_message AS message, c.commit_extra_info AS extra
        FROM ducklake_snapshot s
        LEFT JOIN ducklake_snapshot_changes c USING (snapshot_id)
        LEFT JOIN {own}.outcomes o USING (snapshot_id)""",
    "conflict_history": """
        SELECT o.decided_at, o.seq, o.proposal_id, o.writer_id, x.entry ->> 'kind' AS kind,
               x.entry -> 'object' ->> 'schema' AS schema_name, x.entry -> 'object' ->> 'table' AS table_name,
               x.entry -> 'object' ->> 'row_key' AS row_key, (x.entry -> 'object' ->> 'data_file_id')::bigint AS data_file_id,
               coalesce(x.entry ->> 'action', 'REFUSED') AS resolution, x.entry ->> 'policy' AS policy,
               x.entry -> 'committed_row' AS committed_row, x.entry -> 'proposed_row' AS proposed_row, x.entry -> 'row' AS row,
               (x.entry ->> 'committed_snapshot_id')::bigint AS committed_snapshot_id,
               x.entry ->> 'committed_proposal_id' AS committed_proposal_id,
               x.entry ->> 'committed_writer_id' AS committed_writer_id
        FROM {own}.outcomes o
        CROSS JOIN LATERAL jsonb_array_elements(coalesce(o.conflicts, '[]') || coalesce(o.resolutions, '[]')) AS x(entry)""",
    "divergent_rows": """
        SELECT last.decided_at AS held_since, last.seq, last.kind, last.schema_name, last.table_name, last.row_key,
               last.proposed_row AS row, last.committed_row AS met_row
        FROM (
            SELECT DISTINCT ON (x.entry -> 'object' -> 'table_id', x.entry -> 'object' -> 'row_key')
                   o.decided_at, o.seq, x.entry ->> 'kind' AS kind, x.entry ->> 'action' AS action,
                   (x.entry -> 'object' ->> 'table_id')::bigint AS table_id, x.entry -> 'object' ->> 'schema' AS schema_name,
                   x.entry -> 'object' ->> 'table' AS table_name, x.entry -> 'object' ->> 'row_key' AS row_key,
                   x.entry -> 'committed_row' AS committed_row, x.entry -> 'proposed_row' AS proposed_row
            FROM {own}.outcomes o CROSS JOIN LATERAL jsonb_array_elements(o.resolutions) AS x(entry)
            WHERE x.entry ->> 'action' IN ('HELD', 'RELEASED')
            ORDER BY x.entry -> 'object' -> 'table_id', x.entry -> 'object' -> 'row_key', o.seq DESC) AS last
        JOIN ducklake_table t ON t.table_id = last.table_id AND t.end_snapshot IS NULL
        WHERE last.action = 'HELD'""",
    "sites": """
        SELECT name AS node, priority, true AS is_here, NULL::bigint AS next_tick FROM {own}.own_node
        UNION ALL
        SELECT node, priority, false, next_tick FROM ("""
    + DIGEST.replace("{before}", "9223372036854775807")
    + """) AS others""",
    "writers": """
        SELECT writer_id, count(*) FILTER (WHERE verdict = 'COMMITTED') AS committed,
               count(*) FILTER (WHERE verdict = 'REJECTED') AS rejected,
               count(*) FILTER (WHERE verdict = 'DUPLICATE') AS duplicates,
               max(writer_epoch) AS writer_epoch, max(decided_at) AS last_decided_at, max(snapshot_id) AS last_snapshot_id
        FROM {own}.outcomes WHERE writer_id IS NOT NULL GROUP BY writer_id""",
    "tables": """
        SELECT t.table_id, s.schema_name, t.table_name,
               coalesce(f.record_count, 0) + commitlog.rows_outside_files(t.tableoid, t.table_id) AS record_count,
               coalesce(f.data_file_count, 0) AS data_file_count, coalesce(f.file_size_bytes, 0) AS file_size_bytes,
               d.definition -> 'primary_key' AS primary_key, d.definition -> 'properties' AS properties
        FROM ducklake_table t
        JOIN ducklake_schema s ON s.schema_id = t.schema_id AND s.end_snapshot IS NULL
        LEFT JOIN {own}.table_definitions d ON d.table_id = t.table_id
        LEFT JOIN LATERAL (
            SELECT sum(f.record_count - coalesce(x.delete_count, 0))::bigint AS record_count, count(*) AS data_file_count,
                   sum(f.file_size_bytes)::bigint AS file_size_bytes
            FROM ducklake_data_file f
            LEFT JOIN ducklake_delete_file x ON x.data_file_id = f.data_file_id AND x.end_snapshot IS NULL
            WHERE f.table_id = t.table_id AND f.end_snapshot IS NULL) f ON true
        WHERE t.end_snapshot IS NULL""",
    "lag": """
        SELECT a.seq AS applied_seq, a.results_offset, a.applied_at, (SELECT max(snapshot_id) FROM ducklake_snapshot) AS
               head_snapshot_id, now() - a.applied_at AS since FROM {own}.applied a""",
}
"""Our own views, stable for users: who committed what, every conflict and resolution, writers, tables, how far it is.

``{own}`` stands for the schema of our own tables.
"""
