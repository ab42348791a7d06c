"""The pure core: what a proposal is, what conflicts with what, and how a verdict is reached.

Nothing in this room reads a clock, a file, a socket or the environment: everything comes in as an argument and
everything that was decided goes out as a value.

Four floors, none of which imports a higher one: ``model`` (the values), ``state`` (the sequencer's memory, and ``replay``),
``deciding`` (``decide``, and what conflicts with what), ``again`` (decisions made again, to verify them or to ask "what if").
"""
