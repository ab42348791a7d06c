"""`format("commitlog")`: tables, and the log itself, as a Spark data source."""
