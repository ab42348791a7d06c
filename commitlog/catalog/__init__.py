"""The catalog: a projection of the log into PostgreSQL that every DuckLake 1.0 reader opens unchanged (DESIGN 7)."""
