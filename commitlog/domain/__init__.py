"""The pure core: what a proposal is, what conflicts with what, and how a verdict is reached.

Nothing in this room reads a clock, a file, a socket or the environment: everything comes in as an argument and
everything that was decided goes out as a value.
"""
