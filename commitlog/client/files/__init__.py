"""Data files: what a Parquet footer says, where files may be, and whose the lake's folder is."""
