-- A catalog of version 1, without rows.
CREATE SCHEMA IF NOT EXISTS commitlog;
CREATE TABLE ducklake_column (
	column_id BIGINT,
	begin_snapshot BIGINT,
	end_snapshot BIGINT,
	table_id BIGINT,
	column_order BIGINT,
	column_name VARCHAR,
	column_type VARCHAR,
	initial_default VARCHAR,
	default_value VARCHAR,
	nulls_allowed BOOLEAN,
	parent_column BIGINT,
	default_value_type VARCHAR,
	default_value_dialect VARCHAR
);
CREATE INDEX ducklake_column_by_table ON ducklake_column (table_id);
CREATE TABLE ducklake_column_mapping (
	mapping_id BIGINT,
	table_id BIGINT,
	type VARCHAR
);
CREATE TABLE ducklake_column_tag (
	table_id BIGINT,
	column_id BIGINT,
	begin_snapshot BIGINT,
	end_snapshot BIGINT,
	key VARCHAR,
	value VARCHAR
);
CREATE TABLE ducklake_data_file (
	data_file_id BIGINT NOT NULL,
	table_id BIGINT,
	begin_snapshot BIGINT,
	end_snapshot BIGINT,
	file_order BIGINT,
	path VARCHAR,
	path_is_relative BOOLEAN,
	file_format VARCHAR,
	record_count BIGINT,
	file_size_bytes BIGINT,
	footer_size BIGINT,
	row_id_start BIGINT,
	partition_id BIGINT,
	encryption_key VARCHAR,
	mapping_id BIGINT,
	partial_max BIGINT,
	PRIMARY KEY (data_file_id)
);
CREATE INDEX ducklake_data_file_by_table ON ducklake_data_file (table_id, begin_snapshot);
CREATE TABLE ducklake_delete_file (
	delete_file_id BIGINT NOT NULL,
	table_id BIGINT,
	begin_snapshot BIGINT,
	end_snapshot BIGINT,
	data_file_id BIGINT,
	path VARCHAR,
	path_is_relative BOOLEAN,
	format VARCHAR,
	delete_count BIGINT,
	file_size_bytes BIGINT,
	footer_size BIGINT,
	encryption_key VARCHAR,
	partial_max BIGINT,
	PRIMARY KEY (delete_file_id)
);
CREATE INDEX ducklake_delete_file_by_file ON ducklake_delete_file (data_file_id);
CREATE INDEX ducklake_delete_file_by_table ON ducklake_delete_file (table_id);
CREATE TABLE ducklake_file_column_stats (
	data_file_id BIGINT,
	table_id BIGINT,
	column_id BIGINT,
	column_size_bytes BIGINT,
	value_count BIGINT,
	null_count BIGINT,
	min_value VARCHAR,
	max_value VARCHAR,
	contains_nan BOOLEAN,
	extra_stats VARCHAR
);
CREATE INDEX ducklake_file_column_stats_by_file ON ducklake_file_column_stats (data_file_id);
CREATE TABLE ducklake_file_partition_value (
	data_file_id BIGINT,
	table_id BIGINT,
	partition_key_index BIGINT,
	partition_value VARCHAR
);
CREATE INDEX ducklake_file_partition_value_by_file ON ducklake_file_partition_value (data_file_id);
CREATE TABLE ducklake_file_variant_stats (
	data_file_id BIGINT,
	table_id BIGINT,
	column_id BIGINT,
	variant_path VARCHAR,
	shredded_type VARCHAR,
	column_size_bytes BIGINT,
	value_count BIGINT,
	null_count BIGINT,
	min_value VARCHAR,
	max_value VARCHAR,
	contains_nan BOOLEAN,
	extra_stats VARCHAR
);
CREATE TABLE ducklake_files_scheduled_for_deletion (
	data_file_id BIGINT,
	path VARCHAR,
	path_is_relative BOOLEAN,
	schedule_start TIMESTAMP WITH TIME ZONE
);
CREATE TABLE ducklake_inlined_data_tables (
	table_id BIGINT,
	table_name VARCHAR,
	schema_version BIGINT
);
CREATE TABLE ducklake_macro (
	schema_id BIGINT,
	macro_id BIGINT,
	macro_name VARCHAR,
	begin_snapshot BIGINT,
	end_snapshot BIGINT
);
CREATE TABLE ducklake_macro_impl (
	macro_id BIGINT,
	impl_id BIGINT,
	dialect VARCHAR,
	sql VARCHAR,
	type VARCHAR
);
CREATE TABLE ducklake_macro_parameters (
	macro_id BIGINT,
	impl_id BIGINT,
	column_id BIGINT,
	parameter_name VARCHAR,
	parameter_type VARCHAR,
	default_value VARCHAR,
	default_value_type VARCHAR
);
CREATE TABLE ducklake_metadata (
	key VARCHAR NOT NULL,
	value VARCHAR NOT NULL,
	scope VARCHAR,
	scope_id BIGINT
);
CREATE TABLE ducklake_name_mapping (
	mapping_id BIGINT,
	column_id BIGINT,
	source_name VARCHAR,
	target_field_id BIGINT,
	parent_column BIGINT,
	is_partition BOOLEAN
);
CREATE TABLE ducklake_partition_column (
	partition_id BIGINT,
	table_id BIGINT,
	partition_key_index BIGINT,
	column_id BIGINT,
	transform VARCHAR
);
CREATE TABLE ducklake_partition_info (
	partition_id BIGINT,
	table_id BIGINT,
	begin_snapshot BIGINT,
	end_snapshot BIGINT
);
CREATE TABLE ducklake_schema (
	schema_id BIGINT NOT NULL,
	schema_uuid UUID,
	begin_snapshot BIGINT,
	end_snapshot BIGINT,
	schema_name VARCHAR,
	path VARCHAR,
	path_is_relative BOOLEAN,
	PRIMARY KEY (schema_id)
);
CREATE TABLE ducklake_schema_versions (
	begin_snapshot BIGINT,
	schema_version BIGINT,
	table_id BIGINT
);
CREATE TABLE ducklake_snapshot (
	snapshot_id BIGINT NOT NULL,
	snapshot_time TIMESTAMP WITH TIME ZONE,
	schema_version BIGINT,
	next_catalog_id BIGINT,
	next_file_id BIGINT,
	PRIMARY KEY (snapshot_id)
);
CREATE TABLE ducklake_snapshot_changes (
	snapshot_id BIGINT NOT NULL,
	changes_made VARCHAR,
	author VARCHAR,
	commit_message VARCHAR,
	commit_extra_info VARCHAR,
	PRIMARY KEY (snapshot_id)
);
CREATE TABLE ducklake_sort_expression (
	sort_id BIGINT,
	table_id BIGINT,
	sort_key_index BIGINT,
	expression VARCHAR,
	dialect VARCHAR,
	sort_direction VARCHAR,
	null_order VARCHAR
);
CREATE TABLE ducklake_sort_info (
	sort_id BIGINT,
	table_id BIGINT,
	begin_snapshot BIGINT,
	end_snapshot BIGINT
);
CREATE TABLE ducklake_table (
	table_id BIGINT,
	table_uuid UUID,
	begin_snapshot BIGINT,
	end_snapshot BIGINT,
	schema_id BIGINT,
	table_name VARCHAR,
	path VARCHAR,
	path_is_relative BOOLEAN
);
CREATE TABLE ducklake_table_column_stats (
	table_id BIGINT,
	column_id BIGINT,
	contains_null BOOLEAN,
	contains_nan BOOLEAN,
	min_value VARCHAR,
	max_value VARCHAR,
	extra_stats VARCHAR
);
CREATE UNIQUE INDEX ducklake_table_column_stats_by_column ON ducklake_table_column_stats (table_id, column_id);
CREATE TABLE ducklake_table_stats (
	table_id BIGINT,
	record_count BIGINT,
	next_row_id BIGINT,
	file_size_bytes BIGINT
);
CREATE UNIQUE INDEX ducklake_table_stats_by_table ON ducklake_table_stats (table_id);
CREATE TABLE ducklake_tag (
	object_id BIGINT,
	begin_snapshot BIGINT,
	end_snapshot BIGINT,
	key VARCHAR,
	value VARCHAR
);
CREATE TABLE ducklake_view (
	view_id BIGINT,
	view_uuid UUID,
	begin_snapshot BIGINT,
	end_snapshot BIGINT,
	schema_id BIGINT,
	view_name VARCHAR,
	dialect VARCHAR,
	sql VARCHAR,
	column_aliases VARCHAR
);
CREATE TABLE commitlog.applied (
	only_row SMALLINT NOT NULL,
	log_id UUID NOT NULL,
	seq BIGINT NOT NULL,
	epoch BIGINT NOT NULL,
	hash BYTEA NOT NULL,
	results_offset BIGINT NOT NULL,
	applied_at TIMESTAMP WITH TIME ZONE NOT NULL,
	PRIMARY KEY (only_row)
);
CREATE TABLE commitlog.catalog_version (
	only_row SMALLINT NOT NULL,
	version INTEGER NOT NULL,
	PRIMARY KEY (only_row)
);
CREATE TABLE commitlog.flushed_rows (
	table_id BIGINT NOT NULL,
	row_id BIGINT NOT NULL,
	data_file_id BIGINT NOT NULL,
	position BIGINT NOT NULL,
	PRIMARY KEY (table_id, row_id)
);
CREATE TABLE commitlog.outcomes (
	seq BIGINT NOT NULL,
	proposal_id UUID,
	writer_id TEXT,
	writer_epoch BIGINT,
	writer_seq BIGINT,
	base_snapshot_id BIGINT,
	isolation TEXT,
	change_kinds TEXT,
	verdict TEXT NOT NULL,
	snapshot_id BIGINT,
	head_snapshot_id BIGINT NOT NULL,
	reason TEXT,
	detail TEXT,
	conflict_count INTEGER NOT NULL,
	conflicts JSONB,
	resolutions JSONB,
	original_seq BIGINT,
	decided_at TIMESTAMP WITH TIME ZONE NOT NULL,
	epoch BIGINT NOT NULL,
	source_partition INTEGER NOT NULL,
	source_offset BIGINT NOT NULL,
	PRIMARY KEY (seq)
);
CREATE INDEX outcomes_by_proposal ON commitlog.outcomes (proposal_id);
CREATE TABLE commitlog.table_definitions (
	table_id BIGINT NOT NULL,
	definition JSONB NOT NULL,
	PRIMARY KEY (table_id)
);
CREATE VIEW commitlog."commits" AS
        SELECT s.snapshot_id, s.snapshot_time, o.proposal_id, o.writer_id, o.seq, o.change_kinds, c.changes_made,
               c.author, c.commit_message AS message, c.commit_extra_info AS extra
        FROM ducklake_snapshot s
        LEFT JOIN ducklake_snapshot_changes c USING (snapshot_id)
        LEFT JOIN commitlog.outcomes o USING (snapshot_id);
CREATE VIEW commitlog."conflict_history" AS
        SELECT o.decided_at, o.seq, o.proposal_id, o.writer_id, x.entry ->> 'kind' AS kind,
               x.entry -> 'object' ->> 'schema' AS schema_name, x.entry -> 'object' ->> 'table' AS table_name,
               x.entry -> 'object' ->> 'row_key' AS row_key, (x.entry -> 'object' ->> 'data_file_id')::bigint AS data_file_id,
               coalesce(x.entry ->> 'action', 'REFUSED') AS resolution, x.entry ->> 'policy' AS policy,
               x.entry -> 'committed_row' AS committed_row, x.entry -> 'proposed_row' AS proposed_row, x.entry -> 'row' AS row,
               (x.entry ->> 'committed_snapshot_id')::bigint AS committed_snapshot_id,
               x.entry ->> 'committed_proposal_id' AS committed_proposal_id,
               x.entry ->> 'committed_writer_id' AS committed_writer_id
        FROM commitlog.outcomes o
        CROSS JOIN LATERAL jsonb_array_elements(coalesce(o.conflicts, '[]') || coalesce(o.resolutions, '[]')) AS x(entry);
CREATE VIEW commitlog."writers" AS
        SELECT writer_id, count(*) FILTER (WHERE verdict = 'COMMITTED') AS committed,
               count(*) FILTER (WHERE verdict = 'REJECTED') AS rejected,
               count(*) FILTER (WHERE verdict = 'DUPLICATE') AS duplicates,
               max(writer_epoch) AS writer_epoch, max(decided_at) AS last_decided_at, max(snapshot_id) AS last_snapshot_id
        FROM commitlog.outcomes WHERE writer_id IS NOT NULL GROUP BY writer_id;
CREATE VIEW commitlog."tables" AS
        SELECT t.table_id, s.schema_name, t.table_name, coalesce(x.record_count, 0) AS record_count,
               coalesce(x.file_size_bytes, 0) AS file_size_bytes, d.definition -> 'primary_key' AS primary_key,
               d.definition -> 'properties' AS properties
        FROM ducklake_table t
        JOIN ducklake_schema s ON s.schema_id = t.schema_id AND s.end_snapshot IS NULL
        LEFT JOIN ducklake_table_stats x ON x.table_id = t.table_id
        LEFT JOIN commitlog.table_definitions d ON d.table_id = t.table_id
        WHERE t.end_snapshot IS NULL;
CREATE VIEW commitlog."lag" AS
        SELECT a.seq AS applied_seq, a.results_offset, a.applied_at, (SELECT max(snapshot_id) FROM ducklake_snapshot) AS
               head_snapshot_id, now() - a.applied_at AS since FROM commitlog.applied a;
CREATE OR REPLACE FUNCTION commitlog.refuse_foreign_commit() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF current_setting('commitlog.projector', true) IS DISTINCT FROM 'on' THEN
                    RAISE EXCEPTION 'this DuckLake is written by commitlog: nothing was committed. Propose the change instead (commitlog submit, the Python client, or Spark); reading works as ever' USING ERRCODE = 'insufficient_privilege';
                END IF;
                RETURN NULL;
            END $$;
CREATE OR REPLACE TRIGGER commitlog_guard BEFORE INSERT OR UPDATE OR DELETE ON ducklake_snapshot
                FOR EACH STATEMENT EXECUTE FUNCTION commitlog.refuse_foreign_commit();
CREATE OR REPLACE TRIGGER commitlog_guard BEFORE INSERT OR UPDATE OR DELETE ON ducklake_snapshot_changes
                FOR EACH STATEMENT EXECUTE FUNCTION commitlog.refuse_foreign_commit();
CREATE OR REPLACE TRIGGER commitlog_guard BEFORE INSERT OR UPDATE OR DELETE ON ducklake_metadata
                FOR EACH STATEMENT EXECUTE FUNCTION commitlog.refuse_foreign_commit();
CREATE OR REPLACE TRIGGER commitlog_guard BEFORE INSERT OR UPDATE OR DELETE ON ducklake_data_file
                FOR EACH STATEMENT EXECUTE FUNCTION commitlog.refuse_foreign_commit();
