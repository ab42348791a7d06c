"""An outcome as rows of the catalog.

``snapshots``: what every commit writes, its snapshot and its changeset, and who writes the rest:
``objects``: schemas, tables, columns and views; ``files``: data and delete files, and their ``statistics``; ``rows``: the
rows that are in no file; ``expiry``: what goes when snapshots do. Snapshot 0 is in the catalog from its creation
(``catalog.migrations``).
"""
