"""How a verdict is reached; ``decide`` is where to begin, its head says how a proposal goes through all of it.

What may stand beside what was committed:
    conflict_matrix every pair of kinds: by which rule they meet, such as a DELETE and a compaction
    conflict_rules  the rules that the matrix names
    conflicts       what a change touches, what it hits, how a conflict reads
    reads, proofs   what was read and has changed; what statistics prove of a filter
    append_blocks   the newest file since a base that a filter may match, without a look at each
    row_conflicts, row_references
                    rows of keyed tables that meet by key, and by foreign key
    site_rows, standing_rows
                    rows that a link brings from another site, and which of all of them stand
Whether it could be at all, and what it is given:
    form            what a proposal says of itself
    changeset       its changes in order, each handed to the judge of its kind:
    objects, files, rows
                    schemas, tables and views; APPEND, DELETE and COMPACT; row changes and FLUSH
    new_files       what new files say of themselves
One proposal being looked at:
    plan            made of names, given_ids, bounds and row_overlay, each of which knows one thing
    rules           what can change a verdict beside the state and the proposal
    answers         the outcome in the making; answers that are repeated; receipts
    shortening      the outcome that would be too large
"""
