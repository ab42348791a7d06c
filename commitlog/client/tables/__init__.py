"""What a client knows of a table: names, columns, partition keys, values, and what a transaction does to them."""
