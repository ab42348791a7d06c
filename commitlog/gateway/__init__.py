"""Stock DuckDB clients write: PostgreSQL's wire is passed through, and a client's commit becomes a proposal."""
