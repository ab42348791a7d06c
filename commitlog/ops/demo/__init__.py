"""`commitlog demo`: what it shows, and its data."""
