"""Taking over a lake that the stock DuckLake client made: its history, turned into the first proposals of a log."""
