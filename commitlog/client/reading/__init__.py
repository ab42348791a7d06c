"""Rows of tables for Python: which files hold them at a snapshot, and what is in those, as Arrow."""
