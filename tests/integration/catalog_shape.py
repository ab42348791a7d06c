"""What a catalog is made of, as PostgreSQL knows it, so that two of them can be compared."""

from __future__ import annotations

import psycopg

_QUERIES = {
    "columns": """SELECT concat_ws(' ', n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
                      pg_get_expr(d.adbin, d.adrelid))
                  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
                  LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
                  WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'v') AND n.nspname = ANY(%s)""",
    "indexes": "SELECT indexdef FROM pg_indexes WHERE schemaname = ANY(%s)",
    "constraints": """SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint
                      WHERE connamespace::regnamespace::text = ANY(%s)""",
    "views": "SELECT concat_ws(' ', schemaname, viewname, definition) FROM pg_views WHERE schemaname = ANY(%s)",
    "triggers": """SELECT pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
                   WHERE NOT t.tgisinternal AND c.relnamespace::regnamespace::text = ANY(%s)""",
    "functions": "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace::regnamespace::text = ANY(%s)",
    "grants": """SELECT concat_ws(' ', c.relnamespace::regnamespace, c.relname, a) FROM pg_class c, unnest(c.relacl) a
                 WHERE c.relkind IN ('r', 'v') AND c.relnamespace::regnamespace::text = ANY(%s)""",
}


def shape(url: str) -> dict[str, list[str]]:
    """Columns, indexes, constraints, views, triggers, functions and grants of a catalog, each sorted."""
    with psycopg.connect(url) as conn:
        return {
            name: sorted(row for (row,) in conn.execute(query.encode(), (["public", "commitlog"],)).fetchall())
            for name, query in _QUERIES.items()
        }
