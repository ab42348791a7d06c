"""DELETE, UPDATE, MERGE and overwrite: which rows go, which come, and one proposal for both."""
