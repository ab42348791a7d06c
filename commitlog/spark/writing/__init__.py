"""Rows as files of a table, and one proposal for them."""
