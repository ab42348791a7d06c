"""The catalog: a projection of the log into PostgreSQL that every DuckLake 1.0 reader opens unchanged (rules.md 7).

``projector`` follows the results, ``projecting`` turns an outcome into rows, ``writing`` sends them; ``migrations`` makes the
catalog (and snapshot 0), ``rebuild`` makes it anew, ``guard`` keeps others from writing. ``reader``, ``queries`` and
``pruning`` ask it, ``watching`` waits for it, ``snapshot_diff`` and ``table_changes`` tell what lies between two snapshots;
``checks`` holds it against itself.
"""
