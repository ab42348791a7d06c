"""Compaction, flush, expiry, and the verification of a whole log."""
