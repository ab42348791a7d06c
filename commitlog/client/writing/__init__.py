"""Rows as programs have them, written as files of a table: fitted, split, described, and removed when nobody needs them."""
