"""One snapshot for each query of readers that run in many processes: they agree on it here, and nowhere else can they.

A row says which snapshot a query reads. Whoever asks first decides, by a function that also those may call who only read
the catalog; a row is of no use when its query has ended, and goes after two days.
"""

from __future__ import annotations

from typing import LiteralString

QUERY_SNAPSHOTS_TABLE = "query_snapshots"
QUERY_SNAPSHOTS: LiteralString = """
    CREATE TABLE IF NOT EXISTS commitlog.query_snapshots (
        query TEXT PRIMARY KEY, snapshot_id BIGINT NOT NULL, agreed_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp());
    CREATE INDEX IF NOT EXISTS query_snapshots_by_time ON commitlog.query_snapshots (agreed_at);
    CREATE OR REPLACE FUNCTION commitlog.agree_on_snapshot(wanted TEXT, proposed BIGINT) RETURNS BIGINT
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    BEGIN
        IF proposed IS NOT NULL THEN
            DELETE FROM commitlog.query_snapshots WHERE agreed_at < clock_timestamp() - INTERVAL '2 days';
            INSERT INTO commitlog.query_snapshots (query, snapshot_id) VALUES (wanted, proposed) ON CONFLICT DO NOTHING;
        END IF;
        RETURN (SELECT snapshot_id FROM commitlog.query_snapshots WHERE query = wanted);
    END $$;
"""
AGREE: LiteralString = "SELECT commitlog.agree_on_snapshot(%s, %s)"
