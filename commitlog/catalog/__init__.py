"""The catalog: a projection of the log into PostgreSQL that every DuckLake 1.0 reader opens unchanged (rules.md 7)."""
