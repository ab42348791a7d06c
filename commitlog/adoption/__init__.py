"""Taking over a lake that the stock DuckLake client made: its history, turned into the first proposals of a log.

On the way of a history:
    source          the lake's catalog, as plain rows
    definitions     its schemas, tables and views at each snapshot, and the changes between; ``parts`` cuts what is too large
    rows            which files and rows began and ended when; ``rowids`` gives each row its id in the log
    files           its Parquet files; ``file_records`` what its catalog says of them
    translation     all of it as proposals, decided in memory
"""
