"""A table at a snapshot: as a native DataFrame, or as Arrow batches where Spark takes rows from Python."""
