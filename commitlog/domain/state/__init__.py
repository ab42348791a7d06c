"""The sequencer's memory: how it is indexed, how an outcome changes it, what it forgets, how it is written down.

Every change of it begins in ``replaying``:
    index           objects, names, the window and the answers: what ``decide`` looks up
    files, rows     live data files and rows, and what happened to them within the window
    row_keys        the one text by which keys, UNIQUE values and references are compared
    replaying       ``replay``: what an outcome changes
    remembering     answers that can be repeated, and writers; ``duplicates`` holds them packed
    forgetting      what no base can see any more
What several sites have made of one row:
    digest          which of two versions is newer
    sites           which versions nobody has superseded, and which of them stands
    claims          which of them get the UNIQUE values that several ask for
The state as plain values, for checkpoints:
    dumping         all of it; ``dumped_rows`` the rows
"""
