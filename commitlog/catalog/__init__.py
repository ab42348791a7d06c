"""The catalog: a projection of the log into PostgreSQL that every DuckLake 1.0 reader opens unchanged (rules.md 7).

What is there:
    tables          DuckLake's tables and our own
    migrations      makes them (and snapshot 0), or brings older ones up to this version
    folders         where the files of a schema or table lie; ``places`` every path that the catalog refers to
    guard           who may write; ``grants`` carries what users may over to tables that take the place of others
Whoever writes it:
    projector       follows the results; ``projector_status`` is what it tells of itself
    projecting      an outcome as rows
    pacing          how soon it writes again; ``shares`` how much in one SQL transaction
    written         the catalog as it is written: its position, and rows
    writing         rows on their way; ``copying`` and ``packing`` send them
    rebuild         makes it anew beside the live one
Whoever reads it:
    connecting      connections, and what PostgreSQL's errors mean
    reader          a connection that only reads; ``watching`` waits until the catalog is far enough
    queries         what readers ask; ``query_statements`` is its SQL
    pruning         which files a filter rules out
    outside_files   rows that are in no file; ``together`` looks at many tables at once
    agreed_snapshots
                    one snapshot for a query of many processes
    history         every outcome, the newest first
    taken_over      what it has of other sites
    snapshot_diff   what lies between two snapshots; ``table_changes`` the rows of one table
Whether it is well:
    checks          the catalog beside the log, one thing after another; ``census`` counts what it holds, to compare
    alterations     what somebody has changed on the tables themselves
"""
