"""The SQL of what readers ask the catalog, a name each; `queries` says what is asked."""

from __future__ import annotations

from psycopg import sql

APPLIED = sql.SQL("SELECT log_id, seq, epoch, hash, results_offset, next_offset FROM commitlog.applied")
_MILEPOSTS = (
    "SELECT a.log_id, m.seq, m.epoch, m.hash, m.results_offset FROM commitlog.mileposts m, commitlog.applied a "
)
MILEPOST_BEFORE = sql.SQL(
    _MILEPOSTS
    + """WHERE m.seq < coalesce(%s, 9223372036854775807) AND m.head_snapshot_id < coalesce(%s, 9223372036854775807)
    AND m.results_offset < coalesce(%s, 9223372036854775807) ORDER BY m.seq DESC LIMIT 1"""
)
MILEPOSTS_BETWEEN = sql.SQL(
    _MILEPOSTS + "WHERE m.seq %% %s = 0 AND m.results_offset > %s AND m.results_offset < %s ORDER BY m.seq"
)
PROJECTORS = sql.SQL("""
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s""")
SHOWN = sql.SQL("""
    SELECT a.next_offset, a.seq, s.snapshot_id, s.schema_version FROM commitlog.applied a,
    (SELECT snapshot_id, schema_version FROM ducklake_snapshot ORDER BY snapshot_id DESC LIMIT 1) s""")
SNAPSHOT_BEFORE = sql.SQL("""
    SELECT max(snapshot_id), min(snapshot_id) FROM ducklake_snapshot WHERE snapshot_time <= %s""")
OLDEST_SNAPSHOT = sql.SQL("""
    SELECT snapshot_id, snapshot_time FROM ducklake_snapshot ORDER BY snapshot_id LIMIT 1""")
SNAPSHOT_RANGE = sql.SQL("""
    SELECT min(snapshot_id), max(snapshot_id), EXISTS (SELECT FROM ducklake_snapshot WHERE snapshot_id = %s)
    FROM ducklake_snapshot""")
SNAPSHOTS = sql.SQL("""
    SELECT s.snapshot_id, s.snapshot_time, o.writer_id, o.change_kinds, c.author, c.commit_message, c.commit_extra_info
    FROM ducklake_snapshot s LEFT JOIN ducklake_snapshot_changes c USING (snapshot_id)
    LEFT JOIN commitlog.outcomes o USING (snapshot_id)
    WHERE s.snapshot_id < coalesce(%(before)s, 9223372036854775807) AND (%(table)s::bigint IS NULL
        OR c.changes_made ~ %(entry)s
        OR s.snapshot_id IN (SELECT begin_snapshot FROM ducklake_table WHERE table_id = %(table)s))
    ORDER BY s.snapshot_id DESC LIMIT %(limit)s""")
ONLY_BLIND_APPENDS = sql.SQL("""
    SELECT NOT EXISTS (SELECT FROM ducklake_snapshot_changes c LEFT JOIN commitlog.outcomes o USING (snapshot_id)
    WHERE c.snapshot_id > %(after)s AND c.snapshot_id <= %(upto)s AND c.changes_made ~ %(entry)s
        AND (o.isolation, o.change_kinds) IS DISTINCT FROM ('SNAPSHOT', 'APPEND'))""")
LOG_SETTINGS = sql.SQL("SELECT settings FROM commitlog.log_settings")
DATA_PATH = sql.SQL("SELECT value FROM ducklake_metadata WHERE key = 'data_path' AND scope IS NULL")
SCHEMAS_AT = sql.SQL("""
    SELECT schema_name, path FROM ducklake_schema WHERE begin_snapshot <= %s AND (end_snapshot IS NULL
    OR end_snapshot > %s)""")
TABLES_AT = sql.SQL("""
    SELECT s.schema_name, t.table_name, t.table_id FROM ducklake_table t JOIN ducklake_schema s USING (schema_id)
    WHERE t.begin_snapshot <= %s AND (t.end_snapshot IS NULL OR t.end_snapshot > %s)
    AND s.begin_snapshot <= %s AND (s.end_snapshot IS NULL OR s.end_snapshot > %s) ORDER BY 1, 2""")
SCHEMAS_WITH_VIEWS_AT = sql.SQL("""
    SELECT DISTINCT s.schema_name FROM ducklake_view v JOIN ducklake_schema s USING (schema_id)
    WHERE v.begin_snapshot <= %s AND (v.end_snapshot IS NULL OR v.end_snapshot > %s)
    AND s.begin_snapshot <= %s AND (s.end_snapshot IS NULL OR s.end_snapshot > %s)""")
COLUMN_NAMES_EVER = sql.SQL("""
    SELECT DISTINCT column_name, column_id FROM ducklake_column WHERE table_id = %s AND parent_column IS NULL""")
COLUMN_ENDS = sql.SQL("""
    SELECT column_name, column_id, begin_snapshot, end_snapshot FROM ducklake_column
    WHERE table_id = %s AND parent_column IS NULL AND end_snapshot IS NOT NULL ORDER BY end_snapshot DESC""")
NAMINGS = sql.SQL("""
    WITH called AS (
        SELECT t.table_id, t.begin_snapshot, t.end_snapshot
        FROM (SELECT FROM ducklake_snapshot LIMIT 1) gate, ducklake_table t JOIN ducklake_schema s USING (schema_id)
        WHERE lower(t.table_name) = lower(%(table)s) AND lower(s.schema_name) = lower(%(schema)s)),
    spans AS (
        SELECT begin_snapshot, end_snapshot FROM called UNION ALL
        SELECT c.begin_snapshot, c.end_snapshot FROM ducklake_column c
        WHERE c.table_id IN (SELECT table_id FROM called) AND c.parent_column IS NULL)
    SELECT begin_snapshot AS at FROM spans UNION SELECT end_snapshot FROM spans WHERE end_snapshot IS NOT NULL
    ORDER BY at DESC""")
COLUMN_TYPES_BEFORE = sql.SQL("""
    SELECT column_id, column_type, end_snapshot FROM ducklake_column c
    WHERE table_id = %s AND parent_column IS NULL AND begin_snapshot < end_snapshot AND EXISTS (
        SELECT FROM ducklake_column n WHERE n.table_id = c.table_id AND n.column_id = c.column_id
        AND n.begin_snapshot = c.end_snapshot AND n.column_type <> c.column_type)
    ORDER BY end_snapshot""")
_TABLE_AT = """
    SELECT t.table_id, t.table_name, t.schema_id, s.schema_name,
        (SELECT value FROM ducklake_metadata WHERE key = 'data_path' AND scope IS NULL) || s.path || t.path,
        (SELECT definition FROM commitlog.table_definitions d WHERE d.table_id = t.table_id),
        (SELECT properties FROM commitlog.earlier_properties p
            WHERE p.table_id = t.table_id AND p.end_snapshot > %(snapshot)s ORDER BY p.end_snapshot LIMIT 1),
        (SELECT coalesce(json_agg(json_build_array(column_id, column_name, column_type, initial_default, default_value,
                nulls_allowed, parent_column) ORDER BY column_order, column_id), '[]')
            FROM ducklake_column c WHERE c.table_id = t.table_id
            AND c.begin_snapshot <= %(snapshot)s AND (c.end_snapshot IS NULL OR c.end_snapshot > %(snapshot)s)),
        (SELECT coalesce(json_agg(json_build_array(i.partition_id, c.column_id, c.transform)
                ORDER BY c.partition_key_index), '[]')
            FROM ducklake_partition_info i JOIN ducklake_partition_column c USING (partition_id, table_id)
            WHERE i.table_id = t.table_id
            AND i.begin_snapshot <= %(snapshot)s AND (i.end_snapshot IS NULL OR i.end_snapshot > %(snapshot)s))
    FROM (SELECT FROM ducklake_snapshot LIMIT 1) gate, ducklake_table t JOIN ducklake_schema s USING (schema_id)
    WHERE t.begin_snapshot <= %(snapshot)s AND (t.end_snapshot IS NULL OR t.end_snapshot > %(snapshot)s)
    AND s.begin_snapshot <= %(snapshot)s AND (s.end_snapshot IS NULL OR s.end_snapshot > %(snapshot)s)"""
TABLE_AT = sql.SQL(
    _TABLE_AT + " AND lower(t.table_name) = lower(%(table)s) AND lower(s.schema_name) = lower(%(schema)s)"
)
"""One statement sees one moment; like every reader of several tables it opens ``ducklake_snapshot`` first, see ``at_once``."""
EACH_TABLE_AT = sql.SQL(_TABLE_AT + " ORDER BY s.schema_name, t.table_name")

_FILE_COLUMNS = """
    SELECT f.data_file_id, f.path, f.path_is_relative, f.record_count, f.file_size_bytes, f.footer_size, f.row_id_start,
        f.begin_snapshot, f.mapping_id, f.partition_id"""
_FILES_AT = (
    _FILE_COLUMNS
    + """, d.path, d.path_is_relative, d.delete_count FROM ducklake_data_file f
    LEFT JOIN ducklake_delete_file d ON d.data_file_id = f.data_file_id AND d.begin_snapshot <= %s
        AND (d.end_snapshot IS NULL OR d.end_snapshot > %s)
    WHERE f.table_id = %s AND f.begin_snapshot <= %s
    AND (f.end_snapshot IS NULL OR f.end_snapshot > %s){conditions}
    ORDER BY f.data_file_id"""
)
FILES_AT, NEWEST_FILES_AT = sql.SQL(_FILES_AT), sql.SQL(_FILES_AT + " DESC LIMIT %s")
FILE_TOTALS_AT = sql.SQL("""
    SELECT count(*), coalesce(sum(f.record_count), 0), coalesce(sum(d.delete_count), 0), coalesce(sum(f.file_size_bytes), 0)
    FROM ducklake_data_file f
    LEFT JOIN ducklake_delete_file d ON d.data_file_id = f.data_file_id AND d.begin_snapshot <= %(snapshot)s
        AND (d.end_snapshot IS NULL OR d.end_snapshot > %(snapshot)s)
    WHERE f.table_id = %(table)s AND f.begin_snapshot <= %(snapshot)s
    AND (f.end_snapshot IS NULL OR f.end_snapshot > %(snapshot)s)""")
POSITIONS_DELETED_AT = sql.SQL("""
    SELECT count(*) FROM {} p JOIN ducklake_data_file f ON f.data_file_id = p.file_id
    WHERE p.begin_snapshot <= %(snapshot)s AND f.begin_snapshot <= %(snapshot)s
    AND (f.end_snapshot IS NULL OR f.end_snapshot > %(snapshot)s)""")
FILE_COUNT_AT = sql.SQL("""
    SELECT count(*) FROM ducklake_data_file
    WHERE table_id = %s AND begin_snapshot <= %s AND (end_snapshot IS NULL OR end_snapshot > %s)""")
FILE_COUNTS_AT = sql.SQL("""
    SELECT table_id, count(*) FROM ducklake_data_file
    WHERE begin_snapshot <= %s AND (end_snapshot IS NULL OR end_snapshot > %s) GROUP BY 1""")
FILES_BY_ID = sql.SQL(
    _FILE_COLUMNS + ", NULL, NULL, NULL FROM ducklake_data_file f WHERE f.data_file_id = ANY(%s) ORDER BY 1"
)
LIVE_FILES = sql.SQL("""
    SELECT f.data_file_id, f.path, o.proposal_id, o.writer_id, o.writer_seq FROM ducklake_data_file f
    LEFT JOIN commitlog.outcomes o ON o.snapshot_id = f.begin_snapshot
    WHERE f.table_id = %s AND f.end_snapshot IS NULL AND f.path = ANY(%s)""")
POSITIONS_DELETED = sql.SQL("""
    SELECT file_id, string_agg(int8send(row_id), ''::bytea) FROM {} WHERE begin_snapshot <= %s GROUP BY 1""")
ROWS_TABLES = sql.SQL("""
    SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = %s ORDER BY schema_version""")
PARTITION_VALUES = sql.SQL("""
    SELECT data_file_id, array_agg(partition_value ORDER BY partition_key_index)
    FROM ducklake_file_partition_value WHERE table_id = %s AND data_file_id = ANY(%s)
    GROUP BY 1 HAVING count(*) = count(DISTINCT partition_key_index)""")
MAPPINGS = sql.SQL("""
    SELECT mapping_id, column_id, source_name, target_field_id, parent_column FROM ducklake_name_mapping
    WHERE mapping_id = ANY(%s) ORDER BY mapping_id, column_id""")
ROWS_COLUMNS = sql.SQL("""
    SELECT d.table_name, c.column_name, c.column_id FROM ducklake_inlined_data_tables d
    JOIN ducklake_schema_versions v ON v.table_id = d.table_id AND v.schema_version = d.schema_version
    JOIN ducklake_column c ON c.table_id = d.table_id AND c.parent_column IS NULL
        AND c.begin_snapshot <= v.begin_snapshot AND (c.end_snapshot IS NULL OR c.end_snapshot > v.begin_snapshot)
    WHERE d.table_id = %s AND d.table_name = ANY(%s) ORDER BY d.schema_version, c.column_order""")
ROWS_OF_COLUMNS = sql.SQL("""
    SELECT {} FROM {} WHERE begin_snapshot <= %s AND (end_snapshot IS NULL OR end_snapshot > %s){}
    ORDER BY row_id LIMIT %s""")
AMONG = sql.SQL(" AND {} = ANY(%s::{})")
ROW_COUNT_AT = sql.SQL("""
    SELECT count(*) FROM {} WHERE begin_snapshot <= %s AND (end_snapshot IS NULL OR end_snapshot > %s)""")
OUTCOME = sql.SQL("""
    SELECT * FROM commitlog.outcomes WHERE proposal_id = %s ORDER BY (verdict = 'DUPLICATE'), seq LIMIT 1""")
PROPOSAL_ENDING = sql.SQL("""
    SELECT proposal_id FROM commitlog.outcomes WHERE writer_id = %s AND verdict = 'COMMITTED'
    AND substring(uuid_send(proposal_id) FROM 9) = %s ORDER BY seq DESC LIMIT 1""")
COMMITTED_AS = sql.SQL("""
    SELECT * FROM commitlog.outcomes WHERE writer_id = %s AND writer_seq = %s AND verdict = 'COMMITTED'""")
DECIDED_OFFSET = sql.SQL("""
    SELECT source_offset + 1 FROM commitlog.outcomes WHERE source_partition = %s ORDER BY seq DESC LIMIT 1""")


def column(name: str) -> sql.Identifier:
    """A user's column in a query that has parameters, for one of which a % is taken, as in "discount %"."""
    return sql.Identifier(name.replace("%", "%%"))
